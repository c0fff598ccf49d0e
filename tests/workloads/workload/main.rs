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

/// Every case with its parameters, as `--list` prints them.
const LIST: &str = "\
known [DIR]                              known numbers of every call that moves data, on thread zc-known
errnos                                   calls that fail with known errnos, on thread zc-errnos
proc-io [READS [WRITES [SIZE]]]          reads and writes between two looks at /proc/self/io
signal-reads [N]                         N reads ended by a signal without SA_RESTART, on thread zc-reader
signal-recv [N]                          the same with recvfrom and a receive timeout: a real EINTR
signal-restart [N]                       one read restarted N times (SA_RESTART), then 1 byte
fork-storm [N]                           N children (2000), each 3 writes of 10 bytes, at most 32 alive
exec-storm [N [PROGRAM...]]              N programs (500; `workload write 3 10`), at most 32 alive
thread-storm [T [N]]                     T threads (64), each N writes (1000) of 8 bytes
unfinished                               exits while thread zc-blocked is inside a read
killed                                   kills a child that is inside a read
killed-sending                           kills a child inside a send that has sent a part
trapped [N]                              N sends and N writes that seccomp traps, on thread zc-trapped
trapped-in-handler [N]                   N waits (3) on thread zc-paused, each ended by a signal, in whose handler seccomp traps a call
denied-in-handler [N]                    N reads (3) on thread zc-reading, each ended by a signal, in whose handler seccomp denies a call
deny ERRNO CALL PROGRAM...               executes a program for which seccomp makes one call, given by its number, fail
untraced-child                           a child that ptrace cannot follow writes 100 times
unknown-numbers                          calls with the numbers 700, 2000, 5000 and -1
rusage                                   a child with faults, switches and CPU time, and its wait4 rusage
exec-thread [N [SIZE]]                   a thread that is not the leader executes `workload write N SIZE`
write [N [SIZE]]                         N writes (100) of SIZE bytes (10) to /dev/null; prints nothing
sync [N]                                 N times (100) stat, openat, fsync and close
deep [KIB]                               4 writes to /dev/null on each of two threads, with KIB KiB (16) more on the stack
bystander                                prints `ready`, then reads and writes until its stdin closes
exit-code N                              exits with status N
kill-self SIGNAL                         kills itself with the signal, given as a name or a number";

/// The function of a case.
fn case(name: &str) -> Option<fn(Parameters) -> Result<()>> {
    Some(match name {
        "known" => known::run,
        "errnos" => errnos::run,
        "proc-io" => counters::proc_io,
        "signal-reads" => signals::reads,
        "signal-recv" => signals::receives,
        "signal-restart" => signals::restart,
        "fork-storm" => storms::forks,
        "exec-storm" => storms::execs,
        "thread-storm" => storms::threads,
        "unfinished" => signals::at_exit,
        "killed" => signals::killed,
        "killed-sending" => signals::killed_sending,
        "trapped" => seccomp::trapped,
        "trapped-in-handler" => seccomp::trapped_in_handler,
        "denied-in-handler" => seccomp::denied_in_handler,
        "deny" => seccomp::deny,
        "untraced-child" => basic::untraced_child,
        "unknown-numbers" => basic::unknown_numbers,
        "rusage" => counters::rusage,
        "exec-thread" => basic::exec_thread,
        "write" => basic::write_only,
        "sync" => basic::sync_only,
        "deep" => basic::deep,
        "bystander" => basic::bystander,
        "exit-code" => basic::exit_code,
        "kill-self" => basic::kill_self,
        _ => return None,
    })
}

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
        return Ok(print_line(LIST)?);
    }
    let case = case(&name).with_context(|| format!("there is no case {name:?}; see --list"))?;
    case(Parameters::new(arguments)).context(name)
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
