//! Describes flows and chains as the transfers of the report: ends, figures, and the verdict, one
//! plain sentence.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    activity::Activity,
    conduits::{Carried, Chain},
    figure::{CHANGED, Figure, PERHAPS_CHANGED},
    flow::{Flow, Leg, Source},
    hint,
    rules::{self, Case, Handling},
    summary::{SharedRows, Summary, user_memory_bytes},
};
use crate::{
    report::Callers,
    trace::{File, FileId, Stack, Trace},
    transfer::{Api, Attempt, End, Hop, Inode, Reason, Transfer},
    units::short_bytes,
};

/// A verdict describes at most this many processes.
const MOST_PROCESSES: usize = 8;

/// The transfers of one process: those with the most bytes first, then in order of time.
pub(super) fn transfers(
    flows: &[Flow<'_>],
    activity: &Activity<'_>,
    ends: &EndTable<'_>,
) -> Vec<Transfer> {
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.order()));
    let shared = SharedRows::of(flows.iter().copied());
    flows
        .into_iter()
        .map(|flow| transfer(flow, &shared, activity, ends))
        .collect()
}

fn transfer(
    flow: &Flow<'_>,
    shared: &SharedRows,
    activity: &Activity<'_>,
    ends: &EndTable<'_>,
) -> Transfer {
    let summary = Summary::of(flow, shared);
    let (from, to) = (source(flow.from, ends), ends.end(flow.to));
    let callers = ends
        .stacks
        .and_then(|stacks| Callers::of(flow.rows().chain(flow.attempts.iter().copied()), stacks));
    let case = Case {
        process: activity.process,
        handling: Handling::of(flow, activity.sees_memory),
        api: flow.api,
        from: &from,
        to: &to,
        bytes: flow.bytes,
        summary: &summary,
        callers: callers.as_ref().zip(ends.stacks),
    };
    let reason = rules::reason(&case);
    let figure = Figure::of(flow.certainty(), flow.bytes, flow.proven_bytes);
    let is_cut_off = flow.legs().any(|leg| activity.is_cut_off(leg.to));
    let verdict = verdict(&case, figure, is_cut_off, reason.as_ref());
    let hint = hint::hint(&case);
    let hops = flow
        .hops
        .iter()
        .map(|leg| described_hop(leg, activity.process.pid, ends))
        .collect();
    Transfer {
        reason,
        hint,
        callers,
        hops,
        ..described(flow, from, to, summary, verdict, user_memory_bytes(flow))
    }
}

/// The transfers over several processes, those with the most bytes first.
pub(super) fn chains(
    chains: &[Chain<'_, '_>],
    ends: &EndTable<'_>,
    sees_memory: bool,
) -> Vec<Transfer> {
    let shared = SharedRows::of(
        chains
            .iter()
            .flat_map(|chain| &chain.hops)
            .map(|hop| hop.flow),
    );
    let mut transfers: Vec<Transfer> = chains
        .iter()
        .filter_map(|chain| across(chain, &shared, ends, sees_memory))
        .collect();
    transfers.sort_by_key(|transfer| Reverse(transfer.bytes));
    transfers
}

fn across(
    chain: &Chain<'_, '_>,
    shared: &SharedRows,
    ends: &EndTable<'_>,
    sees_memory: bool,
) -> Option<Transfer> {
    let (first, last) = (chain.hops.first()?, chain.hops.last()?);
    let each: Vec<Summary> = chain
        .hops
        .iter()
        .map(|hop| Summary::of(hop.flow, shared))
        .collect();
    let Carried {
        bytes,
        proven_bytes,
        certainty,
        evidence,
    } = chain.carried;
    let figure = Figure::of(certainty, Some(bytes), Some(proven_bytes));
    let verdict = verdict_across(chain, &each, figure, sees_memory);
    let user_memory = chain
        .hops
        .iter()
        .map(|hop| user_memory_bytes(hop.flow))
        .reduce(|a, b| a?.checked_add(b?))
        .flatten();
    let hops = chain
        .hops
        .iter()
        .flat_map(|hop| {
            hop.flow
                .legs()
                .map(|leg| described_hop(&leg, hop.process.pid, ends))
        })
        .collect();
    let costliest = chain
        .hops
        .iter()
        .map(|hop| hop.flow)
        .max_by_key(|flow| cost(flow.api))?;
    let summary = each.into_iter().reduce(Summary::then)?;
    let (from, to) = (source(first.flow.from, ends), ends.end(last.flow.to));
    let pids = chain.hops.iter().map(|hop| hop.process.pid).collect();
    Some(Transfer {
        api: costliest.api,
        evidence: Some(evidence),
        certainty,
        bytes: Some(bytes),
        proven_bytes: Some(proven_bytes),
        pids,
        hops,
        ..described(last.flow, from, to, summary, verdict, user_memory)
    })
}

/// What each process did: `through 2 processes, perhaps changed or replaced on the way: cat: read +
/// write, 8 calls of 8 KiB; dd: ...`.
fn verdict_across(
    chain: &Chain<'_, '_>,
    each: &[Summary],
    figure: Figure,
    sees_memory: bool,
) -> String {
    let handlings: Vec<Handling> = chain
        .hops
        .iter()
        .map(|hop| Handling::of(hop.flow, sees_memory))
        .collect();
    let steps = chain
        .hops
        .iter()
        .zip(each)
        .zip(&handlings)
        .take(MOST_PROCESSES)
        .map(|((hop, summary), &handling)| {
            let name = hop
                .process
                .comm
                .clone()
                .unwrap_or_else(|| hop.process.pid.to_string());
            format!(
                "{name}: {}{}",
                clause(hop.flow.api, hop.flow.bytes, summary),
                in_memory(handling)
            )
        });
    let steps = steps.collect::<Vec<_>>().join("; ");
    let qualifier = qualifier(handlings.contains(&Handling::Changed), figure);
    let verdict = format!("through {} processes{qualifier}: {steps}", chain.hops.len());
    match chain.hops.len().checked_sub(MOST_PROCESSES) {
        Some(more @ 1..) => format!("{verdict}; and {more} more"),
        _ => verdict,
    }
}

/// The rank of an interface by its cost: what copies each byte twice, copies it once, or keeps it
/// in the kernel.
const fn cost(api: Api) -> u8 {
    match api {
        Api::ReadWrite => 3,
        Api::IoUring => 2,
        Api::MmapWrite => 1,
        Api::Sendfile
        | Api::Splice
        | Api::Tee
        | Api::Vmsplice
        | Api::CopyFileRange
        | Api::Reflink => 0,
    }
}

fn source(source: Source, ends: &EndTable<'_>) -> End {
    match source {
        Source::File(file) => ends.end(file),
        Source::Memory => EndTable::memory(),
    }
}

fn described(
    flow: &Flow<'_>,
    from: End,
    to: End,
    summary: Summary,
    verdict: String,
    user_memory_bytes: Option<u64>,
) -> Transfer {
    Transfer {
        from,
        to,
        api: flow.api,
        evidence: Some(flow.evidence),
        certainty: flow.certainty(),
        bytes: flow.bytes,
        proven_bytes: flow.proven_bytes,
        calls: summary.calls(),
        mean_bytes: flow
            .bytes
            .and_then(|bytes| bytes.checked_div(summary.moving_calls)),
        crossings: summary.crossings(),
        user_memory_bytes,
        calls_by_syscall: summary
            .by_syscall
            .into_iter()
            .map(|(name, called)| (name, called.calls))
            .collect(),
        attempts: summary.attempts,
        short_calls: summary.short_calls,
        zero_calls: summary.zero_calls,
        retries: summary.retries,
        errors: summary.errors,
        total_ns: summary.total_ns,
        verdict,
        reason: None,
        hint: None,
        callers: None,
        pids: Vec::new(),
        part_of: Vec::new(),
        hops: Vec::new(),
        merged: None,
    }
}

fn described_hop(leg: &Leg, pid: u32, ends: &EndTable<'_>) -> Hop {
    let Leg {
        from,
        to,
        api,
        evidence,
        certainty,
        bytes,
        proven_bytes,
    } = *leg;
    Hop {
        pid,
        from: source(from, ends),
        to: ends.end(to),
        api,
        bytes,
        proven_bytes,
        evidence,
        certainty,
    }
}

/// If calls times size exceeds the bytes by more than 1/20, the sentence says "up to".
const NOTABLE_PART: u64 = 20;

/// What was done, then the reason if there is one: `sendfile, 1 call of 1 MiB, after
/// copy_file_range (EXDEV): ...`. If a call at the destination `is_cut_off`, it says so.
fn verdict(case: &Case<'_>, figure: Figure, is_cut_off: bool, reason: Option<&Reason>) -> String {
    let mut sentence = clause(case.api, case.bytes, case.summary);
    let is_changed = case.handling == Handling::Changed;
    if !is_changed {
        sentence.push_str(in_memory(case.handling));
    }
    if is_cut_off {
        sentence.push_str(", and a call that was cut off");
    }
    sentence.push_str(&qualifier(is_changed, figure));
    sentence.push_str(&after_attempts(&case.summary.attempts));
    if let Some(reason) = reason {
        sentence.push_str(": ");
        sentence.push_str(&reason.text);
    }
    sentence
}

/// What is known that the program did with the bytes in its memory, for one step of several.
const fn in_memory(handling: Handling) -> &'static str {
    match handling {
        Handling::Changed => ", changed or replaced",
        Handling::Copied => ", copied in memory",
        Handling::AsRead
        | Handling::PerhapsChanged
        | Handling::PartlyUnchecked
        | Handling::Unknown => "",
    }
}

/// Whether the bytes are still those of the source: `, perhaps changed or replaced on the way`.
/// Empty if the figure counts only bytes that are.
fn qualifier(is_changed: bool, figure: Figure) -> String {
    match figure {
        _ if is_changed => format!(", {CHANGED}"),
        Figure::Probable => format!(", {PERHAPS_CHANGED}"),
        Figure::Exact | Figure::AtLeast => String::new(),
    }
}

/// What was done in several transfers, from their sum.
pub(super) fn verdict_of_many(sum: &Transfer) -> String {
    let transfers = match sum.count() {
        1 => "1 transfer".to_owned(),
        count => format!("{count} transfers"),
    };
    let reason = sum
        .reason
        .as_ref()
        .map(|reason| format!(": {}", reason.text))
        .unwrap_or_default();
    let qualifier = qualifier(false, sum.figure());
    format!(
        "{transfers}: {}, {}{qualifier}{}{reason}",
        sum.api.in_words(),
        calls(sum.calls),
        after_attempts(&sum.attempts)
    )
}

/// What one flow did, without its attempts.
fn clause(api: Api, bytes: Option<u64>, summary: &Summary) -> String {
    let clause = format!("{}, {}", api.in_words(), work(api, bytes, summary));
    if summary.retries.is_empty() {
        return clause;
    }
    let count = summary.retries.values().sum();
    format!(
        "{clause}, {} retried ({})",
        calls(count),
        names(&summary.retries)
    )
}

fn work(api: Api, bytes: Option<u64>, summary: &Summary) -> String {
    let failed = || {
        let count = summary.errors.values().sum();
        format!("{} failed ({})", calls(count), names(&summary.errors))
    };
    let work = match bytes {
        None if api == Api::Reflink => format!(
            "{} that shared blocks instead of copying",
            calls(summary.moving_calls)
        ),
        None => format!("{}, number of bytes unknown", calls(summary.moving_calls)),
        Some(0) if summary.moving_calls + summary.zero_calls == 0 => return failed(),
        Some(0) => format!("{} that found nothing to copy", calls(summary.zero_calls)),
        Some(bytes) => moved(bytes, summary),
    };
    if summary.errors.is_empty() {
        work
    } else {
        format!("{work}, {}", failed())
    }
}

/// `733 calls of 4 KiB`, even if the last one was a little shorter; `3 calls of up to 2.0 GiB`, if
/// the last one was much shorter; otherwise `294 calls of 10.0 KiB on average`.
fn moved(bytes: u64, summary: &Summary) -> String {
    let count = summary.moving_calls;
    let Some(mean) = bytes.checked_div(count) else {
        return short_bytes(bytes);
    };
    let in_pieces = summary.asked_at_source().filter(|&asked| {
        count > 1 && bytes.checked_div(asked).is_some() && bytes.div_ceil(asked) == count
    });
    match in_pieces {
        Some(asked) if asked * count - bytes > bytes / NOTABLE_PART => {
            format!("{} of up to {}", calls(count), short_bytes(asked))
        }
        Some(asked) => format!("{} of {}", calls(count), short_bytes(asked)),
        None if bytes.is_multiple_of(count) => format!("{} of {}", calls(count), short_bytes(mean)),
        None => format!("{} of {} on average", calls(count), average(bytes, count)),
    }
}

/// The mean, with one decimal if it is below 1 KiB.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact where it is below a kibibyte, and shown with one decimal"
)]
fn average(bytes: u64, count: u64) -> String {
    let mean = bytes / count;
    if mean < 1024 {
        format!("{:.1} B", bytes as f64 / count as f64)
    } else {
        short_bytes(mean)
    }
}

/// `, after copy_file_range (EXDEV), sendfile (EINVAL, 2 times)`; empty if the first attempt
/// worked.
pub(super) fn after_attempts(attempts: &[Attempt]) -> String {
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

fn calls(count: u64) -> String {
    format!("{count} {}", if count == 1 { "call" } else { "calls" })
}

fn names(errnos: &BTreeMap<String, u64>) -> String {
    errnos
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Describes the files of a trace as ends of transfers.
#[derive(Debug)]
pub(crate) struct EndTable<'a> {
    files: &'a [File],
    /// The directory that paths are shown relative to, with a slash at the end.
    below: Option<String>,
    /// The stacks of calls, if callers were sampled.
    stacks: Option<&'a [Stack]>,
}

impl<'a> EndTable<'a> {
    /// The files of a trace.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        let below = trace
            .directory
            .as_deref()
            .map(|directory| format!("{}/", directory.trim_end_matches('/')));
        Self {
            files: &trace.files,
            below,
            stacks: trace.stacks.as_deref(),
        }
    }

    /// The file as an end of a transfer.
    pub(crate) fn end(&self, id: FileId) -> End {
        usize::try_from(id.0)
            .ok()
            .and_then(|index| self.files.get(index))
            .map_or_else(End::default, |file| self.describe(file))
    }

    /// The program's own memory as an end of a transfer.
    pub(crate) fn memory() -> End {
        End {
            kind: Some(End::MEMORY.to_owned()),
            ..End::default()
        }
    }

    fn describe(&self, file: &File) -> End {
        End {
            kind: file.kind.map(|kind| kind.name().to_owned()),
            fs: file.filesystem.clone(),
            path: file
                .path
                .as_deref()
                .map(|path| self.relative(path).to_owned()),
            size: file.size_bytes,
            local: file.local.clone(),
            peer: file.peer.clone(),
            inode: file.identity.map(|identity| Inode {
                device: identity.device,
                number: identity.inode,
            }),
        }
    }

    fn relative<'p>(&self, path: &'p str) -> &'p str {
        self.below
            .as_deref()
            .filter(|below| *below != "/")
            .and_then(|below| path.strip_prefix(below))
            .unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn paths_below_the_directory_are_relative() {
        let mut trace = sample::nothing();
        let path_in =
            |trace: &Trace, path: &'static str| EndTable::new(trace).relative(path).to_owned();
        assert_eq!(path_in(&trace, "/work/data/in"), "data/in");
        assert_eq!(path_in(&trace, "/workshop/in"), "/workshop/in");
        trace.directory = Some("/".into());
        assert_eq!(path_in(&trace, "/etc/passwd"), "/etc/passwd");
        trace.directory = None;
        assert_eq!(path_in(&trace, "/work/in"), "/work/in");
    }
}
