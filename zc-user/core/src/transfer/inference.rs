//! What the inferences share: thresholds, the bytes that no flow has yet, and the bytes that were
//! read meanwhile.

use std::collections::{BTreeMap, HashMap};

use super::{
    activity::Activity,
    flow::{Flow, first_moved, first_order},
};
use crate::trace::{FileId, Row};

/// With at least this many reads and writes, the bytes need not agree exactly. Few calls agree by
/// chance much more easily than a loop does.
pub(super) const MANY_CALLS: u64 = 8;

/// Smaller counts agree by chance too easily, if nothing else says that the bytes are the same.
pub(super) const LEAST_BYTES: u64 = 4096;

/// Inferred bytes below 1/100 of the bytes already known between the same ends stay unattributed: a
/// proven figure says more than a slightly larger one that is not proven.
const LEAST_PART: u64 = 100;

/// Whether a part is at least three quarters of the whole.
pub(super) fn is_most_of(part: u64, whole: u64) -> bool {
    u128::from(part) * 4 >= u128::from(whole) * 3
}

/// Whether there are enough inferred bytes to add them to a flow, which makes it inferred.
pub(super) fn is_worth_adding(inferred: u64, known: u64) -> bool {
    inferred > 0 && inferred >= known / LEAST_PART
}

/// The bytes of plain reads and writes that no flow has yet, by file. Inferred flows claim them
/// from here, so that no written byte has two sources.
#[derive(Debug)]
pub(super) struct Unclaimed {
    read: HashMap<FileId, u64>,
    written: HashMap<FileId, u64>,
}

impl Unclaimed {
    /// The bytes that are in none of these flows.
    pub(super) fn of(flows: &[Flow<'_>], activity: &Activity<'_>) -> Self {
        Self {
            read: unclaimed(&activity.reads, &claimed(flows, Flow::read_from)),
            written: unclaimed(&activity.writes, &claimed(flows, Flow::written_to)),
        }
    }

    /// Claims up to this many bytes read from one file and written to the other. Returns how many
    /// it got.
    pub(super) fn take(&mut self, from: FileId, to: FileId, bytes: u64) -> u64 {
        let (Some(read), Some(written)) = (self.read.get_mut(&from), self.written.get_mut(&to))
        else {
            return 0;
        };
        let bytes = bytes.min(*read).min(*written);
        *read -= bytes;
        *written -= bytes;
        bytes
    }
}

fn unclaimed(
    rows: &BTreeMap<Option<FileId>, Vec<&Row>>,
    claimed: &HashMap<FileId, u64>,
) -> HashMap<FileId, u64> {
    let left = |(file, rows): (&Option<FileId>, &Vec<&Row>)| {
        let file = (*file)?;
        let all = rows
            .iter()
            .filter_map(|row| row.bytes)
            .fold(0, u64::saturating_add);
        Some((
            file,
            all.saturating_sub(claimed.get(&file).copied().unwrap_or(0)),
        ))
    };
    rows.iter().filter_map(left).collect()
}

/// The bytes of each file that flows claim at this end. A source that feeds several destinations
/// counts once for each.
pub(super) fn claimed<'a>(
    flows: &[Flow<'a>],
    end: fn(&Flow<'a>) -> Option<FileId>,
) -> HashMap<FileId, u64> {
    let mut claimed: HashMap<FileId, u64> = HashMap::new();
    for (file, flow) in flows.iter().filter_map(|flow| Some((end(flow)?, flow))) {
        let sum = claimed.entry(file).or_default();
        *sum = sum.saturating_add(flow.bytes.unwrap_or(0));
    }
    claimed
}

/// Bytes that were read and that no flow explains, with the times of their reads.
///
/// A program that reads another file between the first read of a source and the last write of a
/// destination may have written bytes of that file, as when it merges the two. So these bytes are
/// subtracted from an inferred figure. Files that were read only before or after, such as a
/// configuration, do not count.
#[derive(Debug, Default)]
pub(super) struct ReadMeanwhile {
    files: HashMap<Option<FileId>, FileReads>,
    /// By the time of the first read of each file: that time, and the bytes of all files up to it.
    by_first: Vec<(u64, u64)>,
    /// The same by the time of the last read.
    by_last: Vec<(u64, u64)>,
}

/// The unexplained bytes of one file.
#[derive(Debug, Clone, Copy)]
struct FileReads {
    first: u64,
    last: u64,
    bytes: u64,
}

impl ReadMeanwhile {
    /// From files with their reads, and how many bytes of each are unexplained. `None`: bytes of an
    /// unknown source.
    pub(super) fn of<'r, 'a: 'r>(
        reads: impl Iterator<Item = (Option<FileId>, &'r [&'a Row], u64)>,
        activity: &Activity<'_>,
    ) -> Self {
        let left = reads.filter(|(file, _, bytes)| *bytes > 0 && activity.is_data(*file));
        let files: HashMap<Option<FileId>, FileReads> = left
            .map(|(file, rows, bytes)| (file, FileReads::of(rows, bytes)))
            .collect();
        let sums = |order: fn(&FileReads) -> u64| {
            let mut sums: Vec<(u64, u64)> = files
                .values()
                .map(|reads| (order(reads), reads.bytes))
                .collect();
            sums.sort_unstable();
            let mut sum = 0_u64;
            for (_, bytes) in &mut sums {
                sum = sum.saturating_add(*bytes);
                *bytes = sum;
            }
            sums
        };
        Self {
            by_first: sums(|reads| reads.first),
            by_last: sums(|reads| reads.last),
            files,
        }
    }

    /// The unexplained bytes of files other than `from` that may have been read between the first
    /// of these reads and the last of these writes.
    pub(super) fn bytes_during(&self, from: FileId, reading: &[&Row], writing: &[&Row]) -> u64 {
        let begin = first(reading);
        let end = last(writing);
        let up_to = |sums: &[(u64, u64)], count: usize| {
            count.checked_sub(1).map_or(0, |index| sums[index].1)
        };
        let until_end = up_to(
            &self.by_first,
            self.by_first.partition_point(|(first, _)| *first <= end),
        );
        let before = up_to(
            &self.by_last,
            self.by_last.partition_point(|(last, _)| *last < begin),
        );
        let own = self
            .files
            .get(&Some(from))
            .filter(|own| own.first <= end && own.last >= begin)
            .map_or(0, |own| own.bytes);
        until_end.saturating_sub(before).saturating_sub(own)
    }
}

impl FileReads {
    fn of(rows: &[&Row], bytes: u64) -> Self {
        Self {
            first: first(rows),
            last: last(rows),
            bytes,
        }
    }
}

/// When the first of these calls had moved bytes; if that is unknown, when it was made; if that is
/// unknown, 0.
fn first(rows: &[&Row]) -> u64 {
    first_moved(rows).or_else(|| first_order(rows)).unwrap_or(0)
}

/// When the last of these calls was made; `u64::MAX` if unknown.
fn last(rows: &[&Row]) -> u64 {
    rows.iter()
        .map(|row| row.last_order.unwrap_or(u64::MAX))
        .max()
        .unwrap_or(u64::MAX)
}
