//! [`FirstBytes`]: the first bytes that a call moved, as far as a log shows them.

/// The first bytes that a call moved, at most [`FirstBytes::MOST_BYTES`], if the backend sees them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstBytes {
    bytes: [u8; Self::MOST_BYTES],
    length: usize,
}

impl FirstBytes {
    /// This many bytes usually suffice to tell texts apart.
    pub const MOST_BYTES: usize = 16;

    /// The first of these.
    pub fn from_shown(bytes: &[u8]) -> Self {
        let mut first = Self {
            length: bytes.len().min(Self::MOST_BYTES),
            ..Self::default()
        };
        first.bytes[..first.length].copy_from_slice(&bytes[..first.length]);
        first
    }

    /// Whether they differ in a byte that is known in both.
    pub fn differs_from(&self, other: &Self) -> bool {
        let known = self.length.min(other.length);
        self.bytes[..known] != other.bytes[..known]
    }
}
