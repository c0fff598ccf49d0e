//! Makes text from outside safe for a terminal and for a shell.
//!
//! Public for zctrace's own crates only; `zctrace::render` has these functions for others.

use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt as _};

/// Makes `Debug` of errors the same as `Display`: a test that returns an error shows the former.
macro_rules! debug_as_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
pub(crate) use debug_as_display;

/// Whether a character would control a terminal, or be invisible there. A program can choose any
/// name for itself.
fn is_unsafe(c: char) -> bool {
    let is_invisible = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    // These are not characters, and XML does not allow them.
    let is_none = matches!(c, '\u{fffe}' | '\u{ffff}');
    c.is_control() || is_invisible || is_none
}

/// Escapes what would control a terminal or be invisible: `a\nb`, `\u{1b}`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Text of bytes. One that is no UTF-8 becomes `\xff`. So that the bytes can be told again, a
/// backslash that would read as the beginning of such a byte becomes `\x5c`.
pub fn from_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            if c == '\\' && is_escaped_byte(&valid[at..]) {
                text.push_str(r"\x5c");
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// The text of a word or path of the system, as of [`from_bytes`].
pub fn from_os(word: impl AsRef<OsStr>) -> String {
    from_bytes(word.as_ref().as_bytes())
}

/// Whether a text begins with a byte as [`from_bytes`] writes one.
fn is_escaped_byte(text: &str) -> bool {
    let digits = text.strip_prefix(r"\x").and_then(|rest| rest.get(..2));
    let is_lower = |digits: &&str| !digits.contains(|c: char| c.is_ascii_uppercase());
    let byte = digits
        .filter(is_lower)
        .and_then(|digits| u8::from_str_radix(digits, 16).ok());
    byte.is_some_and(|byte| byte >= 0x80 || byte == b'\\')
}

/// `1 thread`, `2 threads`.
pub fn plural(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The first of these texts, and how many more there are: `mount, ptrace and 3 more`.
pub fn first_of(texts: &[String], most: usize) -> String {
    let named = texts[..texts.len().min(most)].join(", ");
    match texts.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A path as reports show it: relative to this directory if it is below that.
pub fn relative_to<'p>(directory: &str, path: &'p str) -> &'p str {
    let directory = directory.trim_end_matches('/');
    let rest = path.strip_prefix(directory);
    match rest.and_then(|rest| rest.strip_prefix('/')) {
        Some(below) if !directory.is_empty() && !below.is_empty() => below,
        _ => path,
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether this is the path of a shared library (`libc.so.6`, `codec.so`), or of the loader's cache
/// of their places (`ld.so.cache`).
pub fn is_library(path: &str) -> bool {
    file_name(path).split('.').skip(1).any(|part| part == "so")
}

/// The name of a process: that of its first thread, or else of its program.
pub(crate) fn process_name<'a>(
    comm: Option<&'a str>,
    exe: Option<&'a str>,
    command: Option<&'a [String]>,
) -> Option<&'a str> {
    let first = command.and_then(<[String]>::first);
    comm.or(exe.or(first.map(String::as_str)).map(file_name))
}

/// A command as one would type it into a shell.
pub fn command_line(words: &[String]) -> String {
    let words = words.iter().map(|word| shell_word(word));
    words.collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:+=@%^".contains(c);
    let mut backslashes = word.match_indices('\\');
    let has_bytes = backslashes.any(|(at, _)| is_escaped_byte(&word[at..]));
    if has_bytes || word.chars().any(is_unsafe) {
        let mut quoted = String::new();
        for (at, c) in word.char_indices() {
            match c {
                // It is written as the shell reads it already.
                '\\' if is_escaped_byte(&word[at..]) => quoted.push(c),
                c => quoted += &escape_for_shell(c),
            }
        }
        format!("$'{quoted}'").into()
    } else if word.is_empty() || !word.chars().all(is_plain) {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    } else {
        word.into()
    }
}

/// A character within `$'...'`, which bash and zsh understand.
fn escape_for_shell(c: char) -> String {
    match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\r' => r"\r".to_owned(),
        '\'' | '\\' => format!(r"\{c}"),
        c if c.is_ascii_control() => format!(r"\x{:02x}", u32::from(c)),
        // Always four digits, so that a digit that follows is not read as a fifth.
        c if is_unsafe(c) => format!(r"\u{:04x}", u32::from(c)),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_can_be_told_again() {
        for (bytes, text) in [
            (&b"a\xff"[..], r"a\xff"),
            (b"\xc3\xa4\xe2\x82", r"ä\xe2\x82"),
            (br"dev\x2duuid\ff", r"dev\x2duuid\ff"),
            (br"a\xff", r"a\x5cxff"),
            (br"\x5c\xFF", r"\x5cx5c\xFF"),
        ] {
            assert_eq!(from_bytes(bytes), text);
            let words = [text.to_owned()];
            if bytes != text.as_bytes() {
                assert!(command_line(&words).starts_with("$'"), "{text}");
            }
        }
        assert_eq!(command_line(&[r"a\xff\n".to_owned()]), r"$'a\xff\\n'");
    }

    #[test]
    fn a_process_is_named_after_its_task_its_program_or_its_command() {
        let (exe, command) = (Some("/bin/b"), ["c".to_owned()]);
        assert_eq!(process_name(Some("a"), exe, None), Some("a"));
        assert_eq!(process_name(None, exe, None), Some("b"));
        assert_eq!(process_name(None, None, Some(&command)), Some("c"));
    }
}
