//! The command line: subcommands and their options.

mod check_options;
mod compare_options;
mod completions_and_man;
mod diff_options;
mod first_help;
mod habits;
mod span_options;
mod targets;
mod top_options;
mod usage_error;
mod values;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{
    Args, ColorChoice, CommandFactory, Parser, Subcommand, ValueHint, builder::ArgPredicate,
    error::ErrorKind,
};
use clap_complete::Shell;
use zctrace::{
    backend::{Choice, Recorded, SampledCalls},
    launch::Identity,
    render::{Format, PlainFormat},
    report::{Detail, SortKey},
    syscalls::{Selection, class_names},
};
use zctrace_core::{text::command_line, words::nearest_name};

use crate::room::with_room;

pub use check_options::CheckArgs;
pub use compare_options::CompareArgs;
pub use diff_options::DiffArgs;
pub use habits::StraceArgs;
pub use span_options::SpanArgs;
pub use targets::TargetArgs;
pub use top_options::TopArgs;
pub use values::{CallersArg, LimitArgs, PathArg, find_identity, nanoseconds};

use first_help::FIRST_HELP;
use span_options::length;
use values::{default_word, label, one_of, variable};

/// Show which system calls a command makes, how many bytes they move, and what they cost.
#[derive(Debug, Parser)]
#[command(
    name = "zctrace",
    version,
    long_version = completions_and_man::long_version(),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
#[command(override_usage = "zctrace [run] [OPTIONS] [--] CMD...\n       zctrace [run] [OPTIONS] -p PID", after_help = EXAMPLES, override_help = FIRST_HELP)]
pub struct Cli {
    /// What to do; without it, `run`.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Options of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  zctrace cp big.iso /mnt/               which calls copied it, and how fast
  zctrace --by thread ./server           the calls of each thread
  zctrace --syscalls read,%network CMD
  zctrace --format json -o report.json make -j8
  zctrace --html report.html make -j8    also a web page with diagrams
  zctrace -p 1234                        what a process does, until Ctrl-C
  zctrace --format markdown -o \"$GITHUB_STEP_SUMMARY\" ./run-tests

Options come before the command: everything after its name belongs to the command.

The report goes to stderr, which leaves stdout to the command; -o writes it to a file.
The exit status is the command's, or 125 if zctrace itself failed.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run a command and report what it did (the default).
    #[command(override_usage = "zctrace run [OPTIONS] [--] CMD...\n       zctrace run [OPTIONS] -p PID", after_help = EXAMPLES)]
    Run(Box<RunArgs>),
    /// Show live what a command or running processes do.
    #[command(override_usage = "zctrace top [OPTIONS] [--] CMD...\n       zctrace top [OPTIONS] -p PID", after_help = top_options::EXAMPLES)]
    Top(Box<TopArgs>),
    /// Time commands untraced, then count what each does in one traced run.
    #[command(override_usage = "zctrace compare [OPTIONS] CMD...", after_help = compare_options::EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Check that commands make the expected system calls, for CI.
    #[command(override_usage = "zctrace check [OPTIONS] [FILE] [NAME]...\n       zctrace check [OPTIONS] --expect E -- CMD...", after_help = check_options::EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Show what changed between two saved reports, or since a saved report.
    #[command(override_usage = "zctrace diff [OPTIONS] A B\n       zctrace diff [OPTIONS] A -- CMD...", after_help = diff_options::EXAMPLES)]
    Diff(Box<DiffArgs>),
    /// Show a saved report, or make one from a log of strace.
    #[command(override_usage = "zctrace report [OPTIONS] FILE...", after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Show what zctrace can do on this machine, and how to enable the rest.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Print the JSON Schema of reports.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Print the completion script of a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page.
    #[command(after_help = MAN_EXAMPLES)]
    Man,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  zctrace doctor                         what each backend can do here
  zctrace doctor --format json | jq .auto

The exit status is 1 if no backend can run.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  zctrace schema > report.schema.json    what --format json writes";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  zctrace completions bash > ~/.local/share/bash-completion/completions/zctrace
  zctrace completions zsh > ~/.zfunc/_zctrace
  zctrace completions fish > ~/.config/fish/completions/zctrace.fish";

const MAN_EXAMPLES: &str = "\
Examples:
  zctrace man | man -l -                 read it
  zctrace man > ~/.local/share/man/man1/zctrace.1";

const REPORT_EXAMPLES: &str = "\
Examples:
  zctrace report --sort bytes r.json     saved with --format json -o r.json
  zctrace report --format csv r.json     the same report for a spreadsheet
  zctrace report --html r.html r.json    the same as a web page
  zctrace report --format ndjson *.json  many runs as one table, for DuckDB
  zctrace report trace.log               a log of `strace -f -T -o trace.log`
  zctrace report trace.log.*             the files of `strace -ff -T -o trace.log`
  ssh host cat r.json | zctrace report -";

/// Options of `report`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct ReportArgs {
    /// The report to show: saved JSON, or a log of strace; `-` reads stdin.
    ///
    /// For `strace -ff`, name all files of the run. `--format ndjson` and `bencher` read several
    /// JSON reports.
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,

    /// Count these calls of a strace log.
    #[arg(short = 'e', long, value_name = "SET", default_value = "all")]
    pub syscalls: Selection,

    /// Show which files were changed, and whether they were synced in order.
    ///
    /// Record the log with `strace -f -yy -T -ttt`.
    #[arg(long)]
    pub syncs: bool,

    /// List the paths and addresses that were touched, with what was done with them.
    ///
    /// Record the log with `strace -f -yy -T`.
    #[arg(long = "paths")]
    pub touched: bool,

    /// Show the descriptors that the command opened and left open.
    ///
    /// Record the log with `strace -f -y`.
    #[arg(long)]
    pub fds: bool,

    /// List the calls that took longer than this.
    ///
    /// Record the log with `strace -f -T -y -ttt`.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "paths")]
    pub slower_than: Option<Duration>,

    /// How it is shown.
    #[command(flatten)]
    pub display: DisplayArgs,

    /// Print the lines of a log that could not be parsed.
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: PlainFormat,

    /// When to use colour.
    ///
    /// `auto` uses it on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

/// How a report is shown.
#[derive(Debug, Clone, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct DisplayArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Write the report to this file (`-` for stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Add a label to the report, such as `commit=$SHA` (repeatable).
    ///
    /// The label `name` is the name of the run.
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,

    /// Also write the report to this file as a web page, with diagrams.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Sort the rows by this column.
    #[arg(long, short_alias = 'S', value_parser = one_of::<SortKey>(), default_value = default_word::<SortKey>())]
    pub sort: SortKey,

    /// Group the calls [default: by process if there are few, else all together].
    #[arg(long, value_parser = one_of::<Detail>())]
    pub by: Option<Detail>,

    /// Show every process, transfer and file, without grouping transfers.
    ///
    /// By default, JSON lists the 500 processes with the most CPU time.
    #[arg(long, aliases = ["all-processes", "all-transfers"])]
    pub all: bool,

    /// Show the report in $PAGER [default: less -FRX] if it goes to a terminal.
    #[arg(long)]
    pub pager: bool,

    /// List the paths of open files and failed calls, with calls and bytes.
    #[arg(long)]
    pub files: bool,

    /// Show only calls on this path, like `strace -P` (repeatable).
    ///
    /// The calls of all processes are shown together. Unless --syscalls selects calls, every call
    /// on the path is shown.
    #[arg(short = 'P', long = "path", value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with_all = ["by", "file_calls"])]
    pub paths: Vec<PathArg>,

    /// Add the calls of each process on each file to JSON.
    #[arg(long)]
    pub file_calls: bool,

    /// Show histograms of the times and sizes of calls that move data.
    #[arg(long)]
    pub histogram: bool,

    /// When to use colour.
    ///
    /// `auto` uses it on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
}

/// The first line about the option `--syscalls` of `run`.
const SYSCALLS_HELP: &str = "Show these calls in detail: names, %classes, /regex or all";

/// All about the option `--syscalls` of `run`.
fn syscalls_help() -> String {
    let classes: Vec<String> = class_names().map(|class| format!("%{class}")).collect();
    format!(
        "{SYSCALLS_HELP}.\n\nSeparate several by commas. The classes are {}. A regular expression is written as /^open. \
         A `!` in front leaves those calls out. eBPF sums up all other calls.",
        classes.join(", ")
    )
}

/// Options of `run`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub struct RunArgs {
    /// The command to run, with its arguments.
    ///
    /// Write `--` before a command that has the name of a subcommand or begins with a dash.
    #[arg(trailing_var_arg = true, required_unless_present_any = ["pids", "cgroup", "system_wide"], conflicts_with_all = ["pids", "cgroup", "system_wide"], value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// What to attach to, instead of running a command.
    #[command(flatten)]
    pub targets: TargetArgs,

    #[arg(short = 'e', long, help = SYSCALLS_HELP, long_help = syscalls_help(), value_name = "SET", default_value = "%data", default_value_ifs([("paths", ArgPredicate::IsPresent, "all"), ("slower_than", ArgPredicate::IsPresent, "all")]), hide_default_value = false)]
    pub syscalls: Selection,

    /// Wait for all descendants of the command to end, not just the command itself.
    #[arg(long, conflicts_with_all = ["pids", "cgroup", "system_wide"])]
    pub wait_all: bool,

    /// Run the command as this user: a name, or UID[:GID].
    #[arg(long, short_alias = 'u', value_name = "USER", value_parser = find_identity, value_hint = ValueHint::Username)]
    pub user: Option<Identity>,

    /// When the trace ends, and what it is divided into.
    #[command(flatten)]
    pub spans: SpanArgs,

    /// Trace with this backend.
    #[arg(long, value_parser = one_of::<Choice>(), default_value = default_word::<Choice>())]
    pub backend: Choice,

    /// Count calls without timing them, at a lower cost.
    #[arg(long)]
    pub counts_only: bool,

    /// Skip files and transfers, at a lower cost.
    #[arg(long, conflicts_with_all = ["paths", "files"])]
    pub no_files: bool,

    /// Show which functions made the calls, from sampled stacks.
    #[arg(long, short_alias = 'k', value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "some", value_name = "WHICH", conflicts_with_all = ["no_files", "verify"])]
    pub callers: Option<CallersArg>,

    /// Show which files were changed, and whether they were synced in order.
    #[arg(long, conflicts_with_all = ["no_files", "verify"])]
    pub syncs: bool,

    /// List the paths and addresses that were touched, with what was done with them.
    #[arg(long = "paths", conflicts_with_all = ["no_files", "verify", "pids", "cgroup"])]
    pub touched: bool,

    /// Show the descriptors that the command opened and left open.
    #[arg(long, conflicts_with_all = ["no_files", "verify", "pids", "cgroup", "system_wide"])]
    pub fds: bool,

    /// List the calls that took longer than this, such as 10ms.
    ///
    /// Unless --syscalls selects calls, all are counted.
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with_all = ["counts_only", "verify", "interval", "control", "paths"])]
    pub slower_than: Option<Duration>,

    /// Record only this, for `cargo xtask bench`.
    #[arg(long, hide = true, value_name = "LIST")]
    pub recorded: Option<Recorded>,

    /// Run the command under each backend in turn, and show what differs, as `diff` does.
    ///
    /// The exit status is 1 if the runs differ.
    #[arg(long, conflicts_with_all = ["backend", "html", "histogram", "pids", "cgroup", "system_wide"])]
    pub verify: bool,

    /// Set an environment variable of the command (repeatable).
    #[arg(long, short_alias = 'E', value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,

    /// Hide the status line.
    #[arg(long)]
    pub no_status: bool,

    /// How it is shown.
    #[command(flatten)]
    pub display: DisplayArgs,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// Log what the backend does: the tasks it follows, full maps, lines it cannot parse.
    #[arg(short, long)]
    pub verbose: bool,

    /// What strace's users type out of habit.
    #[command(flatten)]
    pub strace: StraceArgs,
}

impl RunArgs {
    /// What is recorded of each call.
    pub fn what_is_recorded(&self) -> Recorded {
        let recorded = self.recorded.unwrap_or_default();
        let mut recorded = recorded
            .with_paths(!self.display.paths.is_empty())
            .with_syncs(self.syncs)
            .with_touches(self.touched)
            .with_sizes(self.display.histogram)
            .with_descriptors(self.fds)
            .with_slower_than(self.slower_than.map(nanoseconds));
        if self.counts_only {
            recorded = recorded.without_times();
        }
        if let Some(callers) = self.callers {
            recorded = recorded.with_callers(match callers {
                CallersArg::All => SampledCalls::All,
                CallersArg::Some | CallersArg::Folded | CallersArg::Firefox => SampledCalls::Some,
            });
        }
        if self.display.format == Format::Firefox {
            recorded = recorded.with_caller_times();
        }
        if self.no_files {
            recorded = recorded.without_files();
        }
        recorded
    }
}

impl Cli {
    /// What clap knows of the command line.
    pub fn command() -> clap::Command {
        with_room(<Self as CommandFactory>::command, || ())
    }

    /// What is wrong with the command line and how to write it, in one line; examples if there is
    /// nothing in it.
    pub fn explain(error: &clap::Error) -> String {
        if std::env::args_os().len() == 1 {
            return usage_error::EXAMPLES.to_owned();
        }
        usage_error::one_line(error, &Self::command())
    }

    /// Parses the command line. Help and version are errors, too: those that clap prints to stdout.
    pub fn read() -> Result<Self, clap::Error> {
        let cli = with_room(<Self as Parser>::try_parse, || ())?;
        if let Some(Action::Check(args)) = &cli.action
            && args.lacks_dashes()
        {
            let message = usage_error::dashes_missing(&args.words);
            return Err(Self::command().error(ErrorKind::InvalidSubcommand, message));
        }
        match cli.misplaced_subcommand(&std::env::args_os().collect::<Vec<_>>()) {
            Some(name) => {
                Err(Self::command()
                    .error(ErrorKind::InvalidSubcommand, usage_error::misplaced(&name)))
            }
            None => Ok(cli),
        }
    }

    /// The action to take; `run` if there is no subcommand.
    pub fn into_action(self) -> Action {
        match self.action.unwrap_or(Action::Run(Box::new(self.run))) {
            Action::Run(mut run) => {
                match run.callers {
                    Some(CallersArg::Folded) => run.display.format = Format::Folded,
                    Some(CallersArg::Firefox) => run.display.format = Format::Firefox,
                    Some(CallersArg::Some | CallersArg::All) | None => {}
                }
                Action::Run(run)
            }
            action => action,
        }
    }

    /// The subcommand that comes after options instead of before them, and is therefore taken for
    /// the command to trace.
    fn misplaced_subcommand(&self, words: &[OsString]) -> Option<String> {
        let name = self.possible_subcommand(words)?;
        Self::command()
            .find_subcommand(name)
            .is_some()
            .then(|| name.to_owned())
    }

    /// What may have been meant by a command that cannot be run: a file of zctrace, or a subcommand
    /// of a similar name.
    pub fn meant_instead(&self, words: &[OsString]) -> Option<String> {
        let name = self.possible_subcommand(words)?;
        let path = Path::new(name);
        let subcommand = match path.extension().and_then(OsStr::to_str) {
            Some("json") => Some("report"),
            Some("toml") => Some("check"),
            _ => None,
        };
        if let Some(subcommand) = subcommand.filter(|_| path.is_file()) {
            let name = command_line(&[name.to_owned()]);
            return Some(format!("did you mean: zctrace {subcommand} {name}?"));
        }
        let command = Self::command();
        let subcommands = command.get_subcommands().map(clap::Command::get_name);
        let similar = nearest_name(name, subcommands)?;
        Some(format!("did you mean the subcommand '{similar}'?"))
    }

    /// The name of the command to trace, unless a subcommand or `--` comes before it.
    fn possible_subcommand(&self, words: &[OsString]) -> Option<&str> {
        let command = &self.run.command;
        let name = command
            .first()
            .filter(|_| self.action.is_none())?
            .to_str()?;
        let before = words
            .len()
            .checked_sub(command.len() + 1)
            .and_then(|place| words.get(place))?;
        (before != "--").then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
