//! The syntax that all of strace's output shares: numbers, escaped strings, and the nesting of
//! brackets and annotations.

use zctrace_core::text::from_bytes;

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Parses a decimal number at the beginning of `text`; also returns the rest. `None` without a
/// digit, or if it is too large.
pub fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    digits(text, 10, usize::MAX)
}

/// Parses a number at the beginning of `text`: decimal, or hexadecimal after `0x`.
pub fn unsigned(text: &[u8]) -> Option<(u64, &[u8])> {
    match text.strip_prefix(b"0x") {
        Some(hexadecimal) => digits(hexadecimal, 16, usize::MAX),
        None => decimal(text),
    }
}

/// Parses the number that the digits at the beginning of `text` make, at most so many of them.
fn digits(text: &[u8], radix: u32, most: usize) -> Option<(u64, &[u8])> {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let (digits, rest) = text.split_at(text.iter().take(most).take_while(is_digit).count());
    let number = u64::from_str_radix(str::from_utf8(digits).ok()?, radix);
    Some((number.ok()?, rest))
}

/// Splits `text` before the first byte that is not of a kind.
pub fn split_while(text: &[u8], is_of_kind: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !is_of_kind(byte));
    text.split_at(end.unwrap_or(text.len()))
}

/// Parses a thread id at the beginning of `text`.
pub fn tid(text: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = decimal(text)?;
    Some((u32::try_from(number).ok()?, rest))
}

/// Parses seconds with a fraction of up to nine digits, like `0.000012`, as ns; also returns the
/// rest.
pub fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (seconds, rest) = decimal(text)?;
    let seconds_ns = seconds.checked_mul(SECOND_NS)?;
    let Some(fraction) = rest.strip_prefix(b".") else {
        return Some((seconds_ns, rest));
    };
    let (fraction_ns, rest) = fraction_ns(fraction)?;
    Some((seconds_ns.checked_add(fraction_ns)?, rest))
}

/// Parses the digits after a decimal point as ns; also returns the rest.
pub fn fraction_ns(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut fraction, rest) = decimal(text)?;
    let digits = text.len() - rest.len();
    for _ in digits..9 {
        fraction *= 10;
    }
    (digits <= 9).then_some((fraction, rest))
}

/// The bytes of an escaped string: `\n` and the like, `\177`, `\x7f`.
pub fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let (byte, after) = if first == b'\\' {
            escaped(after)
        } else {
            (first, after)
        };
        rest = after;
        Some(byte)
    })
}

/// The text of an escaped string.
pub fn unescaped_text(text: &[u8]) -> String {
    from_bytes(&unescaped(text).collect::<Vec<_>>())
}

/// The address of a Unix socket: `"/run/x"`, or `@"x"` for an abstract one.
pub fn sun_path(text: &[u8]) -> Option<String> {
    let (before, quoted) = text
        .strip_prefix(b"@")
        .map_or(("", text), |quoted| ("@", quoted));
    let name = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(format!("{before}{}", unescaped_text(name)))
}

/// Parses what follows a backslash: the byte, and the rest.
fn escaped(text: &[u8]) -> (u8, &[u8]) {
    let Some((&first, after)) = text.split_first() else {
        return (b'\\', text);
    };
    let byte = match first {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'x' => return low_byte(digits(after, 16, 2).unwrap_or((0, after))),
        b'0'..=b'7' => return low_byte(digits(text, 8, 3).unwrap_or((0, after))),
        itself => itself,
    };
    (byte, after)
}

/// The lowest byte of a number, and the rest.
fn low_byte((number, rest): (u64, &[u8])) -> (u8, &[u8]) {
    (number.to_le_bytes()[0], rest)
}

/// The index of the first `stop` (a comma or a closing bracket) at the level where `text` begins;
/// strings, brackets and annotations of descriptors are skipped. `None` if there is none, or if
/// another bracket closes that level first.
pub fn find_top_level(text: &[u8], stop: u8) -> Option<usize> {
    find_stop(text, stop).filter(|&at| text[at] == stop)
}

/// The index of the first `stop` at the level where `text` begins, or of the bracket that closes
/// that level.
pub fn find_stop(text: &[u8], stop: u8) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    // The end of an annotation is searched in vain only once, so that a line full of `<` takes
    // linear time.
    let mut annotations_end = true;
    loop {
        let is_syntax = |byte: &u8| {
            matches!(
                byte,
                b'"' | b'(' | b'[' | b'{' | b')' | b']' | b'}' | b'<' | b','
            )
        };
        at += text.get(at..)?.iter().position(is_syntax)?;
        match text[at] {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'<' if annotations_end => match end_of_annotation(text, at) {
                Annotation::EndsAt(end) => {
                    at = end;
                    continue;
                }
                Annotation::NeverEnds => annotations_end = false,
                Annotation::IsNone => {}
            },
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return Some(at),
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 && stop == b',' => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// The index after the closing quote of the string that begins at `quote`.
pub fn end_of_string(text: &[u8], quote: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// What a `<` begins.
enum Annotation {
    /// An annotation that ends before this index.
    EndsAt(usize),
    /// An annotation without its `>`.
    NeverEnds,
    /// No annotation: an operator, as in `1<<12`.
    IsNone,
}

/// The index after the annotation that begins at `angle`, if one does.
pub fn annotation_end(text: &[u8], angle: usize) -> Option<usize> {
    if text.get(angle) != Some(&b'<') {
        return None;
    }
    match end_of_annotation(text, angle) {
        Annotation::EndsAt(end) => Some(end),
        _ => None,
    }
}

/// Finds out what the `<` at `angle` begins: `3</path>`, `3<TCP:[127.0.0.1:1->127.0.0.1:2]>`,
/// `3</dev/null<char 1:3>>`, `<... resuming ...>`.
fn end_of_annotation(text: &[u8], angle: usize) -> Annotation {
    if matches!(text.get(angle + 1), Some(b'<' | b'=' | b' '))
        || angle
            .checked_sub(1)
            .is_some_and(|before| text[before] == b'<')
    {
        return Annotation::IsNone;
    }
    let mut depth = 0_usize;
    let mut at = angle;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            // The path of a unix socket.
            b'"' => match end_of_string(text, at) {
                Some(end) => {
                    at = end;
                    continue;
                }
                None => return Annotation::NeverEnds,
            },
            b'<' => depth += 1,
            b'>' if is_arrow(text, at) => {}
            b'>' if depth == 1 => return Annotation::EndsAt(at + 1),
            b'>' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Annotation::NeverEnds
}

/// Whether this `>` is part of the `->` between two sockets, and not the end of a path that ends
/// with `-`.
fn is_arrow(text: &[u8], at: usize) -> bool {
    text[at - 1] == b'-'
        && !matches!(
            text.get(at + 1),
            None | Some(b',' | b')' | b']' | b'}' | b'(' | b' ' | b'>')
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_full_of_angles_takes_linear_time() {
        assert_eq!(find_top_level("<a".repeat(1 << 20).as_bytes(), b')'), None);
    }
}
