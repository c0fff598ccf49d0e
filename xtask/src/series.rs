//! `cargo xtask reference` and `cargo xtask matrix`: whole series of traced runs, each with a table at its end.

use std::{
    ffi::OsString,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{
    command::{as_root, exit_code, release_dir, root, run_to_end},
    run,
    scratch::Scratch,
    setup::{self, Need},
};

/// The published runs.
pub(crate) fn reference(args: &[OsString]) -> Result<ExitCode> {
    run("reference", &["--scenarios".into(), root().join("tests/scenarios").into()], args)
}

/// Every pair of ends that `std::io::copy` can copy between.
pub(crate) fn matrix(args: &[OsString]) -> Result<ExitCode> {
    run("matrix", &[], args)
}

/// What the eBPF programs take of the kernel's stack. It reads the object alone, so it needs no root.
pub(crate) fn stack(record: bool) -> Result<ExitCode> {
    run::build(&["zctrace", "zc-tests"])?;
    let mut runs = Command::new(release_dir()?.join("runs"));
    runs.arg("stack");
    if record {
        runs.arg("--record").arg(root().join("tests/golden/verifier/kernels.md"));
    }
    Ok(exit_code(run_to_end(&mut runs).context("cannot start the runs")?))
}

/// Builds what is run, and hands over to the program that runs it.
fn run(series: &str, own: &[OsString], args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    run::build(&["zctrace", "zc-tests"])?;
    let scratch = Scratch::new(series)?;
    let programs = release_dir()?;
    let mut runs = as_root(programs.join("runs"))?;
    runs.arg("--programs").arg(&programs).arg("--scratch").arg(scratch.directory()).arg(series).args(own).args(args);
    Ok(exit_code(run_to_end(&mut runs).context("cannot start the runs")?))
}
