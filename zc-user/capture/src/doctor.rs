//! `zctrace doctor`: what each backend can do on this machine, and which command would enable the
//! rest.
//!
//! ```text
//! /proc, /sys, trials ──probe──▶ Facts ──diagnose──▶ Diagnosis ──render::doctor──▶ table, JSON
//! ```
//!
//! Only [`probe()`] does I/O. [`diagnose`] is a pure function of [`MachineFacts`], so that tests without
//! root show what other machines are told.

mod findings;
#[cfg(any(test, feature = "samples"))]
pub mod sample_machines;

use std::path::PathBuf;

use serde::Serialize;

pub use crate::{
    backend::strace::unavailable::{
        MIN_STRACE, StraceFacts, StraceProgram, StraceUnavailable, usable_strace,
    },
    machine::{ProcessStatus, System, Trial, Version},
};
use crate::{
    backend::{
        Limits, Recorded,
        ebpf::{
            EbpfUnavailable, LoadSettings, ObjectOrigin,
            load::{
                kernel::{self, TypesFile},
                object::Loaded,
            },
        },
    },
    syscalls::Selection,
};

/// Reads all facts. Loads the eBPF programs for a moment if this process may.
pub fn probe() -> MachineFacts {
    MachineFacts {
        system: System::read(),
        strace: StraceFacts::probe(),
        ebpf: EbpfFacts::probe(),
    }
}

/// What each backend can do on a machine with these facts. Pure.
pub fn diagnose(facts: &MachineFacts) -> Diagnosis {
    let backends = [findings::ebpf(facts), findings::strace(facts)];
    Diagnosis {
        auto: auto_choice(&backends),
        machine: facts.system.describe(),
        backends,
    }
}

/// All facts about this machine that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFacts {
    /// The machine, and what this process may do on it.
    pub system: System,
    /// What the eBPF backend needs.
    pub ebpf: EbpfFacts,
    /// What the strace backend needs.
    pub strace: StraceFacts,
}

/// What the eBPF backend needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EbpfFacts {
    /// Where the programs in this zctrace come from; `None` if there are none.
    pub object: Option<ObjectOrigin>,
    /// A file of type information that the environment names, but that is ignored for security.
    pub ignored_types_path: Option<PathBuf>,
    /// Whether the programs load and attach.
    pub trial: Trial,
    /// What is unknown because this kernel lacks something, each a sentence.
    pub notes: Vec<String>,
}

/// What each backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What `--backend auto` uses.
    pub auto: Auto,
    /// The machine and the user in one line.
    pub machine: String,
    /// The backends, in the order in which `auto` tries them.
    pub backends: [BackendDiagnosis; 2],
}

impl Diagnosis {
    /// The exit status of `zctrace doctor`: 0 if a backend can run, 1 if none can.
    pub const fn exit_status(&self) -> u8 {
        if self.auto.backend.is_some() { 0 } else { 1 }
    }
}

/// What `--backend auto` uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Auto {
    /// The backend; `None` if none can run.
    pub backend: Option<&'static str>,
    /// Why, in one line.
    pub why: String,
}

/// What one backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendDiagnosis {
    /// Its name.
    pub name: &'static str,
    /// Whether it can run.
    pub usable: bool,
    /// What was checked.
    pub findings: Vec<MachineFinding>,
    /// What it reports about a command.
    pub can: Vec<String>,
    /// What it cannot report, and what it costs.
    pub cannot: Vec<String>,
}

impl BackendDiagnosis {
    /// The first finding that keeps it from running.
    fn obstacle(&self) -> &str {
        let mut findings = self.findings.iter();
        let missing = findings.find(|finding| finding.state == FindingState::Missing);
        missing.map_or("for an unknown reason", |finding| &finding.detail)
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineFinding {
    /// What it is.
    pub what: &'static str,
    /// Whether it is all right.
    pub state: FindingState,
    /// What was found.
    pub detail: String,
    /// The command that fixes it, ready to be typed, if there is one.
    pub remedy: Option<String>,
}

impl MachineFinding {
    fn new(what: &'static str, state: FindingState, detail: impl Into<String>) -> Self {
        Self {
            what,
            state,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, FindingState::Ok, detail)
    }

    fn warning(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, FindingState::Warning, detail)
    }

    fn missing(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, FindingState::Missing, detail)
    }

    fn with_remedy(self, remedy: Option<String>) -> Self {
        Self { remedy, ..self }
    }
}

/// Whether a thing that was checked is all right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// Nothing is wrong.
    Ok,
    /// The backend runs, but with less than it could have.
    Warning,
    /// The backend cannot run.
    Missing,
}

/// Which of these backends `--backend auto` uses, and why.
fn auto_choice(backends: &[BackendDiagnosis; 2]) -> Auto {
    let [first, second] = backends;
    let (name, obstacle) = (first.name, first.obstacle());
    let why = if first.usable {
        "it works here and reports the most at the lowest cost".to_owned()
    } else if second.usable {
        format!("{name} cannot run: {obstacle}")
    } else {
        format!("{name}: {obstacle}. {}: {}", second.name, second.obstacle())
    };
    let usable = backends.iter().find(|backend| backend.usable);
    Auto {
        backend: usable.map(|backend| backend.name),
        why,
    }
}

impl EbpfFacts {
    /// Loads and attaches the eBPF programs with small maps, and detaches them again. No list of
    /// settings tells for sure what the kernel denies.
    fn probe() -> Self {
        let settings = LoadSettings {
            attaches: false,
            selection: Selection::default(),
            limits: Limits {
                max_rows: 64,
                max_files: 64,
                max_tasks: 64,
            },
            recorded: Recorded::ALL,
            verbose: false,
        };
        let tried = TypesFile::find().and_then(|types| {
            let (mut loaded, watched) = Loaded::new(&settings, types)?;
            loaded.attach().map(|()| (loaded, watched))
        });
        let (trial, notes) = match tried {
            Ok((loaded, _)) => (Trial::Works, loaded.sight.notes.clone()),
            Err(EbpfUnavailable::NotPermitted) => (Trial::Denied, Vec::new()),
            Err(other) => (Trial::Failed(other.to_string()), Vec::new()),
        };
        Self {
            object: ObjectOrigin::EMBEDDED,
            ignored_types_path: kernel::ignored_file(),
            trial,
            notes,
        }
    }
}

#[cfg(test)]
mod machine_tests;
