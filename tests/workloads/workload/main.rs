//! `workload`: named cases that make known system calls and print which. `workload --list` shows
//! them.
//!
//! The documentation of the library says what a case prints, and why some make their calls on a
//! thread of their own.

mod basic;
mod counters;
mod errnos;
mod known;
mod seccomp;
mod signals;
mod storms;

use std::{process::ExitCode, vec};

use anyhow::{Context, Result, bail};
use zc_tests::print_line;

/// One workload.
struct Case {
    name: &'static str,
    parameters: &'static str,
    about: &'static str,
    run: fn(Parameters) -> Result<()>,
}

/// A row of the table.
const fn case(
    name: &'static str,
    parameters: &'static str,
    about: &'static str,
    run: fn(Parameters) -> Result<()>,
) -> Case {
    Case {
        name,
        parameters,
        about,
        run,
    }
}

/// Every case; this table is also `--list`.
const CASES: &[Case] = &[
    case(
        "known",
        "[DIR]",
        "known numbers of every call that moves data, on thread zc-known",
        known::run,
    ),
    case(
        "errnos",
        "",
        "calls that fail with known errnos, on thread zc-errnos",
        errnos::run,
    ),
    case(
        "proc-io",
        "[READS [WRITES [SIZE]]]",
        "reads and writes between two looks at /proc/self/io",
        counters::proc_io,
    ),
    case(
        "signal-reads",
        "[N]",
        "N reads ended by a signal without SA_RESTART, on thread zc-reader",
        signals::reads,
    ),
    case(
        "signal-recv",
        "[N]",
        "the same with recvfrom and a receive timeout: a real EINTR",
        signals::receives,
    ),
    case(
        "signal-restart",
        "[N]",
        "one read restarted N times (SA_RESTART), then 1 byte",
        signals::restart,
    ),
    case(
        "fork-storm",
        "[N]",
        "N children (2000), each 3 writes of 10 bytes, at most 32 alive",
        storms::forks,
    ),
    case(
        "exec-storm",
        "[N [PROGRAM...]]",
        "N programs (500; `workload write 3 10`), at most 32 alive",
        storms::execs,
    ),
    case(
        "thread-storm",
        "[T [N]]",
        "T threads (64), each N writes (1000) of 8 bytes",
        storms::threads,
    ),
    case(
        "unfinished",
        "",
        "exits while thread zc-blocked is inside a read",
        signals::at_exit,
    ),
    case(
        "killed",
        "",
        "kills a child that is inside a read",
        signals::killed,
    ),
    case(
        "killed-sending",
        "",
        "kills a child inside a send that has sent a part",
        signals::killed_sending,
    ),
    case(
        "trapped",
        "[N]",
        "N sends and N writes that seccomp traps, on thread zc-trapped",
        seccomp::trapped,
    ),
    case(
        "trapped-in-handler",
        "[N]",
        "N waits (3) on thread zc-paused, each ended by a signal, in whose handler seccomp traps a call",
        seccomp::trapped_in_handler,
    ),
    case(
        "denied-in-handler",
        "[N]",
        "N reads (3) on thread zc-reading, each ended by a signal, in whose handler seccomp denies a call",
        seccomp::denied_in_handler,
    ),
    case(
        "deny",
        "ERRNO CALL PROGRAM...",
        "executes a program for which seccomp makes one call, given by its number, fail",
        seccomp::deny,
    ),
    case(
        "untraced-child",
        "",
        "a child that ptrace cannot follow writes 100 times",
        basic::untraced_child,
    ),
    case(
        "unknown-numbers",
        "",
        "calls with the numbers 700, 2000, 5000 and -1",
        basic::unknown_numbers,
    ),
    case(
        "rusage",
        "",
        "a child with faults, switches and CPU time, and its wait4 rusage",
        counters::rusage,
    ),
    case(
        "exec-thread",
        "[N [SIZE]]",
        "a thread that is not the leader executes `workload write N SIZE`",
        basic::exec_thread,
    ),
    case(
        "write",
        "[N [SIZE]]",
        "N writes (100) of SIZE bytes (10) to /dev/null; prints nothing",
        basic::write_only,
    ),
    case(
        "sync",
        "[N]",
        "N times (100) stat, openat, fsync and close",
        basic::sync_only,
    ),
    case(
        "deep",
        "[KIB]",
        "4 writes to /dev/null on each of two threads, with KIB KiB (16) more on the stack",
        basic::deep,
    ),
    case(
        "bystander",
        "",
        "prints `ready`, then reads and writes until its stdin closes",
        basic::bystander,
    ),
    case("exit-code", "N", "exits with status N", basic::exit_code),
    case(
        "kill-self",
        "SIGNAL",
        "kills itself with the signal, given as a name or a number",
        basic::kill_self,
    ),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("workload: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the case that the first argument names.
fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("name a case; see --list")?;
    if name == "--list" {
        let line = |case: &Case| {
            format!(
                "{:<40} {}",
                format!("{} {}", case.name, case.parameters),
                case.about
            )
        };
        return Ok(print_line(
            &CASES.iter().map(line).collect::<Vec<_>>().join("\n"),
        )?);
    }
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("there is no case {name:?}; see --list"))?;
    (case.run)(Parameters::new(arguments)).context(case.name)
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

    /// Refuses further arguments.
    pub(crate) fn end(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(extra) => bail!("unexpected argument {extra:?}"),
        }
    }
}
