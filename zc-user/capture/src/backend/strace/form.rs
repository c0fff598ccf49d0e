//! [`LogForm`]: in what form the lines of a log came to us. People copy logs from terminals, and
//! from what a CI, journald or docker compose made of them.

use std::{borrow::Cow, collections::HashMap};

use super::{
    line::{Event, Line},
    names::CallNames,
};
use crate::syscalls::Selection;

/// So many lines at the beginning of a log show its form.
const MAX_LINES: usize = 200;
/// No prefix is longer.
const MAX_PREFIX_BYTES: usize = 120;

/// The form of a log's lines.
#[derive(Debug, Default)]
pub struct LogForm {
    /// What stands before each line, with [`prefix_shape`] applied.
    prefix: Vec<u8>,
}

impl LogForm {
    /// The form of a log that begins so.
    pub fn from_beginning(text: &[u8]) -> Self {
        let names = CallNames::new(&Selection::All);
        let lines: Vec<_> = text
            .split(|&byte| byte == b'\n')
            .map(|line| without_colours(line.trim_ascii_end()))
            .filter(|line| !line.is_empty())
            .take(MAX_LINES)
            .collect();
        let mut votes: HashMap<Vec<u8>, usize> = HashMap::new();
        for line in &lines {
            if let Some(prefix) = prefix_of_line(line, &names) {
                *votes.entry(prefix_shape(prefix)).or_default() += 1;
            }
        }
        // A prefix is common to all lines. Some of them may be none of strace.
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
        let prefix = most.filter(|(_, votes)| votes * 2 >= lines.len());
        Self {
            prefix: prefix.map(|(prefix, _)| prefix).unwrap_or_default(),
        }
    }

    /// A line as strace printed it.
    pub fn clean<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let line = without_colours(line);
        let length = self.prefix.len();
        let has_prefix = line.get(..length).map(prefix_shape).as_ref() == Some(&self.prefix);
        match line {
            _ if length == 0 || !has_prefix => line,
            Cow::Borrowed(line) => Cow::Borrowed(&line[length..]),
            Cow::Owned(line) => Cow::Owned(line[length..].to_vec()),
        }
    }
}

/// What stands before the event of strace that begins first in a line; `None` if none does.
fn prefix_of_line<'a>(line: &'a [u8], names: &CallNames) -> Option<&'a [u8]> {
    let is_of_strace = |text: &[u8]| match Line::parse(text).event {
        Event::Call(call) => names.known_id(call.name).is_some(),
        Event::Ended(_) | Event::Signal(_) => true,
        _ => false,
    };
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins_word = |at: usize| at == 0 || !is_of_word(line[at - 1]);
    let mut starts = (0..line.len().min(MAX_PREFIX_BYTES))
        .filter(|&at| begins_word(at) && is_of_strace(&line[at..]));
    starts.next().map(|at| &line[..at])
}

/// What prefixes of different lines have in common: their length, and all but digits and spaces.
fn prefix_shape(prefix: &[u8]) -> Vec<u8> {
    let is_free = |byte: u8| byte.is_ascii_digit() || byte == b' ';
    let shape = prefix
        .iter()
        .map(|&byte| if is_free(byte) { b'0' } else { byte });
    shape.collect()
}

/// A line without the escape sequences that colour it on a terminal. strace prints no escape
/// character.
fn without_colours(line: &[u8]) -> Cow<'_, [u8]> {
    const BEGIN: &[u8] = b"\x1b[";
    if !line.contains(&BEGIN[0]) {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let inside = rest.strip_prefix(BEGIN);
        let end = inside.and_then(|inside| inside.iter().position(u8::is_ascii_alphabetic));
        let skipped = end.map_or(1, |end| BEGIN.len() + end + 1);
        if end.is_none() {
            plain.push(byte);
        }
        rest = &rest[skipped..];
    }
    Cow::Owned(plain)
}
