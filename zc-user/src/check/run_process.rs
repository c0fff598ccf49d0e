//! One run of a check: what a worker does, perhaps in a temporary folder with the files that the
//! check asks for.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::unistd::Pid;
use serde_json::value::RawValue;
use tempfile::TempDir;
use zctrace_core::check::{Attempt, Check, Content, NoReport, PreparedFile};

use super::{
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
    pub(super) fn read(self) -> Attempt {
        let read = |json: Box<RawValue>| {
            let report = Report::from_json(json.get());
            report.map_err(|error| NoReport::Untraced(error.to_string()))
        };
        Attempt {
            outcome: self.report.and_then(read).map(Box::new),
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
            None => Some(new_folder(&check.files)?),
        };
        let directory = folder.as_ref().map(TempDir::path);
        let directory = directory.or(check.directory.as_deref());
        Ok(Self {
            job: Job::new(check, settings.limits, directory.unwrap_or(Path::new(""))),
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

/// The last lines, cut to the length that is shown.
fn shown_lines(mut lines: Vec<String>) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(MAX_LINES));
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(MAX_CHARS) {
            line.truncate(end);
            line.push('…');
        }
    }
    lines
}

/// A temporary folder with these files.
fn new_folder(files: &[PreparedFile]) -> Result<TempDir, NoReport> {
    let folder = tempfile::Builder::new().prefix("zctrace-check-").tempdir();
    let folder = folder.map_err(|error| NoReport::Folder(error.to_string()))?;
    create_files(files, folder.path())?;
    Ok(folder)
}

fn create_files(files: &[PreparedFile], folder: &Path) -> Result<(), NoReport> {
    for file in files {
        let path = folder.join(&file.path);
        let created = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write(&path, &file.content));
        created.map_err(|error| NoReport::File {
            path: file.path.clone(),
            cause: error.to_string(),
        })?;
    }
    Ok(())
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    match content {
        Content::Text(text) => fs::write(path, text),
        Content::Random(size) => fill(path, *size, Xorshift(0x9e37_79b9_7f4a_7c15)),
        Content::Zero(size) => fill(path, *size, std::iter::repeat(0)),
    }
}

/// Writes `size` bytes taken from these numbers.
fn fill(path: &Path, size: u64, numbers: impl Iterator<Item = u64>) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    let mut left = size;
    for number in numbers {
        let bytes = number.to_le_bytes();
        let wanted = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        file.write_all(&bytes[..wanted])?;
        left -= wanted as u64;
        if left == 0 {
            break;
        }
    }
    file.flush()
}

/// Pseudo-random numbers (Marsaglia's xorshift): the same sequence every time.
struct Xorshift(u64);

impl Iterator for Xorshift {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
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
    }

    #[test]
    fn files_have_the_size_asked_for_and_the_same_content_every_time() {
        let file = |path: &str, content| PreparedFile {
            path: path.into(),
            content,
        };
        let files = [
            file("in", Content::Random(100_003)),
            file("a/zero", Content::Zero(9)),
            file("empty", Content::Random(0)),
            file("text", Content::Text("hi\n".into())),
        ];
        let [first, second] = [(), ()].map(|()| {
            let folder = tempfile::tempdir().expect("a folder");
            create_files(&files, folder.path()).expect("there is room");
            // A file is not a folder.
            let below = [file("text/b", Content::Zero(1))];
            let error = create_files(&below, folder.path()).expect_err("text is a file");
            assert!(
                error
                    .to_string()
                    .starts_with("cannot create the file 'text/b': ")
            );
            ["in", "a/zero", "empty", "text"]
                .map(|name| fs::read(folder.path().join(name)).expect("was created"))
        });
        let lengths = first.each_ref().map(Vec::len);
        assert_eq!(lengths, [100_003, 9, 0, 3]);
        assert_eq!((&first[1], &first[3]), (&vec![0; 9], &b"hi\n".to_vec()));
        assert_eq!(first, second);
    }
}
