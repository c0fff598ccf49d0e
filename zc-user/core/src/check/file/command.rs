//! A command in a file: an array of words, or a line for the shell.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// A command, as it is written.
pub(super) enum CommandLine {
    /// The program and its arguments, as they are.
    Words(Vec<String>),
    /// A line for `sh`.
    Line(String),
}

impl CommandLine {
    /// The program and its arguments, the shell's included.
    pub(super) fn into_words(self) -> Vec<String> {
        match self {
            Self::Words(words) => words,
            Self::Line(line) => vec!["sh".to_owned(), "-c".to_owned(), line],
        }
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = CommandLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command: an array of words, or a line for sh")
    }

    fn visit_str<E: Error>(self, line: &str) -> Result<CommandLine, E> {
        if line.trim().is_empty() { Err(E::custom("the command is empty")) } else { Ok(CommandLine::Line(line.to_owned())) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CommandLine, A::Error> {
        let mut words: Vec<String> = Vec::new();
        while let Some(word) = seq.next_element()? {
            words.push(word);
        }
        if words.first().is_none_or(String::is_empty) {
            Err(A::Error::custom("the command names no program"))
        } else {
            Ok(CommandLine::Words(words))
        }
    }
}
