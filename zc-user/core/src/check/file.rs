//! `zctrace.toml` -> checks.

mod command;

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use self::command::CommandLine;
use super::{
    plan::{Baseline, Check, Content, PreparedFile, Shown},
    tolerance::{Tolerance, Tolerances},
};
use crate::{
    expect::{Expectation, Inferred, pointer, size_bytes},
    options::Choice,
    syscall::Selection,
    words::Word as _,
};

/// What is wrong with the file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    path: String,
    line: usize,
    column: usize,
    message: String,
    pointer: String,
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}\n{}", self.path, self.line, self.column, self.message, self.pointer)
    }
}

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    check: Vec<Spanned<Table>>,
}

/// A `[[check]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Spanned<String>,
    command: CommandLine,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    files: Vec<Spanned<FileTable>>,
    #[serde(default)]
    expect: Vec<Spanned<String>>,
    repeat: Option<Spanned<u32>>,
    backend: Option<Spanned<String>>,
    inferred: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    syscalls: Option<Spanned<String>>,
    baseline: Option<PathBuf>,
    #[serde(default)]
    tolerance: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// One of the files of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    path: PathBuf,
    content: Option<String>,
    size: Option<Spanned<String>>,
    fill: Option<Fill>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fill {
    Random,
    Zero,
}

/// The checks of a file. `base` is its folder, where relative paths begin.
pub fn parse(text: &str, path: &Path, base: &Path) -> Result<Vec<Check>, FileError> {
    let source = Source { text, path };
    let file: File = toml::from_str(text)
        .map_err(|error| source.error(error.span().unwrap_or(0..0).start, error.message().replace('\n', ", ")))?;
    let mut checks: Vec<Check> = Vec::new();
    for table in file.check {
        let name = table.get_ref().name.clone();
        if checks.iter().any(|check| check.name == *name.get_ref()) {
            return Err(source.error(name.span().start, format!("two checks are called '{}'", name.get_ref())));
        }
        checks.push(source.check(table, base)?);
    }
    if checks.is_empty() { Err(source.error(0, "there is no [[check]] in it")) } else { Ok(checks) }
}

/// A file that is read.
struct Source<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Source<'_> {
    fn error(&self, at: usize, message: impl Into<String>) -> FileError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        FileError {
            path: self.path.display().to_string(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
            pointer: pointer(self.text, before.len()),
        }
    }

    fn check(&self, table: Spanned<Table>, base: &Path) -> Result<Check, FileError> {
        let at = table.span().start;
        let table = table.into_inner();
        if table.expect.is_empty() && table.baseline.is_none() {
            return Err(self.error(at, "nothing is expected of this check: write expect = [\"...\"]"));
        }
        if !table.tolerance.is_empty() && table.baseline.is_none() {
            return Err(self.error(at, "a tolerance is for a baseline: name one, as in baseline = \"FILE.json\""));
        }
        if table.cwd.is_some() && !table.files.is_empty() {
            return Err(self.error(at, "files are made in a folder of their own, which is the working directory: leave out cwd"));
        }
        let name = table.name.into_inner();
        let check = Check {
            command: table.command.into_words(),
            env: table.env.into_iter().map(|(name, value)| self.variable(&name, value)).collect::<Result<_, _>>()?,
            directory: table.cwd.map(|cwd| base.join(cwd)),
            files: table.files.iter().map(|file| self.file(file)).collect::<Result<_, _>>()?,
            expectations: table.expect.iter().map(|text| self.expectation(text)).collect::<Result<_, _>>()?,
            repeat: self
                .value(table.repeat, |&times| if times > 0 { Ok(times) } else { Err("a check runs at least once".to_owned()) })?
                .unwrap_or(1),
            backend: self
                .value(table.backend, |word| Choice::from_word(word).ok_or_else(|| backend_names(word)))?
                .unwrap_or_default(),
            inferred: self
                .value(table.inferred, |word| Inferred::from_word(word).ok_or_else(|| inferred_names(word)))?
                .unwrap_or_default(),
            timeout: self.value(table.timeout, |text| super::plan::timeout(text))?.unwrap_or(Check::TIMEOUT),
            selection: self.value(table.syscalls, |set| set.parse::<Selection>().map_err(|error| error.to_string()))?,
            baseline: match table.baseline {
                None => None,
                Some(path) => {
                    Some(Baseline { path: base.join(path), report: None, tolerances: self.tolerances(table.tolerance)? })
                }
            },
            base: base.to_owned(),
            shown_by: Shown::ByCheck(self.path.to_owned()),
            name,
        };
        match check.uncounted() {
            None => Ok(check),
            Some((expectation, calls)) => {
                let calls = calls.join(", ");
                let message =
                    format!("check '{}' expects '{}', but its syscalls do not count {calls}", check.name, expectation.text());
                Err(self.error(at, message))
            }
        }
    }

    /// A value that is written as something else.
    fn value<T, U>(&self, written: Option<Spanned<T>>, read: impl Fn(&T) -> Result<U, String>) -> Result<Option<U>, FileError> {
        written.map(|written| read(written.get_ref()).map_err(|why| self.error(written.span().start, why))).transpose()
    }

    fn variable(&self, name: &Spanned<String>, value: String) -> Result<(String, String), FileError> {
        let text = name.get_ref();
        let is_name = !text.is_empty() && !text.contains(['=', '\0']) && !value.contains('\0');
        if is_name { Ok((text.clone(), value)) } else { Err(self.error(name.span().start, format!("'{text}' is no variable"))) }
    }

    fn expectation(&self, written: &Spanned<String>) -> Result<Expectation, FileError> {
        let text = written.get_ref();
        text.parse().map_err(|error: crate::expect::SyntaxError| {
            self.error(self.place_in(&written.span(), text, error.offset()), error.message())
        })
    }

    /// Where in the file a place of a string is; the string's beginning if it is written with escapes.
    fn place_in(&self, span: &Range<usize>, text: &str, offset: usize) -> usize {
        let written = self.text.get(span.clone()).unwrap_or_default();
        written.find(text).filter(|_| !text.is_empty()).map_or(span.start, |start| span.start + start + offset)
    }

    fn file(&self, table: &Spanned<FileTable>) -> Result<PreparedFile, FileError> {
        let wrong = |message: &str| self.error(table.span().start, message);
        let FileTable { path, content, size, fill } = table.get_ref();
        if path.as_os_str().is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(wrong("the path of a file lies within the check's folder: no '/' before it, no '..' in it"));
        }
        let size = self.value(size.clone(), |size: &String| file_bytes(size))?;
        let content = match (content, size, fill) {
            (Some(text), None, None) => Content::Text(text.clone()),
            (None, Some(size), None | Some(Fill::Random)) => Content::Random(size),
            (None, Some(size), Some(Fill::Zero)) => Content::Zero(size),
            _ => return Err(wrong("a file has either a size, like size = \"1MiB\" (and fill, if you like), or content")),
        };
        Ok(PreparedFile { path: path.clone(), content })
    }

    fn tolerances(&self, written: BTreeMap<Spanned<String>, Spanned<String>>) -> Result<Tolerances, FileError> {
        let mut tolerances = Tolerances::default();
        // The last one that fits counts: the last one in the file.
        let mut written: Vec<_> = written.into_iter().collect();
        written.sort_by_key(|(metric, _)| metric.span().start);
        for (metric, tolerance) in written {
            let read = Tolerance::new(metric.get_ref(), tolerance.get_ref());
            tolerances.add(read.map_err(|error| self.error(metric.span().start, error.to_string()))?);
        }
        Ok(tolerances)
    }
}

/// The most bytes that a prepared file may have: it is written before each run.
const MAX_FILE_BYTES: u64 = 16 << 30;

fn file_bytes(text: &str) -> Result<u64, String> {
    match size_bytes(text)? {
        bytes if bytes > MAX_FILE_BYTES => Err(format!("a file of '{text}' is too large: at most {} GiB", MAX_FILE_BYTES >> 30)),
        bytes => Ok(bytes),
    }
}

fn inferred_names(word: &str) -> String {
    format!("'{word}' is nothing that can be done with inferred transfers; there is inconclusive, accept")
}

fn backend_names(word: &str) -> String {
    let names: Vec<&str> = Choice::ALL.iter().map(|choice| choice.word()).collect();
    format!("unknown backend '{word}'; there is {}", names.join(", "))
}

#[cfg(test)]
mod tests;
