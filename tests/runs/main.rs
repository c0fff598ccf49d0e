//! `runs`: series of traced runs, each with a table as its result. `cargo xtask reference`,
//! `matrix` and `contracts` start it.

mod contracts;
mod matrix;
mod places;
mod reference;

use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use rustix::process::set_parent_process_death_signal;
use zc_tests::{program_beside, zctrace_to_test};

use crate::places::{Places, keep_mounts_private};

/// Series of traced runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct RunsArguments {
    /// An empty directory for all files; without one, this program starts itself again with one
    #[arg(long, hide = true)]
    scratch: Option<PathBuf>,
    /// The series to run
    #[command(subcommand)]
    series: ChosenSeries,
}

/// The series.
#[derive(Subcommand)]
enum ChosenSeries {
    /// Repeat published measurements, and show their figures beside those of this machine
    Reference(reference::ReferenceOptions),
    /// Copy between all kinds of ends with `std::io::copy`, and show which kernel interface it used
    Matrix(matrix::MatrixOptions),
    /// Check what other projects' programs promise, and show which kernel interfaces they use
    Contracts(contracts::ContractsOptions),
}

fn main() -> ExitCode {
    let RunsArguments { scratch, series } = RunsArguments::parse();
    let done = match scratch {
        Some(scratch) => run(&scratch, &series).map(|()| ExitCode::SUCCESS),
        None => run_again(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(scratch: &Path, series: &ChosenSeries) -> Result<()> {
    keep_mounts_private()?;
    let places = Places::below(scratch);
    match series {
        ChosenSeries::Reference(options) => reference::run(options, &places),
        ChosenSeries::Matrix(options) => matrix::run(options, &places),
        ChosenSeries::Contracts(options) => contracts::run(options),
    }
}

/// Starts this program again with a temporary directory, which is deleted in the end. A signal ends
/// that program, not this one.
fn run_again() -> Result<ExitCode> {
    let scratch = tempfile::tempdir()?;
    let signals = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGCHLD,
    ];
    let signals: SigSet = signals.into_iter().collect();
    signals.thread_block()?;
    let mut again = Command::new(env::current_exe()?);
    again.arg("--scratch").arg(scratch.path());
    again.args(env::args_os().skip(1));
    // SAFETY: between fork and exec only one more system call is made.
    unsafe { again.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?)) };
    let mut child = ending_with_us(&mut again).spawn()?;
    let id = Pid::from_raw(i32::try_from(child.id())?);
    loop {
        // It is not reaped before, so no other process has its id.
        if let Some(status) = child.try_wait()? {
            return Ok(ExitCode::from(u8::from(!status.success())));
        }
        match signals.wait()? {
            Signal::SIGCHLD => {}
            signal => kill(id, signal)?,
        }
    }
}

/// Makes the command end if this process is killed: nobody needs its results then, and its files
/// are about to be deleted.
pub fn ending_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            Ok(set_parent_process_death_signal(Some(
                rustix::process::Signal::TERM,
            ))?)
        })
    }
}

/// A command whose first word may be one of the project's own programs.
fn resolve(mut command: Vec<String>) -> Vec<String> {
    if let Some(program) = command.first_mut() {
        let own = program_beside(program);
        if own.exists() {
            *program = own.display().to_string();
        }
    }
    command
}

/// Traces the command with this stdout, which is read to its end if it is a pipe. Returns the
/// report, which goes through a file in `scratch`.
fn trace(command: &[String], options: &[&str], stdout: Stdio, scratch: &Path) -> Result<String> {
    let file = scratch.join("report");
    let mut trace = Command::new(zctrace_to_test());
    trace.arg("-o").arg(&file);
    trace.args(options).arg("--").args(command);
    trace.stdin(Stdio::null()).stdout(stdout);
    trace.stderr(Stdio::piped());
    let traced = ending_with_us(&mut trace)
        .spawn()
        .and_then(Child::wait_with_output);
    let output = traced.context("cannot start zctrace")?;
    let (command, said) = (command.join(" "), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command} failed: {}", said.trim());
    fs::read_to_string(&file).context("the report of zctrace")
}
