//! Options of `zctrace check`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, ColorChoice, ValueHint};
use zctrace::{
    backend::Choice,
    check::{Tolerance, parse_timeout},
    expect::{Expectation, Inferred},
    render::CheckFormat,
    syscalls::Selection,
};

use super::values::{LimitArgs, label, one_of, with_unit};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace check --expect 'write.calls == 0' -- cp in out
  zctrace check --expect 'transfer(* -> unix).api == sendfile' -- ./server
  zctrace check                          every [[check]] of ./zctrace.toml
  zctrace check tests/zctrace.toml 'copy *' --repeat 5
  zctrace check --baseline cp.json --update -- cp in out
  zctrace check --lock build.lock --update -- make
  zctrace check --export junit junit.xml --export markdown \"$GITHUB_STEP_SUMMARY\"

Expectations:
  write.calls == 0                        read.avg_size >= 64KiB
  sendfile.errors.EAGAIN == 0             read.p99 < 10us
  syscalls.calls < 500                    %network.calls == 0
  faults.major == 0                       switches.involuntary <= 20
  time.wall < 2s                          processes.count == 1
  exit.code in 0..=1                      exit.signal == none
  read[process=\"cp\", file=\"in\"].calls == 1
  write[kind=pipe].bytes == 1MiB
  openat[path=\"/etc/app/**\"].errors == 0  failed calls, by their path
  read[caller=\"my_crate::**\"].calls == 0  calls by the functions that made them
  read[span=\"request\"].calls <= 2         in each span that a thread marked
  transfer(\"*.dat\" -> unix).api == sendfile
  transfer(* -> unix).via == \"std::io::copy\"
  transfer(* -> *).attempts.EXDEV == 0
  durable(\"data/**\")                     changed files were synced in order
  syncs(\"data/**\").wasted == 0           syncs that were not needed
  touches(write) within [\"target/**\"]   nothing else was written
  touches(connect) within [\"unix:**\"]    no network, no other machine
  connect[to=\"tcp:*:443\"].calls == 0     calls by the address that they named

Join expectations with and, or, not and parentheses. A pattern without / matches names. A pattern with / matches paths \
as the report shows them: relative to the working directory, or from the root. ** also matches /.

A file:
  [[check]]
  name = \"a copy stays in the kernel\"
  command = [\"cp\", \"in\", \"out\"]             # or a line for sh
  files = [{ path = \"in\", size = \"1MiB\" }]  # created in a new folder
  expect = [\"exit.code == 0\", \"write.calls == 0\"]
  # also: why, env, user, cwd, control, repeat, timeout, backend, syscalls, callers,
  # inferred, baseline, tolerance, profile, lock, may_match_nothing, ignore_failure

Exit status: 0 if all checks hold, 1 if one failed, 2 if one has no result, 3 if one is inconclusive. \
If several apply, 1 wins over 2, and 2 over 3.";

/// Options of `check`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct CheckArgs {
    /// The file of checks [default: zctrace.toml], and patterns for the names of checks to run.
    ///
    /// A word that ends in `.toml` is a file.
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    pub words: Vec<String>,

    /// After `--`: a command to check instead of a file.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["words", "list"], value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Expect this of the command's report (repeatable).
    #[arg(long, value_name = "E", requires = "command")]
    pub expect: Vec<Expectation>,

    /// Prove that the check can fail: run this line with `sh`, and require an expectation to fail.
    #[arg(long, value_name = "LINE", requires = "expect")]
    pub control_command: Option<OsString>,

    /// Compare the command's figures with those of a saved report.
    ///
    /// Write it with --update.
    #[arg(long, value_name = "FILE", requires = "command")]
    pub baseline: Option<PathBuf>,

    /// Hold the command's calls against a profile: seccomp (JSON) or a systemd unit.
    ///
    /// Says what the profile would have denied. Write one with `zctrace --format seccomp`.
    #[arg(long, value_name = "FILE", requires = "command")]
    pub profile: Option<PathBuf>,

    /// Allow a figure to differ from its baseline: METRIC=10%, METRIC=5 or METRIC=ignore.
    ///
    /// METRIC may contain `*`. By default, counts must be equal, and figures that differ in every
    /// run are ignored.
    #[arg(long, value_name = "METRIC=T")]
    pub tolerance: Vec<Tolerance>,

    /// Fail if the command touches a path or an address that this file does not list.
    ///
    /// Write it with --update. Each line has a kind (bind, connect, exec, read, temp, write) and a path,
    /// an address or a pattern.
    #[arg(long, value_name = "FILE", requires = "command")]
    pub lock: Option<PathBuf>,

    /// Sample who made the calls: a path outside of an allow-list or a lock is shown with its caller.
    #[arg(long)]
    pub callers: bool,

    /// Write the baselines and locks instead of comparing with them.
    #[arg(long)]
    pub update: bool,

    /// Run each check this many times; every run must pass.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,

    /// Run this many checks at the same time. Counts stay the same.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,

    /// Stop a run after this time, such as 10s [default: 1min].
    #[arg(long, value_name = "TIME", value_parser = |text: &str| parse_timeout(&with_unit(text)))]
    pub timeout: Option<Duration>,

    /// Count these calls in detail [default: calls that move data, and calls in expectations].
    #[arg(short = 'e', long, value_name = "SET")]
    pub syscalls: Option<Selection>,

    /// Trace with this backend: auto, ebpf or strace.
    #[arg(long, value_parser = one_of::<Choice>(), hide_possible_values = true)]
    pub backend: Option<Choice>,

    /// How to judge expectations that depend on inferred transfers [default: inconclusive].
    #[arg(long, value_parser = one_of::<Inferred>(), value_name = "WHAT")]
    pub inferred: Option<Inferred>,

    /// Accept names in expectations that match nothing, instead of an inconclusive result.
    #[arg(long)]
    pub may_match_nothing: bool,

    /// Run commands as this user, unless the check names one: a name, or UID[:GID]. Needs root.
    #[arg(long, short_alias = 'u', value_name = "USER", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// Judge commands that fail like any other, instead of giving no result.
    #[arg(long)]
    pub ignore_failure: bool,

    /// List the checks without running them.
    #[arg(long)]
    pub list: bool,

    /// Also show the whole report of each check.
    #[arg(long)]
    pub report: bool,

    /// Show the output of commands, not just the end of stderr if a check does not pass.
    #[arg(long)]
    pub show_output: bool,

    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,

    /// Write the results to this file (`-` for stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Also write the results to a file, as json, junit, github, markdown or text (repeatable).
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"])]
    pub export: Vec<String>,

    /// Add a label to the results and reports, such as `commit=$SHA` (repeatable).
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,

    /// Save a JSON report of each check in this directory, for `diff` and `report`.
    ///
    /// The report is of the last run. Its label `name` is the name of the check.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub reports: Option<PathBuf>,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// When to use colour.
    ///
    /// `auto` uses it on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

impl CheckArgs {
    /// Whether there are options for a command, and words that are none because `--` is not before
    /// them.
    pub fn lacks_dashes(&self) -> bool {
        let is_for_a_command = !self.expect.is_empty()
            || self.baseline.is_some()
            || self.profile.is_some()
            || self.lock.is_some();
        is_for_a_command && !self.words.is_empty() && self.command.is_empty()
    }
}
