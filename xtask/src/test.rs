//! `cargo xtask test`: all tests, with root.

use std::{
    ffi::OsString,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    command::{cargo, check, is_root, release_dir},
    run,
    setup::{self, Need},
    toolchain::{on_path, output},
};

/// Runs every test of the workspace; `args` go to `cargo test`.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    run::build(&["zctrace", "zc-tests"])?;
    let mut test = cargo();
    test.args(["test", "--workspace"]).args(args);
    // What is tested as a whole is the program that people run, not a debug build of it.
    test.env("ZCTRACE_BIN", release_dir()?.join("zctrace"));
    if !is_root() {
        // Loading eBPF programs takes root; the build stays the caller's.
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
