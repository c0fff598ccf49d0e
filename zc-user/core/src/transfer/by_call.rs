//! Flows of calls that name both ends, and the attempts that failed before a flow.
//!
//! An attempt is a call that moved no byte between the ends of a flow, and came before it: it
//! failed, or it returned 0 although there was something to move.

use std::collections::{BTreeMap, HashMap};

use super::{
    activity::Activity,
    flow::{Flow, Source, only_failed},
};
use crate::{
    syscall::{Call, FICLONE, FICLONERANGE},
    trace::{FileId, FileKind, Row},
    transfer::Api,
};

/// The interface of a call that names both ends.
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
/// If something moved between two ends, interfaces that moved nothing there are attempts. If
/// nothing moved at all, the flow is that of the last interface that did not fail (the source was
/// empty), or of the last one if all failed.
pub(super) fn flows<'a>(activity: &Activity<'a>) -> Vec<Flow<'a>> {
    activity
        .copies
        .iter()
        .flat_map(|(&(from, to), rows)| between(from, to, rows))
        .collect()
}

fn between<'a>(from: FileId, to: FileId, rows: &[&'a Row]) -> Vec<Flow<'a>> {
    let mut by_api: BTreeMap<Api, Vec<&Row>> = BTreeMap::new();
    for &row in rows {
        if let Some(api) = api(&row.call) {
            by_api.entry(api).or_default().push(row);
        }
    }
    let flows = by_api
        .into_iter()
        .map(|(api, rows)| Flow::direct(Source::File(from), to, api, rows));
    let (moved, idle): (Vec<Flow>, Vec<Flow>) = flows.partition(|flow| flow.bytes != Some(0));
    if moved.is_empty() {
        idle.into_iter()
            .max_by_key(last_choice)
            .into_iter()
            .collect()
    } else {
        moved
    }
}

/// Orders flows that moved nothing: one that did not fail comes last, then the latest.
fn last_choice(flow: &Flow<'_>) -> (bool, Option<u64>) {
    (
        !flow.writing.iter().all(|row| only_failed(row)),
        flow.order(),
    )
}

/// Adds to each flow the attempts before it. An attempt that names only one of the ends, such as a
/// `splice` into a pipe of the program's own, goes to the first flow with that end.
pub(super) fn add_attempts<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) {
    let via_pipes = take_failed_via_pipes(flows, activity);
    drop_idle(flows);
    for flow in flows.iter_mut() {
        let Some(from) = flow.from.file() else {
            continue;
        };
        let tried = activity
            .copies
            .get(&(from, flow.to))
            .into_iter()
            .flatten()
            .copied();
        let order = flow.order();
        let own: Vec<&Row> = tried
            .filter(|row| moved_nothing(row) && is_before(row, order) && !is_of(flow, row))
            .collect();
        flow.attempts.extend(own);
    }
    let failed = |sides: &BTreeMap<Option<FileId>, Vec<&'a Row>>| -> Vec<(FileId, &'a Row)> {
        let of_file = |(&file, rows): (&Option<FileId>, &Vec<&'a Row>)| {
            let rows: Vec<&'a Row> = rows
                .iter()
                .copied()
                .filter(|row| only_failed(row))
                .collect();
            rows.into_iter().filter_map(move |row| Some((file?, row)))
        };
        sides.iter().flat_map(of_file).collect()
    };
    let mut of_source = failed(&activity.reads);
    let mut of_destination = failed(&activity.writes);
    of_source.extend(
        via_pipes
            .iter()
            .filter_map(|flow| Some((flow.from.file()?, *flow.writing.first()?))),
    );
    of_destination.extend(
        via_pipes
            .iter()
            .filter_map(|flow| Some((flow.to, *flow.writing.first()?))),
    );
    give_to_first(flows, &of_source, |flow| flow.from.file());
    give_to_first(flows, &of_destination, |flow| Some(flow.to));
    for flow in flows {
        flow.attempts.sort_by_key(|row| row.order);
    }
}

/// Drops flows that moved nothing if a later flow between the same ends moved something. Their
/// calls are attempts of that flow.
fn drop_idle(flows: &mut Vec<Flow<'_>>) {
    let ends = |flow: &Flow<'_>| (flow.from, flow.to);
    let moved: HashMap<_, _> = flows
        .iter()
        .filter(|flow| flow.bytes != Some(0))
        .map(|flow| (ends(flow), flow.order()))
        .collect();
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
    row.order
        .zip(order)
        .is_none_or(|(attempt, flow)| attempt < flow)
}

fn is_of(flow: &Flow<'_>, row: &Row) -> bool {
    flow.rows().any(|one| std::ptr::eq(one, row))
}

/// Removes and returns failed flows into or out of a pipe that nothing went through, if something
/// else moved at their other end: these are attempts to splice through the pipe.
fn take_failed_via_pipes<'a>(flows: &mut Vec<Flow<'a>>, activity: &Activity<'a>) -> Vec<Flow<'a>> {
    let failed =
        |flow: &Flow<'_>| flow.bytes == Some(0) && flow.writing.iter().all(|row| only_failed(row));
    let ends = |flow: &Flow<'a>| [flow.from.file(), Some(flow.to)];
    let mut moved: HashMap<FileId, bool> = HashMap::new();
    for flow in flows.iter() {
        for file in ends(flow).into_iter().flatten() {
            *moved.entry(file).or_default() |= !failed(flow);
        }
    }
    let idle_pipe = |file: &FileId| {
        activity.kind(*file) == Some(FileKind::Pipe) && !moved.get(file).copied().unwrap_or(false)
    };
    let other_moved = |file: &FileId| moved.get(file).copied().unwrap_or(false);
    let is_attempt = |flow: &Flow<'a>| {
        let ends = ends(flow);
        failed(flow)
            && ends.iter().flatten().any(idle_pipe)
            && ends.iter().flatten().any(other_moved)
    };
    flows.extract_if(.., |flow| is_attempt(flow)).collect()
}

/// Gives each of these failed calls to the first flow with the same end, if the call came before
/// that flow.
fn give_to_first<'a>(
    flows: &mut [Flow<'a>],
    failed: &[(FileId, &'a Row)],
    end: fn(&Flow<'a>) -> Option<FileId>,
) {
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
