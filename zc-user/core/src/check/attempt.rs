//! A run of a check, and why it may have no report.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{report::Report, units};

/// One run of a check.
#[derive(Debug)]
pub struct RunAttempt {
    /// Its report, or why there is none.
    pub outcome: Result<Box<Report>, NoReport>,
    /// Files that were there before it, of those that its expectations may mean: paths from its
    /// working directory, or from the root.
    pub files: BTreeSet<String>,
    /// How long it took, including zctrace's own start and end.
    pub duration: Duration,
    /// The last lines of its stderr.
    pub stderr: Vec<String>,
}

/// Why a run has no report. It goes from process to process, so causes are the messages of errors.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum NoReport {
    /// Its temporary folder could not be created.
    #[error("cannot create a temporary folder: {0}")]
    Folder(String),
    /// One of its files could not be created.
    #[error("cannot create the file '{}': {cause}", path.display())]
    File {
        /// Its path within the temporary folder.
        path: PathBuf,
        /// Why it could not be created.
        cause: String,
    },
    /// Its working directory is missing.
    #[error("its working directory '{}' does not exist", .0.display())]
    Directory(PathBuf),
    /// zctrace could not start a process that runs it.
    #[error("cannot run zctrace: {0}")]
    Worker(String),
    /// That process did not answer: somebody killed it.
    #[error("zctrace was killed")]
    Killed,
    /// It took longer than it may.
    #[error("it did not end within {} (timeout): zctrace killed it and everything it had started", units::duration(*limit_ns))]
    TimedOut {
        /// Its time limit.
        limit_ns: u64,
    },
    /// The command could not be started.
    #[error("{0}")]
    NotStarted(String),
    /// zctrace could not trace it, or not to its end.
    #[error("{0}")]
    Untraced(String),
}
