//! The verdict: one plain sentence.

use std::collections::BTreeMap;

use super::{
    facts::Facts,
    rules::{Case, Way},
};
use crate::{
    transfer::{Api, Attempt, Reason},
    units::short_bytes,
};

/// The n-th part of the bytes is more than a reader forgives who multiplies calls by their size.
const MUCH: u64 = 20;

/// The facts, then the reason if there is one: `sendfile, 1 call of 1 MiB, after copy_file_range (EXDEV): ...`.
pub(super) fn sentence(case: &Case<'_>, reason: Option<&Reason>) -> String {
    let mut sentence = clause(case.api, case.bytes, case.facts);
    sentence.push_str(match case.way {
        Way::Straight | Way::Unseen => "",
        Way::Handled => ", copied or changed in memory on the way",
        Way::Changed => ", changed on the way",
    });
    sentence.push_str(&after(&case.facts.attempts));
    if let Some(reason) = reason {
        sentence.push_str(": ");
        sentence.push_str(&reason.text);
    }
    sentence
}

/// The facts of one flow without its attempts.
pub(super) fn clause(api: Api, bytes: Option<u64>, facts: &Facts) -> String {
    let clause = format!("{}, {}", name(api), work(api, bytes, facts));
    if facts.retries.is_empty() {
        return clause;
    }
    let count = facts.retries.values().sum();
    format!("{clause}, {} retried ({})", calls(count), names(&facts.retries))
}

fn work(api: Api, bytes: Option<u64>, facts: &Facts) -> String {
    let failed = || {
        let count = facts.errors.values().sum();
        format!("{} failed ({})", calls(count), names(&facts.errors))
    };
    let work = match bytes {
        None if api == Api::Reflink => format!("{} that shared blocks instead of copying", calls(facts.moving_calls)),
        None => format!("{}, number of bytes unknown", calls(facts.moving_calls)),
        Some(0) if facts.moving_calls + facts.zero_calls == 0 => return failed(),
        Some(0) => format!("{} that found nothing to copy", calls(facts.zero_calls)),
        Some(bytes) => moved(bytes, facts),
    };
    if facts.errors.is_empty() { work } else { format!("{work}, {}", failed()) }
}

/// `733 calls of 4 KiB`, also if the last one was shorter; `3 calls of up to 2.0 GiB`, if that is much of the whole;
/// `294 calls of 10.0 KiB on average`.
fn moved(bytes: u64, facts: &Facts) -> String {
    let count = facts.moving_calls;
    let Some(mean) = bytes.checked_div(count) else { return short_bytes(bytes) };
    let in_pieces = facts
        .asked_at_source()
        .filter(|&asked| count > 1 && bytes.checked_div(asked).is_some() && bytes.div_ceil(asked) == count);
    match in_pieces {
        Some(asked) if asked * count - bytes > bytes / MUCH => {
            format!("{} of up to {}", calls(count), short_bytes(asked))
        }
        Some(asked) => format!("{} of {}", calls(count), short_bytes(asked)),
        None if bytes.is_multiple_of(count) => format!("{} of {}", calls(count), short_bytes(mean)),
        None => format!("{} of {} on average", calls(count), average(bytes, count)),
    }
}

/// Of few bytes, half a byte counts.
#[expect(clippy::cast_precision_loss, reason = "exact where it is below a kibibyte, and shown with one decimal")]
fn average(bytes: u64, count: u64) -> String {
    let mean = bytes / count;
    if mean < 1024 { format!("{:.1} B", bytes as f64 / count as f64) } else { short_bytes(mean) }
}

/// `read + write`, with spaces: in a sentence it is no name.
pub(super) fn name(api: Api) -> String {
    api.name().replace('+', " + ")
}

/// `, after copy_file_range (EXDEV), sendfile (EINVAL, 2 calls)`; nothing if the first attempt worked.
fn after(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return String::new();
    }
    let show = |attempt: &Attempt| match attempt.calls {
        0 | 1 => format!("{} ({})", attempt.syscall, attempt.errno),
        count => format!("{} ({}, {count} times)", attempt.syscall, attempt.errno),
    };
    format!(", after {}", attempts.iter().map(show).collect::<Vec<_>>().join(", "))
}

fn calls(count: u64) -> String {
    format!("{count} {}", if count == 1 { "call" } else { "calls" })
}

fn names(errnos: &BTreeMap<String, u64>) -> String {
    errnos.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
