//! Holds a report against a profile.

use super::{CallProfile, CallRule, native_abi};
use crate::{
    expect::{Finding, Outcome, Verdict, why_inexact},
    report::{Report, Syscall},
    syscalls::Selection,
    text::plural,
};

/// At most this many denied calls are named in one line.
const MAX_NAMED: usize = 8;

impl CallProfile {
    /// Whether it allows every call that the report has. `name` is the profile's, in messages.
    pub fn evaluate(&self, name: &str, report: &Report) -> Outcome {
        let comparison = format!("profile {name} allows every call");
        let made: Vec<Syscall> = calls_made(report).collect();
        let (mut denied, mut open) = (Vec::new(), Vec::new());
        for call in &made {
            match self.rule(&call.name, &call.abi) {
                CallRule::Allows => {}
                CallRule::Denies => denied.push(call),
                CallRule::Depends(on) => open.push(format!("{on} ({})", label(call, report))),
            }
        }
        let is_open = |on: &String| format!("what it does depends on {on}");
        let reason = open.first().map(is_open).or_else(|| why_incomplete(report));
        let verdict = match &reason {
            _ if !denied.is_empty() => Verdict::Fails,
            Some(_) => Verdict::Inconclusive,
            None => Verdict::Holds,
        };
        let facts = denied.iter().flat_map(|call| makers(call, report));
        Outcome {
            findings: vec![Finding {
                comparison: comparison.clone(),
                verdict,
                found: found(&denied, made.len(), report),
                reason: reason.filter(|_| verdict == Verdict::Inconclusive),
                facts: facts.collect(),
                unmatched: Vec::new(),
            }],
            expectation: comparison,
            verdict,
        }
    }
}

/// The calls of a report that were entered, each once.
pub(super) fn calls_made(report: &Report) -> impl Iterator<Item = Syscall> {
    let all = report.totals.all_calls();
    all.filter(|call| call.calls + call.unfinished > 0)
}

/// Why other calls may have been made than those of the report. `None`: it has all.
pub(super) fn why_incomplete(report: &Report) -> Option<String> {
    let has_all = report.totals.other_syscalls.is_some()
        || report.from_log
        || report.counted == Some(Selection::All);
    let lacking = "the report lacks calls: run the command again with --syscalls all".to_owned();
    why_inexact(report)
        .or_else(|| (!has_all || !report.paths.is_empty()).then_some(lacking))
        .or_else(|| {
            let is_part = report.span.is_some() || report.attached.is_some();
            is_part.then(|| "the report covers only a part of the run".to_owned())
        })
}

/// "it denies 2 of the 41 calls: mount, ptrace".
fn found(denied: &[&Syscall], made: usize, report: &Report) -> String {
    if denied.is_empty() {
        return format!("it denies none of {}", plural(made as u64, "call", "calls"));
    }
    let labels = denied.iter().take(MAX_NAMED);
    let labels: Vec<String> = labels.map(|call| label(call, report)).collect();
    let more = match denied.len() - labels.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let labels = labels.join(", ");
    format!(
        "it denies {} of the {made} calls: {labels}{more}",
        denied.len()
    )
}

/// `ptrace`; `ptrace (i386)` if that is not the ABI of the machine.
fn label(call: &Syscall, report: &Report) -> String {
    if call.abi == native_abi(report) {
        call.name.clone()
    } else {
        format!("{} ({})", call.name, call.abi)
    }
}

/// Who made a call: a sentence for each program, with `--callers` from where.
fn makers(denied: &Syscall, report: &Report) -> Vec<String> {
    let programs = report.programs.iter();
    let mut groups: Vec<_> = programs
        .map(|program| (program.name.as_deref(), &program.syscalls))
        .collect();
    if groups.is_empty() {
        let processes = report.processes.iter();
        groups.extend(processes.map(|process| (process.name(), &process.syscalls)));
    }
    let mut sentences = Vec::new();
    for (program, calls) in groups {
        let is_same = |call: &&Syscall| call.name == denied.name && call.abi == denied.abi;
        let Some(call) = calls.iter().find(is_same) else {
            continue;
        };
        let count = plural(call.calls + call.unfinished, "call", "calls");
        let site = call.callers.as_ref().and_then(|one| one.sites.first());
        let from =
            site.map(|site| format!(", from {}", site.at.place(report.directory.as_deref())));
        sentences.push(format!(
            "{}: {count} by {}{}",
            label(call, report),
            program.unwrap_or("a process without a name"),
            from.unwrap_or_default()
        ));
    }
    sentences
}
