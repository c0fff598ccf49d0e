//! `cargo xtask run`, `test`, `reference`, `matrix` and `stack`: each builds what it runs, as a
//! release. `run` without a command shows what `std::io::copy` does, seen by zctrace.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    command::{Scratch, as_root, cargo, check, exit_code, is_root, release_dir, root, run_to_end},
    setup::{self, Need},
    toolchain::on_path,
};

/// Installs what is missing and builds these packages for release.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    setup::install(Need::Building)?;
    let mut build = cargo("build --release");
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
    let mut test = cargo("test --workspace");
    test.args(args);
    // The integration tests test the program that people run, not a debug build of it.
    test.env("ZCTRACE_BIN", release_dir()?.join("zctrace"));
    if !is_root() {
        // Only the tests need root, to load eBPF programs; the build runs as the caller.
        on_path("sudo").context("the tests need root, and there is no sudo: run them as root")?;
        let arch = env::consts::ARCH.to_uppercase();
        let runner = format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER");
        test.env(runner, "sudo -E");
    }
    check(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows how much stack the eBPF programs take. It only reads the object, so it needs no root.
pub(crate) fn stack(record: bool) -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    let mut runs = Command::new(release_dir()?.join("runs"));
    runs.arg("stack");
    if record {
        let table = root().join("tests/golden/verifier/kernels.md");
        runs.arg("--record").arg(table);
    }
    let ended = run_to_end(&mut runs).context("cannot start the program `runs`")?;
    Ok(exit_code(ended))
}

/// Builds the programs, and starts the one that runs a series: what others have published, or
/// every pair of ends that `std::io::copy` can copy between.
pub(crate) fn series(name: &str, args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    build(&["zctrace", "zc-tests"])?;
    let (scratch, programs) = (Scratch::new(name)?, release_dir()?);
    let mut runs = as_root(programs.join("runs"))?;
    runs.arg("--programs").arg(&programs);
    runs.arg("--scratch").arg(scratch.directory()).arg(name);
    if name == "reference" {
        runs.arg("--scenarios").arg(root().join("tests/scenarios"));
    }
    let ended = run_to_end(runs.args(args)).context("cannot start the program `runs`")?;
    Ok(exit_code(ended))
}

/// Copies data that no filesystem stores as a hole, to a file and to a Unix socket. `$0` is the
/// copier; the other words start zctrace.
const DEMO: &str = r#"
set -e
yes | head -c 256M > in
printf '\n== std::io::copy of 256 MiB to a file\n\n' >&2
"$@" "$0" std-io-copy --from in --to out
printf '\n== std::io::copy of 256 MiB to a Unix socket\n\n' >&2
"$0" sink unix:socket | { read -r listening; "$@" "$0" std-io-copy --from in --to unix:socket; }
"#;

/// Traces the project's copier twice.
pub(crate) fn demo() -> Result<ExitCode> {
    build(&["zctrace", "zc-tests"])?;
    let (directory, zctrace) = (Scratch::new("demo")?, zctrace()?);
    let mut shell = Command::new("sh");
    shell.args(["-c", DEMO]).arg(release_dir()?.join("copier"));
    shell.arg(zctrace.get_program()).args(zctrace.get_args());
    let ended = run_to_end(shell.current_dir(directory.directory()));
    Ok(exit_code(ended.context("cannot start a shell")?))
}
