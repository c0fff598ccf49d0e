//! What was tried between the same ends before, and did not work.

use std::collections::{BTreeMap, HashMap};

use super::{
    activity::Activity,
    flow::{Flow, only_failed},
};
use crate::trace::{FileId, FileKind, Row};

/// Adds its attempts to each flow.
///
/// An attempt is a call that did not move a byte between these ends, and came first: it failed, or returned 0 although there was
/// something to move. One that names one end alone (`splice` into a pipe of its own, say) belongs to the first flow of that end.
pub(super) fn add<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let via_pipes = take_failed_via_pipes(flows, activity);
    drop_idle(flows);
    for flow in flows.iter_mut() {
        let Some(from) = flow.from.file() else { continue };
        let tried = activity.copies.get(&(from, flow.to)).into_iter().flatten().copied();
        let order = flow.order();
        let own: Vec<&Row> = tried.filter(|row| moved_nothing(row) && is_before(row, order) && !is_of(flow, row)).collect();
        flow.attempts.extend(own);
    }
    let failed = |sides: &BTreeMap<Option<FileId>, Vec<&'a Row>>| -> Vec<(FileId, &'a Row)> {
        let of_file = |(&file, rows): (&Option<FileId>, &Vec<&'a Row>)| {
            let rows: Vec<&'a Row> = rows.iter().copied().filter(|row| only_failed(row)).collect();
            rows.into_iter().filter_map(move |row| Some((file?, row)))
        };
        sides.iter().flat_map(of_file).collect()
    };
    let mut of_source = failed(&activity.reads);
    let mut of_destination = failed(&activity.writes);
    of_source.extend(via_pipes.iter().filter_map(|flow| Some((flow.from.file()?, *flow.writing.first()?))));
    of_destination.extend(via_pipes.iter().filter_map(|flow| Some((flow.to, *flow.writing.first()?))));
    give_to_first(flows, &of_source, |flow| flow.from.file());
    give_to_first(flows, &of_destination, |flow| Some(flow.to));
    for flow in flows {
        flow.attempts.sort_by_key(|row| row.order);
    }
}

/// Drops the flows that moved nothing, where another between the same ends moved something later: their calls are its attempts.
fn drop_idle(flows: &mut Vec<Flow<'_>>) {
    let ends = |flow: &Flow<'_>| (flow.from, flow.to);
    let moved: HashMap<_, _> = flows.iter().filter(|flow| flow.bytes != Some(0)).map(|flow| (ends(flow), flow.order())).collect();
    let is_attempt = |flow: &Flow<'_>| {
        let later = moved.get(&ends(flow));
        later.is_some_and(|later| flow.writing.iter().all(|row| is_before(row, *later)))
    };
    flows.retain(|flow| flow.bytes != Some(0) || !is_attempt(flow));
}

fn moved_nothing(row: &Row) -> bool {
    row.calls == row.errors || row.bytes == Some(0)
}

fn is_before(row: &Row, order: Option<u64>) -> bool {
    row.order.zip(order).is_none_or(|(attempt, flow)| attempt < flow)
}

fn is_of(flow: &Flow<'_>, row: &Row) -> bool {
    flow.rows().any(|one| std::ptr::eq(one, row))
}

/// Takes out the flows that failed into or out of a pipe through which nothing went: attempts to go from one end to another by it.
fn take_failed_via_pipes<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) -> Vec<Flow<'a>> {
    let failed = |flow: &Flow<'_>| flow.bytes == Some(0) && flow.writing.iter().all(|row| only_failed(row));
    let ends = |flow: &Flow<'a>| [flow.from.file(), Some(flow.to)];
    let mut moved: HashMap<FileId, bool> = HashMap::new();
    for flow in flows.iter() {
        for file in ends(flow).into_iter().flatten() {
            *moved.entry(file).or_default() |= !failed(flow);
        }
    }
    let idle_pipe = |file: &FileId| activity.kind(*file) == Some(FileKind::Pipe) && !moved.get(file).copied().unwrap_or(false);
    let other_moved = |file: &FileId| moved.get(file).copied().unwrap_or(false);
    let is_attempt = |flow: &Flow<'a>| {
        let ends = ends(flow);
        failed(flow) && ends.iter().flatten().any(idle_pipe) && ends.iter().flatten().any(other_moved)
    };
    flows.extract_if(.., |flow| is_attempt(flow)).collect()
}

/// Gives each of these calls to the first flow that this end is one of, if it came before.
fn give_to_first<'a>(flows: &mut [Flow<'a>], failed: &[(FileId, &'a Row)], end: fn(&Flow<'a>) -> Option<FileId>) {
    if failed.is_empty() {
        return;
    }
    let mut first: HashMap<FileId, (Option<u64>, usize)> = HashMap::new();
    for (index, flow) in flows.iter().enumerate() {
        if let Some(file) = end(flow) {
            let known = first.entry(file).or_insert((flow.order(), index));
            *known = (*known).min((flow.order(), index));
        }
    }
    for &(file, row) in failed {
        if let Some(&(order, index)) = first.get(&file)
            && is_before(row, order)
            && !is_of(&flows[index], row)
        {
            flows[index].attempts.push(row);
        }
    }
}
