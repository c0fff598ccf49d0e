//! Reads `zctrace.toml`, the file of checks.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use toml::Spanned;

use super::{
    baseline::{Tolerance, Tolerances},
    plan::{Baseline, Check, Content, PreparedFile, ReportCommand},
};
use crate::{
    expect::{Expectation, Inferred, pointer, size_bytes},
    options::Choice,
    syscall::Selection,
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

/// Reads the checks of a file. Relative paths start in `base`, the file's folder.
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
    if checks.is_empty() { Err(source.error(0, "the file has no [[check]]")) } else { Ok(checks) }
}

/// The file that is read.
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
            return Err(self.error(at, "this check expects nothing: write expect = [\"...\"]"));
        }
        if !table.tolerance.is_empty() && table.baseline.is_none() {
            return Err(self.error(at, "tolerance needs a baseline: baseline = \"FILE.json\""));
        }
        if table.cwd.is_some() && !table.files.is_empty() {
            return Err(self.error(at, "files are created in a temporary working directory: leave out cwd, or files"));
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
            report_command: ReportCommand::Check(self.path.to_owned()),
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

    /// Reads a value from what is written for it.
    fn value<T, U>(&self, written: Option<Spanned<T>>, read: impl Fn(&T) -> Result<U, String>) -> Result<Option<U>, FileError> {
        written.map(|written| read(written.get_ref()).map_err(|why| self.error(written.span().start, why))).transpose()
    }

    fn variable(&self, name: &Spanned<String>, value: String) -> Result<(String, String), FileError> {
        let text = name.get_ref();
        let is_name = !text.is_empty() && !text.contains(['=', '\0']) && !value.contains('\0');
        if is_name {
            Ok((text.clone(), value))
        } else {
            Err(self.error(name.span().start, format!("'{text}' is not a valid environment variable")))
        }
    }

    fn expectation(&self, written: &Spanned<String>) -> Result<Expectation, FileError> {
        let text = written.get_ref();
        text.parse().map_err(|error: crate::expect::SyntaxError| {
            self.error(self.place_in(&written.span(), text, error.offset()), error.message())
        })
    }

    /// The place in the file of an offset in a string; the start of the string if it is written with escapes.
    fn place_in(&self, span: &Range<usize>, text: &str, offset: usize) -> usize {
        let written = self.text.get(span.clone()).unwrap_or_default();
        written.find(text).filter(|_| !text.is_empty()).map_or(span.start, |start| span.start + start + offset)
    }

    fn file(&self, table: &Spanned<FileTable>) -> Result<PreparedFile, FileError> {
        let wrong = |message: &str| self.error(table.span().start, message);
        let FileTable { path, content, size, fill } = table.get_ref();
        if path.as_os_str().is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        {
            return Err(wrong("the path of a file must lie within the check's folder: no leading '/' and no '..'"));
        }
        let size = self.value(size.clone(), |size: &String| file_bytes(size))?;
        let content = match (content, size, fill) {
            (Some(text), None, None) => Content::Text(text.clone()),
            (None, Some(size), None | Some(Fill::Random)) => Content::Random(size),
            (None, Some(size), Some(Fill::Zero)) => Content::Zero(size),
            _ => return Err(wrong("a file needs either content, or a size such as size = \"1MiB\" (with fill, if you like)")),
        };
        Ok(PreparedFile { path: path.clone(), content })
    }

    fn tolerances(&self, written: BTreeMap<Spanned<String>, Spanned<String>>) -> Result<Tolerances, FileError> {
        let mut tolerances = Tolerances::default();
        // The last tolerance that fits counts, so they are added in the order of the file.
        let mut written: Vec<_> = written.into_iter().collect();
        written.sort_by_key(|(metric, _)| metric.span().start);
        for (metric, tolerance) in written {
            let read = Tolerance::new(metric.get_ref(), tolerance.get_ref());
            tolerances.add(read.map_err(|error| self.error(metric.span().start, error.to_string()))?);
        }
        Ok(tolerances)
    }
}

fn all_words<T: Word>() -> String {
    T::ALL.iter().map(|value| value.word()).collect::<Vec<_>>().join(", ")
}

/// Limit for the size of a prepared file, which is written before each run.
const MAX_FILE_BYTES: u64 = 16 << 30;

fn file_bytes(text: &str) -> Result<u64, String> {
    match size_bytes(text)? {
        bytes if bytes > MAX_FILE_BYTES => Err(format!("a file of '{text}' is too large: at most {} GiB", MAX_FILE_BYTES >> 30)),
        bytes => Ok(bytes),
    }
}

fn inferred_names(word: &str) -> String {
    format!("unknown value '{word}'; inferred is one of {}", all_words::<Inferred>())
}

fn backend_names(word: &str) -> String {
    format!("unknown backend '{word}'; backend is one of {}", all_words::<Choice>())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HEAD: &str = "[[check]]\nname = \"a\"\ncommand = [\"cp\", \"in\", \"out\"]\n";

    fn parsed(text: &str) -> Result<Vec<Check>, FileError> {
        parse(text, Path::new("zctrace.toml"), Path::new("/base"))
    }

    #[test]
    fn a_check_has_defaults_for_what_is_not_written() {
        let text = format!(
            "{HEAD}expect = ['write.calls == 0']\nfiles = [{{ path = 'in', size = '1MiB' }}, {{ path = 'd/x', content = 'hi' }}]\n"
        );
        let check = parsed(&text).expect("a file").remove(0);
        assert_eq!((check.name.as_str(), check.repeat, check.timeout), ("a", 1, Check::TIMEOUT));
        assert_eq!(check.files[0].content, Content::Random(1 << 20));
        assert_eq!(check.files[1].content, Content::Text("hi".into()));
        assert_eq!(check.syscalls(), "%data");
        assert_eq!(check.directory, None);
    }

    #[test]
    fn a_command_line_runs_in_the_shell() {
        let check =
            parsed("[[check]]\nname = 'a'\ncommand = 'cat in | wc'\nexpect = ['fsync.calls == 0']").expect("a file").remove(0);
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
        assert_eq!((check.repeat, check.timeout, check.backend), (3, Duration::from_secs(2), Choice::Strace));
        assert_eq!(check.inferred, Inferred::Accept);
        assert_eq!(check.directory.as_deref(), Some(Path::new("/base/sub")));
        assert_eq!(check.syscalls(), "read,write");
        assert_eq!(check.baseline.expect("given").path, Path::new("/base/b.json"));
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
            &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = '../in', size = '1MiB' }}]"),
            &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in' }}]"),
            &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1MB', fill = 'ones' }}]"),
            &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1TiB' }}]"),
            &format!("{HEAD}expect = ['exit.code == 0']\ncwd = '.'\nfiles = [{{ path = 'in', size = '1MB' }}]"),
            &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'raed.calls' = '1%' }}"),
            &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'read.calls' = 'much' }}"),
            &format!("{HEAD}expect = ['exit.code == 0']\n{HEAD}expect = ['exit.code == 0']"),
        ];
        let text: Vec<String> = mistakes.iter().map(|text| parsed(text).map(drop).expect_err(text).to_string()).collect();
        insta::assert_snapshot!("mistakes", text.join("\n\n"));
    }

    #[test]
    fn patterns_choose_checks() {
        let text = |name: &str| format!("[[check]]\nname = '{name}'\ncommand = ['true']\nexpect = ['exit.code == 0']\n");
        let all = parsed(&["cp small", "cp large", "mv"].map(text).concat()).expect("a file");
        let chosen = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            crate::check::choose(all.clone(), &patterns)
                .map(|checks| checks.into_iter().map(|check| check.name).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).expect("all").len(), 3);
        assert_eq!(chosen(&["cp *"]), Ok(vec!["cp small".into(), "cp large".into()]));
        assert_eq!(chosen(&["mv", "cp *"]).expect("all").len(), 3);
        assert_eq!(chosen(&["cp *", "rm"]), Err("no check is called 'rm'; --list shows all names".into()));
    }
}
