//! `cargo xtask run`, `test`, `reference`, `matrix` and `stack`: each builds what it runs, as a release.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    command::{Scratch, as_root, cargo, check, exit_code, is_root, release_dir, root, run_to_end},
    setup::{self, Need},
    toolchain::{on_path, output},
};

/// Installs what is missing and builds these packages for release.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    setup::install(Need::Building)?;
    let mut build = cargo();
    build.args(["build", "--release"]);
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    check(&mut build)
}

/// zctrace from the release build; the command to trace comes after it.
pub(crate) fn zctrace() -> Result<Command> {
    let mut zctrace = as_root(release_dir()?.join("zctrace"))?;
    zctrace.arg("--");
    Ok(zctrace)
}

/// Traces a command in the caller's directory.
pub(crate) fn run(command: &[OsString]) -> Result<ExitCode> {
    build(&["zctrace"])?;
    // zctrace replaces xtask, so that signals, terminal and exit status are its own.
    let error = zctrace()?.args(command).exec();
    Err(error).context("cannot start zctrace")
}

/// Runs every test of the workspace; `args` go to `cargo test`.
pub(crate) fn test(args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let mut test = cargo();
    test.args(["test", "--workspace"]).args(args);
    // The integration tests test the program that people run, not a debug build of it.
    test.env("ZCTRACE_BIN", release_dir()?.join("zctrace"));
    if !is_root() {
        // Only the tests need root, to load eBPF programs; the build runs as the caller.
        on_path("sudo").context("the tests need root, and there is no sudo: run them as root")?;
        test.env(runner_variable()?, "sudo -E");
    }
    check(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// The variable that tells cargo what to start the test binaries with.
fn runner_variable() -> Result<String> {
    let about = output(Command::new("rustc").arg("-vV")).context("cannot run rustc")?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not name its host")?;
    Ok(format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_")))
}

/// Runs what others have published.
pub(crate) fn reference(args: &[OsString]) -> Result<ExitCode> {
    run_series("reference", &["--scenarios".into(), root().join("tests/scenarios").into()], args)
}

/// Every pair of ends that `std::io::copy` can copy between.
pub(crate) fn matrix(args: &[OsString]) -> Result<ExitCode> {
    run_series("matrix", &[], args)
}

/// Shows how much stack the eBPF programs take. It only reads the object, so it needs no root.
pub(crate) fn stack(record: bool) -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    let mut runs = Command::new(release_dir()?.join("runs"));
    runs.arg("stack");
    if record {
        runs.arg("--record").arg(root().join("tests/golden/verifier/kernels.md"));
    }
    Ok(exit_code(run_to_end(&mut runs).context("cannot start the program `runs`")?))
}

/// Builds the programs, and starts the one that runs the series.
fn run_series(series: &str, own: &[OsString], args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let scratch = Scratch::new(series)?;
    let programs = release_dir()?;
    let mut runs = as_root(programs.join("runs"))?;
    runs.arg("--programs").arg(&programs).arg("--scratch").arg(scratch.directory()).arg(series).args(own).args(args);
    Ok(exit_code(run_to_end(&mut runs).context("cannot start the program `runs`")?))
}
