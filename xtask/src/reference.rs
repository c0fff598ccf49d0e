//! `cargo xtask reference`: the published runs, run here.

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context as _, Result};

use crate::{
    command::{as_root, exit_code, release_dir, root},
    run,
    scratch::Scratch,
    setup::{self, Need},
};

/// Builds what is run, and hands over to the program that runs it, with its arguments.
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    setup::install(Need::Testing)?;
    run::build(&["zctrace", "zc-tests"])?;
    let scratch = Scratch::new("reference")?;
    let programs = release_dir()?;
    let mut reference = as_root(programs.join("reference"))?;
    reference.arg("--programs").arg(&programs).arg("--scenarios").arg(root().join("tests/scenarios"));
    reference.arg("--scratch").arg(scratch.directory()).args(args);
    Ok(exit_code(reference.status().context("cannot start the reference runs")?))
}
