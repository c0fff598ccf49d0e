//! Marks: calls that did not find a path below `/zctrace/`. Some begin or end a span of their thread.

use zctrace_core::marked_spans::CallsInSpan;

use super::line::Stamp;

/// The path of a mark, or where it begins.
const ALL: &str = "/zctrace/";

/// The most spans of a thread that may be open at once.
pub const MAX_OPEN: usize = 100;

/// What a mark says.
#[derive(Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A span of this name begins.
    Begin(&'a str),
    /// A span of this name ends.
    End(&'a str),
    /// It names a moment.
    Moment,
}

impl<'a> Mark<'a> {
    /// The mark that a path is; `None`: it is none.
    pub fn of_path(path: &'a str) -> Option<Self> {
        let mark = path.strip_prefix(ALL)?;
        let begin = mark.strip_prefix("begin/").map(Self::Begin);
        let end = || mark.strip_prefix("end/").map(Self::End);
        Some(begin.or_else(end).unwrap_or(Self::Moment))
    }
}

/// A span that has not ended.
#[derive(Debug)]
pub struct OpenSpan {
    /// Its name.
    pub name: String,
    /// When the mark that began it returned; `None`: unknown.
    pub began_at: Option<Stamp>,
    /// The calls so far.
    pub calls: CallsInSpan,
}
