//! Which calls are counted: names, classes, regular expressions, or all.

use std::collections::BTreeSet;

use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{abi::Abi, class::CallClass, defs::table, spec::Spec};
use crate::{
    text::debug_as_display,
    words::{did_you_mean, nearest_name},
};

/// A set of calls to count, or those that were counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Counted", description = "Which calls a run counted.")]
pub enum Selection {
    /// Every one.
    All,
    /// Those of these names.
    Names(BTreeSet<String>),
}

/// Why a set of calls cannot be read.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// A name that is neither a call nor a class.
    #[error("unknown {} '{name}'{}", kind_of_name(name), with_suggestion(*suggestion))]
    UnknownCall {
        /// What the user wrote.
        name: String,
        /// The nearest known name.
        suggestion: Option<&'static str>,
    },
    /// A regular expression that matches no call.
    #[error("no system call matches '{0}'")]
    NoMatch(String),
    /// What follows a `/` is not a regular expression.
    #[error("'{word}' is not a regular expression: {reason}")]
    NotRegex {
        /// What the user wrote.
        word: String,
        /// What is wrong with it.
        reason: String,
    },
}

debug_as_display!(SelectionError);

impl Default for Selection {
    /// The calls that move data.
    fn default() -> Self {
        Self::Names(in_class(CallClass::Data).map(str::to_owned).collect())
    }
}

impl std::str::FromStr for Selection {
    type Err = SelectionError;

    /// A comma-separated list of names, classes and regular expressions
    /// (`read,write,%network,/^open`), or `all`. With a `!` before it: all calls but these.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // As strace's users write it.
        let text = text.strip_prefix("trace=").unwrap_or(text);
        if let Some(others) = text.trim().strip_prefix('!') {
            let excluded: Self = others.parse()?;
            let others = known_names().filter(|name| !excluded.contains(name));
            return Self::from_names(others).ok_or_else(|| unknown_call(text));
        }
        let words = text.split(',').map(str::trim);
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        if words.iter().any(|word| ["all", "%all"].contains(word)) {
            return Ok(Self::All);
        }
        let mut names = Vec::new();
        for word in words {
            names.extend(calls_meant_by(word)?);
        }
        Self::from_names(names).ok_or_else(|| unknown_call(text))
    }
}

impl Selection {
    /// These calls; `None` if there are none.
    fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        (!names.is_empty()).then_some(Self::Names(names))
    }

    /// The same calls, if this version knows all of them: another one may have saved the set.
    pub fn if_known(self) -> Result<Self, SelectionError> {
        if let Self::Names(names) = &self {
            for name in names {
                if !known_names().any(|known| known == name) {
                    return Err(unknown_call(name));
                }
            }
        }
        Ok(self)
    }

    /// Whether calls of this name are counted.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => has_call(name, |name| names.contains(name)),
        }
    }

    /// These calls and those of these names.
    #[must_use]
    pub(crate) fn with_calls<'a>(self, others: impl IntoIterator<Item = &'a str>) -> Self {
        match self {
            Self::All => Self::All,
            Self::Names(mut names) => {
                names.extend(others.into_iter().map(str::to_owned));
                Self::Names(names)
            }
        }
    }

    /// Whether a call of this kind is counted.
    pub(crate) fn contains_any(&self, is_meant: fn(&Spec) -> bool) -> bool {
        let mut calls = table().filter(|spec| self.contains(spec.name));
        calls.any(is_meant)
    }

    /// Whether the operations of `io_uring` are counted. They are selected by the call that submits
    /// them.
    pub fn contains_rings(&self) -> bool {
        self.contains("io_uring_enter")
    }
}

/// Whether a set of names has this call. `ioctl` stands for all its variants, too.
pub(crate) fn has_call(name: &str, has: impl Fn(&str) -> bool) -> bool {
    has(name) || (name.starts_with("ioctl(") && has("ioctl"))
}

/// What an unknown name was meant to be.
fn kind_of_name(name: &str) -> &'static str {
    if name.starts_with('%') {
        "class"
    } else {
        "system call"
    }
}

fn with_suggestion(suggestion: Option<&str>) -> String {
    if suggestion.is_some() {
        return did_you_mean(suggestion);
    }
    let classes: Vec<String> = class_names().map(|class| format!("%{class}")).collect();
    format!(" (classes are {}; 'all' is every call)", classes.join(", "))
}

/// Names of classes, without `%`.
pub fn class_names() -> impl Iterator<Item = &'static str> {
    CallClass::ALL.into_iter().map(CallClass::name)
}

/// The calls of the class of this name, without `%`. `net` is strace's short name of `network`.
pub(crate) fn calls_of_class(class: &str) -> Option<Vec<&'static str>> {
    let name = if class == "net" { "network" } else { class };
    CallClass::from_name(name).map(|class| in_class(class).collect())
}

/// The calls that a word of a set stands for. As in strace, a class needs no `%`, and comes before
/// a call of the same name (`signal` and `ipc` are calls of 32-bit programs).
fn calls_meant_by(word: &str) -> Result<Vec<&'static str>, SelectionError> {
    if let Some(regex) = word.strip_prefix('/') {
        return calls_matching(word, regex);
    }
    if let Some(calls) = calls_of_class(word.strip_prefix('%').unwrap_or(word)) {
        return Ok(calls);
    }
    match known_names().find(|name| *name == word) {
        Some(name) => Ok(vec![name]),
        None => Err(unknown_call(word)),
    }
}

/// The calls whose names this regular expression matches, anywhere in them.
fn calls_matching(word: &str, regex: &str) -> Result<Vec<&'static str>, SelectionError> {
    let word = word.to_owned();
    let regex = match Regex::new(regex) {
        Ok(regex) => regex,
        Err(error) => {
            let reason = error.to_string();
            return Err(SelectionError::NotRegex { word, reason });
        }
    };
    let matching: Vec<&str> = known_names().filter(|name| regex.is_match(name)).collect();
    if matching.is_empty() {
        return Err(SelectionError::NoMatch(word));
    }
    Ok(matching)
}

fn in_class(class: CallClass) -> impl Iterator<Item = &'static str> {
    table()
        .filter(move |spec| spec.is_in(class))
        .map(|spec| spec.name)
}

/// The name of every call of this machine, 64-bit or 32-bit.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    let numbered = [Abi::NATIVE, Abi::COMPAT].into_iter().flat_map(Abi::names);
    in_class(CallClass::Data).chain(numbered)
}

fn unknown_call(word: &str) -> SelectionError {
    SelectionError::UnknownCall {
        name: word.to_owned(),
        suggestion: nearest_name(word, known_names()),
    }
}

/// The call of this machine that another name stands for.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    let suffixes = ["_time64", "64", "32"].into_iter();
    let stripped = suffixes.filter_map(|suffix| name.strip_suffix(suffix));
    let spelled = [
        format!("{name}64"),
        format!("rt_{name}"),
        format!("new{name}"),
    ];
    let replacement = Spec::named(name).replacement;
    for candidate in
        (replacement.into_iter().chain(stripped)).chain(spelled.iter().map(String::as_str))
    {
        let call = native_call(candidate);
        let call = call.or(Spec::named(candidate).replacement.and_then(native_call));
        if call.is_some() {
            return call;
        }
    }
    None
}

/// The call of this name that 64-bit programs have.
fn native_call(name: &str) -> Option<&'static str> {
    known_names().find(|known| *known == name && Abi::is_native(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_for_strace() {
        let parse = |text: &str| text.parse::<Selection>();
        for (text, same) in [
            ("trace=file", "%file"),
            ("file,read", "read,%file"),
            ("%net", "%network"),
            ("signal", "%signal"),
            ("!net", "!%network"),
            ("/^open(at)?$", "open,openat"),
            ("/^statx$,/^read$", "statx,read"),
        ] {
            assert_eq!(parse(text), parse(same), "{text}");
            assert!(parse(text).is_ok(), "{text}");
        }
        assert!(parse("/^open").is_ok_and(|set| set.contains("openat2") && !set.contains("read")));
        assert!(parse("/sync").is_ok_and(|set| set.contains("fdatasync")));
        for (text, said) in [
            ("/^raed", "no system call matches '/^raed'"),
            ("/(", "'/(' is not a regular expression: "),
            ("%fiel", "unknown class '%fiel' (classes are %data, "),
            ("", "unknown system call ''"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn a_saved_set_has_calls_only_and_no_classes() {
        let saved = Selection::Names(["signal".to_owned()].into());
        assert_eq!(saved.clone().if_known(), Ok(saved));
        let other = Selection::Names(["read_of_the_future".to_owned()].into());
        assert!(other.if_known().is_err());
    }

    #[test]
    fn a_name_of_another_table_is_translated() {
        let is_arm = cfg!(target_arch = "aarch64");
        let native = if is_arm { "newfstatat" } else { "stat" };
        assert_eq!(meant_by("stat64"), Some(native));
        let native = if is_arm { "fchownat" } else { "chown" };
        assert_eq!(meant_by("chown32"), Some(native));
    }
}
