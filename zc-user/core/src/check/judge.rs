//! Reports and what is expected of them -> results.

use std::time::Duration;

use super::{
    baseline::{Difference, State, differences},
    plan::{Baseline, Check, Shown},
    result::{Attempt, CheckResult, ExpectationResult, Status},
    steady,
};
use crate::{
    expect::{Expectation, Inferred, Outcome, Verdict},
    options::Choice,
    report::Report,
    text::command_line,
    words::Word as _,
};

/// What came of the runs of a check.
pub fn judge(check: &Check, attempts: &[Attempt]) -> CheckResult {
    let reports: Vec<&Report> = attempts.iter().filter_map(|attempt| attempt.outcome.as_ref().ok().map(Box::as_ref)).collect();
    let mut error = attempts.iter().find_map(|attempt| attempt.outcome.as_ref().err().cloned());
    let mut expectations = Vec::new();
    for expectation in check.expectations.iter().filter(|_| !reports.is_empty()) {
        match worst_outcome(expectation, check.inferred, attempts) {
            Ok(result) => expectations.push(result),
            Err(why) => error = error.or(Some(why)),
        }
    }
    let differences = check.baseline.as_ref().map(|baseline| most_different(baseline, &reports)).unwrap_or_default();
    let is_unfit = check.baseline.as_ref().is_some_and(Baseline::is_to_be_written) && reports.iter().any(|report| !report.exact);
    let status = match status(error.as_ref(), &expectations, &differences) {
        // Lower bounds are nothing to compare with.
        Status::Passed if is_unfit => Status::Inconclusive,
        status => status,
    };
    let telling = expectations.iter().find(|result| result.outcome.verdict != Verdict::Holds).map_or(0, |result| result.run - 1);
    let time: Duration = attempts.iter().map(|attempt| attempt.duration).sum();
    CheckResult {
        name: check.name.clone(),
        command: check.command.clone(),
        status,
        error,
        runs: attempts.len(),
        duration_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        backend: reports.first().map(|report| report.backend.clone()),
        expectations,
        differences,
        figures: (reports.len() > 1).then(|| steady::of(&reports)),
        stderr: attempts.last().filter(|_| status != Status::Passed).map(|attempt| attempt.stderr.clone()).unwrap_or_default(),
        show: show(check),
        report: reports.get(telling).map(|&report| Box::new(report.clone())),
    }
}

/// What is known to fail, fails, whatever else could not be run.
fn status(error: Option<&String>, expectations: &[ExpectationResult], differences: &[Difference]) -> Status {
    let any = |verdict| expectations.iter().any(|result| result.outcome.verdict == verdict);
    let differs = |state| differences.iter().any(|difference| difference.state == state);
    if any(Verdict::Fails) || differs(State::Beyond) {
        Status::Failed
    } else if error.is_some() {
        Status::CouldNotRun
    } else if any(Verdict::Inconclusive) || differs(State::Unknown) {
        Status::Inconclusive
    } else {
        Status::Passed
    }
}

/// An expectation must hold in every run.
fn worst_outcome(expectation: &Expectation, inferred: Inferred, attempts: &[Attempt]) -> Result<ExpectationResult, String> {
    let of_run = |attempt: &Attempt| {
        let report = attempt.outcome.as_ref().ok()?;
        Some(expectation.evaluate_with(report, inferred).map_err(|error| error.message()))
    };
    let outcomes: Vec<Outcome> = attempts.iter().filter_map(of_run).collect::<Result<_, _>>()?;
    let rank = |verdict| match verdict {
        Verdict::Fails => 0,
        Verdict::Inconclusive => 1,
        Verdict::Holds => 2,
    };
    let numbered = (1..).zip(outcomes).min_by_key(|(run, outcome): &(usize, Outcome)| (rank(outcome.verdict), *run));
    numbered.map(|(run, outcome)| ExpectationResult { outcome, run }).ok_or_else(|| "it was not run".to_owned())
}

/// The differences of the run that has most beyond their tolerance.
fn most_different(baseline: &Baseline, reports: &[&Report]) -> Vec<Difference> {
    let Some(before) = &baseline.report else { return Vec::new() };
    let all = reports.iter().map(|now| differences(before, now, &baseline.tolerances));
    let weight = |found: &Vec<Difference>| {
        let of = |state| found.iter().filter(|difference| difference.state == state).count();
        (of(State::Beyond), of(State::Unknown), found.len())
    };
    all.max_by_key(weight).unwrap_or_default()
}

/// How to see the whole report.
fn show(check: &Check) -> String {
    let words: Vec<String> = match &check.shown_by {
        Shown::ByRun => {
            let set = check.syscalls();
            let set = (set != "%data").then(|| format!("--syscalls={set}"));
            let backend = Some(check.backend).filter(|backend| *backend != Choice::Auto);
            std::iter::once("zctrace".to_owned())
                .chain(set)
                .chain(backend.map(|backend| format!("--backend={}", backend.word())))
                .chain(["--".to_owned()])
                .chain(check.command.iter().cloned())
                .collect()
        }
        Shown::ByCheck(file) => {
            let file = file.display().to_string();
            vec!["zctrace".to_owned(), "check".to_owned(), file, glob::Pattern::escape(&check.name), "--report".to_owned()]
        }
    };
    command_line(&words)
}

#[cfg(test)]
mod tests;
