//! [`Doubt`]: what was read meanwhile, and may be among the bytes that an inference takes for another file's.

use std::collections::HashMap;

use super::{
    activity::Activity,
    flow::{first_moved, first_order},
};
use crate::trace::{FileId, Row};

/// Bytes that were read from files and that nothing explains, with the times of their reads.
///
/// Who reads a second file between the first read of a source and the last write of a destination may write that one's bytes instead, as
/// a program does that merges two files. What was read before or after has had its use: a configuration, say.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    files: HashMap<FileId, Kept>,
    /// By the order of their first reads, and the sum of the bytes of all up to there.
    by_first: Vec<(u64, u64)>,
    /// Likewise by the order of their last reads.
    by_last: Vec<(u64, u64)>,
}

/// What is left of one file.
#[derive(Debug, Clone, Copy)]
struct Kept {
    first: u64,
    last: u64,
    bytes: u64,
}

impl Doubt {
    /// Of these files: their reads, and how many bytes of them nothing explains.
    pub(super) fn of<'r, 'a: 'r>(reads: impl Iterator<Item = (FileId, &'r [&'a Row], u64)>, activity: &Activity<'_>) -> Self {
        let is_data = |file: FileId| activity.carries_bytes(file) && !activity.is_program(file);
        let left = reads.filter(|(file, _, bytes)| *bytes > 0 && is_data(*file));
        let files: HashMap<FileId, Kept> = left.map(|(file, rows, bytes)| (file, Kept::of(rows, bytes))).collect();
        let sums = |order: fn(&Kept) -> u64| {
            let mut sums: Vec<(u64, u64)> = files.values().map(|kept| (order(kept), kept.bytes)).collect();
            sums.sort_unstable();
            let mut sum = 0_u64;
            for (_, bytes) in &mut sums {
                sum = sum.saturating_add(*bytes);
                *bytes = sum;
            }
            sums
        };
        Self { by_first: sums(|kept| kept.first), by_last: sums(|kept| kept.last), files }
    }

    /// How many bytes of other files were read between the first of these reads and the last of these writes.
    pub(super) fn meanwhile(&self, from: FileId, reading: &[&Row], writing: &[&Row]) -> u64 {
        let begin = first(reading);
        let end = last(writing);
        let up_to = |sums: &[(u64, u64)], count: usize| count.checked_sub(1).map_or(0, |index| sums[index].1);
        let until_end = up_to(&self.by_first, self.by_first.partition_point(|(first, _)| *first <= end));
        let before = up_to(&self.by_last, self.by_last.partition_point(|(last, _)| *last < begin));
        let own = self.files.get(&from).filter(|own| own.first <= end && own.last >= begin).map_or(0, |own| own.bytes);
        until_end.saturating_sub(before).saturating_sub(own)
    }
}

impl Kept {
    fn of(rows: &[&Row], bytes: u64) -> Self {
        Self { first: first(rows), last: last(rows), bytes }
    }
}

/// When the first of these calls had moved something, or was made if that is not told; 0 if nobody knows.
fn first(rows: &[&Row]) -> u64 {
    first_moved(rows).or_else(|| first_order(rows)).unwrap_or(0)
}

/// When the last of these calls was made; the last number if nobody knows.
fn last(rows: &[&Row]) -> u64 {
    rows.iter().map(|row| row.last_order.unwrap_or(u64::MAX)).max().unwrap_or(u64::MAX)
}
