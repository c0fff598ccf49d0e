//! The spans that threads marked: their times, and the calls in them.

use std::collections::BTreeSet;

use super::{
    page::{Options, Style, words},
    part::{DocumentPart, more, split},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{marked_spans::MarkedSpan, report::Report, units};

/// How many names are shown without `--all`.
const MAX_SPANS: usize = 20;
/// How many calls are shown of each.
const MAX_CALLS: usize = 5;

const COLUMNS: [(&str, u8); 6] = [
    ("span", STAYS),
    ("count", STAYS),
    ("median time", 2),
    ("largest", 2),
    ("median calls", 1),
    ("largest", 1),
];

/// The spans by name; `None`: there are none.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
    let spans = &report.marked_spans;
    if spans.is_empty() {
        return None;
    }
    let (shown, hidden) = split(spans, MAX_SPANS, options);
    let count = hidden.iter().map(|span| span.count).sum();
    let figures = plural(count, "span", "spans");
    let table = ShownTable::new(COLUMNS, shown.iter().map(row));
    let hidden = more(hidden, ["name", "names"], &figures);
    let mut part = DocumentPart::listing("SPANS that threads marked", table, hidden);
    let sentences = shown
        .iter()
        .flat_map(|span| [calls(span), not_counted(span)]);
    let lines = sentences.flatten();
    let lines = lines.map(|sentence| words(&sentence, Style::Plain));
    part.remarks.extend(lines);
    Some(part)
}

fn row(span: &MarkedSpan) -> Vec<String> {
    let calls = span.median_and_max(|_| true);
    let count = |count: u64| count.to_string();
    vec![
        text::escape(&span.name),
        span.count.to_string(),
        known(span.median_ns, units::duration),
        known(span.max_ns, units::duration),
        known(calls.map(|(median, _)| median), count),
        known(calls.map(|(_, largest)| largest), count),
    ]
}

/// `request: read 2, at most 4; write 1`: the median of each call and the largest count, the most frequent first.
fn calls(span: &MarkedSpan) -> Option<String> {
    let all = span.combinations.iter().flat_map(|one| one.calls.keys());
    let names: BTreeSet<&String> = all.collect();
    let figures = names.into_iter().filter_map(|name| {
        let (median, largest) = span.median_and_max(|other| other == name)?;
        Some((largest, median, name))
    });
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(|one, other| other.cmp(one));
    let one = |(largest, median, name): &(u64, u64, &String)| {
        let most = if largest == median {
            String::new()
        } else {
            format!(", at most {largest}")
        };
        format!("{} {median}{most}", text::escape(name))
    };
    let shown: Vec<String> = figures.iter().take(MAX_CALLS).map(one).collect();
    let rest = figures.len().saturating_sub(MAX_CALLS) as u64;
    let rest = match rest {
        0 => String::new(),
        rest => format!("; {}", plural(rest, "more call", "more calls")),
    };
    let name = text::escape(&span.name);
    (!shown.is_empty()).then(|| format!("{name}: {}{rest}", shown.join("; ")))
}

/// Which spans are not in the figures.
fn not_counted(span: &MarkedSpan) -> Option<String> {
    let name = text::escape(&span.name);
    let spans = |count| plural(count, "span", "spans");
    let unended = (span.unended > 0).then(|| {
        format!(
            "{} did not end in the thread that began it",
            spans(span.unended)
        )
    });
    let left_out =
        (span.left_out > 0).then(|| format!("the calls of {} were not kept", spans(span.left_out)));
    let all: Vec<String> = [unended, left_out].into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("{name}: {}", all.join("; ")))
}
