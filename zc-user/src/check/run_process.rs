//! One run of a check: a `zctrace run` process with a temporary folder for its report, and for the
//! files that the check asks for.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufWriter, PipeWriter, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
    },
    unistd::Pid,
};
use rustix::process::setsid;
use tempfile::TempDir;
use tokio::net::unix::pipe::Receiver;
use zctrace_core::{
    check::{Attempt, Check, Content, PreparedFile},
    options::SampledCalls,
};

use crate::{descendants, launch::Child, report::Report, trace::Exit, units, words::Word as _};

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

/// A run in progress. Dropping it kills the process with all its descendants and removes the
/// folder.
pub(super) struct RunProcess {
    pid: Pid,
    child: Child,
    stderr: Stderr,
    folder: TempDir,
    started: Instant,
    timeout: Duration,
    has_ended: bool,
}

impl RunProcess {
    /// Starts it, in a tokio runtime. The error says why that failed.
    pub(super) fn start(
        check: &Check,
        settings: &CheckSettings,
        mask: SigSet,
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
        let mut command = command(check, settings, folder.path(), directory, mask);
        let stderr =
            redirect(&mut command, settings).map_err(|error| cannot("run zctrace", error))?;
        let started = Instant::now();
        let child = command.spawn();
        let id = child.map_err(|error| cannot("run zctrace", error))?.id();
        let pid = Pid::from_raw(id.cast_signed());
        let child = Child::adopt(pid).map_err(|error| cannot("wait for zctrace", error))?;
        Ok(Self {
            pid,
            child,
            stderr,
            folder,
            started,
            timeout: check.timeout,
            has_ended: false,
        })
    }

    /// The process ID of zctrace.
    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end. After its timeout, kills it with all its descendants.
    pub(super) async fn end(mut self) -> (Pid, Attempt) {
        let ended = tokio::time::timeout(self.timeout, self.wait()).await;
        let duration = self.started.elapsed();
        self.has_ended = ended.is_ok();
        self.kill();
        self.stderr.read_rest();
        let mut lines = self.stderr.lines();
        let outcome = if let Ok(exit) = ended {
            let report = self.report();
            report.ok_or_else(|| why_no_report(&mut lines, exit.ok()))
        } else {
            let limit = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
            let limit = units::duration(limit);
            Err(format!(
                "it did not end within {limit}, and was killed with everything below it (timeout)"
            ))
        };
        let attempt = Attempt {
            outcome,
            duration,
            stderr: shown_lines(lines),
        };
        (self.pid, attempt)
    }

    /// Waits for its end, and reads what it writes meanwhile.
    async fn wait(&mut self) -> io::Result<Exit> {
        loop {
            tokio::select! {
                exit = self.child.wait() => return exit,
                () = self.stderr.read_more() => {}
            }
        }
    }

    fn report(&self) -> Option<Box<Report>> {
        let text = fs::read_to_string(self.folder.path().join(REPORT)).ok()?;
        Report::from_json(&text).ok().map(Box::new)
    }

    fn kill(&mut self) {
        if !self.has_ended {
            descendants::kill_with_descendants(self.pid);
            self.has_ended = true;
        }
    }
}

impl Drop for RunProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Discards stdout and keeps the end of stderr, unless the settings show both.
fn redirect(command: &mut Command, settings: &CheckSettings) -> io::Result<Stderr> {
    if settings.shows_output {
        return Ok(Stderr::default());
    }
    let (stderr, writer) = Stderr::pipe()?;
    command.stdout(Stdio::null()).stderr(writer);
    Ok(stderr)
}

fn command(
    check: &Check,
    settings: &CheckSettings,
    folder: &Path,
    directory: &Path,
    mask: SigSet,
) -> Command {
    let mut command = Command::new(&settings.zctrace);
    command
        .args(["run", "--bound", "--file-calls", "--all", "--format=json"])
        .arg("--output")
        .arg(folder.join(REPORT));
    command.arg(format!("--syscalls={}", check.syscalls()));
    if check.needs_succeeded_paths() {
        command.arg("--succeeded-paths");
    }
    match check.needs_callers() {
        Some(SampledCalls::All) => drop(command.arg("--callers=all")),
        Some(SampledCalls::Some) => drop(command.arg("--callers")),
        None => {}
    }
    command.arg(format!("--backend={}", check.backend.word()));
    // Set for the command alone: a variable such as LD_PRELOAD must not change zctrace.
    command
        .arg(variable(FOLDER_VARIABLE, &check.base))
        .args(check.env.iter().map(|(name, value)| variable(name, value)));
    command
        .args(&settings.options)
        .arg("--")
        .arg(program(check))
        .args(&check.command[1..]);
    command.current_dir(directory).stdin(Stdio::null());
    // SAFETY: the closure runs between fork and exec, and only makes plain system calls.
    unsafe {
        command.pre_exec(move || {
            // Keeps what it does to its process group and terminal away from this process and from
            // other checks.
            setsid()?;
            // Keeps all its descendants below it, where they can be found.
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
fn why_no_report(stderr: &mut Vec<String>, exit: Option<Exit>) -> String {
    const OWN: &str = "zctrace: ";
    if let Some(last) = stderr.iter().rposition(|line| line.starts_with(OWN)) {
        return stderr.remove(last).split_off(OWN.len());
    }
    match exit {
        Some(Exit::Code(code)) => {
            format!("zctrace ended with status {code} and without a report")
        }
        Some(Exit::Signal(_)) | None => "zctrace was killed".to_owned(),
    }
}

/// How many bytes of stderr are kept at most.
const MOST_BYTES: usize = 64 << 10;
/// How many lines are shown.
const MOST_LINES: usize = 20;
/// How many characters of a line are shown.
const MOST_CHARS: usize = 300;
/// How many bytes are read at a time. A pipe holds as many by default, so one read gets everything
/// that was written before the process ended.
const PIPE_BYTES: usize = 64 << 10;

/// The end of what a command writes to stderr.
#[derive(Default)]
struct Stderr {
    /// `None` once every writer has closed it, and for a command that writes elsewhere.
    pipe: Option<Receiver>,
    kept: Vec<u8>,
    /// Whether earlier bytes were dropped.
    is_cut: bool,
}

impl Stderr {
    /// A pipe, with the end that the command writes to.
    fn pipe() -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        let stderr = Self {
            pipe: Some(Receiver::from_owned_fd(OwnedFd::from(reader))?),
            ..Self::default()
        };
        Ok((stderr, writer))
    }

    /// Waits until something is written, and reads it, so that the pipe does not fill up and block
    /// the command. Never returns once every writer has closed it.
    async fn read_more(&mut self) {
        let Some(pipe) = &self.pipe else {
            return std::future::pending().await;
        };
        let mut buffer = vec![0; PIPE_BYTES];
        let _ = pipe.readable().await;
        let read = pipe.try_read(&mut buffer);
        self.keep(read.ok(), &buffer);
    }

    /// Reads what was written before the process ended, without waiting. It may have left a process
    /// that goes on writing.
    fn read_rest(&mut self) {
        let mut buffer = vec![0; PIPE_BYTES];
        if let Some(pipe) = &self.pipe {
            let read = rustix::io::read(pipe, &mut buffer);
            self.keep(read.ok(), &buffer);
        }
    }

    /// Keeps the end of what was read so far.
    fn keep(&mut self, read: Option<usize>, buffer: &[u8]) {
        match read {
            Some(0) => self.pipe = None,
            Some(count) => self.kept.extend_from_slice(&buffer[..count]),
            None => {}
        }
        let too_many = self.kept.len().saturating_sub(MOST_BYTES);
        self.is_cut |= too_many > 0;
        self.kept.drain(..too_many);
    }

    /// The lines that were kept.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.kept);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(first) = lines.first_mut().filter(|_| self.is_cut) {
            first.insert(0, '…');
        }
        lines
    }
}

/// The last lines, cut to the length that is shown.
fn shown_lines(mut lines: Vec<String>) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(MOST_LINES));
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(MOST_CHARS) {
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
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn the_end_of_stderr_is_kept_and_the_writer_is_not_blocked() {
        let (mut stderr, mut writer) = Stderr::pipe().expect("a pipe");
        for number in 0..30_000 {
            // The pipe holds more than 1000 lines, so no write blocks.
            writeln!(writer, "line {number}").expect("is read");
            if number % 1000 == 0 {
                stderr.read_more().await;
            }
        }
        stderr.read_rest();
        drop(writer);
        // A process that another test forks has a copy of the writing end until its exec.
        while stderr.pipe.is_some() {
            stderr.read_more().await;
        }
        let lines = stderr.lines();
        assert!(stderr.kept.len() <= MOST_BYTES);
        assert!(lines[0].starts_with('…'), "{}", lines[0]);
        let last = shown_lines(lines);
        let end = (last.len(), last[MOST_LINES - 1].as_str());
        assert_eq!(end, (MOST_LINES, "line 29999"));
        let long = vec!["é".repeat(1000)];
        assert_eq!(shown_lines(long), ["é".repeat(MOST_CHARS) + "…"]);
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
