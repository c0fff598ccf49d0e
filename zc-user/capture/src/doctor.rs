//! `zctrace doctor`: what each backend can do on this machine, and which command would enable the
//! rest.
//!
//! ```text
//! /proc, /sys, trials ──probe──▶ Facts ──diagnose──▶ Diagnosis ──render::doctor──▶ table, JSON
//! ```
//!
//! Only [`probe()`] does I/O. [`diagnose`] is a pure function of [`Facts`], so that tests without
//! root show what other machines are told.

mod findings;
#[cfg(any(test, feature = "samples"))]
pub mod sample;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use crate::{
    backend::strace::unavailable::{
        MIN_STRACE, Obstacle, Program, StraceFacts, StraceUnavailable, strace_unavailable,
    },
    machine::{
        Capabilities, Container, Distribution, Lockdown, Reading, Seccomp, Setting, Status, System,
        Trial, Version,
    },
};
use crate::{
    backend::{
        Limits, Recorded,
        ebpf::{
            EbpfUnavailable,
            btf::{self, Btf},
            hooks,
            kernel::{self, TypesFile},
            object::{self, LoadSettings, Loaded},
        },
    },
    launch::reason,
    syscalls::Selection,
};

/// Reads all facts. Loads the eBPF programs for a moment if this process may.
pub fn probe() -> Facts {
    Facts {
        system: System::read(),
        strace: StraceFacts::probe(),
        ebpf: probe_ebpf(),
    }
}

/// What is special about `aarch64` for both backends.
const OLD_CALLS: &str = "aarch64 has no open, stat, pipe, poll, fork and other old calls: programs use openat, newfstatat, pipe2, ppoll and clone instead";

/// What each backend can do on a machine with these facts. Pure.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut backends = [findings::ebpf(facts), findings::strace(facts)];
    if facts
        .system
        .arch
        .known()
        .is_some_and(|arch| arch == "aarch64")
    {
        for backend in &mut backends {
            backend.cannot.push(OLD_CALLS.to_owned());
        }
    }
    Diagnosis {
        auto: auto(&backends),
        backends,
        facts: facts.clone(),
    }
}

/// All facts about this machine that matter here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The machine, and what this process may do on it.
    pub system: System,
    /// What the eBPF backend needs.
    pub ebpf: EbpfFacts,
    /// What the strace backend needs.
    pub strace: StraceFacts,
}

/// What the eBPF backend needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EbpfFacts {
    /// Whether the programs are built into this zctrace.
    pub built: bool,
    /// The file that the kernel's type information is read from.
    pub types_path: PathBuf,
    /// Another file that the environment names, but that is ignored for security.
    pub ignored_types_path: Option<PathBuf>,
    /// What it says.
    pub types: Reading<KernelTypes>,
    /// Whether the programs load and attach; `None` if that was not tried because something is
    /// missing.
    pub trial: Option<Trial>,
}

/// What the kernel's type information (BTF) says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelTypes {
    /// Its size in bytes.
    pub bytes: u64,
    /// The first required field that this kernel lacks.
    pub missing_field: Option<String>,
    /// What is unknown because an optional field is missing, each a sentence.
    pub notes: Vec<String>,
    /// The required tracepoints that this kernel lacks.
    pub missing_tracepoints: Vec<String>,
}

/// What each backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What `--backend auto` uses.
    pub auto: Auto,
    /// The backends, in the order in which `auto` tries them.
    pub backends: [BackendDiagnosis; 2],
    /// The facts that all of this follows from.
    pub facts: Facts,
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
    pub findings: Vec<Finding>,
    /// What it reports about a command.
    pub can: Vec<String>,
    /// What it cannot report, and what it costs.
    pub cannot: Vec<String>,
}

impl BackendDiagnosis {
    /// The first finding that keeps it from running.
    fn obstacle(&self) -> &str {
        let mut findings = self.findings.iter();
        let missing = findings.find(|finding| finding.state == State::Missing);
        missing.map_or("for an unknown reason", |finding| &finding.detail)
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub what: &'static str,
    /// Whether it is all right.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// The command that fixes it, ready to be typed, if there is one.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(what: &'static str, state: State, detail: impl Into<String>) -> Self {
        Self {
            what,
            state,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn ok(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, State::Ok, detail)
    }

    fn warning(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, State::Warning, detail)
    }

    fn missing(what: &'static str, detail: impl Into<String>) -> Self {
        Self::new(what, State::Missing, detail)
    }

    fn with_remedy(self, remedy: Option<String>) -> Self {
        Self { remedy, ..self }
    }
}

/// Whether a thing that was checked is all right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is wrong.
    Ok,
    /// The backend runs, but with less than it could have.
    Warning,
    /// The backend cannot run.
    Missing,
}

/// Which of these backends `--backend auto` uses, and why.
fn auto(backends: &[BackendDiagnosis; 2]) -> Auto {
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

fn probe_ebpf() -> EbpfFacts {
    let built = !object::OBJECT.is_empty();
    let types_path = kernel::named_file().unwrap_or_else(|| PathBuf::from(kernel::BTF_PATH));
    let types: Reading<_> = kernel_types(&types_path).into();
    let is_complete = types
        .known()
        .is_some_and(|types| types.missing_field.is_none() && types.missing_tracepoints.is_empty());
    EbpfFacts {
        built,
        trial: (built && is_complete).then(try_ebpf),
        types,
        types_path,
        ignored_types_path: kernel::ignored_file(),
    }
}

fn kernel_types(path: &Path) -> Result<KernelTypes, String> {
    let data = kernel::read_file(path).map_err(|error| reason(&error))?;
    let btf = Btf::parse(&data).map_err(|error| error.to_string())?;
    let (missing_field, notes) = match btf::kernel_fields(&btf) {
        Ok((_, notes)) => (None, notes),
        Err(missing) => (Some(missing.to_string()), Vec::new()),
    };
    let missing_tracepoints = hooks::missing_tracepoints(&btf).map(str::to_owned);
    Ok(KernelTypes {
        bytes: data.len() as u64,
        missing_field,
        notes,
        missing_tracepoints: missing_tracepoints.collect(),
    })
}

/// Loads and attaches the eBPF programs with small maps, and detaches them again. No list of
/// settings tells for sure what the kernel denies.
fn try_ebpf() -> Trial {
    let settings = LoadSettings {
        selection: &Selection::default(),
        limits: Limits {
            max_rows: 64,
            max_files: 64,
            max_tasks: 64,
        },
        recorded: Recorded::ALL,
        verbose: false,
    };
    match TypesFile::find().and_then(|types| Loaded::new(&settings, types)) {
        Ok(_) => Trial::Works,
        Err(EbpfUnavailable::NotPermitted) => Trial::Denied,
        Err(other) => Trial::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
