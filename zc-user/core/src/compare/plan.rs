//! What is to be compared, and how. Whatever can be wrong with it is found before anything runs.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

use super::{Shell, Subject};
use crate::{
    options::{Choice, Identity, Limits},
    syscall::Selection,
};

/// What is to be compared, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The commands; at least one.
    pub subjects: Vec<Subject>,
    /// Which of them is 100 %, if the user says so.
    pub reference: Option<usize>,
    /// What runs them.
    pub shell: Shell,
    /// How often each of them runs.
    pub runs: Runs,
    /// Untimed runs of each before that.
    pub warmup: u64,
    /// In which order.
    pub order: Order,
    /// What to do if one fails.
    pub on_failure: OnFailure,
    /// What they read.
    pub input: Input,
    /// Where they write to.
    pub output: Output,
    /// Whose identity they have; zctrace's own without.
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
        Self { min: Self::USUAL_MIN, max: None }
    }
}

impl Runs {
    /// Runs of a command if nothing else is said.
    pub const USUAL_MIN: u64 = 10;
    /// How long a command is measured at least, unless that is more runs than allowed.
    const MIN_TIME: Duration = Duration::from_secs(3);

    /// How many runs it takes, if one lasts so long with all that belongs to it.
    pub fn wanted(self, one_run: Duration) -> u64 {
        let fitting = Self::MIN_TIME.as_nanos() / one_run.as_nanos().max(1);
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        fitting.max(self.min).min(self.max.unwrap_or(u64::MAX))
    }
}

/// In which order the commands run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// In turn: what slows the machine for a while slows all of them.
    #[default]
    Interleaved,
    /// All runs of one command before those of the next.
    Sequential,
}

/// What to do if a command fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Its figures are of no use.
    #[default]
    Stop,
    /// It is as good as any other run.
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
    /// Nowhere. Some programs notice.
    #[default]
    Null,
    /// A pipe that is read and forgotten.
    Pipe,
    /// Where zctrace writes to, with what they say on stderr.
    Inherit,
    /// A file, empty at the beginning of each run.
    File(PathBuf),
}

/// How the traced runs are done.
#[derive(Debug, Clone, Default)]
pub struct Tracing {
    /// By what.
    pub backend: Choice,
    /// Which calls are counted.
    pub selection: Selection,
    /// How much is kept at once.
    pub limits: Limits,
    /// Whether the backend tells what it does.
    pub verbose: bool,
}

/// What is wrong with a plan.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A command line that cannot be split into words.
    #[error("cannot read the command {line:?}: {why}")]
    Unreadable {
        /// The line.
        line: String,
        /// Why not.
        why: String,
    },
    /// More names than commands.
    #[error("too many --name options: {names} names for {commands} commands")]
    TooManyNames {
        /// How many names.
        names: usize,
        /// How many commands.
        commands: usize,
    },
    /// Neither one for all nor one for each.
    #[error("{option} is given {times} times: give it once for all commands, or once for each of the {commands}")]
    NotOneEach {
        /// The option.
        option: &'static str,
        /// How often it is given.
        times: usize,
        /// How many commands there are.
        commands: usize,
    },
    /// No command of that name.
    #[error("--reference: no command is called '{name}'; there is {}", quoted(.names))]
    NoSuchReference {
        /// The name.
        name: String,
        /// The names there are.
        names: Vec<String>,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_fill_the_time_within_their_bounds() {
        let usual = Runs::default();
        assert_eq!(usual.wanted(Duration::from_millis(10)), 300);
        assert_eq!(usual.wanted(Duration::from_secs(10)), 10);
        assert_eq!(Runs { min: 2, max: Some(5) }.wanted(Duration::from_millis(10)), 5);
        assert_eq!(Runs { min: 7, max: Some(7) }.wanted(Duration::ZERO), 7);
    }
}
