//! A worker of `zctrace check`: see [`WORKER`](zctrace::check::WORKER).

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::AsFd as _,
        unix::{ffi::OsStringExt as _, net::UnixStream},
    },
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::FromArgMatches as _;
use nix::poll::{PollFd, PollFlags, poll};
use zctrace::{backend::KernelTracer, launch::is_signal_pending, privileges::AfterAttach};
use zctrace_capture::descendants;

use super::run::run_with;
use crate::{
    cli::{Action, Cli},
    say,
};

/// Does the jobs that come on stdin, until there are no more. Commands have an empty stdin.
pub fn work() -> anyhow::Result<ExitCode> {
    let mut jobs = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::options().read(true).write(true).open("/dev/null")?)?;
    let mut tracer = KernelTracer::for_many_runs();
    // To describe the whole command line takes a quarter of a millisecond.
    let mut command_line = Cli::command();
    loop {
        detach_if_idle(&mut tracer, &jobs)?;
        let Some(job) = next_job(&mut jobs)? else {
            break;
        };
        if let Err(error) = run_job(&mut tracer, &mut command_line, job) {
            say(format_args!("{error:#}"));
        }
        // What it has left running.
        descendants::kill_all_but(&[]);
        // One that the command has sent to its process group. The next command must not get it.
        jobs.write_all(&[u8::from(!is_signal_pending())])?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits a little for the next job, and detaches the programs if there is none: all calls of the
/// machine run them.
fn detach_if_idle(tracer: &mut KernelTracer, jobs: &UnixStream) -> io::Result<()> {
    const STAY_ATTACHED_MS: u8 = 100;
    let mut waiting = [PollFd::new(jobs.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waiting, STAY_ATTACHED_MS)? == 0 {
        tracer.detach();
    }
    Ok(())
}

/// The words of the next job.
fn next_job(jobs: &mut UnixStream) -> io::Result<Option<Vec<OsString>>> {
    let mut length = [0; 4];
    if let Err(error) = jobs.read_exact(&mut length) {
        let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
        return if is_end { Ok(None) } else { Err(error) };
    }
    let mut words = vec![0; u32::from_ne_bytes(length) as usize];
    jobs.read_exact(&mut words)?;
    let words = words.split_inclusive(|&byte| byte == 0);
    Ok(Some(
        words
            .map(|word| OsString::from_vec(word[..word.len() - 1].to_vec()))
            .collect(),
    ))
}

fn run_job(
    tracer: &mut KernelTracer,
    command_line: &mut clap::Command,
    job: Vec<OsString>,
) -> anyhow::Result<()> {
    let mut words = job.into_iter();
    let directory = words.next().unwrap_or_default();
    env::set_current_dir(&directory)
        .with_context(|| format!("cannot enter '{}'", directory.display()))?;
    let matches = command_line.try_get_matches_from_mut(words)?;
    let Action::Run(args) = Cli::from_arg_matches(&matches)?.into_action() else {
        bail!("a worker only runs commands");
    };
    run_with(tracer, &args, AfterAttach::Lowered).map(drop)
}
