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
    /// How often each is timed. `None`: at least [`MIN_RUNS`](Self::MIN_RUNS) times, and until
    /// three seconds are measured.
    pub runs: Option<u64>,
    /// Untimed runs of each before the timed ones.
    pub warmup: u64,
    /// Whose identity they have; without one, zctrace's own.
    pub identity: Option<Identity>,
    /// The backend of the traced runs.
    pub backend: Choice,
    /// Which calls they count.
    pub selection: Selection,
    /// How much the backend keeps at once.
    pub limits: Limits,
}

impl Plan {
    /// Least number of runs by default.
    pub const MIN_RUNS: u64 = 10;
    /// How long a command is measured by default.
    const MIN_TIME: Duration = Duration::from_secs(3);

    /// How many runs to make if one takes this long, with its preparation and the shell.
    pub fn wanted_runs(&self, one_run: Duration) -> u64 {
        let fitting = Self::MIN_TIME.as_nanos() / one_run.as_nanos().max(1);
        let enough = u64::try_from(fitting).unwrap_or(u64::MAX);
        self.runs.unwrap_or(enough.max(Self::MIN_RUNS))
    }
}

/// What is wrong with a plan, and what to do about it.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlanError(String);

/// What runs the command lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shell {
    /// `sh -c` for a line that means something to a shell; otherwise none, so that what is timed
    /// and counted is the command alone.
    #[default]
    Sh,
    /// No shell: a command line is split into words, of which the first names the program.
    None,
}

impl Shell {
    /// The program and its arguments for this command line; at least one word.
    fn words_of(self, line: &str) -> Result<Vec<OsString>, PlanError> {
        if self == Self::Sh && needs_shell(line) {
            return Ok(shell_script(line));
        }
        let unreadable =
            |why: String| PlanError(format!("cannot read the command {line:?}: {why}"));
        let words = shell_words::split(line).map_err(|error| unreadable(error.to_string()))?;
        if words.first().is_none_or(String::is_empty) {
            return Err(unreadable("it names no program".to_owned()));
        }
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// What a shell does not take as it is. Quotes are not among them, because [`shell_words`] reads
/// them as a shell does.
const SPECIAL: [char; 22] = [
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '*', '?', '[', ']', '#', '~', '!', '{', '}',
    '\n', '\t', '\r',
];

/// Builtin commands and reserved words of POSIX's sh, dash and bash that are no programs.
const OF_SHELL: [&str; 47] = [
    ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "do", "done", "elif",
    "else", "esac", "eval", "exec", "exit", "export", "fc", "fg", "fi", "for", "function",
    "getopts", "hash", "if", "jobs", "local", "read", "readonly", "return", "select", "set",
    "shift", "source", "then", "time", "times", "trap", "type", "ulimit", "umask", "unalias",
    "unset", "until", "wait", "while",
];

/// Whether only a shell can run this line.
fn needs_shell(line: &str) -> bool {
    let Ok(words) = shell_words::split(line) else {
        // It says what is wrong.
        return true;
    };
    let is_of_shell = |first: &String| {
        first.is_empty() || first.contains('=') || OF_SHELL.contains(&first.as_str())
    };
    line.contains(SPECIAL) || words.first().is_none_or(is_of_shell)
}

/// The words that run this line in a shell.
pub fn shell_script(line: &str) -> Vec<OsString> {
    ["sh", "-c", line].map(OsString::from).to_vec()
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
        let why = format!("too many --name options: {names} names for {commands} commands");
        return Err(PlanError(why));
    }
    if prepare.len() > 1 && prepare.len() != commands {
        let times = prepare.len();
        return Err(PlanError(format!(
            "--prepare is given {times} times: give it once for all commands, or once for each of the {commands}"
        )));
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
    use crate::compare::sample_measurements;

    #[test]
    fn a_shell_runs_only_what_means_something_to_it() {
        for line in [
            "cp in out",
            "dd if=/dev/zero of=/dev/null bs=4k count=1",
            "./osy 'a b' \"c d\"",
            "sleep 0.2",
            "true",
        ] {
            assert!(!needs_shell(line), "{line}");
            let words = Shell::Sh.words_of(line);
            assert_eq!(words, Shell::None.words_of(line), "{line}");
        }
        for line in [
            "cat in > out",
            "cat in | wc -c",
            "ls *.rs",
            "LANG=C ls",
            "exec cp in out",
            "exit 3",
            "ls ~",
            "echo 'a",
            "echo a\nb",
            "",
        ] {
            assert!(needs_shell(line), "{line}");
            assert_eq!(Shell::Sh.words_of(line), Ok(shell_script(line)), "{line}");
        }
    }

    #[test]
    fn the_number_of_runs_fills_the_time_or_is_the_chosen_one() {
        for (runs, one_run_ms, expected) in [
            (None, 10, 300),
            (None, 10_000, 10),
            (Some(5), 10, 5),
            (Some(7), 0, 7),
        ] {
            let plan = Plan {
                runs,
                ..sample_measurements::plan(1)
            };
            let one_run = Duration::from_millis(one_run_ms);
            assert_eq!(plan.wanted_runs(one_run), expected);
        }
    }
}
