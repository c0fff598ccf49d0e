//! A check that is to be run: its command, its files and what is expected of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::PathBuf,
    time::Duration,
};

use crate::{
    expect::{Expectation, Inferred, Lock, parse_duration},
    figures::tolerance::Tolerances,
    options::{Choice, Identity, Recorded, SampledCalls},
    profile::CallProfile,
    report::{Detail, Report},
    syscalls::Selection,
    text::from_os,
};

/// A command and what is expected of it.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Why this is expected, in a sentence; shown if it does not hold.
    pub why: Option<String>,
    /// Program and arguments; not empty.
    pub command: Vec<OsString>,
    /// A command for which an expectation must fail, which shows that the check can.
    pub control: Option<Vec<OsString>>,
    /// Environment variables, added to zctrace's own.
    pub env: BTreeMap<String, String>,
    /// Who runs it, as it was written: a name, or `UID[:GID]`. `None`: who runs zctrace.
    pub user: Option<String>,
    /// The identity of that user, which is looked up before it runs.
    pub identity: Option<Identity>,
    /// Where it runs; `None`: in a temporary folder with [`files`](Self::files).
    pub directory: Option<PathBuf>,
    /// Files that are created in the temporary folder before it starts.
    pub files: Vec<PreparedFile>,
    /// What must hold of its report.
    pub expectations: Vec<Expectation>,
    /// Whether callers are sampled even if no expectation needs them.
    pub callers: bool,
    /// How often it runs; at least 1.
    pub repeat: u32,
    /// Whether inferred transfers count as facts.
    pub inferred: Inferred,
    /// Whether selectors of its expectations may match nothing.
    pub may_match_nothing: bool,
    /// Whether its command may fail.
    pub ignore_failure: bool,
    /// The backend.
    pub backend: Choice,
    /// How long a run may take.
    pub timeout: Duration,
    /// Which calls are counted; `None`: those that move data, and those that expectations name.
    pub selection: Option<Selection>,
    /// The report that it is compared with.
    pub baseline: Option<Baseline>,
    /// The profile that must allow its calls.
    pub profile: Option<CheckProfile>,
    /// What it may touch.
    pub lock: Option<LockFile>,
    /// Where its relative paths start.
    pub base: PathBuf,
    /// The file that it is in, as it was named; `None`: it is no more than a command.
    pub file: Option<PathBuf>,
    /// Where it is written, if it is in a file.
    pub place: Option<PlaceInFile>,
}

/// The place in a file where a check is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInFile {
    /// The file; an absolute path if the check's [`base`](Check::base) is one.
    pub file: PathBuf,
    /// The line where its table begins, from 1.
    pub line: usize,
    /// The line of each of its expectations.
    pub expectations: Vec<usize>,
}

/// A report to compare with.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// Its file.
    pub path: PathBuf,
    /// The report; `None`: it is yet to be written.
    pub report: Option<Box<Report>>,
    /// How far figures may be off.
    pub tolerances: Tolerances,
}

/// A list of what a command may touch.
#[derive(Debug, Clone)]
pub struct LockFile {
    /// Its file.
    pub path: PathBuf,
    /// What is in it; of one that is to be written, what was.
    pub lock: Lock,
    /// Whether this run writes it.
    pub is_to_be_written: bool,
}

impl LockFile {
    /// A file that was not read yet.
    pub fn not_read_yet(path: PathBuf) -> Self {
        Self {
            path,
            lock: Lock::default(),
            is_to_be_written: false,
        }
    }

    /// How results call it.
    pub fn name(&self) -> String {
        format!("lock {}", self.path.display())
    }
}

impl Baseline {
    /// Whether this run writes it.
    pub const fn is_to_be_written(&self) -> bool {
        self.report.is_none()
    }
}

/// A profile that a command's calls are held against.
#[derive(Debug, Clone)]
pub struct CheckProfile {
    /// Its file.
    pub path: PathBuf,
    /// What it allows; `None`: it is not read yet.
    pub calls: Option<CallProfile>,
}

/// A file that is created before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedFile {
    /// Its path within the temporary folder.
    pub path: PathBuf,
    /// Its content.
    pub content: PreparedContent,
}

/// The content of a prepared file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedContent {
    /// This text.
    Text(String),
    /// This many bytes that look random, the same each time.
    Random(u64),
    /// This many zero bytes, written instead of left as a hole.
    Zero(u64),
}

impl Check {
    /// How long a run may take by default.
    pub const TIMEOUT: Duration = Duration::from_mins(1);

    /// The words of its command as text.
    pub fn command_words(&self) -> Vec<String> {
        self.command.iter().map(from_os).collect()
    }

    /// A check of a command that expects nothing yet. It runs once, with every default.
    pub fn new(name: String, command: Vec<OsString>, base: PathBuf) -> Self {
        Self {
            name,
            why: None,
            command,
            control: None,
            env: BTreeMap::new(),
            user: None,
            identity: None,
            directory: None,
            files: Vec::new(),
            expectations: Vec::new(),
            callers: false,
            repeat: 1,
            inferred: Inferred::default(),
            may_match_nothing: false,
            ignore_failure: false,
            backend: Choice::Auto,
            timeout: Self::TIMEOUT,
            selection: None,
            baseline: None,
            profile: None,
            lock: None,
            base,
            file: None,
            place: None,
        }
    }

    /// The check of its control command alone, which runs once.
    pub fn of_control(&self) -> Option<Self> {
        Some(Self {
            command: self.control.clone()?,
            control: None,
            repeat: 1,
            baseline: None,
            lock: None,
            ..self.clone()
        })
    }

    /// The calls that are chosen to be counted. With a profile all, so that each program has its own.
    const fn chosen_calls(&self) -> Option<&Selection> {
        static ALL: Selection = Selection::All;
        if self.profile.is_some() {
            Some(&ALL)
        } else {
            self.selection.as_ref()
        }
    }

    /// The calls to count: those that are chosen, or those that move data and those that
    /// expectations name.
    pub fn counted_calls(&self) -> Selection {
        let usual = || Selection::default().with_calls(self.named_calls());
        self.chosen_calls().cloned().unwrap_or_else(usual)
    }

    /// [`counted_calls`](Self::counted_calls) as `--syscalls` takes it.
    pub fn syscalls_argument(&self) -> String {
        let names: Vec<&str> = match self.chosen_calls() {
            Some(Selection::All) => vec!["all"],
            Some(Selection::Names(names)) => names.iter().map(String::as_str).collect(),
            None => {
                let usual = Selection::default();
                let named: BTreeSet<&str> = self.named_calls().collect();
                let others = named.into_iter().filter(|name| !usual.contains(name));
                std::iter::once("%data").chain(others).collect()
            }
        };
        names.join(",")
    }

    /// The calls that expectations name.
    fn named_calls(&self) -> impl Iterator<Item = &'static str> {
        self.expectations.iter().flat_map(Expectation::named_calls)
    }

    /// Whether it must run alone, because its expectations depend on the load of the machine.
    pub fn needs_quiet(&self) -> bool {
        let baseline = self.baseline.as_ref();
        baseline.is_some_and(|baseline| baseline.tolerances.depend_on_load())
            || self.expectations.iter().any(Expectation::depends_on_load)
    }

    /// What its run must record.
    pub fn must_record(&self) -> Recorded {
        let needed = self.expectations.iter().map(Expectation::must_record);
        let needed = needed.fold(Recorded::ALL, Recorded::or);
        let profile = self.profile.as_ref().and_then(|one| one.calls.as_ref());
        let judges_touches = profile.is_some_and(CallProfile::needs_touches);
        let needed = needed.with_touches(self.lock.is_some() || judges_touches);
        // A profile wants to know who makes a call that it denies.
        if self.callers || self.profile.is_some() {
            needed.with_callers(SampledCalls::Some)
        } else {
            needed
        }
    }

    /// How far the figures must be broken down.
    pub fn needed_detail(&self) -> Detail {
        if self.expectations.iter().any(Expectation::needs_threads) {
            Detail::Thread
        } else {
            Detail::Process
        }
    }

    /// The backend that runs it: only strace sees spans that threads mark.
    pub fn needed_backend(&self) -> Choice {
        let needs_spans = self.expectations.iter().any(Expectation::needs_spans);
        if needs_spans && self.backend == Choice::Auto {
            Choice::Strace
        } else {
            self.backend
        }
    }

    /// The first expectation that names calls that are not counted, and these calls.
    pub fn first_uncounted(&self) -> Option<(&Expectation, Vec<&'static str>)> {
        let selection = self.selection.as_ref()?;
        self.expectations.iter().find_map(|expectation| {
            let mut calls = expectation.named_calls();
            calls.retain(|name| !selection.contains(name));
            (!calls.is_empty()).then(|| (expectation, calls.into_iter().collect()))
        })
    }
}

/// Reads a timeout such as `10s`.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time.is_zero() {
        Err(format!("a timeout of '{text}' is too short; example: 10s"))
    } else {
        Ok(time)
    }
}

/// Chooses the checks whose names match one of the patterns, or all if there is no pattern. A
/// pattern that matches no check is an error.
pub fn choose_checks(mut checks: Vec<Check>, patterns: &[String]) -> Result<Vec<Check>, String> {
    let mut globs = Vec::new();
    for text in patterns {
        let glob = glob::Pattern::new(text);
        let glob = glob.map_err(|error| format!("'{text}' is not a pattern: {}", error.msg))?;
        if !checks.iter().any(|check| glob.matches(&check.name)) {
            let why = format!("no check is called '{text}'; --list shows all names");
            return Err(why);
        }
        globs.push(glob);
    }
    let is_chosen = |check: &Check| globs.iter().any(|glob| glob.matches(&check.name));
    checks.retain(|check| globs.is_empty() || is_chosen(check));
    Ok(checks)
}
