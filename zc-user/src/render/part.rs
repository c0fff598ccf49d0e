//! What the document of a report is made of. It knows no format.

use super::{
    page::{Options, Style, TextLine, words},
    table::ShownTable,
    text::{self, plural},
};
use crate::{
    counts::CallSums,
    report::{Process, Syscall},
};

/// A report in parts.
#[derive(Debug)]
pub(super) struct Document {
    /// The command line that was traced.
    pub(super) command: String,
    /// How it ended, how much was counted, where the time went.
    pub(super) lines: Vec<TextLine>,
    /// Losses and notes.
    pub(super) remarks: Vec<TextLine>,
    pub(super) parts: Vec<DocumentPart>,
    /// What says most: how the command ended, and the largest transfer.
    pub(super) verdict: Vec<TextLine>,
}

/// A part: a heading, and what is below it.
#[derive(Debug, Default)]
pub(super) struct DocumentPart {
    pub(super) heading: TextLine,
    /// Whether it is the part of transfers.
    pub(super) is_of_transfers: bool,
    /// The command line of a process, if there are several to tell apart.
    pub(super) command: Option<String>,
    pub(super) table: Option<ShownTable>,
    /// Several lines each, of which the first is a title.
    pub(super) items: Vec<Vec<TextLine>>,
    /// The first of them in short.
    pub(super) answer: Vec<TextLine>,
    /// What is said below them.
    pub(super) remarks: Vec<TextLine>,
}

impl DocumentPart {
    /// A table under a heading. `hidden` says what is not listed, and which option lists it.
    pub(super) fn listing(heading: &str, table: ShownTable, hidden: Option<String>) -> Self {
        Self {
            heading: words(heading, Style::Heading),
            table: Some(table),
            remarks: sentence_line(hidden).into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether it has only a heading, because there is nothing to say.
    pub(super) const fn is_one_line(&self) -> bool {
        self.table.is_none() && self.items.is_empty() && self.remarks.is_empty()
    }
}

/// A sentence as a line; none without a sentence.
pub(super) fn sentence_line(sentence: Option<String>) -> Option<TextLine> {
    sentence.map(|sentence| words(&sentence, Style::Plain))
}

/// The sum of these calls.
pub(super) fn sum_of_calls(syscalls: &[Syscall]) -> CallSums {
    syscalls.iter().map(|call| call.sums).sum()
}

/// `and 3 more files with 17 calls: --all shows them`; `None` if there are no more.
pub(super) fn more<T>(hidden: &[T], [one, many]: [&str; 2], figures: &str) -> Option<String> {
    let more = plural(
        hidden.len() as u64,
        &format!("more {one}"),
        &format!("more {many}"),
    );
    (!hidden.is_empty()).then(|| format!("and {more} with {figures}: --all shows them"))
}

/// Splits off what a list shows.
pub(super) fn split<'a, T>(all: &'a [T], most: usize, options: &Options) -> (&'a [T], &'a [T]) {
    let most = if options.all { usize::MAX } else { most };
    all.split_at(most.min(all.len()))
}

/// The command line of a process, if it is known.
pub(super) fn command_of(process: &Process) -> Option<String> {
    let command = process.command.as_deref();
    command
        .filter(|command| !command.is_empty())
        .map(text::command_line)
}
