//! What came of checks.

use std::time::Duration;

use serde::Serialize;

use super::{baseline::Difference, steady::Steady};
use crate::{expect::Outcome, report::Report};

/// The schema that the JSON of results carries. Field names never change their meaning within a number.
pub const SCHEMA: u32 = 1;

/// What came of one run.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its report, or why there is none.
    pub outcome: Result<Box<Report>, String>,
    /// How long it took, zctrace's own start and end included.
    pub duration: Duration,
    /// The last lines that it wrote to stderr.
    pub stderr: Vec<String>,
}

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Everything holds.
    Passed,
    /// Something does not hold.
    Failed,
    /// It could not be run, or not to its end.
    CouldNotRun,
    /// What is known is not enough to say.
    Inconclusive,
}

impl Status {
    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::CouldNotRun => "could not be run",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// What came of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Check by check, in the order of their file.
    pub checks: Vec<CheckResult>,
    /// The signal that ended it before all were run, by name.
    pub interrupted: Option<String>,
}

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Its command.
    pub command: Vec<String>,
    /// What came of it.
    pub status: Status,
    /// Why it could not be run.
    pub error: Option<String>,
    /// How often it ran.
    pub runs: usize,
    /// How long all of its runs took.
    pub duration_ns: u64,
    /// Name of the backend.
    pub backend: Option<String>,
    /// What came of each expectation.
    pub expectations: Vec<ExpectationResult>,
    /// What differs from its baseline; of several runs, in the one that differs most.
    pub differences: Vec<Difference>,
    /// Which figures were the same in every run, of several.
    pub figures: Option<Steady>,
    /// What it wrote to stderr last, if something is wrong.
    pub stderr: Vec<String>,
    /// A command line that shows its whole report.
    pub show: String,
    /// The report of the run that says most about it.
    #[serde(skip)]
    pub report: Option<Box<Report>>,
}

/// What came of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExpectationResult {
    /// In the run that says most about it: the first that fails, else the first that is inconclusive, else the first.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Which run that is, from 1.
    pub run: usize,
}

impl Results {
    /// How many checks there are with this status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }

    /// The exit status: what surely failed comes before what could not be run, and that before what is not known.
    pub fn exit_status(&self) -> u8 {
        let order = [(Status::Failed, 1), (Status::CouldNotRun, 2), (Status::Inconclusive, 3)];
        order.into_iter().find(|(status, _)| self.count(*status) > 0).map_or(0, |(_, exit)| exit)
    }

    /// All in one line: `3 checks: 2 passed, 1 failed`.
    pub fn summary(&self) -> String {
        let all = [Status::Passed, Status::Failed, Status::CouldNotRun, Status::Inconclusive];
        let counts = all.map(|status| (self.count(status), status.name()));
        let parts: Vec<String> =
            counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
        let checks = if self.checks.len() == 1 { "1 check".to_owned() } else { format!("{} checks", self.checks.len()) };
        let interrupted = self.interrupted.as_ref().map(|signal| format!("; interrupted by {signal}")).unwrap_or_default();
        format!("{checks}: {}{interrupted}", if parts.is_empty() { "none was run".to_owned() } else { parts.join(", ") })
    }
}
