//! What stands in no flow.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    ptr,
};

use super::{
    Ends,
    activity::Activity,
    flow::{Flow, sum_bytes},
    left::taken,
    pipes::Joined,
};
use crate::{
    report::{Share, Unattributed},
    trace::{FileId, Row},
};

/// The bytes of a process that stand in none of its flows, file by file, those with the most bytes first.
pub(super) fn shares<'a>(activity: &Activity<'a>, joined: &Joined<'a>, ends: &Ends<'_>) -> Unattributed {
    let rows = joined.flows.iter().flat_map(|flow| flow.rows().chain(flow.attempts.iter().copied()));
    let used: HashSet<*const Row> = rows.map(ptr::from_ref).collect();
    let side = |rows: &BTreeMap<Option<FileId>, Vec<&'a Row>>, end: fn(&Flow<'a>) -> Option<FileId>, rest: &[(FileId, u64)]| {
        let taken = taken(&joined.flows, end);
        let of_file = |(file, rows): (&Option<FileId>, &Vec<&Row>)| {
            let taken = file.and_then(|file| taken.get(&file)).copied().unwrap_or(0);
            let bytes = sum_bytes(rows).map(|bytes| bytes.saturating_sub(taken));
            let calls = rows.iter().filter(|row| !used.contains(&ptr::from_ref(**row))).map(|row| row.calls).sum();
            (bytes != Some(0)).then(|| Share { file: file.map(|file| ends.end(file)), bytes, calls })
        };
        let in_pipes = rest.iter().map(|&(file, bytes)| Share { file: Some(ends.end(file)), bytes: Some(bytes), calls: 0 });
        let mut shares: Vec<Share> = rows.iter().filter_map(of_file).chain(in_pipes).collect();
        shares.sort_by_key(|share| Reverse(share.bytes));
        shares
    };
    Unattributed {
        read: side(&activity.reads, Flow::read_from, &joined.left_in),
        written: side(&activity.writes, Flow::written_to, &joined.came_out),
    }
}
