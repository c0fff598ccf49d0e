//! What was touched outside of an allow-list, and calls by the address that they named.

use super::{
    allow::{AddressPattern, AllowPattern},
    ast::FigureExpr,
    facts::{MeasuredFigure, why_inexact},
    known::{Amount, KnownFigure},
    names::CallSet,
    pattern::Match,
};
use crate::{
    figures::list::FigureField,
    report::Report,
    text::plural,
    touched::{Touch, TouchAction, TouchKind, Touched, TouchedPath},
    units,
};

/// Why nothing is known.
const NOT_RECORDED: &str =
    "the report does not say which paths were touched: run the command again with --paths";

/// What was touched, and what its sums leave open.
pub(super) fn known_touches(report: &Report) -> Result<(&Touched, Option<String>), MeasuredFigure> {
    let Some(touched) = &report.touched else {
        return Err(MeasuredFigure::unknown_because(NOT_RECORDED));
    };
    let calls = plural(touched.left_out, "call", "calls");
    let left_out = format!("there was no room for the paths of {calls}");
    let open = why_inexact(report)
        .or(touched.doubts.first().cloned())
        .or((touched.left_out > 0).then_some(left_out));
    Ok((touched, open))
}

/// How many paths were touched that no pattern allows.
pub(super) fn measure_outside(
    kind: TouchKind,
    allowed: &[AllowPattern],
    report: &Report,
) -> MeasuredFigure {
    let (touched, open) = match known_touches(report) {
        Ok(known) => known,
        Err(unknown) => return unknown,
    };
    let (mut counts, mut facts) = ([0, 0], Vec::new());
    for path in &touched.paths {
        let meant = path.touches.iter().filter(|one| is_meant(kind, one));
        let allows = allowed.iter().map(|pattern| pattern.allows(&path.path));
        let best = allows.max().unwrap_or(Match::No);
        let Some(first) = first_touch(meant).filter(|_| best != Match::Yes) else {
            continue;
        };
        let is_sure = best == Match::No && first.done() > 0;
        counts[usize::from(!is_sure)] += 1;
        facts.push((first.done() == 0, touch_fact(path, first, best, report)));
    }
    // Those that are certain are of most use.
    facts.sort_by_key(|(is_unsure, _)| *is_unsure);
    let facts = facts.into_iter().map(|(_, fact)| fact).collect();
    let why_unsure = format!("of {} that is unknown", plural(counts[1], "path", "paths"));
    MeasuredFigure::count_of_things(counts, open, why_unsure, facts)
}

/// Whether calls did something of this kind with the path, or may have.
pub(super) fn is_meant(kind: TouchKind, touch: &Touch) -> bool {
    kind.includes(touch.action) && (touch.done() > 0 || touch.unfinished > 0)
}

/// The touch that came first, of those that are certain if there is one.
pub(super) fn first_touch<'a>(touches: impl Iterator<Item = &'a Touch>) -> Option<&'a Touch> {
    touches.min_by_key(|touch| {
        let at_ns = touch.first.at_ns;
        (touch.done() == 0, at_ns.is_none(), at_ns)
    })
}

/// `"out/x": written by cc1, first by openat after 1.20 ms, 3 calls, caller: main (cc.c:4)`.
pub(super) fn touch_fact(
    path: &TouchedPath,
    first: &Touch,
    allowed: Match,
    report: &Report,
) -> String {
    let by = match &first.first.program {
        // The program of an exec that succeeded is the new one.
        Some(program) if first.action != TouchAction::Executed => format!(" by {program}"),
        _ => String::new(),
    };
    let at = match first.first.at_ns {
        Some(ns) => format!(" after {}", units::duration(ns)),
        None => String::new(),
    };
    let (path, action, call) = (&path.path, first.action.name(), &first.call);
    let calls = plural(first.calls, "call", "calls");
    let how = if first.done() == 0 {
        "; it did not return".to_owned()
    } else if first.failed() == first.calls {
        let errnos: Vec<&str> = first.errors.keys().map(String::as_str).collect();
        format!(", with {}", errnos.join(", "))
    } else if allowed == Match::Maybe {
        "; a pattern may allow it".to_owned()
    } else {
        String::new()
    };
    let stacks = report.stacks.as_deref().unwrap_or_default();
    let stack = first.first.stack.and_then(|index| stacks.get(index));
    let by_whom = match stack {
        Some(stack) => format!(", {}", stack.caller_line(report.directory.as_deref())),
        None => String::new(),
    };
    format!("\"{path}\": {action}{by}, first by {call}{at}, {calls}{how}{by_whom}")
}

/// What was found outside of an allow-list, as a clause.
pub(super) fn describe_touches(text: &str, known: &KnownFigure) -> String {
    let KnownFigure::Between(low, high) = known else {
        return format!("{text}: that is unknown");
    };
    let low = low.whole_number().unwrap_or_default();
    let what = match (low, high.and_then(Amount::whole_number)) {
        (0, Some(0)) => "nothing else was touched".to_owned(),
        (0, Some(high)) => format!("{} may be outside", plural(high, "path", "paths")),
        (0, None) => "nothing else was seen, but not everything can be".to_owned(),
        (1, _) => "1 path is outside".to_owned(),
        (low, _) => format!("{low} paths are outside"),
    };
    format!("{text}: {what}")
}

/// Reads a figure that chooses calls by this address.
pub(super) fn measure_calls(
    figure: &FigureExpr,
    names: &CallSet,
    to: &AddressPattern,
    report: &Report,
) -> MeasuredFigure {
    let (touched, open) = match known_touches(report) {
        Ok(known) => known,
        Err(unknown) => return unknown,
    };
    let (mut sure, mut unsure, mut facts) = (0, 0, Vec::new());
    for path in &touched.paths {
        let matched = to.matches_address(&path.path);
        for touch in &path.touches {
            if !touch.action.is_of_address() || !names.contains(&touch.call) {
                continue;
            }
            let count = match (figure.field, &figure.errno) {
                (FigureField::Calls, _) => touch.calls,
                (_, None) => touch.failed(),
                (_, Some(errno)) => touch.errors.get(errno).copied().unwrap_or_default(),
            };
            match matched {
                Match::Yes => sure += count,
                Match::Maybe => unsure += count,
                Match::No => continue,
            }
            if count > 0 {
                facts.push(touch_fact(path, touch, matched, report));
            }
        }
    }
    let calls = plural(unsure, "call", "calls");
    let why_unsure = format!("the protocol of {calls} is unknown");
    MeasuredFigure::count_of_things([sure, unsure], open, why_unsure, facts)
}
