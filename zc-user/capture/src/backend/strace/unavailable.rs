//! Why the strace backend cannot run, in one sentence that says what to do. Two short-lived child
//! processes find it out: one is strace, which prints its version within a time limit; the other asks
//! whether ptrace(2) is allowed.

use std::{
    io::{self, PipeReader, Read as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        ptrace,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, kill_process_group},
    thread::CapabilitySet,
};
use thiserror::Error;

use crate::{
    launch::{self, LaunchOptions, reason},
    machine::{System, Trial, Version, as_root},
};

/// The oldest strace with all options that the backend uses: `--decode-pids=comm` came with 5.15
/// (strace's NEWS).
pub const MIN_STRACE: Version = Version(5, 15);

/// How long strace may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of its output that are read.
const MAX_OUTPUT_BYTES: u64 = 1 << 16;

/// Why the strace backend cannot run, and what to do about it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{obstacle}{}", remedy.as_ref().map(|command| format!(": {command}")).unwrap_or_default())]
pub struct StraceUnavailable {
    /// What is in the way.
    pub obstacle: String,
    /// The command that fixes it, if there is one.
    pub remedy: Option<String>,
}

impl StraceUnavailable {
    fn new(obstacle: impl Into<String>, remedy: Option<String>) -> Self {
        Self {
            obstacle: obstacle.into(),
            remedy,
        }
    }
}

/// The path of strace, or why the strace backend cannot run where these facts hold. Pure.
pub fn usable_strace<'a>(
    system: &System,
    strace: &'a StraceFacts,
) -> Result<&'a Path, StraceUnavailable> {
    let program = usable_program(&strace.program)?;
    denied(system, &strace.ptrace).map_or(Ok(&program.path), Err)
}

/// The program strace, or what is wrong with it.
pub(crate) fn usable_program(
    found: &Result<Option<StraceProgram>, String>,
) -> Result<&StraceProgram, StraceUnavailable> {
    let unusable = |why: &str| StraceUnavailable::new(format!("cannot use strace: {why}"), None);
    let Some(program) = found.as_ref().map_err(|why| unusable(why))? else {
        let missing = "strace is not installed; install the package 'strace'";
        return Err(StraceUnavailable::new(missing, None));
    };
    let path = program.path.display();
    match &program.version {
        Err(why) => Err(unusable(&format!("'{path} --version' failed: {why}"))),
        Ok(Some(found)) if *found < MIN_STRACE => Err(StraceUnavailable::new(
            format!("{path} is strace {found}, which is too old: install {MIN_STRACE} or newer"),
            None,
        )),
        Ok(_) => Ok(program),
    }
}

/// What denies ptrace(2), the most certain cause first. A setting is only blamed if the trial
/// failed.
pub(crate) fn denied(system: &System, trial: &Trial) -> Option<StraceUnavailable> {
    let status = &system.status;
    let may_trace = status
        .effective
        .is_some_and(|held| held.contains(CapabilitySet::SYS_PTRACE));
    let on_host = |command: String| Some(command).filter(|_| !system.is_container);
    let (obstacle, remedy) = match (trial, system.yama_ptrace_scope, status.tracer_pid) {
        (Trial::Works, ..) => return None,
        (Trial::Failed(why), ..) => (format!("ptrace(2) does not work here: {why}"), None),
        (_, Some(3..), _) => {
            let tee = as_root(system, "tee /etc/sysctl.d/zz-ptrace.conf");
            let reboot = as_root(system, "reboot");
            (
                "kernel.yama.ptrace_scope is 3: no process may be traced, and this cannot be changed until the next boot".to_owned(),
                on_host(format!("echo kernel.yama.ptrace_scope=1 | {tee} && {reboot}")),
            )
        }
        (_, Some(2), _) if !may_trace => (
            "kernel.yama.ptrace_scope is 2: tracing a process requires CAP_SYS_PTRACE".to_owned(),
            on_host(as_root(system, "sysctl kernel.yama.ptrace_scope=1"))
                .or_else(|| Some("docker run --cap-add SYS_PTRACE IMAGE COMMAND".to_owned())),
        ),
        (.., Some(tracer)) => (
            format!(
                "zctrace itself is being traced (by pid {tracer}), and a process can have only one tracer: run zctrace outside of that tracer"
            ),
            None,
        ),
        _ if status.has_filter => {
            let start =
                "docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined IMAGE COMMAND";
            (
                "ptrace(2) is denied, apparently by a seccomp filter".to_owned(),
                system.is_container.then(|| start.to_owned()),
            )
        }
        _ => (
            "ptrace(2) is denied, possibly by a security module (SELinux: deny_ptrace, AppArmor)"
                .to_owned(),
            None,
        ),
    };
    Some(StraceUnavailable::new(obstacle, remedy))
}

/// What the strace backend needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StraceFacts {
    /// The program, `None` if there is none in the PATH; or why it cannot be used.
    pub program: Result<Option<StraceProgram>, String>,
    /// Whether a child may be traced.
    pub ptrace: Trial,
}

/// The program strace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StraceProgram {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, `None` if the output of `--version` has none; or why that failed.
    pub version: Result<Option<Version>, String>,
}

impl StraceFacts {
    /// Looks for strace, runs `strace --version`, and tries ptrace(2). It takes a few milliseconds.
    pub(crate) fn probe() -> Self {
        Self {
            program: find_program(),
            ptrace: try_ptrace(),
        }
    }
}

/// Looks for strace and asks for its version.
pub(crate) fn find_program() -> Result<Option<StraceProgram>, String> {
    let path = match launch::find_program(&["strace".into()], &LaunchOptions::default()) {
        Ok(path) => path,
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reason(&error.cause)),
    };
    let output = output_within(VERSION_LIMIT, Command::new(&path).arg("--version"));
    let version = output.map(|output| parse_version(&String::from_utf8_lossy(&output)));
    Ok(Some(StraceProgram {
        version: version.map_err(|error| reason(&error)),
        path,
    }))
}

/// Parses the output of `strace --version`, such as `strace -- version 6.1`; `None` if it has no
/// version.
fn parse_version(output: &str) -> Option<Version> {
    Version::at_start(output.strip_prefix("strace -- version ")?)
}

/// What a program writes to stdout until it ends. It gets no input, and is killed after the time limit.
fn output_within(limit: Duration, command: &mut Command) -> io::Result<Vec<u8>> {
    let (reader, writer) = io::pipe()?;
    // A script may start others, which are killed with it.
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn()?;
    // It holds the writing end, too.
    command.stdout(Stdio::null());
    let output = read_within(limit, reader);
    // It has written all that is read, and may have ended by itself.
    let _ = kill_process_group(rustix::process::Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    output
}

/// What comes out of the pipe until it is closed.
fn read_within(limit: Duration, pipe: PipeReader) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let mut pipe = pipe.take(MAX_OUTPUT_BYTES);
    let mut output = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut polled = [PollFd::new(pipe.get_ref(), PollFlags::IN)];
        match poll(&mut polled, Some(&left)) {
            Ok(0) => {
                let late =
                    format!("no answer within {limit:?}; put another strace before it in the PATH");
                return Err(io::Error::new(io::ErrorKind::TimedOut, late));
            }
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready?,
        };
        let mut part = [0; 1024];
        match pipe.read(&mut part)? {
            0 => return Ok(output),
            length => output.extend_from_slice(&part[..length]),
        }
    }
}

/// Whether a child of this process may be traced. It only asks, and executes no program.
fn try_ptrace() -> Trial {
    // SAFETY: other threads may hold locks, so the child only makes async-signal-safe calls, and
    // never returns.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => ask_to_be_traced(),
        Ok(ForkResult::Parent { child }) => trial_of(child),
        Err(error) => Trial::Failed(error.desc().to_owned()),
    }
}

/// Runs in the forked child. Its exit status is the errno, 0 if it may be traced.
fn ask_to_be_traced() -> ! {
    // SAFETY: this request takes no arguments.
    let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME) } < 0;
    // All errnos of ptrace(2) are below 134; a seccomp filter may have another one.
    let errno = if refused {
        Errno::last_raw().min(255)
    } else {
        0
    };
    // SAFETY: ends this process at once, so that nothing inherited is flushed or dropped twice.
    unsafe { libc::_exit(errno) }
}

/// What the child found out, when it has ended.
fn trial_of(child: Pid) -> Trial {
    loop {
        return match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) => Trial::Works,
            Ok(WaitStatus::Exited(_, errno)) => match Errno::from_raw(errno) {
                Errno::EPERM | Errno::EACCES => Trial::Denied,
                errno => Trial::Failed(errno.desc().to_owned()),
            },
            Ok(WaitStatus::Signaled(..)) => {
                Trial::Failed("the process that asked for it was killed".to_owned())
            }
            // A signal has stopped it for its tracer, which is this process.
            Ok(_) => {
                let _ = ptrace::cont(child, None);
                continue;
            }
            Err(Errno::EINTR) => continue,
            Err(error) => Trial::Failed(error.desc().to_owned()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_read_to_its_end_or_for_some_time() {
        let run = |script: &str, limit_ms| {
            let limit = Duration::from_millis(limit_ms);
            output_within(limit, Command::new("sh").args(["-c", script]))
        };
        let began = Instant::now();
        assert_eq!(run("echo hello", 60_000).expect("it answers"), b"hello\n");
        assert_eq!(run("read line", 60_000).expect("it ends"), b"");
        let endless = run("exec yes", 60_000).expect("it answers");
        assert_eq!(endless.len() as u64, MAX_OUTPUT_BYTES);
        // The script ends, and leaves a process that keeps the pipe open.
        for silent in ["exec sleep 600", "echo; sleep 600", "sleep 600 &"] {
            let error = run(silent, 50).expect_err("sleep writes nothing");
            let expected = "no answer within 50ms; put another strace before it in the PATH";
            assert_eq!(error.to_string(), expected, "{silent}");
        }
        assert!(began.elapsed() < Duration::from_mins(1));
    }

    #[test]
    fn the_version_of_strace_is_parsed() {
        let version = |said: &str| parse_version(said).map(|version| version.to_string());
        for (said, found) in [
            ("strace -- version 6.1\nCopyright", "6.1"),
            ("strace -- version 5.15.0.12.abcd-dirty", "5.15"),
            ("strace -- version 6.16+ds1", "6.16"),
        ] {
            assert_eq!(version(said).as_deref(), Some(found));
        }
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

    #[test]
    fn trying_ptrace_ends_and_leaves_no_process() {
        for _ in 0..20 {
            // This machine may deny it; but the child must answer.
            let trial = try_ptrace();
            assert!(!matches!(trial, Trial::Failed(_)), "{trial:?}");
        }
    }
}
