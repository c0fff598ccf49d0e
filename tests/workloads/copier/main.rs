//! `copier`: copies from one end to another by a chosen interface, so that a tracer can be asked what that interface does.
//!
//! `copier CASE --from SPEC --to SPEC` ends with one line on stdout, `copied N bytes`, written by one call (on stderr, if the copy
//! itself goes to stdout). `copier sink ADDRESS` and `copier feed ADDRESS` are the other sides for sockets.

mod arguments;
mod cases;
mod checksum;
mod ends;
mod interfaces;
mod job;
mod library_copies;
mod peer;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use zc_tests::{named, print_line};

use crate::{
    arguments::{Arguments, CopyArguments, Role},
    cases::Misuse,
    ends::Spec,
    job::Job,
};

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("copier: {err:#}");
            // The status with which clap refuses what it can tell by itself.
            if err.is::<Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Lists, plays the other side, or copies.
fn run(arguments: Arguments) -> Result<()> {
    match arguments.role {
        Some(Role::Sink { address, keep: true, .. }) => peer::keep_draining(&address),
        Some(Role::Sink { address, to, checksum, .. }) => peer::sink(&address, to.as_ref(), checksum),
        Some(Role::Feed { address, from }) => peer::feed(&address, &from),
        None if arguments.list => print_line(&cases::list()).map_err(named),
        None => copy(arguments.copy.context("nothing to do; see --help")?),
    }
}

/// Copies, and says how much.
fn copy(asked: CopyArguments) -> Result<()> {
    let case = cases::find(&asked)?;
    let is_stdout_taken = asked.to == Spec::Standard;
    let mut job = Job::new(asked)?;
    let line = match (case.run)(&mut job) {
        Ok(count) => job.finish(count)?,
        Err(err) => return Err(job.explained(err)),
    };
    if is_stdout_taken {
        eprintln!("{line}");
        return Ok(());
    }
    print_line(&line).map_err(named)
}
