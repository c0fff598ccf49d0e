//! [`Cut`]: a line that something else interrupted, until its rest comes.

/// How many bytes are kept of a cut line together with what stands in between.
const MAX_BYTES: usize = 64 << 10;

/// The beginning of a cut line, and the lines after it.
#[derive(Debug, Default)]
pub struct Cut {
    head: Vec<u8>,
    /// The lines in between, each with a line break.
    between: Vec<u8>,
    joined: Vec<u8>,
}

impl Cut {
    /// Whether there is a cut line.
    pub fn is_open(&self) -> bool {
        !self.head.is_empty()
    }

    /// Begins a cut line. One that is too long is not kept.
    pub fn open(&mut self, head: &[u8]) {
        self.close();
        if head.len() <= MAX_BYTES {
            self.head.extend_from_slice(head);
        }
    }

    /// The whole line, if `tail` is the rest of it.
    pub fn join(&mut self, tail: &[u8]) -> &[u8] {
        self.joined.clear();
        self.joined.extend_from_slice(&self.head);
        self.joined.extend_from_slice(tail);
        &self.joined
    }

    /// Keeps a line in between; `false` if there is no room.
    pub fn keep(&mut self, line: &[u8]) -> bool {
        if self.head.len() + self.between.len() + line.len() >= MAX_BYTES {
            return false;
        }
        self.between.extend_from_slice(line);
        self.between.push(b'\n');
        true
    }

    /// The cut line is complete: what stood in between was printed by the program.
    pub fn close(&mut self) {
        self.head.clear();
        self.between.clear();
    }

    /// Gives up the cut line: calls `on_line` with its beginning and with all lines after it.
    pub fn give_up(&mut self, mut on_line: impl FnMut(&[u8])) {
        if self.is_open() {
            on_line(&self.head);
            self.between
                .split_inclusive(|&byte| byte == b'\n')
                .for_each(|line| on_line(&line[..line.len() - 1]));
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_lines_are_bounded() {
        let mut cut = Cut::default();
        cut.open(b"write(2");
        assert!(!(0..100_000).all(|_| cut.keep(b"line")));
        cut.open(&vec![b'x'; MAX_BYTES + 1]);
        assert!(!cut.is_open());
    }
}
