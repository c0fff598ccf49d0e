//! Strings as strace escapes them.

use super::line::number::hexadecimal_value;

/// The bytes that an escaped string stands for: `\n` and its kin, `\177`, `\x7f`.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    Bytes { rest: text }.collect()
}

/// The first of these bytes, at most so many.
pub fn unescape_up_to(text: &[u8], most: usize) -> Vec<u8> {
    Bytes { rest: text }.take(most).collect()
}

/// How many bytes an escaped string stands for.
pub fn unescaped_length(text: &[u8]) -> usize {
    Bytes { rest: text }.count()
}

/// The address of a Unix socket: `"/run/x"`, or `@"x"` of one that has a name outside of all filesystems.
pub fn sun_path(text: &[u8]) -> Option<String> {
    let (before, quoted) = text.strip_prefix(b"@").map_or(("", text), |quoted| ("@", quoted));
    let name = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(format!("{before}{}", String::from_utf8_lossy(&unescape(name))))
}

struct Bytes<'a> {
    rest: &'a [u8],
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, after) = self.rest.split_first()?;
        let (byte, after) = if first == b'\\' { escaped(after) } else { (first, after) };
        self.rest = after;
        Some(byte)
    }
}

/// The byte that what follows a backslash stands for, and what comes after it.
fn escaped(text: &[u8]) -> (u8, &[u8]) {
    let Some((&first, after)) = text.split_first() else { return (b'\\', text) };
    let byte = match first {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'x' => {
            let (digits, after) = after.split_at(count(after, 2, u8::is_ascii_hexdigit));
            return (digits.iter().fold(0, |sum, &digit| sum << 4 | hexadecimal_value(digit)), after);
        }
        b'0'..=b'7' => {
            let (digits, after) = text.split_at(count(text, 3, |digit| matches!(digit, b'0'..=b'7')));
            return (digits.iter().fold(0, |sum, &digit| sum << 3 | (digit - b'0')), after);
        }
        itself => itself,
    };
    (byte, after)
}

/// How many bytes at the beginning are such digits, up to `most`.
fn count(text: &[u8], most: usize, is_digit: impl Fn(&u8) -> bool) -> usize {
    text.iter().take(most).take_while(|byte| is_digit(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(br#"a\n\t\"\\\177ELF\2\0011\x2fz"#), b"a\n\t\"\\\x7fELF\x02\x011/z");
        assert_eq!(unescaped_length(br"a\n\177\x2f"), 4);
        assert_eq!(unescape(b"\\"), b"\\");
        assert_eq!(unescape(b"\\x"), [0]);
        assert_eq!(unescape(b"\\777"), [0xff]);
    }
}
