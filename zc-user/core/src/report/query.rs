//! Typed access to the figures of a report, for tests in Rust.

use std::collections::BTreeSet;

use glob::Pattern;
use thiserror::Error;

use super::{Process, Report, Syscall, Transfer};
use crate::{
    Sysno,
    counts::Counts,
    syscalls::{Abi, Spec},
    text::debug_as_display,
    trace::Loss,
};

/// Why a report has no answer.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No process has this name.
    #[error("no process is called '{wanted}'; the report has {}", names_in_words(.known))]
    NoProcess {
        /// What was asked for.
        wanted: String,
        /// The processes that there are.
        known: Vec<String>,
    },
    /// The pattern is not valid.
    #[error("'{pattern}' is not a pattern: {reason}")]
    Pattern {
        /// What was asked for.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Calls of this name were not counted, so that their number is unknown.
    #[error(
        "calls of '{name}' were not counted; count them with syscalls(\"{name}\".parse()?), or 'all'"
    )]
    NotCounted {
        /// The call.
        name: String,
    },
}

debug_as_display!(QueryError);

/// The processes of a report with the same name.
#[derive(Debug, Clone)]
pub struct Processes<'a> {
    report: &'a Report,
    processes: Vec<&'a Process>,
}

/// The name of a system call: a [`Sysno`], or text for a variant without a number of its own, like
/// `ioctl(FICLONE)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyscallName<'a>(&'a str);

impl From<Sysno> for SyscallName<'_> {
    fn from(number: Sysno) -> Self {
        let id = u32::try_from(number.id()).ok();
        let name = id.and_then(|id| Abi::NATIVE.call_name(id));
        Self(name.unwrap_or(number.name()))
    }
}

impl<'a> From<&'a str> for SyscallName<'a> {
    fn from(name: &'a str) -> Self {
        Self(name)
    }
}

impl Report {
    /// The processes with this name (`comm`), or whose names match this pattern: `cp`, `worker-*`.
    pub fn process(&self, name: &str) -> Result<Processes<'_>, QueryError> {
        let pattern = Pattern::new(name).map_err(|error| QueryError::Pattern {
            pattern: name.to_owned(),
            reason: error.to_string(),
        })?;
        let (mut processes, mut known) = (Vec::new(), BTreeSet::new());
        for process in &self.processes {
            if let Some(comm) = &process.comm {
                known.insert(comm.clone());
                if comm == name || pattern.matches(comm) {
                    processes.push(process);
                }
            }
        }
        if processes.is_empty() {
            return Err(QueryError::NoProcess {
                wanted: name.to_owned(),
                known: known.into_iter().collect(),
            });
        }
        Ok(Processes {
            report: self,
            processes,
        })
    }

    /// The sums of a call over all processes and ABIs; 0 if there is no such call.
    pub fn syscall<'n>(
        &self,
        name: impl Into<SyscallName<'n>>,
    ) -> Result<Counts<String>, QueryError> {
        self.sum_named(name.into().0, &self.totals.syscalls)
    }

    /// Whether what is in no transfer certainly is the processes' own, as far as the backend sees
    /// memory: nothing was forgotten of it.
    pub fn knows_origins(&self) -> bool {
        let mut losses = self.losses.keys();
        !losses.any(|name| Loss::from_name(name).is_some_and(Loss::touches_origins))
    }

    /// The transfers within a process.
    pub fn transfers_of<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Transfer> {
        // `from_json` has refused indices that are out of range.
        let indices = process.transfers.iter();
        indices.filter_map(|&index| self.transfers.get(index))
    }

    fn sum_named<'a>(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = &'a Syscall>,
    ) -> Result<Counts<String>, QueryError> {
        let rows: Vec<&Syscall> = rows.into_iter().filter(|row| row.name == name).collect();
        // A recorded log does not say which calls it leaves out, but a call that is in it was
        // counted.
        let counted = self.counted.as_ref();
        if rows.is_empty() && !counted.is_some_and(|counted| counted.contains(name)) {
            let name = name.to_owned();
            return Err(QueryError::NotCounted { name });
        }
        let mut sum = Counts::none_of(&Spec::named(name));
        for row in rows {
            sum += &row.counts;
        }
        Ok(sum)
    }
}

impl<'a> Processes<'a> {
    /// The sums of a call over these processes; 0 if there is no such call.
    pub fn syscall<'n>(
        &self,
        name: impl Into<SyscallName<'n>>,
    ) -> Result<Counts<String>, QueryError> {
        let processes = self.processes.iter();
        let rows = processes.flat_map(|process| &process.syscalls);
        self.report.sum_named(name.into().0, rows)
    }

    /// The transfers within these processes.
    pub fn transfers(&self) -> impl Iterator<Item = &'a Transfer> {
        let processes = self.processes.iter();
        processes.flat_map(|process| self.report.transfers_of(process))
    }

    /// The processes themselves, in the order in which they were created.
    pub fn iter(&self) -> impl Iterator<Item = &'a Process> {
        self.processes.iter().copied()
    }
}

fn names_in_words(names: &[String]) -> String {
    if names.is_empty() {
        "no process with a name".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{
            Options,
            sample::{self, files::scene},
        },
        syscalls::Selection,
    };

    #[test]
    fn a_process_is_found_by_its_name_or_a_pattern() {
        let report = Report::from_trace(&sample::make(5), &Options::default());
        for (pattern, count) in [("make", 1), ("cc*", 3), ("*", 5)] {
            let processes = report.process(pattern).expect("is there");
            assert_eq!(processes.iter().count(), count, "{pattern}");
        }
        let error = report.process("nobody").expect_err("is not there");
        let expected = "no process is called 'nobody'; the report has cc1, make, true";
        assert_eq!(error.to_string(), expected);
        let error = report.process("[a").expect_err("is no pattern");
        assert!(matches!(error, QueryError::Pattern { .. }), "{error}");
    }

    #[test]
    fn a_call_that_was_not_made_is_zero_and_one_that_was_not_counted_is_an_error() {
        let mut trace = sample::copier();
        trace.counted = Some(Selection::default());
        let report = Report::from_trace(&trace, &Options::default());
        let copier = report.process("copier").expect("is there");
        let read = copier.syscall(Sysno::read).expect("was counted");
        assert_eq!((read.calls, read.unfinished), (131_073, 1));
        let none = report.syscall(Sysno::sendfile).expect("was counted");
        assert_eq!(
            (none.calls, none.bytes, none.total_ns),
            (0, Some(0), Some(0))
        );
        let clone = report.syscall("ioctl(FICLONE)").expect("was counted");
        assert_eq!(clone.bytes, None, "the bytes that it moves are unknown");
        let error = report.syscall(Sysno::getpid).expect_err("was not counted");
        let name = "getpid".to_owned();
        assert_eq!(error, QueryError::NotCounted { name });
        let shown = "calls of 'getpid' were not counted; count them with syscalls(\"getpid\".parse()?), or 'all'";
        assert_eq!(format!("{error:?}"), shown, "as a test shows it");
        // A call in a log was counted.
        let log = Report::from_trace(&sample::from_strace(), &Options::default());
        assert_eq!(log.syscall("read").expect("is in it").calls, 4);
        assert!(log.syscall(Sysno::sendfile).is_err());
    }

    #[test]
    fn a_process_has_the_transfers_within_it() {
        let scene = scene("copier: sendfile in->out 1 100; other: splice in->out 1 200");
        let report = scene.report();
        for (name, expected) in [
            ("copier", &[100][..]),
            ("other", &[200]),
            ("*", &[100, 200]),
        ] {
            let processes = report.process(name).expect("is there");
            let bytes = processes.transfers().filter_map(|transfer| transfer.bytes);
            assert_eq!(bytes.collect::<Vec<_>>(), expected);
        }
    }
}
