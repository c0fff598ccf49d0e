//! From chunks of a log, as they come, to lines.

use super::Collector;

/// The beginning of a line whose rest has not come so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Hands on all whole lines.
    pub(super) fn push(&mut self, chunk: &[u8], collector: &mut Collector<'_>) {
        let mut pieces = chunk.split(|&byte| byte == b'\n');
        // After the last line break stands the beginning of the next line, or nothing.
        let beginning = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            if self.rest.is_empty() {
                collector.push_line(piece);
            } else {
                self.rest.extend_from_slice(piece);
                collector.push_line(&self.rest);
                self.rest.clear();
            }
        }
        self.rest.extend_from_slice(beginning);
    }

    /// Nothing comes any more.
    pub(super) fn end(&mut self, collector: &mut Collector<'_>) {
        if !self.rest.is_empty() {
            collector.push_cut_line(&self.rest);
            self.rest.clear();
        }
    }
}
