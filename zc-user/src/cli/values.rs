//! What the options of several subcommands have in common: words, limits, colour.

use std::{
    borrow::Cow,
    ffi::OsString,
    path::{self, Path},
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use nix::unistd::User;
use zctrace::{backend::Limits, launch::Identity, report::ChosenPath};
use zctrace_core::{text::from_os, words::Word};

/// What `--callers` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CallersArg {
    /// Sample call 1, 2, 4, 8, ... of each thread, system call and file.
    Some,
    /// Sample every call.
    All,
    /// Stacks for flame graphs, short for `--callers --format folded`.
    Folded,
    /// A profile for the Firefox Profiler, short for `--callers --format firefox`.
    Firefox,
}

/// A path that `--path` takes.
#[derive(Debug, Clone)]
pub struct PathArg(pub ChosenPath);

impl From<OsString> for PathArg {
    fn from(given: OsString) -> Self {
        let path = Path::new(&given);
        let parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        let absolute = path::absolute(path).ok();
        let real = path.canonicalize().ok().or_else(parent);
        Self(ChosenPath {
            resolved: absolute.into_iter().chain(real).map(from_os).collect(),
            given: from_os(&given),
        })
    }
}

/// The name and the value of an environment variable.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    name_and_value(text, "a variable", "--env NAME=VALUE")
}

/// A label of a report.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    name_and_value(text, "a label", "--label commit=1a2b3c")
}

fn name_and_value(text: &str, what: &str, example: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("'{text}' is not {what} with a value; write it as in {example}"))
}

/// A length of time with its unit: a number without one is in seconds, as for timeout(1).
pub(super) fn with_unit(time: &str) -> Cow<'_, str> {
    if time.parse::<f64>().is_ok_and(f64::is_finite) {
        format!("{time}s").into()
    } else {
        time.into()
    }
}

/// The time in ns. None is longer than the longest that fits.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Finds the user that `--user` means: a name, or `UID[:GID]`. Without a GID the group is that of
/// the user, or the one with the same number.
pub fn find_identity(text: &str) -> anyhow::Result<Identity> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        let (uid, gid) = text
            .split_once(':')
            .map_or((text, None), |(uid, gid)| (uid, Some(gid)));
        let number = |part: &str| {
            part.parse::<u32>()
                .with_context(|| format!("'{text}' is not a user; write a name or UID[:GID]"))
        };
        let uid = number(uid)?;
        let user = User::from_uid(uid.into()).ok().flatten();
        let own_group = || user.map_or(uid, |user| user.gid.as_raw());
        return Ok(Identity {
            uid,
            gid: gid.map(number).transpose()?.unwrap_or_else(own_group),
        });
    }
    match User::from_name(text)? {
        Some(user) => Ok(Identity {
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
        }),
        None => bail!("there is no user '{text}'"),
    }
}

/// How much a traced run may keep; what does not fit is counted, and the report says so.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the options"
)]
pub struct LimitArgs {
    /// Maximum number of rows (threads times calls) to keep, and as many again per file.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_rows, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_rows: u32,

    /// Maximum number of files to tell apart at the same time.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_files, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_files: u32,

    /// Maximum number of tasks to follow at the same time.
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
