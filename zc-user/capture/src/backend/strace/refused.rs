//! [`LogError`]: what is no log of strace, recognised by what other programs print.

use std::io;

use thiserror::Error;

/// Why a log cannot be read.
#[derive(Debug, Error)]
pub enum LogError {
    /// It could not be read at all.
    #[error("cannot read the log")]
    Io(#[from] io::Error),
    /// It has no bytes.
    #[error("the log is empty")]
    Empty,
    /// It is a program, a picture or the like.
    #[error("this is a binary file, not a log of strace")]
    Binary,
    /// It is compressed; this command unpacks it.
    #[error("the log is compressed; unpack it with {0}")]
    Compressed(&'static str),
    /// So many of what looks like so many calls have names of system calls.
    #[error(
        "this is not a log of strace: only {0} of its {1} calls have names of system calls; it may be from another tracer"
    )]
    FewSystemCalls(u64, u64),
    /// No line is one of strace. The first that is not understood has this number.
    #[error("no line of the log is from strace; the first that cannot be parsed is line {0}: {1}")]
    NotUnderstood(u64, String),
}

/// The files that compressing programs write, by their first bytes, and what unpacks them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"BZh", "bzcat"),
];

/// Why what begins so is no log; `None` if it may be one.
pub fn refuse(beginning: &[u8]) -> Option<LogError> {
    let mut compressed = COMPRESSED.iter();
    if let Some((_, command)) = compressed.find(|(magic, _)| beginning.starts_with(magic)) {
        return Some(LogError::Compressed(command));
    }
    if beginning.starts_with(b"\x7fELF") {
        return Some(LogError::Binary);
    }
    // strace prints no zero bytes; programs do, but few.
    let parts = beginning.split(|&byte| byte == 0).count();
    (parts > beginning.len() / 100 + 1).then_some(LogError::Binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_by_its_first_bytes() {
        for (bytes, what) in [
            (b"\x1f\x8b\x08\0".as_slice(), "zcat"),
            (b"\x28\xb5\x2f\xfd\x04", "zstdcat"),
            (b"\xfd7zXZ\0\0", "xzcat"),
            (b"\x7fELF\x02\x01\n", "binary"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary"),
        ] {
            let error = refuse(bytes).expect("is refused").to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(refuse(b"read(3, \"\", 1) = 0\n").is_none());
    }
}
