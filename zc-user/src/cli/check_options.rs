//! Options of `zctrace check`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, ColorChoice, ValueHint};
use zctrace::{
    backend::Choice,
    check::{Tolerance, timeout},
    expect::{Expectation, Inferred},
    render::CheckFormat,
    syscalls::Selection,
};

use super::values::{LimitArgs, label, one_of, with_unit};

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
  openat[path=\"/etc/app/**\"].errors == 0            failed calls, by their path
  read[caller=\"my_crate::**\"].calls == 0            calls by the functions that made them
  transfer(* -> unix).via == \"std::io::copy\"        the library function that made a transfer
  transfer(\"*.dat\" -> unix).api == sendfile         transfer(* -> *).attempts.EXDEV == 0
  Join them with and, or, not and parentheses. A pattern without / matches names; one with / matches paths as the report
  shows them: relative to the working directory, or from the root. ** matches / too.

A file:
  [[check]]
  name = \"a copy stays in the kernel\"
  command = [\"cp\", \"in\", \"out\"]                         # or a line for sh: \"cat in | wc -c\"
  files = [{ path = \"in\", size = \"1MiB\" }]            # created in a new folder, where the command runs
  expect = [\"exit.code == 0\", \"write.calls == 0\"]
  control = \"dd if=in of=out bs=64k\"                  # a command for which an expectation must fail
  # also: why, env, user, cwd, repeat, backend, timeout, syscalls, baseline, tolerance, inferred = \"accept\",
  # may_match_nothing = true: otherwise a name that nothing matches makes its expectation inconclusive,
  # ignore_failure = true: otherwise a command that fails gives no result, unless an expectation is about exit

Exit status: 0 if all checks hold, 1 if one failed, 2 if one is without a result, 3 if one is inconclusive. \
If several apply, 1 wins over 2, and 2 over 3.";

/// Options of `check`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct CheckArgs {
    /// A file of checks (`*.toml`; without it, zctrace.toml), and patterns for the names of the
    /// checks to run.
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub words: Vec<String>,

    /// A command to check instead of a file, after `--`.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["words", "list"], value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// An expectation that the command's report must meet. Can be given several times.
    #[arg(long, value_name = "E", requires = "command")]
    pub expect: Vec<Expectation>,

    /// A second command, a line for `sh`, for which an expectation must fail: otherwise the check
    /// fails, since it cannot fail.
    #[arg(long, value_name = "LINE", requires = "expect")]
    pub control_command: Option<OsString>,

    /// Compare the command's figures with those of this saved report (`zctrace --format json -o
    /// FILE`).
    #[arg(long, value_name = "FILE", requires = "command")]
    pub baseline: Option<PathBuf>,

    /// How far a figure may differ from its baseline: METRIC=10%, METRIC=5, METRIC=ignore; METRIC
    /// may contain `*`. By default counts must be equal, and times, switches, faults and calls by
    /// which threads wait for each other are ignored.
    #[arg(long, value_name = "METRIC=T")]
    pub tolerance: Vec<Tolerance>,

    /// Write the baselines instead of comparing with them.
    #[arg(long)]
    pub update: bool,

    /// Run each check this many times; every run must meet the expectations.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,

    /// Run this many at the same time. This does not change counts. Checks that expect times or
    /// context switches run alone, and runs in the same working directory (that of a command, or
    /// `cwd`) take turns.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,

    /// How long a run may take, including its tracing, as in 10s [default: 1min].
    #[arg(long, value_name = "TIME", value_parser = |text: &str| timeout(&with_unit(text)))]
    pub timeout: Option<Duration>,

    /// Calls to count [default: those that move data and those that expectations name].
    #[arg(short = 'e', long, value_name = "SET")]
    pub syscalls: Option<Selection>,

    /// The backend that traces the commands.
    #[arg(long, value_parser = one_of::<Choice>())]
    pub backend: Option<Choice>,

    /// How to treat expectations that depend on inferred transfers [default: inconclusive].
    #[arg(long, value_parser = one_of::<Inferred>(), value_name = "WHAT")]
    pub inferred: Option<Inferred>,

    /// Selectors of expectations may match nothing. Otherwise an expectation about a file, process or
    /// function whose name nothing matches is inconclusive: the name may be a typing error.
    #[arg(long)]
    pub may_match_nothing: bool,

    /// Run the commands of checks without a `user` as this one: a name, or UID[:GID]. They own the
    /// folders that are made for them. zctrace itself needs root for that.
    #[arg(long, short_alias = 'u', value_name = "USER", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The commands may fail. Otherwise a command that does not end with status 0 gives no result,
    /// unless an expectation is about `exit`, or there is a baseline.
    #[arg(long)]
    pub ignore_failure: bool,

    /// List the checks without running them.
    #[arg(long)]
    pub list: bool,

    /// Show the whole report of each check as well.
    #[arg(long)]
    pub report: bool,

    /// Show what commands write. Without it, stdout goes to /dev/null, and the end of stderr is
    /// shown if a check does not pass.
    #[arg(long)]
    pub show_output: bool,

    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,

    /// Write the results to this file (`-` for stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the results to a file: json, junit, github, markdown or text. Can be
    /// given several times.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// Put this into the results and the reports: the commit, for one (`--label commit=$SHA`). Can
    /// be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,

    /// Save the report of the last run of each check in this directory, as JSON, with its name as
    /// the label `name`; for `diff` and `report`.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub reports: Option<PathBuf>,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour; `auto`: on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

impl CheckArgs {
    /// Whether there are options for a command, and words that are none because `--` is not before
    /// them.
    pub fn lacks_dashes(&self) -> bool {
        let is_for_a_command = !self.expect.is_empty() || self.baseline.is_some();
        is_for_a_command && !self.words.is_empty() && self.command.is_empty()
    }
}
