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
        "'{name}' {how} in {run}; run it alone to see why, or use --ignore-failure if that does not matter"
    )]
    Failed {
        /// The name of the command.
        name: String,
        /// How it ended.
        how: String,
        /// In which run.
        run: String,
    },
    /// A command of --setup, --prepare or --cleanup failed.
    #[error(
        "the {option} command '{command}' {how}; append `|| true` to it if that does not matter"
    )]
    LineFailed {
        /// The option.
        option: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// A command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A command could not be traced.
    #[error(transparent)]
    Trace(#[from] RunError),
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
            Self::Signal(SignalError::Interrupted(signal))
            | Self::Trace(RunError::Signal(SignalError::Interrupted(signal))) => {
                Some(signal::exit_status(*signal as i32))
            }
            Self::Trace(error) => error.exit_status(),
            _ => None,
        }
    }
}
