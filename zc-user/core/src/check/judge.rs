//! The result of a check: what the reports of its runs say about its expectations and its baseline.

use std::{cmp::Reverse, time::Duration};

use super::{
    attempt::RunAttempt,
    failure::{not_found, why_command_failed},
    plan::{Baseline, Check, LockFile},
    results::{CheckResult, ControlResult, ExpectationResult, Status},
};
use crate::{
    expect::{Lock, NotCounted, Outcome, Premises, Verdict},
    figures::{
        comparison::{Difference, DifferenceState, differences},
        reading::repeatability,
    },
    options::{Choice, SampledCalls},
    report::{Detail, Report},
    text::command_line,
    words::Word as _,
};

impl ControlResult {
    /// Judges the run of a check's control command; `None`: the check has none.
    fn new(check: &Check, attempt: Option<&RunAttempt>) -> Option<Self> {
        let check = check.of_control()?;
        let result = judge_check(&check, attempt.map_or(&[], std::slice::from_ref), None);
        let not_run = "zctrace ended before it was run".to_owned();
        let error = result.error.or(attempt.is_none().then_some(not_run));
        // What a command does that fails says nothing about the check.
        let status = match (&error, result.status) {
            (Some(_), _) => Status::NoResult,
            (None, Status::Failed) => Status::Passed,
            (None, Status::Passed) => Status::Failed,
            (None, status) => status,
        };
        Some(Self {
            command: result.command,
            status,
            error,
            expectations: result.expectations,
        })
    }
}

/// Judges the runs of a check, and that of its control command.
pub fn judge_check(
    check: &Check,
    attempts: &[RunAttempt],
    control: Option<&RunAttempt>,
) -> CheckResult {
    let (mut traced, mut error) = (Vec::new(), None);
    for attempt in attempts {
        match traced_command(check, attempt) {
            Ok(report) => traced.push((premises_of_run(check, attempt), report)),
            Err(why) => drop(error.get_or_insert(why)),
        }
    }
    let reports: Vec<&Report> = traced.iter().map(|(_, report)| *report).collect();
    let mut failed = reports.iter();
    error = error.or(failed.find_map(|report| why_command_failed(check, report)));
    let mut expectations = Vec::new();
    for expectation in &check.expectations {
        let runs = traced.iter();
        let outcomes = runs.map(|(premises, report)| expectation.evaluate_with(report, premises));
        match outcomes.collect::<Result<_, NotCounted>>() {
            Ok(outcomes) => expectations.extend(worst_outcome(outcomes)),
            Err(why) => error = error.or(Some(why.message().to_owned())),
        }
    }
    expectations.extend(outcome_of_profile(check, &reports));
    let lock = check.lock.as_ref();
    expectations.extend(lock.and_then(|lock| outcome_of_lock(lock, &reports)));
    let baseline = check.baseline.as_ref();
    let differences = baseline.map(|baseline| most_different(baseline, &reports));
    let differences = differences.unwrap_or_default();
    let is_to_be_written = baseline.is_some_and(Baseline::is_to_be_written);
    let status = match status_of_run(error.as_ref(), &expectations, &differences) {
        // Lower bounds are not fit to become a baseline.
        Status::Passed if is_to_be_written && reports.iter().any(|report| !report.exact) => {
            Status::Inconclusive
        }
        Status::Passed if lock.is_some_and(|lock| is_incomplete(lock, &reports)) => {
            Status::Inconclusive
        }
        status => status,
    };
    let control = ControlResult::new(check, control);
    let status = status.max(control.as_ref().map_or(Status::Passed, |one| one.status));
    let mut results = expectations.iter();
    let unmet = results.find(|result| result.outcome.verdict != Verdict::Holds);
    let telling = unmet.map_or(0, |result| result.run - 1);
    let time: Duration = attempts.iter().map(|attempt| attempt.duration).sum();
    let line = line_in_file(check, unmet);
    CheckResult {
        name: check.name.clone(),
        why: check.why.clone(),
        command: check.command_words(),
        status,
        error,
        runs: attempts.len(),
        duration_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        backend: reports.first().map(|report| report.backend.clone()),
        fallback: reports.iter().find_map(|report| report.fallback_reason()),
        line,
        expectations,
        control,
        differences,
        figures: (!reports.is_empty()).then(|| repeatability(&reports)),
        stderr: match attempts.last() {
            Some(last) if status != Status::Passed => last.stderr.clone(),
            _ => Vec::new(),
        },
        show: report_command(check),
        file: (check.place.as_ref()).map(|place| place.file.display().to_string()),
        report: reports.get(telling).map(|&report| Box::new(report.clone())),
    }
}

/// The line of an expectation that does not hold, else the one where the check begins; `None`: it is
/// from the command line.
fn line_in_file(check: &Check, unmet: Option<&ExpectationResult>) -> Option<usize> {
    let (place, unmet) = (check.place.as_ref()?, unmet.map(|one| &one.outcome));
    for (line, one) in place.expectations.iter().zip(&check.expectations) {
        if unmet.is_some_and(|unmet| unmet.expectation == one.text()) {
            return Some(*line);
        }
    }
    Some(place.line)
}

/// The report of a run; the error: why there is none of the check's command.
fn traced_command<'a>(check: &Check, attempt: &'a RunAttempt) -> Result<&'a Report, String> {
    let report = attempt.outcome.as_ref().map_err(ToString::to_string)?;
    not_found(check, report).map_or(Ok(&**report), Err)
}

/// What the expectations of a check go by in a run.
fn premises_of_run(check: &Check, attempt: &RunAttempt) -> Premises {
    Premises {
        inferred: check.inferred,
        may_match_nothing: check.may_match_nothing,
        files: attempt.files.clone(),
    }
}

/// A known failure counts even if another run was not possible.
fn status_of_run(
    error: Option<&String>,
    expectations: &[ExpectationResult],
    differences: &[Difference],
) -> Status {
    let verdicts = expectations.iter().map(|result| result.outcome.verdict);
    let of_baseline = differences.iter().map(|difference| match difference.state {
        DifferenceState::Tolerated => Verdict::Holds,
        DifferenceState::Unknown => Verdict::Inconclusive,
        DifferenceState::Beyond => Verdict::Fails,
    });
    match verdicts.chain(of_baseline).max() {
        Some(Verdict::Fails) => Status::Failed,
        _ if error.is_some() => Status::NoResult,
        Some(Verdict::Inconclusive) => Status::Inconclusive,
        Some(Verdict::Holds) | None => Status::Passed,
    }
}

/// The worst outcome of all runs, since an expectation must hold in each; `None`: there is none.
fn worst_outcome(outcomes: Vec<Outcome>) -> Option<ExpectationResult> {
    let worst = (1..)
        .zip(outcomes)
        .min_by_key(|(_, one)| Reverse(one.verdict));
    worst.map(|(run, outcome)| ExpectationResult { outcome, run })
}

/// What the check's profile would have denied.
fn outcome_of_profile(check: &Check, reports: &[&Report]) -> Option<ExpectationResult> {
    let profile = check.profile.as_ref()?;
    let (calls, name) = (profile.calls.as_ref()?, profile.path.to_string_lossy());
    let outcomes = reports.iter().map(|report| calls.evaluate(&name, report));
    worst_outcome(outcomes.collect())
}

/// The worst outcome of a lock in all runs; `None`: there is none, or the lock is yet to be written.
fn outcome_of_lock(file: &LockFile, reports: &[&Report]) -> Option<ExpectationResult> {
    if file.is_to_be_written {
        return None;
    }
    let name = file.name();
    let outcomes = reports.iter().map(|report| file.lock.judge(&name, report));
    worst_outcome(outcomes.collect())
}

/// Whether a lock is to be written, and what it would have is not known in full.
fn is_incomplete(file: &LockFile, reports: &[&Report]) -> bool {
    file.is_to_be_written && Lock::of_runs(reports, &file.lock).is_err()
}

/// The differences of the run with the most figures beyond their tolerance.
fn most_different(baseline: &Baseline, reports: &[&Report]) -> Vec<Difference> {
    let Some(before) = &baseline.report else {
        return Vec::new();
    };
    let all = reports
        .iter()
        .map(|now| differences(before, now, &baseline.tolerances));
    let weight = |found: &Vec<Difference>| {
        let count = |state| found.iter().filter(|one| one.state == state).count();
        let beyond = count(DifferenceState::Beyond);
        (beyond, count(DifferenceState::Unknown), found.len())
    };
    all.max_by_key(weight).unwrap_or_default()
}

/// The command line that shows the whole report.
fn report_command(check: &Check) -> String {
    let mut words = vec!["zctrace".to_owned()];
    if let Some(file) = &check.file {
        let file = file.display().to_string();
        let name = glob::Pattern::escape(&check.name);
        words.extend(["check".to_owned(), file, name, "--report".to_owned()]);
        return command_line(&words);
    }
    let set = check.syscalls_argument();
    if set != "%data" {
        words.push(format!("--syscalls={set}"));
    }
    let recorded = check.must_record();
    let sampled = recorded.sampled_calls();
    for (is_needed, option) in [
        (recorded.has_syncs(), "--syncs"),
        (recorded.has_touches(), "--paths"),
        (sampled == Some(SampledCalls::Some), "--callers"),
        (sampled == Some(SampledCalls::All), "--callers=all"),
        (recorded.has_sizes(), "--histogram"),
        (recorded.has_descriptors(), "--fds"),
        (check.needed_detail() == Detail::Thread, "--by=thread"),
    ] {
        if is_needed {
            words.push(option.to_owned());
        }
    }
    words.extend(check.user.iter().map(|user| format!("--user={user}")));
    let backend = check.needed_backend();
    if backend != Choice::Auto {
        words.push(format!("--backend={}", backend.word()));
    }
    words.push("--".to_owned());
    words.extend(check.command_words());
    command_line(&words)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ffi::OsString};

    use super::*;
    use crate::{
        check::{
            PlaceInFile, Results, SCHEMA, Tolerances,
            sample_checks::{self, attempt},
        },
        golden::{GoldenCase, check_golden},
        report::sample::files::Scene,
    };

    #[test]
    fn runs_are_judged_as_the_golden_file_says() {
        check_golden("check/tests/runs.txt", GoldenCase::Lines, |case| {
            let (check, mut attempts) = read_case(case);
            let control = check.control.is_some().then(|| attempts.pop()).flatten();
            describe_result(&judge_check(&check, &attempts, control.as_ref())).join("\n")
        });
    }

    /// What is expected, and the runs.
    fn read_case(case: &str) -> (Check, Vec<RunAttempt>) {
        let mut check = sample_checks::check("a copy", &[]);
        check.place = Some(PlaceInFile {
            file: "/base/zctrace.toml".into(),
            line: 3,
            expectations: (6..9).collect(),
        });
        let mut attempts = Vec::new();
        for line in case.lines() {
            match line.split_once(' ').expect("a word and more") {
                ("expect", text) => check
                    .expectations
                    .push(text.parse().expect("an expectation")),
                ("run", text) => attempts.push(attempt(report_of_calls(text).ok_or("timeout"))),
                ("baseline", text) => {
                    check.baseline = Some(Baseline {
                        path: "b.json".into(),
                        report: report_of_calls(text).map(Box::new),
                        tolerances: Tolerances::default(),
                    });
                }
                ("command", line) => {
                    check.command = ["sh", "-c", line].map(OsString::from).into();
                    check.file = Some("zctrace.toml".into());
                }
                ("control", text) => {
                    check.control = Some(vec!["control".into()]);
                    attempts.push(attempt(report_of_calls(text).ok_or("timeout")));
                }
                _ => check.ignore_failure = true,
            }
        }
        (check, attempts)
    }

    /// The report of a command that made these calls, `write - 1 1`, with what is changed behind `@`.
    /// `None`: there is none.
    fn report_of_calls(text: &str) -> Option<Report> {
        let (calls, change) = text.split_once(" @ ").unwrap_or((text, "exit 0"));
        let mut scene = Scene::read(&format!(
            "x: {}",
            Some(calls).filter(|calls| *calls != "none")?
        ));
        scene.change(change);
        Some(scene.report())
    }

    fn describe_result(result: &CheckResult) -> Vec<String> {
        let (name, exit) = (result.status.name(), result.status.exit_status());
        let mut lines = vec![format!("{name}, exit status {exit}")];
        lines.extend(result.error.iter().map(|why| format!("error: {why}")));
        if let Some(control) = &result.control {
            let error = control.error.as_deref().unwrap_or("has a result");
            lines.push(format!("control {}: {error}", control.status.name()));
        }
        for one in &result.expectations {
            let (outcome, run) = (&one.outcome, one.run);
            let verdict = outcome.verdict.name();
            lines.push(format!("{verdict} in run {run}: {}", outcome.expectation));
        }
        let differing = result.differences.iter().map(|one| one.metric.as_str());
        let differing: Vec<&str> = differing.collect();
        if !differing.is_empty() {
            lines.push(format!("differs: {}", differing.join(", ")));
        }
        let varying = result.figures.iter().flat_map(|figures| &figures.varying);
        lines.extend(varying.map(|one| format!("varies: {} {}..{}", one.name, one.min, one.max)));
        let shown = result.report.as_ref().map(|report| report.syscall("write"));
        let shown = shown.map(|write| write.expect("was counted").calls);
        let (line, stderr) = (result.line, result.stderr.len());
        lines.push(format!(
            "line {line:?}, {stderr} lines of stderr, shows {shown:?} writes"
        ));
        lines
    }

    #[test]
    fn checks_exit_with_the_worst_status() {
        let result = judge_check(
            &sample_checks::check("a copy", &[]),
            &[attempt(Err("timeout"))],
            None,
        );
        assert_eq!((&result.file, result.line), (&None, None));
        let mut results = Results {
            schema: SCHEMA,
            labels: BTreeMap::new(),
            checks: Vec::new(),
            interrupted: None,
        };
        assert_eq!(results.exit_status(), 0);
        // Each is worse than those before it.
        for (status, exit) in [
            (Status::Passed, 0),
            (Status::Inconclusive, 3),
            (Status::NoResult, 2),
            (Status::Failed, 1),
        ] {
            let mut result = result.clone();
            result.status = status;
            results.checks.push(result);
            assert_eq!(results.exit_status(), exit);
        }
    }

    #[test]
    fn a_result_says_why_strace_counted() {
        let note = "backend strace, since eBPF cannot run here: it needs CAP_BPF";
        let check = sample_checks::check("a copy", &["write.calls == 0"]);
        let mut report = crate::compare::sample_measurements::report(Vec::new());
        let fallback =
            |report: &Report| judge_check(&check, &[attempt(Ok(report.clone()))], None).fallback;
        assert_eq!(fallback(&report), None);
        report.notes.extend(["another".to_owned(), note.to_owned()]);
        assert_eq!(fallback(&report).as_deref(), Some(note));
    }

    #[test]
    fn a_result_names_the_command_that_shows_its_report() {
        let plain = || sample_checks::check("a copy", &["write.calls == 1"]);
        let by_strace = Check {
            backend: Choice::Strace,
            user: Some("nobody".into()),
            ..sample_checks::check("a copy", &["fsync.calls == 1"])
        };
        let by_file = Check {
            file: Some("tests/zctrace.toml".into()),
            name: "a [copy]".into(),
            ..plain()
        };
        for (check, expected) in [
            (plain(), "zctrace -- cp in 'out file'"),
            (
                by_strace,
                "zctrace --syscalls=%data,fsync --user=nobody --backend=strace -- cp in 'out file'",
            ),
            (
                by_file,
                "zctrace check tests/zctrace.toml 'a [[]copy[]]' --report",
            ),
        ] {
            assert_eq!(report_command(&check), expected);
        }
    }
}
