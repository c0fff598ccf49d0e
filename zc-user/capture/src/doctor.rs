//! `zctrace doctor`: what this machine lets each backend do, and the command that would enable the rest.
//!
//! ```text
//! /proc, /sys, trials ──probe──▶ Facts ──diagnose──▶ Diagnosis ──render::doctor──▶ person, JSON
//! ```
//!
//! [`probe()`] and [`why_no_strace()`] are the only I/O. All judgement is in pure functions of [`Facts`], so what a machine with other
//! settings would be told is tested with made-up facts, without root.

mod diagnosis;
mod ebpf;
mod facts;
mod install;
mod parse;
mod probe;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod strace;
#[cfg(test)]
mod tests;

pub use diagnosis::{Auto, BackendDiagnosis, Diagnosis, Finding, State};
pub use facts::{
    Capabilities, Capability, Container, Distribution, EbpfFacts, Facts, KernelTypes, Lockdown, Program, Reading, Seccomp,
    Setting, Status, StraceFacts, System, Trial, Version,
};
pub use probe::probe;
pub use strace::{MIN_STRACE, Obstacle, StraceUnavailable, strace_unavailable};

use diagnosis::{auto, calls_of_x86_alone};

/// What each backend can do where these facts hold. Pure.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut backends = [ebpf::diagnose(facts), strace::diagnose(facts)];
    for backend in &mut backends {
        backend.cannot.extend(calls_of_x86_alone(&facts.system).map(str::to_owned));
    }
    Diagnosis { auto: auto(&backends), backends, facts: facts.clone() }
}

/// Which strace there is, in a few words.
pub fn describe_strace() -> String {
    match probe::strace_program() {
        Reading::Known(Some(Program { path, version: Reading::Known(Some(version)) })) => {
            format!("{version} ({})", path.display())
        }
        Reading::Known(Some(Program { path, .. })) => format!("of unknown version ({})", path.display()),
        Reading::Known(None) => "not found".to_owned(),
        Reading::Unknown { unknown } => format!("cannot be used: {unknown}"),
    }
}

/// Why the strace backend cannot run on this machine, looked up now; `None` if it can. It takes a few milliseconds.
pub fn why_no_strace() -> Option<StraceUnavailable> {
    strace_unavailable(&probe::system(), &probe::strace())
}
