//! What the options of several subcommands have in common: words, limits, colour.

use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use zctrace::backend::Limits;
use zctrace_core::words::Word;

/// What `--callers` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CallersArg {
    /// Sample the calls 1, 2, 4, 8, ... of each thread, call and files.
    Some,
    /// Sample every call.
    All,
    /// As `some`, and write the stacks for flame graphs: short for `--callers --format folded`.
    Folded,
    /// As `some`, and write a profile for the Firefox Profiler: short for `--callers --format
    /// firefox`.
    Firefox,
}

/// The name and the value of an environment variable.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "'{text}' is not a variable with a value; write it as in --env NAME=VALUE"
        )),
    }
}

/// How much a traced run may keep; what does not fit is counted, and the report says so.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the options"
)]
pub struct LimitArgs {
    /// Most rows (threads times calls) to keep; as many again by file.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_rows, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_rows: u32,

    /// Most files to tell apart at the same time.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_files, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_files: u32,

    /// Most tasks to follow at the same time.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_tasks, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    max_tasks: u32,
}

impl LimitArgs {
    /// The limits as backends take them.
    pub fn limits(&self) -> Limits {
        Limits {
            max_rows: self.max_rows,
            max_files: self.max_files,
            max_tasks: self.max_tasks,
        }
    }
}

/// A parser for the words of this type. Help and completions list them with their meaning.
pub(super) fn one_of<T: Word + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let words = T::ALL
        .iter()
        .map(|value| PossibleValue::new(value.word()).help(value.help()));
    PossibleValuesParser::new(words)
        .map(|word| T::from_word(&word).expect("clap rejects other words"))
}

/// The word for the default value.
pub(super) fn default_word<T: Word + Default>() -> &'static str {
    T::default().word()
}
