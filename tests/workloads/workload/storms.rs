//! Many short-lived processes, programs, threads.

use std::{
    fs::{self, File},
    os::fd::AsFd,
    process::{Child, Command},
    thread,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    io::write,
    process::{Pid, WaitOptions, WaitStatus, wait},
};
use serde_json::json;
use zc_tests::{Figure, Figures, fork, print_expectation};

use crate::{Parameters, basic::write_exactly};

/// The most children that are alive at the same time.
const ALIVE: usize = 32;

/// N children made by `fork`, each with 3 writes of 10 bytes.
pub(crate) fn forks(mut parameters: Parameters) -> Result<()> {
    let children = parameters.count(2000)?;
    let null = File::options().write(true).open("/dev/null")?;
    for started in 0..children {
        if started >= ALIVE {
            check(wait(WaitOptions::empty())?)?;
        }
        fork(|| (0..3).all(|_| write(&null, &[0; 10]) == Ok(10)))?;
    }
    for _ in 0..children.min(ALIVE) {
        check(wait(WaitOptions::empty())?)?;
    }
    print_expectation("fork-storm", &writes(children * 3, 10), json!({}))
}

/// Makes sure that a child succeeded.
fn check(ended: Option<(Pid, WaitStatus)>) -> Result<()> {
    let (pid, status) = ended.context("a child is missing")?;
    ensure!(
        status.exit_status() == Some(0),
        "child {} ended with {status:?}",
        pid.as_raw_nonzero()
    );
    Ok(())
}

/// N programs started by `posix_spawn`: this one, with 3 writes of 10 bytes.
pub(crate) fn execs(mut parameters: Parameters) -> Result<()> {
    let children = parameters.count(500)?;
    let this = fs::read_link("/proc/self/exe")?;
    let program = [&this.display().to_string(), "write", "3", "10"];
    let mut alive: Vec<Child> = Vec::new();
    for _ in 0..children {
        if alive.len() == ALIVE {
            wait_for_program(alive.remove(0))?;
        }
        alive.push(Command::new(&this).args(&program[1..]).spawn()?);
    }
    alive.into_iter().try_for_each(wait_for_program)?;
    let facts = json!({ "program": program });
    print_expectation("exec-storm", &writes(children * 3, 10), facts)
}

/// Reaps one program.
fn wait_for_program(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    ensure!(
        status.success(),
        "program {} ended with {status}",
        child.id()
    );
    Ok(())
}

/// T threads at once, each with N writes of 8 bytes.
pub(crate) fn threads(mut parameters: Parameters) -> Result<()> {
    let (threads, times) = (parameters.count(64)?, parameters.count(1000)?);
    let null = File::options().write(true).open("/dev/null")?;
    thread::scope(|scope| {
        let start = |_| {
            let builder = thread::Builder::new().name("zc-storm".to_owned());
            builder.spawn_scoped(scope, || write_exactly(null.as_fd(), times, &[0; 8]))
        };
        let started = (0..threads).map(start).collect::<Result<Vec<_>, _>>()?;
        started
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })?;
    print_expectation("thread-storm", &writes(threads * times, 8), json!({}))
}

/// The figures of `calls` writes of `size` bytes.
fn writes(calls: usize, size: u64) -> Figures {
    [("write".to_owned(), Figure::of_calls(calls as u64, size))].into()
}
