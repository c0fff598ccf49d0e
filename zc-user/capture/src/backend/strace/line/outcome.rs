//! What a call returned: everything after its closing bracket.

use crate::backend::strace::syntax::{seconds, tid, unsigned};

/// What a call returned, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// Its result.
    pub result: CallResult<'a>,
    /// Time from entry to exit; `None` without `-T`.
    pub duration_ns: Option<u64>,
    /// The result and all that follows, if it is a descriptor with a name: `3</tmp/x> <0.000012>`.
    /// Empty otherwise.
    pub descriptor: &'a [u8],
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult<'a> {
    /// A number or a pointer.
    Value(i64),
    /// An error, by its name.
    Error(&'a [u8]),
    /// An error, by its number.
    Errno(u32),
    /// `?`: it did not return.
    Never,
}

impl<'a> Outcome<'a> {
    /// Parses what follows the closing bracket of a call: ` = -1 ENOENT (No such file or directory)
    /// <0.000012>`. `None` if it is something else, or cut off before the result.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let spaces = text.iter().position(|&byte| byte != b' ')?;
        let text = text[spaces..].strip_prefix(b"= ")?;
        let result = CallResult::read(text)?;
        let is_named = matches!(result, CallResult::Value(_)) && is_descriptor(text);
        Some(Self {
            result,
            duration_ns: duration(text),
            descriptor: if is_named { text } else { b"" },
        })
    }
}

impl<'a> CallResult<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(b"?") {
            return Some(errno_name(rest).map_or(Self::Never, Self::Error));
        }
        let (is_negative, digits) = text
            .strip_prefix(b"-")
            .map_or((false, text), |digits| (true, digits));
        let (magnitude, rest) = unsigned(digits)?;
        if is_negative && magnitude == 1 {
            if let Some(name) = errno_name(rest) {
                return Some(Self::Error(name));
            }
            if let Some((errno, _)) = rest.strip_prefix(b" (errno ").and_then(tid) {
                return Some(Self::Errno(errno));
            }
        }
        if let Some(id) = translated_id(rest) {
            return Some(Self::Value(id));
        }
        let value = magnitude.cast_signed();
        Some(Self::Value(if is_negative {
            value.wrapping_neg()
        } else {
            value
        }))
    }
}

/// `3<`
fn is_descriptor(text: &[u8]) -> bool {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit());
    digits.is_some_and(|digits| digits > 0 && text[digits] == b'<')
}

/// ` ENOENT` at the beginning.
fn errno_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b" ")?;
    if text.first() != Some(&b'E') {
        return None;
    }
    let end = text
        .iter()
        .position(|byte| !matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
        .unwrap_or(text.len());
    Some(&text[..end])
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
fn duration(text: &[u8]) -> Option<u64> {
    let inside = text.strip_suffix(b">")?;
    let angle = inside.iter().rposition(|&byte| byte == b'<')?;
    if angle
        .checked_sub(1)
        .is_none_or(|before| inside[before] != b' ')
    {
        return None;
    }
    let (ns, rest) = seconds(&inside[angle + 1..])?;
    rest.is_empty().then_some(ns)
}
