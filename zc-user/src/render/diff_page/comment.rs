//! `zctrace diff` in GitHub's Markdown, as a comment on a pull request: what a reviewer reads in
//! five seconds.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{amount, answer, cells, flag_lines, is_judged, way_in_words};
use crate::{
    check::{Difference, DifferenceState},
    diff::{Diff, DiffOutcome, WayDifference},
    render::{
        markdown::{self, code, escape_markdown, list_item},
        table::{STAYS, ShownTable},
        text::{self, plural},
    },
    report::FailedPath,
};

/// The most calls that the table names, those that changed most first.
const MAX_CALLS: usize = 8;
/// The most calls with a path that the list names.
const MAX_FAILURES: usize = 5;

/// The figures of a call that have a column of the table.
const COLUMNS: [&str; 3] = ["calls", "bytes", "errors"];

/// What changed of one call, by column.
type ChangedCall<'a> = [Option<&'a Difference>; COLUMNS.len()];

/// The comment: one word if nothing changed.
pub(super) fn render(diff: &Diff) -> String {
    if diff.outcome == DiffOutcome::Same && diff.descriptor_flags.is_empty() {
        return "unchanged\n".to_owned();
    }
    let (calls, others) = by_call(&diff.figures);
    let mut blocks = vec![commands(diff)];
    if diff.outcome == DiffOutcome::Inconclusive {
        blocks.push(escape_markdown(&answer(diff).0));
    }
    if !calls.is_empty() {
        blocks.push(markdown::table(&table(diff, &calls)));
    }
    let mut items: Vec<String> = others.into_iter().map(figure_item).collect();
    items.extend(diff.transfers.iter().map(way_item));
    let flags = flag_lines(diff).into_iter();
    items.extend(flags.map(|line| list_item(&escape_markdown(&line))));
    items.extend(failure_items(
        diff.new_failures.as_deref().unwrap_or_default(),
    ));
    if !items.is_empty() {
        blocks.push(items.join("\n"));
    }
    if diff.sides.iter().any(|side| !side.exact) {
        blocks.push(
            "One of the two reports is a lower bound: figures with a ? may be the same.".to_owned(),
        );
    }
    blocks.join("\n\n") + "\n"
}

/// What ran: one command if it is the same.
fn commands(diff: &Diff) -> String {
    let [before, now] = diff
        .sides
        .each_ref()
        .map(|side| code(&text::command_line(&side.command)));
    if before == now {
        now
    } else {
        format!("{before} → {now}")
    }
}

/// The figures by call, and those that have no column.
fn by_call(figures: &[Difference]) -> (Vec<(&str, ChangedCall<'_>)>, Vec<&Difference>) {
    let (mut calls, mut others) = (BTreeMap::<&str, ChangedCall<'_>>::new(), Vec::new());
    // Lower bounds may be equal; the last line speaks of them.
    let differing = figures.iter().filter(|one| one.baseline != one.now);
    for figure in differing.filter(|one| is_judged(one)) {
        let (call, field) = figure.metric.split_once('.').unwrap_or_default();
        match COLUMNS.iter().position(|column| *column == field) {
            Some(column) => calls.entry(call).or_default()[column] = Some(figure),
            None => others.push(figure),
        }
    }
    // The number of all errors of a call says more than that of each kind.
    others.retain(|figure| {
        let call = figure.metric.split_once(".errors.").map(|(call, _)| call);
        call.is_none_or(|call| calls.get(call).is_none_or(|changed| changed[2].is_none()))
    });
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|(_, changed)| Reverse(changed.map(|figure| figure.map_or(0, size))));
    (calls, others)
}

/// How much a figure changed.
fn size(figure: &Difference) -> u64 {
    let [before, now] = [figure.baseline, figure.now].map(Option::unwrap_or_default);
    before.abs_diff(now)
}

/// All calls in the first row, then those that changed most. An empty cell: it did not change.
fn table(diff: &Diff, calls: &[(&str, ChangedCall<'_>)]) -> ShownTable {
    let [before, now] = diff.calls;
    let is_known = diff.sides.iter().all(|side| side.exact);
    let all = Difference {
        metric: "all.calls".to_owned(),
        baseline: Some(before),
        now: Some(now),
        tolerance: String::new(),
        state: if is_known {
            DifferenceState::Beyond
        } else {
            DifferenceState::Unknown
        },
    };
    let row = |name: &str, changed: &ChangedCall<'_>| {
        let figures = changed.map(|figure| figure.map_or_else(String::new, change));
        [text::escape(name)]
            .into_iter()
            .chain(figures)
            .collect::<Vec<_>>()
    };
    let mut rows = vec![row("all calls", &[Some(&all), None, None])];
    let (shown, more) = calls.split_at(MAX_CALLS.min(calls.len()));
    rows.extend(shown.iter().map(|(name, changed)| row(name, changed)));
    if !more.is_empty() {
        let name = format!(
            "{} that changed less",
            plural(more.len() as u64, "call", "calls")
        );
        rows.push(row(&name, &[None; COLUMNS.len()]));
    }
    let titles = ["system call"].into_iter().chain(COLUMNS);
    ShownTable::new(titles.map(|title| (title, STAYS)), rows)
}

/// `9 → 17 (+8)`.
fn change(figure: &Difference) -> String {
    let [_, before, now, change] = cells(figure);
    match figure.state {
        DifferenceState::Unknown => format!("{before} → {now} (?)"),
        _ if figure.metric.starts_with("exit.") => format!("{before} → {now}"),
        _ => format!("{before} → {now} ({change})"),
    }
}

fn figure_item(figure: &Difference) -> String {
    let text = format!("{}: {}", text::escape(&figure.metric), change(figure));
    list_item(&escape_markdown(&text))
}

/// `**new** read + write, regular -> regular: 1 transfer, 1.0 MiB`.
fn way_item(way: &WayDifference) -> String {
    let known = |sums: Option<_>| sums.map_or_else(String::new, amount);
    let [before, now] = way.sums.map(known);
    let (kind, sums) = match way.sums {
        [None, _] => ("new", now),
        [_, None] => ("gone", before),
        _ => ("changed", format!("{before} → {now}")),
    };
    let doubt = if way.state == DifferenceState::Beyond {
        ""
    } else {
        "?"
    };
    let text = escape_markdown(&format!("{}: {sums}", way_in_words(way)));
    list_item(&format!("**{kind}{doubt}** {text}"))
}

/// `**fails now** ENOENT /etc/app.conf (openat)`.
fn failure_items(failures: &[FailedPath]) -> Vec<String> {
    let item = |failure: &FailedPath| {
        let times = match failure.calls {
            1 => String::new(),
            calls => format!("{calls} x "),
        };
        let paths = failure.path.iter().chain(&failure.second_path);
        let paths = text::paths(paths.map(String::as_str), failure.path_cut);
        let [errno, call] = [&failure.errno, &failure.syscall].map(|name| text::escape(name));
        let text = format!("{times}{errno} {paths} ({call})").replace("  ", " ");
        list_item(&format!("**fails now** {}", escape_markdown(&text)))
    };
    let (shown, more) = failures.split_at(MAX_FAILURES.min(failures.len()));
    let mut items: Vec<String> = shown.iter().map(item).collect();
    items.extend((!more.is_empty()).then(|| {
        let paths = plural(more.len() as u64, "more path", "more paths");
        list_item(&format!("**fails now** on {paths}"))
    }));
    items
}
