//! The programs that are run: zctrace and the workloads.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use zctrace::report::Report;

/// Where the programs are.
pub struct Tools {
    programs: PathBuf,
}

/// The command, asked to end should this process be killed: what it measures is nobody's then, and its files are about to be deleted.
pub fn ending_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) }
}

/// What becomes of a traced command's stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdout {
    /// It goes nowhere.
    Null,
    /// It is a pipe, and read to its end.
    Pipe,
}

impl Tools {
    /// All in one directory.
    pub fn new(programs: &Path) -> Self {
        Self { programs: programs.to_owned() }
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

    /// What one run of the command does: its report, by way of a file in `scratch`.
    pub fn trace(&self, command: &[String], options: &[&str], stdout: Stdout, scratch: &Path) -> Result<Report> {
        let file = scratch.join("report.json");
        let mut trace = Command::new(self.program("zctrace"));
        trace.args(["--format", "json", "-o"]).arg(&file).args(options).arg("--").args(command);
        trace.stdin(Stdio::null()).stderr(Stdio::piped());
        trace.stdout(if stdout == Stdout::Pipe { Stdio::piped() } else { Stdio::null() });
        let output = ending_with_us(&mut trace).spawn().and_then(Child::wait_with_output).context("cannot start zctrace")?;
        if !output.status.success() {
            bail!("{} failed: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&fs::read(&file)?).context("the report of zctrace")
    }
}
