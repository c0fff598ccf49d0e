//! Where the time went: a bar for each call, and the table of all calls.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::{LINE_BREAK, counts_are_lower_bounds, percent, pieces, table};
use crate::{
    render::{
        columns::Layout,
        head::{self, ReturnedCall},
        page::Options,
        section::{Section, plural},
        table::{self as tables, Sections},
        text::{self, known},
    },
    report::Report,
    units,
};

/// How many calls have a bar of their own.
const MOST_BARS: usize = 12;
/// How many rows a table of calls has.
const MOST_ROWS: usize = 100;
/// A longer name is shortened.
const LONGEST_NAME: usize = 28;

pub(super) fn section(report: &Report) -> Markup {
    let Sections { sections, .. } = tables::sections(report, &Options::default());
    html! {
        section {
            h2 { "Time by call" }
            (counts_are_lower_bounds(report))
            (bars(report))
            // The first section is that of all calls.
            @for section in sections.iter().take(1) {
                h3 { (section.title()) }
                (calls(section))
            }
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
            span.name { (text::shorten_middle(&row.name, LONGEST_NAME)) }
            svg class=(row.class) width="100%" height="14" aria-hidden="true" {
                @if let Some(ns) = row.ns { rect width=(percent(ns, most)) height="14" {} }
            }
            span.figure { (known(row.ns, units::duration)) }
            span.note { (row.note) }
        }
    }
}

/// The table of a section, and the lines below it.
pub(super) fn calls(section: &Section<'_>) -> Markup {
    let returned = section.returned();
    let layout = Layout::fit(&returned, None);
    let hidden = returned.get(MOST_ROWS..).unwrap_or_default();
    let rows = layout.rows(&returned);
    html! {
        @if !returned.is_empty() {
            (table(&layout.titles(), &rows[..rows.len().min(MOST_ROWS)]))
        }
        @if !hidden.is_empty() {
            p { "and " (plural(hidden.len() as u64, "more kind", "more kinds")) " with "
                (plural(tables::calls_of(hidden.iter().copied()), "call", "calls")) }
        }
        @if !section.is_one_line() {
            ul.remarks { @for remark in section.remarks() { li { (pieces(&remark)) } } }
        }
    }
}
