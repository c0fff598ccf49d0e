//! Which calls are counted: names, classes, or all.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{abi::Abi, class::CallClass, defs::table, spec::Spec};
use crate::words::{did_you_mean, nearest};

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

/// A name that is neither a call nor a class.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown system call '{name}'{}", hint(*suggestion))]
pub struct UnknownSyscall {
    /// What the user wrote.
    pub name: String,
    /// The nearest known name.
    pub suggestion: Option<&'static str>,
}

impl Default for Selection {
    /// The calls that move data.
    fn default() -> Self {
        Self::Names(in_class(CallClass::Data).map(str::to_owned).collect())
    }
}

impl std::str::FromStr for Selection {
    type Err = UnknownSyscall;

    /// A comma-separated list of names and classes (`read,write,%network`), or `all`. With a `!`
    /// before it: all calls but these.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // As strace's users write it.
        let text = text.strip_prefix("trace=").unwrap_or(text);
        if let Some(others) = text.trim().strip_prefix('!') {
            let excluded: Self = others.parse()?;
            let others = known_names().filter(|name| !excluded.contains(name));
            let names: BTreeSet<String> = others.map(str::to_owned).collect();
            return if names.is_empty() {
                Err(unknown(text))
            } else {
                Ok(Self::Names(names))
            };
        }
        let mut names = BTreeSet::new();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word.strip_prefix('%') {
                _ if word == "all" || word == "%all" => return Ok(Self::All),
                Some(class) => names.extend(calls_of_class(class).ok_or_else(|| unknown(word))?),
                None => {
                    let known = known_names().find(|name| *name == word);
                    names.insert(known.ok_or_else(|| unknown(word))?);
                }
            }
        }
        if names.is_empty() {
            return Err(unknown(text));
        }
        Ok(Self::Names(names.into_iter().map(str::to_owned).collect()))
    }
}

impl Selection {
    /// Whether calls of this name are counted.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => covers(name, |name| names.contains(name)),
        }
    }

    /// These calls and those of these names.
    #[must_use]
    pub(crate) fn with<'a>(self, others: impl IntoIterator<Item = &'a str>) -> Self {
        match self {
            Self::All => Self::All,
            Self::Names(mut names) => {
                names.extend(others.into_iter().map(str::to_owned));
                Self::Names(names)
            }
        }
    }

    /// Whether the operations of `io_uring` are counted. They are selected by the call that submits
    /// them.
    pub fn contains_rings(&self) -> bool {
        self.contains("io_uring_enter")
    }
}

/// Whether a set of names has this call. `ioctl` stands for all its variants, too.
pub(crate) fn covers(name: &str, has: impl Fn(&str) -> bool) -> bool {
    has(name) || (name.starts_with("ioctl(") && has("ioctl"))
}

fn hint(suggestion: Option<&str>) -> String {
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

/// The calls of the class of this name, without `%`.
pub(crate) fn calls_of_class(class: &str) -> Option<Vec<&'static str>> {
    CallClass::from_name(class).map(|class| in_class(class).collect())
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

fn unknown(word: &str) -> UnknownSyscall {
    UnknownSyscall {
        name: word.to_owned(),
        suggestion: nearest(word, known_names()),
    }
}

/// The call of this machine that another name stands for.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    let stripped = ["_time64", "64", "32"]
        .into_iter()
        .filter_map(|suffix| name.strip_suffix(suffix))
        .map(str::to_owned);
    let spelled = [
        format!("{name}64"),
        format!("rt_{name}"),
        format!("new{name}"),
    ];
    let native =
        |candidate: &str| known_names().find(|known| *known == candidate && Abi::is_native(known));
    let replacement = |name: &str| Spec::named(name).replacement;
    let mut candidates = replacement(name)
        .map(str::to_owned)
        .into_iter()
        .chain(stripped)
        .chain(spelled);
    candidates.find_map(|candidate| {
        native(&candidate).or_else(|| replacement(&candidate).and_then(native))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_table_is_translated() {
        let is_arm = cfg!(target_arch = "aarch64");
        let native = if is_arm { "newfstatat" } else { "stat" };
        assert_eq!(meant_by("stat64"), Some(native));
        let native = if is_arm { "fchownat" } else { "chown" };
        assert_eq!(meant_by("chown32"), Some(native));
    }
}
