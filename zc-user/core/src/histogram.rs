//! Histograms of durations, with the buckets of the kernel side, and their percentiles.

use zc_ebpf::bucket_of;
pub use zc_ebpf::{BUCKETS, histogram::bucket_range};

/// Durations in the buckets of [`zc_ebpf::histogram`]. A percentile is at most 6.25 % off, and unknown above 4.6 h.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
    }

    /// Adds the counts of buckets as the kernel side keeps them.
    pub fn add_buckets(&mut self, buckets: &[u32; BUCKETS]) {
        for (sum, &count) in self.counts.iter_mut().zip(buckets) {
            *sum += u64::from(count);
        }
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts.iter()) {
            *sum += count;
        }
    }

    /// The buckets that are not empty, the shortest durations first: the index of each, for [`bucket_range`], and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The duration in ns that `percent` of all do not exceed (nearest rank), as the middle of its bucket. `None` without durations, and
    /// for the last bucket, which has no upper end.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0_u128;
        let index = self.counts.iter().position(|&bucket| {
            seen += u128::from(bucket);
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
        // All durations differ, over six orders of magnitude, so that the exact percentile is known.
        let durations: Vec<u64> = (1..=10_000_u64).map(|i| i * i * 7 + 3).collect();
        for &ns in &durations {
            histogram.record(ns);
        }
        for percent in [1_u8, 10, 50, 90, 99, 100] {
            let exact = durations[(durations.len() * usize::from(percent)).div_ceil(100) - 1];
            let found = histogram.percentile(percent).expect("has durations");
            assert!(found.abs_diff(exact) * 16 <= exact, "p{percent}: {found} for {exact}");
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
        assert_eq!((histogram.percentile(1), histogram.percentile(99)), (Some(5), Some(5)));
    }

    #[test]
    fn without_durations_there_is_no_percentile() {
        assert_eq!(Histogram::default().percentile(50), None);
    }
}
