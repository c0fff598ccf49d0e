//! How many bytes calls moved, one by one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    histogram::{Histogram, bucket_range},
    syscalls::Call,
    trace::{Process, Trace},
};

/// How many bytes each successful call of one kind moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// The calls of known size.
    pub calls: u64,
    /// Median: the lower end of its interval, so the true one is up to 12.5 % higher.
    pub p50_bytes: u64,
    /// 90th percentile, likewise.
    pub p90_bytes: u64,
    /// 99th percentile, likewise.
    pub p99_bytes: u64,
    /// The least that a call moved.
    pub min_bytes: u64,
    /// The most that a call moved.
    pub max_bytes: u64,
    /// The calls by size, the smallest first, without empty intervals.
    pub histogram: Vec<SizeBucket>,
}

/// An interval of sizes, and the calls in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBucket {
    /// The smallest size in it.
    pub from_bytes: u64,
    /// The smallest size above it.
    pub below_bytes: u64,
    /// The calls.
    pub calls: u64,
}

impl Sizes {
    /// `least_and_most`: the fewest and the most bytes that a call moved, of those that moved some.
    fn new(histogram: &Histogram, least_and_most: Option<[u64; 2]>) -> Self {
        let (mut buckets, mut has_empty) = (Vec::new(), false);
        for (index, calls) in histogram.buckets() {
            has_empty |= index == 0;
            let (from_bytes, width) = bucket_range(index);
            buckets.push(SizeBucket {
                from_bytes,
                below_bytes: from_bytes + width,
                calls,
            });
        }
        let [least, most] = least_and_most.unwrap_or_default();
        let mut sizes = Self {
            calls: histogram.count(),
            min_bytes: if has_empty { 0 } else { least },
            max_bytes: most,
            histogram: buckets,
            ..Self::default()
        };
        let low = |percent| percentile_range(&[&sizes], percent).map_or(0, |(low, _)| low);
        [sizes.p50_bytes, sizes.p90_bytes, sizes.p99_bytes] = [50, 90, 99].map(low);
        sizes
    }
}

/// The least and the most bytes that a percentile (nearest rank) of these calls together can be. `None`
/// without calls.
pub(crate) fn percentile_range(sizes: &[&Sizes], percent: u8) -> Option<(u64, u64)> {
    let mut buckets: Vec<SizeBucket> = Vec::new();
    buckets.extend(sizes.iter().flat_map(|one| &one.histogram));
    buckets.sort_by_key(|bucket| bucket.from_bytes);
    let count: u128 = buckets.iter().map(|bucket| u128::from(bucket.calls)).sum();
    let rank = (count * u128::from(percent)).div_ceil(100).max(1);
    let mut seen = 0;
    let bucket = buckets.iter().find(|bucket| {
        seen += u128::from(bucket.calls);
        seen >= rank
    })?;
    let least = sizes.iter().map(|one| one.min_bytes).min()?;
    let most = sizes.iter().map(|one| one.max_bytes).max()?;
    let (low, high) = (bucket.from_bytes.max(least), bucket.below_bytes - 1);
    Some((low.min(most), high.min(most)))
}

/// How many bytes each call moved, by the name of the call and of its ABI. Empty if the trace does not
/// have that.
pub(super) fn sizes_by_call(trace: &Trace) -> BTreeMap<(&str, &str), Sizes> {
    let Some(by_call) = &trace.sizes else {
        return BTreeMap::new();
    };
    let mut limits: BTreeMap<&Call, [u64; 2]> = BTreeMap::new();
    for row in trace.all_processes().flat_map(Process::rows) {
        if let Some([least, most]) = row.least_and_most_bytes {
            let known = limits.entry(&row.call).or_insert([least, most]);
            *known = [least.min(known[0]), most.max(known[1])];
        }
    }
    let mut sizes = BTreeMap::new();
    for (call, histogram) in by_call {
        let of_call = Sizes::new(histogram, limits.get(call).copied());
        sizes.insert((call.name.as_ref(), call.abi.name()), of_call);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_sizes(each: &[u64]) -> Sizes {
        let mut histogram = Histogram::default();
        for bytes in each {
            histogram.record(*bytes);
        }
        let moved = || each.iter().copied().filter(|bytes| *bytes > 0);
        let limits = moved().min().zip(moved().max());
        Sizes::new(&histogram, limits.map(|(least, most)| [least, most]))
    }

    #[test]
    fn a_percentile_lies_in_its_range() {
        let each: Vec<u64> = (1..=1000_u64).map(|i| i * i * 3).collect();
        let all = make_sizes(&each);
        for percent in [1_u8, 50, 90, 99, 100] {
            let exact = each[(each.len() * usize::from(percent)).div_ceil(100) - 1];
            let (low, high) = percentile_range(&[&all], percent).expect("calls");
            assert!((low..=high).contains(&exact), "p{percent}: {low} to {high}");
            assert!(exact - low <= exact / 8, "p{percent}: {low} for {exact}");
        }
        assert_eq!(percentile_range(&[&make_sizes(&[])], 50), None);
    }

    #[test]
    fn equal_sizes_are_exact_and_calls_are_joined() {
        let blocks = make_sizes(&[0, 4096, 4096, 4096]);
        assert_eq!(percentile_range(&[&blocks], 50), Some((4096, 4096)));
        assert_eq!((blocks.p50_bytes, blocks.max_bytes), (4096, 4096));
        assert_eq!(
            percentile_range(&[&make_sizes(&[784; 2])], 99),
            Some((784, 784))
        );
        let large = make_sizes(&[65536; 9]);
        assert_eq!(
            percentile_range(&[&blocks, &large], 50),
            Some((65536, 65536))
        );
        assert_eq!(percentile_range(&[&blocks, &large], 10), Some((4096, 4607)));
    }
}
