//! The failed calls of a report, summed up for a person: those that say most about how the command
//! ended come first.

mod class;
mod facts;
mod groups;

use std::{cmp::Reverse, collections::BTreeMap};

pub use class::FailureClass;
pub use facts::is_used_at_start;
pub use groups::{FailedGroup, Place};

use self::{
    class::{CONNECTING, Classifier},
    facts::MISSING,
};
use super::{
    failed_paths::{FailedPath, PathBase},
    model::{Exit, Report},
};
use crate::{ends::End, text::file_name, transfer::Transfer};

/// Failed calls, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures<'a> {
    /// Those that may matter, by class, error and place: all up to [`Refusal`](FailureClass::Refusal), and
    /// while the command runs, what is missing up to [`Question`](FailureClass::Question). If a question
    /// failed last of all calls and the command failed, it is there as well. Within a class, other errors
    /// than `ENOENT` come first, and calls without a place last; then the last ones if the command failed,
    /// else the most frequent ones.
    pub groups: Vec<FailedGroup<'a>>,
    /// If there are no groups: the last lookup that found its file nowhere.
    pub last_missing: Option<FailedGroup<'a>>,
    /// How many calls failed, in [`groups`](Self::groups) or not.
    pub calls: u64,
    /// How many calls found nothing at their path (`ENOENT`), in [`groups`](Self::groups) or not.
    pub lookups: u64,
    /// The directory in which most of them looked, and how many did.
    pub most_lookups: Option<(&'a str, u64)>,
}

/// The error of a call that would have to wait.
const WOULD_WAIT: &str = "EAGAIN";
/// The error of a connection that the other host refused. Of TCP, only an attempt to connect has it.
const REFUSED: &str = "ECONNREFUSED";

impl Exit {
    /// Whether the command exited with a status other than 0.
    pub fn has_given_up(&self) -> bool {
        self.code.is_some_and(|code| code != 0)
    }

    /// Whether the command exited with a status other than 0, or a signal killed it.
    pub fn has_failed(&self) -> bool {
        self.has_given_up() || self.signal.is_some()
    }
}

impl Report {
    /// Its failed calls, summed up.
    pub fn failures(&self) -> Failures<'_> {
        let failed = self.totals.failed_paths.as_deref().unwrap_or_default();
        let without_path = &self.totals.failed_without_path;
        let facts = Classifier::new(self, failed);
        let mut classified = facts.classify(failed);
        classified.extend(facts.classify(without_path));
        let mut groups = groups::by_place(&classified);
        if self.exit.has_given_up() {
            groups.extend(self.transfers.iter().filter_map(stopped_by_eagain));
        }
        sort_groups(&mut groups, self.exit.has_failed());
        let last_missing = last_missing(&groups).cloned();
        self.keep_told(&mut groups);
        self.add_outcomes(&mut groups);
        let lookups = failed.iter().filter(|one| one.errno == MISSING);
        Failures {
            last_missing: last_missing.filter(|_| groups.is_empty()),
            groups,
            calls: failed.iter().chain(without_path).map(|one| one.calls).sum(),
            lookups: lookups.clone().map(|one| one.calls).sum(),
            most_lookups: most_by_directory(lookups),
        }
    }

    /// Keeps the groups that [`Failures::groups`] has.
    fn keep_told(&self, groups: &mut Vec<FailedGroup<'_>>) {
        let no_answers = groups.iter().filter(|one| one.class < FailureClass::Answer);
        let last = no_answers.map(|one| one.index).min();
        let is_running = self.exit.code.is_none() && self.exit.signal.is_none();
        let has_failed = self.exit.has_failed();
        groups.retain(|one| match one.class {
            FailureClass::Program | FailureClass::Named | FailureClass::Refusal => true,
            FailureClass::Optional | FailureClass::Question if is_running => one.errno == MISSING,
            FailureClass::Question => has_failed && Some(one.index) == last,
            FailureClass::Optional | FailureClass::Search | FailureClass::Answer => false,
        });
    }

    /// Gives connections that were made in the background their outcome, if the program asked for that of
    /// as many sockets, and all were refused. Of UDP, that error need not be of a connection.
    fn add_outcomes(&self, groups: &mut Vec<FailedGroup<'_>>) {
        let is_told = |group: &FailedGroup<'_>| {
            group.errno == REFUSED && group.syscalls.first() == Some(&"getsockopt")
        };
        let is_connecting = |group: &FailedGroup<'_>| group.errno == CONNECTING;
        let told: u64 = calls_of(groups, is_told);
        if told == 0 || told != calls_of(groups, is_connecting) || self.has_udp() {
            return;
        }
        groups.retain(|group| !is_told(group));
        for group in groups.iter_mut().filter(|group| is_connecting(group)) {
            (group.errno, group.meaning, group.is_socket_error) = (REFUSED, None, true);
        }
    }

    fn has_udp(&self) -> bool {
        let is_udp = |file: Option<&End>| file.and_then(|file| file.kind.as_deref()) == Some("udp");
        self.all_sources().any(|one| is_udp(one.file.as_ref()))
            || self.all_destinations().any(|one| is_udp(one.file.as_ref()))
    }
}

/// The calls of these groups.
fn calls_of(groups: &[FailedGroup<'_>], is_meant: impl Fn(&FailedGroup<'_>) -> bool) -> u64 {
    let meant = groups.iter().filter(|group| is_meant(group));
    meant.map(|group| group.calls).sum()
}

/// Sorts by what says most, as [`Failures::groups`] says.
fn sort_groups(groups: &mut [FailedGroup<'_>], has_failed: bool) {
    groups.sort_by_key(|group| {
        let is_missing = group.errno == MISSING;
        let has_no_place = group.place == Place::Unknown;
        // The lists begin with the last.
        let calls = Reverse(if has_failed { 0 } else { group.calls });
        (group.class, is_missing, has_no_place, calls, group.index)
    });
}

/// The last lookup that found its file nowhere, though that need not be why the command failed.
fn last_missing<'a, 'b>(groups: &'b [FailedGroup<'a>]) -> Option<&'b FailedGroup<'a>> {
    let is_lookup = |group: &&FailedGroup<'_>| {
        group.errno == MISSING
            && matches!(group.class, FailureClass::Optional | FailureClass::Question)
    };
    groups
        .iter()
        .filter(is_lookup)
        .min_by_key(|group| group.index)
}

/// The calls of a transfer that would have had to wait, if it did not reach the end of its source.
fn stopped_by_eagain(transfer: &Transfer) -> Option<FailedGroup<'_>> {
    let is_short = transfer.bytes < transfer.from.size && transfer.bytes.is_some();
    let (errno, calls) = transfer.retries.get_key_value(WOULD_WAIT)?;
    let names = transfer.calls_by_syscall.keys().map(String::as_str);
    is_short.then(|| FailedGroup {
        errno,
        syscalls: names.collect(),
        calls: *calls,
        index: usize::MAX,
        ..FailedGroup::default()
    })
}

/// The directory in which most of these calls looked, and how many did. `None`: in none that is known.
fn most_by_directory<'a>(calls: impl Iterator<Item = &'a FailedPath>) -> Option<(&'a str, u64)> {
    let mut directories: BTreeMap<&str, u64> = BTreeMap::new();
    for one in calls.filter(|one| one.base == PathBase::Root) {
        if let Some(path) = &one.path {
            *directories.entry(directory_of(path)).or_default() += one.calls;
        }
    }
    let mut directories = directories.into_iter();
    let first = directories.next()?;
    Some(directories.fold(
        first,
        |most, next| if next.1 > most.1 { next } else { most },
    ))
}

/// The last part of a path.
fn last_part(path: &str) -> &str {
    file_name(path.trim_end_matches('/'))
}

/// The directory that a path names before its last part; empty if there is none.
fn directory_of(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((".", _)) | None => "",
        Some((directory, _)) => directory,
    }
}

#[cfg(test)]
mod failure_tests;
