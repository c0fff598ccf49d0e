//! Commands side by side: their times, measured untraced, and what they did, counted in one traced run of each.
//!
//! ```text
//! Plan ──measure──▶ Timings, Traces ──derive──▶ Comparison ──render──▶ person, file
//! ```

mod footprint;
mod hooks;
mod measure;
mod schedule;
mod streams;
mod timed;

use std::io;

use thiserror::Error;

pub use measure::{Progress, measure};
pub use zctrace_core::compare::{
    Compared, Comparison, HookLines, Hooks, Input, Measured, OnFailure, Order, Output, Plan, PlanError, Relative, Run, Runs,
    SCHEMA, Series, Shell, ShellOverhead, Speed, Statistics, Subject, Summary, Timing, Traced, Tracing, Warning, reference_among,
    subjects,
};

use zctrace_core::compare::how_it_failed;

use crate::{
    backend::RunError,
    launch::{LaunchError, SignalError},
};

/// Why there is nothing to compare.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A command failed.
    #[error("'{name}' {how} in {run}; --ignore-failure (-i) goes on all the same, --output inherit shows what it says")]
    Failed {
        /// Its name.
        name: String,
        /// How it ended.
        how: String,
        /// Which run it was.
        run: String,
    },
    /// A command that prepares or cleans up failed.
    #[error("the {option} command '{command}' {how}; append `|| true` to it if that does not matter")]
    HookFailed {
        /// The option that names it.
        option: &'static str,
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// The shell failed with nothing to do.
    #[error("the shell {how}, with no command to run; choose another one with --shell, or none with -N")]
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
    /// Somebody wants it to end.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// The operating system refused something else.
    #[error("cannot measure")]
    Io(#[from] io::Error),
}

impl CompareError {
    /// The exit status for it, if it is not that of any failure: that of a command that could not be started, or of a program
    /// that a signal ended.
    pub fn exit_status(&self) -> Option<u8> {
        match self {
            Self::Launch(error) => Some(error.exit_status()),
            Self::Trace(error) => error.exit_status(),
            Self::Signal(SignalError::Interrupted(signal)) => u8::try_from(128 + *signal as i32).ok(),
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
