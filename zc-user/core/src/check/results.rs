//! The results of checks, as JSON has them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    expect::Outcome,
    figures::{comparison::Difference, reading::Repeatability},
    report::Report,
    text::plural,
    words::names,
};

/// The version of the results' JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

names! {
    /// The status of a check, by its name in reports for people. The greatest of all is the status of
    /// `zctrace check`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Status {
        /// Everything that is expected holds.
        Passed = "passed",
        /// The reports do not know enough to decide.
        Inconclusive = "inconclusive",
        /// The command could not be run, or not to its end, or it failed.
        NoResult = "without a result",
        /// Something that is expected does not hold.
        Failed = "failed",
    }
}

impl Status {
    /// What `zctrace check` exits with if this is the worst status of all checks.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::NoResult => 2,
            Self::Inconclusive => 3,
        }
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the user says of these runs (`--label`).
    pub labels: BTreeMap<String, String>,
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
    /// Why this is expected.
    pub why: Option<String>,
    /// Its command.
    pub command: Vec<String>,
    /// Its status.
    pub status: Status,
    /// Why it has no result.
    pub error: Option<String>,
    /// How often it ran.
    pub runs: usize,
    /// How long all its runs took.
    pub duration_ns: u64,
    /// Name of the backend.
    pub backend: Option<String>,
    /// Why it is strace, if eBPF was to be tried first: a sentence.
    pub fallback: Option<String>,
    /// One for each expectation.
    pub expectations: Vec<ExpectationResult>,
    /// What its control command showed; `None`: it has none.
    pub control: Option<ControlResult>,
    /// What differs from its baseline, in the run that differs most.
    pub differences: Vec<Difference>,
    /// Its figures, and which of them were the same in every run. `None`: there is no report.
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
    pub fn count_status(&self, status: Status) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.status == status).count()
    }

    /// The exit status of `zctrace check`: that of the worst check. A failure is worse than a run
    /// that was not possible, and that is worse than an inconclusive one.
    pub fn exit_status(&self) -> u8 {
        let worst = self.checks.iter().map(|check| check.status).max();
        worst.map_or(0, Status::exit_status)
    }

    /// One line: `3 checks: 2 passed, 1 failed`.
    pub fn summary_line(&self) -> String {
        let mut parts = Vec::new();
        for status in [
            Status::Passed,
            Status::Failed,
            Status::NoResult,
            Status::Inconclusive,
        ] {
            let count = self.count_status(status);
            if count > 0 {
                parts.push(format!("{count} {}", status.name()));
            }
        }
        if parts.is_empty() {
            parts.push("none was run".to_owned());
        }
        let interrupted = match &self.interrupted {
            Some(signal) => format!("; interrupted by {signal}"),
            None => String::new(),
        };
        let checks = plural(self.checks.len() as u64, "check", "checks");
        format!("{checks}: {}{interrupted}", parts.join(", "))
    }
}

/// What the control command of a check showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlResult {
    /// The command.
    pub command: Vec<String>,
    /// Passed: an expectation fails for it, as one must. Failed: all of them hold, so the check
    /// cannot fail.
    pub status: Status,
    /// Why it has no result.
    pub error: Option<String>,
    /// What its run says about each expectation of the check.
    pub expectations: Vec<ExpectationResult>,
}
