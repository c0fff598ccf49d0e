//! `runs`: series of traced runs, each with a table as its result. `cargo xtask reference`,
//! `matrix` and `stack` start it.

mod matrix;
mod places;
mod reference;
mod stack;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};
use zctrace::report::Report;

use crate::places::{Places, keep_mounts_private};

/// Series of traced runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    /// The directory with zctrace and the workloads
    #[arg(long, hide = true, global = true, default_value = ".")]
    programs: PathBuf,
    /// An empty directory for all files
    #[arg(long, hide = true, global = true, default_value = ".")]
    scratch: PathBuf,
    /// The series to run
    #[command(subcommand)]
    series: Series,
}

/// The series.
#[derive(Subcommand)]
enum Series {
    /// Repeat published measurements, and show their figures beside those of this machine
    Reference(reference::Options),
    /// Copy between all kinds of ends with `std::io::copy`, and show which kernel interface it used
    Matrix(matrix::Options),
    /// Show how much stack each eBPF program takes, and the calls that take it; fails above the
    /// limit
    Stack(stack::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let tools = Tools::new(&arguments.programs);
    let places = || {
        keep_mounts_private()?;
        anyhow::Ok(Places::below(&arguments.scratch))
    };
    match &arguments.series {
        Series::Reference(options) => reference::run(options, &tools, places),
        Series::Matrix(options) => matrix::run(options, &tools, &places()?),
        Series::Stack(options) => stack::run(options),
    }
}

/// The directory with zctrace and the workloads.
pub struct Tools {
    programs: PathBuf,
}

/// Makes the command end if this process is killed: nobody needs its results then, and its files
/// are about to be deleted.
pub fn ending_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) }
}

impl Tools {
    /// The programs in this directory.
    pub fn new(programs: &Path) -> Self {
        Self {
            programs: programs.to_owned(),
        }
    }

    /// One of the project's own programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// A command whose first word may be one of the project's own programs.
    pub fn resolve(&self, mut command: Vec<String>) -> Vec<String> {
        if let Some(program) = command.first_mut() {
            let own = self.program(program);
            if own.exists() {
                *program = own.display().to_string();
            }
        }
        command
    }

    /// Traces the command with this stdout, which is read to its end if it is a pipe. Returns the
    /// report, which goes through a file in `scratch`.
    pub fn trace(
        &self,
        command: &[String],
        options: &[&str],
        stdout: Stdio,
        scratch: &Path,
    ) -> Result<Report> {
        let file = scratch.join("report.json");
        let mut trace = Command::new(self.program("zctrace"));
        trace.args(["--format", "json", "-o"]).arg(&file);
        trace.args(options).arg("--").args(command);
        trace.stdin(Stdio::null()).stdout(stdout);
        trace.stderr(Stdio::piped());
        let traced = ending_with_us(&mut trace)
            .spawn()
            .and_then(Child::wait_with_output);
        let output = traced.context("cannot start zctrace")?;
        let (command, said) = (command.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{command} failed: {}", said.trim());
        serde_json::from_slice(&fs::read(&file)?).context("the report of zctrace")
    }
}

/// `copier feed` or `copier sink`: the other side of a copy. It is killed when the value is
/// dropped.
pub struct Peer {
    process: Child,
    address: String,
}

impl Peer {
    /// Starts the copier with these arguments, and returns once it listens.
    pub fn start(copier: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(copier);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut peer = Self {
            process: command.spawn().context("cannot start the copier")?,
            address: String::new(),
        };
        let stdout = peer.process.stdout.take().context("it has no output")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let Some(address) = line.trim_end().strip_prefix("listening ") else {
            bail!("the copier does not listen: {line:?}")
        };
        address.clone_into(&mut peer.address);
        // It prints what it received. Nobody needs that, but the pipe must stay open and not be
        // full.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok(peer)
    }

    /// The address on which it listens, as an argument of the copier.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for its successful end.
    pub fn finish(mut self) -> Result<()> {
        let status = self.process.wait()?;
        ensure!(
            status.success(),
            "the other side of {} failed ({status})",
            self.address
        );
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail if it has ended already, which does not matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
