//! The result of a check: what the reports of its runs say about its expectations and its baseline.

use std::time::Duration;

use serde::Serialize;

use super::plan::{Baseline, Check, Place, ReportCommand};
use crate::{
    expect::{Expectation, Inferred, Outcome, Verdict},
    figures::{
        comparison::{Difference, DifferenceState, differences},
        reading::{Repeatability, repeatability},
    },
    options::Choice,
    report::Report,
    text::command_line,
    words::Word as _,
};

/// The version of the results' JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

/// One run of a check.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its report, or why there is none.
    pub outcome: Result<Box<Report>, String>,
    /// How long it took, including zctrace's own start and end.
    pub duration: Duration,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
}

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Everything that is expected holds.
    Passed,
    /// Something that is expected does not hold.
    Failed,
    /// The command could not be run, or not to its end.
    CouldNotRun,
    /// The reports do not know enough to decide.
    Inconclusive,
}

impl Status {
    /// Its name in reports for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::CouldNotRun => "could not be run",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// Every status, the worst first.
    const WORST_FIRST: [Self; 4] = [
        Self::Failed,
        Self::CouldNotRun,
        Self::Inconclusive,
        Self::Passed,
    ];

    /// What `zctrace check` exits with if this is the worst status of all checks.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::CouldNotRun => 2,
            Self::Inconclusive => 3,
        }
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// One for each check, in the order of the file.
    pub checks: Vec<CheckResult>,
    /// The name of the signal that ended zctrace before all checks were run.
    pub interrupted: Option<String>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Its command.
    pub command: Vec<String>,
    /// Its status.
    pub status: Status,
    /// Why it could not be run.
    pub error: Option<String>,
    /// How often it ran.
    pub runs: usize,
    /// How long all its runs took.
    pub duration_ns: u64,
    /// Name of the backend.
    pub backend: Option<String>,
    /// One for each expectation.
    pub expectations: Vec<ExpectationResult>,
    /// What differs from its baseline, in the run that differs most.
    pub differences: Vec<Difference>,
    /// Which figures were the same in every run; `None` after a single run.
    pub figures: Option<Repeatability>,
    /// The last lines of its stderr, if it did not pass.
    pub stderr: Vec<String>,
    /// A command line that shows its whole report.
    pub show: String,
    /// The file that it is written in; `None`: it is from the command line.
    pub file: Option<String>,
    /// A line of that file: of the first expectation that does not hold, else where the check
    /// begins.
    pub line: Option<usize>,
    /// The report of the run that explains the status best.
    #[serde(skip)]
    pub report: Option<Box<Report>>,
}

/// The result of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExpectationResult {
    /// The outcome in the first run that fails it, else the first inconclusive run, else the first
    /// run.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The number of that run, from 1.
    pub run: usize,
}

impl Results {
    /// How many checks there are with this status.
    pub fn count(&self, status: Status) -> usize {
        self.checks
            .iter()
            .filter(|check| check.status == status)
            .count()
    }

    /// The exit status of `zctrace check`: that of the worst check. A failure is worse than a run
    /// that was not possible, and that is worse than an inconclusive one.
    pub fn exit_status(&self) -> u8 {
        let worst = Status::WORST_FIRST
            .into_iter()
            .find(|status| self.count(*status) > 0);
        worst.map_or(0, Status::exit_status)
    }

    /// One line: `3 checks: 2 passed, 1 failed`.
    pub fn summary(&self) -> String {
        let [failed, could_not_run, inconclusive, passed] = Status::WORST_FIRST;
        let counts = [passed, failed, could_not_run, inconclusive]
            .map(|status| (self.count(status), status.name()));
        let parts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let checks = if self.checks.len() == 1 {
            "1 check".to_owned()
        } else {
            format!("{} checks", self.checks.len())
        };
        let interrupted = self
            .interrupted
            .as_ref()
            .map(|signal| format!("; interrupted by {signal}"))
            .unwrap_or_default();
        format!(
            "{checks}: {}{interrupted}",
            if parts.is_empty() {
                "none was run".to_owned()
            } else {
                parts.join(", ")
            }
        )
    }
}

/// Judges the runs of a check.
pub fn judge(check: &Check, attempts: &[Attempt]) -> CheckResult {
    let reports: Vec<&Report> = attempts
        .iter()
        .filter_map(|attempt| attempt.outcome.as_ref().ok().map(Box::as_ref))
        .collect();
    let mut error = attempts
        .iter()
        .find_map(|attempt| attempt.outcome.as_ref().err().cloned());
    let mut expectations = Vec::new();
    for expectation in check.expectations.iter().filter(|_| !reports.is_empty()) {
        match worst_outcome(expectation, check.inferred, attempts) {
            Ok(result) => expectations.push(result),
            Err(why) => error = error.or(Some(why)),
        }
    }
    let differences = check
        .baseline
        .as_ref()
        .map(|baseline| most_different(baseline, &reports))
        .unwrap_or_default();
    let is_unfit = check
        .baseline
        .as_ref()
        .is_some_and(Baseline::is_to_be_written)
        && reports.iter().any(|report| !report.exact);
    let status = match status(error.as_ref(), &expectations, &differences) {
        // Lower bounds are not fit to become a baseline.
        Status::Passed if is_unfit => Status::Inconclusive,
        status => status,
    };
    let unmet = expectations
        .iter()
        .find(|result| result.outcome.verdict != Verdict::Holds);
    let telling = unmet.map_or(0, |result| result.run - 1);
    let is_unmet =
        |one: &Expectation| unmet.is_some_and(|result| result.outcome.expectation == one.text());
    let unmet_index = check.expectations.iter().position(is_unmet);
    let of_unmet = |place: &Place| {
        unmet_index
            .and_then(|index| place.expectations.get(index).copied())
            .unwrap_or(place.line)
    };
    let line = check.place.as_ref().map(of_unmet);
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
        figures: (reports.len() > 1).then(|| repeatability(&reports)),
        stderr: attempts
            .last()
            .filter(|_| status != Status::Passed)
            .map(|attempt| attempt.stderr.clone())
            .unwrap_or_default(),
        show: show(check),
        file: check
            .place
            .as_ref()
            .map(|place| place.file.display().to_string()),
        line,
        report: reports.get(telling).map(|&report| Box::new(report.clone())),
    }
}

/// A known failure counts even if another run was not possible.
fn status(
    error: Option<&String>,
    expectations: &[ExpectationResult],
    differences: &[Difference],
) -> Status {
    let any = |verdict| {
        expectations
            .iter()
            .any(|result| result.outcome.verdict == verdict)
    };
    let differs = |state| {
        differences
            .iter()
            .any(|difference| difference.state == state)
    };
    if any(Verdict::Fails) || differs(DifferenceState::Beyond) {
        Status::Failed
    } else if error.is_some() {
        Status::CouldNotRun
    } else if any(Verdict::Inconclusive) || differs(DifferenceState::Unknown) {
        Status::Inconclusive
    } else {
        Status::Passed
    }
}

/// The worst outcome of all runs, since an expectation must hold in each.
fn worst_outcome(
    expectation: &Expectation,
    inferred: Inferred,
    attempts: &[Attempt],
) -> Result<ExpectationResult, String> {
    let of_run = |attempt: &Attempt| {
        let report = attempt.outcome.as_ref().ok()?;
        Some(
            expectation
                .evaluate_with(report, inferred)
                .map_err(|error| error.message()),
        )
    };
    let outcomes: Vec<Outcome> = attempts
        .iter()
        .filter_map(of_run)
        .collect::<Result<_, _>>()?;
    let rank = |verdict| match verdict {
        Verdict::Fails => 0,
        Verdict::Inconclusive => 1,
        Verdict::Holds => 2,
    };
    let numbered = (1..)
        .zip(outcomes)
        .min_by_key(|(run, outcome): &(usize, Outcome)| (rank(outcome.verdict), *run));
    numbered
        .map(|(run, outcome)| ExpectationResult { outcome, run })
        .ok_or_else(|| "it was not run".to_owned())
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
        let of = |state| {
            found
                .iter()
                .filter(|difference| difference.state == state)
                .count()
        };
        (
            of(DifferenceState::Beyond),
            of(DifferenceState::Unknown),
            found.len(),
        )
    };
    all.max_by_key(weight).unwrap_or_default()
}

/// The command line that shows the whole report.
fn show(check: &Check) -> String {
    let words: Vec<String> = match &check.report_command {
        ReportCommand::Run => {
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
        ReportCommand::Check(file) => {
            let file = file.display().to_string();
            vec![
                "zctrace".to_owned(),
                "check".to_owned(),
                file,
                glob::Pattern::escape(&check.name),
                "--report".to_owned(),
            ]
        }
    };
    command_line(&words)
}

#[cfg(test)]
mod tests {
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
        let found: Vec<_> = result
            .expectations
            .iter()
            .map(|result| (result.outcome.verdict, result.run))
            .collect();
        assert_eq!(found, [(Verdict::Fails, 2), (Verdict::Holds, 1)]);
        assert_eq!(
            result.figures.expect("of three").varying[0].name,
            "write.bytes"
        );
        assert_eq!(
            result
                .report
                .expect("the one that fails")
                .totals
                .syscalls
                .iter()
                .map(|row| row.calls)
                .max(),
            Some(2)
        );
        assert_eq!(result.stderr.len(), 1);
    }

    #[test]
    fn relative_paths_start_in_the_commands_directory() {
        let mut report = crate::check::sample::of_reads("in");
        report.directory = Some("/work".to_owned());
        let run = attempt(Ok(report.clone()));
        let verdict =
            |run: &Attempt, text: &str| judge(&check(&[text]), std::slice::from_ref(run)).status;
        for same in ["in", "./in", "/work/in", "../work/in", "/**/in"] {
            assert_eq!(
                verdict(&run, &format!("read[file=\"{same}\"].calls == 0")),
                Status::Failed,
                "{same}"
            );
        }
        assert_eq!(
            verdict(&run, "read[file=\"/etc/in\"].calls == 0"),
            Status::Passed
        );
        report.directory = None;
        let run = attempt(Ok(report));
        assert_eq!(
            verdict(&run, "read[file=\"/etc/in\"].calls == 0"),
            Status::Inconclusive
        );
        assert_eq!(
            verdict(&run, "read[file=\"/etc/out\"].calls == 0"),
            Status::Passed
        );
    }

    #[test]
    fn a_failure_outranks_a_run_that_was_not_possible() {
        let failed = judge(
            &check(&["write.calls == 1"]),
            &[attempt(Ok(of_writes(2))), attempt(Err("timeout"))],
        );
        assert_eq!(
            (failed.status, failed.error.as_deref()),
            (Status::Failed, Some("timeout"))
        );
        let not_run = judge(
            &check(&["write.calls == 1"]),
            &[attempt(Ok(of_writes(1))), attempt(Err("timeout"))],
        );
        assert_eq!(not_run.status, Status::CouldNotRun);
        let mut bound = of_writes(1);
        bound.exact = false;
        let inconclusive = judge(&check(&["write.calls == 1"]), &[attempt(Ok(bound))]);
        assert_eq!(inconclusive.status, Status::Inconclusive);
        let passed = judge(&check(&["write.calls == 1"]), &[attempt(Ok(of_writes(1)))]);
        assert_eq!((passed.status, passed.stderr.len()), (Status::Passed, 0));
        let exit = |checks: &[&CheckResult]| {
            let checks = checks.iter().map(|&check| check.clone()).collect();
            Results {
                schema: 1,
                checks,
                interrupted: None,
            }
            .exit_status()
        };
        assert_eq!(exit(&[&passed]), 0);
        assert_eq!(exit(&[&passed, &inconclusive]), 3);
        assert_eq!(exit(&[&inconclusive, &not_run]), 2);
        assert_eq!(exit(&[&not_run, &failed, &inconclusive]), 1);
    }

    #[test]
    fn every_run_is_compared_with_the_baseline() {
        let baseline = |report| {
            Some(Baseline {
                path: "b.json".into(),
                report,
                tolerances: Tolerances::default(),
            })
        };
        let runs = [1, 2].map(|calls| attempt(Ok(of_writes(calls))));
        let same = Check {
            baseline: baseline(Some(Box::new(of_writes(1)))),
            ..check(&[])
        };
        let result = judge(&same, &runs);
        assert_eq!(
            (result.status, result.differences.len()),
            (Status::Failed, 2)
        );
        assert_eq!(judge(&same, &runs[..1]).status, Status::Passed);
        let written = Check {
            baseline: baseline(None),
            ..same
        };
        assert_eq!(
            judge(&written, &runs).status,
            Status::Passed,
            "to be written"
        );
        let mut bound = of_writes(1);
        bound.exact = false;
        assert_eq!(
            judge(&written, &[attempt(Ok(bound))]).status,
            Status::Inconclusive,
            "it would be a lower bound"
        );
    }

    #[test]
    fn a_result_names_the_line_of_the_first_expectation_that_does_not_hold() {
        let place = Place {
            file: "/base/zctrace.toml".into(),
            line: 3,
            expectations: vec![6, 7],
        };
        let placed = Check {
            place: Some(place),
            ..check(&["write.calls == 1", "write.calls == 2"])
        };
        let line = |run| judge(&placed, &[attempt(run)]).line;
        assert_eq!(line(Ok(of_writes(1))), Some(7));
        assert_eq!(line(Ok(of_writes(2))), Some(6));
        assert_eq!(line(Err("timeout")), Some(3));
        let of_command_line = judge(&check(&["write.calls == 1"]), &[attempt(Ok(of_writes(2)))]);
        assert_eq!((of_command_line.file, of_command_line.line), (None, None));
    }

    #[test]
    fn a_result_names_the_command_that_shows_its_report() {
        assert_eq!(
            show(&check(&["write.calls == 1"])),
            "zctrace -- cp in 'out file'"
        );
        assert_eq!(
            show(&check(&["fsync.calls == 1"])),
            "zctrace --syscalls=%data,fsync -- cp in 'out file'"
        );
        let chosen = Check {
            backend: Choice::Strace,
            ..check(&["write.calls == 1"])
        };
        assert_eq!(
            show(&chosen),
            "zctrace --backend=strace -- cp in 'out file'"
        );
        let by_file = Check {
            report_command: ReportCommand::Check("tests/zctrace.toml".into()),
            name: "a [copy]".into(),
            ..check(&[])
        };
        assert_eq!(
            show(&by_file),
            "zctrace check tests/zctrace.toml 'a [[]copy[]]' --report"
        );
    }
}
