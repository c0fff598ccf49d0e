//! Starting other programs, and a directory for what they write.

use std::{
    env, fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::toolchain::{on_path, output};

/// The repository's root directory.
pub(crate) fn root() -> PathBuf {
    // cargo sets the variable when it runs xtask, so a repository that was moved is found as well.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).join("..")
}

/// Adds arguments that are written as one text.
pub(crate) trait CommandWords {
    /// Adds what stands between the spaces of `line`.
    fn words(&mut self, line: &str) -> &mut Self;
}

impl CommandWords for Command {
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

/// The target directory, however it was chosen: xtask itself is in it.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find the path of xtask")?;
    let target = own.ancestors().nth(2);
    Ok(target
        .context("xtask is not in a target directory")?
        .to_owned())
}

/// Where `cargo build --release` leaves its programs.
pub(crate) fn release_dir() -> Result<PathBuf> {
    Ok(target_dir()?.join("release"))
}

/// Where the tests find the programs that were built for them.
pub(crate) fn debug_dir() -> Result<PathBuf> {
    Ok(target_dir()?.join("debug"))
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

/// A command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut line = program.rsplit('/').next().unwrap_or_default().to_owned();
    for arg in command.get_args() {
        line = line + " " + &arg.to_string_lossy();
    }
    line
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

/// Does something in a temporary directory, which is deleted afterwards.
pub(crate) fn in_scratch<T>(work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let made = output(Command::new("mktemp").words("-d -t zctrace-XXXXXX"));
    let made = made.context("mktemp makes no directory")?;
    let directory = Path::new(made.trim());
    let done = work(directory);
    fs::remove_dir_all(directory).with_context(|| made.clone())?;
    done
}
