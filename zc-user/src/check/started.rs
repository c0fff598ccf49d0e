//! One run of a check: a `zctrace run` of its own, in a folder of its own.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
    },
    unistd::Pid,
};
use rustix::process::{PidfdFlags, pidfd_open, setsid};
use tempfile::TempDir;

use super::{
    Attempt, Check, prepare,
    run::Settings,
    stderr::{self, Stderr},
};
use crate::{descendants, report::Report, words::Word as _};

/// The variable that tells a command where its check is written.
const FOLDER_VARIABLE: &str = "ZCTRACE_CHECK_DIR";

/// A run that is under way. What is left of it is killed when this goes, and its folder is removed.
pub(super) struct Started {
    child: Child,
    pidfd: OwnedFd,
    stderr: Stderr,
    folder: TempDir,
    /// Where the command runs.
    began: Instant,
    timeout: Duration,
    is_over: bool,
}

impl Started {
    /// Starts it. The error says why it could not be.
    pub(super) fn start(check: &Check, settings: &Settings, mask: SigSet) -> Result<Self, String> {
        let cannot = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let folder = tempfile::Builder::new().prefix("zctrace-check-").tempdir();
        let folder = folder.map_err(|error| cannot("make a temporary folder", error))?;
        let files = folder.path().join("files");
        fs::create_dir(&files).map_err(|error| cannot("make a temporary folder", error))?;
        prepare::make(&check.files, &files)?;
        let directory = check.directory.as_ref().unwrap_or(&files);
        if !directory.is_dir() {
            return Err(format!("its working directory '{}' is not there", directory.display()));
        }
        let mut command = command(check, settings, folder.path(), directory, mask);
        let stderr = redirect(&mut command, settings).map_err(|error| cannot("run zctrace", error))?;
        let began = Instant::now();
        let child = command.spawn().map_err(|error| cannot("run zctrace", error))?;
        let pidfd = pidfd_open(rustix::process::Pid::from_child(&child), PidfdFlags::empty());
        let pidfd = pidfd.map_err(|error| cannot("wait for zctrace", error.into()))?;
        Ok(Self { child, pidfd, stderr, folder, began, timeout: check.timeout, is_over: false })
    }

    /// When it has run for too long; `None`: never.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.began.checked_add(self.timeout)
    }

    /// Its process.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// What came of it, after its end.
    pub(super) fn finish(mut self) -> Attempt {
        let duration = self.began.elapsed();
        let ended = self.child.wait();
        self.is_over = true;
        self.stderr.take();
        let mut lines = self.stderr.lines();
        let outcome = fs::read_to_string(self.folder.path().join(REPORT))
            .ok()
            .and_then(|text| serde_json::from_str::<Report>(&text).ok())
            .map(Box::new)
            .ok_or_else(|| why_no_report(&mut lines, ended.ok().and_then(|status| status.code())));
        Attempt { outcome, duration, stderr: stderr::last_of(lines) }
    }

    /// Kills it and everything below it, and says so.
    pub(super) fn give_up(mut self, why: String) -> Attempt {
        let duration = self.began.elapsed();
        self.kill();
        self.stderr.take();
        Attempt { outcome: Err(why), duration, stderr: stderr::last_of(self.stderr.lines()) }
    }

    /// What can be waited for besides its end: it has written something.
    pub(super) fn written(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.fd()
    }

    /// Takes what it has written, so that it can go on.
    pub(super) fn drain(&mut self) {
        self.stderr.take();
    }

    fn kill(&mut self) {
        if !self.is_over {
            descendants::kill_with_descendants(self.pid());
            self.is_over = true;
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

impl AsFd for Started {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Names in the folder.
const REPORT: &str = "report.json";

/// Its output goes nowhere, and the end of stderr is kept, unless they are to be shown.
fn redirect(command: &mut Command, settings: &Settings) -> io::Result<Stderr> {
    if settings.shows_output {
        return Ok(Stderr::nowhere());
    }
    let (stderr, writer) = Stderr::new()?;
    command.stdout(Stdio::null()).stderr(writer);
    Ok(stderr)
}

fn command(check: &Check, settings: &Settings, folder: &Path, directory: &Path, mask: SigSet) -> Command {
    let mut command = Command::new(&settings.zctrace);
    command.args(["run", "--bound", "--file-calls", "--format=json"]).arg("--output").arg(folder.join(REPORT));
    command.arg(format!("--syscalls={}", check.syscalls()));
    command.arg(format!("--backend={}", check.backend.word()));
    // For the command alone: a variable of the loader, say, is nothing for zctrace.
    command.arg(variable(FOLDER_VARIABLE, &check.base)).args(check.env.iter().map(|(name, value)| variable(name, value)));
    command.args(&settings.options).arg("--").arg(program(check)).args(&check.command[1..]);
    command.current_dir(directory).stdin(Stdio::null());
    // SAFETY: the closure runs between fork and exec, and only makes plain system calls.
    unsafe {
        command.pre_exec(move || {
            // What it does to its process group and its terminal is nothing to us, and to no other check.
            setsid()?;
            // So that whatever it starts stays below it, and can be found there.
            prctl::set_child_subreaper(true)?;
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&mask), None).map_err(io::Error::from)
        });
    }
    command
}

fn variable(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut option = OsString::from(format!("--env={name}="));
    option.push(value);
    option
}

/// The program: a path is relative to where the check is written, since its working directory may be a temporary one.
fn program(check: &Check) -> PathBuf {
    let name = Path::new(&check.command[0]);
    if check.command[0].contains('/') { check.base.join(name) } else { name.to_owned() }
}

/// What zctrace said last: without a report, it has said why. That is taken out of the lines.
fn why_no_report(stderr: &mut Vec<String>, code: Option<i32>) -> String {
    const OWN: &str = "zctrace: ";
    if let Some(last) = stderr.iter().rposition(|line| line.starts_with(OWN)) {
        return stderr.remove(last).split_off(OWN.len());
    }
    code.map_or_else(|| "zctrace was killed".to_owned(), |code| format!("zctrace ended with status {code} and without a report"))
}
