//! The keys of a terminal, from the bytes that it sends.
//!
//! Not by crossterm: its reader (0.29) never returns once the terminal has hung up, as when a
//! connection by ssh breaks.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPress {
    /// A character.
    Char(char),
    /// Ctrl and C.
    Interrupt,
    /// Escape.
    Escape,
    /// Enter.
    Enter,
    /// Backspace.
    Backspace,
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// The arrow to the left.
    Left,
    /// The arrow to the right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

const ESCAPE: u8 = 0x1b;

/// Whether the bytes end within the sequence of a key, or with the key Escape: more may come.
pub fn is_cut(bytes: &[u8]) -> bool {
    let Some(start) = bytes.iter().rposition(|&byte| byte == ESCAPE) else {
        return false;
    };
    match &bytes[start + 1..] {
        [] | [b'O'] => true,
        [b'[', rest @ ..] => !rest.iter().any(|&byte| is_final(byte)),
        _ => false,
    }
}

/// The keys that these bytes are, as xterm and those like it send them. Unknown ones are left out.
pub fn parse_keys(bytes: &[u8]) -> Vec<KeyPress> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (key, length) = first_key(rest);
        keys.extend(key);
        rest = &rest[length..];
    }
    keys
}

/// The first key, if it is known, and how many bytes it takes.
fn first_key(bytes: &[u8]) -> (Option<KeyPress>, usize) {
    match bytes {
        [ESCAPE, b'[', rest @ ..] => {
            // ECMA-48, 5.4: parameters, and one final byte.
            let length = rest
                .iter()
                .position(|&byte| is_final(byte))
                .unwrap_or(rest.len());
            let key = rest
                .get(length)
                .and_then(|&last| sequence(&rest[..length], last));
            (key, (length + 3).min(bytes.len()))
        }
        [ESCAPE, b'O', last, ..] => (sequence(&[], *last), 3),
        [ESCAPE, ..] => (Some(KeyPress::Escape), 1),
        [0x03, ..] => (Some(KeyPress::Interrupt), 1),
        [b'\r' | b'\n', ..] => (Some(KeyPress::Enter), 1),
        [0x08 | 0x7f, ..] => (Some(KeyPress::Backspace), 1),
        _ => character(bytes),
    }
}

const fn is_final(byte: u8) -> bool {
    matches!(byte, 0x40..=0x7e)
}

/// The key of a control sequence.
fn sequence(parameters: &[u8], last: u8) -> Option<KeyPress> {
    Some(match (parameters, last) {
        (_, b'A') => KeyPress::Up,
        (_, b'B') => KeyPress::Down,
        (_, b'C') => KeyPress::Right,
        (_, b'D') => KeyPress::Left,
        (_, b'H') | (b"1" | b"7", b'~') => KeyPress::Home,
        (_, b'F') | (b"4" | b"8", b'~') => KeyPress::End,
        (b"5", b'~') => KeyPress::PageUp,
        (b"6", b'~') => KeyPress::PageDown,
        _ => return None,
    })
}

/// A character in UTF-8; control characters and bytes that are no text are no keys.
fn character(bytes: &[u8]) -> (Option<KeyPress>, usize) {
    let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    match valid.chars().next() {
        Some(c) => {
            let key = (!c.is_control()).then_some(KeyPress::Char(c));
            (key, c.len_utf8())
        }
        None => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequences_of_terminals_are_keys_and_unknown_ones_are_none() {
        use KeyPress::{
            Backspace, Char, Down, End, Enter, Escape, Home, Interrupt, PageDown, PageUp, Up,
        };
        for (bytes, keys) in [
            (&b"q"[..], &[Char('q')][..]),
            (b"\x1b[A\x1bOB", &[Up, Down]),
            (b"\x1b[5~\x1b[6~", &[PageUp, PageDown]),
            (b"\x1b[H\x1b[4~", &[Home, End]),
            (b"\x1b[1;5A", &[Up]),
            (b"\x1b[15~x", &[Char('x')]),
            (b"\x1b", &[Escape]),
            (b"\x1bq", &[Escape, Char('q')]),
            (b"a\r\x7f\x03", &[Char('a'), Enter, Backspace, Interrupt]),
            ("ä\u{1}".as_bytes(), &[Char('ä')]),
            (b"\xffz", &[Char('z')]),
            (b"\x1b[12", &[]),
        ] {
            assert_eq!(parse_keys(bytes), keys, "{bytes:?}");
        }
    }

    #[test]
    fn a_sequence_may_come_in_parts() {
        for (bytes, cut) in [
            (&b"\x1b"[..], true),
            (b"a\x1b[", true),
            (b"\x1b[5", true),
            (b"\x1bO", true),
            (b"\x1b[5~", false),
            (b"\x1b[5~q", false),
            (b"q", false),
        ] {
            assert_eq!(is_cut(bytes), cut, "{bytes:?}");
        }
    }
}
