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
    ends::End,
    text::{file_name, is_library},
    transfer::Transfer,
};

/// Failed calls, summed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures<'a> {
    /// By error and place. Paths of the command line come first, and programs if the exit status says
    /// that one could not be executed. Then come other errors than ENOENT, those without a place last,
    /// and then ENOENT, a user's missing configuration last. Among equals, the last call comes first if
    /// the command failed, else the most frequent one.
    pub groups: Vec<FailedGroup<'a>>,
    /// How many calls found nothing at their path (`ENOENT`), in [`groups`](Self::groups) or not. Those
    /// are not that only looked for something that need not be there: all if the command succeeded; else
    /// those for a file that was found elsewhere or made later, for one that calls such as `stat` asked
    /// for in several directories (unless nothing else tells why the command failed), for a library's
    /// directory, for a locale or `SELinux`.
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
    /// Whether a connection failed later, and the program was told the error (`SO_ERROR`).
    pub is_socket_error: bool,
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
/// The error of a call that would have to wait.
const WOULD_WAIT: &str = "EAGAIN";
/// The error of a connection that is not there yet.
const CONNECTING: &str = "EINPROGRESS";
/// The error of a connection that the other host refused. Of TCP, only an attempt to connect has it.
const REFUSED: &str = "ECONNREFUSED";

impl Report {
    /// Its failed calls, summed up.
    pub fn failures(&self) -> Failures<'_> {
        let failed = self.totals.failed_paths.as_deref().unwrap_or_default();
        let library_directories: BTreeSet<&str> = failed
            .iter()
            .filter_map(|one| one.path.as_deref().filter(|path| is_library(path)))
            .map(directory_of)
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
        let needed = names_needed(failed);
        let asked = names_asked_for(failed, &needed);
        let is_needless = |one: &FailedPath| {
            let is_asked = has_name_in(one, &asked);
            let needs_no_file = has_succeeded || is_asked && !lacks_program;
            let is_below_file = one.errno == BELOW_FILE && (has_succeeded || is_asking(one));
            let is_probe = has_succeeded && is_asking(one);
            one.errno == MISSING && (needs_no_file && !is_named(one) || is_probe) || is_below_file
        };
        let need_not_exist = |one: &FailedPath| {
            let is_of_start = one.path.as_deref().is_some_and(|path| {
                one.errno == MISSING && (is_optional(path) || library_directories.contains(path))
            });
            let is_made = one.errno == MISSING && one.path_found;
            is_of_start || is_made || may_be_search(one) && !is_reason(one)
        };
        let has_given_up = self.exit.code.is_some_and(|code| code != 0);
        let has_failed = self.exit.signal.is_some() || has_given_up;
        let is_answer = |one: &FailedPath| {
            let is_connecting = one.errno == CONNECTING;
            is_answer(one, has_succeeded)
                || is_connecting && (!has_failed || self.has_used(one.path.as_deref()))
        };
        // A command that asked whether a file is there or for a user's file, and only then failed at
        // another call, did without that file.
        let is_explained =
            |one: &FailedPath| is_answer(one) || need_not_exist(one) || is_needless(one);
        let last = failed.iter().find(|one| !is_explained(one));
        let asked_before =
            has_given_up && !lacks_program && last.is_some_and(|one| !is_question(one));
        let is_earlier_question = |one: &FailedPath| {
            let is_question = is_question(one) && !(is_asking(one) && has_name_in(one, &needed));
            asked_before && is_question && one.errno == MISSING && !is_named(one)
        };
        let is_search = |one: &&FailedPath| {
            (need_not_exist(one) || is_needless(one) || is_earlier_question(one))
                && one.second_path.is_none()
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
        let mut told: Vec<_> = searches.iter().copied().filter(is_told).collect();
        let others = self.totals.failed_without_path.iter();
        let others: Vec<_> = others.filter(|one| !is_answer(one)).collect();
        // The last name that the command asked for in vain, if nothing else explains why it failed.
        let is_users =
            |one: &&FailedPath| one.errno == MISSING && one.path.as_deref().is_some_and(is_of_user);
        let explains_none = failed.iter().all(is_users) && told.is_empty() && others.is_empty();
        if has_given_up && explains_none {
            told = last_asked_for(&searches, need_not_exist);
        }
        let failed = failed.into_iter().chain(told).chain(others);
        let mut groups = groups_by_place(failed, is_named, is_reason);
        self.add_outcomes(&mut groups);
        if has_given_up {
            groups.extend(self.transfers.iter().filter_map(stopped_by_eagain));
        }
        sort_groups(&mut groups, has_failed);
        Failures {
            groups,
            lookups,
            most_lookups,
        }
    }
}

impl Report {
    /// Gives connections that were made in the background their outcome, if the program asked for that of
    /// as many sockets, and all were refused. Of UDP, that error need not be of a connection.
    fn add_outcomes<'a>(&self, groups: &mut Vec<FailedGroup<'a>>) {
        let is_told = |group: &FailedGroup<'_>| {
            group.errno == REFUSED && group.syscalls.first() == Some(&"getsockopt")
        };
        let is_connecting = |group: &FailedGroup<'_>| group.errno == CONNECTING;
        let calls = |is_meant: &dyn Fn(&FailedGroup<'a>) -> bool| -> u64 {
            let meant = groups.iter().filter(|group| is_meant(group));
            meant.map(|group| group.calls).sum()
        };
        let is_udp = |file: Option<&End>| file.and_then(|file| file.kind.as_deref()) == Some("udp");
        let has_udp = self.all_sources().any(|one| is_udp(one.file.as_ref()))
            || self.all_destinations().any(|one| is_udp(one.file.as_ref()));
        let told = calls(&is_told);
        if told == 0 || told != calls(&is_connecting) || has_udp {
            return;
        }
        groups.retain(|group| !is_told(group));
        for group in groups.iter_mut().filter(|group| is_connecting(group)) {
            (group.errno, group.meaning, group.is_socket_error) = (REFUSED, None, true);
        }
    }

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
        let is_optional = matches!(self.place, Place::Path(path) if is_of_user(path));
        self.errno == MISSING && is_optional && !self.is_first
    }
}

/// Sorts by what explains most, as [`Failures::groups`] says.
fn sort_groups(groups: &mut [FailedGroup<'_>], has_failed: bool) {
    groups.sort_by_key(|group| {
        let is_missing = group.errno == MISSING;
        let has_no_place = group.place == Place::Unknown;
        // The lists begin with the last.
        let calls = Reverse(if has_failed { 0 } else { group.calls });
        (
            !group.is_first,
            is_missing,
            group.is_of_user(),
            has_no_place,
            calls,
            group.index,
        )
    });
}

/// The calls of a transfer that would have had to wait, if it did not reach the end of its source.
fn stopped_by_eagain(transfer: &Transfer) -> Option<FailedGroup<'_>> {
    let is_short = transfer.bytes < transfer.from.size && transfer.bytes.is_some();
    let (errno, calls) = transfer.retries.get_key_value(WOULD_WAIT)?;
    let names = transfer.calls_by_syscall.keys().map(String::as_str);
    is_short.then(|| FailedGroup {
        errno,
        place: Place::Unknown,
        is_below_descriptor: false,
        syscalls: names.collect(),
        calls: *calls,
        meaning: None,
        is_socket_error: false,
        index: usize::MAX,
        is_first: false,
    })
}

/// The calls for the last name that had to exist and was not found.
fn last_asked_for<'a>(
    searches: &[&'a FailedPath],
    need_not_exist: impl Fn(&FailedPath) -> bool,
) -> Vec<&'a FailedPath> {
    let name = |one: &'a FailedPath| one.path.as_deref().map(last_part);
    let mut asked = searches.iter().filter(|one| one.errno == MISSING);
    let last = asked.find(|one| !need_not_exist(one)).map(|one| name(one));
    let calls = searches.iter().copied();
    calls.filter(|one| Some(name(one)) == last).collect()
}

/// Whether it is a hidden file, among a user's configurations, or in a hidden directory of a home.
fn is_of_user(path: &str) -> bool {
    let is_hidden = last_part(path).starts_with('.');
    let below_root = path.strip_prefix("/root/");
    let below_home = path.strip_prefix("/home/");
    let in_home = below_root.or_else(|| Some(below_home?.split_once('/')?.1));
    let is_in_hidden = in_home.is_some_and(|rest| rest.starts_with('.'));
    path.starts_with('/') && (is_hidden || path.contains("/.config/") || is_in_hidden)
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

/// Whether the last part of its path is one of these names.
fn has_name_in(one: &FailedPath, names: &BTreeSet<&str>) -> bool {
    let path = one.path.as_deref();
    path.is_some_and(|path| names.contains(last_part(path)))
}

/// Whether the call asks whether there is a file, or looks for a user's, which most programs do without.
fn is_question(one: &FailedPath) -> bool {
    is_asking(one) || one.path.as_deref().is_some_and(is_of_user)
}

/// The names of missing files for which other calls looked than those that ask whether there is a file.
fn names_needed(failed: &[FailedPath]) -> BTreeSet<&str> {
    let missing = failed.iter().filter(|one| one.errno == MISSING);
    let needed = missing.filter(|one| !is_asking(one));
    let paths = needed.filter_map(|one| one.path.as_deref());
    paths.map(last_part).collect()
}

/// The names that are missing in several directories, and for which only calls looked that ask
/// whether there is a file: a search among places, which the program needs none of.
fn names_asked_for<'a>(failed: &'a [FailedPath], needed: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let asked = failed
        .iter()
        .filter(|one| one.errno == MISSING && is_asking(one));
    let mut names = directories_by_name(asked);
    names.retain(|name, directories| directories.len() > 1 && !needed.contains(name));
    names.into_keys().collect()
}

/// Whether programs use this path when they start: libraries, and parts of locales.
pub fn is_used_at_start(path: &str) -> bool {
    is_library(path) || is_optional(path)
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
/// did without memory that it could not map, and an `ioctl` that the file does not have.
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
        ("ENOMEM", "mmap") | ("EINVAL", "ioctl") => has_succeeded,
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
        directories.insert(directory_of(path));
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
        let in_directory = paths.entry((&one.errno, directory_of(path))).or_default();
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
        let (name, directory) = (last_part(path), directory_of(path));
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
                is_socket_error: false,
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
fn directory_of(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((".", _)) | None => "",
        Some((directory, _)) => directory,
    }
}

#[cfg(test)]
mod failure_tests;
