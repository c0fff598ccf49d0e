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

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> Option<CallResult<'_>> {
        Outcome::read(text.as_bytes()).map(|outcome| outcome.result)
    }

    #[test]
    fn results_are_parsed() {
        for (text, value) in [
            (" = 0", 0),
            ("                  = 131072", 131_072),
            (" = 0x7f4c68ce1000", 0x7f4c_68ce_1000),
            (" = 3</tmp/a b>", 3),
            (" = 0x8002 (flags O_RDWR|O_LARGEFILE)", 0x8002),
            (" = 0 (Timeout)", 0),
            (" = 1 ([{fd=3, revents=POLLIN}])", 1),
            (" = -1", -1),
            (" = -12", -12),
            (" = 0xffffffffffffffff", -1),
            (" = 2 /* 1234 in strace's PID NS */", 1234),
        ] {
            assert_eq!(result(text), Some(CallResult::Value(value)), "{text}");
        }
    }

    #[test]
    fn errors_are_parsed() {
        for (text, name) in [
            (" = -1 ENOENT (No such file or directory)", "ENOENT"),
            (
                " = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
                "ERESTARTSYS",
            ),
            (
                " = ? ERESTART_RESTARTBLOCK (Interrupted by signal) <1.0>",
                "ERESTART_RESTARTBLOCK",
            ),
            (" = -1 E2BIG (Argument list too long)", "E2BIG"),
        ] {
            assert_eq!(
                result(text),
                Some(CallResult::Error(name.as_bytes())),
                "{text}"
            );
        }
        assert_eq!(result(" = -1 (errno 530)"), Some(CallResult::Errno(530)));
    }

    #[test]
    fn a_question_mark_means_that_the_call_never_returned() {
        assert_eq!(result(" = ?"), Some(CallResult::Never));
        assert_eq!(result(" = ? <unavailable>"), Some(CallResult::Never));
    }

    #[test]
    fn durations_are_parsed() {
        for (text, ns) in [
            (" = 3 <0.000012>", Some(12_000)),
            (" = 3</tmp/x> <1.5>", Some(1_500_000_000)),
            (" = 3</tmp/0.5>", None),
            (" = 3<0.5>", None),
            (" = 3", None),
            (" = 3 <unavailable>", None),
        ] {
            assert_eq!(
                Outcome::read(text.as_bytes()).map(|outcome| outcome.duration_ns),
                Some(ns),
                "{text}"
            );
        }
    }

    #[test]
    fn a_descriptor_with_a_name_is_kept() {
        let descriptor =
            |text: &'static str| Outcome::read(text.as_bytes()).map(|outcome| outcome.descriptor);
        assert_eq!(
            descriptor(" = 3</tmp/x> <1.5>"),
            Some(b"3</tmp/x> <1.5>".as_slice())
        );
        for text in [
            " = 3 <1.5>",
            " = 0",
            " = -1 EBADF (Bad file descriptor)",
            " = ?",
        ] {
            assert_eq!(descriptor(text), Some(b"".as_slice()), "{text}");
        }
    }

    #[test]
    fn a_cut_outcome_is_refused() {
        for text in ["", " ", " =", " = ", " = -", "= ", " = x", " 3"] {
            assert_eq!(result(text), None, "{text}");
        }
    }
}
