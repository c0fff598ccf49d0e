//! One run of a check: what a worker does, with a temporary folder for the report, and for the files
//! that the check asks for.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::unistd::Pid;
use tempfile::TempDir;
use zctrace_core::{
    check::{Attempt, Check, Content, PreparedFile},
    options::SampledCalls,
};

use super::worker::Worker;
use crate::{report::Report, units, words::Word as _};

/// The variable that tells a command which folder its file of checks is in.
const FOLDER_VARIABLE: &str = "ZCTRACE_CHECK_DIR";
/// The name of the report in the folder.
const REPORT: &str = "report.json";

/// How checks are run.
#[derive(Debug, Clone)]
pub struct CheckSettings {
    /// The program `zctrace`.
    pub zctrace: PathBuf,
    /// Options of its `run` besides those of each check.
    pub options: Vec<String>,
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
    job: Vec<OsString>,
    folder: TempDir,
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
    folder: TempDir,
    duration: Duration,
    stderr: Vec<String>,
    /// Whether the worker answered; an error says why that took too long.
    answered: Result<bool, String>,
}

impl RunResult {
    /// Whether there is a report.
    pub(super) fn has_report(&self) -> bool {
        self.answered.is_ok() && self.folder.path().join(REPORT).exists()
    }

    /// Reads the report, and removes the folder.
    pub(super) fn read(self) -> Attempt {
        let mut lines = self.stderr;
        let report = |answered| {
            report_in(self.folder.path()).ok_or_else(|| why_no_report(&mut lines, answered))
        };
        Attempt {
            outcome: self.answered.and_then(report),
            duration: self.duration,
            stderr: shown_lines(lines),
        }
    }
}

impl RunProcess {
    /// Prepares it, in a tokio runtime. `worker` gives who does it. The error says why that failed.
    pub(super) fn start(
        check: &Check,
        settings: &CheckSettings,
        worker: impl FnOnce() -> io::Result<Worker>,
    ) -> Result<Self, String> {
        let cannot = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let folder = tempfile::Builder::new().prefix("zctrace-check-").tempdir();
        let folder = folder.map_err(|error| cannot("create a temporary folder", error))?;
        let files = folder.path().join("files");
        fs::create_dir(&files).map_err(|error| cannot("create a temporary folder", error))?;
        create_files(&check.files, &files)?;
        let directory = check.directory.as_ref().unwrap_or(&files);
        if !directory.is_dir() {
            return Err(format!(
                "its working directory '{}' is not there",
                directory.display()
            ));
        }
        Ok(Self {
            job: job(check, settings, folder.path(), directory),
            worker: worker().map_err(|error| cannot("run zctrace", error))?,
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
        let goes_on = matches!(ended, Ok(Ok(true)));
        if !goes_on {
            worker.kill();
        }
        let begun = !matches!(&ended, Ok(Err(error)) if worker.died_before(error));
        let answered = ended.map(|worked| worked.is_ok()).map_err(|_| {
            let limit = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            let limit = units::duration(limit);
            format!(
                "it did not end within {limit}, and was killed with everything below it (timeout)"
            )
        });
        EndedRun {
            pid,
            result: begun.then_some(RunResult {
                folder,
                duration,
                stderr: worker.take_lines(),
                answered,
            }),
            worker: goes_on.then_some(worker),
        }
    }
}

fn report_in(folder: &Path) -> Option<Box<Report>> {
    let text = fs::read_to_string(folder.join(REPORT)).ok()?;
    Report::from_json(&text).ok().map(Box::new)
}

/// What the worker is to do: the directory to work in, and a command line of `zctrace`.
fn job(check: &Check, settings: &CheckSettings, folder: &Path, directory: &Path) -> Vec<OsString> {
    let mut words = vec![directory.into()];
    let fixed = "zctrace run --bound --file-calls --all --format=json";
    words.extend(fixed.split(' ').map(OsString::from));
    words.push(format!("--syscalls={}", check.syscalls()).into());
    words.push(format!("--backend={}", check.backend.word()).into());
    let callers = check.needs_callers().map(|sampled| match sampled {
        SampledCalls::All => "--callers=all",
        SampledCalls::Some => "--callers",
    });
    words.extend(callers.map(OsString::from));
    if check.needs_succeeded_paths() {
        words.push("--succeeded-paths".into());
    }
    words.extend(settings.options.iter().map(OsString::from));
    words.extend(["--output".into(), folder.join(REPORT).into()]);
    // Set for the command alone: a variable such as LD_PRELOAD must not change zctrace.
    words.push(variable(FOLDER_VARIABLE, &check.base));
    words.extend(check.env.iter().map(|(name, value)| variable(name, value)));
    words.extend(["--".into(), program(check).into()]);
    words.extend(check.command[1..].iter().cloned());
    words
}

fn variable(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut option = OsString::from(format!("--env={name}="));
    option.push(value);
    option
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

/// Why there is no report: the last message of zctrace itself, which is taken out of the lines.
fn why_no_report(stderr: &mut Vec<String>, has_ended: bool) -> String {
    const OWN: &str = "zctrace: ";
    if let Some(last) = stderr.iter().rposition(|line| line.starts_with(OWN)) {
        return stderr.remove(last).split_off(OWN.len());
    }
    let why = if has_ended {
        "zctrace ended without a report"
    } else {
        "zctrace was killed"
    };
    why.to_owned()
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

/// Creates the files in a folder. The error names the file and says why it could not be created.
fn create_files(files: &[PreparedFile], folder: &Path) -> Result<(), String> {
    for file in files {
        let path = folder.join(&file.path);
        let created = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| write(&path, &file.content));
        created.map_err(|error| {
            format!("cannot create the file '{}': {error}", file.path.display())
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
            assert!(error.starts_with("cannot create the file 'text/b': "));
            ["in", "a/zero", "empty", "text"]
                .map(|name| fs::read(folder.path().join(name)).expect("was created"))
        });
        let lengths = first.each_ref().map(Vec::len);
        assert_eq!(lengths, [100_003, 9, 0, 3]);
        assert_eq!((&first[1], &first[3]), (&vec![0; 9], &b"hi\n".to_vec()));
        assert_eq!(first, second);
    }
}
