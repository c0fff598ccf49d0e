//! Calls that name both ends: nothing is to be found out.

use std::collections::BTreeMap;

use super::{
    activity::Activity,
    flow::{Flow, Source, only_failed},
};
use crate::{
    syscall::{Call, FICLONE, FICLONERANGE},
    trace::{FileId, Row},
    transfer::Api,
};

/// The interface that a call which names both ends is of.
pub(crate) fn api(call: &Call) -> Option<Api> {
    Some(match call.name.as_ref() {
        "sendfile" | "sendfile64" => Api::Sendfile,
        "splice" => Api::Splice,
        "tee" => Api::Tee,
        "copy_file_range" => Api::CopyFileRange,
        FICLONE | FICLONERANGE => Api::Reflink,
        _ if call.as_ring_operation().is_some() => Api::IoUring,
        _ => return None,
    })
}

/// The flows of calls that name both ends, one for each pair of ends and interface.
///
/// Between two ends where something moved, an interface that moved nothing made an attempt (see `attempts`). Where nothing moved at
/// all, the last interface that did not fail copied nothing, as of an empty file; if all failed, the last of them.
pub(super) fn flows<'a>(activity: &Activity<'a>) -> Vec<Flow<'a>> {
    activity.copies.iter().flat_map(|(&(from, to), rows)| between(from, to, rows)).collect()
}

fn between<'a>(from: FileId, to: FileId, rows: &[&'a Row]) -> Vec<Flow<'a>> {
    let mut by_api: BTreeMap<Api, Vec<&Row>> = BTreeMap::new();
    for &row in rows {
        if let Some(api) = api(&row.call) {
            by_api.entry(api).or_default().push(row);
        }
    }
    let flows = by_api.into_iter().map(|(api, rows)| Flow::direct(Source::File(from), to, api, rows));
    let (moved, idle): (Vec<Flow>, Vec<Flow>) = flows.partition(|flow| flow.bytes != Some(0));
    if moved.is_empty() { idle.into_iter().max_by_key(last_choice).into_iter().collect() } else { moved }
}

/// Of flows that moved nothing, the one that says most: what did not fail, then what came last.
fn last_choice(flow: &Flow<'_>) -> (bool, Option<u64>) {
    (!flow.writing.iter().all(|row| only_failed(row)), flow.order())
}
