//! Attempts: calls that moved no byte between the ends of a flow, and came before it. They failed,
//! or returned 0 although there was something to move.

use std::collections::BTreeMap;

use super::{
    facts::{ProcessFacts, may_have_moved},
    flow::{Flow, only_failed},
};
use crate::trace::{FileId, Row};

/// Adds to each flow the attempts between the same ends before it, in order.
pub(super) fn add_attempts<'a>(flows: &mut [Flow<'a>], facts: &ProcessFacts<'a>) {
    for flow in flows {
        let order = flow.first_write_order();
        let tried = facts.copies.get(&(flow.from, flow.to));
        let own: Vec<&Row> = tried
            .into_iter()
            .flatten()
            .copied()
            .filter(|row| {
                let orders = row.order.zip(order);
                !may_have_moved(row)
                    && orders.is_none_or(|(attempt, flow)| attempt < flow)
                    && !flow.own_rows().any(|one| std::ptr::eq(one, *row))
            })
            .collect();
        flow.attempts.extend(own);
        flow.attempts.sort_by_key(|row| row.order);
    }
}

/// Drops flows that moved nothing if another one between the same ends moved something. If none
/// did, the last one stays that did not fail (the source was empty), or the last one if all failed.
pub(super) fn drop_idle(flows: &mut Vec<Flow<'_>>) {
    let choice = |flow: &Flow<'_>| {
        let did_something = !flow.writing.iter().all(|row| only_failed(row));
        let moved = flow.bytes != Some(0);
        (moved, did_something, flow.first_write_order(), flow.api)
    };
    let mut choices: BTreeMap<(FileId, FileId), _> = BTreeMap::new();
    for flow in &*flows {
        let chosen = choices
            .entry((flow.from, flow.to))
            .or_insert_with(|| choice(flow));
        *chosen = choice(flow).max(*chosen);
    }
    let is_chosen = |flow: &Flow<'_>| choices[&(flow.from, flow.to)] == choice(flow);
    flows.retain(|flow| flow.bytes != Some(0) || is_chosen(flow));
}
