//! The plan of a comparison: which commands run, in which shell, how often and with what around
//! them. Every mistake in it is found before anything runs.

use std::{ffi::OsString, path::PathBuf, str::FromStr, time::Duration};

use thiserror::Error;

use crate::{
    options::{Choice, Identity, Limits},
    syscalls::Selection,
};

/// A comparison that is to be made.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The commands; at least one.
    pub subjects: Vec<Subject>,
    /// Index of the command that is 100 %, if the user chose one.
    pub reference: Option<usize>,
    /// The shell that runs them.
    pub shell: Shell,
    /// How often each is timed.
    pub runs: Runs,
    /// Untimed runs of each before the timed ones.
    pub warmup: u64,
    /// In which order they run.
    pub order: Order,
    /// What to do if one fails.
    pub on_failure: OnFailure,
    /// What they read.
    pub input: Input,
    /// Where they write to.
    pub output: Output,
    /// Whose identity they have; without one, zctrace's own.
    pub identity: Option<Identity>,
    /// How the traced runs are done.
    pub tracing: Tracing,
}

/// How often a command is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: Option<u64>,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            min: Self::DEFAULT_MIN,
            max: None,
        }
    }
}

impl Runs {
    /// Least number of runs by default.
    pub const DEFAULT_MIN: u64 = 10;
    /// How long a command is measured, unless that takes more than [`max`](Self::max) runs.
    const MIN_TIME: Duration = Duration::from_secs(3);

    /// How many runs to make if one takes this long, with its hooks and the shell.
    pub fn wanted(self, one_run: Duration) -> u64 {
        let fitting = Self::MIN_TIME.as_nanos() / one_run.as_nanos().max(1);
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        fitting.max(self.min).min(self.max.unwrap_or(u64::MAX))
    }
}

/// In which order the commands run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// In turn, so that what slows the machine for a while slows all of them.
    #[default]
    Interleaved,
    /// All runs of one command before those of the next.
    Sequential,
}

/// What to do if a command fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Stop: its figures are useless.
    #[default]
    Stop,
    /// Count it like any other run.
    Ignore,
}

/// What the commands read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    #[default]
    Null,
    /// A file, from its beginning in each run.
    File(PathBuf),
}

/// Where the commands write to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Output {
    /// `/dev/null`. Some programs notice that and do less.
    #[default]
    Null,
    /// A pipe that is read and discarded.
    Pipe,
    /// Where zctrace writes to, for stdout and stderr.
    Inherit,
    /// A file, emptied before each run.
    File(PathBuf),
}

/// How the traced runs are done.
#[derive(Debug, Clone, Default)]
pub struct Tracing {
    /// The backend.
    pub backend: Choice,
    /// Which calls are counted.
    pub selection: Selection,
    /// How much the backend keeps at once.
    pub limits: Limits,
    /// Whether the backend prints what it does.
    pub verbose: bool,
}

/// What is wrong with a plan.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A command line cannot be split into words.
    #[error("cannot read the command {line:?}: {why}")]
    Unreadable {
        /// The line.
        line: String,
        /// Why not.
        why: String,
    },
    /// There are more names than commands.
    #[error("too many --name options: {names} names for {commands} commands")]
    TooManyNames {
        /// How many names.
        names: usize,
        /// How many commands.
        commands: usize,
    },
    /// An option is given neither once nor once for each command.
    #[error(
        "{option} is given {times} times: give it once for all commands, or once for each of the {commands}"
    )]
    NotOneEach {
        /// The option.
        option: &'static str,
        /// How often it is given.
        times: usize,
        /// How many commands there are.
        commands: usize,
    },
    /// No command has the name of the reference.
    #[error("--reference: no command is called '{name}'; there are {}", quoted(.names))]
    NoSuchReference {
        /// The name.
        name: String,
        /// The names there are.
        names: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The shell that runs the command lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// None: a command line is split into words, of which the first names the program.
    None,
    /// A shell with its options. It gets `-c` and the command line.
    Words(Vec<String>),
}

impl Default for Shell {
    fn default() -> Self {
        Self::Words(vec!["sh".to_owned()])
    }
}

impl FromStr for Shell {
    type Err = PlanError;

    /// `none`, `default`, or a shell with its options, like `bash --norc`.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        match text {
            "none" => Ok(Self::None),
            "default" => Ok(Self::default()),
            line => split(line).map(Self::Words),
        }
    }
}

impl Shell {
    /// The program and its arguments for this command line.
    pub fn words_of(&self, line: &str) -> Result<Vec<OsString>, PlanError> {
        match self {
            Self::None => Ok(split(line)?.into_iter().map(OsString::from).collect()),
            Self::Words(_) => Ok(self.script(line)),
        }
    }

    /// The words that run this line in the shell, or in the default one if there is none.
    pub fn script(&self, line: &str) -> Vec<OsString> {
        match self {
            Self::None => Self::default().script(line),
            Self::Words(shell) => shell
                .iter()
                .map(String::as_str)
                .chain(["-c", line])
                .map(OsString::from)
                .collect(),
        }
    }
}

/// Splits a line into words by the rules of a shell. There is at least one.
fn split(line: &str) -> Result<Vec<String>, PlanError> {
    let unreadable = |why: &str| PlanError::Unreadable {
        line: line.to_owned(),
        why: why.to_owned(),
    };
    let words = shell_words::split(line).map_err(|error| unreadable(&error.to_string()))?;
    if words.first().is_none_or(String::is_empty) {
        Err(unreadable("it names no program"))
    } else {
        Ok(words)
    }
}

/// One command of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its command line, as it was given.
    pub line: String,
    /// The program and its arguments, the shell's included.
    pub words: Vec<OsString>,
    /// The commands that run around it.
    pub hooks: Hooks,
}

/// Command lines that run before and after a compared command. They always run in a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before the first run.
    pub setup: Option<String>,
    /// Before every run.
    pub prepare: Option<String>,
    /// After every run.
    pub conclude: Option<String>,
    /// After the last run.
    pub cleanup: Option<String>,
}

/// The [`Hooks`] of all commands, as the user gives them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookLines {
    /// Before the first run of each command.
    pub setup: Option<String>,
    /// Before every run: one for all commands, or one for each.
    pub prepare: Vec<String>,
    /// After every run: one for all commands, or one for each.
    pub conclude: Vec<String>,
    /// After the last run of each command.
    pub cleanup: Option<String>,
}

/// Makes the commands of a plan. Those without a name are called by their command lines.
pub fn subjects(
    lines: &[String],
    names: &[String],
    shell: &Shell,
    hooks: &HookLines,
) -> Result<Vec<Subject>, PlanError> {
    if names.len() > lines.len() {
        return Err(PlanError::TooManyNames {
            names: names.len(),
            commands: lines.len(),
        });
    }
    let prepare = one_each("--prepare", &hooks.prepare, lines.len())?;
    let conclude = one_each("--conclude", &hooks.conclude, lines.len())?;
    let around = prepare
        .into_iter()
        .zip(conclude)
        .map(|(prepare, conclude)| Hooks {
            setup: hooks.setup.clone(),
            prepare,
            conclude,
            cleanup: hooks.cleanup.clone(),
        });
    let names = names
        .iter()
        .chain(lines.get(names.len()..).unwrap_or_default());
    let subject = |((line, name), hooks): ((&String, &String), Hooks)| {
        Ok(Subject {
            name: name.clone(),
            line: line.clone(),
            words: shell.words_of(line)?,
            hooks,
        })
    };
    lines.iter().zip(names).zip(around).map(subject).collect()
}

/// Spreads an option over the commands: it is given once for all, or once for each.
fn one_each(
    option: &'static str,
    given: &[String],
    commands: usize,
) -> Result<Vec<Option<String>>, PlanError> {
    match given {
        [] => Ok(vec![None; commands]),
        [for_all] => Ok(vec![Some(for_all.clone()); commands]),
        each if each.len() == commands => Ok(each.iter().cloned().map(Some).collect()),
        other => Err(PlanError::NotOneEach {
            option,
            times: other.len(),
            commands,
        }),
    }
}

/// Index of the command with this name or command line.
pub fn reference_among(subjects: &[Subject], name: &str) -> Result<usize, PlanError> {
    let found = subjects.iter().position(|subject| subject.name == name);
    found
        .or_else(|| subjects.iter().position(|subject| subject.line == name))
        .ok_or_else(|| PlanError::NoSuchReference {
            name: name.to_owned(),
            names: subjects
                .iter()
                .map(|subject| subject.name.clone())
                .collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runs_fills_the_time_within_its_bounds() {
        let usual = Runs::default();
        assert_eq!(usual.wanted(Duration::from_millis(10)), 300);
        assert_eq!(usual.wanted(Duration::from_secs(10)), 10);
        assert_eq!(
            Runs {
                min: 2,
                max: Some(5)
            }
            .wanted(Duration::from_millis(10)),
            5
        );
        assert_eq!(
            Runs {
                min: 7,
                max: Some(7)
            }
            .wanted(Duration::ZERO),
            7
        );
    }

    fn words(shell: &str, line: &str) -> Vec<String> {
        let words = shell
            .parse::<Shell>()
            .and_then(|shell| shell.words_of(line))
            .expect("can be read");
        words
            .into_iter()
            .map(|word| word.into_string().expect("text"))
            .collect()
    }

    #[test]
    fn a_shell_gets_the_line_as_it_is() {
        assert_eq!(words("default", "a 'b c'; d"), ["sh", "-c", "a 'b c'; d"]);
        assert_eq!(words("bash --norc", "a"), ["bash", "--norc", "-c", "a"]);
    }

    #[test]
    fn without_a_shell_quotes_still_hold_words_together() {
        assert_eq!(
            words("none", r#"a 'b c' d\ e "$F;""#),
            ["a", "b c", "d e", "$F;"]
        );
    }

    #[test]
    fn a_line_that_names_no_command_is_an_error() {
        let error = Shell::None.words_of("a 'b").expect_err("a quote is open");
        assert_eq!(
            error.to_string(),
            "cannot read the command \"a 'b\": missing closing quote"
        );
        let error = Shell::None.words_of(" ").expect_err("no word");
        assert_eq!(
            error.to_string(),
            "cannot read the command \" \": it names no program"
        );
        assert!("''".parse::<Shell>().is_err());
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn planned(
        lines: &[&str],
        names: &[&str],
        prepare: &[&str],
    ) -> Result<Vec<Subject>, PlanError> {
        let hooks = HookLines {
            prepare: texts(prepare),
            ..HookLines::default()
        };
        subjects(&texts(lines), &texts(names), &Shell::default(), &hooks)
    }

    fn names(subjects: &[Subject]) -> Vec<&str> {
        subjects
            .iter()
            .map(|subject| subject.name.as_str())
            .collect()
    }

    #[test]
    fn a_command_without_a_name_is_called_by_its_line() {
        let found = planned(&["cp a b", "cat a"], &["copy"], &[]).expect("a plan");
        assert_eq!(names(&found), ["copy", "cat a"]);
    }

    #[test]
    fn more_names_than_commands_are_an_error() {
        let error = planned(&["a"], &["x", "y"], &[]).expect_err("too many");
        assert_eq!(
            error.to_string(),
            "too many --name options: 2 names for 1 commands"
        );
    }

    #[test]
    fn prepare_is_one_for_all_or_one_for_each() {
        let prepares = |given: &[&str]| {
            let found = planned(&["a", "b", "c"], &[], given)?;
            Ok(found
                .into_iter()
                .map(|subject| subject.hooks.prepare.unwrap_or_default())
                .collect::<Vec<_>>())
        };
        assert_eq!(prepares(&[]), Ok(texts(&["", "", ""])));
        assert_eq!(prepares(&["p"]), Ok(texts(&["p", "p", "p"])));
        assert_eq!(prepares(&["p", "q", "r"]), Ok(texts(&["p", "q", "r"])));
        let error: PlanError = prepares(&["p", "q"]).expect_err("neither");
        assert_eq!(
            error.to_string(),
            "--prepare is given 2 times: give it once for all commands, or once for each of the 3"
        );
    }

    #[test]
    fn a_reference_is_a_name_or_a_command_line() {
        let found = planned(&["cp a b", "cat a"], &["cat a", "other"], &[]).expect("a plan");
        assert_eq!(reference_among(&found, "cat a"), Ok(0), "names come first");
        assert_eq!(reference_among(&found, "cp a b"), Ok(0));
        assert_eq!(reference_among(&found, "other"), Ok(1));
        let error = reference_among(&found, "ohter").expect_err("no such name");
        assert_eq!(
            error.to_string(),
            "--reference: no command is called 'ohter'; there are 'cat a', 'other'"
        );
    }
}
