//! Lines that are cut, and lines that are not understood.

use super::Collector;
use crate::{
    backend::strace::{
        join::{Entry, Left},
        line::{Event, Line},
    },
    trace::Loss,
};

/// As much of a line as is worth showing.
fn shortened(line: &[u8]) -> &[u8] {
    const MAX_SHOWN: usize = 200;
    &line[..line.len().min(MAX_SHOWN)]
}

impl Collector<'_> {
    /// A line is the beginning of one. `false` if it cannot be.
    pub(super) fn open_cut(&mut self, line: &Line<'_>, name: &[u8], head: &[u8], attached: Option<u32>) -> bool {
        if !self.names.has(name) {
            return false;
        }
        let Some(name) = self.names.find(name) else { return false };
        self.give_up_cut();
        let id = self.task_of(line, None);
        if let Some(tid) = attached {
            self.tasks.attached(tid);
        }
        self.cut.open(head);
        if self.cut.is_open() {
            self.cut_call = Some((id, name));
        } else {
            self.unparsed(shortened(head));
        }
        true
    }

    /// Adds a line of which only the beginning was kept: what it tells is lost.
    pub fn push_long_line(&mut self, beginning: &[u8]) {
        if self.is_over {
            return;
        }
        self.lines += 1;
        self.give_up_cut();
        self.unparsed(shortened(beginning));
    }

    /// Completes the line that is cut, if there is one and `tail` is the rest of it; or keeps `tail` as something that stands in between.
    pub(super) fn close_cut(&mut self, tail: &[u8]) -> bool {
        if !self.cut.is_open() {
            return false;
        }
        let mut cut = std::mem::take(&mut self.cut);
        let joined = Line::parse(cut.join(tail));
        let is_whole = matches!(joined.event, Event::Call { .. } | Event::Unfinished { .. });
        // What was printed in between may stand right after an argument: 1 and "5\n" look like 15.
        let is_closed = is_whole && self.add_event(&joined, false);
        if is_closed {
            cut.close();
            self.cut_call = None;
        }
        self.cut = cut;
        is_closed || self.cut.keep(tail)
    }

    /// There is no rest: the call began, and what came after it is not understood.
    pub(super) fn give_up_cut(&mut self) {
        if !self.cut.is_open() {
            return;
        }
        let mut cut = std::mem::take(&mut self.cut);
        cut.give_up(|line| self.unparsed(line));
        self.cut = cut;
        if let Some((id, name)) = self.cut_call.take() {
            let entry = Entry { name, line: self.lines, has_all_args: false };
            self.never_returned(id, Some(Left { entry, args: Vec::new() }));
        }
    }

    pub(super) fn unparsed(&mut self, line: &[u8]) {
        self.parts.lose(Loss::UnparsedLines);
        (self.on_unparsed)(&String::from_utf8_lossy(line));
    }
}
