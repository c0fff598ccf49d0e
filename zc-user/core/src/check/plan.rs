//! What is to be checked, and how.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::tolerance::Tolerances;
use crate::{
    expect::{Expectation, Inferred, duration},
    options::Choice,
    report::Report,
    syscall::Selection,
};

/// A command, and what is expected of it.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Program and arguments; not empty.
    pub command: Vec<String>,
    /// Environment variables that it has besides zctrace's own.
    pub env: BTreeMap<String, String>,
    /// Where it runs; without it, in a temporary folder with [`files`](Self::files).
    pub directory: Option<PathBuf>,
    /// Files that are there when it starts, in a temporary folder.
    pub files: Vec<PreparedFile>,
    /// What its report must say.
    pub expectations: Vec<Expectation>,
    /// How often it runs; at least once.
    pub repeat: u32,
    /// Whether it takes inferred transfers for granted.
    pub inferred: Inferred,
    /// What traces it.
    pub backend: Choice,
    /// How long a run may take.
    pub timeout: Duration,
    /// Which calls are counted; without it, those that move data and those that expectations name.
    pub selection: Option<Selection>,
    /// What it is compared with.
    pub baseline: Option<Baseline>,
    /// Where relative paths of it begin.
    pub base: PathBuf,
    /// How to see its whole report.
    pub shown_by: Shown,
}

/// How to see the whole report of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// By `zctrace -- CMD`.
    ByRun,
    /// By `zctrace check FILE NAME --report`, since more belongs to it than a command.
    ByCheck(PathBuf),
}

/// A report to compare with.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// Its file.
    pub path: PathBuf,
    /// The report; `None`: to be written.
    pub report: Option<Box<Report>>,
    /// How far figures may be off.
    pub tolerances: Tolerances,
}

impl Baseline {
    /// Whether it is to be made of what runs now.
    pub const fn is_to_be_written(&self) -> bool {
        self.report.is_none()
    }
}

/// A file that is made before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedFile {
    /// Its path, within the temporary folder.
    pub path: PathBuf,
    /// What is in it.
    pub content: Content,
}

/// What is in a file that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// This text.
    Text(String),
    /// So many bytes that look random, the same each time.
    Random(u64),
    /// So many zero bytes, written, not a hole.
    Zero(u64),
}

impl Check {
    /// How long a run may take if nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_mins(1);

    /// The set of calls to count, as `--syscalls` takes it.
    pub fn syscalls(&self) -> String {
        match &self.selection {
            Some(Selection::All) => "all".to_owned(),
            Some(Selection::Names(names)) => names.iter().copied().collect::<Vec<_>>().join(","),
            None => std::iter::once("%data").chain(self.named_calls()).collect::<Vec<_>>().join(","),
        }
    }

    /// Whether other runs beside it would change what is expected of it.
    pub fn needs_quiet(&self) -> bool {
        let compares_load = self.baseline.as_ref().is_some_and(|baseline| baseline.tolerances.depend_on_load());
        compares_load || self.expectations.iter().any(Expectation::depends_on_load)
    }

    /// Calls beyond the default set that expectations name.
    fn named_calls(&self) -> impl Iterator<Item = &'static str> {
        let usual = Selection::default();
        let named: BTreeSet<&str> = self.expectations.iter().flat_map(Expectation::calls).collect();
        named.into_iter().filter(move |name| !usual.contains(name))
    }

    /// An expectation, and the calls that it names although they are not to be counted.
    pub fn uncounted(&self) -> Option<(&Expectation, Vec<&'static str>)> {
        let selection = self.selection.as_ref()?;
        let uncounted = |expectation: &Expectation| -> Vec<&'static str> {
            expectation.calls().into_iter().filter(|name| !selection.contains(name)).collect()
        };
        let all = self.expectations.iter().map(|expectation| (expectation, uncounted(expectation)));
        all.into_iter().find(|(_, uncounted)| !uncounted.is_empty())
    }
}

/// How long a run may take, like `10s`. The error says what is wrong with it.
pub fn timeout(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err(format!("within '{text}' nothing can end: give it some time, like 10s")) } else { Ok(time) }
}

/// The checks whose names match one of these patterns; without any pattern, all of them. The error is a pattern that matches none.
pub fn choose(checks: Vec<Check>, patterns: &[String]) -> Result<Vec<Check>, String> {
    let globs: Vec<glob::Pattern> = patterns
        .iter()
        .map(|text| glob::Pattern::new(text).map_err(|error| format!("'{text}' is no pattern: {}", error.msg)))
        .collect::<Result<_, _>>()?;
    if let Some(glob) = globs.iter().find(|glob| !checks.iter().any(|check| glob.matches(&check.name))) {
        return Err(format!("no check is called '{glob}'; --list shows them all"));
    }
    Ok(checks.into_iter().filter(|check| globs.is_empty() || globs.iter().any(|glob| glob.matches(&check.name))).collect())
}
