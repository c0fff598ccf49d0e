//! The strace backend: runs strace, or reads a recorded log, and makes a [`Trace`] of it.
//!
//! ```text
//! bytes ──read──▶ line ──line──▶ Line ──collect: tasks──▶ a whole call ──count: rows──▶ sums ──assemble──▶ Trace
//! ```
//!
//! `line` parses single lines and keeps no state. [`Collector`] joins the lines of a call
//! that was interrupted, tracks tasks from their creation to their end, and adds every call to the
//! sums of its thread. What a log does not say is `None`, and lines that are not understood are
//! counted in [`Loss::UnparsedLines`](crate::trace::Loss::UnparsedLines).

mod args;
mod assemble;
mod call_table;
mod collect;
mod count;
mod cut;
mod decode;
mod echo;
mod file_calls;
mod file_name;
mod file_table;
mod form;
mod inspect;
mod left_open;
mod line;
mod live;
mod log_facts;
mod marks;
mod names;
mod read;
mod refused;
mod rows;
mod slow_calls;

mod syntax;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod unavailable;

pub use collect::Collector;
pub use read::{Log, read_log, read_logs, tid_of_file};
pub use refused::LogError;
pub use unavailable::StraceUnavailable;
use unavailable::{StraceFacts, usable_strace};

use thiserror::Error;

use super::{RunError, RunOptions, block_on};
use crate::{
    machine::System,
    trace::{Exit, Trace},
};

/// Why the strace backend cannot run here. Each message says what to do.
#[derive(Debug, Error)]
pub enum StraceError {
    /// There is no strace, or it cannot trace here.
    #[error(transparent)]
    Unavailable(#[from] StraceUnavailable),
    /// A trace was to be divided into spans.
    #[error("the strace backend has no report of a span, since strace prints most lines late")]
    NoSpans,
    /// strace ended before the command began.
    #[error("strace could not run the command ({}); see its own message above", ended(*.0))]
    Silent(Exit),
    /// strace ended before it traced what it was to attach to.
    #[error("strace could not attach ({}); see its own message above", ended(*.0))]
    NotAttached(Exit),
}

fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit status {code}"),
        Exit::Signal(signal) => format!("killed by signal {signal}"),
    }
}

/// Runs the command under strace to its end and returns its trace. That only takes permission to
/// trace one's own processes.
pub(super) fn run(options: &RunOptions) -> Result<Trace, RunError> {
    if options.spans.is_some() {
        return Err(StraceError::NoSpans.into());
    }
    let (system, found) = (System::read(), StraceFacts::probe());
    let strace = usable_strace(&system, &found).map_err(StraceError::Unavailable)?;
    match &options.attach {
        Some(targets) => block_on(live::attach(strace, targets, options)),
        None => block_on(live::run(strace, options)),
    }
}
