//! `zctrace check`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use zctrace::{backend::Choice, expect::Inferred, render::CheckFormat, syscall::Selection};

use super::{ColorWhen, LimitArgs, choose::one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace check --expect 'write.calls == 0' -- cp in out
  zctrace check --expect 'transfer(* -> unix).api == sendfile' --expect 'exit.code == 0' -- ./server --once
  zctrace check                          every [[check]] of ./zctrace.toml
  zctrace check tests/zctrace.toml 'copy *' --repeat 5
  zctrace check --baseline cp.json --update -- cp in out
  zctrace check --export junit junit.xml --export markdown \"$GITHUB_STEP_SUMMARY\"

Expectations:
  write.calls == 0      read.avg_size >= 64KiB      sendfile.errors.EAGAIN == 0      read.p99 < 10us
  syscalls.calls < 500  %network.calls == 0         faults.major == 0                switches.involuntary <= 20
  time.wall < 2s        exit.code in 0..=1          exit.signal == none              processes.count == 1
  read[process=\"cp\", file=\"in.dat\"].calls == 1      write[kind=pipe].bytes == 1MiB
  transfer(\"*.dat\" -> unix).api == sendfile         transfer(* -> *).attempts.EXDEV == 0
  joined by and, or, not and parentheses; a pattern without / is for names, one with / for paths as the report shows them,
  relative to the working directory, or from the root; ** matches / too

A file:
  [[check]]
  name = \"a copy stays in the kernel\"
  command = [\"cp\", \"in\", \"out\"]                         # or a line for sh: \"cat in | wc -c\"
  files = [{ path = \"in\", size = \"1MiB\" }]            # made in a new folder, where the command runs
  expect = [\"exit.code == 0\", \"write.calls == 0\"]
  # also: env, cwd, repeat, backend, timeout, syscalls, baseline, tolerance, inferred = \"accept\"

Exit status: 0 all hold, 1 one failed, 2 one could not be run, 3 one is inconclusive; of several the first of 1, 2, 3.";

/// Options of `check`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct CheckArgs {
    /// A file of checks (`*.toml`; without it zctrace.toml), and patterns of names of those to run.
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub words: Vec<String>,

    /// A command to check, after `--`, instead of a file.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["words", "list"], value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,

    /// What the command's report must say; can be given several times.
    #[arg(long, value_name = "E", requires = "command")]
    pub expect: Vec<String>,

    /// Compare the command's figures with those of this saved report (`zctrace --format json -o FILE`).
    #[arg(long, value_name = "FILE", requires = "command")]
    pub baseline: Option<PathBuf>,

    /// How far a figure may be off its baseline: METRIC=10%, METRIC=5, METRIC=ignore; METRIC may have `*`.
    /// Counts are exact, times, switches and faults are ignored, unless said otherwise.
    #[arg(long, value_name = "METRIC=T")]
    pub tolerance: Vec<String>,

    /// Write baselines anew instead of comparing.
    #[arg(long)]
    pub update: bool,

    /// Run each check so often; what is expected must hold every time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,

    /// Run so many at the same time. Counts do not suffer from it; checks that expect times or context switches run alone, and runs
    /// in one working directory (a command's, or `cwd`) take turns.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,

    /// How long a run may take, its tracing included, like 10s [default: 1min].
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,

    /// Calls to count [default: those that move data, and those that expectations name].
    #[arg(short = 'e', long, value_name = "SET")]
    pub syscalls: Option<Selection>,

    /// What traces the commands.
    #[arg(long, value_parser = one_of::<Choice>())]
    pub backend: Option<Choice>,

    /// What becomes of expectations that depend on inferred transfers [default: inconclusive].
    #[arg(long, value_parser = one_of::<Inferred>(), value_name = "WHAT")]
    pub inferred: Option<Inferred>,

    /// Show the checks, and run none.
    #[arg(long)]
    pub list: bool,

    /// Show the whole report of each check, too.
    #[arg(long)]
    pub report: bool,

    /// Let commands write to stdout and stderr; without it stdout is /dev/null, and stderr is shown if something is wrong.
    #[arg(long)]
    pub show_output: bool,

    /// Form of the results.
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,

    /// Write the results to this file (`-`: stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the results to a file: json, junit, tap, github, markdown, csv or text. Can be given several times.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorWhen,
}
