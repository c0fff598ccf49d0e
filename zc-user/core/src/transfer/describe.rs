//! Describes flows and chains as the transfers of the report: ends, figures, and the verdict, one
//! plain sentence.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Step,
    facts::ProcessFacts,
    flow::Flow,
    hint, pipes,
    rules::{self, RuleCase},
    work,
};
use crate::{
    report::{Callers, error_meanings},
    slow_calls::SlowCalls,
    text::plural,
    trace::{File, FileId, FileKind, OpenFlags, SampledStack, Trace},
    transfer::{Api, Attempt, Certainty, End, Evidence, Hop, Inode, Transfer},
    units::short_bytes,
};

/// A verdict describes at most this many processes.
const MAX_PROCESSES: usize = 8;

/// The flows of one process as its steps: those with the most bytes first, then in order of time.
pub(super) fn steps_by_size(
    flows: &[Flow<'_>],
    facts: &ProcessFacts<'_>,
    ends: &EndTable<'_>,
) -> Vec<Step> {
    let mut ways: BTreeMap<FileId, BTreeSet<FileId>> = BTreeMap::new();
    for flow in flows {
        ways.entry(flow.from).or_default().insert(flow.to);
    }
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.order()));
    let described = flows.into_iter().map(|flow| {
        let mut step = describe_flow(flow, facts, ends);
        // A call that names both ends takes the bytes out of a pipe or a connection.
        if facts.moved.contains_key(&flow.from) && ways[&flow.from].len() > 1 {
            step.transfer.hint = None;
        }
        step
    });
    described.collect()
}

fn describe_flow(flow: &Flow<'_>, facts: &ProcessFacts<'_>, ends: &EndTable<'_>) -> Step {
    let hops = steps_of_hops(flow, facts, ends);
    let pid = facts.process.pid;
    let between = [ends.end(flow.from), ends.end(flow.to)];
    let mut transfer = Transfer {
        bytes: flow.bytes,
        observed_bytes: flow.observed_bytes,
        compared_words: flow.words.compared,
        changed_words: flow.words.changed,
        certainty: flow.certainty(),
        pids: vec![pid],
        hops: hops.iter().map(Step::as_hop).collect(),
        callers: ends.stacks.and_then(|stacks| {
            let rows = flow.rows().chain(flow.attempts.iter().copied());
            Callers::of_rows(rows, stacks)
        }),
        ..Transfer::without_calls(between, flow.api, flow.evidence)
    };
    work::add_work(&mut transfer, flow);
    let case = RuleCase {
        process: facts.process,
        transfer: &transfer,
        flow,
        stacks: ends.stacks,
    };
    let (reason, hint) = (rules::reason(&case), hint::hint(&case));
    let clause = clause(&transfer, flow);
    let is_cut_off = flow
        .steps()
        .iter()
        .any(|step| facts.cut_off.contains(&Some(step.to)));
    (transfer.reason, transfer.hint) = (reason, hint);
    transfer.verdict = verdict(&clause, &transfer, is_cut_off);
    Step {
        pid,
        program: facts.process.comm.clone(),
        from: flow.from,
        to: flow.to,
        takes_all: takes_all(flow, facts),
        clause,
        hops,
        transfer,
    }
}

/// The hops of a flow, as if each stood by itself. What was tried before belongs to the first.
fn steps_of_hops(flow: &Flow<'_>, facts: &ProcessFacts<'_>, ends: &EndTable<'_>) -> Vec<Step> {
    let mut attempts = flow.attempts.clone();
    let alone = flow.hops.iter().map(|hop| Flow {
        attempts: std::mem::take(&mut attempts),
        ..hop.clone()
    });
    alone.map(|hop| describe_flow(&hop, facts, ends)).collect()
}

impl Step {
    /// Whether a chain of so many bytes has all that this step moved.
    fn is_of(&self, bytes: u64) -> bool {
        self.transfer.bytes == Some(bytes)
    }

    fn as_hop(&self) -> Hop {
        let transfer = &self.transfer;
        Hop {
            pid: self.pid,
            from: transfer.from.clone(),
            to: transfer.to.clone(),
            api: transfer.api,
            bytes: transfer.bytes,
            evidence: transfer.evidence,
            certainty: transfer.certainty,
        }
    }
}

/// Whether a flow took every byte out of its source that the process took, and brought each to its
/// destination once: it has as many bytes, and of every read, some. If it is inferred, other bytes
/// that the process wrote there may be the same ones again.
fn takes_all(flow: &Flow<'_>, facts: &ProcessFacts<'_>) -> bool {
    let taken = facts.moved.get(&flow.from).and_then(|moved| moved.read);
    let uses_every_read = !flow.steps()[0].has_other_reads;
    let is_alone =
        || flow.certainty() == Certainty::Observed || flow.bytes == facts.written_to(flow.to);
    uses_every_read && taken.is_some() && taken == flow.bytes && is_alone()
}

impl Transfer {
    /// One of unknown bytes, made by no calls so far.
    fn without_calls([from, to]: [End; 2], api: Api, evidence: Evidence) -> Self {
        Self {
            from,
            to,
            api,
            evidence,
            certainty: evidence.certainty(),
            calls: Some(0),
            crossings: Some(0),
            user_memory_bytes: Some(0),
            total_ns: Some(0),
            ..Self::default()
        }
    }
}

/// A chain of these steps, of which there are several, as a transfer.
pub(super) fn transfer_of_chain(steps: &[&Step], bytes: u64) -> Transfer {
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    let mut api = first.transfer.api;
    let mut evidence = first.transfer.evidence;
    for step in steps {
        api = pipes::costlier(api, step.transfer.api);
        evidence = evidence.max(step.transfer.evidence);
    }
    let of_steps = steps
        .iter()
        .map(|step| (step.transfer.bytes, step.transfer.observed_bytes));
    let mut observed = pipes::observed_in_all(bytes, of_steps);
    if is_joined_by_addresses(steps) {
        evidence = evidence.max(Evidence::Addresses);
        observed = 0;
    }
    let ends = [first.transfer.from.clone(), last.transfer.to.clone()];
    let certainty = steps.iter().map(|step| step.transfer.certainty).max();
    let certainty = certainty.max(Some(evidence.certainty()));
    let mut chain = Transfer {
        bytes: Some(bytes),
        observed_bytes: Some(observed),
        certainty: certainty.unwrap_or(Certainty::Inferred),
        mean_bytes: last.transfer.mean_bytes.filter(|_| last.is_of(bytes)),
        verdict: verdict_of_chain(steps, bytes),
        ..Transfer::without_calls(ends, api, evidence)
    };
    for step in steps {
        if step.is_of(bytes) {
            chain.add_figures(&step.transfer);
        } else {
            chain.forget_undivided();
        }
        chain.attempts.extend_from_slice(&step.transfer.attempts);
        chain.pids.push(step.pid);
        if step.hops.is_empty() {
            chain.hops.push(step.as_hop());
        } else {
            chain.hops.extend_from_slice(&step.transfer.hops);
        }
    }
    chain
}

/// Whether a TCP connection joins some of these steps. Nothing but addresses tells which two
/// sockets are its ends.
fn is_joined_by_addresses(steps: &[&Step]) -> bool {
    let mut joints = steps.iter().skip(1).map(|step| &step.transfer.from);
    joints.any(|end| end.kind.as_deref() == Some(FileKind::Tcp.name()))
}

/// What each process did: `through 2 processes: cat: read + write, 8 calls of 8 KiB; dd: ...`. Of a
/// step that also moved other bytes the calls are left out.
fn verdict_of_chain(steps: &[&Step], bytes: u64) -> String {
    let clauses: Vec<String> = steps
        .iter()
        .take(MAX_PROCESSES)
        .map(|step| {
            let name = step.program.clone().unwrap_or_else(|| step.pid.to_string());
            let (api, all) = (step.transfer.api.in_words(), step.transfer.bytes);
            match all.filter(|_| !step.is_of(bytes)) {
                Some(all) => format!("{name}: {api}, {} in all", short_bytes(all)),
                None => format!("{name}: {}", step.clause),
            }
        })
        .collect();
    let (count, clauses) = (steps.len(), clauses.join("; "));
    let probably = if is_joined_by_addresses(steps) {
        ", as only the addresses of connections show"
    } else {
        ""
    };
    let verdict = format!("through {count} processes{probably}: {clauses}");
    match steps.len().checked_sub(MAX_PROCESSES) {
        Some(more @ 1..) => format!("{verdict}; and {more} more"),
        _ => verdict,
    }
}

/// What was done, then the reason if there is one: `sendfile, 1 call of 1 MiB, after
/// copy_file_range (EXDEV): ...`. If a call at the destination `is_cut_off`, it says so.
fn verdict(clause: &str, transfer: &Transfer, is_cut_off: bool) -> String {
    let caveat = caveat(transfer);
    let cut_off = if is_cut_off {
        ", and a call that was cut off"
    } else {
        ""
    };
    format!("{clause}{caveat}{cut_off}{}", attempts_and_reason(transfer))
}

/// Why a transfer is only probable, or none: `; 425 of 733 words compared differ`.
fn caveat(transfer: &Transfer) -> String {
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
pub(super) fn attempts_and_reason(transfer: &Transfer) -> String {
    let of_itself = || {
        let failed = transfer.errors.keys().filter(|_| transfer.bytes == Some(0));
        let call = transfer.calls_by_syscall.keys().next()?;
        error_meanings::meaning(failed.min()?, call, false)
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
    let transfers = plural(sum.count(), "transfer", "transfers");
    let calls = sum.calls.map(|count| format!(", {}", calls_as_text(count)));
    format!(
        "{transfers}: {}{}{}",
        sum.api.in_words(),
        calls.unwrap_or_default(),
        attempts_and_reason(sum)
    )
}

/// What one flow did, without its attempts.
fn clause(transfer: &Transfer, flow: &Flow<'_>) -> String {
    let mut clause = vec![transfer.api.in_words()];
    clause.extend(amount_of_work(transfer, flow));
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
fn amount_of_work(transfer: &Transfer, flow: &Flow<'_>) -> Option<String> {
    let (moving, idle) = (flow.moving_calls(), transfer.zero_calls);
    Some(match transfer.bytes {
        None if transfer.api == Api::Reflink => format!(
            "{} that shared blocks instead of copying",
            calls_as_text(moving)
        ),
        None => format!("{}, number of bytes unknown", calls_as_text(moving)),
        Some(0) if moving + idle == 0 => return None,
        Some(0) if flow.asked_at_source() == Some(0) => {
            format!("{} that asked for 0 bytes", calls_as_text(idle))
        }
        Some(0) => format!("{} that found nothing to copy", calls_as_text(idle)),
        Some(bytes) => count_and_size(bytes, flow),
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
fn count_and_size(bytes: u64, flow: &Flow<'_>) -> String {
    let count = flow.moving_calls();
    let Some(others) = count.checked_sub(1) else {
        return short_bytes(bytes);
    };
    let [least, most] = flow.least_and_most_bytes().unwrap_or([bytes, bytes]);
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

/// Describes the files of a trace as ends of transfers.
#[derive(Debug)]
pub(crate) struct EndTable<'a> {
    files: &'a [File],
    /// The directory that paths are shown relative to, with a slash at the end.
    below: Option<String>,
    /// The stacks of calls, if callers were sampled.
    stacks: Option<&'a [SampledStack]>,
}

impl<'a> EndTable<'a> {
    /// The files of a trace.
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self::with_files(trace, &trace.files)
    }

    /// Files that are not in their trace yet.
    pub(crate) fn with_files(trace: &'a Trace, files: &'a [File]) -> Self {
        let below = trace
            .directory
            .as_deref()
            .map(|directory| format!("{}/", directory.trim_end_matches('/')));
        Self {
            files,
            below,
            stacks: trace.stacks.as_deref(),
        }
    }

    /// The file as an end of a transfer.
    pub(crate) fn end(&self, id: FileId) -> End {
        let file = id.in_files(self.files);
        file.map_or_else(End::default, |file| self.describe(file))
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
            open_flags: open_flags(file),
            local: file.local.clone(),
            peer: file.peer.clone(),
            peer_inode: file.peer_inode,
            inode: file.identity.map(|identity| Inode {
                device: identity.device,
                number: identity.inode,
            }),
        }
    }

    /// These calls, with paths as reports show them.
    pub(crate) fn relative_to_directory(&self, mut slow: SlowCalls) -> SlowCalls {
        for path in slow.calls.iter_mut().filter_map(|call| call.path.as_mut()) {
            *path = self.relative(path).to_owned();
        }
        slow
    }

    fn relative<'p>(&self, path: &'p str) -> &'p str {
        self.below
            .as_deref()
            .filter(|below| *below != "/")
            .and_then(|below| path.strip_prefix(below))
            .unwrap_or(path)
    }
}

fn open_flags(file: &File) -> Vec<String> {
    let flags = file.open_flags.into_iter();
    let names = flags.flat_map(OpenFlags::names);
    names.map(str::to_owned).collect()
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
