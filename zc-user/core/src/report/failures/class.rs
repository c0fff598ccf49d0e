//! What a failed call says about how the command ended: its class.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    directory_of,
    facts::{MISSING, is_answer, is_hidden, is_question, is_rare},
    last_part,
};
use crate::{
    ends::End,
    report::{
        failed_paths::{FailedPath, PathBase, is_asking},
        model::Report,
    },
    text::is_library,
};

/// The error of a connection that is not there yet.
pub(super) const CONNECTING: &str = "EINPROGRESS";

/// What a failed call says about how the command ended. The first one that holds is its class, and the
/// classes that say most come first. Calls for the same missing name share the first of their classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureClass {
    /// It executes a program, and the exit status (126, 127) says that this failed.
    Program,
    /// The command line names its path.
    Named,
    /// It did not get what it needs.
    #[default]
    Refusal,
    /// It opens what the command may do without: a hidden file, or one that it did not find before later
    /// searches found theirs.
    Optional,
    /// It only asks, as `stat` does, or the command succeeded without what it did not find.
    Question,
    /// A file of that name was found elsewhere.
    Search,
    /// The error is the answer to what the call asks, or its path was found later, or most machines lack
    /// it.
    Answer,
}

/// The facts by which the failed calls of a report are classified.
pub(super) struct Classifier<'a> {
    report: &'a Report,
    /// In which directories each name is missing.
    missing: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// In which directories a library is missing.
    library_directories: BTreeSet<&'a str>,
}

impl<'a> Classifier<'a> {
    pub(super) fn new(report: &'a Report, failed: &'a [FailedPath]) -> Self {
        let missing = failed.iter().filter(|one| one.errno == MISSING);
        let missing = directories_by_name(missing);
        let libraries = missing.iter().filter(|(name, _)| is_library(name));
        Self {
            report,
            library_directories: libraries.flat_map(|(_, paths)| paths).copied().collect(),
            missing,
        }
    }

    /// These calls, the last one first, each with its class.
    pub(super) fn classify(&self, failed: &'a [FailedPath]) -> Vec<(FailureClass, &'a FailedPath)> {
        let mut classified: Vec<_> = failed.iter().map(|one| (self.class(one), one)).collect();
        if self.report.exit.has_failed() && !self.lacks_program() {
            mark_optional(&mut classified);
        }
        share_by_name(&mut classified);
        classified
    }

    fn class(&self, one: &FailedPath) -> FailureClass {
        if self.is_answer(one) {
            FailureClass::Answer
        } else if self.is_program(one) {
            FailureClass::Program
        } else if self.is_named(one) {
            if self.is_answered(one) {
                FailureClass::Question
            } else {
                FailureClass::Named
            }
        } else if self.is_search(one) {
            FailureClass::Search
        } else if self.is_question(one) {
            FailureClass::Question
        } else if is_hidden(one) {
            FailureClass::Optional
        } else {
            FailureClass::Refusal
        }
    }

    fn is_answer(&self, one: &FailedPath) -> bool {
        let path = one.path.as_deref();
        let needs_no_file = |path| is_rare(path) || self.library_directories.contains(path);
        match one.errno.as_str() {
            MISSING if one.path_found || path.is_some_and(needs_no_file) => true,
            CONNECTING => !self.report.exit.has_failed() || self.has_used(path),
            _ => is_answer(one),
        }
    }

    /// Shells, `env`, `chroot` and others end so if they cannot execute a program.
    fn lacks_program(&self) -> bool {
        matches!(self.report.exit.code, Some(126 | 127))
    }

    /// Whether it tried to execute the program that could not be executed. One that was found was missing
    /// only in the directories before.
    fn is_program(&self, one: &FailedPath) -> bool {
        self.lacks_program()
            && one.syscall.starts_with("execve")
            && !(one.name_found && self.is_missing_in_several(one))
    }

    /// Whether its name is missing in several directories.
    fn is_missing_in_several(&self, one: &FailedPath) -> bool {
        let directories = self.missing.get(name_of(one).unwrap_or_default());
        directories.is_some_and(|directories| directories.len() > 1)
    }

    fn is_named(&self, one: &FailedPath) -> bool {
        let is_known = matches!(one.base, PathBase::Root | PathBase::Directory);
        let Some(path) = one.path.as_deref().filter(|_| is_known) else {
            return false;
        };
        let below = self.below_directory(path);
        let words = self.report.command.iter().skip(1);
        let mut words = words.map(|word| word.strip_prefix("./").unwrap_or(word));
        words.any(|word| word == path.strip_prefix("./").unwrap_or(path) || Some(word) == below)
    }

    /// Whether what a call asked about a path of the command line says little: any answer if the command
    /// succeeded, else that a path is no directory, no symbolic link, or there already.
    fn is_answered(&self, one: &FailedPath) -> bool {
        let has_succeeded = self.report.exit.code == Some(0);
        let is_existence = one.errno == MISSING && !one.syscall.starts_with("readlink");
        is_question(one) && (has_succeeded || !is_existence)
    }

    /// Whether it was a step of a search. A call that opens a file in a place of the working directory
    /// means that one.
    fn is_search(&self, one: &FailedPath) -> bool {
        let looks = is_asking(&one.syscall) || one.syscall.starts_with("execve");
        let is_step = match one.errno.as_str() {
            MISSING => looks || !self.is_in_directory(one),
            "EACCES" => looks,
            _ => false,
        };
        is_step && one.name_found && one.second_path.is_none()
    }

    fn is_in_directory(&self, one: &FailedPath) -> bool {
        let path = one.path.as_deref().unwrap_or_default();
        let is_relative = !path.starts_with('/') && path.contains('/');
        is_relative || self.below_directory(path).is_some()
    }

    /// An absolute path as it is relative to the working directory.
    fn below_directory<'b>(&self, path: &'b str) -> Option<&'b str> {
        let below = path.strip_prefix(self.report.directory.as_deref()?)?;
        below.strip_prefix('/')
    }

    fn is_question(&self, one: &FailedPath) -> bool {
        let has_succeeded = self.report.exit.code == Some(0);
        let does_without = has_succeeded && one.errno == MISSING && one.second_path.is_none();
        // Shells ask for a program in each directory.
        let may_be_program = self.lacks_program() && self.is_missing_in_several(one);
        does_without || is_question(one) && !may_be_program
    }

    /// Whether bytes were received from this host or sent to it; without an address: from any.
    fn has_used(&self, address: Option<&str>) -> bool {
        let is_it = |file: Option<&End>| {
            let peer = file.and_then(|file| file.peer.as_deref());
            peer.is_some() && (address.is_none() || peer == address)
        };
        let read = self.report.all_sources();
        let mut read = read.filter(|one| one.read_bytes != Some(0));
        let written = self.report.all_destinations();
        let mut written = written.filter(|one| one.written_bytes != Some(0));
        read.any(|one| is_it(one.file.as_ref())) || written.any(|one| is_it(one.file.as_ref()))
    }
}

/// Marks what was not found before a search found its file.
fn mark_optional(classified: &mut [(FailureClass, &FailedPath)]) {
    let is_found = |(class, _): &(FailureClass, _)| *class == FailureClass::Search;
    let last_search = classified.iter().position(is_found);
    for (class, one) in classified
        .iter_mut()
        .skip(last_search.unwrap_or(usize::MAX))
    {
        if *class == FailureClass::Refusal && one.errno == MISSING {
            *class = FailureClass::Optional;
        }
    }
}

/// Gives calls for the same missing name the first of their classes.
fn share_by_name(classified: &mut [(FailureClass, &FailedPath)]) {
    let mut by_name: BTreeMap<&str, FailureClass> = BTreeMap::new();
    for (class, one) in &*classified {
        if let Some(name) = name_of_missing(*class, one) {
            let first = by_name.entry(name).or_insert(*class);
            *first = (*first).min(*class);
        }
    }
    for (class, one) in classified {
        if let Some(name) = name_of_missing(*class, one) {
            *class = by_name[name];
        }
    }
}

/// The name by which calls for a missing file share a class.
fn name_of_missing(class: FailureClass, one: &FailedPath) -> Option<&str> {
    let is_shared = !matches!(class, FailureClass::Named | FailureClass::Answer);
    name_of(one).filter(|_| is_shared && one.errno == MISSING && one.second_path.is_none())
}

fn name_of(one: &FailedPath) -> Option<&str> {
    one.path.as_deref().map(last_part)
}

/// The directories of the paths of these calls, by the last part of the paths.
pub(super) fn directories_by_name<'a>(
    calls: impl Iterator<Item = &'a FailedPath>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let whole = calls.filter(|one| !one.path_cut);
    for path in whole.filter_map(|one| one.path.as_deref()) {
        let directories = names.entry(last_part(path)).or_default();
        directories.insert(directory_of(path));
    }
    names
}
