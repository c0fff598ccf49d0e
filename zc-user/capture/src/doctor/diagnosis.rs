//! What the facts mean: for each backend whether it can run, what is in its way, and what it can do.

use serde::Serialize;

use super::facts::{Facts, System};

/// What each backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What `--backend auto` takes.
    pub auto: Auto,
    /// The backends, in the order in which `auto` tries them.
    pub backends: [BackendDiagnosis; 2],
    /// What all of this follows from.
    pub facts: Facts,
}

impl Diagnosis {
    /// The exit status of `zctrace doctor`: 0 if a backend can run, 1 if none can.
    pub const fn exit_status(&self) -> u8 {
        if self.auto.backend.is_some() { 0 } else { 1 }
    }
}

/// What `--backend auto` takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Auto {
    /// The backend; `None` if none can run.
    pub backend: Option<&'static str>,
    /// Why this one, in one line.
    pub why: String,
}

/// What one backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendDiagnosis {
    /// Its name.
    pub name: &'static str,
    /// Whether it can run.
    pub usable: bool,
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// What it tells of a command, if it can run.
    pub can: Vec<String>,
    /// What it cannot tell, or costs.
    pub cannot: Vec<String>,
}

impl BackendDiagnosis {
    /// The first thing that keeps it from running.
    fn obstacle(&self) -> &str {
        let missing = self.findings.iter().find(|finding| finding.state == State::Missing);
        missing.map_or("for a reason that is not known", |finding| &finding.detail)
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub what: &'static str,
    /// Whether it is as it has to be.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// The command that puts it right, to be typed as it is, if there is one.
    pub remedy: Option<String>,
}

impl Finding {
    /// Something in order.
    pub(super) fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self { what, state: State::Ok, detail: detail.into(), remedy: None }
    }

    /// Something that takes a part of the backend's use away.
    pub(super) fn warning(what: &'static str, detail: impl Into<String>) -> Self {
        Self { state: State::Warning, ..Self::ok(what, detail) }
    }

    /// Something that keeps the backend from running.
    pub(super) fn missing(what: &'static str, detail: impl Into<String>, remedy: Option<String>) -> Self {
        Self { state: State::Missing, remedy, ..Self::ok(what, detail) }
    }
}

/// Whether a thing is as it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is.
    Ok,
    /// The backend runs, but not with all it has.
    Warning,
    /// The backend cannot run.
    Missing,
}

/// What the numbers of this machine leave out for people who are used to those of `x86_64`; `None` there.
pub(super) fn calls_of_x86_alone(system: &System) -> Option<&'static str> {
    let is_arm = system.arch.known().is_some_and(|arch| arch == "aarch64");
    is_arm.then_some(
        "open, stat, pipe, poll, fork and other old calls do not exist on aarch64: programs make openat, newfstatat, pipe2, ppoll, clone",
    )
}

/// What `--backend auto` takes of these, and why.
pub(super) fn auto(backends: &[BackendDiagnosis; 2]) -> Auto {
    let [first, second] = backends;
    let (backend, why) = if first.usable {
        (Some(first.name), "it runs here and tells the most at the least cost".to_owned())
    } else if second.usable {
        (Some(second.name), format!("{} cannot run: {}", first.name, first.obstacle()))
    } else {
        (None, format!("{}: {}. {}: {}", first.name, first.obstacle(), second.name, second.obstacle()))
    };
    Auto { backend, why }
}
