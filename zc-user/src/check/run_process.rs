//! One run of a check: what a worker does, perhaps in a temporary folder with the files that the
//! check asks for.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::unistd::Pid;
use serde_json::value::RawValue;
use tempfile::TempDir;
use zctrace_core::check::{Check, NoReport, RunAttempt};

use super::{
    files::{create_files, existing_files, give},
    job::{Answer, Job},
    worker::Worker,
};
use crate::{backend::Limits, report::Report};

/// How checks are run.
#[derive(Debug, Clone)]
pub struct CheckSettings {
    /// The program `zctrace`.
    pub zctrace: PathBuf,
    /// How much is kept of each run.
    pub limits: Limits,
    /// How many runs may go on at the same time. This does not change counts. A check that expects
    /// times or context switches runs alone, and runs in the same [working
    /// directory](Check::directory) take turns.
    pub jobs: usize,
    /// Whether commands write to zctrace's own stdout and stderr.
    pub shows_output: bool,
}

/// A run in progress. Dropping it kills the worker with all its descendants and removes the folder.
pub(super) struct RunProcess {
    worker: Worker,
    job: Job,
    /// The temporary folder that the command works in, unless the check names another.
    folder: Option<TempDir>,
    /// The files that were there before.
    files: BTreeSet<String>,
    started: Instant,
    timeout: Duration,
}

/// A run that has ended.
pub(super) struct EndedRun {
    /// The process ID of its worker.
    pub(super) pid: Pid,
    /// The worker, if it can do another run.
    pub(super) worker: Option<Worker>,
    /// `None`: the worker died before it began.
    pub(super) result: Option<RunResult>,
}

/// What a run has left. Its report is still to be read.
pub(super) struct RunResult {
    files: BTreeSet<String>,
    duration: Duration,
    stderr: Vec<String>,
    report: Result<Box<RawValue>, NoReport>,
}

impl RunResult {
    /// Whether there is a report.
    pub(super) const fn has_report(&self) -> bool {
        self.report.is_ok()
    }

    /// Reads the report.
    pub(super) fn read(self) -> RunAttempt {
        let read = |json: Box<RawValue>| {
            let report = Report::from_json(json.get());
            report.map_err(|error| NoReport::Untraced(error.to_string()))
        };
        RunAttempt {
            outcome: self.report.and_then(read).map(Box::new),
            files: self.files,
            duration: self.duration,
            stderr: shown_lines(self.stderr),
        }
    }
}

impl RunProcess {
    /// Prepares it, in a tokio runtime. `worker` gives who does it.
    pub(super) fn start(
        check: &Check,
        settings: &CheckSettings,
        worker: impl FnOnce() -> io::Result<Worker>,
    ) -> Result<Self, NoReport> {
        let folder = match &check.directory {
            Some(directory) if !directory.is_dir() => {
                return Err(NoReport::Directory(directory.clone()));
            }
            Some(_) => None,
            None => Some(new_folder(check)?),
        };
        let directory = folder.as_ref().map(TempDir::path);
        let directory = directory.or(check.directory.as_deref());
        let directory = directory.unwrap_or(Path::new(""));
        Ok(Self {
            job: Job::new(check, settings.limits, directory),
            files: existing_files(check, directory),
            worker: worker().map_err(|error| NoReport::Worker(error.to_string()))?,
            folder,
            started: Instant::now(),
            timeout: check.timeout,
        })
    }

    /// The process ID of the worker.
    pub(super) const fn pid(&self) -> Pid {
        self.worker.pid()
    }

    /// Has the worker do it, and waits for its end. After its timeout, kills the worker with all its
    /// descendants.
    pub(super) async fn end(self) -> EndedRun {
        let Self {
            mut worker,
            job,
            folder,
            files,
            started,
            timeout,
        } = self;
        let pid = worker.pid();
        let ended = tokio::time::timeout(timeout, worker.work(&job)).await;
        let duration = started.elapsed();
        let goes_on = matches!(&ended, Ok(Ok(answer)) if answer.goes_on);
        if !goes_on {
            worker.kill();
        }
        drop(folder);
        let has_begun = !matches!(&ended, Ok(Err(error)) if worker.died_before(error));
        let report = match ended {
            Ok(Ok(Answer { report, .. })) => report,
            Ok(Err(_)) => Err(NoReport::Killed),
            Err(_) => Err(NoReport::TimedOut {
                limit_ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            }),
        };
        EndedRun {
            pid,
            result: has_begun.then(|| RunResult {
                files,
                duration,
                stderr: worker.take_lines(),
                report,
            }),
            worker: goes_on.then_some(worker),
        }
    }
}

/// How many lines are shown.
const MAX_LINES: usize = 20;
/// How many characters of a line are shown.
const MAX_CHARS: usize = 300;

/// The last lines, without styles, cut to the length that is shown.
fn shown_lines(mut lines: Vec<String>) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(MAX_LINES));
    for line in &mut lines {
        *line = unstyled(line);
        if let Some((end, _)) = line.char_indices().nth(MAX_CHARS) {
            line.truncate(end);
            line.push('…');
        }
    }
    lines
}

/// The line without colours and other commands for a terminal: `ESC [`, parameters and a final character
/// (ECMA-48, 5.4).
fn unstyled(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|character| ('@'..='~').contains(&character));
        text.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    text
}

/// A temporary folder with the files of a check, which belongs to who runs it.
fn new_folder(check: &Check) -> Result<TempDir, NoReport> {
    let failed = |error: io::Error| NoReport::Folder(error.to_string());
    let folder = tempfile::Builder::new().prefix("zctrace-check-").tempdir();
    let folder = folder.map_err(failed)?;
    create_files(&check.files, folder.path())?;
    if let Some(owner) = check.identity {
        give(folder.path(), owner).map_err(failed)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_cut_to_a_length() {
        let lines = (0..30).map(|number| format!("line {number}")).collect();
        let last = shown_lines(lines);
        let end = (last.len(), last[MAX_LINES - 1].as_str());
        assert_eq!(end, (MAX_LINES, "line 29"));
        let long = vec!["é".repeat(1000)];
        assert_eq!(shown_lines(long), ["é".repeat(MAX_CHARS) + "…"]);
        let styled = "\x1b[1m\x1b[38;5;9merror\x1b[0m: a [b]\x1b[K é\x1b[".to_owned();
        assert_eq!(shown_lines(vec![styled]), ["error: a [b] é"]);
    }
}
