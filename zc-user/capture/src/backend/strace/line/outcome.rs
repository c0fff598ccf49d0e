//! What a call returned: everything after its closing bracket.

use crate::backend::{
    file_calls::Ending,
    strace::{
        names::errno_number,
        syntax::{annotation_end, find_stop, seconds, split_while, tid, unsigned},
    },
};

/// What a call returned, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOutcome<'a> {
    /// How it ended.
    pub ending: Ending,
    /// Time from entry to exit; `None` without `-T`.
    pub duration_ns: Option<u64>,
    /// The result and all that follows, if it is a descriptor with a name: `3</tmp/x> <0.000012>`.
    /// Empty otherwise.
    pub descriptor: &'a [u8],
}

/// The highest errno a call can return: `MAX_ERRNO` of the kernel's include/linux/err.h.
const MAX_ERRNO: u32 = 4095;

impl<'a> CallOutcome<'a> {
    /// Parses what follows the closing bracket of a call: ` = -1 ENOENT (No such file or directory)
    /// <0.000012>`. `None` if it is something else, or cut off.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let text = text.trim_ascii_start().strip_prefix(b"= ")?;
        let ending = Ending::read(text)?;
        if read_tail(after_result(text)) != Tail::Whole {
            return None;
        }
        let is_named = matches!(ending, Ending::Value(_)) && is_descriptor(text);
        Some(Self {
            ending,
            duration_ns: duration_ns(text),
            descriptor: if is_named { text } else { b"" },
        })
    }

    /// Whether this may be the beginning of what follows the closing bracket of a call.
    pub fn is_beginning(text: &[u8]) -> bool {
        let text = text.trim_ascii_start();
        let result = text.strip_prefix(b"=").map(<[u8]>::trim_ascii_start);
        text.is_empty() || result.is_some_and(|text| read_tail(after_result(text)) != Tail::Foreign)
    }

    /// Whether this whole outcome cannot be the beginning of a longer one: it ends with a bracket,
    /// or it has no result. The digits of a result may go on.
    pub fn is_closed(text: &[u8]) -> bool {
        matches!(text.trim_ascii_end().last(), Some(b')' | b'>' | b'?'))
    }
}

/// What follows a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// What strace prints there: ` ENOENT (No such file or directory)`, `</tmp/x> <0.000012>`.
    Whole,
    /// The beginning of that.
    CutOff,
    /// Something else: another call, or output of the program.
    Foreign,
}

/// Looks at what follows a result: the name of its file, then comments, words in capitals and
/// brackets, each after a space.
fn read_tail(text: &[u8]) -> Tail {
    let mut rest = match annotation_end(text, 0) {
        Some(end) => text[end..]
            .strip_prefix(b"(deleted)")
            .unwrap_or(&text[end..]),
        None if text.first() == Some(&b'<') => return Tail::CutOff,
        None => text,
    };
    loop {
        let part = rest.trim_ascii_start();
        if part.is_empty() {
            return Tail::Whole;
        }
        if part.len() == rest.len() {
            return Tail::Foreign;
        }
        let end = match part[0] {
            b'(' => find_stop(&part[1..], b')').map(|at| at + 2),
            b'[' => find_stop(&part[1..], b']').map(|at| at + 2),
            b'<' => annotation_end(part, 0),
            b'/' if part.starts_with(b"/*") => {
                let end = part.windows(2).position(|window| window == b"*/");
                end.map(|at| at + 2)
            }
            b'A'..=b'Z' => Some(split_while(part, is_of_errno_name).0.len()),
            _ => return Tail::Foreign,
        };
        let Some(end) = end else {
            return Tail::CutOff;
        };
        rest = &part[end..];
    }
}

/// What follows the result that `text` begins with.
fn after_result(text: &[u8]) -> &[u8] {
    split_while(text, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'?')
    })
    .1
}

impl Ending {
    fn read(text: &[u8]) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(b"?") {
            let name = errno_name(rest);
            return Some(name.map_or(Self::Never, |name| Self::Error(errno_number(name))));
        }
        let (is_negative, digits) = text
            .strip_prefix(b"-")
            .map_or((false, text), |digits| (true, digits));
        let (magnitude, rest) = unsigned(digits)?;
        if is_negative && magnitude == 1 {
            if let Some(name) = errno_name(rest) {
                return Some(Self::Error(errno_number(name)));
            }
            if let Some((errno, _)) = rest.strip_prefix(b" (errno ").and_then(tid) {
                return Some(Self::Error(Some(errno)));
            }
        }
        if let Some(id) = translated_id(rest) {
            return Some(Self::Value(id));
        }
        Some(match u32::try_from(magnitude) {
            Ok(errno @ 1..=MAX_ERRNO) if is_negative => Self::Error(Some(errno)),
            _ if is_negative => Self::Value(magnitude.cast_signed().wrapping_neg()),
            _ => Self::Value(magnitude.cast_signed()),
        })
    }
}

/// `3<`
fn is_descriptor(text: &[u8]) -> bool {
    let (digits, rest) = split_while(text, |byte| byte.is_ascii_digit());
    !digits.is_empty() && rest.starts_with(b"<")
}

/// ` ENOENT` at the beginning.
fn errno_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b" ")?;
    Some(split_while(text, is_of_errno_name).0).filter(|name| name.starts_with(b"E"))
}

fn is_of_errno_name(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')
}

/// ` /* 123 in strace's PID NS */` at the beginning (`--decode-pids=pidns`), or after the name of a
/// task (`<sh>`): the id that all other lines use.
fn translated_id(text: &[u8]) -> Option<i64> {
    let comment = text
        .starts_with(b"<")
        .then(|| text.windows(5).position(|window| window == b"> /* "))
        .flatten();
    let text = comment.map_or(text, |angle| &text[angle + 1..]);
    let (id, rest) = tid(text.strip_prefix(b" /* ")?)?;
    rest.starts_with(b" in strace").then_some(i64::from(id))
}

/// ` <0.000012>` at the end.
fn duration_ns(text: &[u8]) -> Option<u64> {
    let inside = text.strip_suffix(b">")?;
    let angle = inside.iter().rposition(|&byte| byte == b'<')?;
    let (ns, rest) = seconds(&inside[angle + 1..])?;
    (rest.is_empty() && inside[..angle].ends_with(b" ")).then_some(ns)
}
