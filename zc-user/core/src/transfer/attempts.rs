//! Attempts: calls that moved no byte between the ends of a flow, and came before it. They failed,
//! or returned 0 although there was something to move.

use std::collections::HashMap;

use super::{
    facts::{ProcessFacts, RowsByFile},
    flow::{Flow, only_failed},
};
use crate::trace::{FileId, Row};

/// Orders flows that moved nothing: one that did not fail comes last, then the latest.
pub(super) fn last_choice(flow: &Flow<'_>) -> (bool, Option<u64>) {
    (
        !flow.writing.iter().all(|row| only_failed(row)),
        flow.order(),
    )
}

/// Adds to each flow the attempts before it. An attempt that names only one of the ends, such as a
/// `splice` into a pipe of the program's own, goes to the first flow with that end.
pub(super) fn add_attempts<'a>(flows: &mut Vec<Flow<'a>>, facts: &ProcessFacts<'a>) {
    let via_pipes = take_failed_via_pipes(flows, facts);
    drop_idle(flows);
    for flow in flows.iter_mut() {
        let order = flow.order();
        let tried = facts.copies.get(&(flow.from, flow.to));
        let own: Vec<&Row> = tried
            .into_iter()
            .flatten()
            .copied()
            .filter(|row| moved_nothing(row) && is_before(row, order) && !has_row(flow, row))
            .collect();
        flow.attempts.extend(own);
    }
    let of_pipes = |end: fn(&Flow<'a>) -> FileId| {
        via_pipes
            .iter()
            .filter_map(move |flow| Some((end(flow), *flow.writing.first()?)))
    };
    let from = |flow: &Flow<'a>| flow.from;
    let to = |flow: &Flow<'a>| flow.to;
    let mut of_source = failed_rows(&facts.reads);
    of_source.extend(of_pipes(from));
    let mut of_destination = failed_rows(&facts.writes);
    of_destination.extend(of_pipes(to));
    give_to_first(flows, &of_source, from);
    give_to_first(flows, &of_destination, to);
    for flow in flows {
        flow.attempts.sort_by_key(|row| row.order);
    }
}

/// The rows of which every call failed, with their files.
fn failed_rows<'a>(rows: &RowsByFile<'a>) -> Vec<(FileId, &'a Row)> {
    rows.iter()
        .filter_map(|(&file, rows)| Some((file?, rows)))
        .flat_map(|(file, rows)| rows.iter().map(move |row| (file, *row)))
        .filter(|(_, row)| only_failed(row))
        .collect()
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

fn has_row(flow: &Flow<'_>, row: &Row) -> bool {
    flow.rows().any(|one| std::ptr::eq(one, row))
}

/// Removes and returns failed flows into or out of a pipe that nothing went through, if something
/// else moved at their other end: these are attempts to splice through the pipe.
fn take_failed_via_pipes<'a>(flows: &mut Vec<Flow<'a>>, facts: &ProcessFacts<'a>) -> Vec<Flow<'a>> {
    let has_failed =
        |flow: &Flow<'_>| flow.bytes == Some(0) && flow.writing.iter().all(|row| only_failed(row));
    let mut moved: HashMap<FileId, bool> = HashMap::new();
    for flow in flows.iter() {
        for file in [flow.from, flow.to] {
            *moved.entry(file).or_default() |= !has_failed(flow);
        }
    }
    let has_moved = |file: FileId| moved.get(&file).copied().unwrap_or(false);
    let is_attempt = |flow: &Flow<'a>| {
        let ends = [flow.from, flow.to];
        has_failed(flow)
            && ends
                .iter()
                .any(|file| facts.is_nameless_pipe(*file) && !has_moved(*file))
            && ends.iter().any(|file| has_moved(*file))
    };
    flows.extract_if(.., |flow| is_attempt(flow)).collect()
}

/// Gives each of these failed calls to the first flow with the same end, if the call came before
/// that flow.
fn give_to_first<'a>(
    flows: &mut [Flow<'a>],
    failed: &[(FileId, &'a Row)],
    end: fn(&Flow<'a>) -> FileId,
) {
    if failed.is_empty() {
        return;
    }
    let mut first: HashMap<FileId, (Option<u64>, usize)> = HashMap::new();
    for (index, flow) in flows.iter().enumerate() {
        let known = first.entry(end(flow)).or_insert((flow.order(), index));
        *known = (*known).min((flow.order(), index));
    }
    for &(file, row) in failed {
        if let Some(&(order, index)) = first.get(&file)
            && is_before(row, order)
            && !has_row(&flows[index], row)
        {
            flows[index].attempts.push(row);
        }
    }
}
