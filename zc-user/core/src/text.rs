//! Makes text from outside safe for a terminal and for a shell.
//!
//! Public for zctrace's own crates only; `zctrace::render` has these functions for others.

use std::borrow::Cow;

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
    let escaped = |c: char| match c {
        c if is_unsafe(c) => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// `1 thread`, `2 threads`.
pub fn plural(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
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
    let program = || exe.or_else(|| command?.first().map(String::as_str));
    comm.or_else(|| program().map(file_name))
}

/// A command as one would type it into a shell.
pub fn command_line(words: &[String]) -> String {
    words
        .iter()
        .map(|word| shell_word(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:+=@%^".contains(c);
    if word.chars().any(is_unsafe) {
        format!("$'{}'", word.chars().map(quoted).collect::<String>()).into()
    } else if word.is_empty() || !word.chars().all(is_plain) {
        format!("'{}'", word.replace('\'', r"'\''")).into()
    } else {
        word.into()
    }
}

/// A character within `$'...'`, which bash and zsh understand.
fn quoted(c: char) -> String {
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
    fn control_and_invisible_characters_are_escaped() {
        assert_eq!(escape("a\u{1b}[31mb\n"), r"a\u{1b}[31mb\n");
        assert_eq!(escape("\u{202e}gpj.exe"), r"\u{202e}gpj.exe");
        assert_eq!(escape("naïve 漢"), "naïve 漢");
        assert_eq!(escape("\u{fffe}\u{ffff}"), r"\u{fffe}\u{ffff}");
    }

    #[test]
    fn a_process_is_named_after_its_task_its_program_or_its_command() {
        let (exe, command) = (Some("/bin/b"), ["c".to_owned()]);
        assert_eq!(process_name(Some("a"), exe, None), Some("a"));
        assert_eq!(process_name(None, exe, None), Some("b"));
        assert_eq!(process_name(None, None, Some(&command)), Some("c"));
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        let words = ["sh", "-c", "echo 'hi' > x", "", "a\n'b\u{1b}", "--out=ü"].map(str::to_owned);
        assert_eq!(
            command_line(&words),
            r"sh -c 'echo '\''hi'\'' > x' '' $'a\n\'b\x1b' --out=ü"
        );
    }
}
