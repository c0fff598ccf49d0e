//! `random-io`: programs that make random calls and know which addresses each of them used.
//!
//! `random-io batch SEED FIRST COUNT STEPS [OPTIONS]` starts programs one after the other, each as
//! a process of its own; `random-io one SEED NUMBER STEPS [OPTIONS]` is one of them. The source
//! files are in the working directory (`random-io sources` makes them), and each program writes its
//! record there ([`zc_tests::truth`]). `--without=NAME` leaves out a kind of call, `--skip=STEP` a
//! step. With `--interrupt`, a batch stops and continues its programs all the time. `strace -f` shows
//! the calls of a program, but not its stores to memory.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "lengths, offsets and results of calls are small, and each kernel interface has another type for them"
)]

mod books;
mod memory;
mod program;
mod setup;
mod steps;
mod world;

use std::{
    path::Path,
    process::{Child, Command, ExitStatus},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use zc_tests::{
    patience,
    truth::{Rng, Truth, make_sources},
};

use crate::{
    memory::AddressSpace,
    program::{ProgramOptions, RandomProgram},
};

/// After how many seconds a program that hangs is ended, on a machine of usual speed.
const LIMIT: u32 = 30;

fn main() -> Result<()> {
    let (options, words): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["batch", seed, first, count, steps] => batch(
            seed.parse()?,
            first.parse()?,
            count.parse()?,
            steps,
            &options,
        ),
        ["one", seed, number, steps] => {
            let mut all = ProgramOptions {
                seed: seed.parse()?,
                number: number.parse()?,
                steps: steps.parse()?,
                ..ProgramOptions::default()
            };
            for option in &options {
                match option.split_once('=') {
                    Some(("--without", what)) => all.without.push(what.to_owned()),
                    Some(("--skip", step)) => all.skipped.push(step.parse()?),
                    _ => bail!("unknown option {option}"),
                }
            }
            one(all)
        }
        ["sources"] => Ok(make_sources(Path::new("."))?),
        _ => bail!(
            "random-io sources | random-io batch SEED FIRST COUNT STEPS | random-io one SEED NUMBER STEPS"
        ),
    }
}

/// Starts programs one after the other.
fn batch(seed: u64, first: u64, count: u64, steps: &str, options: &[String]) -> Result<()> {
    let program = std::env::current_exe()?;
    let (interrupt, options): (Vec<_>, Vec<_>) =
        options.iter().partition(|option| *option == "--interrupt");
    for number in first..first + count {
        // Neighbouring seeds have no program in common.
        let seed = Rng::new(Rng::new(seed).next().wrapping_add(number)).next();
        let words = [
            "one".to_owned(),
            seed.to_string(),
            number.to_string(),
            steps.to_owned(),
        ];
        let mut child = Command::new(&program).args(words).args(&options).spawn()?;
        let status = if interrupt.is_empty() {
            child.wait()?
        } else {
            interrupted(&mut child)?
        };
        ensure!(
            status.success(),
            "program {number} with seed {seed} failed: {status}"
        );
    }
    Ok(())
}

/// Stops and continues a program until it ends. Each time, the call that it is in sees a signal.
fn interrupted(child: &mut Child) -> Result<ExitStatus> {
    let id = Pid::from_child(child);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        kill_process(id, Signal::STOP)?;
        kill_process(id, Signal::CONT)?;
    }
}

/// Runs one program. Each of its processes writes a record.
fn one(options: ProgramOptions) -> Result<()> {
    end_in_time();
    let number = options.number;
    let mut program = setup::program(options)?;
    let others: Vec<_> = (1..program.actors.len())
        .map(|actor| program.seen_by(actor))
        .collect();
    let threads: Vec<_> = others
        .into_iter()
        .map(|mut other| thread::spawn(move || other.run().map(|()| other.world.books)))
        .collect();
    program.run()?;
    let process = program.process_of(program.me);
    // The children of a program with one thread have no others.
    for thread in threads.into_iter().filter(|_| process == 0) {
        let books = thread.join().ok().context("a thread panicked")??;
        program.world.books.merge(books);
    }
    program.wait_for_children()?;
    record_of(&program, process).store(Path::new("."), number, process)?;
    Ok(())
}

/// What a process of the program moved; that of the first process also says what the program did.
fn record_of(program: &RandomProgram, process: usize) -> Truth {
    let world = &program.world;
    let endpoints = world.endpoints.iter();
    let names: Vec<String> = endpoints.map(|endpoint| endpoint.name.clone()).collect();
    let moved = world.books.truth(&names, world.pids[process]);
    if process > 0 {
        return moved;
    }
    let pids_with = |has: fn(&AddressSpace) -> bool| {
        let spaces = world.pids.iter().zip(&world.spaces);
        let found = spaces.filter(|(_, space)| has(space));
        found.map(|(pid, _)| *pid).collect()
    };
    let connections = world.endpoints.iter().enumerate();
    let connections = connections
        .filter(|(index, endpoint)| *index < endpoint.peer)
        .map(|(index, endpoint)| [names[index].clone(), names[endpoint.peer].clone()])
        .collect();
    Truth {
        seed: program.options.seed,
        pids: world.pids.clone(),
        forgetful: pids_with(|space| space.is_forgetful),
        crowded: pids_with(|space| space.is_crowded),
        connections,
        kinds: program.kinds.clone(),
        ..moved
    }
}

/// Sets a timer whose signal ends this process if it hangs.
fn end_in_time() {
    // SAFETY: only sets a timer.
    unsafe { libc::alarm(LIMIT.saturating_mul(patience())) };
}
