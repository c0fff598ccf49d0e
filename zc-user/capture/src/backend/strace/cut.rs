//! [`Cut`]: a line that something else interrupted, until its rest comes.

use super::{line::Line, names::NameId, tasks::TaskId};

/// How many bytes are kept of a cut line together with what stands in between.
const MAX_BYTES: usize = 64 << 10;

/// The beginning of a cut line, and the lines after it.
#[derive(Debug)]
pub struct Cut {
    /// The task whose line it is, and the call.
    pub call: (TaskId, NameId),
    head: Vec<u8>,
    /// The lines in between.
    between: Vec<Vec<u8>>,
    bytes: usize,
}

impl Cut {
    /// Begins a cut line. `None`: it is too long to be kept.
    pub fn begin(head: &[u8], call: (TaskId, NameId)) -> Option<Self> {
        (head.len() <= MAX_BYTES).then(|| Self {
            call,
            head: head.to_vec(),
            between: Vec::new(),
            bytes: head.len(),
        })
    }

    /// The whole line, if `tail` is the rest of it.
    pub fn join(&self, tail: &[u8]) -> Vec<u8> {
        [&self.head, tail].concat()
    }

    /// The beginning of the line, as far as it says who and when.
    pub fn line(&self) -> Line<'_> {
        Line::parse(&self.head)
    }

    /// Keeps a line in between; `false` if there is no room.
    pub fn keep_line_between(&mut self, line: &[u8]) -> bool {
        self.bytes += line.len() + 1;
        if self.bytes > MAX_BYTES {
            return false;
        }
        self.between.push(line.to_vec());
        true
    }

    /// The beginning of the cut line, and all lines after it.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        [&self.head]
            .into_iter()
            .chain(&self.between)
            .map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_lines_are_bounded() {
        let mut cut = Cut::begin(b"write(2", (0, 0)).expect("is short");
        assert!(!(0..100_000).all(|_| cut.keep_line_between(b"line")));
        assert!(Cut::begin(&vec![b'x'; MAX_BYTES + 1], (0, 0)).is_none());
    }
}
