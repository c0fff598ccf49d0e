//! [`Left`]: bytes that no flow has yet.

use std::collections::{BTreeMap, HashMap};

use super::{activity::Activity, flow::Flow};
use crate::trace::{FileId, Row};

/// What is left of the plain reads and writes of each file: inferred flows share it, so that no written byte has two sources.
#[derive(Debug)]
pub(super) struct Left {
    read: HashMap<FileId, u64>,
    written: HashMap<FileId, u64>,
}

impl Left {
    /// What these flows leave.
    pub(super) fn of(flows: &[Flow<'_>], activity: &Activity<'_>) -> Self {
        Self {
            read: side(&activity.reads, &taken(flows, Flow::read_from)),
            written: side(&activity.writes, &taken(flows, Flow::written_to)),
        }
    }

    /// Takes at most so many bytes that were read from the one file and written to the other, and returns how many.
    pub(super) fn take(&mut self, from: FileId, to: FileId, bytes: u64) -> u64 {
        let (Some(read), Some(written)) = (self.read.get_mut(&from), self.written.get_mut(&to)) else { return 0 };
        let bytes = bytes.min(*read).min(*written);
        *read -= bytes;
        *written -= bytes;
        bytes
    }
}

fn side(rows: &BTreeMap<Option<FileId>, Vec<&Row>>, taken: &HashMap<FileId, u64>) -> HashMap<FileId, u64> {
    let left = |(file, rows): (&Option<FileId>, &Vec<&Row>)| {
        let file = (*file)?;
        let all = rows.iter().filter_map(|row| row.bytes).fold(0, u64::saturating_add);
        Some((file, all.saturating_sub(taken.get(&file).copied().unwrap_or(0))))
    };
    rows.iter().filter_map(left).collect()
}

/// What the flows took of each file's plain reads (or writes). A source that feeds several destinations is counted for each.
pub(super) fn taken<'a>(flows: &[Flow<'a>], end: fn(&Flow<'a>) -> Option<FileId>) -> HashMap<FileId, u64> {
    let mut taken: HashMap<FileId, u64> = HashMap::new();
    for (file, flow) in flows.iter().filter_map(|flow| Some((end(flow)?, flow))) {
        let sum = taken.entry(file).or_default();
        *sum = sum.saturating_add(flow.bytes.unwrap_or(0));
    }
    taken
}
