//! Calls that take a path and failed or succeeded, by that path; and calls without a path that failed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zc_ebpf::PathSums;

use super::error_meanings;
use crate::{
    errno,
    syscalls::{Call, CallEffect, PathForm},
    text::file_name,
    trace::{self, File, Thread, Trace},
};

/// Calls that failed with the same error on the same path, or that succeeded on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedPath {
    /// The call.
    pub syscall: String,
    /// As [`Syscall::abi`](super::Syscall::abi).
    pub abi: String,
    /// The error. Left out in `succeeded_paths`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub errno: String,
    /// The path as the program gave it, or that of the file on which the call failed. `None`:
    /// unknown, or none.
    pub path: Option<String>,
    /// Where the path starts; of two paths, the less known one.
    #[serde(default)]
    pub base: PathBase,
    /// Whether a path may be longer; eBPF keeps 239 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_cut: bool,
    /// The second path of a call that looks up two, such as `rename`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_path: Option<String>,
    /// Whether a file of the same name was executed, read, written or mapped anywhere, so that this
    /// was probably a step of a search. If the call only asks, as `stat` does, one with another extension
    /// or a directory counts as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_found: bool,
    /// As `name_found`, for this very path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_found: bool,
    /// What the error means for this call. Left out: no more than its name says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// How often.
    pub calls: u64,
}

/// Where the path of a call starts.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PathBase {
    /// At the root: the path is absolute, or the address of a host.
    Root,
    /// In [`Report::directory`](super::Report::directory).
    Directory,
    /// In an unknown directory that the call named by a descriptor.
    Descriptor,
    /// In an unknown directory.
    #[default]
    Unknown,
}

impl PathBase {
    fn of_path(path: Option<&trace::GivenPath>, all: &trace::FailedPaths) -> Self {
        match path {
            Some(path) if path.text.starts_with('/') => Self::Root,
            Some(path) if path.is_below_descriptor => Self::Descriptor,
            Some(_) if !all.directory_may_change => Self::Directory,
            _ => Self::Unknown,
        }
    }
}

impl FailedPath {
    /// All of a trace, the one that failed last first; `None`: they were not looked at.
    pub(super) fn all_of(trace: &Trace) -> Option<Vec<Self>> {
        let paths = trace.failed_paths.as_ref()?;
        Some(by_path(paths, &FoundFiles::of_trace(trace), |errno| {
            errno != 0
        }))
    }

    /// The calls of a trace that succeeded, the last one first; `None`: they were not recorded.
    pub(super) fn all_that_succeeded(trace: &Trace) -> Option<Vec<Self>> {
        let paths = trace.failed_paths.as_ref()?;
        let nothing_found = FoundFiles::default();
        let is_success = |errno| errno == 0;
        paths
            .has_successes
            .then(|| by_path(paths, &nothing_found, is_success))
    }

    /// The calls that take no path and failed, the most frequent first: with the path of their file if
    /// they have one whose path is known. Whether a call may be repeated at once is no failure, nor
    /// is one between two files unless the second one is full: the transfer has it as an attempt.
    pub(super) fn all_without_path(trace: &Trace) -> Vec<Self> {
        let mut calls: BTreeMap<FailedCall<'_>, u64> = BTreeMap::new();
        let processes = trace.all_processes();
        let rows = processes.flat_map(|process| process.threads.iter().flat_map(Thread::all_rows));
        for row in rows.filter(|row| row.errors > 0 && row.call.spec().path.is_none()) {
            let mut files = row.files();
            let (file, second) = (files.next(), files.next());
            let is_between_files = second.is_some();
            let file = if is_between_files {
                row.ends.output
            } else {
                file
            };
            let file = file.and_then(|file| file.in_files(&trace.files));
            let is_direct = file.is_some_and(File::is_direct);
            let path = file.and_then(|file| file.path.as_deref());
            let path = path.filter(|path| path.starts_with('/'));
            let errnos = row.errnos.iter();
            for (&errno, &count) in
                errnos.filter(|(errno, _)| !is_between_files || is_full(**errno))
            {
                *calls
                    .entry((&row.call, errno, path, is_direct))
                    .or_default() += count;
            }
        }
        let recorded = trace.failed_paths.iter().flat_map(|paths| &paths.calls);
        for (one, sums) in recorded.filter(|(one, _)| !has_path(one)) {
            *calls
                .entry((&one.call, one.errno, None, false))
                .or_default() += sums.calls;
        }
        calls.retain(|(call, errno, ..), _| !may_be_repeated(call, *errno));
        let one = |((call, errno, path, is_direct), calls): (FailedCall<'_>, u64)| Self {
            syscall: call.name.to_string(),
            abi: call.abi.name().to_owned(),
            errno: errno::name(errno),
            path: path.map(str::to_owned),
            base: path.map_or(PathBase::Unknown, |_| PathBase::Root),
            path_cut: false,
            second_path: None,
            name_found: false,
            path_found: false,
            meaning: meaning(errno, call, is_direct),
            calls,
        };
        let mut all: Vec<Self> = calls.into_iter().map(one).collect();
        all.sort_by_key(|one| Reverse(one.calls));
        all
    }
}

/// A call without a path, its errno, the path of its file, and whether that was opened with `O_DIRECT`.
type FailedCall<'a> = (&'a Call, u32, Option<&'a str>, bool);

/// What the error means of this call. `is_direct`: its file was opened with `O_DIRECT`.
fn meaning(errno: u32, call: &Call, is_direct: bool) -> Option<String> {
    error_meanings::error_meaning(&errno::name(errno), &call.name, is_direct).map(str::to_owned)
}

/// Whether the error only says that the call may be made again.
fn may_be_repeated(call: &Call, errno: u32) -> bool {
    zc_ebpf::may_be_repeated(errno, call.spec().effect == CallEffect::CreatesTask)
}

/// Whether the error says that nothing more can be written there.
fn is_full(errno: u32) -> bool {
    [libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EIO].contains(&errno.cast_signed())
}

/// Whether the call takes a path, or was given one.
fn has_path(one: &trace::FailedPath) -> bool {
    one.call.spec().takes_path() || one.paths[0].is_some()
}

/// The files that were executed, read, written or mapped.
#[derive(Default)]
struct FoundFiles<'a> {
    /// Their names, without their directories.
    names: BTreeSet<&'a str>,
    /// Their names without extensions, and the names of their directories.
    stems: BTreeSet<&'a str>,
    /// The paths of those whose path is known.
    paths: BTreeSet<&'a str>,
    /// Where relative paths start that have [`PathBase::Directory`].
    directory: &'a str,
}

impl<'a> FoundFiles<'a> {
    fn of_trace(trace: &'a Trace) -> Self {
        let files = trace.files.iter().filter_map(|file| file.path.as_deref());
        let paths: BTreeSet<&str> = files.collect();
        let processes = trace.all_processes();
        let programs = processes.flat_map(|process| {
            let command = process.command.as_deref().unwrap_or_default();
            [process.exe.as_deref(), command.first().map(String::as_str)]
        });
        let all = programs.flatten().chain(paths.iter().copied());
        let (mut names, mut stems) = (BTreeSet::new(), BTreeSet::new());
        for path in all {
            names.insert(file_name(path));
            stems.extend(path.split('/').map(stem));
        }
        Self {
            names,
            stems,
            paths,
            directory: trace.directory.as_deref().unwrap_or_default(),
        }
    }

    /// Whether a file has this name. A library may be found by a symbolic link to a name with more
    /// of its version. What is asked for in turn with several extensions is found with one of them.
    fn has_name(&self, name: &str, call: &str) -> bool {
        let has_longer = || {
            let longer = format!("{name}.");
            let next = self.names.range(&*longer..).next();
            next.is_some_and(|next| next.starts_with(&longer))
        };
        let is_library = Path::new(name).extension().is_some_and(|it| it == "so");
        let has_extensions = is_asking(call) || is_library;
        self.names.contains(name)
            || name.contains(".so") && has_longer()
            || has_extensions && !stem(name).is_empty() && self.stems.contains(stem(name))
    }

    fn has_path(&self, path: &str, base: PathBase) -> bool {
        match base {
            PathBase::Root => self.paths.contains(path),
            PathBase::Directory => self.paths.contains(&*format!("{}/{path}", self.directory)),
            PathBase::Descriptor | PathBase::Unknown => false,
        }
    }
}

/// A name without its extensions; empty if it is hidden.
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// The calls with these errnos (0: those that succeeded), the last one first.
fn by_path(
    paths: &trace::FailedPaths,
    found: &FoundFiles<'_>,
    is_meant: impl Fn(u32) -> bool,
) -> Vec<FailedPath> {
    let one = |(one, sums): (&trace::FailedPath, &PathSums)| {
        let [path, second] = one.paths.each_ref().map(Option::as_ref);
        let is_address = one.call.spec().path_form == PathForm::Address;
        let base_of = |path: Option<&trace::GivenPath>| match path {
            Some(path) if is_address && path.text.parse::<SocketAddr>().is_ok() => PathBase::Root,
            _ => PathBase::of_path(path, paths),
        };
        let base = base_of(path);
        FailedPath {
            syscall: one.call.name.to_string(),
            abi: one.call.abi.name().to_owned(),
            errno: Some(one.errno)
                .filter(|errno| *errno > 0)
                .map(errno::name)
                .unwrap_or_default(),
            path: path.map(|path| path.text.clone()),
            base: second.map_or(base, |second| base.max(base_of(Some(second)))),
            path_cut: one.paths.iter().flatten().any(|path| path.is_cut),
            second_path: second.map(|path| path.text.clone()),
            name_found: path
                .is_some_and(|path| found.has_name(file_name(&path.text), &one.call.name)),
            path_found: path.is_some_and(|path| found.has_path(&path.text, base)),
            meaning: meaning(one.errno, &one.call, false),
            calls: sums.calls,
        }
    };
    let calls = paths.calls.iter();
    let mut meant: Vec<_> = calls
        .filter(|(one, _)| is_meant(one.errno) && has_path(one))
        .collect();
    meant.sort_by_key(|(_, sums)| Reverse(sums.last));
    meant.into_iter().map(one).collect()
}

/// Calls that ask whether there is a file, or what it is.
const ASKING: [&str; 10] = [
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "statfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
];

/// Whether the call asks whether there is a file, or what it is.
pub(super) fn is_asking(syscall: &str) -> bool {
    ASKING.contains(&syscall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_a_link_to_a_longer_version() {
        let names = BTreeSet::from(["libz.so.1.2.13", "libz.so.10", "a.conf.d"]);
        let found = FoundFiles {
            names,
            ..FoundFiles::default()
        };
        let names = [
            "libz.so.1",
            "libz.so",
            "libz.so.10",
            "libz.so.2",
            "a.conf",
            "liby.so",
        ];
        let is_found = names.map(|name| found.has_name(name, "openat"));
        assert_eq!(is_found, [true, true, true, false, false, false]);
    }

    #[test]
    fn what_is_asked_for_with_several_extensions_is_found_with_one() {
        let found = FoundFiles {
            stems: BTreeSet::from(["", "json", "syn", "libgcc", "dist-packages"]),
            ..FoundFiles::default()
        };
        for (name, call, is_found) in [
            ("json.so", "newfstatat", true),
            ("syn.c.gch", "stat", true),
            ("dist-packages", "access", true),
            ("libgcc.so", "openat", true),
            ("syn.h", "openat", false),
            ("libgcc.so.1", "openat", false),
            (".git", "stat", false),
        ] {
            assert_eq!(found.has_name(name, call), is_found, "{name} {call}");
        }
    }
}
