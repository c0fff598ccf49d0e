//! The command line: what a person writes, as plain options.

mod about;
mod check;
mod choose;
mod compare;
mod limits;
mod mistake;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use zctrace::{
    backend::Choice,
    render::{Format, PlainFormat},
    report::{Detail, SortKey},
    syscall::Selection,
};

pub use about::{completions, manual};
pub use check::CheckArgs;
pub use compare::CompareArgs;
pub use limits::LimitArgs;
pub use mistake::one_line;

use choose::{one_of, usual};

/// Show which system calls a command makes, how many bytes they move, and what they cost.
#[derive(Debug, Parser)]
#[command(name = "zctrace", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "zctrace [run] [OPTIONS] [--] CMD...", after_help = EXAMPLES)]
pub struct Cli {
    /// What to do; `run` if left out.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Options of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

const EXAMPLES: &str = "\
Examples:
  zctrace cp big.iso /mnt/               which calls copied it, and how fast were they?
  zctrace --by thread ./server           the calls of each thread
  zctrace --syscalls read,%network CMD
  zctrace --format json -o report.json make -j8
  zctrace --format markdown -o \"$GITHUB_STEP_SUMMARY\" ./run-tests

Options come before the command: what follows its name is the command's own.

The report goes to stderr, so that the command's stdout stays its own; -o sends it elsewhere.
The exit status is the command's own; 125 if zctrace itself failed.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run a command, and report what it did (the default).
    #[command(override_usage = "zctrace run [OPTIONS] [--] CMD...", after_help = EXAMPLES)]
    Run(RunArgs),
    /// Time commands untraced, count what each of them does in one traced run, and show both side by side.
    #[command(override_usage = "zctrace compare [OPTIONS] CMD...", after_help = compare::EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// Run commands, and check that they call the kernel as they should; for CI.
    #[command(override_usage = "zctrace check [OPTIONS] [FILE] [NAME]...\n       zctrace check [OPTIONS] --expect E -- CMD...", after_help = check::EXAMPLES)]
    Check(Box<CheckArgs>),
    /// Show a saved JSON report, or strace logs, again.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// Show what this machine lets zctrace do, and the command that enables the rest.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Print the JSON Schema of reports.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// Print what makes a shell complete zctrace's options.
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
  zctrace doctor                         what can each backend do here?
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
  zctrace report --format csv r.json     the same for a spreadsheet
  zctrace report trace.log               a log of `strace -f -T -o trace.log`
  zctrace report trace.log.*             the files of `strace -ff -T -o trace.log`";

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A JSON report, or one log of strace, or all files of one `strace -ff`.
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,

    /// Calls to count, if the files are logs.
    #[arg(short = 'e', long, value_name = "SET", default_value = "all")]
    pub syscalls: Selection,

    /// How it is shown.
    #[command(flatten)]
    pub look: LookArgs,

    /// Show the lines of a log that are not understood.
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Form of the answer.
    #[arg(long, value_enum, default_value_t)]
    pub format: PlainFormat,

    /// When to use colour.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorWhen,
}

/// How a report is shown.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct LookArgs {
    /// Form of the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Write the report to this file (`-`: stdout).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Order of the rows.
    #[arg(long, value_parser = one_of::<SortKey>(), default_value = usual::<SortKey>())]
    pub sort: SortKey,

    /// Whom to show the calls of.
    #[arg(long, value_parser = one_of::<Detail>(), default_value = usual::<Detail>())]
    pub by: Detail,

    /// Show every process, also where there are many.
    #[arg(long)]
    pub all_processes: bool,

    /// List what was done with each file.
    #[arg(long)]
    pub files: bool,

    /// List what each call of each process did to each file, in JSON.
    #[arg(long)]
    pub file_calls: bool,

    /// Show every transfer (and with --files every file), also where there are many.
    #[arg(long)]
    pub all_transfers: bool,

    /// When to use colour.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorWhen,
}

/// Options of `run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct RunArgs {
    /// The command and its arguments; after `--` if it is called like a subcommand of zctrace, or begins with a dash.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Calls to count: names and classes (%data, %network, %file, %desc, %memory, %process, %signal, %ipc), or `all`.
    #[arg(short = 'e', long, value_name = "SET", default_value = "%data", hide_default_value = false)]
    pub syscalls: Selection,

    /// Wait for every descendant, not only for the command itself.
    #[arg(long)]
    pub wait_all: bool,

    /// Run the command as this user: a name, or UID[:GID].
    #[arg(long, value_name = "USER", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// What traces the command.
    #[arg(long, value_parser = one_of::<Choice>(), default_value = usual::<Choice>())]
    pub backend: Choice,

    /// Run the command under both backends, one after the other, and compare what they count; exit status 1 if they differ.
    #[arg(long, conflicts_with = "backend")]
    pub verify: bool,

    /// Set a variable in the command's environment, and not in zctrace's own. Can be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,

    /// Die with zctrace, as it does for `check`.
    #[arg(long, hide = true)]
    pub bound: bool,

    /// How it is shown.
    #[command(flatten)]
    pub look: LookArgs,

    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,

    /// Show what the backend does: tasks followed, maps full; lines not understood.
    #[arg(short, long)]
    pub verbose: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb` say otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The name and the value of an environment variable.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is no variable with its value: write it as in --env NAME=VALUE")),
    }
}

impl Cli {
    /// What was asked for, with `run` as the default.
    pub fn into_action(self) -> Action {
        self.action.unwrap_or(Action::Run(self.run))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
