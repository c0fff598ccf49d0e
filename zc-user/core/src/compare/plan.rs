//! The plan of a comparison: which commands run, how often and what prepares them. Every mistake in
//! it is found before anything runs.

use std::{ffi::OsString, time::Duration};

use thiserror::Error;

use crate::{
    options::{Choice, Identity, Limits},
    syscalls::Selection,
};

/// A comparison that is to be made. The commands take turns, so that what slows the machine for a
/// while slows all of them.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The commands; at least one.
    pub subjects: Vec<Subject>,
    /// How often each is timed.
    pub runs: Runs,
    /// Untimed runs of each before the timed ones.
    pub warmup: u64,
    /// Whose identity they have; without one, zctrace's own.
    pub identity: Option<Identity>,
    /// How the traced runs are done.
    pub tracing: Tracing,
}

/// How often a command is timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Runs {
    /// At least ten times, and until three seconds are measured.
    #[default]
    Enough,
    /// This often.
    Exactly(u64),
}

impl Runs {
    /// Least number of runs by default.
    pub const LEAST: u64 = 10;
    /// How long a command is measured by default.
    const MIN_TIME: Duration = Duration::from_secs(3);

    /// How many runs to make if one takes this long, with its preparation and the shell.
    pub fn wanted(self, one_run: Duration) -> u64 {
        let fitting = Self::MIN_TIME.as_nanos() / one_run.as_nanos().max(1);
        match self {
            Self::Exactly(runs) => runs,
            Self::Enough => u64::try_from(fitting).unwrap_or(u64::MAX).max(Self::LEAST),
        }
    }
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
    /// --prepare is given neither once nor once for each command.
    #[error(
        "--prepare is given {times} times: give it once for all commands, or once for each of the {commands}"
    )]
    NotOneEach {
        /// How often it is given.
        times: usize,
        /// How many commands there are.
        commands: usize,
    },
}

/// What runs the command lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shell {
    /// `sh -c`.
    #[default]
    Sh,
    /// No shell: a command line is split into words, of which the first names the program.
    None,
}

impl Shell {
    /// The program and its arguments for this command line.
    fn words_of(self, line: &str) -> Result<Vec<OsString>, PlanError> {
        match self {
            Self::None => split(line),
            Self::Sh => Ok(shell_script(line)),
        }
    }
}

/// The words that run this line in a shell.
pub fn shell_script(line: &str) -> Vec<OsString> {
    ["sh", "-c", line].map(OsString::from).to_vec()
}

/// Splits a line into words by the rules of a shell. There is at least one.
fn split(line: &str) -> Result<Vec<OsString>, PlanError> {
    let unreadable = |why: &str| PlanError::Unreadable {
        line: line.to_owned(),
        why: why.to_owned(),
    };
    let words = shell_words::split(line).map_err(|error| unreadable(&error.to_string()))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(unreadable("it names no program"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
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
    /// A line that a shell runs before every run.
    pub prepare: Option<String>,
}

/// Makes the commands of a plan. Those without a name are called by their command lines. `prepare`
/// is given once for all commands, or once for each.
pub fn subjects(
    lines: &[String],
    names: &[String],
    shell: Shell,
    prepare: &[String],
) -> Result<Vec<Subject>, PlanError> {
    let commands = lines.len();
    if names.len() > commands {
        let names = names.len();
        return Err(PlanError::TooManyNames { names, commands });
    }
    if prepare.len() > 1 && prepare.len() != commands {
        let times = prepare.len();
        return Err(PlanError::NotOneEach { times, commands });
    }
    let subject = |(index, line): (usize, &String)| {
        Ok(Subject {
            name: names.get(index).unwrap_or(line).clone(),
            line: line.clone(),
            words: shell.words_of(line)?,
            prepare: prepare.get(index).or(prepare.first()).cloned(),
        })
    };
    lines.iter().enumerate().map(subject).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runs_fills_the_time_or_is_the_chosen_one() {
        for (runs, one_run_ms, expected) in [
            (Runs::Enough, 10, 300),
            (Runs::Enough, 10_000, 10),
            (Runs::Exactly(5), 10, 5),
            (Runs::Exactly(7), 0, 7),
        ] {
            assert_eq!(runs.wanted(Duration::from_millis(one_run_ms)), expected);
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn a_shell_gets_the_line_as_it_is_and_without_one_quotes_hold_words_together() {
        let words = |shell: Shell, line| shell.words_of(line).expect("can be read");
        assert_eq!(words(Shell::Sh, "a 'b c'; d"), ["sh", "-c", "a 'b c'; d"]);
        let line = r#"a 'b c' d\ e "$F;""#;
        assert_eq!(words(Shell::None, line), ["a", "b c", "d e", "$F;"]);
    }

    #[test]
    fn a_line_that_names_no_command_is_an_error() {
        for (line, why) in [
            ("a 'b", "missing closing quote"),
            (" ", "it names no program"),
            ("''", "it names no program"),
        ] {
            let error = Shell::None.words_of(line).expect_err(line).to_string();
            assert_eq!(error, format!("cannot read the command {line:?}: {why}"));
        }
    }

    fn planned(
        lines: &[&str],
        names: &[&str],
        prepare: &[&str],
    ) -> Result<Vec<Subject>, PlanError> {
        subjects(&texts(lines), &texts(names), Shell::Sh, &texts(prepare))
    }

    #[test]
    fn a_command_without_a_name_is_called_by_its_line() {
        let found = planned(&["cp a b", "cat a"], &["copy"], &[]).expect("a plan");
        let names: Vec<&str> = found.iter().map(|subject| &*subject.name).collect();
        assert_eq!(names, ["copy", "cat a"]);
        let error = planned(&["a"], &["x", "y"], &[]).expect_err("too many");
        let expected = "too many --name options: 2 names for 1 commands";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn prepare_is_one_for_all_or_one_for_each() {
        let prepares = |given: &[&str]| {
            let found = planned(&["a", "b", "c"], &[], given)?;
            Ok(found
                .into_iter()
                .map(|subject| subject.prepare.unwrap_or_default())
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
}
