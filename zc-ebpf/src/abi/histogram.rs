//! The latency histogram: log-linear buckets, eight to each power of two.
//!
//! Below 8 ns every value has a bucket of its own. From there on the width of a bucket is 1/8 of
//! its power of two, so its middle is at most 1/16 (6.25 %) away from any value in it. The last
//! bucket starts at 15/8 * 2^43 ns (4.6 h) and has no upper end.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is cast is a bucket's number, or the logarithm of one"
)]

use crate::opaque::is_not_zero;

/// Binary logarithm of [`SUBS`].
const SUB_BITS: u32 = 3;
/// Buckets in each power of two.
const SUBS: u64 = 1 << SUB_BITS;
/// The highest power of two with buckets of its own.
const TOP_POWER: u32 = 43;

/// Number of buckets.
pub const BUCKETS: usize = ((TOP_POWER - SUB_BITS + 2) << SUB_BITS) as usize;

/// The index of the bucket that takes this duration in ns; always below [`BUCKETS`].
#[inline(always)]
pub fn bucket_of(ns: u64) -> usize {
    if ns < SUBS {
        return ns as usize;
    }
    if ns >> (TOP_POWER + 1) != 0 {
        return BUCKETS - 1;
    }
    let power = floor_log2(ns);
    let shift = power - SUB_BITS;
    (u64::from((shift + 1) << SUB_BITS) + ((ns >> shift) & (SUBS - 1))) as usize
}

/// The lowest value of a bucket, and how many values it has, in ns.
pub const fn bucket_range(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < SUBS {
        return (index, 1);
    }
    let shift = (index >> SUB_BITS) - 1;
    ((SUBS + (index & (SUBS - 1))) << shift, 1 << shift)
}

/// Binary logarithm, rounded down; `ns` must not be 0. BPF has no instruction that counts leading
/// zeros. There are no branches: the verifier would follow each combination of them.
#[inline(always)]
fn floor_log2(ns: u64) -> u32 {
    let (mut value, mut power) = (ns, 0);
    for bits in [5, 4, 3, 2, 1, 0] {
        let shift = is_not_zero(value >> (1 << bits)) << bits;
        value >>= shift;
        power += shift;
    }
    power as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_take_all_values_without_gaps() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, width) = bucket_range(index);
            assert_eq!(low, next, "there is no gap before {index}");
            assert_eq!(bucket_of(low), index, "lowest of {index}");
            assert_eq!(bucket_of(low + width - 1), index, "highest of {index}");
            assert!(index < 8 || width * 8 <= low, "width of {index}");
            next = low + width;
        }
        // Longer times go to the last one.
        assert_eq!([1 << 44, u64::MAX].map(bucket_of), [BUCKETS - 1; 2]);
    }
}
