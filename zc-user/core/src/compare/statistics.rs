//! Mean, deviation and outliers of a sample of times.

use serde::{Deserialize, Serialize};

/// The statistics of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
    pub(super) fn from_sample(sample: &[f64]) -> Self {
        Self {
            mean: sample_mean(sample),
            stddev: standard_deviation(sample),
            median: sample_median(sample),
            min: sample.iter().copied().fold(f64::INFINITY, f64::min),
            max: sample.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// How many times longer this takes than another sample, and the standard deviation of that:
    /// the relative errors of independent means add up in squares. `None` if one of the means is 0.
    pub(super) fn ratio_to(&self, other: &Self) -> Option<(f64, Option<f64>)> {
        let ratio = self.mean / other.mean;
        let relative_error = |one: &Self| Some(one.stddev? / one.mean);
        let errors = relative_error(self).zip(relative_error(other));
        let stddev = errors.map(|(one, other)| one.hypot(other) * ratio);
        (self.mean > 0.0 && other.mean > 0.0).then_some((ratio, stddev))
    }
}

/// The mean of a sample that is not empty.
pub(super) fn sample_mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / length_as_f64(sample.len())
}

fn standard_deviation(sample: &[f64]) -> Option<f64> {
    let mean = sample_mean(sample);
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    (sample.len() > 1).then(|| (squares / length_as_f64(sample.len() - 1)).sqrt())
}

fn sample_median(sample: &[f64]) -> f64 {
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
fn length_as_f64(count: usize) -> f64 {
    count as f64
}

/// How far an outlier is from the median, in median absolute deviations (MAD): ten standard
/// deviations. In a normal distribution a standard deviation is 1.4826 MAD. hyperfine uses the same
/// limit.
const OUTLIER_SCORE: f64 = 1.4826 * 10.0;

/// Which values of a sample are outliers, by their modified Z-scores: Iglewicz and Hoaglin, "How to
/// Detect and Handle Outliers", 1993.
fn find_outliers(sample: &[f64]) -> Vec<bool> {
    let center = sample_median(sample);
    let deviations: Vec<f64> = sample.iter().map(|value| (value - center).abs()).collect();
    // If most values are equal, the MAD is 0, and every other value is an outlier.
    let mad = sample_median(&deviations).max(f64::EPSILON);
    let deviations = deviations.into_iter();
    deviations
        .map(|deviation| deviation / mad > OUTLIER_SCORE)
        .collect()
}

/// Why the times of a command's runs may be unreliable, with advice.
pub(super) fn outlier_warning(times_s: &[f64]) -> Option<String> {
    let found = find_outliers(times_s);
    let (first_s, median_s) = (*times_s.first()?, sample_median(times_s));
    // A first run that is too fast is not a matter of caches.
    if found.first() == Some(&true) && first_s > median_s {
        let [first, others] = [first_s, median_s].map(|seconds| seconds * 1e3);
        return Some(format!(
            "the first run took {first:.1} ms, the others {others:.1} ms: something was not cached yet; fill the caches first with a \
             larger --warmup, or empty them before every run with --prepare"
        ));
    }
    let (count, runs) = (
        found.iter().filter(|is_outlier| **is_outlier).count(),
        found.len(),
    );
    (count > 0).then(|| {
        format!(
            "{count} of {runs} runs are outliers: something else may have kept the machine busy; measure again when it \
             is quiet, or with --warmup or --prepare"
        )
    })
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
        let found = Statistics::from_sample(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_near(found.mean, 5.0);
        assert_near(found.stddev.expect("of eight"), 2.138_089_935_299_395);
        assert_near(found.median, 4.5);
        assert_near(found.min, 2.0);
        assert_near(found.max, 9.0);
        let single = Statistics::from_sample(&[3.5]);
        assert_eq!((single.stddev, single.median), (None, 3.5));
    }

    #[test]
    fn the_error_of_a_ratio_is_propagated() {
        let of = |mean: f64, stddev: Option<f64>| Statistics {
            stddev,
            ..Statistics::from_sample(&[mean])
        };
        let (one, other) = (of(10.0, Some(0.3)), of(4.0, Some(0.16)));
        let (ratio, stddev) = one.ratio_to(&other).expect("neither is 0");
        assert_near(ratio, 2.5);
        // 3 % and 4 % are 5 %.
        assert_near(stddev.expect("both are known"), 0.05 * 2.5);
        assert_eq!(one.ratio_to(&of(4.0, None)), Some((2.5, None)));
        for (one, other) in [(1.0, 0.0), (0.0, 1.0)] {
            assert_eq!(of(one, None).ratio_to(&of(other, None)), None);
        }
    }

    #[test]
    fn outliers_are_far_from_the_median() {
        for (sample, expected) in [
            (&[1.0][..], ""),
            (&[1000.0, 0.0], ""),
            (&[0.9, 1.0, 1.1, 1.05], ""),
            (&[1.0, 1.1, 0.9, 1.05, 9.0], "1 of 5 runs are outliers"),
            // The first run is slow, or too fast for it to be a matter of caches.
            (
                &[0.090, 0.010, 0.0101, 0.0099, 0.0102],
                "the first run took 90.0 ms, the others 10.1 ms",
            ),
            (
                &[0.001, 0.010, 0.0101, 0.0099, 0.0102],
                "1 of 5 runs are outliers",
            ),
            // If most values are equal, every other value is an outlier.
            (&[5.0, 5.0, 5.0, 5.0, 5.1], "1 of 5 runs are outliers"),
            (&[5.0; 4], ""),
        ] {
            let said = outlier_warning(sample).unwrap_or_default();
            let said = said.split(':').next();
            assert_eq!(said, Some(expected), "{sample:?}");
        }
    }
}
