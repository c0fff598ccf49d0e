//! `cargo xtask run -- CMD`: trace a command.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    command::{as_root, cargo, check, release_dir},
    setup::{self, Need},
};

/// Installs what is missing and builds these packages for release.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    setup::install(Need::Building)?;
    let mut build = cargo();
    build.args(["build", "--release"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    check(&mut build)
}

/// zctrace as it was built, in front of the command that it is to trace.
pub(crate) fn zctrace() -> Result<Command> {
    let mut zctrace = as_root(release_dir()?.join("zctrace"))?;
    zctrace.arg("--");
    Ok(zctrace)
}

/// Traces a command in the caller's directory.
pub(crate) fn run(command: &[OsString]) -> Result<ExitCode> {
    build(&["zctrace"])?;
    // In place of xtask: signals, terminal and exit status are then zctrace's own.
    let error = zctrace()?.args(command).exec();
    Err(error).context("cannot start zctrace")
}
