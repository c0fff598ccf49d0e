//! Where the time went: a bar for each call, and the table of all calls.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::{LINE_BREAK, counts_are_lower_bounds, part, percent};
use crate::{
    render::{
        calls::Shown,
        head::{self, ReturnedCall},
        text::{self, known, plural},
    },
    report::Report,
    units,
};

/// How many calls have a bar of their own.
const MOST_BARS: usize = 12;
/// A longer name is shortened.
const LONGEST_NAME: usize = 28;

pub(super) fn section(report: &Report, shown: &Shown<'_>) -> Markup {
    let all = match report.processes.as_slice() {
        [only] => shown.process(only),
        _ => shown.total(),
    };
    html! {
        section {
            h2 { "Time by call" }
            (counts_are_lower_bounds(report))
            (bars(report))
            (part(&all))
        }
    }
}

/// A row of the chart.
struct Row {
    name: String,
    ns: Option<u64>,
    /// How many calls took this time, or what else did.
    note: String,
    class: &'static str,
}

/// The calls that took the most time, and the time outside of all calls if that is known.
fn bars(report: &Report) -> Markup {
    let mut calls: Vec<ReturnedCall> = head::returned_calls(report).into_iter().flatten().collect();
    calls.sort_by_key(|call| Reverse(call.total_ns));
    let rest = calls.split_off(calls.len().min(MOST_BARS));
    let row = |call: ReturnedCall| Row {
        name: call.name,
        ns: call.total_ns,
        note: plural(call.calls, "call", "calls"),
        class: "call",
    };
    let mut rows: Vec<Row> = calls.into_iter().map(row).collect();
    if !rest.is_empty() {
        rows.push(Row {
            name: plural(rest.len() as u64, "other kind", "other kinds"),
            ns: rest
                .iter()
                .try_fold(0_u64, |sum, call| sum.checked_add(call.total_ns?)),
            note: plural(rest.iter().map(|call| call.calls).sum(), "call", "calls"),
            class: "call",
        });
    }
    rows.extend(head::rest(report).map(|(ns, what)| Row {
        name: what,
        ns: Some(ns),
        note: String::new(),
        class: "rest",
    }));
    let most = rows.iter().filter_map(|row| row.ns).max().unwrap_or(0);
    let is_partly_unknown = rows.iter().any(|row| row.ns.is_none());
    html! {
        @if rows.is_empty() {
            p { "no calls" }
        } @else {
            ul.bars {
                @for row in &rows { (LINE_BREAK) (bar(row, most)) }
            }
        }
        @if is_partly_unknown { p.faint { "A call without a bar was not timed: its time is unknown, not 0." } }
        @if report.totals.threads > 1 && !rows.is_empty() {
            p.faint { "The times of all threads are added up: together they may be longer than the run." }
        }
    }
}

fn bar(row: &Row, most: u64) -> Markup {
    html! {
        li {
            span.name { (text::shorten(&row.name, LONGEST_NAME)) }
            svg class=(row.class) width="100%" height="14" aria-hidden="true" {
                @if let Some(ns) = row.ns { rect width=(percent(ns, most)) height="14" {} }
            }
            span.figure { (known(row.ns, units::duration)) }
            span.note { (row.note) }
        }
    }
}
