//! Expectations: what a [`Report`] must say, as text that is checked. Pure.
//!
//! ```text
//! write.calls == 0                            a system call that was counted and not called is 0
//! read.avg_size >= 64KiB                      bytes by call that succeeded
//! sendfile.errors.EAGAIN == 0
//! %network.calls == 0                         the sum over a class of calls; of all that were counted: syscalls.calls
//! read.p99 < 10us                             also total, min, avg, max, p50, p90
//! read[process="cp", file="in.dat"].calls in 1..=10
//! faults.major == 0                           switches.involuntary, time.wall, time.user, time.system, processes.count
//! exit.code == 0                              exit.signal == SIGKILL, or none
//! transfer("*.dat" -> unix).api == sendfile   an end is *, a "path", a kind, or kind:"path"
//! transfer(* -> *).attempts.EXDEV == 0        also bytes, calls, count, avg_size, crossings, user_memory, total
//! not write.calls > 0 and (exit.code == 0 or exit.code == 3)
//! ```
//!
//! A file that is renamed during the run keeps the name that it was first seen with: of `mv tmp out; cat out`, `read[file="tmp"]` has the
//! calls, and `read[file="out"].calls == 0` holds. `rename.calls == 0 and renameat.calls == 0 and renameat2.calls == 0` rules that out.
//!
//! An expectation [holds, fails, or is inconclusive](Verdict). It is inconclusive where the report does not know: figures that are
//! `null`, and all that is not exact. What is not exact is a lower bound, and that can be enough: `read.calls >= 10` holds of at least
//! 12 calls, `read.calls == 0` fails. A figure that does not exist (the average size of no call, the API of no transfer) fails whatever
//! it is compared with, also behind `not`. What cannot be meant is an error: unknown names, a size compared with a time, a call that
//! was not counted.
//!
//! Transfers that are inferred prove nothing: what depends on them is inconclusive, unless [`Inferred::Accept`] says otherwise. So is
//! `transfer(a -> b).count == 0` where bytes were written to `b` that no exact transfer explains.
//!
//! By file are chosen calls that name it by a descriptor, like `read`, `fstat`, `mmap`. Of a call that takes a path (`openat`, `unlink`)
//! the file is not known: to choose it by file is an error, and it makes `syscalls[file="x"].calls == 0` inconclusive.
//!
//! Paths are as the report shows them: relative to the command's working directory where they lie below it. A pattern without `/` is
//! for the last part of a path, or for the name of a process; `*` does not match `/`, `**` does. An absolute pattern, or one with `..`,
//! may be for such a file, too: it is inconclusive where the working directory is not known ([`Report::directory`]).

mod ast;
mod by_file;
mod error;
mod evaluate;
mod facts;
mod field;
mod figures;
mod known;
mod lexer;
mod native;
mod outcome;
mod parser;
mod pattern;
mod show;
mod value;

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

pub use error::SyntaxError;
pub(crate) use error::pointer;
pub use outcome::{ExpectError, Finding, NotCounted, Outcome, Verdict};
pub(crate) use value::size_bytes;

use crate::{report::Report, syscall, words::words};
use ast::{Expr, Figure, Subject};
use field::Dimension;
use value::duration_ns;

/// A time as it stands in an expectation, like `10s`. The error says what is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration_ns(text).map(Duration::from_nanos)
}

words! {
    /// What becomes of an expectation that depends on inferred transfers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Inferred {
        /// It is inconclusive, unless what is proven is enough.
        Inconclusive = "inconclusive",
        /// Inferred transfers are taken for what the report says of them.
        Accept = "accept",
    }
}

/// What a report must say.
///
/// ```
/// # use zctrace_core as zctrace;
/// use zctrace::expect::Expectation;
///
/// let expectation: Expectation = "write.calls == 0 and read.avg_size >= 65536".parse()?;
/// assert_eq!(expectation.to_string(), "write.calls == 0 and read.avg_size >= 64KiB");
///
/// let error = "raed.calls == 0".parse::<Expectation>().unwrap_err();
/// assert_eq!(error.message(), "unknown system call 'raed'; did you mean 'read'?");
/// # Ok::<(), zctrace::expect::SyntaxError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    text: String,
    expr: Expr,
}

impl FromStr for Expectation {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let expr = parser::parse(text).map_err(|problem| SyntaxError::new(text, problem))?;
        Ok(Self { text: text.to_owned(), expr })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl Expectation {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The calls that it names: a run must count them.
    pub fn calls(&self) -> BTreeSet<&'static str> {
        let mut calls = BTreeSet::new();
        self.expr.for_each_figure(&mut |figure| match &figure.subject {
            Subject::Call(name) => calls.extend(syscall::known_names().find(|known| known == name)),
            Subject::Class(class) => calls.extend(syscall::calls_of_class(class).unwrap_or_default()),
            _ => {}
        });
        calls
    }

    /// Whether the report needs [`Process::file_calls`](crate::report::Process::file_calls) for it.
    pub fn needs_file_calls(&self) -> bool {
        let mut needs = false;
        self.expr.for_each_figure(&mut |figure| needs |= figure.selectors.are_by_file());
        needs
    }

    /// Whether it is about times or context switches, which depend on what else the machine does.
    pub fn depends_on_load(&self) -> bool {
        let mut depends = false;
        self.expr.for_each_figure(&mut |figure| {
            depends |= figure.dimension() == Dimension::Time || figure.subject == Subject::Switches;
        });
        depends
    }

    /// Whether it holds of this report; what is inferred proves nothing.
    pub fn evaluate(&self, report: &Report) -> Result<Outcome, NotCounted> {
        self.evaluate_with(report, Inferred::default())
    }

    /// Whether it holds of this report.
    pub fn evaluate_with(&self, report: &Report, inferred: Inferred) -> Result<Outcome, NotCounted> {
        evaluate::evaluate(self, report, inferred)
    }
}

impl Expr {
    fn for_each_figure(&self, visit: &mut impl FnMut(&Figure)) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.for_each_figure(visit)),
            Self::Not(inner) => inner.for_each_figure(visit),
            Self::Comparison(comparison) => visit(&comparison.figure),
        }
    }
}

impl Report {
    /// Fails unless this [expectation](crate::expect) holds. The error says what was found instead.
    pub fn expect(&self, expectation: &str) -> Result<(), ExpectError> {
        let outcome = expectation.parse::<Expectation>()?.evaluate(self)?;
        match outcome.verdict {
            Verdict::Holds => Ok(()),
            Verdict::Fails => Err(ExpectError::Fails(outcome)),
            Verdict::Inconclusive => Err(ExpectError::Inconclusive(outcome)),
        }
    }
}

#[cfg(test)]
mod tests;
