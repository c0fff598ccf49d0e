//! Splits the text of an expectation into tokens, and says what is wrong with it, and where.

use std::fmt;

/// A token and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) end: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word, which may have `+` and `-` inside: `read+write`, `unix-stream`.
    Word(String),
    /// A word after `%`.
    Class(String),
    /// Digits, with or without a fraction.
    Number(String),
    /// Text between quotes.
    Quoted(String),
    /// One of [`SIGNS`].
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// The signs. A longer one comes before its prefixes.
const SIGNS: [&str; 18] = [
    "..=", "..", "==", "!=", "<=", ">=", "->", ".", "[", "]", "(", ")", ",", "=", "<", ">", "*",
    ":",
];

/// Signs of other languages, and what to write here instead.
const FOREIGN: [(&str, &str); 4] = [("&&", "and"), ("||", "or"), ("!", "not"), ("~", "==")];

impl Kind {
    /// How messages show it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("'{word}'"),
            Self::Class(word) => format!("'%{word}'"),
            Self::Number(number) => format!("'{number}'"),
            Self::Quoted(text) => format!("\"{text}\""),
            Self::Sign(sign) => format!("'{sign}'"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The tokens of a text; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(&text[at..], first).map_err(|problem| Problem {
            at: at + problem.at,
            ..problem
        })?;
        tokens.push(Token {
            kind,
            at,
            end: at + length,
        });
        at += length;
    }
    tokens.push(Token {
        kind: Kind::End,
        at,
        end: at,
    });
    Ok(tokens)
}

/// The first token of a text, and its length.
fn token(text: &str, first: char) -> Result<(Kind, usize), Problem> {
    if is_letter(first) {
        let word = word(text);
        return Ok((Kind::Word(word.to_owned()), word.len()));
    }
    if first.is_ascii_digit() {
        let number = number(text);
        return Ok((Kind::Number(number.to_owned()), number.len()));
    }
    match first {
        '"' => quoted(text),
        '%' if text[1..].starts_with(is_letter) => {
            let class = word(&text[1..]);
            Ok((Kind::Class(class.to_owned()), class.len() + 1))
        }
        _ => sign(text, first),
    }
}

fn is_letter(c: char) -> bool {
    // The sign for micro is part of a unit.
    c.is_ascii_alphabetic() || matches!(c, '_' | 'µ' | 'μ')
}

fn word(text: &str) -> &str {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let goes_on = |next: Option<&(usize, char)>| {
            next.is_some_and(|(_, next)| next.is_ascii_alphanumeric())
        };
        if !(is_letter(c)
            || c.is_ascii_digit()
            || (matches!(c, '+' | '-') && goes_on(chars.peek())))
        {
            break;
        }
        end = index + c.len_utf8();
    }
    &text[..end]
}

fn number(text: &str) -> &str {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let whole = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let fraction = text[whole..]
        .strip_prefix('.')
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let end = fraction.map_or(whole, |rest| {
        whole + 1 + rest.find(|c| !is_digit(c)).unwrap_or(rest.len())
    });
    &text[..end]
}

/// Text between quotes. `\"` and `\\` are escapes for `"` and `\`.
fn quoted(text: &str) -> Result<(Kind, usize), Problem> {
    let mut content = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Ok((Kind::Quoted(content), index + 1)),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => content.push(escaped),
                _ => return Err(Problem::at(index, r#"after '\' write '"' or another '\'"#)),
            },
            c => content.push(c),
        }
    }
    Err(Problem::at(0, "this quote is not closed"))
}

fn sign(text: &str, first: char) -> Result<(Kind, usize), Problem> {
    if let Some(sign) = SIGNS.into_iter().find(|sign| text.starts_with(sign)) {
        return Ok((Kind::Sign(sign), sign.len()));
    }
    let foreign = FOREIGN
        .iter()
        .find(|(foreign, _)| text.starts_with(foreign));
    Err(Problem::at(
        0,
        match foreign {
            Some((foreign, own)) => format!("'{foreign}' has no meaning here; write '{own}'"),
            None => format!("'{}' has no meaning here", first.escape_debug()),
        },
    ))
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
    pub(super) fn new(text: &str, problem: Problem) -> Self {
        Self {
            message: problem.message,
            text: text.to_owned(),
            at: problem.at.min(text.len()),
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

    /// The line with the place, and a mark below the place.
    pub fn pointer(&self) -> String {
        pointer(&self.text, self.at)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, self.pointer())
    }
}

/// The line of a text with an offset, and a mark below it, both indented by two.
pub(crate) fn pointer(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    // A control character could move the mark, so it becomes a space.
    let line: String = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let column = before[start..].chars().count();
    format!("  {}\n  {}^", line.trim_end(), " ".repeat(column))
}

/// A message, and the offset that it is about.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) at: usize,
}

impl Problem {
    pub(super) fn at(at: usize, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_below_the_character() {
        let error = SyntaxError::new("réad.cals == 0", Problem::at(6, "what is 'cals'?"));
        assert_eq!(
            error.to_string(),
            "what is 'cals'?\n  réad.cals == 0\n       ^"
        );
    }

    #[test]
    fn only_the_line_of_the_mistake_is_shown() {
        let error = SyntaxError::new("a == 1\n\tand b\nor c", Problem::at(12, "no"));
        assert_eq!(error.to_string(), "no\n   and b\n       ^");
        let error = SyntaxError::new("a", Problem::at(99, "ends"));
        assert_eq!(error.to_string(), "ends\n  a\n   ^");
    }
}
