//! Who is how much faster: what the person came for.

use super::{
    Comparison,
    statistics::{Ratio, Statistics},
};

/// How one command does against all others.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Index of that command: the reference if the user named one, else the fastest.
    pub subject: usize,
    /// All others, those against which it does best first.
    pub others: Vec<Speed>,
}

/// How a command does against another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Index of the other.
    pub other: usize,
    /// Whether it is faster, or else slower, than the other.
    pub is_faster: bool,
    /// So many times; at least 1.
    pub times: f64,
    /// Standard deviation of that, by propagation of errors; `None` if that of one of the times is unknown.
    pub stddev: Option<f64>,
}

impl Summary {
    /// Of a comparison of several commands; `None` if one of them took no time at all: there are no ratios then.
    pub fn of(comparison: &Comparison) -> Option<Self> {
        let times: Vec<&Statistics> = comparison.commands.iter().map(|command| &command.time_s).collect();
        let by_time = |&a: &usize, &b: &usize| times[a].mean.total_cmp(&times[b].mean);
        let fastest = (0..times.len()).min_by(by_time);
        let subject = if comparison.reference_is_chosen { comparison.reference } else { fastest? };
        let mut order: Vec<usize> = (0..times.len()).filter(|&index| index != subject).collect();
        order.sort_by(by_time);
        let others = order.into_iter().map(|other| Speed::of(other, times[other], times[subject])).collect::<Option<Vec<_>>>()?;
        (!others.is_empty()).then_some(Self { subject, others })
    }
}

impl Speed {
    fn of(other: usize, of_other: &Statistics, of_subject: &Statistics) -> Option<Self> {
        let is_faster = of_subject.mean <= of_other.mean;
        let ratio = if is_faster { Ratio::of(of_other, of_subject) } else { Ratio::of(of_subject, of_other) }?;
        Some(Self { other, is_faster, times: ratio.value, stddev: ratio.relative_error.map(|error| error * ratio.value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sample::{self, timed};

    /// The command that ran, and the others with whether it is faster and how many times.
    fn summary(comparison: &Comparison) -> Option<Vec<(usize, bool, f64)>> {
        Summary::of(comparison).map(|summary| {
            let of = |speed: &Speed| (speed.other, speed.is_faster, speed.times);
            std::iter::once((summary.subject, true, 1.0)).chain(summary.others.iter().map(of)).collect()
        })
    }

    #[test]
    fn the_fastest_against_all_others() {
        let comparison = sample::comparison(&[timed(&[40]), timed(&[10]), timed(&[25])], None);
        assert_eq!(summary(&comparison), Some(vec![(1, true, 1.0), (2, true, 2.5), (0, true, 4.0)]));
    }

    #[test]
    fn the_reference_if_it_was_chosen() {
        let comparison = sample::comparison(&[timed(&[40]), timed(&[10]), timed(&[20])], Some(2));
        assert_eq!(summary(&comparison), Some(vec![(2, true, 1.0), (1, false, 2.0), (0, true, 2.0)]));
    }

    #[test]
    fn errors_are_those_of_both_times() {
        let comparison = sample::comparison(&[timed(&[38, 40, 42]), timed(&[10, 10, 10])], None);
        let speed = Summary::of(&comparison).expect("two").others[0];
        // 2 of 40 are 5 %, and of 4.0 times 0.2.
        assert!(speed.stddev.is_some_and(|stddev| (stddev - 0.2).abs() < 1e-9), "{speed:?}");
    }

    #[test]
    fn nothing_to_say_of_one_command_or_of_no_time() {
        assert_eq!(summary(&sample::comparison(&[timed(&[40])], None)), None);
        assert_eq!(summary(&sample::comparison(&[timed(&[40]), timed(&[0])], None)), None);
    }
}
