//! Holds a report against a profile.

use super::{
    CallProfile, CallRule,
    families::SocketFamilies,
    native_abi,
    places::{self, WritablePlaces},
};
use crate::{
    expect::{Finding, Outcome, Verdict, why_inexact},
    report::{Report, Syscall},
    syscalls::Selection,
    text::{first_of, plural},
    touched::{SocketFamily, Touch},
};

/// At most this many denied calls are named in one line.
const MAX_NAMED: usize = 8;

impl CallProfile {
    /// Whether it allows what the report has. `name` is the profile's, in messages.
    pub fn evaluate(&self, name: &str, report: &Report) -> Outcome {
        let calls = self.judges_calls.then(|| self.judge_calls(name, report));
        let places = self.places.as_ref();
        let places = places.map(|places| judge_places(places, name, report));
        let families = self.families.as_ref();
        let families = families.map(|families| judge_families(families, name, report));
        let findings = calls.into_iter().chain(places).chain(families);
        let findings: Vec<Finding> = findings.collect();
        let verdicts = findings.iter().map(|finding| finding.verdict);
        Outcome {
            expectation: match &findings[..] {
                [only] => only.comparison.clone(),
                _ => format!("profile {name} allows all that is done"),
            },
            verdict: verdicts.max().unwrap_or(Verdict::Holds),
            findings,
        }
    }

    fn judge_calls(&self, name: &str, report: &Report) -> Finding {
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
        let facts = denied
            .iter()
            .flat_map(|call| makers(call, report))
            .collect();
        let labels: Vec<String> = denied.iter().map(|call| label(call, report)).collect();
        finding(
            format!("profile {name} allows every call"),
            found(&labels, made.len(), ["call", "calls"]),
            (!denied.is_empty(), reason),
            facts,
        )
    }
}

/// What was found. `is_denied`: something was, so nothing else matters.
fn finding(
    comparison: String,
    found: String,
    (is_denied, reason): (bool, Option<String>),
    facts: Vec<String>,
) -> Finding {
    let verdict = match &reason {
        _ if is_denied => Verdict::Fails,
        Some(_) => Verdict::Inconclusive,
        None => Verdict::Holds,
    };
    Finding {
        comparison,
        verdict,
        found,
        reason: reason.filter(|_| verdict == Verdict::Inconclusive),
        facts,
        unmatched: Vec::new(),
    }
}

/// Whether a unit lets the command write what it wrote.
fn judge_places(places: &WritablePlaces, name: &str, report: &Report) -> Finding {
    let directory = report.directory.as_deref();
    let touched = report.touched.as_ref();
    let written = touched.zip(directory);
    let written = written.map_or(Vec::new(), |(touched, at)| places::written(touched, at));
    let (mut denied, mut facts) = (Vec::new(), Vec::new());
    for (path, shown, touches) in &written {
        let is_denied = |touch: &&&Touch| !places.allows(path, touch.action);
        if let Some(touch) = touches.iter().find(is_denied) {
            denied.push(shown.path.clone());
            facts.push(format!(
                "{}: {} by {} of {}",
                shown.path,
                touch.action.name(),
                touch.call,
                touch.first.program.as_deref().unwrap_or(NAMELESS)
            ));
        }
    }
    let open = places.open.as_ref();
    let open = open.map(|line| format!("the unit has '{line}', which zctrace does not judge"));
    let unknown = || "it is not known where relative paths start".to_owned();
    let reason = why_untouched(report)
        .or_else(|| directory.is_none().then(unknown))
        .or(open);
    finding(
        format!("profile {name} allows every write"),
        found(&denied, written.len(), ["path", "paths"]),
        (!denied.is_empty(), reason),
        facts,
    )
}

/// Whether a unit lets the command make the sockets that it made.
fn judge_families(families: &SocketFamilies, name: &str, report: &Report) -> Finding {
    let made = report.touched.iter().flat_map(|touched| &touched.families);
    let made: Vec<&SocketFamily> = made.collect();
    let denied = made.iter().filter(|one| !families.allows(&one.family));
    let denied: Vec<&SocketFamily> = denied.copied().collect();
    let labels: Vec<String> = denied.iter().map(|one| one.family.clone()).collect();
    let fact = |one: &&SocketFamily| {
        let program = one.first.program.as_deref();
        format!("{}: socket of {}", one.family, program.unwrap_or(NAMELESS))
    };
    finding(
        format!("profile {name} allows every socket"),
        found(&labels, made.len(), ["family", "families of sockets"]),
        (!denied.is_empty(), why_untouched(report)),
        denied.iter().map(fact).collect(),
    )
}

/// Why more may have been touched than the report has. `None`: it has all.
pub(super) fn why_untouched(report: &Report) -> Option<String> {
    let Some(touched) = &report.touched else {
        return Some(
            "the report lacks what was touched: run the command again with --paths".to_owned(),
        );
    };
    let left_out = || "there were more paths than zctrace keeps".to_owned();
    let doubt = touched.doubts.first().cloned();
    doubt.or_else(|| (touched.left_out > 0).then(left_out))
}

/// A program whose name is not known.
const NAMELESS: &str = "a process without a name";

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
fn found(denied: &[String], made: usize, [one, many]: [&str; 2]) -> String {
    if denied.is_empty() {
        return format!("it denies none of {}", plural(made as u64, one, many));
    }
    let labels = first_of(denied, MAX_NAMED);
    format!("it denies {} of the {made} {many}: {labels}", denied.len())
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
        let from = site.map(|site| {
            format!(
                ", from {}",
                site.at.shown_place(report.directory.as_deref())
            )
        });
        sentences.push(format!(
            "{}: {count} by {}{}",
            label(call, report),
            program.unwrap_or(NAMELESS),
            from.unwrap_or_default()
        ));
    }
    sentences
}
