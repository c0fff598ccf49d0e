//! What a [worker](super::WORKER) does.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
};

use nix::poll::{PollFd, PollFlags, poll};
use zctrace_core::check::NoReport;

use super::job::{Answer, Job, from_line, to_line};
use crate::{
    backend::{self, KernelTracer, RunError},
    descendants,
    launch::is_signal_pending,
    report::Report,
};

/// Does the jobs that come on stdin, until there are no more. Commands have an empty stdin.
pub fn work() -> io::Result<()> {
    let mut answers = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut jobs = BufReader::new(answers.try_clone()?);
    rustix::stdio::dup2_stdin(File::options().read(true).write(true).open("/dev/null")?)?;
    let mut tracer = KernelTracer::for_many_runs();
    loop {
        detach_if_idle(&mut tracer, &answers)?;
        let mut line = Vec::new();
        if jobs.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let report = run_job(&mut tracer, from_line(&line)?);
        // What it has left running.
        descendants::kill_all_but(&[]);
        let answer = Answer {
            report: report.map_err(|error| no_report(&error)),
            // A signal that the command has sent to its process group. The next command must not
            // get it.
            goes_on: !is_signal_pending(),
        };
        answers.write_all(&to_line(&answer)?)?;
    }
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

fn no_report(error: &RunError) -> NoReport {
    // With all its causes.
    let message = format!("{error:?}");
    match error {
        RunError::Launch(_) => NoReport::NotStarted(message),
        _ => NoReport::Untraced(message),
    }
}

fn run_job(tracer: &mut KernelTracer, job: Job) -> Result<Report, RunError> {
    let details = job.details();
    let (backend, options) = job.into_options();
    let trace = backend::run_with(tracer, backend, &options)?;
    Ok(Report::from_trace(&trace, &details))
}
