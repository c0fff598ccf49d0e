//! Text -> tokens.

use super::error::Problem;

/// A token, and where it begins and ends in the text.
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
    /// What stands between quotes.
    Quoted(String),
    /// Anything of [`SIGNS`].
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// The signs, longer ones before those that they begin with.
const SIGNS: [&str; 18] = ["..=", "..", "==", "!=", "<=", ">=", "->", ".", "[", "]", "(", ")", ",", "=", "<", ">", "*", ":"];

/// What other languages write, and what it is here.
const FOREIGN: [(&str, &str); 4] = [("&&", "and"), ("||", "or"), ("!", "not"), ("~", "==")];

impl Kind {
    /// As a message calls it.
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

/// The tokens of a text; the last one is its end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (kind, length) = token(&text[at..], first).map_err(|problem| Problem { at: at + problem.at, ..problem })?;
        tokens.push(Token { kind, at, end: at + length });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, at, end: at });
    Ok(tokens)
}

/// The token that this text begins with, and its length.
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
    // Of the units one begins with the sign for micro.
    c.is_ascii_alphabetic() || matches!(c, '_' | 'µ' | 'μ')
}

fn word(text: &str) -> &str {
    let mut end = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let goes_on = |next: Option<&(usize, char)>| next.is_some_and(|(_, next)| next.is_ascii_alphanumeric());
        if !(is_letter(c) || c.is_ascii_digit() || (matches!(c, '+' | '-') && goes_on(chars.peek()))) {
            break;
        }
        end = index + c.len_utf8();
    }
    &text[..end]
}

fn number(text: &str) -> &str {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let whole = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let fraction = text[whole..].strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let end = fraction.map_or(whole, |rest| whole + 1 + rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
    &text[..end]
}

/// Text between quotes, in which `\"` and `\\` stand for `"` and `\`.
fn quoted(text: &str) -> Result<(Kind, usize), Problem> {
    let mut content = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Ok((Kind::Quoted(content), index + 1)),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => content.push(escaped),
                _ => return Err(Problem::at(index, r#"after '\' stands '"' or another '\'"#)),
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
    let foreign = FOREIGN.iter().find(|(foreign, _)| text.starts_with(foreign));
    Err(Problem::at(
        0,
        match foreign {
            Some((foreign, own)) => format!("'{foreign}' means nothing here; write '{own}'"),
            None => format!("'{}' means nothing here", first.escape_debug()),
        },
    ))
}
