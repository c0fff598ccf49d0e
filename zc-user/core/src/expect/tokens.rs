//! The tokens of an expectation, and what is wrong with its text.

use std::fmt;

use crate::words::{did_you_mean, nearest_name};

/// The text of an expectation, and the place of the next token in it.
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Where the next token begins.
    at: usize,
    /// Where the last one that was taken ends.
    taken: usize,
}

impl<'a> Tokens<'a> {
    /// Of a whole text.
    pub(super) fn new(text: &'a str) -> Self {
        let at = text.len() - text.trim_start().len();
        Self { text, at, taken: 0 }
    }

    /// The next token: a word, a number, a text in its quotes, or a sign. Empty at the end.
    pub(super) fn peek(&self) -> &'a str {
        let rest = &self.text[self.at..];
        &rest[..token_length(rest)]
    }

    /// Where it begins.
    pub(super) fn token_offset(&self) -> usize {
        self.at
    }

    /// Takes it.
    pub(super) fn advance(&mut self) -> &'a str {
        let token = self.peek();
        self.taken = self.at + token.len();
        self.at = self.text.len() - self.text[self.taken..].trim_start().len();
        token
    }

    /// What was taken since this offset, on one line.
    pub(super) fn written_since(&self, at: usize) -> String {
        let written = self.text.get(at..self.taken).unwrap_or_default();
        let lines: Vec<&str> = written.lines().map(str::trim).collect();
        lines.join(" ")
    }

    /// Takes the next token if it is this one.
    pub(super) fn take_if(&mut self, token: &str) -> bool {
        let is_it = self.peek() == token;
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Takes the next token, which must be this one.
    pub(super) fn take_required(&mut self, token: &str) -> Result<(), SyntaxError> {
        if self.take_if(token) {
            return Ok(());
        }
        Err(self.error_expecting(&format!("'{token}'")))
    }

    /// Takes a word, which must be one of these names.
    pub(super) fn take_name(
        &mut self,
        what: &str,
        names: &[impl AsRef<str>],
    ) -> Result<&'a str, SyntaxError> {
        let word = self.peek();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        if names.contains(&word) {
            return Ok(self.advance());
        }
        if word.starts_with(is_letter) || word.starts_with('%') {
            return Err(SyntaxError::at_offset(
                self.at,
                unknown_name(what, word, &names),
            ));
        }
        let first = names.first().unwrap_or(&"");
        let mut error = self.error_expecting(&format!("{what}, like {first},"));
        error.message += &list_of_names(&names);
        Err(error)
    }

    /// Takes a text in quotes. Returns also where it begins.
    pub(super) fn take_quoted(&mut self, what: &str) -> Result<(&'a str, usize), SyntaxError> {
        let Some(rest) = self.peek().strip_prefix('"') else {
            return Err(self.error_expecting(what));
        };
        let Some(text) = rest.strip_suffix('"') else {
            return Err(SyntaxError::at_offset(self.at, "this quote is not closed"));
        };
        let at = self.at + 1;
        if text.is_empty() {
            return Err(SyntaxError::at_offset(at, "an empty text matches nothing"));
        }
        self.advance();
        Ok((text, at))
    }

    /// The next token is not what is expected.
    pub(super) fn error_expecting(&self, what: &str) -> SyntaxError {
        let found = match self.peek() {
            "" => "the end".to_owned(),
            token => format!("'{token}'"),
        };
        SyntaxError::at_offset(self.at, format!("{what} is expected here, not {found}"))
    }
}

/// A name that does not exist, with the nearest one that does, or all.
fn unknown_name(what: &str, word: &str, names: &[&str]) -> String {
    let hint = match nearest_name(word, names.iter().copied()) {
        None => list_of_names(names),
        near => did_you_mean(near),
    };
    format!("unknown {what} '{word}'{hint}")
}

/// `; there are file, kind`, unless there are too many for a message.
fn list_of_names(names: &[&str]) -> String {
    const MAX_NAMED: usize = 30;
    if names.len() > MAX_NAMED {
        return String::new();
    }
    format!("; there are {}", names.join(", "))
}

/// The signs of more than one character.
const SIGNS: [&str; 6] = ["..=", "==", "!=", "<=", ">=", "->"];

/// The length of the token that a text begins with.
fn token_length(text: &str) -> usize {
    let Some(first) = text.chars().next() else {
        return 0;
    };
    match first {
        // Up to the end if it is not closed.
        '"' => text[1..].find('"').map_or(text.len(), |length| length + 2),
        '%' => 1 + word_length(&text[1..]),
        _ if is_letter(first) => word_length(text),
        _ if first.is_ascii_digit() => number_length(text),
        _ => SIGNS
            .iter()
            .find(|sign| text.starts_with(**sign))
            .map_or(first.len_utf8(), |sign| sign.len()),
    }
}

/// Whether a word can begin with it. The sign for micro is part of a unit.
pub(super) fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | 'µ' | 'μ')
}

/// The length of a word, which may have `+` and `-` inside: `read+write`, `unix-stream`.
fn word_length(text: &str) -> usize {
    let goes_on = |(at, c): &(usize, char)| {
        let joins = matches!(c, '+' | '-')
            && text[at + 1..].starts_with(|next: char| next.is_ascii_alphanumeric());
        is_letter(*c) || c.is_ascii_digit() || joins
    };
    let end = text.char_indices().find(|place| !goes_on(place));
    end.map_or(text.len(), |(at, _)| at)
}

/// The length of digits with or without a fraction.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| {
        let is_other = |c: char| !c.is_ascii_digit() && c != '_';
        text.find(is_other).unwrap_or(text.len())
    };
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    whole + if fraction > 0 { 1 + fraction } else { 0 }
}

/// A mistake in the text of an expectation. It shows a message, then the line with a mark below the
/// place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    message: String,
    text: String,
    at: usize,
}

impl std::error::Error for SyntaxError {}

impl SyntaxError {
    /// A message about this offset, in a text that is yet to be [set](Self::in_text).
    pub(super) fn at_offset(at: usize, message: impl Into<String>) -> Self {
        Self {
            // What is quoted in a message may have several lines.
            message: message.into().replace(char::is_control, " "),
            text: String::new(),
            at,
        }
    }

    /// The same with the text that it is about.
    pub(super) fn in_text(self, text: &str) -> Self {
        Self {
            at: self.at.min(text.len()),
            text: text.to_owned(),
            ..self
        }
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Offset of the place in the text, in bytes.
    pub const fn offset(&self) -> usize {
        self.at
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, mark_place(&self.text, self.at))
    }
}

/// The line of a text with an offset, and a mark below it, both indented by two.
pub(crate) fn mark_place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    // A control character could move the mark, so it becomes a space.
    let line = line.replace(char::is_control, " ");
    let column = before[start..].chars().count();
    format!("  {}\n  {}^", line.trim_end(), " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_below_the_character_in_its_line() {
        for (text, at, shown) in [
            ("réad.cals == 0", 6, "  réad.cals == 0\n       ^"),
            ("a == 1\n\tand b\nor c", 12, "   and b\n       ^"),
            ("a", 99, "  a\n   ^"),
        ] {
            let error = SyntaxError::at_offset(at, "no").in_text(text);
            assert_eq!(error.to_string(), format!("no\n{shown}"));
        }
    }
}
