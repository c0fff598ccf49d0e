//! Histograms of durations, with the buckets of the kernel side, and their percentiles.

use zc_ebpf::bucket_of;
pub use zc_ebpf::{BUCKETS, histogram::bucket_range};

/// Durations in the buckets of [`zc_ebpf::histogram`]. A percentile is at most 6.25 % off, and
/// unknown above 4.6 h.
///
/// Only the buckets that are not empty take memory: of the hundreds that there are, most rows use
/// fewer than ten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The index of each bucket that is not empty, in ascending order, and its count.
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        self.add_to_bucket(bucket_of(ns), 1);
    }

    /// Adds the counts of buckets as the kernel side keeps them.
    pub fn add_buckets(&mut self, buckets: &[u32; BUCKETS]) {
        let filled = || buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        if self.counts.is_empty() {
            self.counts.reserve_exact(filled().count());
        }
        for (index, &count) in filled() {
            self.add_to_bucket(index, count.into());
        }
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (index, count) in other.buckets() {
            self.add_to_bucket(index, count);
        }
    }

    /// Counts so many durations of the bucket with this index.
    pub fn add_to_bucket(&mut self, index: usize, count: u64) {
        let Ok(index) = u16::try_from(index) else {
            return;
        };
        match self
            .counts
            .binary_search_by_key(&index, |(index, _)| *index)
        {
            Ok(place) => self.counts[place].1 += count,
            Err(place) => self.counts.insert(place, (index, count)),
        }
    }

    /// The buckets that are not empty, the shortest durations first: the index of each, for
    /// [`bucket_range`], and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts
            .iter()
            .map(|&(index, count)| (index.into(), count))
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The duration in ns that `percent` of all do not exceed (nearest rank), as the middle of its
    /// bucket. `None` without durations, and for the last bucket, which has no upper end.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(percent))
            .div_ceil(100)
            .max(1);
        let mut seen = 0_u128;
        let (index, _) = self.buckets().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        })?;
        if index == BUCKETS - 1 {
            return None;
        }
        let (low, width) = bucket_range(index);
        Some(low + (width - 1) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_the_documented_error() {
        let mut histogram = Histogram::default();
        // All durations differ, over six orders of magnitude, so that the exact percentile is
        // known.
        let durations: Vec<u64> = (1..=10_000_u64).map(|i| i * i * 7 + 3).collect();
        for &ns in &durations {
            histogram.record(ns);
        }
        for percent in [1_u8, 10, 50, 90, 99, 100] {
            let exact = durations[(durations.len() * usize::from(percent)).div_ceil(100) - 1];
            let found = histogram.percentile(percent).expect("has durations");
            assert!(
                found.abs_diff(exact) * 16 <= exact,
                "p{percent}: {found} for {exact}"
            );
        }
    }

    #[test]
    fn the_error_is_the_same_for_hours_and_longer_times_are_unknown() {
        let of = |seconds: u64| {
            let mut histogram = Histogram::default();
            histogram.record(seconds * 1_000_000_000);
            histogram.percentile(50)
        };
        for seconds in [270, 275, 300, 1000, 3600, 4 * 3600] {
            let exact = seconds * 1_000_000_000;
            let found = of(seconds).expect("has a bucket");
            assert!(found.abs_diff(exact) * 16 <= exact, "{seconds} s: {found}");
        }
        assert_eq!([of(5 * 3600), of(100 * 3600)], [None; 2]);
    }

    #[test]
    fn a_single_duration_is_every_percentile() {
        let mut histogram = Histogram::default();
        histogram.record(5);
        assert_eq!(
            (histogram.percentile(1), histogram.percentile(99)),
            (Some(5), Some(5))
        );
    }

    #[test]
    fn the_order_in_which_durations_come_does_not_matter() {
        let of = |durations: &[u64]| {
            let mut histogram = Histogram::default();
            for &ns in durations {
                histogram.record(ns);
            }
            histogram
        };
        let whole = of(&[3, 100, 101, 5_000, 7_000_000]);
        let mut merged = of(&[5_000, 3]);
        merged.merge(&of(&[7_000_000, 101, 100]));
        assert_eq!((&merged, merged.count()), (&whole, 5));
        let mut buckets = [0; BUCKETS];
        for ns in [3, 100, 101, 5_000, 7_000_000] {
            buckets[bucket_of(ns)] += 1;
        }
        let mut added = Histogram::default();
        added.add_buckets(&buckets);
        assert_eq!(added, whole);
    }

    #[test]
    fn without_durations_there_is_no_percentile() {
        assert_eq!(Histogram::default().percentile(50), None);
    }
}
