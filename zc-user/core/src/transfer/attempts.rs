//! Attempts: calls that moved no byte between the ends of a flow, and came before it. They failed,
//! or returned 0 although there was something to move.

use std::collections::HashMap;

use super::{facts::ProcessFacts, flow::Flow};
use crate::trace::Row;

/// Adds to each flow the attempts between the same ends before it, in order. Flows that moved
/// nothing are dropped if they are attempts of another one.
pub(super) fn add_attempts<'a>(flows: &mut Vec<Flow<'a>>, facts: &ProcessFacts<'a>) {
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
        flow.attempts.sort_by_key(|row| row.order);
    }
}

/// Drops flows that moved nothing if a later flow between the same ends moved something.
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
