//! Starting other programs, passing signals on to them, and a directory for what they write.

use std::{
    env,
    fs::{self, DirBuilder},
    io, mem,
    os::unix::{
        fs::DirBuilderExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{self, Child, Command, ExitCode, ExitStatus},
    sync::atomic::{AtomicI32, Ordering},
};

use anyhow::{Context as _, Result, bail};

use crate::toolchain::{Source, Toolchain, on_path};

/// The repository's root directory.
pub(crate) fn root() -> PathBuf {
    // cargo sets the variable when it runs xtask, so a repository that was moved is found as well.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).join("..")
}

/// Adds arguments that are written as one text.
pub(crate) trait Words {
    /// Adds what stands between the spaces of `line`.
    fn words(&mut self, line: &str) -> &mut Self;
}

impl Words for Command {
    fn words(&mut self, line: &str) -> &mut Self {
        self.args(line.split_ascii_whitespace())
    }
}

/// The cargo that started xtask with these arguments, to be run in the repository's root.
pub(crate) fn cargo(line: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.words(line).current_dir(root());
    cargo
}

/// rustup's nightly cargo, as cargo-fuzz uses it; if there is none, the cargo that started xtask.
pub(crate) fn nightly_cargo(line: &str) -> Command {
    let Ok(nightly) = Toolchain::from(Source::Rustup("nightly".into()), u32::MAX) else {
        return cargo(line);
    };
    let mut cargo = Command::new(nightly.sysroot.join("bin/cargo"));
    cargo.words(line).current_dir(root());
    // rustup's proxy would run the compiler that the variable RUSTUP_TOOLCHAIN of our own cargo
    // names.
    cargo.env("RUSTC", nightly.sysroot.join("bin/rustc"));
    cargo
}

/// Where `cargo build --release` leaves its programs.
pub(crate) fn release_dir() -> Result<PathBuf> {
    // xtask itself is in the target directory, however that was chosen.
    let own = env::current_exe().context("cannot find the path of xtask")?;
    let target = own.ancestors().nth(2);
    Ok(target
        .context("xtask is not in a target directory")?
        .join("release"))
}

/// Runs a command to its end. An error names the command, if it did not succeed.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", show(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", show(command));
    }
    Ok(())
}

/// Process id of the program in [`run_to_end`]; 0 if none runs.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// The last signal to pass on; 0 if none came.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// A signal handler that sends the signal on to the program in [`run_to_end`], and to every program
/// started after it.
extern "C" fn pass_on(signal: libc::c_int) {
    ASKED.store(signal, Ordering::SeqCst);
    send_on();
}

fn send_on() {
    let (program, signal) = (RUNNING.load(Ordering::SeqCst), ASKED.load(Ordering::SeqCst));
    if program > 0 && signal > 0 {
        // SAFETY: plain numbers; the program is our child, and RUNNING is reset before it is
        // reaped.
        unsafe { libc::kill(program, signal) };
    }
}

/// Runs a program to its end. It gets the signals that are passed on, and SIGTERM if xtask is
/// killed.
pub(crate) fn run_to_end(command: &mut Command) -> io::Result<ExitStatus> {
    let mut program = end_with_us(command).spawn()?;
    RUNNING.store(i32::try_from(program.id()).unwrap_or(0), Ordering::SeqCst);
    // A signal may have come before RUNNING was set.
    send_on();
    // It is reaped later: its id must stay its own as long as a signal may be sent to it.
    let ended = wait_unreaped(&program);
    RUNNING.store(0, Ordering::SeqCst);
    ended.and_then(|()| program.wait())
}

/// Asks the kernel to send SIGTERM to the program if xtask ends before it.
pub(crate) fn end_with_us(command: &mut Command) -> &mut Command {
    let ask = || {
        // SAFETY: plain numbers.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec only one system call is made.
    unsafe { command.pre_exec(ask) }
}

fn wait_unreaped(program: &Child) -> io::Result<()> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut about: libc::siginfo_t = unsafe { mem::zeroed() };
    loop {
        // SAFETY: `about` is a live variable of the type that the call writes.
        let waited = unsafe {
            libc::waitid(
                libc::P_PID,
                program.id(),
                &raw mut about,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        match io::Error::last_os_error() {
            _ if waited == 0 => return Ok(()),
            error if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// A command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut line = program.rsplit('/').next().unwrap_or_default().to_owned();
    for arg in command.get_args() {
        line = line + " " + &arg.to_string_lossy();
    }
    line
}

/// A status as a shell shows it: 128+N for a command that signal N ended.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| Some(128 + status.signal()?))
        .and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Whether xtask runs as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing, touches no memory and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A program, to be started as root: as it is, or through sudo.
pub(crate) fn as_root(program: impl Into<PathBuf>) -> Result<Command> {
    let program = program.into();
    if is_root() {
        return Ok(Command::new(program));
    }
    let sudo = on_path("sudo").context("root is needed, and there is no sudo: run this as root")?;
    let mut command = Command::new(sudo);
    command.arg(program);
    Ok(command)
}

/// A temporary directory, deleted with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory for this task.
    pub(crate) fn new(task: &str) -> Result<Self> {
        // A signal is meant for the programs that xtask started; xtask itself must survive it, to
        // delete the files.
        outlive_signals();
        let path = env::temp_dir().join(format!("zctrace-{task}-{}", process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// The directory itself.
    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name goes.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("xtask: cannot delete {}: {error}", self.0.display());
        }
    }
}

/// Handles the signals that ask xtask to end: the program that runs decides. Ctrl-C reaches it
/// anyway, the other signals are passed on. Unlike `SIG_IGN`, a handler is not inherited by the
/// programs that xtask starts.
fn outlive_signals() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handle = |signal, handler: extern "C" fn(libc::c_int)| {
        // SAFETY: what the handlers do, an atomic load and kill(2), is safe at any point of the
        // program.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    };
    handle(libc::SIGINT, nothing);
    handle(libc::SIGTERM, pass_on);
    handle(libc::SIGHUP, pass_on);
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt as _, process::Command, thread};

    use super::*;

    #[test]
    fn a_signal_ends_the_running_programs_and_the_files_are_deleted() {
        let scratch = Scratch::new("test").expect("a directory");
        let directory = scratch.directory().to_owned();
        let started = directory.join("started");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", r#": > "$0"; exec sleep 100"#])
            .arg(&started);
        let running = thread::spawn(move || run_to_end(&mut shell));
        while !started.exists() {
            thread::yield_now();
        }
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        let ended = running.join().expect("no panic").expect("it started");
        assert_eq!(ended.signal(), Some(libc::SIGTERM));
        let next = run_to_end(Command::new("sleep").arg("100")).expect("it starts");
        assert_eq!(next.signal(), Some(libc::SIGTERM));
        drop(scratch);
        assert!(!directory.exists());
    }
}
