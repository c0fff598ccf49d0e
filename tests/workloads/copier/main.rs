//! `copier`: copies from one end to another by a chosen interface, so that a tracer can show what
//! that interface does.
//!
//! `copier CASE --from SPEC --to SPEC` prints one line at the end, `copied N bytes`, with one call:
//! to stdout, or to stderr if the copy itself goes to stdout. `copier sink ADDRESS` and `copier
//! feed ADDRESS` are the other sides of sockets.

mod arguments;
mod cases;
mod ends;
mod interfaces;
mod job;
mod library_copies;
mod peer;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use zc_tests::print_line;

use crate::{
    arguments::{CopierArguments, CopierRole, CopyArguments},
    ends::EndSpec,
    job::CopyJob,
};

fn main() -> ExitCode {
    match run(CopierArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("copier: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lists the cases, plays the other side, or copies.
fn run(arguments: CopierArguments) -> Result<()> {
    match arguments.role {
        Some(CopierRole::Sink { address, keep }) => peer::sink(&address, keep),
        Some(CopierRole::Feed { address, from }) => peer::feed(&address, &from),
        Some(CopierRole::Relay) => peer::relay(),
        None if arguments.list => Ok(print_line(&cases::list())?),
        None => copy(arguments.copy.context("nothing to do; see --help")?),
    }
}

/// Copies, and prints how much.
fn copy(asked: CopyArguments) -> Result<()> {
    let copy = cases::find(&asked.case)?;
    let is_stdout_taken = asked.to == EndSpec::Standard;
    let mut job = CopyJob::new(asked);
    let line = format!("copied {} bytes", copy(&mut job)?);
    job.finish()?;
    if is_stdout_taken {
        eprintln!("{line}");
        return Ok(());
    }
    Ok(print_line(&line)?)
}
