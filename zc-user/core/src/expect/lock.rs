//! [`Lock`]: a list of all that a command touches, which a later run is compared with.
//!
//! ```text
//! exec /usr/bin/cp
//! read in
//! temp ./*
//! write out/**
//! ```
//!
//! Each line has a kind and a path, an address or a pattern. Names that differ from run to run become
//! patterns when it is written:
//!
//! - what is read or written below a directory that the run made is one line `DIR/**`, also what was
//!   below it if the run removed it first, and made it again: most runs find what the last one made
//! - a name that was made and is gone at the end is `temp DIR/*`, also for what is below it
//! - what is below `/tmp`, `/var/tmp`, `/dev/shm` and `/run/user` is one line `/tmp/**`
//! - numbers below `/proc` and `/dev`, and ports from 32768 on, are `*`
//! - a time of day with its date is `*`

mod general;

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use super::{
    allow::AllowPattern,
    evaluate::{Finding, Outcome},
    facts::shorten_to,
    known::Verdict,
    pattern::Match,
    touches::{first_touch, is_meant, known_touches, touch_fact},
};
use general::{general, spelled};

use crate::{
    report::Report,
    text::plural,
    touched::{Touch, TouchAction, TouchKind, TouchedPath},
    words::words,
};

words! {
    /// What a line of a lock is about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LockKind {
        /// Addresses that sockets were given.
        Bind = "bind",
        /// Addresses that were connected or sent to.
        Connect = "connect",
        /// Programs that were executed.
        Exec = "exec",
        /// Files and directories that were read.
        Read = "read",
        /// Names that were made and were gone at the end.
        Temp = "temp",
        /// Files that were written, created, removed or renamed, or whose attributes were changed.
        Write = "write",
    }
}

impl LockKind {
    /// The touches that it is about. Of names that were gone, all.
    const fn touches(self) -> Option<TouchKind> {
        match self {
            Self::Bind => Some(TouchKind::Bind),
            Self::Connect => Some(TouchKind::Connect),
            Self::Exec => Some(TouchKind::Exec),
            Self::Read => Some(TouchKind::Read),
            Self::Write => Some(TouchKind::Write),
            Self::Temp => None,
        }
    }

    const fn is_of_addresses(self) -> bool {
        matches!(self, Self::Bind | Self::Connect)
    }
}

/// What a command touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    exact: BTreeSet<(LockKind, String)>,
    patterns: Vec<LockPattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LockPattern {
    kind: LockKind,
    text: String,
    pattern: AllowPattern,
}

/// Something that was touched, as a lock lists it.
struct LockEntry<'a> {
    kind: LockKind,
    /// The path; of a name that was gone, the one that is next to the root.
    path: &'a str,
    /// The directory that the run made and that the path is below, or the path itself: the one that is
    /// next to the root.
    made: Option<&'a str>,
    touched: &'a TouchedPath,
    first: &'a Touch,
}

/// How many new paths are named.
const MAX_FACTS: usize = 20;

/// The beginning of each file.
const HEADER: &str = "\
# What the command touches. `zctrace check --lock FILE --update` renews this file.
# Patterns that you write are kept as long as they match something: write target/**
";

impl Lock {
    /// Reads a file. The error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lock = Self::default();
        let lines = (1..).zip(text.lines());
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            lock.add_line(line)
                .map_err(|why| format!("line {number}: {why}"))?;
        }
        Ok(lock)
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let (word, path) = line.split_once(' ').unwrap_or((line, ""));
        let kinds = LockKind::ALL.map(LockKind::name).join(", ");
        let kind = LockKind::from_name(word)
            .filter(|_| !path.is_empty())
            .ok_or_else(|| format!("'{line}' is not one of {kinds} and a path"))?;
        self.add(kind, path)
    }

    fn add(&mut self, kind: LockKind, path: &str) -> Result<(), String> {
        let is_pattern = path.contains(['*', '?', '['].as_slice());
        if !is_pattern {
            self.exact.insert((kind, path.to_owned()));
            return Ok(());
        }
        let read = if kind.is_of_addresses() {
            AllowPattern::parse_address
        } else {
            AllowPattern::parse_path
        };
        let pattern = read(path).map_err(|(why, _)| format!("'{path}' is not a pattern: {why}"))?;
        let text = path.to_owned();
        let pattern = LockPattern {
            kind,
            text,
            pattern,
        };
        let key = |one: &LockPattern| (one.kind, one.text.clone());
        if let Err(place) = self.patterns.binary_search_by_key(&key(&pattern), key) {
            self.patterns.insert(place, pattern);
        }
        Ok(())
    }

    /// The lock of what these runs touched. Of the patterns of the one before, those that match something
    /// are kept, and stand for all that they match. `Err`: why that is unknown.
    pub fn of_runs(reports: &[&Report], before: &Self) -> Result<Self, String> {
        let mut all = Vec::new();
        for report in reports {
            let (known, open) = known_touches(report).map_err(|unknown| {
                let reason = unknown.reason.unwrap_or_default();
                format!("what was touched is unknown: {reason}")
            })?;
            if let Some(why) = open {
                return Err(format!("more may have been touched: {why}"));
            }
            all.push((*report, known));
        }
        let mut lock = Self::default();
        for entry in all.iter().flat_map(|(_, known)| entries(&known.paths)) {
            lock.add(entry.kind, &general(&entry))?;
        }
        // Those that this would write again are nobody's own.
        let mut own = before.clone();
        own.patterns.retain(|one| !lock.patterns.contains(one));
        let mut lock = Self::default();
        for (report, known) in all {
            own.start_in(report);
            for entry in entries(&known.paths) {
                let line = match own.pattern_of(&entry) {
                    Some(index) => own.patterns[index].text.clone(),
                    None => general(&entry),
                };
                lock.add(entry.kind, &line)?;
            }
        }
        Ok(lock)
    }

    fn start_in(&mut self, report: &Report) {
        if let Some(directory) = &report.directory {
            for one in &mut self.patterns {
                one.pattern.start_in(directory);
            }
        }
    }

    /// The first pattern that allows it.
    fn pattern_of(&self, entry: &LockEntry<'_>) -> Option<usize> {
        self.patterns
            .iter()
            .position(|one| one.kind == entry.kind && one.pattern.allows(entry.path) == Match::Yes)
    }

    /// How many lines it has.
    pub fn lines(&self) -> usize {
        self.exact.len() + self.patterns.len()
    }

    /// Whether a run touched nothing else; `name` is that of the lock.
    pub fn judge(&self, name: &str, report: &Report) -> Outcome {
        let mut lock = self.clone();
        lock.start_in(report);
        let finding = |verdict, found: String, reason, facts| Finding {
            comparison: name.to_owned(),
            verdict,
            found: format!("{name}: {found}"),
            reason,
            facts,
            unmatched: Vec::new(),
        };
        let finding = match known_touches(report) {
            Err(unknown) => {
                let found = "what was touched is unknown".to_owned();
                finding(Verdict::Inconclusive, found, unknown.reason, Vec::new())
            }
            Ok((known, open)) => {
                let new = lock.new_entries(&known.paths);
                let certain = new.iter().filter(|one| one.first.done() > 0).count() as u64;
                let verdict = match (certain, &open) {
                    (1.., _) => Verdict::Fails,
                    (0, None) if new.is_empty() => Verdict::Holds,
                    (0, _) => Verdict::Inconclusive,
                };
                let found = match new.len() as u64 {
                    0 => "nothing new was touched".to_owned(),
                    count => format!("{} not in it", plural(count, "path is", "paths are")),
                };
                let facts = new.iter().map(|one| {
                    let fact = touch_fact(one.touched, one.first, Match::No, report);
                    format!("{} {fact}", one.kind.name())
                });
                finding(verdict, found, open, shorten_to(MAX_FACTS, facts.collect()))
            }
        };
        Outcome {
            expectation: name.to_owned(),
            verdict: finding.verdict,
            findings: vec![finding],
        }
    }

    fn new_entries<'a>(&self, paths: &'a [TouchedPath]) -> Vec<LockEntry<'a>> {
        let is_known = |entry: &LockEntry<'_>| {
            let key = (entry.kind, spelled(entry.path));
            self.exact.contains(&key) || self.pattern_of(entry).is_some()
        };
        let mut new: Vec<LockEntry<'_>> = entries(paths).filter(|one| !is_known(one)).collect();
        // Most new paths are libraries that a new program reads.
        new.sort_by_key(|entry| (entry.kind == LockKind::Read, entry.first.first.at_ns));
        new
    }
}

impl fmt::Display for Lock {
    /// As a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = self.exact.iter().map(|(kind, path)| (*kind, path.as_str()));
        let patterns = self
            .patterns
            .iter()
            .map(|one| (one.kind, one.text.as_str()));
        let lines: BTreeSet<(LockKind, &str)> = exact.chain(patterns).collect();
        f.write_str(HEADER)?;
        lines
            .into_iter()
            .try_for_each(|(kind, path)| writeln!(f, "{} {path}", kind.name()))
    }
}

/// What was touched, or may have been.
fn entries(paths: &[TouchedPath]) -> impl Iterator<Item = LockEntry<'_>> {
    let names = |is_such: fn(&TouchedPath) -> bool| -> HashSet<&str> {
        let paths = paths.iter().filter(|path| is_such(path));
        paths.map(|path| path.path.as_str()).collect()
    };
    let (temporary, made) = (names(is_temporary), names(is_made_directory));
    paths.iter().flat_map(move |touched| {
        let temporary = topmost(&touched.path, &temporary);
        let made = topmost(&touched.path, &made);
        LockKind::ALL.into_iter().filter_map(move |kind| {
            let first_of =
                |kind| first_touch(touched.touches.iter().filter(|one| is_meant(kind, one)));
            let (path, first) = match (temporary, kind.touches()) {
                (Some(above), None) => {
                    let kinds = [TouchKind::Write, TouchKind::Read, TouchKind::Exec];
                    (above, kinds.into_iter().find_map(first_of)?)
                }
                (None, Some(kind)) => (touched.path.as_str(), first_of(kind)?),
                _ => return None,
            };
            Some(LockEntry {
                kind,
                path,
                made,
                touched,
                first,
            })
        })
    })
}

/// Whether the run made the name, and it was gone at the end.
fn is_temporary(path: &TouchedPath) -> bool {
    let is_made = |touch: &Touch| touch.action == TouchAction::Created && touch.done() > 0;
    path.gone && path.touches.iter().any(is_made)
}

/// Whether the run made this directory, and it was there at the end.
fn is_made_directory(path: &TouchedPath) -> bool {
    let makes = |touch: &Touch| touch.call.starts_with("mkdir") && touch.done() > 0;
    !path.gone && path.touches.iter().any(makes)
}

/// The first directory of a path that is among these, or the path itself.
fn topmost<'a>(path: &'a str, directories: &HashSet<&str>) -> Option<&'a str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let above = ends.chain([path.len()]).map(|end| &path[..end]);
    above.into_iter().find(|above| directories.contains(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Options, sample::files::Scene};

    /// The report of what these lines touched.
    fn report(lines: &str) -> Report {
        let touched = lines.lines().map(|line| format!("@ touched {line}\n"));
        let scene = Scene::read(&format!(
            "cc: read in 1 10\n@ touched nothing\n{}",
            touched.collect::<Vec<_>>().concat()
        ));
        Report::from_trace(&scene.trace, &Options::default())
    }

    fn lock_of(report: &Report, before: &str) -> String {
        let before = Lock::parse(before).expect("a lock");
        let lock = Lock::of_runs(&[report], &before).expect("all is known");
        let text = lock.to_string();
        assert_eq!(Lock::parse(&text), Ok(lock));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        lines.join("\n") + "\n"
    }

    const BUILD: &str = "\
executed /usr/bin/cc execve make
read main.c openat cc
read src/[a].c openat cc
written out/main.o openat cc
created .main.o.x1Y2 openat cc gone
created tmpdir/a openat cc gone
created tmpdir mkdir cc gone
removed old unlink rm gone
created /tmp/cc1234.s openat cc gone
read /proc/1234/maps openat cc
read /dev/fd/7 openat cc
read none openat cc ENOENT
connected tcp:127.0.0.1:40001 connect cc
connected tcp:127.0.0.1:443 connect cc
bound unix:/run/x bind cc";

    const LOCK: &str = "\
bind unix:/run/x
connect tcp:127.0.0.1:*
connect tcp:127.0.0.1:443
exec /usr/bin/cc
read ./main.c
read /dev/fd/*
read /proc/*/maps
read src/[[]a[]].c
temp ./*
temp /tmp/**
write ./old
write out/main.o
";

    #[test]
    fn a_lock_has_a_line_for_each_path_and_patterns_for_names_that_change() {
        let report = report(BUILD);
        assert_eq!(lock_of(&report, ""), LOCK);
        assert_eq!(lock_of(&report, LOCK), LOCK);
        let lock = Lock::parse(LOCK).expect("a lock");
        assert_eq!(lock.judge("lock x", &report).verdict, Verdict::Holds);
    }

    #[test]
    fn what_is_below_a_directory_that_the_run_made_is_a_line_for_each_kind() {
        let report = report(
            "\
created target mkdir cargo
created target/debug mkdirat cargo
written target/debug/a openat rustc
read target/debug/a openat ld
executed target/debug/a execve cargo
created target/x.tmp openat rustc gone
written target2 openat cargo
read old/b openat cargo
created old mkdir cargo EEXIST
created link symlink cargo
read link/etc openat cargo",
        );
        let lock = "\
exec target/debug/a
read link/etc
read old/b
read target/**
temp target/**
write ./link
write ./target2
write target/**
";
        assert_eq!(lock_of(&report, ""), lock);
        // The next run finds the directory.
        let again =
            Scene::read("cc: read in 1 10\n@ touched written target/debug/b openat rustc\n");
        let again = Report::from_trace(&again.trace, &Options::default());
        assert_eq!(lock_of(&again, lock), "write target/**\n");
        let lock = Lock::parse(lock).expect("a lock");
        assert_eq!(lock.judge("lock x", &again).verdict, Verdict::Holds);
    }

    #[test]
    fn patterns_of_the_lock_before_are_kept_if_they_match_something() {
        let before = "write out/**\nwrite nowhere/**\nread *.c\nread ./gone.c\n";
        let lock = lock_of(
            &report("written out/a openat cc\nread a/b.c openat cc"),
            before,
        );
        assert_eq!(lock, "read *.c\nwrite out/**\n");
    }

    #[test]
    fn what_a_lock_does_not_list_fails_and_what_may_have_been_touched_is_inconclusive() {
        let lock = Lock::parse(LOCK).expect("a lock");
        for (more, verdict, said) in [
            ("", Verdict::Holds, "lock x: nothing new was touched"),
            (
                "read new.h openat cc",
                Verdict::Fails,
                "read \"new.h\": read by cc, first by openat",
            ),
            (
                "written main.c openat cc",
                Verdict::Fails,
                "write \"main.c\"",
            ),
            (
                "created out/x openat cc gone",
                Verdict::Fails,
                "temp \"out/x\"",
            ),
            (
                "removed main.c unlink cc ?",
                Verdict::Inconclusive,
                "it did not return",
            ),
            (
                "unseen operations",
                Verdict::Inconclusive,
                "nothing new was touched (operations)",
            ),
        ] {
            let outcome = lock.judge("lock x", &report(&format!("{BUILD}\n{more}")));
            assert_eq!(outcome.verdict, verdict, "{more}: {outcome}");
            let outcome = outcome.findings[0].found.clone() + &outcome.to_string();
            assert!(outcome.contains(said), "{more}: {outcome}");
        }
        let unseen = report("unseen operations");
        let lock = Lock::of_runs(&[&unseen], &Lock::default());
        assert_eq!(
            lock,
            Err("more may have been touched: operations".to_owned())
        );
    }

    #[test]
    fn a_line_that_is_none_is_an_error_with_its_number() {
        for (text, expected) in [
            (
                "# x\nwrite",
                "line 2: 'write' is not one of bind, connect, exec, read, temp, write and a path",
            ),
            (
                "wirte a",
                "line 1: 'wirte a' is not one of bind, connect, exec, read, temp, write and a path",
            ),
            (
                "read [a",
                "line 1: '[a' is not a pattern: invalid range pattern",
            ),
        ] {
            assert_eq!(Lock::parse(text), Err(expected.to_owned()));
        }
    }
}
