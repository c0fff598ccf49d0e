//! Options of `zctrace diff`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ColorChoice, ValueHint};
use zctrace::{backend::Choice, render::DiffFormat};

use super::values::{LimitArgs, default_word, one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace --format json -o a.json cp in out
  zctrace diff a.json b.json             what changed between the two?
  zctrace diff a.json -- cp in out       and what if the command runs again?
  zctrace report --format json log | zctrace diff a.json -
  zctrace diff --format markdown a.json b.json    for a comment on a pull request

All calls, errors, bytes and the interfaces that moved the bytes are compared. What differs in every run is not: times, \
context switches, page faults, and calls by which threads wait for each other, such as futex.

Exit status: 0 if nothing changed, 1 if something did, 3 if something cannot be compared; 125 if zctrace itself failed.";

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// A saved report, as it was before (`zctrace --format json -o FILE`); `-` is stdin.
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,

    /// A saved report, as it is now.
    #[arg(value_name = "B", value_hint = ValueHint::FilePath, required_unless_present = "command")]
    pub after: Option<PathBuf>,

    /// A command to run instead; it is traced as the command of A was.
    #[arg(last = true, value_name = "CMD", conflicts_with = "after", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// The backend that traces the command [default: that of A].
    #[arg(long, value_parser = one_of::<Choice>(), requires = "command", default_value = default_word::<Choice>(), hide_default_value = true)]
    pub backend: Choice,

    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: DiffFormat,

    /// Write the result to this file [default: stdout; stderr if a command is run, whose stdout is
    /// its own].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// When to use colour; `auto`: on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,

    /// How much is kept of a traced command.
    #[command(flatten)]
    pub limits: LimitArgs,
}
