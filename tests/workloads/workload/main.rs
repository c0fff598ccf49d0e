//! `workload`: named cases that make known system calls and print which. `workload --list` shows
//! them.
//!
//! The documentation of the library says what a case prints, and why some make their calls on a
//! thread of their own.

mod basic;
mod errnos;
mod known;
mod seccomp;
mod signals;
mod storms;

use std::vec;

use anyhow::{Context, Result};
use zc_tests::print_line;

/// The function of a case. Its documentation says what it does, with which parameters (upper case).
type WorkloadCase = fn(Parameters) -> Result<()>;

/// Every case, in the order of `--list`.
const CASES: &[(&str, WorkloadCase)] = &[
    ("known", known::run),
    ("errnos", errnos::run),
    ("signal-reads", signals::reads),
    ("signal-recv", signals::receives),
    ("signal-restart", signals::restart),
    ("fork-storm", storms::forks),
    ("exec-storm", storms::execs),
    ("thread-storm", storms::threads),
    ("unfinished", signals::at_exit),
    ("killed", signals::killed),
    ("killed-sending", signals::killed_sending),
    ("broken-pipe", signals::broken_pipe),
    ("trapped", seccomp::trapped),
    ("trapped-in-handler", seccomp::trapped_in_handler),
    ("denied-in-handler", seccomp::denied_in_handler),
    ("deny", seccomp::deny),
    ("unknown-numbers", basic::unknown_numbers),
    ("exec-thread", basic::exec_thread),
    ("write", basic::write_only),
    ("sync", basic::sync_only),
    ("deep", basic::deep),
];

/// Runs the case that the first argument names.
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("name a case; see --list")?;
    if name == "--list" {
        let names: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
        return Ok(print_line(&names.join("\n"))?);
    }
    let case = CASES.iter().find(|(case, _)| *case == name);
    let (_, run) = case.with_context(|| format!("there is no case {name:?}; see --list"))?;
    run(Parameters::new(arguments)).context(name)
}

/// The arguments after the case's name, taken one by one.
pub(crate) struct Parameters(vec::IntoIter<String>);

impl Parameters {
    /// All arguments of a case.
    pub(crate) fn new(arguments: impl Iterator<Item = String>) -> Self {
        Self(arguments.collect::<Vec<_>>().into_iter())
    }

    /// The next argument as a count that is at least 1, or `default` if there is none.
    pub(crate) fn count(&mut self, default: usize) -> Result<usize> {
        let Some(text) = self.0.next() else {
            return Ok(default);
        };
        let count = text.parse().ok().filter(|count| *count > 0);
        count.with_context(|| format!("{text:?} is not a count"))
    }

    /// The next argument as text.
    pub(crate) fn text(&mut self) -> Option<String> {
        self.0.next()
    }

    /// All arguments that are left.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0.collect()
    }
}
