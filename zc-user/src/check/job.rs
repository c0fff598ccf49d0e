//! What a worker is asked, and what it answers. Each is a line of JSON.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use zctrace_core::{
    check::{Check, NoReport},
    options::Identity,
};

use crate::{
    backend::{Choice, Limits, Recorded, RunOptions},
    command::plain_run,
    launch::OnTracerExit,
    report::{self, Detail},
    syscalls::Selection,
};

/// The variable that tells a command which folder its file of checks is in.
const FOLDER_VARIABLE: &str = "ZCTRACE_CHECK_DIR";

/// A run that a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    command: Vec<OsString>,
    /// The working directory of the command.
    directory: OsString,
    /// Variables of the command alone: one such as `LD_PRELOAD` must not change zctrace.
    variables: Vec<(OsString, OsString)>,
    identity: Option<Identity>,
    backend: Choice,
    selection: Selection,
    limits: Limits,
    recorded: Recorded,
    detail: Detail,
}

/// How a run has ended. The report is read apart from the rest, so that the next run does not wait
/// for that.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer<R> {
    /// The report, or why there is none.
    pub(super) report: Result<R, NoReport>,
    /// Whether the worker can do another job.
    pub(super) goes_on: bool,
}

impl Job {
    /// A run of a check in this directory.
    pub(super) fn new(check: &Check, limits: Limits, directory: &Path) -> Self {
        let mut command = check.command.clone();
        command[0] = program(check).into();
        let folder = (FOLDER_VARIABLE.into(), check.base.clone().into());
        let own = check.env.iter();
        let own = own.map(|(name, value)| (name.into(), value.into()));
        Self {
            command,
            directory: directory.into(),
            variables: std::iter::once(folder).chain(own).collect(),
            identity: check.identity,
            backend: check.needed_backend(),
            selection: check.counted_calls(),
            limits,
            recorded: check.must_record(),
            detail: check.needed_detail(),
        }
    }

    /// What its report has: expectations are about the calls of each process on each file.
    pub(super) fn details(&self) -> report::Options {
        report::Options {
            detail: self.detail,
            file_calls: report::Files::Listed,
            ..report::Options::default()
        }
    }

    /// The backend, and what it is to do.
    pub(super) fn into_options(self) -> (Choice, RunOptions) {
        let mut options = RunOptions {
            selection: self.selection,
            limits: self.limits,
            recorded: self.recorded,
            ..plain_run(self.command)
        };
        options.launch.directory = Some(self.directory.into());
        options.launch.identity = self.identity;
        options.launch.on_tracer_exit = OnTracerExit::Kill;
        for (name, value) in self.variables {
            options.launch.environment.set(name, value);
        }
        (self.backend, options)
    }
}

/// The program to run. A path is relative to the folder of the file of checks: the working
/// directory may be a temporary folder.
fn program(check: &Check) -> PathBuf {
    let name = Path::new(&check.command[0]);
    if check.command[0].as_bytes().contains(&b'/') {
        check.base.join(name)
    } else {
        name.to_owned()
    }
}

/// A message as a line. In JSON, no newline is within it.
pub(super) fn to_line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a message. A line without its end is that of a process that died.
pub(super) fn from_line<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(line)?)
}
