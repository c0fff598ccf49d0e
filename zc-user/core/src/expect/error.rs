//! What is wrong with the text of an expectation, and where.

use std::fmt;

/// A text that is no expectation: its message, then the line that it is about with a mark below the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    message: String,
    text: String,
    at: usize,
}

impl std::error::Error for SyntaxError {}

impl SyntaxError {
    pub(super) fn new(text: &str, problem: Problem) -> Self {
        Self { message: problem.message, text: text.to_owned(), at: problem.at.min(text.len()) }
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where in the text, in bytes from its beginning.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// The line that the place is in, and the mark below it.
    pub fn pointer(&self) -> String {
        pointer(&self.text, self.at)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, self.pointer())
    }
}

/// The line of a text in which a place is, and a mark below that, both indented by two.
pub(crate) fn pointer(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    // What would move the mark is shown as a space.
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let column = before[start..].chars().count();
    format!("  {}\n  {}^", line.trim_end(), " ".repeat(column))
}

/// What is wrong, and at which byte.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) at: usize,
}

impl Problem {
    pub(super) fn at(at: usize, message: impl Into<String>) -> Self {
        Self { message: message.into(), at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_below_the_character() {
        let error = SyntaxError::new("réad.cals == 0", Problem::at(6, "what is 'cals'?"));
        assert_eq!(error.to_string(), "what is 'cals'?\n  réad.cals == 0\n       ^");
    }

    #[test]
    fn of_several_lines_one_is_shown() {
        let error = SyntaxError::new("a == 1\n\tand b\nor c", Problem::at(12, "no"));
        assert_eq!(error.to_string(), "no\n   and b\n       ^");
        let error = SyntaxError::new("a", Problem::at(99, "ends"));
        assert_eq!(error.to_string(), "ends\n  a\n   ^");
    }
}
