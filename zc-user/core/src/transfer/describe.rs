//! Describes flows and chains as the transfers of the report: ends, figures, and the verdict, one
//! plain sentence.

use crate::trace::sum_known;
use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    Step,
    facts::ProcessFacts,
    flow::{Flow, SourceCalls},
    hint, pipes,
    rules::{self, RuleCase},
    work::{FlowWork, sum_counts},
};
use crate::{
    report::Callers,
    trace::{File, FileId, Stack, Trace},
    transfer::{Api, Attempt, Certainty, End, Evidence, Hop, Inode, Reason, Transfer},
    units::short_bytes,
};

/// A verdict describes at most this many processes.
const MOST_PROCESSES: usize = 8;

/// The flows of one process as its steps: those with the most bytes first, then in order of time.
pub(super) fn steps_by_size(
    flows: &[Flow<'_>],
    facts: &ProcessFacts<'_>,
    ends: &EndTable<'_>,
) -> Vec<Step> {
    let mut flows: Vec<&Flow> = flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.bytes), flow.order()));
    flows
        .into_iter()
        .map(|flow| describe_flow(flow, facts, ends))
        .collect()
}

fn describe_flow(flow: &Flow<'_>, facts: &ProcessFacts<'_>, ends: &EndTable<'_>) -> Step {
    let work = FlowWork::from_flow(flow);
    let (from, to) = (ends.end(flow.from), ends.end(flow.to));
    let callers = ends.stacks.and_then(|stacks| {
        let rows = flow.rows().chain(flow.attempts.iter().copied());
        Callers::of_rows(rows, stacks)
    });
    let case = RuleCase {
        process: facts.process,
        evidence: flow.evidence,
        api: flow.api,
        from: &from,
        to: &to,
        bytes: flow.bytes,
        work: &work,
        callers: callers.as_ref().zip(ends.stacks),
    };
    let reason = rules::reason(&case);
    let hint = hint::hint(&case);
    let clause = clause(flow.api, flow.bytes, &work);
    let is_cut_off = flow
        .steps()
        .iter()
        .any(|step| facts.cut_off.contains(&Some(step.to)));
    let verdict = verdict(&clause, &case, is_cut_off, reason.as_ref());
    let pid = facts.process.pid;
    let hops = steps_of_hops(flow, facts, ends);
    let transfer = Transfer {
        from,
        to,
        api: flow.api,
        evidence: flow.evidence,
        certainty: flow.certainty(),
        bytes: flow.bytes,
        calls: work.calls,
        calls_by_syscall: work.by_syscall,
        attempts: work.attempts,
        mean_bytes: flow
            .bytes
            .and_then(|bytes| bytes.checked_div(work.moving_calls)),
        crossings: work.crossings,
        user_memory_bytes: work.user_memory_bytes,
        short_calls: work.short_calls,
        zero_calls: work.zero_calls,
        retries: work.retries,
        errors: work.errors,
        total_ns: work.total_ns,
        verdict,
        reason,
        hint,
        callers,
        pids: vec![pid],
        part_of: Vec::new(),
        hops: hops.iter().map(Step::as_hop).collect(),
        merged: None,
    };
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
    let may_repeat =
        flow.certainty() == Certainty::Inferred && flow.bytes != facts.written_to(flow.to);
    let uses_every_read = flow
        .steps()
        .first()
        .is_some_and(|step| !matches!(step.reading, SourceCalls::Some { .. }));
    uses_every_read && !may_repeat && taken.is_some() && taken == flow.bytes
}

/// A chain of these steps as a transfer.
pub(super) fn transfer_of_chain(steps: &[&Step], bytes: u64) -> Option<Transfer> {
    let (first, last) = (steps.first()?, steps.last()?);
    // The figures of a step that also moved other bytes cannot be divided.
    let whole = |figure: fn(&Transfer) -> Option<u64>| {
        steps
            .iter()
            .map(|step| figure(&step.transfer).filter(|_| step.transfer.bytes == Some(bytes)))
            .fold(Some(0), sum_known)
    };
    let sum = |figure: fn(&Transfer) -> u64| steps.iter().map(|step| figure(&step.transfer)).sum();
    let counts = |counts: fn(&Transfer) -> &BTreeMap<String, u64>| {
        let all = steps.iter().map(|step| counts(&step.transfer).clone());
        all.fold(BTreeMap::new(), sum_counts)
    };
    let calls = whole(|step| step.calls);
    let transfers = || steps.iter().map(|step| &step.transfer);
    let evidence = transfers().map(|step| step.evidence).max()?;
    let hops_of_step = |step: &Step| {
        if step.hops.is_empty() {
            vec![step.as_hop()]
        } else {
            step.transfer.hops.clone()
        }
    };
    Some(Transfer {
        from: first.transfer.from.clone(),
        to: last.transfer.to.clone(),
        api: transfers().map(|step| step.api).reduce(pipes::costlier)?,
        evidence,
        certainty: transfers().map(|step| step.certainty).max()?,
        bytes: Some(bytes),
        calls,
        calls_by_syscall: calls
            .map(|_| counts(|step| &step.calls_by_syscall))
            .unwrap_or_default(),
        attempts: transfers().flat_map(|step| step.attempts.clone()).collect(),
        mean_bytes: last.transfer.mean_bytes,
        crossings: whole(|step| step.crossings),
        user_memory_bytes: whole(|step| step.user_memory_bytes),
        short_calls: sum(|step| step.short_calls),
        zero_calls: sum(|step| step.zero_calls),
        retries: counts(|step| &step.retries),
        errors: counts(|step| &step.errors),
        total_ns: whole(|step| step.total_ns),
        verdict: verdict_of_chain(steps),
        reason: None,
        hint: None,
        callers: None,
        pids: steps.iter().map(|step| step.pid).collect(),
        part_of: Vec::new(),
        hops: steps.iter().flat_map(|step| hops_of_step(step)).collect(),
        merged: None,
    })
}

/// What each process did: `through 2 processes: cat: read + write, 8 calls of 8 KiB; dd: ...`.
fn verdict_of_chain(steps: &[&Step]) -> String {
    let clauses: Vec<String> = steps
        .iter()
        .take(MOST_PROCESSES)
        .map(|step| {
            let name = step.program.clone().unwrap_or_else(|| step.pid.to_string());
            format!("{name}: {}", step.clause)
        })
        .collect();
    let verdict = format!("through {} processes: {}", steps.len(), clauses.join("; "));
    match steps.len().checked_sub(MOST_PROCESSES) {
        Some(more @ 1..) => format!("{verdict}; and {more} more"),
        _ => verdict,
    }
}

/// If calls times size exceeds the bytes by more than 1/20, the sentence says "up to".
const NOTABLE_PART: u64 = 20;

/// What was done, then the reason if there is one: `sendfile, 1 call of 1 MiB, after
/// copy_file_range (EXDEV): ...`. If a call at the destination `is_cut_off`, it says so.
fn verdict(clause: &str, case: &RuleCase<'_>, is_cut_off: bool, reason: Option<&Reason>) -> String {
    let mut sentence = clause.to_owned();
    sentence.push_str(why_only_probably(case.evidence));
    if is_cut_off {
        sentence.push_str(", and a call that was cut off");
    }
    sentence.push_str(&after_attempts(&case.work.attempts));
    if let Some(reason) = reason {
        sentence.push_str(": ");
        sentence.push_str(&reason.text);
    }
    sentence
}

/// Ends what is said of a transfer that is inferred, if there is something to say.
const fn why_only_probably(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Totals => ", as only the sums of both sides show",
        Evidence::Reused => ", more bytes than it read: written twice, or the memory was reused",
        _ => "",
    }
}

/// What was done in several transfers, from their sum.
pub(crate) fn verdict_of_many(sum: &Transfer) -> String {
    let transfers = match sum.count() {
        1 => "1 transfer".to_owned(),
        count => format!("{count} transfers"),
    };
    let reason = sum
        .reason
        .as_ref()
        .map(|reason| format!(": {}", reason.text))
        .unwrap_or_default();
    let calls = sum.calls.map(|count| format!(", {}", calls_as_text(count)));
    format!(
        "{transfers}: {}{}{}{reason}",
        sum.api.in_words(),
        calls.unwrap_or_default(),
        after_attempts(&sum.attempts)
    )
}

/// What one flow did, without its attempts.
fn clause(api: Api, bytes: Option<u64>, work: &FlowWork) -> String {
    let clause = format!("{}, {}", api.in_words(), amount_of_work(api, bytes, work));
    if work.retries.is_empty() {
        return clause;
    }
    let count = work.retries.values().sum();
    format!(
        "{clause}, {} retried ({})",
        calls_as_text(count),
        errno_names(&work.retries)
    )
}

fn amount_of_work(api: Api, bytes: Option<u64>, work: &FlowWork) -> String {
    let failed = || {
        let count = work.errors.values().sum();
        format!(
            "{} failed ({})",
            calls_as_text(count),
            errno_names(&work.errors)
        )
    };
    let done = match bytes {
        None if api == Api::Reflink => format!(
            "{} that shared blocks instead of copying",
            calls_as_text(work.moving_calls)
        ),
        None => format!(
            "{}, number of bytes unknown",
            calls_as_text(work.moving_calls)
        ),
        Some(0) if work.moving_calls + work.zero_calls == 0 => return failed(),
        Some(0) => format!(
            "{} that found nothing to copy",
            calls_as_text(work.zero_calls)
        ),
        Some(bytes) => count_and_size(bytes, work),
    };
    if work.errors.is_empty() {
        done
    } else {
        format!("{done}, {}", failed())
    }
}

/// `733 calls of 4 KiB`, even if the last one was a little shorter; `3 calls of up to 2.0 GiB`, if
/// the last one was much shorter; otherwise `294 calls of 10.0 KiB on average`.
fn count_and_size(bytes: u64, work: &FlowWork) -> String {
    let count = work.moving_calls;
    let Some(mean) = bytes.checked_div(count) else {
        return short_bytes(bytes);
    };
    let in_pieces = work.asked_at_source.filter(|&asked| {
        count > 1 && bytes.checked_div(asked).is_some() && bytes.div_ceil(asked) == count
    });
    match in_pieces {
        Some(asked) if asked * count - bytes > bytes / NOTABLE_PART => {
            format!("{} of up to {}", calls_as_text(count), short_bytes(asked))
        }
        Some(asked) => format!("{} of {}", calls_as_text(count), short_bytes(asked)),
        None if bytes.is_multiple_of(count) => {
            format!("{} of {}", calls_as_text(count), short_bytes(mean))
        }
        None => format!(
            "{} of {} on average",
            calls_as_text(count),
            mean_as_text(bytes, count)
        ),
    }
}

/// The mean, with one decimal if it is below 1 KiB.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact where it is below a kibibyte, and shown with one decimal"
)]
fn mean_as_text(bytes: u64, count: u64) -> String {
    let mean = bytes / count;
    if mean < 1024 {
        format!("{:.1} B", bytes as f64 / count as f64)
    } else {
        short_bytes(mean)
    }
}

/// `, after copy_file_range (EXDEV), sendfile (EINVAL, 2 times)`; empty if the first attempt
/// worked.
pub(crate) fn after_attempts(attempts: &[Attempt]) -> String {
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
    format!("{count} {}", if count == 1 { "call" } else { "calls" })
}

fn errno_names(errnos: &BTreeMap<String, u64>) -> String {
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
        usize::try_from(id.0)
            .ok()
            .and_then(|index| self.files.get(index))
            .map_or_else(End::default, |file| self.describe(file))
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
