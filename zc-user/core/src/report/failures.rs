//! The failed calls of a report, summed up for a person: what explains most comes first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    failed_paths::{FailedPath, PathBase},
    model::Report,
};
use crate::{
    text::{file_name, is_library},
    transfer::End,
};

/// Failed calls, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures<'a> {
    /// By error and place. Paths of the command line come first, and programs if the exit status says
    /// that one could not be executed; then other errors than ENOENT, those without a place last; then
    /// the last ones if the command failed, else the most frequent.
    pub groups: Vec<FailedGroup<'a>>,
    /// How many calls found nothing at their path (`ENOENT`), in [`groups`](Self::groups) or not. Those
    /// are not that only looked for something that need not be there: all if the command succeeded; else
    /// those for a file that was found elsewhere or made later, for one that calls such as `stat` asked
    /// for in several directories, for a library's directory, for a locale or `SELinux`.
    pub lookups: u64,
    /// The directory in which most of them looked, and how many did.
    pub most_lookups: Option<(&'a str, u64)>,
}

/// Failed calls with the same error, on one path, on one name or in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedGroup<'a> {
    /// The error.
    pub errno: &'a str,
    /// Where.
    pub place: Place<'a>,
    /// Whether that is in an unknown directory that the calls named by a descriptor.
    pub is_below_descriptor: bool,
    /// The names of the calls.
    pub syscalls: BTreeSet<&'a str>,
    /// How many calls.
    pub calls: u64,
    /// What the error means of one of them.
    pub meaning: Option<&'a str>,
    /// Where the first of them is in the lists of the report.
    index: usize,
    /// Whether it comes first: the command line names the path, or the command could not execute a
    /// program.
    pub is_first: bool,
}

/// Where calls failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place<'a> {
    /// On this path.
    Path(&'a str),
    /// On these two paths, and whether only their beginnings are known.
    Paths(&'a str, &'a str, bool),
    /// On a path that begins so; the rest was too long to be kept.
    LongPath(&'a str),
    /// On several paths in this directory.
    Directory(&'a str),
    /// On a file of this name, which is in none of so many directories; those with the shortest paths.
    Nowhere(&'a str, usize, [&'a str; 2]),
    /// On paths that are not known, or on none.
    Unknown,
}

/// A directory stands for its paths if calls failed on at least so many of them, with the same
/// error.
const MANY_PATHS: usize = 3;

/// The error of a path that is not there.
const MISSING: &str = "ENOENT";
/// The error of a path below a file.
const BELOW_FILE: &str = "ENOTDIR";
/// The error of a connection that is not there yet.
const CONNECTING: &str = "EINPROGRESS";

impl Report {
    /// Its failed calls, summed up.
    pub fn failures(&self) -> Failures<'_> {
        let failed = self.totals.failed_paths.as_deref().unwrap_or_default();
        let library_directories: BTreeSet<&str> = failed
            .iter()
            .filter_map(|one| one.path.as_deref().filter(|path| is_library(path)))
            .map(directory)
            .collect();
        let is_named = |one: &FailedPath| {
            let mut words = self.command.iter();
            let is_known = matches!(one.base, PathBase::Root | PathBase::Directory);
            is_known && words.any(|word| Some(word) == one.path.as_ref())
        };
        // Shells, `env`, `chroot` and others end so if they cannot execute a program.
        let lacks_program = matches!(self.exit.code, Some(126 | 127));
        // Of a program that was found, several tries were a search.
        let is_of_search = |one: &FailedPath| {
            let [name, path] = [one.path.as_deref().map(last_part), one.path.as_deref()];
            let mut paths = failed.iter().map(|other| other.path.as_deref());
            one.name_found && paths.any(|other| other != path && other.map(last_part) == name)
        };
        let is_reason = |one: &FailedPath| {
            lacks_program && one.syscall.starts_with("execve") && !is_of_search(one)
        };
        // A command that succeeded did without what it did not find.
        let has_succeeded = self.exit.code == Some(0);
        let may_be_search = |one: &FailedPath| {
            let path = one.path.as_deref().unwrap_or_default();
            let is_in_place = path.starts_with('/') || !path.contains('/');
            let looks = one.syscall.starts_with("execve") || is_asking(one) || has_succeeded;
            (one.errno == MISSING || one.errno == "EACCES" && looks)
                && one.name_found
                && is_in_place
                && !is_named(one)
        };
        let asked = names_asked_for(failed);
        let is_needless = |one: &FailedPath| {
            let path = one.path.as_deref();
            let is_asked = path.is_some_and(|path| asked.contains(last_part(path)));
            let needs_no_file = has_succeeded || is_asked && !lacks_program;
            let is_below_file = one.errno == BELOW_FILE && (has_succeeded || is_asking(one));
            one.errno == MISSING && needs_no_file && !is_named(one) || is_below_file
        };
        let is_search = |one: &&FailedPath| {
            let is_of_start = one.path.as_deref().is_some_and(|path| {
                one.errno == MISSING && (is_optional(path) || library_directories.contains(path))
            });
            let is_made = one.errno == MISSING && one.path_found;
            let may_be = is_of_start || is_made || may_be_search(one) && !is_reason(one);
            (may_be || is_needless(one)) && one.second_path.is_none()
        };
        let has_failed = self.exit.signal.is_some() || self.exit.code.is_some_and(|code| code != 0);
        let is_answer = |one: &FailedPath| {
            let is_connecting = one.errno == CONNECTING;
            is_answer(one, has_succeeded)
                || is_connecting && (!has_failed || self.has_used(one.path.as_deref()))
        };
        let lookups = failed.iter().filter(|one| one.errno == MISSING);
        let most_lookups = most_by_directory(lookups.clone());
        let lookups = lookups.map(|one| one.calls).sum();
        let failed = failed.iter().filter(|one| !is_answer(one));
        let (searches, failed): (Vec<_>, Vec<_>) = failed.partition(is_search);
        // A name that is missing in several directories is told with all of its calls.
        let is_missing = |one: &&FailedPath| one.errno == MISSING && !is_named(one);
        let missing = directories_by_name(failed.iter().copied().filter(is_missing));
        let is_told = |one: &&FailedPath| {
            let directories = missing.get(one.path.as_deref().map_or("", last_part));
            is_missing(one) && directories.is_some_and(|directories| directories.len() > 1)
        };
        let told: Vec<_> = searches.into_iter().filter(is_told).collect();
        let others = self.totals.failed_without_path.iter();
        let others = others.filter(|one| !is_answer(one));
        let failed = failed.into_iter().chain(told).chain(others);
        let mut groups = groups_by_place(failed, is_named, is_reason);
        if groups.iter().any(|group| !group.is_of_user()) {
            groups.retain(|group| !group.is_of_user());
        }
        groups.sort_by_key(|group| {
            let is_missing = group.errno == MISSING;
            let has_no_place = group.place == Place::Unknown;
            // The lists begin with the last.
            let calls = Reverse(if has_failed { 0 } else { group.calls });
            (
                !group.is_first,
                is_missing,
                has_no_place,
                calls,
                group.index,
            )
        });
        Failures {
            groups,
            lookups,
            most_lookups,
        }
    }
}

impl Report {
    /// Whether bytes were received from this host or sent to it; without an address: from any.
    fn has_used(&self, address: Option<&str>) -> bool {
        let is_it = |file: Option<&End>| {
            let peer = file.and_then(|file| file.peer.as_deref());
            peer.is_some() && (address.is_none() || peer == address)
        };
        let mut read = self.all_sources().filter(|one| one.read_bytes != Some(0));
        let mut written = self
            .all_destinations()
            .filter(|one| one.written_bytes != Some(0));
        read.any(|one| is_it(one.file.as_ref())) || written.any(|one| is_it(one.file.as_ref()))
    }
}

impl FailedGroup<'_> {
    /// Whether it is a configuration of a user that is not there, which is optional.
    fn is_of_user(&self) -> bool {
        let is_hidden = |path: &str| {
            path.starts_with('/')
                && (last_part(path).starts_with('.') || path.contains("/.config/"))
        };
        let is_optional = matches!(self.place, Place::Path(path) if is_hidden(path));
        self.errno == MISSING && is_optional && !self.is_first
    }
}

/// The directory in which most of these calls looked, and how many did. `None`: in none that is known.
fn most_by_directory<'a>(calls: impl Iterator<Item = &'a FailedPath>) -> Option<(&'a str, u64)> {
    let mut directories: BTreeMap<&str, u64> = BTreeMap::new();
    for one in calls.filter(|one| one.base == PathBase::Root) {
        if let Some(path) = &one.path {
            *directories.entry(directory(path)).or_default() += one.calls;
        }
    }
    let mut directories = directories.into_iter();
    let first = directories.next()?;
    Some(directories.fold(
        first,
        |most, next| if next.1 > most.1 { next } else { most },
    ))
}

/// Whether the call asks whether there is a file.
fn is_asking(one: &FailedPath) -> bool {
    const ASKING: [&str; 9] = [
        "stat",
        "lstat",
        "newfstatat",
        "statx",
        "access",
        "faccessat",
        "faccessat2",
        "readlink",
        "readlinkat",
    ];
    ASKING.contains(&one.syscall.as_str())
}

/// The names that are missing in several directories, and for which only calls looked that ask
/// whether there is a file: a search among places, which the program needs none of.
fn names_asked_for(failed: &[FailedPath]) -> BTreeSet<&str> {
    let mut directories: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut needed = BTreeSet::new();
    for one in failed.iter().filter(|one| one.errno == MISSING) {
        let Some(path) = one.path.as_deref() else {
            continue;
        };
        let name = last_part(path);
        if is_asking(one) {
            directories.entry(name).or_default().insert(directory(path));
        } else {
            needed.insert(name);
        }
    }
    let asked = directories
        .into_iter()
        .filter(|(_, places)| places.len() > 1);
    let asked = asked.map(|(name, _)| name);
    asked.filter(|name| !needed.contains(name)).collect()
}

/// Whether programs look for this path when they start, though most machines do not have it: parts
/// of the C library's locales and character sets, its cache of names, and parts of libselinux.
fn is_optional(path: &str) -> bool {
    const PARTS: [&str; 7] = [
        "/locale/",
        "/locale-archive",
        "/gconv/",
        "/charset.alias",
        "/ld.so.preload",
        "/nscd/socket",
        "/selinux",
    ];
    const PLACES: [&str; 7] = [
        "/usr/",
        "/lib",
        "/etc/",
        "/sys/",
        "/run/",
        "/var/run/",
        "/selinux",
    ];
    let is_of_system = PLACES.iter().any(|place| path.starts_with(place));
    is_of_system && PARTS.iter().any(|part| path.contains(part))
}

/// Whether the error is an answer: that there is no terminal, no child, no more to read, no such
/// attribute or time, that a path is no symbolic link, that a directory is there already, that a file is
/// no directory or cannot be polled or moved in, that something would be replaced, that a descriptor is
/// closed or no connection, that the kernel does not know an option, or that a limit stays. Rust asks by
/// a null pointer whether there is `statx`, others whether there is `seccomp`. A command that succeeded
/// did without memory that it could not map.
fn is_answer(failed: &FailedPath, has_succeeded: bool) -> bool {
    let path = failed.path.as_deref();
    match (failed.errno.as_str(), failed.syscall.as_str()) {
        ("ENOTTY" | "ECHILD" | "ENODATA" | "ESPIPE" | "ETIME" | "ECANCELED", _)
        | ("EINVAL", "readlink" | "readlinkat" | "prctl" | "rt_sigaction" | "pkey_alloc")
        | ("EEXIST", "mkdir" | "mkdirat" | "renameat2" | "epoll_ctl")
        | ("EPERM", "epoll_ctl" | "prlimit64")
        | ("ENOENT", "epoll_ctl")
        | ("EBADF", "close" | "fcntl" | "fstat")
        | ("ENOTSOCK" | "ENOTCONN", "getpeername" | "getsockname" | "getsockopt")
        | ("ENXIO", "lseek")
        | ("ETIMEDOUT", "futex") => true,
        ("ENOTDIR", _) => failed.path_found,
        ("EFAULT", "statx" | "seccomp") => path.is_none(),
        ("EBADF", "newfstatat") => path == Some(""),
        ("ENXIO", _) => path == Some("/dev/tty"),
        ("ENOMEM", "mmap") => has_succeeded,
        ("EIO", "read") => path == Some("/dev/ptmx"),
        _ => false,
    }
}

/// The directories of the paths of these calls, by the last part of the paths.
fn directories_by_name<'a>(
    calls: impl Iterator<Item = &'a FailedPath>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let whole = calls.filter(|one| !one.path_cut);
    for path in whole.filter_map(|one| one.path.as_deref()) {
        let directories = names.entry(last_part(path)).or_default();
        directories.insert(directory(path));
    }
    names
}

/// Sums up failed calls by error and path; by name, if a file is missing in several directories; by
/// directory, if calls failed on many paths in it.
fn groups_by_place<'a>(
    failed: impl Iterator<Item = &'a FailedPath> + Clone,
    is_named: impl Fn(&FailedPath) -> bool,
    is_reason: impl Fn(&FailedPath) -> bool,
) -> Vec<FailedGroup<'a>> {
    let names = directories_by_name(failed.clone().filter(|one| one.errno == MISSING));
    let mut paths: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for one in failed.clone() {
        let Some(path) = one.path.as_deref() else {
            continue;
        };
        let in_directory = paths.entry((&one.errno, directory(path))).or_default();
        in_directory.insert(path);
    }
    let place = |one: &'a FailedPath| {
        let Some(path) = one.path.as_deref() else {
            return Place::Unknown;
        };
        if let Some(second) = &one.second_path {
            return Place::Paths(path, second, one.path_cut);
        }
        if one.path_cut {
            return Place::LongPath(path);
        }
        let (name, directory) = (last_part(path), directory(path));
        let directories = names.get(name);
        if is_named(one) {
            return Place::Path(path);
        }
        let is_name = !matches!(name, "" | "." | "..");
        if let Some(directories) = directories.filter(|_| one.errno == MISSING && is_name)
            && let Some(shortest) = two_shortest(directories)
        {
            Place::Nowhere(name, directories.len(), shortest)
        } else if !matches!(directory, "" | "/")
            && paths[&(one.errno.as_str(), directory)].len() >= MANY_PATHS
        {
            Place::Directory(directory)
        } else {
            Place::Path(path)
        }
    };
    let mut groups: BTreeMap<_, FailedGroup<'_>> = BTreeMap::new();
    for (index, one) in failed.enumerate() {
        let is_below_descriptor = one.base == PathBase::Descriptor;
        let place = place(one);
        // Without a place, different calls have nothing to do with each other.
        let syscall = (place == Place::Unknown).then_some(one.syscall.as_str());
        let group = groups
            .entry((&one.errno, place, syscall, is_below_descriptor))
            .or_insert_with(|| FailedGroup {
                errno: &one.errno,
                place,
                is_below_descriptor,
                syscalls: BTreeSet::new(),
                calls: 0,
                meaning: None,
                index,
                is_first: false,
            });
        group.meaning = group.meaning.or(one.meaning.as_deref());
        group.is_first |= is_named(one) || is_reason(one);
        group.calls += one.calls;
        group.syscalls.insert(&one.syscall);
    }
    groups.into_values().collect()
}

/// The two shortest of these texts, if there are two.
fn two_shortest<'a>(texts: &BTreeSet<&'a str>) -> Option<[&'a str; 2]> {
    let mut texts: Vec<&str> = texts.iter().copied().collect();
    texts.sort_by_key(|text| text.len());
    texts.first_chunk().copied()
}

/// The last part of a path.
fn last_part(path: &str) -> &str {
    file_name(path.trim_end_matches('/'))
}

/// The directory that a path names before its last part; empty if there is none.
fn directory(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((".", _)) | None => "",
        Some((directory, _)) => directory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        Options, PathBase,
        sample::{copier, files::Scene},
    };

    fn failed(syscall: &str, errno: &str, path: Option<&str>, calls: u64) -> FailedPath {
        FailedPath {
            syscall: syscall.into(),
            abi: "x86_64".into(),
            errno: errno.into(),
            path: path.map(str::to_owned),
            base: PathBase::Root,
            path_cut: false,
            second_path: None,
            name_found: false,
            path_found: false,
            meaning: None,
            calls,
        }
    }

    /// The groups of these calls, one line each, and the number of lookups.
    fn summed(failed: &[FailedPath], without_path: &[FailedPath]) -> (Vec<String>, u64) {
        summed_at_exit(None, failed, without_path)
    }

    fn summed_at_exit(
        code: Option<i32>,
        failed: &[FailedPath],
        without_path: &[FailedPath],
    ) -> (Vec<String>, u64) {
        let mut report = Report::from_trace(&copier(), &Options::default());
        report.exit.code = code;
        report.command = vec!["sh".into(), "/named".into()];
        report.totals.failed_paths = Some(failed.to_vec());
        report.totals.failed_without_path = without_path.to_vec();
        let failures = report.failures();
        let line = |group: &FailedGroup<'_>| {
            let (calls, errno) = (group.calls, group.errno);
            let below = ["", "below "][usize::from(group.is_below_descriptor)];
            format!(
                "{calls} {errno} {:?} {below}{:?}",
                group.place, group.syscalls
            )
        };
        (failures.groups.iter().map(line).collect(), failures.lookups)
    }

    #[test]
    fn a_file_that_is_made_or_is_no_directory_is_no_failure() {
        let made = |errno| FailedPath {
            path_found: true,
            name_found: true,
            ..failed("openat", errno, Some("/named"), 1)
        };
        let probe = failed("statx", "EFAULT", None, 1);
        let all = [made("ENOENT"), made("ENOTDIR"), probe];
        assert_eq!(summed(&all, &[]), (Vec::new(), 1));
    }

    #[test]
    fn a_program_that_is_not_there_is_the_reason_of_status_127() {
        let of_shell = FailedPath {
            name_found: true,
            ..failed("execve", "ENOENT", Some("/nosuch/sh"), 1)
        };
        let all = [failed("openat", "EACCES", Some("/etc/x"), 9), of_shell];
        let denied = r#"9 EACCES Path("/etc/x") {"openat"}"#;
        assert_eq!(summed(&all, &[]), (vec![denied.to_owned()], 1));
        let missing = r#"1 ENOENT Path("/nosuch/sh") {"execve"}"#;
        let (groups, searches) = summed_at_exit(Some(127), &all, &[]);
        assert_eq!(
            (groups, searches),
            ([missing, denied].map(str::to_owned).to_vec(), 1)
        );
    }

    #[test]
    fn few_paths_are_listed_and_many_are_summed_up_by_directory_and_error() {
        let renamed = FailedPath {
            base: PathBase::Descriptor,
            path_cut: true,
            name_found: true,
            second_path: Some("b".into()),
            ..failed("rename", "ENOENT", Some("/etc/x/a"), 2)
        };
        let long = FailedPath {
            path_cut: true,
            ..failed("openat", "ENOENT", Some("/etc/lo"), 1)
        };
        let all = [
            renamed,
            failed("openat", "ENOENT", Some("/etc/x/a"), 20),
            failed("openat", "ENOENT", Some("/etc/x/b"), 10),
            failed("stat", "ENOENT", Some("/etc/x/e"), 10),
            failed("openat", "EACCES", Some("/etc/x/c"), 15),
            failed("stat", "EACCES", Some("/etc/x/c"), 15),
            failed("open", "EFAULT", None, 9),
            failed("openat", "ENOENT", Some("a1"), 3),
            failed("openat", "ENOENT", Some("b1/"), 1),
            failed("openat", "ENOENT", Some("c1"), 1),
            failed("openat", "ENOENT", Some("/1"), 3),
            failed("openat", "ENOENT", Some("/named"), 1),
            failed("mkdir", "EEXIST", Some("/etc"), 1),
            long,
        ];
        let expected = [
            r#"1 ENOENT Path("/named") {"openat"}"#,
            r#"30 EACCES Path("/etc/x/c") {"openat", "stat"}"#,
            r#"9 EFAULT Unknown {"open"}"#,
            r#"40 ENOENT Directory("/etc/x") {"openat", "stat"}"#,
            r#"3 ENOENT Path("a1") {"openat"}"#,
            r#"3 ENOENT Path("/1") {"openat"}"#,
            r#"2 ENOENT Paths("/etc/x/a", "b", true) below {"rename"}"#,
            r#"1 ENOENT Path("b1/") {"openat"}"#,
            r#"1 ENOENT Path("c1") {"openat"}"#,
            r#"1 ENOENT LongPath("/etc/lo") {"openat"}"#,
        ];
        let mut expected: Vec<String> = expected.map(str::to_owned).into();
        assert_eq!(summed(&all, &[]), (expected.clone(), 52));
        // What failed last explains an exit status.
        let renamed = expected.remove(6);
        expected.insert(3, renamed);
        let frequent = expected.remove(6);
        expected.insert(8, frequent);
        assert_eq!(summed_at_exit(Some(1), &all, &[]), (expected, 52));
    }

    #[test]
    fn a_call_without_a_path_is_a_failure_unless_its_error_is_an_answer() {
        let others = [
            failed("ioctl", "ENOTTY", None, 3),
            failed("epoll_ctl", "EPERM", None, 32),
            failed("kill", "EPERM", None, 1),
            failed("setns", "EPERM", None, 2),
            failed("sendto", "ENOTCONN", None, 3),
            failed("getpeername", "ENOTCONN", None, 3),
            failed("io_uring:write", "EIO", Some("/x"), 1),
        ];
        let expected = [
            r#"1 EIO Path("/x") {"io_uring:write"}"#,
            r#"3 ENOTCONN Unknown {"sendto"}"#,
            r#"2 EPERM Unknown {"setns"}"#,
            r#"1 EPERM Unknown {"kill"}"#,
        ];
        let expected = expected.map(str::to_owned);
        assert_eq!(summed(&[], &others), (expected.to_vec(), 0));
    }

    #[test]
    fn what_is_missing_everywhere_explains_and_what_was_found_elsewhere_is_a_search() {
        let found = |path| FailedPath {
            name_found: true,
            ..failed("newfstatat", "ENOENT", Some(path), 1)
        };
        let all = [
            found("/usr/local/bin/dd"),
            found("out"),
            found("/named"),
            found("conf/in"),
            failed("openat", "ENOENT", Some("/home/locale/x"), 1),
            failed("openat", "ENOENT", Some("x1"), 1),
            failed("openat", "ENOENT", Some("./x1"), 1),
            failed("openat", "ENOENT", Some("/etc/ld.so.preload"), 1),
            failed("openat", "ENOENT", Some("/usr/share/locale/de/git.mo"), 1),
            failed("openat", "ENOENT", Some("/lib/a/libgone.so"), 1),
            failed("openat", "ENOENT", Some("/lib/b/libgone.so"), 1),
            failed("newfstatat", "ENOENT", Some("/lib/a"), 1),
            failed("newfstatat", "EACCES", Some("/lib/a"), 1),
            failed("readlink", "EINVAL", Some("/usr"), 1),
            failed("openat", "ENOENT", Some("/a/gone/"), 1),
            failed("openat", "ENOENT", Some("/b/gone"), 1),
            failed("openat", "ENOENT", Some(""), 1),
        ];
        let without_path = [failed("write", "EINVAL", Some("/proc/1/uid_map"), 1)];
        let expected = [
            r#"1 ENOENT Path("/named") {"newfstatat"}"#,
            r#"1 EACCES Path("/lib/a") {"newfstatat"}"#,
            r#"1 EINVAL Path("/proc/1/uid_map") {"write"}"#,
            r#"2 ENOENT Nowhere("libgone.so", 2, ["/lib/a", "/lib/b"]) {"openat"}"#,
            r#"2 ENOENT Nowhere("gone", 2, ["/a", "/b"]) {"openat"}"#,
            r#"1 ENOENT Path("conf/in") {"newfstatat"}"#,
            r#"1 ENOENT Path("/home/locale/x") {"openat"}"#,
            r#"1 ENOENT Path("x1") {"openat"}"#,
            r#"1 ENOENT Path("./x1") {"openat"}"#,
            r#"1 ENOENT Path("") {"openat"}"#,
        ];
        let expected: Vec<String> = expected.map(str::to_owned).into();
        assert_eq!(summed(&all, &without_path), (expected, 15));
    }

    /// Another program of the run found it, so that all but the relative paths may be searches.
    #[test]
    fn a_name_that_is_missing_in_several_directories_is_told_with_all_of_its_calls() {
        let searched = |path, calls| FailedPath {
            name_found: true,
            ..failed("openat", "ENOENT", Some(path), calls)
        };
        let all = [
            searched("/lib/libnn.so", 300),
            searched("libnn.so", 140),
            searched("tls/libnn.so", 6),
            searched("x86_64/libnn.so", 4),
            searched("/lib/other.so", 7),
        ];
        let expected = r#"450 ENOENT Nowhere("libnn.so", 4, ["", "tls"]) {"openat"}"#.to_owned();
        assert_eq!(summed_at_exit(Some(127), &all, &[]), (vec![expected], 457));
        let most = most_by_directory(all.iter());
        assert_eq!(most, Some(("/lib", 307)));
    }

    #[test]
    fn a_connection_that_no_byte_went_over_explains_a_failure() {
        let mut scene = Scene::new();
        let [client, _] = scene.connection("10.0.0.1:5", "10.0.0.2:80");
        scene.name("client", client);
        scene.run("curl: read client 1 9");
        let connect = |address| failed("connect", "EINPROGRESS", Some(address), 1);
        let configuration = failed("openat", "ENOENT", Some("/root/.curlrc"), 1);
        let mut report = scene.report();
        let all = [connect("10.0.0.2:80"), connect("[::1]:80"), configuration];
        report.totals.failed_paths = Some(all.to_vec());
        let places = |report: &Report| -> Vec<String> {
            let groups = report.failures().groups.into_iter();
            groups.map(|group| format!("{:?}", group.place)).collect()
        };
        report.exit.code = Some(7);
        assert_eq!(places(&report), [r#"Path("[::1]:80")"#]);
        report.exit.code = Some(0);
        assert_eq!(places(&report), [""; 0]);
        // Without another reason, the configuration may be one.
        report.exit.code = Some(7);
        report.totals.failed_paths = Some(all[2..].to_vec());
        assert_eq!(places(&report), [r#"Path("/root/.curlrc")"#]);
    }

    #[test]
    fn what_a_command_that_succeeded_did_not_find_is_a_search() {
        let found = FailedPath {
            name_found: true,
            ..failed("newfstatat", "EACCES", Some("/root/bin/locale"), 1)
        };
        let all = [
            found,
            failed("newfstatat", "ENOTDIR", Some("/bin/pip/__main__.py"), 1),
            failed("openat", "ENOTDIR", Some("/named"), 1),
            failed("openat", "ENOENT", Some("/root/.curlrc"), 2),
            failed("openat", "EACCES", Some("/etc/shadow"), 1),
            failed("stat", "ENOENT", Some("/named"), 1),
        ];
        let expected = [
            r#"1 ENOENT Path("/named") {"stat"}"#,
            r#"1 EACCES Path("/etc/shadow") {"openat"}"#,
        ];
        let expected = expected.map(str::to_owned).to_vec();
        assert_eq!(summed_at_exit(Some(0), &all, &[]), (expected, 3));
    }

    #[test]
    fn a_name_that_is_asked_for_in_many_places_is_no_reason_unless_it_may_be_a_program() {
        let all = [
            failed("connect", "ENOENT", Some("/var/run/nscd/socket"), 2),
            failed("openat", "ENOENT", Some("/nonexist.json"), 1),
            failed("newfstatat", "ENOENT", Some("/lib/a/__init__.so"), 1),
            failed("newfstatat", "ENOENT", Some("/lib/b/__init__.so"), 1),
            failed("openat", "ENOENT", Some("/lib/a/libgone.so"), 1),
            failed("newfstatat", "ENOENT", Some("/lib/b/libgone.so"), 1),
        ];
        let missing = r#"1 ENOENT Path("/nonexist.json") {"openat"}"#;
        let library =
            r#"2 ENOENT Nowhere("libgone.so", 2, ["/lib/a", "/lib/b"]) {"newfstatat", "openat"}"#;
        let asked = r#"2 ENOENT Nowhere("__init__.so", 2, ["/lib/a", "/lib/b"]) {"newfstatat"}"#;
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let expected: Vec<String> = lines(&[missing, library]);
        assert_eq!(summed_at_exit(Some(1), &all, &[]), (expected, 7));
        let expected: Vec<String> = lines(&[missing, asked, library]);
        assert_eq!(summed_at_exit(Some(127), &all, &[]), (expected, 7));
    }
}
