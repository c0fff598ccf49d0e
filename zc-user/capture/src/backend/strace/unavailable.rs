//! Why the strace backend cannot run, in one sentence that says what to do.

use std::{io, path::PathBuf, process::Command, time::Duration};

use serde::Serialize;
use thiserror::Error;

use crate::{
    launch::{self, LaunchOptions, reason},
    machine::{Capability, Reading, Seccomp, System, Trial, Version, as_root, child, install_command},
};

/// How long strace may take to print its version, and a child to answer whether it may be traced.
const LIMIT: Duration = Duration::from_secs(10);

/// The oldest strace with all options that the backend uses: `--decode-pids=comm` came with 5.15 (strace's NEWS).
pub const MIN_STRACE: Version = Version(5, 15);

/// Why the strace backend cannot run, and what to do about it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{obstacle}{}", remedy.as_ref().map(|command| format!(": {command}")).unwrap_or_default())]
pub struct StraceUnavailable {
    /// What is in the way.
    pub obstacle: Obstacle,
    /// The command that fixes it, if there is one.
    pub remedy: Option<String>,
}

/// What can keep the strace backend from running.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// There is no strace.
    #[error("strace is not installed; install the package 'strace'")]
    Missing,
    /// There is a program of that name that cannot be used.
    #[error("cannot use strace: {0}")]
    Unusable(String),
    /// It lacks options that the backend needs.
    #[error("{} is strace {found}, which is too old: install {MIN_STRACE} or newer", path.display())]
    TooOld {
        /// Where it is.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// `kernel.yama.ptrace_scope` is 3.
    #[error("kernel.yama.ptrace_scope is 3: no process may be traced, and this cannot be changed until the next boot")]
    YamaNobody,
    /// `kernel.yama.ptrace_scope` is 2.
    #[error("kernel.yama.ptrace_scope is 2: tracing a process requires CAP_SYS_PTRACE")]
    YamaPrivileged,
    /// Another tracer traces zctrace, and with it what zctrace starts.
    #[error(
        "zctrace itself is being traced (by pid {0}), and a process can have only one tracer: run zctrace outside of that tracer"
    )]
    Traced(u32),
    /// A seccomp filter denies ptrace(2).
    #[error("ptrace(2) is denied, apparently by a seccomp filter")]
    Seccomp,
    /// Something else denies ptrace(2).
    #[error("ptrace(2) is denied, possibly by a security module (SELinux: deny_ptrace, AppArmor)")]
    Refused,
    /// ptrace(2) fails with another error.
    #[error("ptrace(2) does not work here: {0}")]
    NoPtrace(String),
}

/// Why the strace backend cannot run where these facts hold; `None` if it can. Pure.
pub fn strace_unavailable(system: &System, strace: &StraceFacts) -> Option<StraceUnavailable> {
    let obstacle = program_obstacle(&strace.program).or_else(|| ptrace_obstacle(system, &strace.ptrace))?;
    let remedy = remedy(system, &obstacle);
    Some(StraceUnavailable { obstacle, remedy })
}

/// What is wrong with the program strace; `None` if nothing is.
pub(crate) fn program_obstacle(program: &Reading<Option<Program>>) -> Option<Obstacle> {
    match program {
        Reading::Unknown { unknown } => Some(Obstacle::Unusable(unknown.clone())),
        Reading::Known(None) => Some(Obstacle::Missing),
        Reading::Known(Some(Program { path, version })) => match version {
            Reading::Unknown { unknown } => Some(Obstacle::Unusable(format!("'{} --version' failed: {unknown}", path.display()))),
            Reading::Known(Some(found)) if *found < MIN_STRACE => Some(Obstacle::TooOld { path: path.clone(), found: *found }),
            Reading::Known(_) => None,
        },
    }
}

/// What denies ptrace(2), the most certain cause first. A setting is only blamed if the trial failed.
pub(crate) fn ptrace_obstacle(system: &System, trial: &Trial) -> Option<Obstacle> {
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

/// The command that removes an obstacle.
pub(crate) fn remedy(system: &System, obstacle: &Obstacle) -> Option<String> {
    let in_container = system.container.is_likely();
    match obstacle {
        Obstacle::Missing => install_command(system, "strace"),
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

/// What the strace backend needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StraceFacts {
    /// The program; `None` if there is none in the PATH.
    pub program: Reading<Option<Program>>,
    /// Whether a child may be traced.
    pub ptrace: Trial,
}

/// The program strace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its version; `None` if the output of `--version` has none.
    pub version: Reading<Option<Version>>,
}

impl StraceFacts {
    /// Looks for strace, runs `strace --version`, and tries ptrace(2). It takes a few milliseconds.
    pub(crate) fn probe() -> Self {
        Self { program: find_program(), ptrace: child::try_ptrace(LIMIT) }
    }
}

/// Looks for strace and asks for its version.
pub(crate) fn find_program() -> Reading<Option<Program>> {
    let program = match launch::find_program(&["strace".into()], &LaunchOptions::default()) {
        Ok(path) => {
            let output = child::output(Command::new(&path).arg("--version"), LIMIT);
            let version = output.map(|output| parse_version(&output)).map_err(|error| reason(&error));
            Ok(Some(Program { version: version.into(), path }))
        }
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reason(&error.cause)),
    };
    program.into()
}

/// Why the strace backend cannot run on this machine; `None` if it can. It takes a few milliseconds.
pub(crate) fn why_unavailable() -> Option<StraceUnavailable> {
    strace_unavailable(&System::read(), &StraceFacts::probe())
}

/// Parses the output of `strace --version`, such as `strace -- version 6.1`; `None` if it has no version.
fn parse_version(output: &str) -> Option<Version> {
    let version = output.lines().next()?.strip_prefix("strace -- version ")?;
    let (major, rest) = version.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(Version(major.parse().ok()?, rest[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_strace_is_parsed() {
        let version = |said: &str| parse_version(said).map(|version| version.to_string());
        assert_eq!(version("strace -- version 6.1\nCopyright").as_deref(), Some("6.1"));
        assert_eq!(version("strace -- version 5.15.0.12.abcd-dirty").as_deref(), Some("5.15"));
        assert_eq!(version("strace -- version 6.16+ds1").as_deref(), Some("6.16"));
        for odd in [
            "",
            "strace -- version UNKNOWN",
            "strace -- version 6",
            "strace -- version 6.x",
            "usage: strace",
            "v 1.2\nstrace -- version 6.1",
        ] {
            assert_eq!(version(odd), None, "{odd:?}");
        }
        assert!(Version(5, 9) < Version(5, 15) && Version(5, 15) < Version(6, 0));
    }
}
