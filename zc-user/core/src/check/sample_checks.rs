//! Made-up checks and results for tests.
#![expect(clippy::missing_panics_doc, reason = "only tests call these functions")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    time::Duration,
};

use super::{Baseline, Check, NoReport, Results, RunAttempt, SCHEMA, Tolerances, judge_check};
use crate::{
    compare::sample_measurements::report,
    report::{Report, sample::row},
    trace::STRACE_FALLBACK,
};

/// A check with these expectations.
pub fn check(name: &str, expectations: &[&str]) -> Check {
    let command = ["cp", "in", "out file"].map(OsString::from).into();
    let expectations = expectations.iter();
    let parsed = expectations.map(|text| text.parse().expect("an expectation"));
    Check {
        expectations: parsed.collect(),
        ..Check::new(name.into(), command, "/base".into())
    }
}

/// The report of a command that wrote this often.
fn of_writes(calls: u64) -> Report {
    report(vec![
        row("write").called(calls).bytes(calls),
        row("mmap").called(1),
    ])
}

/// The same, counted by strace for want of eBPF.
fn of_strace(calls: u64) -> Report {
    let mut report = of_writes(calls);
    let why = "eBPF needs root or CAP_BPF";
    report.notes.push(format!("{STRACE_FALLBACK}: {why}"));
    report
}

/// A run of a check.
pub fn attempt(outcome: Result<Report, &str>) -> RunAttempt {
    let stderr = vec!["said <this> & 100 %, \"that\" | #1".to_owned()];
    RunAttempt {
        outcome: outcome
            .map(Box::new)
            .map_err(|why| NoReport::Untraced(why.to_owned())),
        files: BTreeSet::new(),
        duration: Duration::from_millis(5),
        stderr,
    }
}

/// A check of each status, with names that need escaping in some format.
pub fn results() -> Results {
    let mut bound = of_writes(1);
    bound.exact = false;
    bound.losses = BTreeMap::from([("uncounted_calls".to_owned(), 3)]);
    let baseline = Baseline {
        path: "b.json".into(),
        report: Some(Box::new(of_writes(1))),
        tolerances: Tolerances::default(),
    };
    let differing = Check {
        baseline: Some(baseline),
        ..check("a | \"b\" <c> & ::d,# \\e", &[])
    };
    let checks = [
        (
            check("passes", &["write.calls == 1", "exit.code == 0"]),
            vec![attempt(Ok(of_strace(1)))],
        ),
        (
            check(
                "fails in one run",
                &["write.calls == 1", "read[process=\"cp\"].calls == 0"],
            ),
            vec![attempt(Ok(of_writes(1))), attempt(Ok(of_writes(2)))],
        ),
        (differing, vec![attempt(Ok(of_writes(3)))]),
        (
            check("is not run", &["write.calls == 1"]),
            vec![attempt(Err("cannot run 'cp': No such file or directory"))],
        ),
        (
            check("is not known", &["write.calls == 1"]),
            vec![attempt(Ok(bound))],
        ),
    ];
    let judged = checks
        .iter()
        .map(|(check, attempts)| judge_check(check, attempts, None));
    let mut checks: Vec<_> = judged.collect();
    let idle = Check {
        control: Some(["cat", "in"].map(OsString::from).into()),
        ..check("cannot fail", &["write.calls == 1"])
    };
    let control = attempt(Ok(of_writes(1)));
    checks.push(judge_check(
        &idle,
        &[attempt(Ok(of_writes(1)))],
        Some(&control),
    ));
    checks[1].why = Some("It writes *once*.".to_owned());
    (checks[1].file, checks[1].line) = (Some("/work/tests/a b, c.toml".to_owned()), Some(12));
    Results {
        schema: SCHEMA,
        labels: BTreeMap::from([("commit".to_owned(), "1a2b3c".to_owned())]),
        checks,
        interrupted: Some("SIGINT".to_owned()),
    }
}
