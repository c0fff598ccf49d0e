//! Summing up rows, where a sum with something unknown in it is unknown.

use std::collections::BTreeMap;

use crate::{
    errno,
    report::Syscall,
    syscall::Call,
    trace::{Row, Times},
};

/// The sums of one call over any number of rows.
#[derive(Debug, Default)]
pub(super) struct Sums {
    calls: u64,
    errors: u64,
    errnos: BTreeMap<u32, u64>,
    unfinished: u64,
    bytes: Sum<u64>,
    requested_bytes: Sum<u64>,
    times: Sum<Times>,
}

impl Sums {
    /// Adds a row of the same call.
    pub(super) fn add(&mut self, row: &Row) {
        self.calls += row.calls;
        self.errors += row.errors;
        for (&errno, count) in &row.errnos {
            *self.errnos.entry(errno).or_default() += count;
        }
        self.unfinished += row.unfinished;
        let returned = row.calls > 0;
        // Programs ask `copy_file_range` for nearly 2^63 bytes at a time: their sum may not fit.
        let add_numbers = |sum: &mut u64, number: &u64| sum.checked_add(*number).map(|total| *sum = total);
        self.bytes.add(row.bytes.as_ref(), returned, add_numbers);
        self.requested_bytes.add(row.requested_bytes.as_ref(), returned, add_numbers);
        self.times.add(row.times.as_ref(), returned, add_times);
    }

    /// The line of the report.
    pub(super) fn finish(self, call: &Call) -> Syscall {
        // A call that was counted without its entry has no time: mean and percentiles are those of the timed calls.
        let times = self.times.known().filter(|times| times.histogram.count() > 0);
        let times = times.as_ref();
        let total_ns = times.map(|times| times.total_ns).filter(|&ns| ns != u64::MAX);
        let percentile = |percent| {
            let times = times?;
            // The middle of a bucket may lie outside of what was seen.
            Some(times.histogram.percentile(percent)?.clamp(times.min_ns, times.max_ns.max(times.min_ns)))
        };
        Syscall {
            name: call.name.clone().into_owned(),
            abi: call.abi.name().to_owned(),
            calls: self.calls,
            errors: self.errors,
            errnos: self.errnos.into_iter().map(|(errno, count)| (errno::name(errno), count)).collect(),
            unfinished: self.unfinished,
            bytes: self.bytes.known(),
            requested_bytes: self.requested_bytes.known(),
            total_ns,
            min_ns: times.map(|times| times.min_ns),
            max_ns: times.map(|times| times.max_ns),
            mean_ns: times.zip(total_ns).map(|(times, total_ns)| total_ns / times.histogram.count()),
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
        }
    }
}

/// A sum of figures some of which may be unknown.
#[derive(Debug, Default)]
enum Sum<T> {
    /// Nothing was added.
    #[default]
    Empty,
    Known(T),
    /// Something unknown was added, or the sum became too large to be known.
    Unknown,
}

impl<T: Clone> Sum<T> {
    /// Adds a figure; an unknown one (`None`) counts only if there `is_something` behind it: of no call nothing is unknown.
    fn add(&mut self, figure: Option<&T>, is_something: bool, add: fn(&mut T, &T) -> Option<()>) {
        match (&mut *self, figure) {
            (Self::Unknown, _) => {}
            (Self::Empty, Some(figure)) => *self = Self::Known(figure.clone()),
            (Self::Known(sum), Some(figure)) => {
                if add(sum, figure).is_none() {
                    *self = Self::Unknown;
                }
            }
            (_, None) if is_something => *self = Self::Unknown,
            (_, None) => {}
        }
    }

    fn known(self) -> Option<T> {
        match self {
            Self::Known(sum) => Some(sum),
            Self::Empty | Self::Unknown => None,
        }
    }
}

fn add_times(sum: &mut Times, times: &Times) -> Option<()> {
    if times.histogram.count() == 0 {
        return Some(());
    }
    if times.total_ns == u64::MAX {
        return None;
    }
    if sum.histogram.count() == 0 {
        *sum = times.clone();
        return Some(());
    }
    sum.total_ns = sum.total_ns.checked_add(times.total_ns)?;
    sum.min_ns = sum.min_ns.min(times.min_ns);
    sum.max_ns = sum.max_ns.max(times.max_ns);
    sum.histogram.merge(&times.histogram);
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::report::sample::row;

    use super::*;

    /// The line of the report for these rows.
    fn sum(rows: &[Row]) -> Syscall {
        let mut sums = Sums::default();
        for row in rows {
            sums.add(row);
        }
        sums.finish(&rows[0].call)
    }

    #[test]
    fn known_figures_add_up() {
        let line = sum(&[row("read").bytes(10).took(&[100, 300]), row("read").bytes(5).took(&[50])]);
        assert_eq!((line.calls, line.bytes), (3, Some(15)));
        assert_eq!((line.total_ns, line.min_ns, line.max_ns, line.mean_ns), (Some(450), Some(50), Some(300), Some(150)));
    }

    #[test]
    fn one_unknown_figure_makes_the_sum_unknown() {
        let line = sum(&[row("read").bytes(10).took(&[100]), row("read").called(1)]);
        assert_eq!((line.calls, line.bytes, line.total_ns, line.p99_ns), (2, None, None, None));
    }

    #[test]
    fn a_call_that_only_never_returned_makes_nothing_unknown() {
        let line = sum(&[row("read").unfinished(1), row("read").bytes(10).took(&[100]), row("read").unfinished(1)]);
        assert_eq!((line.calls, line.unfinished, line.bytes, line.total_ns), (1, 2, Some(10), Some(100)));
    }

    #[test]
    fn mean_and_percentiles_are_those_of_the_timed_calls() {
        let line = sum(&[row("read").bytes(1).took(&[100, 200]).called(5)]);
        assert_eq!((line.calls, line.total_ns, line.mean_ns), (5, Some(300), Some(150)));
    }

    #[test]
    fn without_a_timed_call_there_is_no_time() {
        let line = sum(&[row("read").bytes(1).took(&[]).called(5)]);
        assert_eq!((line.total_ns, line.min_ns, line.mean_ns, line.p50_ns), (None, None, None, None));
        // And its empty minimum does not become another row's.
        let line = sum(&[row("read").took(&[]).called(5), row("read").took(&[70]), row("read").took(&[]).called(1)]);
        assert_eq!((line.total_ns, line.min_ns, line.max_ns), (Some(70), Some(70), Some(70)));
    }

    #[test]
    fn percentiles_lie_between_minimum_and_maximum() {
        // The buckets' middles of these are 1087 and 1215.
        let line = sum(&[row("read").took(&[1100, 1200])]);
        assert_eq!((line.p50_ns, line.p99_ns), (Some(1100), Some(1200)));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_unknown() {
        let huge = || row("copy_file_range").requested(i64::MAX as u64).called(1);
        assert_eq!(sum(&[huge(), huge(), huge()]).requested_bytes, None);
    }

    #[test]
    fn errnos_get_their_names() {
        let line = sum(&[row("read").failed(libc::EAGAIN, 2), row("read").failed(libc::EAGAIN, 1).failed(512, 4)]);
        assert_eq!((line.calls, line.errors), (7, 7));
        assert_eq!(line.errnos, BTreeMap::from([("EAGAIN".to_owned(), 3), ("ERESTARTSYS".to_owned(), 4)]));
    }
}
