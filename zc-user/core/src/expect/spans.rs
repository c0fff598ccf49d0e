//! Calls in spans that threads marked: what is expected must hold in each span.

use super::{
    facts::{MeasuredFigure, counts_in_words, largest_lines, why_inexact},
    known::KnownFigure,
    names::CallSet,
};
use crate::{
    marked_spans::MarkedSpan,
    report::Report,
    text::plural,
    trace::STRACE,
    words::{did_you_mean, nearest_name},
};

/// Reads how many of these calls were made in each span of this name.
pub(super) fn measure_spans(name: &str, names: &CallSet, report: &Report) -> MeasuredFigure {
    let spans = &report.marked_spans;
    let Some(span) = spans.iter().find(|span| span.name == name) else {
        return MeasuredFigure::unknown_because(why_none(name, report));
    };
    let inexact = why_inexact(report);
    let range = |calls: u64| (calls, inexact.is_none().then_some(calls));
    let counts = span.spans_by_calls(|call| names.contains(call));
    let are_all = span.left_out + span.unended == 0;
    MeasuredFigure {
        known: KnownFigure::Each {
            ranges: counts.into_keys().map(range).collect(),
            are_all,
        },
        reason: inexact.or(why_not_all(span)),
        facts: facts_of_span(span, names),
    }
}

fn why_none(name: &str, report: &Report) -> String {
    if report.backend != STRACE {
        return "calls in spans are only counted by the strace backend: --backend strace"
            .to_owned();
    }
    let names = report.marked_spans.iter().map(|span| span.name.as_str());
    let hint = did_you_mean(nearest_name(name, names));
    format!("no thread made a span \"{name}\"{hint}")
}

fn why_not_all(span: &MarkedSpan) -> Option<String> {
    let (unended, left_out) = (span.unended, span.left_out);
    if unended > 0 {
        let spans = plural(unended, "span", "spans");
        return Some(format!("{spans} did not end in the thread that began it"));
    }
    let spans = plural(left_out, "span", "spans");
    (left_out > 0).then_some(format!("the calls of {spans} were not kept"))
}

/// The spans with the most of these calls.
fn facts_of_span(span: &MarkedSpan, names: &CallSet) -> Vec<String> {
    let mut lines = Vec::new();
    for one in &span.combinations {
        let calls = one.calls.iter().filter(|(name, _)| names.contains(name));
        let weight = calls.clone().map(|(_, count)| count).sum();
        if weight > 0 {
            let spans = plural(one.spans, "span", "spans");
            lines.push((weight, format!("{spans}: {}", counts_in_words(calls))));
        }
    }
    largest_lines(lines)
}
