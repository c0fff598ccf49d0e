//! Mean, deviation and outliers of a sample of times.

use serde::Serialize;

/// The statistics of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistics {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (with n - 1); unknown for a single value.
    pub stddev: Option<f64>,
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Statistics {
    /// Of a sample that is not empty.
    pub(super) fn of(sample: &[f64]) -> Self {
        Self {
            mean: mean(sample),
            stddev: stddev(sample),
            median: median(sample),
            min: sample.iter().copied().fold(f64::INFINITY, f64::min),
            max: sample.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The standard deviation as a share of the mean.
    fn relative_stddev(&self) -> Option<f64> {
        (self.mean > 0.0).then_some(self.stddev? / self.mean)
    }
}

/// A ratio of two means, with its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: f64,
    /// Relative to the value; unknown if the deviation of one of the means is.
    pub(super) relative_error: Option<f64>,
}

impl Ratio {
    /// The relative errors of independent means add up in squares. `None` if one of the means is 0.
    pub(super) fn of(one: &Statistics, other: &Statistics) -> Option<Self> {
        if one.mean <= 0.0 || other.mean <= 0.0 {
            return None;
        }
        let relative_error = one
            .relative_stddev()
            .zip(other.relative_stddev())
            .map(|(one, other)| one.hypot(other));
        Some(Self {
            value: one.mean / other.mean,
            relative_error,
        })
    }
}

/// The mean of a sample that is not empty.
pub(super) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / count(sample.len())
}

fn stddev(sample: &[f64]) -> Option<f64> {
    let mean = mean(sample);
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    (sample.len() > 1).then(|| (squares / count(sample.len() - 1)).sqrt())
}

fn median(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 runs")]
fn count(count: usize) -> f64 {
    count as f64
}

/// How far an outlier is from the median, in median absolute deviations (MAD): ten standard
/// deviations. In a normal distribution a standard deviation is 1.4826 MAD. hyperfine uses the same
/// limit.
const OUTLIER_SCORE: f64 = 1.4826 * 10.0;

/// Which values of a sample are outliers, by their modified Z-scores: Iglewicz and Hoaglin, "How to
/// Detect and Handle Outliers", 1993.
pub(super) fn outliers(sample: &[f64]) -> Vec<bool> {
    let center = median(sample);
    let deviations: Vec<f64> = sample.iter().map(|value| (value - center).abs()).collect();
    // If most values are equal, the MAD is 0, and every other value is an outlier.
    let mad = median(&deviations).max(f64::EPSILON);
    deviations
        .iter()
        .map(|deviation| deviation / mad > OUTLIER_SCORE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    }

    #[test]
    fn a_sample_has_its_statistics() {
        // The results of Python's `statistics` module.
        let found = Statistics::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_near(found.mean, 5.0);
        assert_near(found.stddev.expect("of eight"), 2.138_089_935_299_395);
        assert_near(found.median, 4.5);
        assert_near(found.min, 2.0);
        assert_near(found.max, 9.0);
    }

    #[test]
    fn a_single_run_has_no_deviation() {
        let found = Statistics::of(&[3.5]);
        assert_eq!(
            found,
            Statistics {
                mean: 3.5,
                stddev: None,
                median: 3.5,
                min: 3.5,
                max: 3.5
            }
        );
    }

    #[test]
    fn the_error_of_a_ratio_is_propagated() {
        let one = Statistics {
            mean: 10.0,
            stddev: Some(0.3),
            ..Statistics::of(&[10.0])
        };
        let other = Statistics {
            mean: 4.0,
            stddev: Some(0.16),
            ..Statistics::of(&[4.0])
        };
        let ratio = Ratio::of(&one, &other).expect("neither is 0");
        assert_near(ratio.value, 2.5);
        // 3 % and 4 %.
        assert_near(ratio.relative_error.expect("both are known"), 0.05);
        let single = Statistics::of(&[4.0]);
        assert_eq!(
            Ratio::of(&one, &single)
                .expect("neither is 0")
                .relative_error,
            None
        );
    }

    #[test]
    fn there_is_no_ratio_to_no_time() {
        assert_eq!(
            Ratio::of(&Statistics::of(&[1.0]), &Statistics::of(&[0.0, 0.0])),
            None
        );
        assert_eq!(
            Ratio::of(&Statistics::of(&[0.0]), &Statistics::of(&[1.0])),
            None
        );
    }

    #[test]
    fn outliers_are_far_from_the_median() {
        assert_eq!(outliers(&[1.0]), [false]);
        assert_eq!(outliers(&[1000.0, 0.0]), [false; 2]);
        assert_eq!(outliers(&[0.9, 1.0, 1.1, 1.05]), [false; 4]);
        assert_eq!(
            outliers(&[1.0, 1.1, 0.9, 1.05, 9.0]),
            [false, false, false, false, true]
        );
        assert_eq!(
            outliers(&[9.0, 1.0, 1.1, 0.9, 1.05]),
            [true, false, false, false, false]
        );
        // If most values are equal, every other value is an outlier.
        assert_eq!(
            outliers(&[5.0, 5.0, 5.0, 5.0, 5.1]),
            [false, false, false, false, true]
        );
        assert_eq!(outliers(&[5.0; 4]), [false; 4]);
    }
}
