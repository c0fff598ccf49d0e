//! The calls that took longer than a limit.

use super::{
    page::{Options, Style, TextLine, words},
    part::{DocumentPart, more, split},
    table::{ListColumn, STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    report::Report,
    slow_calls::{SlowCall, SlowCalls},
    units,
};

/// How many calls are shown without `--all`.
const MAX_CALLS: usize = 20;
/// The head names the slowest call if it took this part of the run.
const MIN_WALL_SHARE_DIVISOR: u64 = 10;

const COLUMNS: [ListColumn<SlowCall>; 6] = [
    ("time", STAYS, |call| units::duration(call.ns)),
    ("since start", 1, |call| known(call.at_ns, units::duration)),
    ("call", STAYS, |call| text::escape(&call.call)),
    ("path", 2, |call| {
        call.path.as_deref().map(text::escape).unwrap_or_default()
    }),
    ("result", 3, result),
    ("process, thread", STAYS, who),
];

/// The calls, the longest first.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let slow = report.slow_calls.as_ref()?;
    let (shown, hidden) = split(&slow.calls, MAX_CALLS, options);
    let longest = hidden.first().map_or(0, |call| call.ns);
    let figures = format!("at most {}", units::duration(longest));
    let mut table = ShownTable::of_list(&COLUMNS, shown);
    for (row, call) in table.rows.iter_mut().zip(shown) {
        row.below.extend(caller(call, report));
    }
    let mut part = DocumentPart::listing(
        &heading(slow),
        table,
        more(hidden, ["call", "calls"], &figures),
    );
    if slow.calls.is_empty() {
        part.table = None;
    }
    let sentences = left_out(slow).into_iter().flatten();
    let lines = sentences.map(|sentence| words(&sentence, Style::Plain));
    part.remarks.extend(lines);
    Some(part)
}

/// `SLOW CALLS, 3 that took longer than 10.0 ms`.
fn heading(slow: &SlowCalls) -> String {
    let limit = units::duration(slow.slower_than_ns);
    let least = if slow.lost > 0 || slow.untimed > 0 {
        "at least "
    } else {
        ""
    };
    let count = slow.calls.len() as u64 + slow.left_out + slow.lost;
    format!("SLOW CALLS, {least}{count} that took longer than {limit}")
}

/// What the list does not have.
fn left_out(slow: &SlowCalls) -> [Option<String>; 3] {
    let calls = |count| plural(count, "call", "calls");
    let shortest = slow.calls.last().map_or(0, |call| call.ns);
    let left_out = format!(
        "{} that took at most {} were not kept",
        calls(slow.left_out),
        units::duration(shortest)
    );
    let lost = format!(
        "{} could not be reported, because too many came at once: they may be longer",
        calls(slow.lost)
    );
    let untimed = format!("the times of {} are unknown", calls(slow.untimed));
    [
        (slow.left_out > 0).then_some(left_out),
        (slow.lost > 0).then_some(lost),
        (slow.untimed > 0).then_some(untimed),
    ]
}

/// The slowest call in one line, if it took a tenth of the run: `slowest call: read of pipe took 50.0
/// ms in cat (71)`.
pub(super) fn line(report: &Report) -> TextLine {
    let Some(slow) = &report.slow_calls else {
        return TextLine::new();
    };
    let wall_ns = report.wall_ns.unwrap_or(u64::MAX);
    let is_long = |call: &&SlowCall| call.ns >= wall_ns / MIN_WALL_SHARE_DIVISOR;
    let Some(call) = slow.calls.first().filter(is_long) else {
        return TextLine::new();
    };
    let path = call.path.as_deref();
    let path = path.map_or_else(String::new, |path| format!(" of {}", text::escape(path)));
    // One that was lost may be slower.
    let what = if slow.lost > 0 {
        "slow call"
    } else {
        "slowest call"
    };
    let caller = caller(call, report).map_or_else(String::new, |caller| format!(", {caller}"));
    let sentence = format!(
        "{what}: {}{path} took {} in {}{caller}",
        text::escape(&call.call),
        units::duration(call.ns),
        who(call)
    );
    words(&sentence, Style::Plain)
}

/// `caller: flush (server.c:31)`. `None`: callers were not sampled, or not this one.
fn caller(call: &SlowCall, report: &Report) -> Option<String> {
    let stack = report.stacks.as_ref()?.get(call.stack?)?;
    Some(text::escape(
        &stack.caller_line(report.directory.as_deref()),
    ))
}

/// The errno, or what the call returned.
fn result(call: &SlowCall) -> String {
    let result = call.result.map(|result| result.to_string());
    let result = call.error.as_deref().map(text::escape).or(result);
    known(result, |result| result)
}

/// `server (71), worker-1 (73)`: the process, and the thread if it is not its first one.
fn who(call: &SlowCall) -> String {
    let named = |name: Option<&String>, id: Option<u32>| {
        let name = name.map(|name| text::escape(name));
        let id = id.map(|id| format!("({id})"));
        let parts: Vec<String> = name.into_iter().chain(id).collect();
        parts.join(" ")
    };
    let process = named(call.program.as_ref(), call.pid);
    if call.tid == call.pid {
        process
    } else {
        format!("{process}, {}", named(call.thread.as_ref(), call.tid))
    }
}
