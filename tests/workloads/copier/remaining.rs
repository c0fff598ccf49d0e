//! How much of a copy is still to be asked for.

/// The bytes that a copy may still move: a limit, or everything up to the end of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remaining(Option<u64>);

impl Remaining {
    /// `limit` bytes, or all that the source has.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self(limit)
    }

    /// What the next call should ask for: at most `chunk`; 0 once the limit is reached.
    pub(crate) fn ask(self, chunk: usize) -> usize {
        self.0.map_or(chunk, |left| usize::try_from(left).unwrap_or(usize::MAX).min(chunk))
    }

    /// Takes off `count` bytes that a call moved.
    pub(crate) fn moved(&mut self, count: usize) {
        self.0 = self.0.map(|left| left.saturating_sub(count as u64));
    }
}
