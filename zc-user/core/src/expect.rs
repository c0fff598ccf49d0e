//! Expectations: text that says what must hold of a [`Report`].
//!
//! ```text
//! write.calls == 0                            0 for a call that was counted but never made
//! read.avg_size >= 64KiB                      bytes for each successful call
//! sendfile.errors.EAGAIN == 0
//! %network.calls == 0                         the sum over a class of calls; syscalls.calls: over all counted ones
//! read.p99 < 10us                             also total, min, avg, max, p50, p90
//! read.size.p50 >= 64KiB                      bytes of one call: also p90, p99, max
//! read[process="cp", file="in.dat"].calls in 1..=10
//! read[thread="tokio-*"].calls == 0           by the name that a thread had last
//! openat[path="/etc/app/**"].errors == 0      failed calls by the path that they were given
//! read[caller="my_crate::**"].calls == 0      calls by the functions that made them
//! read[span="request"].calls <= 2             in each span that a thread marked
//! faults.major == 0                           switches.involuntary, time.wall, time.user, time.system, processes.count
//! exit.code in 0..=2                          also exit.signal == SIGKILL, exit.signal == none
//! transfer("*.dat" -> unix).api == sendfile   an end is *, a "path", a kind, or kind:"path"
//! transfer(* -> unix).via == "std::io::copy"  the library function that made it
//! transfer(* -> *).attempts.EXDEV == 0        also bytes, calls, count, avg_size, crossings, user_memory, total
//! durable("data/**")                          all changed files of data were synced in order
//! durable("data/**") at mark("commit")        at every such mark; also before write(stdout), write(tcp)
//! syncs("data/**").wasted == 0                also count, failed, ns
//! touches(write) within ["target/**", "/tmp/**"]   nothing else was written; also touches(connect) within []
//! connect[to="tcp:*:443"].calls == 0        calls by the address that they named
//! fds.open == 0                               descriptors that the command left open, also fds[file="**.log"].open
//! not write.calls > 0 and (exit.code == 0 or exit.code == 3)
//! ```
//!
//! A file that is renamed during the run keeps the name that it was first seen with: in `mv tmp
//! out; cat out`, `read[file="tmp"]` has the calls, and `read[file="out"].calls == 0` holds.
//! `rename.calls == 0 and renameat.calls == 0 and renameat2.calls == 0` rules that out.
//!
//! An expectation [holds, fails, or is inconclusive](Verdict). It is inconclusive if the report
//! does not know the figure (`null`), or knows only a lower bound that does not decide: given at
//! least 12 calls, `read.calls >= 10` holds, `read.calls == 0` fails, and `read.calls == 12` is
//! inconclusive. A figure that does not exist (the average size of no call, the API of no transfer)
//! fails any comparison, also behind `not`. A mistake is an error: an unknown name, a size compared
//! with a time, a call that was not counted.
//!
//! Inferred transfers prove nothing. An expectation that depends on them is inconclusive, unless
//! [`Inferred::Accept`] says otherwise. So is `transfer(a -> b).count == 0` if memory of `a` that
//! the program had changed was written to `b`.
//!
//! `[file=...]` chooses calls that name their file by a descriptor, like `read`, `fstat`, `mmap`.
//! The file of a call that takes a path (`openat`, `unlink`) is not known: choosing it by file is
//! an error, and it makes `syscalls[file="x"].calls == 0` inconclusive.
//!
//! `[thread=...]` chooses calls by the name that their thread had last. A log does not show it. `size`
//! is about each call of the whole run that did not fail. Both are only in the report of a
//! [check](crate::check) with such an expectation.
//!
//! `[path=...]` chooses calls by the path that they were given:
//! `openat[path="/etc/app/**"].errors.EACCES == 0`. With `calls`, those that succeeded count, too:
//! `openat[path="/etc/**"].calls == 0`. Their paths are only in the report of a
//! [check](crate::check) with such an expectation; in others they make the figure a range. A path
//! is compared as it was given. If it is not known where a relative one starts, and an absolute
//! pattern may mean it, the figure is inconclusive.
//!
//! `[caller=...]` chooses calls by the functions that were active when they were made:
//! `read[caller="my_crate::**"].calls == 0`. `via` is the library function that made a transfer:
//! `transfer(* -> unix).via == "std::io::copy"`. Both need the
//! [stacks](crate::report::Report::stacks) of sampled calls, which a [check](crate::check) with
//! such an expectation records. The number of calls by caller is a range if some were not sampled
//! or their stacks do not show every function; `via` is judged by the samples. docs/definitions.md
//! says what a pattern of functions matches.
//!
//! `durable("data/**")` holds if each file that was changed and matches was synced in order, by the
//! rules of [`durable`](crate::durable). It is inconclusive if that is unknown of one, or if no
//! changed file matches. `syncs("data/**")` has figures of the syncs of files and directories. Both
//! need [`Report::syncs`], which a [check](crate::check) with such an expectation records.
//!
//! `[span=...]` chooses the calls that a thread made between its marks `/zctrace/begin/NAME` and
//! `/zctrace/end/NAME`. The expectation holds if it holds in each such span. Only the strace backend
//! sees them, so a [check](crate::check) with such an expectation uses it.
//!
//! `touches(write) within ["target/**"]` holds if nothing else was written, created, removed, renamed
//! or had its attributes changed. `dir/**` also allows `dir`. A failure names the path, the program
//! and its first call. Other words are `read`, `remove`, `rename`, `exec`, `lookup`; `connect` and
//! `bind` have patterns of addresses: `tcp:HOST:PORT`, `udp:HOST:PORT`, `unix:PATH`. docs/definitions.md
//! says which calls touch a path, and when that is unknown. All need [`Report::touched`], which a
//! [check](crate::check) with such an expectation records.
//!
//! A selector that matches nothing may have a typing error. A comparison with one is inconclusive,
//! with the nearest name, unless [`Premises::may_match_nothing`]. A process and a caller must be of
//! the run. A file, a path and the end of a transfer may also be known otherwise
//! ([`Premises::files`]): a [check](crate::check) knows its `files` and what is in the file system.
//!
//! Paths are as the report shows them: relative to the command's working directory if they lie
//! below it. A pattern without `/` matches the last part of a path, or the name of a process; `*`
//! does not match `/`, `**` does. An absolute pattern, or one with `..`, can match such a file,
//! too, but is inconclusive if the working directory is unknown ([`Report::directory`]).

mod allow;
mod ast;
mod by_caller;
mod calls;
mod descriptors;
mod evaluate;
mod facts;
mod function;
mod known;
mod lock;
mod names;
mod parser;
mod paths;
mod pattern;
mod sizes;
mod spans;
mod syncs;
mod threads;
mod tokens;
mod touches;
mod transfers;
mod unmatched;

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

pub use evaluate::{ExpectError, Finding, NotCounted, Outcome};
pub(crate) use facts::why_inexact;
pub use known::{Inferred, Premises, Verdict};
pub use lock::{Lock, LockKind};
pub use tokens::SyntaxError;
pub(crate) use tokens::mark_place;

use crate::{
    figures::{
        list::{FigureField, FigureGroup, Steadiness},
        value,
    },
    options::{Recorded, SampledCalls},
    report::Report,
};
use ast::{Expr, FigureExpr, FigureSubject};
use pattern::Glob;

/// Reads a time as expectations have it, like `10s`. The error says what is wrong with it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    value::duration_ns(text).map(Duration::from_nanos)
}

/// What must hold of a report.
///
/// ```
/// # use zctrace_core as zctrace;
/// use zctrace::expect::Expectation;
///
/// let expectation: Expectation = "write.calls == 0 and read.avg_size >= 65536".parse()?;
/// assert!(expectation.named_calls().contains("write"));
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
        let expr = parser::parse(text).map_err(|error| error.in_text(text))?;
        Ok(Self {
            text: text.to_owned(),
            expr,
        })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expectation {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The calls that it names. A run must count them.
    pub fn named_calls(&self) -> BTreeSet<&'static str> {
        let mut calls = BTreeSet::new();
        for figure in self.expr.all_figures() {
            if let FigureSubject::Calls(names) = &figure.subject {
                calls.extend(names.iter());
            }
        }
        calls
    }

    /// What a run must record for it. The number of calls that a function made is only known if each
    /// was sampled. What made a transfer is judged by samples.
    pub fn must_record(&self) -> Recorded {
        let mut needed = Recorded::ALL;
        for one in self.expr.all_figures() {
            let (selectors, group) = (&one.selectors, one.subject.figure_group());
            needed = needed
                .with_paths(selectors.path.is_some() && one.field == FigureField::Calls)
                .with_syncs(group == FigureGroup::Syncs)
                .with_touches(selectors.to.is_some() || group == FigureGroup::Touches)
                .with_sizes(one.field.is_of_sizes())
                .with_descriptors(group == FigureGroup::Descriptors);
            if selectors.caller.is_some() {
                needed = needed.with_callers(SampledCalls::All);
            } else if one.field == FigureField::Via {
                needed = needed.with_callers(SampledCalls::Some);
            }
        }
        needed
    }

    /// Whether it needs [`Report::marked_spans`].
    pub fn needs_spans(&self) -> bool {
        self.has_figure(|one| one.selectors.span.is_some())
    }

    /// Whether it needs the calls of each thread.
    pub fn needs_threads(&self) -> bool {
        self.has_figure(|one| one.selectors.thread.is_some())
    }

    /// Whether it says how the command must end.
    pub fn is_about_exit(&self) -> bool {
        self.has_figure(|one| matches!(one.field, FigureField::Code | FigureField::Signal))
    }

    /// Whether it compares figures that depend on the load of the machine.
    pub fn depends_on_load(&self) -> bool {
        self.has_figure(|one| {
            one.subject.figure_group().steadiness(one.unit) == Steadiness::WithLoad
        })
    }

    fn has_figure(&self, is_such: impl Fn(&FigureExpr) -> bool) -> bool {
        self.expr.all_figures().into_iter().any(is_such)
    }

    /// The patterns of files and paths that it has, as they were written.
    pub fn file_patterns(&self) -> impl Iterator<Item = &str> {
        let figures = self.expr.all_figures().into_iter();
        figures.flat_map(FigureExpr::globs_of_files).map(Glob::text)
    }

    /// Whether it holds of this report. Inferred transfers prove nothing, and each selector must
    /// match something of the report.
    pub fn evaluate(&self, report: &Report) -> Result<Outcome, NotCounted> {
        self.evaluate_with(report, &Premises::default())
    }

    /// Whether it holds of this report.
    pub fn evaluate_with(
        &self,
        report: &Report,
        premises: &Premises,
    ) -> Result<Outcome, NotCounted> {
        evaluate::evaluate(self, report, premises)
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
mod language_tests;
