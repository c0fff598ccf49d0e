use super::*;
use crate::check::{
    Tolerances,
    sample::{attempt, of_writes},
};

fn check(expectations: &[&str]) -> Check {
    crate::check::sample::check("a copy", expectations)
}

#[test]
fn an_expectation_must_hold_in_every_run() {
    let runs = [1, 2, 1].map(|calls| attempt(Ok(of_writes(calls))));
    let result = judge(&check(&["write.calls == 1", "write.calls >= 1"]), &runs);
    assert_eq!(result.status, Status::Failed);
    let found: Vec<_> = result.expectations.iter().map(|result| (result.outcome.verdict, result.run)).collect();
    assert_eq!(found, [(Verdict::Fails, 2), (Verdict::Holds, 1)]);
    assert_eq!(result.figures.expect("of three").varying[0].name, "write.bytes");
    assert_eq!(result.report.expect("the one that fails").totals.syscalls.iter().map(|row| row.calls).max(), Some(2));
    assert_eq!(result.stderr.len(), 1);
}

#[test]
fn relative_paths_start_in_the_commands_directory() {
    let mut report = crate::check::sample::of_reads("in");
    report.directory = Some("/work".to_owned());
    let run = attempt(Ok(report.clone()));
    let verdict = |run: &Attempt, text: &str| judge(&check(&[text]), std::slice::from_ref(run)).status;
    for same in ["in", "./in", "/work/in", "../work/in", "/**/in"] {
        assert_eq!(verdict(&run, &format!("read[file=\"{same}\"].calls == 0")), Status::Failed, "{same}");
    }
    assert_eq!(verdict(&run, "read[file=\"/etc/in\"].calls == 0"), Status::Passed);
    report.directory = None;
    let run = attempt(Ok(report));
    assert_eq!(verdict(&run, "read[file=\"/etc/in\"].calls == 0"), Status::Inconclusive);
    assert_eq!(verdict(&run, "read[file=\"/etc/out\"].calls == 0"), Status::Passed);
}

#[test]
fn a_failure_outranks_a_run_that_was_not_possible() {
    let failed = judge(&check(&["write.calls == 1"]), &[attempt(Ok(of_writes(2))), attempt(Err("timeout"))]);
    assert_eq!((failed.status, failed.error.as_deref()), (Status::Failed, Some("timeout")));
    let not_run = judge(&check(&["write.calls == 1"]), &[attempt(Ok(of_writes(1))), attempt(Err("timeout"))]);
    assert_eq!(not_run.status, Status::CouldNotRun);
    let mut bound = of_writes(1);
    bound.exact = false;
    let inconclusive = judge(&check(&["write.calls == 1"]), &[attempt(Ok(bound))]);
    assert_eq!(inconclusive.status, Status::Inconclusive);
    let passed = judge(&check(&["write.calls == 1"]), &[attempt(Ok(of_writes(1)))]);
    assert_eq!((passed.status, passed.stderr.len()), (Status::Passed, 0));
    let exit = |checks: &[&CheckResult]| {
        let checks = checks.iter().map(|&check| check.clone()).collect();
        Results { schema: 1, checks, interrupted: None }.exit_status()
    };
    assert_eq!(exit(&[&passed]), 0);
    assert_eq!(exit(&[&passed, &inconclusive]), 3);
    assert_eq!(exit(&[&inconclusive, &not_run]), 2);
    assert_eq!(exit(&[&not_run, &failed, &inconclusive]), 1);
}

#[test]
fn every_run_is_compared_with_the_baseline() {
    let baseline = |report| Some(Baseline { path: "b.json".into(), report, tolerances: Tolerances::default() });
    let runs = [1, 2].map(|calls| attempt(Ok(of_writes(calls))));
    let same = Check { baseline: baseline(Some(Box::new(of_writes(1)))), ..check(&[]) };
    let result = judge(&same, &runs);
    assert_eq!((result.status, result.differences.len()), (Status::Failed, 2));
    assert_eq!(judge(&same, &runs[..1]).status, Status::Passed);
    let written = Check { baseline: baseline(None), ..same };
    assert_eq!(judge(&written, &runs).status, Status::Passed, "to be written");
    let mut bound = of_writes(1);
    bound.exact = false;
    assert_eq!(judge(&written, &[attempt(Ok(bound))]).status, Status::Inconclusive, "it would be a lower bound");
}

#[test]
fn a_result_names_the_command_that_shows_its_report() {
    assert_eq!(show(&check(&["write.calls == 1"])), "zctrace -- cp in 'out file'");
    assert_eq!(show(&check(&["fsync.calls == 1"])), "zctrace --syscalls=%data,fsync -- cp in 'out file'");
    let chosen = Check { backend: Choice::Strace, ..check(&["write.calls == 1"]) };
    assert_eq!(show(&chosen), "zctrace --backend=strace -- cp in 'out file'");
    let by_file = Check { shown_by: Shown::ByCheck("tests/zctrace.toml".into()), name: "a [copy]".into(), ..check(&[]) };
    assert_eq!(show(&by_file), "zctrace check tests/zctrace.toml 'a [[]copy[]]' --report");
}
