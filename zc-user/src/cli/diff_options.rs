//! Options of `zctrace diff`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ColorChoice, ValueHint};
use zctrace::{backend::Choice, render::DiffFormat};

use super::values::{LimitArgs, default_word, one_of};

/// Examples, shown after the options.
pub const EXAMPLES: &str = "\
Examples:
  zctrace --format json -o a.json cp in out
  zctrace diff a.json b.json             what changed between the two
  zctrace diff a.json -- cp in out       what changes in a new run
  zctrace report --format json log | zctrace diff a.json -
  zctrace diff --format markdown a.json b.json    for a comment on a pull request

This compares calls, errors, bytes and the interfaces that moved the bytes. It ignores what differs in every run: times, \
context switches, page faults, and calls by which threads wait for each other, such as futex.

Exit status: 0 if nothing changed, 1 if something did, 3 if something cannot be compared; 125 if zctrace itself failed.";

/// Options of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The saved report from before the change; `-` reads stdin.
    ///
    /// Save one with `zctrace --format json -o FILE`.
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,

    /// The saved report from after the change.
    #[arg(value_name = "B", value_hint = ValueHint::FilePath, required_unless_present = "command")]
    pub after: Option<PathBuf>,

    /// A command to run instead of reading B, traced with the options of A.
    #[arg(last = true, value_name = "CMD", conflicts_with = "after", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Trace with this backend: auto, ebpf or strace [default: the backend of A].
    #[arg(long, value_parser = one_of::<Choice>(), hide_possible_values = true, requires = "command", default_value = default_word::<Choice>(), hide_default_value = true)]
    pub backend: Choice,

    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: DiffFormat,

    /// Write the result to this file [default: stdout, or stderr if a command runs].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// When to use colour.
    ///
    /// `auto` uses it on a terminal, unless `NO_COLOR` or `TERM=dumb` is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,

    /// How much is kept of a traced command.
    #[command(flatten)]
    pub limits: LimitArgs,
}
