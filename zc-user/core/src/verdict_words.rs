//! Transfers in words: the verdict, one plain sentence, and the names and amounts that texts use.

use std::collections::BTreeMap;

use crate::{
    report::error_meanings,
    text::plural,
    transfer::{Api, Attempt, Certainty, Evidence, Transfer},
    units::{self, short_bytes},
};

impl Transfer {
    /// The parts of the verdict: what did the work, and what failed before. The second is empty if the
    /// first says it.
    pub fn verdict_parts(&self) -> (&str, &[Attempt]) {
        match self.verdict.strip_suffix(&attempts_and_reason(self)) {
            Some(work) => (work, &self.attempts),
            None => (&self.verdict, &[]),
        }
    }
}

impl Certainty {
    /// Bytes as text, `observed_bytes` of which were observed: `5.0 MiB`, `probably 5.0 MiB`, or `5.0 MiB,
    /// 1.0 MiB of it probably`.
    pub fn bytes_text(self, bytes: u64, observed_bytes: u64) -> String {
        let all = units::bytes(bytes);
        match self {
            Self::Observed => all,
            Self::Inferred if observed_bytes == 0 => format!("probably {all}"),
            Self::Inferred => {
                match units::bytes(bytes.saturating_sub(observed_bytes)) {
                    // Next to nothing was observed.
                    rest if rest == all => format!("probably {all}"),
                    rest => format!("{all}, {rest} of it probably"),
                }
            }
            Self::Changed => format!("{all}, changed on the way"),
        }
    }
}

impl Api {
    /// The name as part of a sentence: `read + write`, with spaces.
    pub fn in_words(self) -> String {
        self.name().replace('+', " + ")
    }
}

impl Attempt {
    /// What it means that this call failed with this errno, if that is known.
    pub fn meaning(&self) -> Option<&'static str> {
        error_meanings::error_meaning(&self.errno, &self.syscall, false)
    }
}

/// What was done, then the reason if there is one: `sendfile, 1 call of 1 MiB, after
/// copy_file_range (EXDEV): ...`. If a call at the destination `is_cut_off`, it says so.
pub(crate) fn verdict_sentence(clause: &str, transfer: &Transfer, is_cut_off: bool) -> String {
    let caveat = caveat_of(transfer);
    let cut_off = if is_cut_off {
        ", and a call that was cut off"
    } else {
        ""
    };
    format!("{clause}{caveat}{cut_off}{}", attempts_and_reason(transfer))
}

/// Why a transfer is only probable, or none: `; 425 of 733 words compared differ`.
fn caveat_of(transfer: &Transfer) -> String {
    match transfer.evidence {
        Evidence::Totals => ", as only the sums of both sides show".to_owned(),
        Evidence::Reused => ", more bytes than it read: written twice, or read by a process with the same memory, or the memory was reused".to_owned(),
        Evidence::Changed => {
            let words = plural(transfer.compared_words, "word", "words");
            format!("; {} of {words} compared differ", transfer.changed_words)
        }
        _ => String::new(),
    }
}

/// What was tried before, the reason, and what the last failure means, if there was one: `, after
/// copy_file_range (EXDEV): copy_file_range does not work between these two filesystems`.
fn attempts_and_reason(transfer: &Transfer) -> String {
    let of_itself = || {
        let failed = transfer.errors.keys().filter(|_| transfer.bytes == Some(0));
        let call = transfer.calls_by_syscall.keys().next()?;
        error_meanings::error_meaning(failed.min()?, call, false)
    };
    let last = transfer.attempts.last();
    let meaning = last.map_or_else(of_itself, Attempt::meaning);
    let reason = transfer.reason.as_ref().map(|reason| reason.text.as_str());
    let why: Vec<&str> = reason.into_iter().chain(meaning).collect();
    let colon = if why.is_empty() { "" } else { ": " };
    let tried = after_attempts(&transfer.attempts);
    format!("{tried}{colon}{}", why.join("; "))
}

/// What was done in several transfers, from their sum.
pub(crate) fn verdict_of_many(sum: &Transfer) -> String {
    let transfers = plural(sum.transfer_count(), "transfer", "transfers");
    let calls = sum.calls.map(|count| format!(", {}", calls_as_text(count)));
    format!(
        "{transfers}: {}{}{}",
        sum.api.in_words(),
        calls.unwrap_or_default(),
        attempts_and_reason(sum)
    )
}

/// The calls of a transfer that moved something at the destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovingCalls {
    pub(crate) calls: u64,
    /// The fewest and the most bytes that one of them moved. `None`: unknown.
    pub(crate) least_and_most_bytes: Option<[u64; 2]>,
}

/// What the calls of a transfer did, without its attempts.
pub(crate) fn what_calls_did(transfer: &Transfer, moving: MovingCalls) -> String {
    let mut clause = vec![transfer.api.in_words()];
    clause.extend(amount_of_work(transfer, moving));
    // Whether they were made again is not known: a program may give up.
    for (what, errnos) in [
        ("failed", &transfer.errors),
        ("moved nothing", &transfer.retries),
    ] {
        if !errnos.is_empty() {
            clause.push(calls_by_errno(what, errnos));
        }
    }
    clause.join(", ")
}

/// `None`: no call succeeded.
fn amount_of_work(transfer: &Transfer, moving: MovingCalls) -> Option<String> {
    let (calls, idle) = (moving.calls, transfer.zero_calls);
    Some(match transfer.bytes {
        None if transfer.api == Api::Reflink => format!(
            "{} that shared blocks instead of copying",
            calls_as_text(calls)
        ),
        None => format!("{}, number of bytes unknown", calls_as_text(calls)),
        Some(0) if calls + idle == 0 => return None,
        Some(0) => format!("{} that moved nothing", calls_as_text(idle)),
        Some(bytes) => count_and_size(bytes, moving),
    })
}

/// `7 calls moved nothing (EAGAIN, EINTR)`.
fn calls_by_errno(what: &str, errnos: &BTreeMap<String, u64>) -> String {
    let names: Vec<&str> = errnos.keys().map(String::as_str).collect();
    let calls = calls_as_text(errnos.values().sum());
    format!("{calls} {what} ({})", names.join(", "))
}

/// `733 calls of 4 KiB` if each had that size, `732 calls of 4 KiB and 1 of 2.7 KiB` if all but one
/// had it; otherwise `294 calls of 10.0 KiB on average`.
fn count_and_size(bytes: u64, moving: MovingCalls) -> String {
    let count = moving.calls;
    let Some(others) = count.checked_sub(1) else {
        return short_bytes(bytes);
    };
    let [least, most] = moving.least_and_most_bytes.unwrap_or([bytes, bytes]);
    for (usual, one) in [(most, least), (least, most)] {
        if usual.checked_mul(others) == bytes.checked_sub(one) {
            let calls = if usual == one { count } else { others };
            let calls = format!("{} of {}", calls_as_text(calls), short_bytes(usual));
            return if usual == one {
                calls
            } else {
                format!("{calls} and 1 of {}", short_bytes(one))
            };
        }
    }
    let mean = bytes.saturating_add(count / 2) / count;
    format!(
        "{} of {} on average",
        calls_as_text(count),
        short_bytes(mean)
    )
}

/// `, after copy_file_range (EXDEV), sendfile (EINVAL, 2 times)`; empty if the first attempt
/// worked.
fn after_attempts(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return String::new();
    }
    let show = |attempt: &Attempt| match attempt.calls {
        0 | 1 => format!("{} ({})", attempt.syscall, attempt.errno),
        count => format!("{} ({}, {count} times)", attempt.syscall, attempt.errno),
    };
    format!(
        ", after {}",
        attempts.iter().map(show).collect::<Vec<_>>().join(", ")
    )
}

fn calls_as_text(count: u64) -> String {
    plural(count, "call", "calls")
}
