//! Starting other programs.

use std::{
    env,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::{Context as _, Result, bail};

use crate::toolchain::on_path;

/// The repository's root directory.
pub(crate) fn root() -> PathBuf {
    // cargo sets the variable when it runs xtask, so a repository that was moved is found as well.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).join("..")
}

/// The cargo that started xtask, to be run in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Where `cargo build --release` leaves its programs.
pub(crate) fn release_dir() -> Result<PathBuf> {
    // xtask's own place tells where, however the target directory was chosen.
    let own = env::current_exe().context("xtask does not know where it is")?;
    let target = own.ancestors().nth(2).context("xtask is not in a target directory")?;
    Ok(target.join("release"))
}

/// Runs a command to its end; anything but success is an error that names it.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", show(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", show(command));
    }
    Ok(())
}

/// A command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

/// A status as a shell shows it: 128+N for a command that signal N ended.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).and_then(|code| u8::try_from(code).ok());
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
