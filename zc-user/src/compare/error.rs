//! Why a comparison could not be made.

use std::io;

use thiserror::Error;
use zctrace_core::signal;

use crate::{
    backend::RunError,
    launch::{LaunchError, SignalError},
};

/// Why a comparison could not be made.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A command failed.
    #[error(
        "'{name}' {how} in {run}; to go on regardless, add --ignore-failure (-i); to see its output, add --output inherit"
    )]
    Failed {
        /// The name of the command.
        name: String,
        /// How it ended.
        how: String,
        /// In which run.
        run: String,
    },
    /// A command of --setup, --prepare, --conclude or --cleanup failed.
    #[error(
        "the {option} command '{command}' {how}; append `|| true` to it if that does not matter"
    )]
    HookFailed {
        /// The option that the command was given with.
        option: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// The shell failed to run an empty command.
    #[error(
        "the shell {how} when it was given an empty command; choose another one with --shell, or none with -N"
    )]
    ShellFailed {
        /// How it ended.
        how: String,
    },
    /// A command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A command could not be traced.
    #[error(transparent)]
    Trace(RunError),
    /// A file that commands read from or write to could not be opened.
    #[error("cannot open '{path}' for the commands: {}", crate::launch::reason(.cause))]
    Stream {
        /// Its path.
        path: String,
        /// Why not.
        cause: io::Error,
    },
    /// A signal asked zctrace to end.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// Another call of the operating system failed.
    #[error("cannot measure")]
    Io(#[from] io::Error),
}

impl CompareError {
    /// The exit status, if this error has one of its own: a command could not be started, or a
    /// signal ended zctrace.
    pub fn exit_status(&self) -> Option<u8> {
        match self {
            Self::Launch(error) => Some(error.exit_status()),
            Self::Trace(error) => error.exit_status(),
            Self::Signal(SignalError::Interrupted(signal)) => {
                Some(signal::exit_status(*signal as i32))
            }
            _ => None,
        }
    }
}

impl From<RunError> for CompareError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Signal(signal) => Self::Signal(signal),
            RunError::Launch(launch) => Self::Launch(launch),
            other => Self::Trace(other),
        }
    }
}
