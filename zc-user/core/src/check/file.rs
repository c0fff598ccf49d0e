//! Reads `zctrace.toml`, the file of checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    num::NonZeroU32,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use super::plan::{
    Baseline, Check, CheckProfile, LockFile, PlaceInFile, PreparedContent, PreparedFile,
    parse_timeout,
};
use crate::{
    expect::{Expectation, Inferred, SyntaxError, mark_place},
    figures::{
        tolerance::{Tolerance, Tolerances},
        value::size_bytes,
    },
    options::Choice,
    syscalls::Selection,
};

/// The first mistake in the file, and where it is: `FILE:LINE:COLUMN: message`, then the line with a
/// mark below the place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct FileError(String);

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    #[serde(default)]
    check: Vec<Spanned<CheckTable>>,
}

/// A `[[check]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[check]]")]
struct CheckTable {
    name: Spanned<String>,
    why: Option<String>,
    command: Spanned<CommandLine>,
    control: Option<Spanned<CommandLine>>,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, String>,
    user: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    files: Vec<Spanned<PreparedFileTable>>,
    #[serde(default)]
    expect: Vec<Spanned<String>>,
    #[serde(default)]
    callers: bool,
    repeat: Option<NonZeroU32>,
    #[serde(default)]
    backend: Choice,
    #[serde(default)]
    inferred: Inferred,
    #[serde(default)]
    may_match_nothing: bool,
    #[serde(default)]
    ignore_failure: bool,
    timeout: Option<Spanned<String>>,
    syscalls: Option<Spanned<String>>,
    baseline: Option<PathBuf>,
    profile: Option<PathBuf>,
    lock: Option<PathBuf>,
    #[serde(default)]
    tolerance: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// A command: an array of words, or a line for the shell.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a command is an array of words, or a line for sh"
)]
enum CommandLine {
    Words(Vec<String>),
    Line(String),
}

/// One of the files of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreparedFileTable {
    path: PathBuf,
    content: Option<String>,
    size: Option<Spanned<String>>,
    fill: Option<ContentFill>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ContentFill {
    Random,
    Zero,
}

/// Reads the checks of a file. Relative paths start in `base`, the file's folder.
pub fn parse(text: &str, path: &Path, base: &Path) -> Result<Vec<Check>, FileError> {
    let source = CheckSource { text, path, base };
    match source.read_checks() {
        Ok(checks) => Ok(checks),
        Err(Mistake { at, message }) => {
            let before = source.text_before(at);
            let (path, line) = (path.display(), source.line_number(at));
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            let pointer = mark_place(text, before.len());
            let message = format!("{path}:{line}:{column}: {message}\n{pointer}");
            Err(FileError(message))
        }
    }
}

/// What is wrong in the file, at this offset.
struct Mistake {
    at: usize,
    message: String,
}

impl Mistake {
    fn at_offset(at: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { at, message }
    }
}

/// The file that is read.
struct CheckSource<'a> {
    text: &'a str,
    path: &'a Path,
    base: &'a Path,
}

impl<'a> CheckSource<'a> {
    /// The number of the line at this offset, from 1.
    fn line_number(&self, at: usize) -> usize {
        self.text_before(at).matches('\n').count() + 1
    }

    fn text_before(&self, at: usize) -> &'a str {
        self.text.get(..at).unwrap_or(self.text)
    }

    fn read_checks(&self) -> Result<Vec<Check>, Mistake> {
        let file: CheckFile = toml::from_str(self.text).map_err(|error| {
            let at = error.span().unwrap_or_default().start;
            Mistake::at_offset(at, error.message().replace('\n', ", "))
        })?;
        if file.check.is_empty() {
            return Err(Mistake::at_offset(0, "the file has no [[check]]"));
        }
        let mut names = BTreeSet::new();
        let mut checks = Vec::new();
        for table in file.check {
            let (at, table) = (table.span().start, table.into_inner());
            let name = table.name.get_ref();
            if !names.insert(name.clone()) {
                let why = format!("two checks are called '{name}'");
                return Err(Mistake::at_offset(table.name.span().start, why));
            }
            checks.push(self.read_check(at, table)?);
        }
        Ok(checks)
    }

    /// The check of a table that begins here.
    fn read_check(&self, at: usize, table: CheckTable) -> Result<Check, Mistake> {
        check_fields_together(at, &table)?;
        let starts = table.expect.iter().map(|text| text.span().start);
        let lines = starts.map(|at| self.line_number(at));
        let place = self.path.file_name().map(|name| PlaceInFile {
            file: self.base.join(name),
            line: self.line_number(at),
            expectations: lines.collect(),
        });
        let expectations = table.expect.iter().map(|text| self.read_expectation(text));
        let files = table.files.into_iter().map(prepared_file);
        let check = Check {
            name: table.name.into_inner(),
            why: table.why,
            command: words_of_command(table.command)?,
            control: table.control.map(words_of_command).transpose()?,
            user: table.user,
            identity: None,
            directory: table.cwd.map(|cwd| self.base.join(cwd)),
            files: files.collect::<Result<_, _>>()?,
            expectations: expectations.collect::<Result<_, _>>()?,
            callers: table.callers,
            repeat: table.repeat.map_or(1, NonZeroU32::get),
            backend: table.backend,
            inferred: table.inferred,
            may_match_nothing: table.may_match_nothing,
            ignore_failure: table.ignore_failure,
            timeout: read_value(table.timeout, parse_timeout)?.unwrap_or(Check::TIMEOUT),
            selection: read_value(table.syscalls, |set| {
                let selection = set.parse::<Selection>();
                selection.map_err(|error| error.to_string())
            })?,
            baseline: match table.baseline {
                None => None,
                Some(path) => Some(Baseline {
                    path: self.base.join(path),
                    report: None,
                    tolerances: read_tolerances(table.tolerance)?,
                }),
            },
            profile: table.profile.map(|path| CheckProfile {
                path: self.base.join(path),
                calls: None,
            }),
            lock: (table.lock).map(|path| LockFile::not_read_yet(self.base.join(path))),
            env: read_variables(table.env)?,
            base: self.base.to_owned(),
            file: Some(self.path.to_owned()),
            place,
        };
        let Some((expectation, calls)) = check.first_uncounted() else {
            return Ok(check);
        };
        let (name, text, calls) = (&check.name, expectation.text(), calls.join(", "));
        let why = format!("check '{name}' expects '{text}', but its syscalls do not count {calls}");
        Err(Mistake::at_offset(at, why))
    }

    /// An expectation. A mistake in it is marked within the string, or at its start if the string is
    /// written with escapes.
    fn read_expectation(&self, written: &Spanned<String>) -> Result<Expectation, Mistake> {
        let (text, span) = (written.get_ref(), written.span());
        text.parse().map_err(|error: SyntaxError| {
            let source = self.text.get(span.clone()).unwrap_or_default();
            let start = source.find(text.as_str()).filter(|_| !text.is_empty());
            let within = start.map_or(0, |start| start + error.offset());
            Mistake::at_offset(span.start + within, error.message())
        })
    }
}

fn check_fields_together(at: usize, table: &CheckTable) -> Result<(), Mistake> {
    let rules = [
        (
            table.expect.is_empty()
                && table.baseline.is_none()
                && table.profile.is_none()
                && table.lock.is_none(),
            "this check expects nothing: write expect = [\"...\"]",
        ),
        (
            !table.tolerance.is_empty() && table.baseline.is_none(),
            "tolerance needs a baseline: baseline = \"FILE.json\"",
        ),
        (
            table.control.is_some() && table.expect.is_empty(),
            "an expectation must fail for the control command: write expect = [\"...\"]",
        ),
        (
            table.cwd.is_some() && !table.files.is_empty(),
            "files are created in a temporary working directory: leave out cwd, or files",
        ),
    ];
    match rules.into_iter().find(|(is_broken, _)| *is_broken) {
        Some((_, why)) => Err(Mistake::at_offset(at, why)),
        None => Ok(()),
    }
}

/// Reads a value from its text. `None`: it is not written.
fn read_value<T>(
    written: Option<Spanned<String>>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Mistake> {
    let Some(written) = written else {
        return Ok(None);
    };
    match read(written.get_ref()) {
        Ok(value) => Ok(Some(value)),
        Err(why) => Err(Mistake::at_offset(written.span().start, why)),
    }
}

/// The program and its arguments, including the shell.
fn words_of_command(command: Spanned<CommandLine>) -> Result<Vec<OsString>, Mistake> {
    let at = command.span().start;
    let words = match command.into_inner() {
        CommandLine::Line(line) if !line.trim().is_empty() => {
            vec!["sh".to_owned(), "-c".to_owned(), line]
        }
        CommandLine::Line(_) => Vec::new(),
        CommandLine::Words(words) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(Mistake::at_offset(at, "the command names no program"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

fn read_variables(
    written: BTreeMap<Spanned<String>, String>,
) -> Result<BTreeMap<String, String>, Mistake> {
    let mut variables = BTreeMap::new();
    for (name, value) in written {
        let text = name.get_ref();
        if text.is_empty() || text.contains(['=', '\0']) || value.contains('\0') {
            let why = format!("'{text}' is not a valid environment variable");
            return Err(Mistake::at_offset(name.span().start, why));
        }
        variables.insert(name.into_inner(), value);
    }
    Ok(variables)
}

fn prepared_file(table: Spanned<PreparedFileTable>) -> Result<PreparedFile, Mistake> {
    let at = table.span().start;
    let PreparedFileTable {
        path,
        content,
        size,
        fill,
    } = table.into_inner();
    let mut parts = path.components();
    let is_within = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if path.as_os_str().is_empty() || !is_within {
        return Err(Mistake::at_offset(
            at,
            "the path of a file must lie within the check's folder: no leading '/' and no '..'",
        ));
    }
    let content = match (content, read_value(size, file_bytes)?, fill) {
        (Some(text), None, None) => PreparedContent::Text(text),
        (None, Some(bytes), Some(ContentFill::Zero)) => PreparedContent::Zero(bytes),
        (None, Some(bytes), _) => PreparedContent::Random(bytes),
        _ => {
            return Err(Mistake::at_offset(
                at,
                "a file needs either content, or a size such as size = \"1MiB\" (with fill, if you like)",
            ));
        }
    };
    Ok(PreparedFile { path, content })
}

/// Limit for the size of a prepared file, which is written before each run.
const MAX_FILE_BYTES: u64 = 16 << 30;

fn file_bytes(text: &str) -> Result<u64, String> {
    match size_bytes(text)? {
        bytes if bytes > MAX_FILE_BYTES => Err(format!(
            "a file of '{text}' is too large: at most {} GiB",
            MAX_FILE_BYTES >> 30
        )),
        bytes => Ok(bytes),
    }
}

fn read_tolerances(
    written: BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<Tolerances, Mistake> {
    // The last tolerance that fits counts, so they are added in the order of the file.
    let mut written: Vec<_> = written.into_iter().collect();
    written.sort_by_key(|(metric, _)| metric.span().start);
    let mut tolerances = Tolerances::default();
    for (metric, tolerance) in written {
        let tolerance = Tolerance::new(metric.get_ref(), tolerance.get_ref());
        tolerances.add(
            tolerance.map_err(|why| Mistake::at_offset(metric.span().start, why.to_string()))?,
        );
    }
    Ok(tolerances)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_check(text: &str) -> Result<Check, FileError> {
        let checks = parse(text, Path::new("zctrace.toml"), Path::new("/base"));
        checks.map(|mut checks| checks.remove(0))
    }

    #[test]
    fn every_key_is_read_or_has_a_default() {
        // The second has files, which no check can have together with a directory.
        let texts = include_str!("checks.txt").split("---\n");
        let names = [
            ("every_key", "fsync,read,write"),
            ("defaults", "%data,fsync"),
        ];
        for (text, (name, counted)) in texts.zip(names) {
            let mut check = parse_check(text).expect("a file");
            assert_eq!(
                check.syscalls_argument(),
                counted,
                "what is named is counted"
            );
            check.expectations.clear();
            insta::assert_debug_snapshot!(name, check);
        }
    }

    #[test]
    fn every_mistake_in_the_file_has_a_message_and_a_place() {
        let mistakes = include_str!("mistakes.txt").split("---\n").skip(1);
        let text: Vec<String> = mistakes
            .map(|text| parse_check(text.trim_end()).expect_err(text).to_string())
            .collect();
        insta::assert_snapshot!("mistakes", text.join("\n\n"));
    }
}
