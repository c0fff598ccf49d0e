//! Reads `zctrace.toml`, the file of checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::plan::{Baseline, Check, Content, Place, PreparedFile, ReportCommand};
use crate::{
    expect::{Expectation, Inferred, pointer, size_bytes},
    figures::tolerance::{Tolerance, Tolerances},
    options::Choice,
    syscalls::Selection,
    words::Word,
};

/// A mistake in the file, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    path: String,
    line: usize,
    column: usize,
    message: String,
    pointer: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}\n{}",
            self.path, self.line, self.column, self.message, self.pointer
        )
    }
}

/// All mistakes in the file, in its order; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors(Vec<FileError>);

impl std::error::Error for FileErrors {}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("\n"))
    }
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

/// Reads the checks of a file. Relative paths start in `base`, the file's folder.
pub fn parse(text: &str, path: &Path, base: &Path) -> Result<Vec<Check>, FileErrors> {
    let mut source = Source {
        text,
        path,
        base,
        errors: Vec::new(),
    };
    let checks = source.checks();
    let mut errors = source.errors;
    errors.sort_by_key(|error| (error.line, error.column));
    if errors.is_empty() {
        Ok(checks)
    } else {
        Err(FileErrors(errors))
    }
}

/// The file that is read, and the mistakes found so far. Reading goes on after a mistake, so that
/// all of them are found at once.
struct Source<'a> {
    text: &'a str,
    path: &'a Path,
    base: &'a Path,
    errors: Vec<FileError>,
}

impl<'a> Source<'a> {
    /// Notes a mistake.
    fn wrong(&mut self, at: usize, message: impl Into<String>) {
        let before = self.before(at);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        self.errors.push(FileError {
            path: self.path.display().to_string(),
            line: self.line(at),
            column,
            message: message.into(),
            pointer: pointer(self.text, before.len()),
        });
    }

    fn wrong_toml(&mut self, error: &toml::de::Error) {
        self.wrong(
            error.span().unwrap_or(0..0).start,
            error.message().replace('\n', ", "),
        );
    }

    /// The number of the line at this offset, from 1.
    fn line(&self, at: usize) -> usize {
        self.before(at).matches('\n').count() + 1
    }

    /// The text before this offset.
    fn before(&self, at: usize) -> &'a str {
        self.text.get(..at).unwrap_or(self.text)
    }

    fn checks(&mut self) -> Vec<Check> {
        let (file, mistakes) = DeTable::parse_recoverable(self.text);
        if let Some(first) = mistakes.first() {
            // The parser guesses how to go on, so that its other mistakes may be consequences of
            // the first.
            self.wrong_toml(first);
            return Vec::new();
        }
        let mut checks: Vec<Check> = Vec::new();
        let mut names = BTreeSet::new();
        let mut is_empty = true;
        for (key, value) in file.into_inner() {
            is_empty = false;
            if key.get_ref() != "check" {
                self.wrong(
                    key.span().start,
                    format!("unknown field `{}`, expected `check`", key.get_ref()),
                );
                continue;
            }
            let at = value.span().start;
            let DeValue::Array(tables) = value.into_inner() else {
                self.wrong(at, "a check is written as [[check]]");
                continue;
            };
            is_empty = tables.is_empty();
            for table in tables {
                checks.extend(self.raw_check(table, &mut names));
            }
        }
        if is_empty {
            self.wrong(0, "the file has no [[check]]");
        }
        checks
    }

    fn raw_check(
        &mut self,
        table: Spanned<DeValue<'a>>,
        names: &mut BTreeSet<String>,
    ) -> Option<Check> {
        let span = table.span();
        let DeValue::Table(entries) = table.into_inner() else {
            self.wrong(span.start, "a check is written as [[check]]");
            return None;
        };
        let (table, form) = self.table(&span, entries)?;
        if form == Form::Whole && !names.insert(table.name.get_ref().clone()) {
            self.wrong(
                table.name.span().start,
                format!("two checks are called '{}'", table.name.get_ref()),
            );
        }
        self.check(span.start, table, form)
    }

    /// The fields of a check. To find the mistakes of all fields, one that is mistaken is left out,
    /// or filled in if it must be there.
    fn table(&mut self, span: &Range<usize>, mut entries: DeTable<'a>) -> Option<(Table, Form)> {
        const REQUIRED: [&str; 2] = ["name", "command"];
        let mut form = Form::Whole;
        loop {
            let value = Spanned::new(span.clone(), DeValue::Table(entries.clone()));
            let error = match Table::deserialize(ValueDeserializer::from(value)) {
                Ok(table) => return Some((table, form)),
                Err(error) => error,
            };
            form = Form::Mended;
            self.wrong_toml(&error);
            let at = error.span().unwrap_or(0..0).start;
            let is_it = |(key, value): &(&Spanned<_>, &Spanned<_>)| {
                key.span().contains(&at) || value.span().contains(&at)
            };
            let mistaken = entries.iter().find(is_it).map(|(key, _)| key.clone());
            let missing = || {
                REQUIRED
                    .into_iter()
                    .find(|name| error.message() == format!("missing field `{name}`"))
            };
            let key = mistaken.or_else(|| Some(Spanned::new(span.clone(), missing()?.into())))?;
            entries.remove(&key);
            if REQUIRED.contains(&key.get_ref().as_ref()) {
                entries.insert(
                    key,
                    Spanned::new(span.clone(), DeValue::String("filled in".into())),
                );
            }
        }
    }

    /// The check of a table that begins here; `None` if it has mistakes.
    fn check(&mut self, at: usize, table: Table, form: Form) -> Option<Check> {
        let mistakes_before = self.errors.len();
        // What was left out may be what is missing here.
        if form == Form::Whole {
            self.fields_that_belong_together(at, &table);
        }
        let expectations: Vec<(usize, Expectation)> = table
            .expect
            .iter()
            .filter_map(|text| Some((self.line(text.span().start), self.expectation(text)?)))
            .collect();
        let (lines, expectations) = expectations.into_iter().unzip();
        let check = Check {
            name: table.name.into_inner(),
            command: table.command.into_words(),
            env: table
                .env
                .into_iter()
                .filter_map(|(name, value)| self.variable(&name, value))
                .collect(),
            directory: table.cwd.map(|cwd| self.base.join(cwd)),
            files: table
                .files
                .iter()
                .filter_map(|file| self.file(file))
                .collect(),
            expectations,
            repeat: self
                .value(table.repeat, |&times| {
                    if times > 0 {
                        Ok(times)
                    } else {
                        Err("a check runs at least once".to_owned())
                    }
                })
                .unwrap_or(1),
            backend: self
                .value(table.backend, |word| {
                    Choice::from_word(word).ok_or_else(|| backend_names(word))
                })
                .unwrap_or_default(),
            inferred: self
                .value(table.inferred, |word| {
                    Inferred::from_word(word).ok_or_else(|| inferred_names(word))
                })
                .unwrap_or_default(),
            timeout: self
                .value(table.timeout, |text| super::plan::timeout(text))
                .unwrap_or(Check::TIMEOUT),
            selection: self.value(table.syscalls, |set| {
                set.parse::<Selection>().map_err(|error| error.to_string())
            }),
            baseline: table.baseline.map(|path| Baseline {
                path: self.base.join(path),
                report: None,
                tolerances: self.tolerances(table.tolerance),
            }),
            base: self.base.to_owned(),
            report_command: ReportCommand::Check(self.path.to_owned()),
            place: self.path.file_name().map(|name| Place {
                file: self.base.join(name),
                line: self.line(at),
                expectations: lines,
            }),
        };
        if let Some((expectation, calls)) = check.uncounted() {
            let calls = calls.join(", ");
            self.wrong(
                at,
                format!(
                    "check '{}' expects '{}', but its syscalls do not count {calls}",
                    check.name,
                    expectation.text()
                ),
            );
        }
        (form == Form::Whole && self.errors.len() == mistakes_before).then_some(check)
    }

    fn fields_that_belong_together(&mut self, at: usize, table: &Table) {
        if table.expect.is_empty() && table.baseline.is_none() {
            self.wrong(at, "this check expects nothing: write expect = [\"...\"]");
        }
        if !table.tolerance.is_empty() && table.baseline.is_none() {
            self.wrong(at, "tolerance needs a baseline: baseline = \"FILE.json\"");
        }
        if table.cwd.is_some() && !table.files.is_empty() {
            self.wrong(
                at,
                "files are created in a temporary working directory: leave out cwd, or files",
            );
        }
    }

    /// Reads a value from what is written for it. `None`: it is not written, or wrong.
    fn value<T, U>(
        &mut self,
        written: Option<Spanned<T>>,
        read: impl Fn(&T) -> Result<U, String>,
    ) -> Option<U> {
        let written = written?;
        read(written.get_ref())
            .map_err(|why| self.wrong(written.span().start, why))
            .ok()
    }

    fn variable(&mut self, name: &Spanned<String>, value: String) -> Option<(String, String)> {
        let text = name.get_ref();
        let is_name = !text.is_empty() && !text.contains(['=', '\0']) && !value.contains('\0');
        if !is_name {
            self.wrong(
                name.span().start,
                format!("'{text}' is not a valid environment variable"),
            );
        }
        is_name.then(|| (text.clone(), value))
    }

    fn expectation(&mut self, written: &Spanned<String>) -> Option<Expectation> {
        let text = written.get_ref();
        let wrong = |error: crate::expect::SyntaxError| {
            self.wrong(
                self.place_in(&written.span(), text, error.offset()),
                error.message(),
            );
        };
        text.parse().map_err(wrong).ok()
    }

    /// The place in the file of an offset in a string; the start of the string if it is written
    /// with escapes.
    fn place_in(&self, span: &Range<usize>, text: &str, offset: usize) -> usize {
        let written = self.text.get(span.clone()).unwrap_or_default();
        written
            .find(text)
            .filter(|_| !text.is_empty())
            .map_or(span.start, |start| span.start + start + offset)
    }

    fn file(&mut self, table: &Spanned<FileTable>) -> Option<PreparedFile> {
        let at = table.span().start;
        let FileTable {
            path,
            content,
            size,
            fill,
        } = table.get_ref();
        let is_within = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if path.as_os_str().is_empty() || !is_within {
            self.wrong(
                at,
                "the path of a file must lie within the check's folder: no leading '/' and no '..'",
            );
        }
        let content = match (content, size, fill) {
            (Some(text), None, None) => Content::Text(text.clone()),
            (None, Some(size), fill) => {
                let bytes = self.value(Some(size.clone()), |size: &String| file_bytes(size))?;
                if matches!(fill, Some(Fill::Zero)) {
                    Content::Zero(bytes)
                } else {
                    Content::Random(bytes)
                }
            }
            _ => {
                self.wrong(at, "a file needs either content, or a size such as size = \"1MiB\" (with fill, if you like)");
                return None;
            }
        };
        Some(PreparedFile {
            path: path.clone(),
            content,
        })
    }

    fn tolerances(&mut self, written: BTreeMap<Spanned<String>, Spanned<String>>) -> Tolerances {
        let mut tolerances = Tolerances::default();
        // The last tolerance that fits counts, so they are added in the order of the file.
        let mut written: Vec<_> = written.into_iter().collect();
        written.sort_by_key(|(metric, _)| metric.span().start);
        for (metric, tolerance) in written {
            match Tolerance::new(metric.get_ref(), tolerance.get_ref()) {
                Ok(tolerance) => tolerances.add(tolerance),
                Err(error) => self.wrong(metric.span().start, error.to_string()),
            }
        }
        tolerances
    }
}

/// Whether a check has all the fields that are written for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    /// Mistaken fields were left out or filled in.
    Mended,
}

fn all_words<T: Word>() -> String {
    T::ALL
        .iter()
        .map(|value| value.word())
        .collect::<Vec<_>>()
        .join(", ")
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

fn inferred_names(word: &str) -> String {
    format!(
        "unknown value '{word}'; inferred is one of {}",
        all_words::<Inferred>()
    )
}

fn backend_names(word: &str) -> String {
    format!(
        "unknown backend '{word}'; backend is one of {}",
        all_words::<Choice>()
    )
}

/// A command: an array of words, or a line for the shell.
pub(super) enum CommandLine {
    /// The program and its arguments.
    Words(Vec<String>),
    /// A line for `sh -c`.
    Line(String),
}

impl CommandLine {
    /// The program and its arguments, including the shell.
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
        if line.trim().is_empty() {
            Err(E::custom("the command is empty"))
        } else {
            Ok(CommandLine::Line(line.to_owned()))
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HEAD: &str = "[[check]]\nname = \"a\"\ncommand = [\"cp\", \"in\", \"out\"]\n";

    fn parsed(text: &str) -> Result<Vec<Check>, FileErrors> {
        parse(text, Path::new("zctrace.toml"), Path::new("/base"))
    }

    #[test]
    fn a_check_has_defaults_for_what_is_not_written() {
        let text = format!(
            "{HEAD}expect = ['write.calls == 0']\nfiles = [{{ path = 'in', size = '1MiB' }}, {{ path = 'd/x', content = 'hi' }}]\n"
        );
        let check = parsed(&text).expect("a file").remove(0);
        assert_eq!(
            (check.name.as_str(), check.repeat, check.timeout),
            ("a", 1, Check::TIMEOUT)
        );
        assert_eq!(check.files[0].content, Content::Random(1 << 20));
        assert_eq!(check.files[1].content, Content::Text("hi".into()));
        assert_eq!(check.syscalls(), "%data");
        assert_eq!(check.directory, None);
    }

    #[test]
    fn a_command_line_runs_in_the_shell() {
        let check =
            parsed("[[check]]\nname = 'a'\ncommand = 'cat in | wc'\nexpect = ['fsync.calls == 0']")
                .expect("a file")
                .remove(0);
        assert_eq!(check.command, ["sh", "-c", "cat in | wc"]);
        assert_eq!(check.syscalls(), "%data,fsync", "what is named is counted");
    }

    #[test]
    fn every_key_is_read() {
        let text = format!(
            "{HEAD}cwd = 'sub'\nenv = {{ A = '1' }}\nexpect = []\nrepeat = 3\nbackend = 'strace'\ntimeout = '2s'\ninferred = 'accept'\nsyscalls = 'read,write'\n\
             baseline = 'b.json'\ntolerance = {{ \"time.wall\" = '10%', 'read.*' = '2' }}"
        );
        let check = parsed(&text).expect("a file").remove(0);
        assert_eq!(
            (check.repeat, check.timeout, check.backend),
            (3, Duration::from_secs(2), Choice::Strace)
        );
        assert_eq!(check.inferred, Inferred::Accept);
        assert_eq!(check.directory.as_deref(), Some(Path::new("/base/sub")));
        assert_eq!(check.syscalls(), "read,write");
        assert_eq!(
            check.baseline.expect("given").path,
            Path::new("/base/b.json")
        );
    }

    #[test]
    fn every_mistake_in_the_file_has_a_message_and_a_place() {
        let mistakes = [
            "x = 1",
            "[[check]]\nname = 'a'",
            "[[check]]\nname = 'a'\ncommand = 5",
            "[[check]]\nname = 'a'\ncommand = []",
            "[[check]]\nname = 'a'\ncommand = ['a",
            &format!("{HEAD}expekt = ['write.calls == 0']"),
            &format!("{HEAD}expect = ['write.calls == 0', \"read.cals == 0\"]"),
            &format!("{HEAD}expect = [\"read[file=\\\"a\\\"].cals == 0\"]"),
            &format!("{HEAD}expect = ['''\n  write.calls == 0\n  and raed.calls == 0''']"),
            HEAD,
            &format!("{HEAD}expect = ['exit.code == 0']\ntimeout = 'soon'"),
            &format!("{HEAD}expect = ['exit.code == 0']\nrepeat = 0"),
            &format!("{HEAD}expect = ['exit.code == 0']\nbackend = 'epbf'"),
            &format!("{HEAD}expect = ['exit.code == 0']\nsyscalls = 'raed'"),
            &format!("{HEAD}expect = ['fsync.calls == 0']\nsyscalls = 'read'"),
            &format!("{HEAD}expect = ['exit.code == 0']\nenv = {{ 'A=B' = '1' }}"),
            &format!(
                "{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = '../in', size = '1MiB' }}]"
            ),
            &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in' }}]"),
            &format!(
                "{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1MB', fill = 'ones' }}]"
            ),
            &format!(
                "{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1TiB' }}]"
            ),
            &format!(
                "{HEAD}expect = ['exit.code == 0']\ncwd = '.'\nfiles = [{{ path = 'in', size = '1MB' }}]"
            ),
            &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'raed.calls' = '1%' }}"),
            &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'read.calls' = 'much' }}"),
            &format!("{HEAD}expect = ['exit.code == 0']\n{HEAD}expect = ['exit.code == 0']"),
        ];
        let text: Vec<String> = mistakes
            .iter()
            .map(|text| parsed(text).map(drop).expect_err(text).to_string())
            .collect();
        insta::assert_snapshot!("mistakes", text.join("\n\n"));
    }

    #[test]
    fn all_mistakes_are_found_at_once() {
        let text = "x = 1\n[[check]]\nname = 'a'\ncommand = 5\nexpekt = []\nexpect = ['raed.calls == 0', 'write.calls == 0', 'read.cals == 0']\n\
                    timeout = 'soon'\n[[check]]\ncommand = ['true']\nrepeat = 'often'\n[[check]]\nname = 'b'\ncommand = ['true']\n\
                    files = [{ path = '/in' }, { path = 'in', size = '1XB' }]\nenv = { '' = '' }\nexpect = ['write.bytes < 2s']\n";
        let mistakes = parsed(text).expect_err("mistakes").to_string();
        insta::assert_snapshot!("all-mistakes", mistakes);
        assert!(
            parsed("check = 5")
                .expect_err("no checks")
                .to_string()
                .contains("1:9: a check is written as [[check]]")
        );
        assert!(
            parsed("check = [5]")
                .expect_err("no checks")
                .to_string()
                .contains("1:10: a check is written as [[check]]")
        );
        assert!(
            parsed("")
                .expect_err("no checks")
                .to_string()
                .contains("1:1: the file has no [[check]]")
        );
    }

    #[test]
    fn a_check_knows_the_lines_of_its_table_and_of_its_expectations() {
        let check = parsed(&format!(
            "\n{HEAD}expect = [\n  'write.calls == 0',\n  'read.calls == 0',\n]\n"
        ))
        .expect("a file")
        .remove(0);
        let place = check.place.expect("is in a file");
        assert_eq!(
            (place.file.as_path(), place.line),
            (Path::new("/base/zctrace.toml"), 2)
        );
        assert_eq!(place.expectations, [6, 7]);
    }

    #[test]
    fn patterns_choose_checks() {
        let text = |name: &str| {
            format!("[[check]]\nname = '{name}'\ncommand = ['true']\nexpect = ['exit.code == 0']\n")
        };
        let all = parsed(&["cp small", "cp large", "mv"].map(text).concat()).expect("a file");
        let chosen = |patterns: &[&str]| {
            let patterns: Vec<String> =
                patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            crate::check::choose(all.clone(), &patterns).map(|checks| {
                checks
                    .into_iter()
                    .map(|check| check.name)
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(chosen(&[]).expect("all").len(), 3);
        assert_eq!(
            chosen(&["cp *"]),
            Ok(vec!["cp small".into(), "cp large".into()])
        );
        assert_eq!(chosen(&["mv", "cp *"]).expect("all").len(), 3);
        assert_eq!(
            chosen(&["cp *", "rm"]),
            Err("no check is called 'rm'; --list shows all names".into())
        );
    }
}
