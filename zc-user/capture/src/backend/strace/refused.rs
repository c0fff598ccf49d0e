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
    #[error("this is a binary file, and not a log of strace")]
    Binary,
    /// It is compressed; this command unpacks it.
    #[error("the log is compressed; unpack it with {0}")]
    Compressed(&'static str),
    /// It is the output of another tracer.
    #[error("this is the output of {0}, and not a log of strace")]
    OtherTracer(&'static str),
    /// Most of what looks like a call is no system call.
    #[error(
        "this is no log of strace: {known} of its {calls} calls have names of system calls; ltrace prints such lines"
    )]
    FewSystemCalls {
        /// How many lines look like calls.
        calls: u64,
        /// How many of them have names of system calls.
        known: u64,
    },
    /// No line is one of strace.
    #[error(
        "the log has no line of strace; line {number}, the first that is not understood: {line}"
    )]
    NotUnderstood {
        /// The number of the line.
        number: u64,
        /// The line.
        line: String,
    },
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
    let lines = beginning.split(|&byte| byte == b'\n');
    let tracer = lines.map(<[u8]>::trim_ascii_end).find_map(other_tracer);
    if let Some(tracer) = tracer {
        return Some(LogError::OtherTracer(tracer));
    }
    // strace prints no zero bytes; programs do, but few.
    let parts = beginning.split(|&byte| byte == 0).count();
    (parts > beginning.len() / 100 + 1).then_some(LogError::Binary)
}

/// The tracer that prints such a line.
///
/// Sources: the header of macOS's /usr/bin/dtruss; `print_syscall_ret` of FreeBSD's
/// usr.bin/truss/syscalls.c (`ERR#2 'No such file or directory'`, `= 0 (0x0)`), illumos's
/// usr/src/cmd/truss/print.c (`Err#2 ENOENT`); `trace__fprintf_entry_head` of the kernel's
/// tools/perf/builtin-trace.c (`0.012 ( 0.003 ms): ls/12 read(`); ltrace's summary.c.
fn other_tracer(line: &[u8]) -> Option<&'static str> {
    let before_strings = line.split(|&byte| byte == b'"').next().unwrap_or_default();
    let has = |part: &[u8]| {
        before_strings
            .windows(part.len())
            .any(|window| window == part)
    };
    if has(b"SYSCALL(args)") {
        Some("dtruss")
    } else if has(b" ms): ") {
        Some("perf trace")
    } else if line.ends_with(b" (0x0)") || ends_with_errno_of_truss(line) {
        Some("truss")
    } else if line.starts_with(b"% time") && line.ends_with(b" function") {
        Some("ltrace -c")
    } else if line.starts_with(b"__libc_start_main(") {
        Some("ltrace")
    } else {
        None
    }
}

/// Whether a line ends with `Err#2 ENOENT` or `ERR#2 'No such file or directory'`.
fn ends_with_errno_of_truss(line: &[u8]) -> bool {
    let Some(at) = line
        .windows(3)
        .rposition(|window| window.eq_ignore_ascii_case(b"rr#"))
    else {
        return false;
    };
    let text = split_while(&line[at + 3..], |byte| byte.is_ascii_digit()).1;
    match text.strip_prefix(b" ") {
        Some([b'\'', .., b'\'']) => true,
        Some([b'E', name @ ..]) => name.iter().all(u8::is_ascii_alphanumeric),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_by_its_first_bytes() {
        for (bytes, message) in [
            (
                b"\x1f\x8b\x08\0".as_slice(),
                "the log is compressed; unpack it with zcat",
            ),
            (
                b"\x28\xb5\x2f\xfd\x04",
                "the log is compressed; unpack it with zstdcat",
            ),
            (
                b"\xfd7zXZ\0\0",
                "the log is compressed; unpack it with xzcat",
            ),
            (
                b"\x7fELF\x02\x01\n",
                "this is a binary file, and not a log of strace",
            ),
            (
                b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0",
                "this is a binary file, and not a log of strace",
            ),
        ] {
            let error = refuse(bytes).expect("is refused");
            assert_eq!(error.to_string(), message);
        }
        assert!(refuse(b"read(3, \"\", 1) = 0\n").is_none());
    }
}
