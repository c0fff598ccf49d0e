//! Calls that take a path and failed or succeeded, by that path; and how those that failed are
//! summed up for a person.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{errno, text::is_library, trace};

/// Calls that failed with the same error on the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedPath {
    /// The call.
    pub syscall: String,
    /// Its ABI, as in [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The error.
    pub errno: String,
    /// The path as the program gave it. `None`: it could not be read, or the program gave none.
    pub path: Option<String>,
    /// Where the path starts.
    #[serde(default)]
    pub base: PathBase,
    /// Whether the path may be longer: only its beginning was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_cut: bool,
    /// How often.
    pub calls: u64,
}

/// Calls that succeeded on the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SucceededPath {
    /// The call.
    pub syscall: String,
    /// Its ABI, as in [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The path as the program gave it. `None`: it could not be read, or the program gave none.
    pub path: Option<String>,
    /// Where the path starts.
    pub base: PathBase,
    /// Whether the path may be longer: only its beginning was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_cut: bool,
    /// How often.
    pub calls: u64,
}

impl SucceededPath {
    /// All of a trace, the most frequent first; `None`: they were not recorded.
    pub(super) fn all_of(paths: &trace::FailedPaths) -> Option<Vec<Self>> {
        let succeeded = paths
            .has_successes
            .then(|| by_path(paths, |errno| errno == 0));
        let without_errno = |one: FailedPath| Self {
            syscall: one.syscall,
            abi: one.abi,
            path: one.path,
            base: one.base,
            path_cut: one.path_cut,
            calls: one.calls,
        };
        Some(succeeded?.into_iter().map(without_errno).collect())
    }
}

/// Where a path starts that a program gave to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathBase {
    /// At the root: the path is absolute.
    Root,
    /// In the directory where the command was launched
    /// ([`Report::directory`](super::Report::directory)): no process changed its own, and the call
    /// named no other.
    Directory,
    /// In a directory that is not known.
    #[default]
    Unknown,
}

impl PathBase {
    fn of_path(path: Option<&trace::GivenPath>, all: &trace::FailedPaths) -> Self {
        match path {
            Some(path) if path.text.starts_with('/') => Self::Root,
            Some(path) if !path.is_below_descriptor && !all.directory_may_change => Self::Directory,
            _ => Self::Unknown,
        }
    }
}

impl FailedPath {
    /// All of a trace, the most frequent first.
    pub(super) fn all_of(paths: &trace::FailedPaths) -> Vec<Self> {
        by_path(paths, |errno| errno != 0)
    }

    /// Whether a program looked for a library, a locale or `SELinux` that need not exist: most
    /// programs do when they start.
    fn is_search(&self) -> bool {
        /// Parts of the paths of the C library's locales, character sets and builds for better
        /// processors, and of libselinux.
        const OF_LIBRARIES: [&str; 6] = [
            "/locale/",
            "/locale-archive",
            "/gconv/",
            "/charset.alias",
            "/glibc-hwcaps/",
            "/selinux",
        ];
        let is_looked_for =
            |path: &str| is_library(path) || OF_LIBRARIES.iter().any(|part| path.contains(part));
        self.errno == "ENOENT" && self.path.as_deref().is_some_and(is_looked_for)
    }

    /// Whether the error is an answer: that a path is no symbolic link. Programs ask that of every
    /// part of a path to resolve it.
    fn is_answer(&self) -> bool {
        self.errno == "EINVAL" && matches!(self.syscall.as_str(), "readlink" | "readlinkat")
    }
}

/// The calls with these errnos (0: those that succeeded), the most frequent first.
fn by_path(paths: &trace::FailedPaths, is_meant: impl Fn(u32) -> bool) -> Vec<FailedPath> {
    let one = |(one, &calls): (&trace::FailedPath, &u64)| FailedPath {
        syscall: one.call.name.to_string(),
        abi: one.call.abi.name().to_owned(),
        errno: errno::name(one.errno),
        path: one.path.as_ref().map(|path| path.text.clone()),
        base: PathBase::of_path(one.path.as_ref(), paths),
        path_cut: one.path.as_ref().is_some_and(|path| path.is_cut),
        calls,
    };
    let mut all: Vec<FailedPath> = paths
        .calls
        .iter()
        .filter(|(one, _)| is_meant(one.errno))
        .map(one)
        .collect();
    all.sort_by_key(|one| Reverse(one.calls));
    all
}

/// Splits off what is only a search for libraries, locales and the like, and returns it first. The
/// loader also asks for the directories in which it then looks for a library. Where the error only
/// says that a path is no symbolic link, it is in neither.
pub fn split_searches(failed: &[FailedPath]) -> (Vec<&FailedPath>, Vec<&FailedPath>) {
    let libraries = failed
        .iter()
        .filter(|one| one.is_search())
        .filter_map(|one| one.path.as_deref());
    let directories: BTreeSet<&str> = libraries
        .filter(|path| is_library(path))
        .map(directory)
        .collect();
    let is_of_library = |one: &FailedPath| {
        one.errno == "ENOENT"
            && one
                .path
                .as_deref()
                .is_some_and(|path| directories.contains(path))
    };
    failed
        .iter()
        .filter(|one| !one.is_answer())
        .partition(|one| one.is_search() || is_of_library(one))
}

/// Failed calls with the same error, on one path or in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedGroup<'a> {
    /// The error.
    pub errno: &'a str,
    /// Where.
    pub place: Place<'a>,
    /// The names of the calls.
    pub syscalls: BTreeSet<&'a str>,
    /// How many calls.
    pub calls: u64,
}

/// Where calls failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place<'a> {
    /// On this path.
    Path(&'a str),
    /// On several paths in this directory; empty: on relative paths without a directory.
    Directory(&'a str),
    /// On paths that are not known.
    Unknown,
}

/// A directory stands for its paths if calls failed on at least so many of them, with the same
/// error.
const MANY_PATHS: usize = 3;

/// Sums up failed calls by error and path, or by directory if there are many paths in it. The most
/// frequent come first.
pub fn failed_groups<'a>(failed: &[&'a FailedPath]) -> Vec<FailedGroup<'a>> {
    let mut paths: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for one in failed {
        if let Some(path) = &one.path {
            paths
                .entry((&one.errno, directory(path)))
                .or_default()
                .insert(path);
        }
    }
    let stands_for_paths = |errno: &str, directory: &str| {
        directory != "/"
            && paths
                .get(&(errno, directory))
                .is_some_and(|paths| paths.len() >= MANY_PATHS)
    };
    let place = |one: &'a FailedPath| match one.path.as_deref() {
        None => Place::Unknown,
        Some(path) if stands_for_paths(&one.errno, directory(path)) => {
            Place::Directory(directory(path))
        }
        Some(path) => Place::Path(path),
    };
    let mut groups: BTreeMap<(&str, Place<'_>), FailedGroup<'_>> = BTreeMap::new();
    for one in failed.iter().copied() {
        let place = place(one);
        let empty = || FailedGroup {
            errno: &one.errno,
            place,
            syscalls: BTreeSet::new(),
            calls: 0,
        };
        let group = groups.entry((&one.errno, place)).or_insert_with(empty);
        group.calls += one.calls;
        group.syscalls.insert(&one.syscall);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.calls));
    groups
}

/// The directory that a path names before its last part; empty if there is none.
fn directory(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((directory, _)) => directory,
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(syscall: &str, errno: &str, path: Option<&str>, calls: u64) -> FailedPath {
        FailedPath {
            syscall: syscall.into(),
            abi: "x86_64".into(),
            errno: errno.into(),
            path: path.map(str::to_owned),
            base: PathBase::Unknown,
            path_cut: false,
            calls,
        }
    }

    #[test]
    fn few_paths_are_listed_and_many_are_summed_up_by_directory_and_error() {
        let all = [
            failed("openat", "ENOENT", Some("/etc/x/a"), 20),
            failed("openat", "ENOENT", Some("/etc/x/b"), 10),
            failed("stat", "ENOENT", Some("/etc/x/c"), 10),
            failed("openat", "EACCES", Some("/etc/x/c"), 15),
            failed("stat", "EACCES", Some("/etc/x/c"), 15),
            failed("open", "EIO", None, 9),
            failed("openat", "ENOENT", Some("a"), 3),
            failed("openat", "ENOENT", Some("b/"), 1),
            failed("openat", "ENOENT", Some("c"), 1),
            failed("openat", "ENOENT", Some("/1"), 3),
            failed("openat", "ENOENT", Some("/2"), 2),
            failed("openat", "ENOENT", Some("/3"), 1),
        ];
        let expected = [
            r#"40 ENOENT Directory("/etc/x") {"openat", "stat"}"#,
            r#"30 EACCES Path("/etc/x/c") {"openat", "stat"}"#,
            r#"9 EIO Unknown {"open"}"#,
            r#"5 ENOENT Directory("") {"openat"}"#,
            r#"3 ENOENT Path("/1") {"openat"}"#,
            r#"2 ENOENT Path("/2") {"openat"}"#,
            r#"1 ENOENT Path("/3") {"openat"}"#,
        ];
        let all: Vec<&FailedPath> = all.iter().collect();
        let groups = failed_groups(&all);
        let lines = groups.iter().map(|group| {
            let (calls, errno) = (group.calls, group.errno);
            format!("{calls} {errno} {:?} {:?}", group.place, group.syscalls)
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_directory_of_a_missing_library_is_part_of_its_search() {
        let all = [
            failed("stat", "ENOENT", Some("/opt/tls"), 1),
            failed("openat", "ENOENT", Some("/opt/tls/libc.so.6"), 1),
            failed("stat", "ENOENT", Some("/opt/app"), 1),
            failed("stat", "EACCES", Some("/opt/tls"), 1),
        ];
        let (searches, others) = split_searches(&all);
        assert_eq!(
            (searches, others),
            (vec![&all[0], &all[1]], vec![&all[2], &all[3]])
        );
    }

    #[test]
    fn what_the_loader_and_the_locale_look_for_is_a_search() {
        let is_search =
            |errno: &str, path: &str| failed("openat", errno, Some(path), 1).is_search();
        for path in [
            "/etc/ld.so.preload",
            "/lib/glibc-hwcaps/x86-64-v3/libc.so.6",
            "/usr/share/locale/de/LC_MESSAGES/git.mo",
        ] {
            assert!(is_search("ENOENT", path), "{path}");
            assert!(!is_search("EACCES", path), "{path}");
        }
        assert!(!is_search("ENOENT", "/etc/app.conf") && !is_search("ENOENT", "locale"));
        assert!(
            failed("readlink", "EINVAL", Some("/usr"), 1).is_answer()
                && !failed("openat", "EINVAL", Some("/usr"), 1).is_answer()
        );
    }
}
