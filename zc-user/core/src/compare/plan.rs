//! The plan of a comparison: which commands run, how often and what prepares them. Every mistake in
//! it is found before anything runs.

use std::{ffi::OsString, time::Duration};

use thiserror::Error;

use super::parameters::{Choices, Parameter, all_combinations, with_values};
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
    /// Whether runs that fail count like the others.
    pub ignores_failures: bool,
    /// What runs the lines of the commands, and those before and after them.
    pub shell: Shell,
    /// Whose identity they have; without one, zctrace's own.
    pub identity: Option<Identity>,
    /// The backend of the traced runs.
    pub backend: Choice,
    /// Which calls they count.
    pub selection: Selection,
    /// How much the backend keeps at once.
    pub limits: Limits,
}

/// How often a command is timed: until three seconds are measured, within these bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    min: u64,
    max: u64,
}

impl Runs {
    /// Least number of runs by default.
    const MIN: u64 = 10;
    /// How long a command is measured.
    const MIN_TIME: Duration = Duration::from_secs(3);

    /// Exactly this often.
    pub const fn exactly(runs: u64) -> Self {
        Self {
            min: runs,
            max: runs,
        }
    }

    /// Between these bounds, by default at least 10 times. Refuses a minimum that is larger than the
    /// maximum.
    pub fn between(min: Option<u64>, max: Option<u64>) -> Result<Self, PlanError> {
        let max = max.unwrap_or(u64::MAX);
        let min = min.unwrap_or(Self::MIN.min(max));
        if min > max {
            let why = format!("--min-runs {min} is more than --max-runs {max}");
            return Err(PlanError(why));
        }
        Ok(Self { min, max })
    }

    /// How many runs to make if one takes this long, with its preparation and the shell.
    pub fn wanted_runs(self, one_run: Duration) -> u64 {
        let fitting = Self::MIN_TIME.as_nanos() / one_run.as_nanos().max(1);
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        fitting.clamp(self.min, self.max)
    }
}

/// What is wrong with a plan, and what to do about it.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);

/// What runs the command lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Shell {
    /// `sh -c` for a line that means something to a shell; otherwise none, so that what is timed
    /// and counted is the command alone.
    #[default]
    Sh,
    /// This shell, whose words come before `-c` and the line.
    Chosen(Vec<String>),
    /// No shell: a command line is split into words, of which the first names the program.
    None,
}

impl Shell {
    /// The shell that is chosen by these words, `bash --norc`. `none`: no shell.
    pub fn from_words(words: &str) -> Result<Self, PlanError> {
        if words == "none" {
            return Ok(Self::None);
        }
        Ok(Self::Chosen(split_words(words, "shell")?))
    }

    /// The words that run this script, which may mean anything to a shell.
    pub fn script_command(&self, script: &str) -> Vec<OsString> {
        match self {
            Self::Sh | Self::None => shell_script(script),
            Self::Chosen(shell) => {
                let shell = shell.iter().map(String::as_str);
                shell.chain(["-c", script]).map(OsString::from).collect()
            }
        }
    }

    /// The program and its arguments for this command line; at least one word.
    fn words_of(&self, line: &str) -> Result<Vec<OsString>, PlanError> {
        match self {
            Self::Chosen(_) => Ok(self.script_command(line)),
            Self::Sh if needs_shell(line) => Ok(self.script_command(line)),
            Self::Sh | Self::None => Ok(split_words(line, "command")?
                .into_iter()
                .map(OsString::from)
                .collect()),
        }
    }
}

/// The words of a line, which names a program.
fn split_words(line: &str, what: &str) -> Result<Vec<String>, PlanError> {
    let unreadable = |why: String| PlanError(format!("cannot read the {what} {line:?}: {why}"));
    let words = shell_words::split(line).map_err(|error| unreadable(error.to_string()))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(unreadable("it names no program".to_owned()));
    }
    Ok(words)
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
    /// Its command line, with the values of the parameters.
    pub line: String,
    /// The program and its arguments, the shell's included.
    pub words: Vec<OsString>,
    /// A line that a shell runs once, before the first run of any command.
    pub setup: Option<String>,
    /// A line that a shell runs before every run.
    pub prepare: Option<String>,
    /// A line that a shell runs once, after the last run of all commands.
    pub cleanup: Option<String>,
}

/// The lines of a comparison, as they were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct GivenLines<'a> {
    /// The command lines.
    pub commands: &'a [String],
    /// The names of the first of them. The others are called by their command lines.
    pub names: &'a [String],
    /// What prepares a run: one line for all commands, or one for each.
    pub prepare: &'a [String],
    /// What runs before all runs of a command.
    pub setup: Option<&'a String>,
    /// What runs after all runs of a command.
    pub cleanup: Option<&'a String>,
    /// What `{NAME}` stands for in all of these.
    pub parameters: &'a [Parameter],
}

impl GivenLines<'_> {
    /// The commands of a plan: each command line with each combination of the parameters.
    pub fn make_subjects(&self, shell: &Shell) -> Result<Vec<Subject>, PlanError> {
        let commands = self.commands.len();
        if self.names.len() > commands {
            let names = self.names.len();
            let why = format!("too many --name options: {names} names for {commands} commands");
            return Err(PlanError(why));
        }
        if self.prepare.len() > 1 && self.prepare.len() != commands {
            let times = self.prepare.len();
            return Err(PlanError(format!(
                "--prepare is given {times} times: give it once for all commands, or once for each of the {commands}"
            )));
        }
        let lines = self.commands.iter().chain(self.prepare).chain(self.setup);
        let chosen = all_combinations(self.parameters, &lines.collect::<Vec<_>>())?;
        let mut subjects = Vec::new();
        for index in 0..commands {
            let first = subjects.len();
            for chosen in &chosen {
                let subject = self.make_subject(index, chosen, shell)?;
                // A command without a parameter runs once, not once for each value.
                if !subjects[first..].contains(&subject) {
                    subjects.push(subject);
                }
            }
        }
        Ok(subjects)
    }

    /// The command at this index with these values.
    fn make_subject(
        &self,
        index: usize,
        chosen: &Choices,
        shell: &Shell,
    ) -> Result<Subject, PlanError> {
        let with_values = |line: &String| with_values(line, chosen);
        let line = with_values(&self.commands[index]);
        let name = self.names.get(index);
        let prepare = self.prepare.get(index).or(self.prepare.first());
        Ok(Subject {
            name: name.map_or_else(|| line.clone(), with_values),
            words: shell.words_of(&line)?,
            line,
            setup: self.setup.map(with_values),
            prepare: prepare.map(with_values),
            cleanup: self.cleanup.map(with_values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_chosen_shell_runs_every_line() {
        let bash = Shell::from_words("bash --norc").expect("two words");
        let words = bash.words_of("true").expect("any line");
        assert_eq!(words, ["bash", "--norc", "-c", "true"]);
        assert_eq!(Shell::from_words("none"), Ok(Shell::None));
        assert!(Shell::from_words("'").is_err() && Shell::from_words("").is_err());
    }

    #[test]
    fn the_number_of_runs_fills_the_time_within_its_bounds() {
        let between = |min, max| Runs::between(min, max).expect("in order");
        for (runs, one_run_ms, expected) in [
            (between(None, None), 10, 300),
            (between(None, None), 10_000, 10),
            (between(Some(3), None), 10_000, 3),
            (between(None, Some(20)), 10, 20),
            (between(None, Some(5)), 10_000, 5),
            (Runs::exactly(5), 10, 5),
            (Runs::exactly(7), 0, 7),
        ] {
            let one_run = Duration::from_millis(one_run_ms);
            assert_eq!(runs.wanted_runs(one_run), expected, "{runs:?}");
        }
        assert!(Runs::between(Some(6), Some(5)).is_err());
    }

    #[test]
    fn a_parameter_fills_every_line_of_a_command() {
        let given = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (commands, names) = (given(&["dd bs={n}", "cat {f}"]), given(&["dd {n}"]));
        let (setup, cleanup) = ("touch {f}".to_owned(), "rm {f}".to_owned());
        let parameters = [("n", "1,2"), ("f", "a")];
        let parameters = parameters.map(|(name, list)| Parameter::from_list(name, list));
        let lines = GivenLines {
            commands: &commands,
            names: &names,
            setup: Some(&setup),
            cleanup: Some(&cleanup),
            parameters: &parameters,
            ..GivenLines::default()
        };
        let subjects = lines.make_subjects(&Shell::None).expect("all are used");
        let shown = subjects
            .iter()
            .map(|one| (one.name.as_str(), one.line.as_str()));
        let expected = [("dd 1", "dd bs=1"), ("dd 2", "dd bs=2"), ("cat a", "cat a")];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        let around = |one: &Subject| [one.setup.clone(), one.cleanup.clone()];
        let expected = ["touch a", "rm a"].map(|line| Some(line.to_owned()));
        assert!(subjects.iter().all(|one| around(one) == expected));
        let refused = |parameters: &[Parameter]| {
            let lines = GivenLines {
                parameters,
                ..lines
            };
            lines
                .make_subjects(&Shell::None)
                .expect_err("refused")
                .to_string()
        };
        let unused = [Parameter::from_list("bs", "1")];
        assert_eq!(
            refused(&unused),
            "no command has the parameter 'bs': write {bs} where its values belong"
        );
        let twice = [parameters[0].clone(), parameters[0].clone()];
        assert_eq!(
            refused(&twice),
            "the parameter 'n' is given twice: give all its values in one list"
        );
    }
}
