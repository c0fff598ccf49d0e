//! [`LogError`]: what is no log of strace, recognised by what other programs print.

use std::io;

use thiserror::Error;

use super::syntax::split_while;

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
    /// It is the output of another tracer.
    #[error("this is the output of {0}, not a log of strace")]
    OtherTracer(&'static str),
    /// So many of what looks like so many calls have names of system calls.
    #[error(
        "this is not a log of strace: only {0} of its {1} calls have names of system calls; it may be from ltrace"
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
pub fn error_of_beginning(beginning: &[u8]) -> Option<LogError> {
    let mut compressed = COMPRESSED.iter();
    if let Some((_, command)) = compressed.find(|(magic, _)| beginning.starts_with(magic)) {
        return Some(LogError::Compressed(command));
    }
    if beginning.starts_with(b"\x7fELF") {
        return Some(LogError::Binary);
    }
    let lines = beginning.split(|&byte| byte == b'\n');
    let tracer = lines.map(<[u8]>::trim_ascii_end).find_map(other_tracer);
    if let Some(tracer) = tracer {
        return Some(LogError::OtherTracer(tracer));
    }
    // strace prints no zero bytes; programs do, but few.
    let parts = beginning.split(|&byte| byte == 0).count();
    (parts > beginning.len() / 100 + 1).then_some(LogError::Binary)
}

/// What other tracers print before any string: the header of macOS's dtruss, the times of the kernel's
/// tools/perf/builtin-trace.c, the header of ltrace's summary.c, the first call that ltrace sees.
const MARKS: [(&[u8], &str); 4] = [
    (b"SYSCALL(args)", "dtruss"),
    (b" ms): ", "perf trace"),
    (b"calls      function", "ltrace -c"),
    (b"__libc_start_main(", "ltrace"),
];

/// The tracer that prints such a line.
fn other_tracer(line: &[u8]) -> Option<&'static str> {
    let before_strings = line.split(|&byte| byte == b'"').next()?;
    let has = |part: &[u8]| {
        let mut windows = before_strings.windows(part.len());
        windows.any(|window| window == part)
    };
    let marks = MARKS.iter().find(|(mark, _)| has(mark));
    let marked = marks.map(|(_, tracer)| *tracer);
    marked.or_else(|| is_of_truss(line).then_some("truss"))
}

/// Whether a line ends as those of truss do: `= 0 (0x0)` or `ERR#2 'No such file or directory'` in
/// FreeBSD's usr.bin/truss, `Err#2 ENOENT` in illumos's usr/src/cmd/truss.
fn is_of_truss(line: &[u8]) -> bool {
    let mark = line
        .windows(3)
        .rposition(|window| matches!(window, b"rr#" | b"RR#"));
    let errno = mark.map_or(b"".as_slice(), |at| &line[at + 3..]);
    match split_while(errno, |byte| byte.is_ascii_digit()).1 {
        [b' ', b'\'', .., b'\''] => true,
        [b' ', b'E', name @ ..] => name.iter().all(u8::is_ascii_alphanumeric),
        _ => line.ends_with(b" (0x0)"),
    }
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
            let error = error_of_beginning(bytes).expect("is refused").to_string();
            assert!(error.contains(what), "{error}");
        }
        assert!(error_of_beginning(b"read(3, \"\", 1) = 0\n").is_none());
    }
}
