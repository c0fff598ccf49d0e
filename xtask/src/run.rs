//! `cargo xtask run`, `test`, `reference`, `matrix` and `contracts`: each builds what it runs, the tests for
//! debugging, all others as a release. `run` without a command shows what `std::io::copy` does, seen by zctrace.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::{net::UnixListener, process::CommandExt as _},
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Context as _, Result};

use crate::{
    command::{as_root, cargo, check, in_scratch, is_root, release_dir, root, show},
    setup::{self, Purpose},
    toolchain::{on_path, output},
};

/// Installs what is missing and builds these packages for release.
fn build(packages: &[&str]) -> Result<()> {
    setup::install(Purpose::Building)?;
    let mut build = cargo("build --release");
    build.args(packages.iter().flat_map(|package| ["--package", package]));
    check(&mut build)
}

/// Builds the integration tests and every program that they start. One command builds all: by
/// itself, a program's dependencies have fewer features than with the tests, and would be built
/// twice. What is built for debugging checks each report for contradictions.
pub(crate) const BUILD_FOR_TESTS: &str = "build --workspace --bins --test all";

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
    setup::install(Purpose::Testing)?;
    check(&mut cargo(BUILD_FOR_TESTS))?;
    let mut test = cargo("test --workspace");
    test.args(args);
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
    let host = about
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc does not name its host")?;
    Ok(format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    ))
}

/// Builds the programs, and becomes the one that runs a series: what others have published, or every
/// pair of ends that `std::io::copy` can copy between.
pub(crate) fn series(name: &str, args: &[OsString]) -> Result<ExitCode> {
    setup::install(Purpose::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let error = runs(&release_dir()?, name)?.args(args).exec();
    Err(error).context("cannot start tests/runs.py")
}

/// A series of runs of the programs in this directory.
pub(crate) fn runs(programs: &Path, name: &str) -> Result<Command> {
    let mut runs = as_root("python3")?;
    runs.arg(root().join("tests/runs.py"));
    runs.arg("--programs").arg(programs).arg(name);
    Ok(runs)
}

/// Traces two copies of zctrace by the project's copier: to a file, and to a Unix socket.
pub(crate) fn demo() -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    in_scratch(|directory| {
        trace_copy(directory.join("out").as_os_str())?;
        let socket = directory.join("socket");
        let listener = UnixListener::bind(&socket).context("cannot make a socket")?;
        thread::spawn(move || io::copy(&mut listener.accept()?.0, &mut io::sink()));
        let mut address = OsString::from("unix:");
        address.push(&socket);
        trace_copy(&address)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what is copied, and traces one copy.
fn trace_copy(output: &OsStr) -> Result<()> {
    let programs = release_dir()?;
    let mut zctrace = zctrace()?;
    zctrace.arg(programs.join("copier")).arg("std-io-copy");
    zctrace.arg("--from").arg(programs.join("zctrace"));
    zctrace.arg("--to").arg(output);
    eprintln!("\n== {}\n", show(&zctrace));
    check(&mut zctrace)
}
