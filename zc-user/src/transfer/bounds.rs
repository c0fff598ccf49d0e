//! Which proven flows may be only a part of what went the same way.
//!
//! A figure is exact if it is all that went from the source to the destination. The program may have copied some of the bytes to
//! another buffer and written them from there, which nobody sees. So a flow is exact if every byte of its destination is proven to come
//! from somewhere, or every byte that was read from its source is proven to have gone there. Otherwise it is a lower bound.

use std::collections::HashMap;

use super::{
    activity::Activity,
    flow::{Flow, sum_bytes},
};
use crate::trace::{FileId, FileKind};

/// Marks the flows that are lower bounds.
pub(super) fn mark(flows: &mut [Flow<'_>], activity: &Activity<'_>) {
    let proven_to = proven(flows);
    for flow in flows.iter_mut() {
        let Some(to) = flow.written_to() else { continue };
        let is_filled = activity
            .writes
            .get(&Some(to))
            .is_some_and(|rows| sum_bytes(rows).is_some_and(|written| written <= proven_to.get(&to).copied().unwrap_or(0)));
        let is_exhausted = match flow.read_from() {
            // One read of /dev/zero serves any number of writes, and its bytes are too much alike to be told apart.
            Some(from) if activity.kind(from) == Some(FileKind::Char) => false,
            Some(from) => activity
                .reads
                .get(&Some(from))
                .is_some_and(|rows| sum_bytes(rows).is_some_and(|read| Some(read) <= flow.proven_bytes)),
            // A mapping: all of the file was written.
            None => flow.from.file().and_then(|from| activity.file(from)?.size_bytes) == flow.proven_bytes,
        };
        flow.may_be_more = !is_filled && !is_exhausted;
    }
}

/// What is proven of each destination.
fn proven(flows: &[Flow<'_>]) -> HashMap<FileId, u64> {
    let mut proven: HashMap<FileId, u64> = HashMap::new();
    for (file, flow) in flows.iter().filter_map(|flow| Some((flow.written_to()?, flow))) {
        let sum = proven.entry(file).or_default();
        *sum = sum.saturating_add(flow.proven_bytes.unwrap_or(0));
    }
    proven
}
