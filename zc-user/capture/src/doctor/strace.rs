//! What keeps the strace backend from running, if anything does.

use std::path::PathBuf;

use thiserror::Error;

use super::{
    diagnosis::{BackendDiagnosis, Finding},
    facts::{Capability, Facts, Program, Reading, Seccomp, StraceFacts, System, Trial, Version},
    install::{self, as_root},
};

/// The oldest strace that has all options the backend calls it with: `--decode-pids=comm` came with 5.15 (strace's NEWS).
pub const MIN_STRACE: Version = Version(5, 15);

/// Why the strace backend cannot run: one line that names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{obstacle}{}", remedy.as_ref().map(|command| format!(": {command}")).unwrap_or_default())]
pub struct StraceUnavailable {
    /// What is in the way.
    pub obstacle: Obstacle,
    /// The command that clears it away, if there is one.
    pub remedy: Option<String>,
}

/// What can be in the way of the strace backend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// There is no strace.
    #[error("strace is not installed; it is in the package 'strace'")]
    Missing,
    /// There is something of that name that cannot be used.
    #[error("cannot use strace: {0}")]
    Unusable(String),
    /// It lacks options.
    #[error("{} is strace {found}, too old: install {MIN_STRACE} or newer", path.display())]
    TooOld {
        /// Where it is.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// `kernel.yama.ptrace_scope` is 3.
    #[error("kernel.yama.ptrace_scope is 3: nobody may trace a process, and that cannot be changed until the next boot")]
    YamaNobody,
    /// `kernel.yama.ptrace_scope` is 2.
    #[error("kernel.yama.ptrace_scope is 2: tracing a process takes CAP_SYS_PTRACE")]
    YamaPrivileged,
    /// The tracer of zctrace traces what zctrace starts, too.
    #[error("zctrace itself runs under a tracer (pid {0}), and a process has one tracer at most: run zctrace outside of it")]
    Traced(u32),
    /// A filter refuses ptrace(2).
    #[error("ptrace(2) is refused, by a seccomp filter it seems")]
    Seccomp,
    /// Something refuses ptrace(2), and it is none of the above.
    #[error("ptrace(2) is refused, by a security module perhaps (SELinux: deny_ptrace, AppArmor)")]
    Refused,
    /// Something else went wrong with ptrace(2).
    #[error("ptrace(2) does not work here: {0}")]
    NoPtrace(String),
}

/// Why the strace backend cannot run where these facts hold; `None` if it can. Pure.
pub fn strace_unavailable(system: &System, strace: &StraceFacts) -> Option<StraceUnavailable> {
    let obstacle = program_obstacle(&strace.program).or_else(|| ptrace_obstacle(system, &strace.ptrace))?;
    let remedy = remedy(system, &obstacle);
    Some(StraceUnavailable { obstacle, remedy })
}

/// What was looked at, and what it means.
pub(super) fn diagnose(facts: &Facts) -> BackendDiagnosis {
    let Facts { system, strace, .. } = facts;
    let finding = |what, found: Option<Obstacle>, otherwise: Finding| match found {
        Some(obstacle) => Finding::missing(what, obstacle.to_string(), remedy(system, &obstacle)),
        None => otherwise,
    };
    let findings = vec![
        finding("program", program_obstacle(&strace.program), program(&strace.program)),
        finding("ptrace", ptrace_obstacle(system, &strace.ptrace), Finding::ok("ptrace", "a trial was allowed")),
    ];
    let can = ["calls, errors, bytes moved and asked for", "times, with strace's own cost in them"];
    let cannot = [
        "no context switches, page faults or CPU time",
        "slows the command down: it stops at every call that is traced",
        "one tracer at most: a command that uses ptrace itself, as debuggers do, does not work",
    ];
    BackendDiagnosis {
        name: "strace",
        usable: strace_unavailable(system, strace).is_none(),
        findings,
        can: can.map(str::to_owned).into(),
        cannot: cannot.map(str::to_owned).into(),
    }
}

fn program(program: &Reading<Option<Program>>) -> Finding {
    let Reading::Known(Some(Program { path, version })) = program else { return Finding::ok("program", "") };
    match version {
        Reading::Known(Some(version)) => Finding::ok("program", format!("{}, version {version}", path.display())),
        _ => {
            Finding::warning("program", format!("{} does not tell its version; {MIN_STRACE} or newer is needed", path.display()))
        }
    }
}

fn program_obstacle(program: &Reading<Option<Program>>) -> Option<Obstacle> {
    match program {
        Reading::Unknown { unknown } => Some(Obstacle::Unusable(unknown.clone())),
        Reading::Known(None) => Some(Obstacle::Missing),
        Reading::Known(Some(Program { path, version })) => match version {
            Reading::Unknown { unknown } => {
                Some(Obstacle::Unusable(format!("'{} --version' gives no answer: {unknown}", path.display())))
            }
            Reading::Known(Some(found)) if *found < MIN_STRACE => Some(Obstacle::TooOld { path: path.clone(), found: *found }),
            Reading::Known(_) => None,
        },
    }
}

/// What refuses ptrace(2), the surest culprit first. Settings count only if the trial failed.
fn ptrace_obstacle(system: &System, trial: &Trial) -> Option<Obstacle> {
    let status = &system.status;
    match trial {
        Trial::Works => return None,
        Trial::Failed(reason) => return Some(Obstacle::NoPtrace(reason.clone())),
        Trial::Denied => {}
    }
    let may_trace = status.effective.known().is_some_and(|held| held.has(Capability::SysPtrace));
    Some(match (&system.yama_ptrace_scope, &status.tracer_pid, &status.seccomp) {
        (Reading::Known(Some(3..)), ..) => Obstacle::YamaNobody,
        (Reading::Known(Some(2)), ..) if !may_trace => Obstacle::YamaPrivileged,
        (_, Reading::Known(Some(tracer)), _) => Obstacle::Traced(*tracer),
        (.., Reading::Known(Seccomp::Filter | Seccomp::Strict)) => Obstacle::Seccomp,
        _ => Obstacle::Refused,
    })
}

/// The command that clears an obstacle away.
fn remedy(system: &System, obstacle: &Obstacle) -> Option<String> {
    let in_container = system.container.is_likely();
    match obstacle {
        Obstacle::Missing => install::command(system, "strace"),
        Obstacle::YamaNobody if in_container => None,
        Obstacle::YamaNobody => {
            let tee = as_root(system, "tee /etc/sysctl.d/zz-ptrace.conf");
            Some(format!("echo kernel.yama.ptrace_scope=1 | {tee} && {}", as_root(system, "reboot")))
        }
        Obstacle::YamaPrivileged if in_container => Some("docker run --cap-add SYS_PTRACE IMAGE COMMAND".into()),
        Obstacle::YamaPrivileged => Some(as_root(system, "sysctl kernel.yama.ptrace_scope=1")),
        Obstacle::Seccomp if in_container => {
            Some("docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined IMAGE COMMAND".into())
        }
        _ => None,
    }
}
