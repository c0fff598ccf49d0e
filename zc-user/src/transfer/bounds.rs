//! Which proven flows may be only a part of what went the same way.
//!
//! A figure is exact if it is all that went from the source to the destination. The program may have copied some of the bytes to
//! another buffer and written them from there, which nobody sees. So a flow is exact
//!
//! - if every byte of its destination is proven to come from somewhere,
//! - or if every byte that was read from its source is proven to have gone there, and none can have gone there again: whatever calls
//!   wrote there from memory of which nothing is known, they did before the first of these bytes was read. What else stood beside
//!   the bytes in the very calls that wrote them, as the headers of an archive, is the program's own.
//!
//! Otherwise it is a lower bound, as is everything where the kernel moved bytes unseen.

use std::collections::HashMap;

use super::{
    activity::Activity,
    flow::{Flow, first_moved, sum_bytes},
};
use crate::trace::{FileId, FileKind, Input, Row};

/// Marks the flows that are lower bounds.
pub(super) fn mark(flows: &mut [Flow<'_>], activity: &Activity<'_>) {
    let proven_to = proven(flows);
    for flow in flows.iter_mut() {
        if activity.has_unseen_operations {
            flow.may_be_more = true;
        }
        let Some(to) = flow.written_to() else { continue };
        let writes = activity.writes.get(&Some(to)).map(Vec::as_slice).unwrap_or_default();
        let is_filled = sum_bytes(writes).is_some_and(|written| written <= proven_to.get(&to).copied().unwrap_or(0));
        let is_once = is_exhausted(flow, activity) && !flow.is_partly_unsampled && !may_be_again(flow, writes, activity);
        let lent = activity.lent.get(&to).map(Vec::as_slice).unwrap_or_default();
        flow.may_be_more |= (!is_filled && !is_once) || lent.iter().any(|row| has_unknown_bytes(row));
    }
}

/// Whether every byte that was read from the source of the flow is in it.
fn is_exhausted(flow: &Flow<'_>, activity: &Activity<'_>) -> bool {
    match flow.read_from() {
        // One read of /dev/zero serves any number of writes, and its bytes are too much alike to be told apart.
        Some(from) if activity.kind(from) == Some(FileKind::Char) => false,
        Some(from) => activity
            .reads
            .get(&Some(from))
            .is_some_and(|rows| sum_bytes(rows).is_some_and(|read| Some(read) <= flow.proven_bytes)),
        // A mapping: all of the file was written.
        None => flow.from.file().and_then(|from| activity.file(from)?.size_bytes) == flow.proven_bytes,
    }
}

/// Whether memory that was lent to a pipe is not all known to be of a file.
pub(super) fn has_unknown_bytes(lent: &Row) -> bool {
    let is_known = matches!(lent.ends.input, Some(Input::Held(_) | Input::Mapped(_)));
    !is_known || lent.bytes.is_none_or(|bytes| lent.paired_bytes < bytes)
}

/// Whether calls wrote something to the destination after the source was read first, and nothing is known of what that was.
fn may_be_again(flow: &Flow<'_>, writes: &[&Row], activity: &Activity<'_>) -> bool {
    let began = match flow.read_from() {
        Some(from) => activity.reads.get(&Some(from)).and_then(|rows| first_moved(rows)),
        None => flow.reading.iter().filter_map(|row| row.order).min(),
    };
    let is_unknown = |row: &Row| row.bytes != Some(0) && !matches!(row.ends.input, Some(Input::Held(_) | Input::Mapped(_)));
    writes.iter().any(|row| is_unknown(row) && row.last_order.zip(began).is_none_or(|(last, began)| last >= began))
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
