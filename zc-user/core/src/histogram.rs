//! Histograms of durations, with the buckets of the kernel side, and their percentiles.

use std::collections::BTreeMap;

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

    /// What was added since there was only what is in `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let before: BTreeMap<usize, u64> = before.buckets().collect();
        let mut added = Self::default();
        for (index, count) in self.buckets() {
            let count = count.saturating_sub(before.get(&index).copied().unwrap_or(0));
            if count > 0 {
                added.add_to_bucket(index, count);
            }
        }
        added
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

    fn histogram(durations: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        durations.into_iter().for_each(|ns| histogram.record(ns));
        histogram
    }

    #[test]
    fn percentiles_are_within_the_documented_error() {
        // All durations differ, over six orders of magnitude, so that the exact percentile is
        // known.
        let durations: Vec<u64> = (1..=10_000_u64).map(|i| i * i * 7 + 3).collect();
        let all = histogram(durations.iter().copied());
        for percent in [1_u8, 10, 50, 90, 99, 100] {
            let exact = durations[(durations.len() * usize::from(percent)).div_ceil(100) - 1];
            let found = all.percentile(percent).expect("has durations");
            assert!(
                found.abs_diff(exact) * 16 <= exact,
                "p{percent}: {found} for {exact}"
            );
        }
        assert_eq!(
            [1, 99].map(|percent| histogram([5]).percentile(percent)),
            [Some(5); 2]
        );
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn the_error_is_the_same_for_hours_and_longer_times_are_unknown() {
        let median = |seconds: u64| histogram([seconds * 1_000_000_000]).percentile(50);
        for seconds in [270, 275, 300, 1000, 3600, 4 * 3600] {
            let exact = seconds * 1_000_000_000;
            let found = median(seconds).expect("has a bucket");
            assert!(found.abs_diff(exact) * 16 <= exact, "{seconds} s: {found}");
        }
        assert_eq!([5 * 3600, 100 * 3600].map(median), [None; 2]);
    }

    #[test]
    fn the_order_in_which_durations_come_does_not_matter() {
        let durations = [3, 100, 101, 5_000, 7_000_000];
        let whole = histogram(durations);
        let mut merged = histogram([5_000, 3]);
        merged.merge(&histogram([7_000_000, 101, 100]));
        assert_eq!((&merged, merged.count()), (&whole, 5));
        let mut buckets = [0; BUCKETS];
        for ns in durations {
            buckets[bucket_of(ns)] += 1;
        }
        let mut added = Histogram::default();
        added.add_buckets(&buckets);
        assert_eq!(added, whole);
    }
}
