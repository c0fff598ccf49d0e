//! `zctrace check`: runs commands under zctrace and judges their reports.
//!
//! ```text
//! zctrace.toml, options ──▶ Check ──run──▶ Reports ──judge──▶ CheckResult ──render──▶ person, CI
//! ```
//!
//! Only [`run`] has effects; the steps before and after it are pure. Every run is a `zctrace run`
//! process of its own, so that several can run at the same time, and so that a run can be killed
//! with everything below it. Nothing is left running.

mod run_process;

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::Pid,
};
pub use zctrace_core::check::{
    Attempt, Baseline, Check, CheckResult, Content, Difference, DifferenceState, ExpectationResult,
    FileError, Place, PreparedFile, Repeatability, ReportCommand, Results, SCHEMA, Status,
    Tolerance, ToleranceError, Tolerances, Varying, choose, is_time, judge, parse, timeout,
};

pub use run_process::Settings;

use self::run_process::RunProcess;
use crate::{descendants, launch::ENDING_SIGNALS};

/// The outcome of all runs.
#[derive(Debug)]
pub struct RunResults {
    /// The runs of each check; empty for a check that was never started.
    pub attempts: Vec<Vec<Attempt>>,
    /// The signal that ended the series early.
    pub interrupted: Option<Signal>,
}

/// Called with the number of finished runs and the number of all runs.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Runs each check as often as it asks for.
pub fn run(
    checks: &[Check],
    settings: &Settings,
    progress: Progress<'_>,
) -> io::Result<RunResults> {
    // Processes that a command leaves behind become children of this one, which can then kill them.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    let queue: VecDeque<usize> = checks
        .iter()
        .enumerate()
        .flat_map(|(index, check)| (0..check.repeat.max(1)).map(move |_| index))
        .collect();
    let runner = Runner {
        checks,
        settings,
        interrupts: Interrupts::hold()?,
        total: queue.len() as u64,
        queue,
        running: Vec::new(),
        attempts: checks.iter().map(|_| Vec::new()).collect(),
        earlier_children: descendants::own_children(),
    };
    runner.run(progress)
}

struct Runner<'a> {
    checks: &'a [Check],
    settings: &'a Settings,
    interrupts: Interrupts,
    /// The number of all runs.
    total: u64,
    /// The check of each run that has not been started.
    queue: VecDeque<usize>,
    running: Vec<(usize, RunProcess)>,
    attempts: Vec<Vec<Attempt>>,
    /// Children that this process had before. They are left alone.
    earlier_children: Vec<Pid>,
}

impl Runner<'_> {
    fn run(mut self, progress: Progress<'_>) -> io::Result<RunResults> {
        let mut interrupted = None;
        loop {
            self.start_runs();
            let unfinished = (self.queue.len() + self.running.len()) as u64;
            progress(self.total - unfinished, self.total);
            if self.running.is_empty() {
                break;
            }
            let ended = self.wait()?;
            interrupted = self.interrupts.pending();
            if interrupted.is_some() {
                // Dropping a run kills it.
                self.running.clear();
                break;
            }
            if self.collect(&ended) {
                self.kill_leftovers();
            }
        }
        self.kill_leftovers();
        Ok(RunResults {
            attempts: self.attempts,
            interrupted,
        })
    }

    /// Starts as many runs as may go on at the same time.
    fn start_runs(&mut self) {
        while self.running.len() < self.settings.jobs.max(1) {
            let Some(index) = self.next().and_then(|place| self.queue.remove(place)) else {
                return;
            };
            match RunProcess::start(
                &self.checks[index],
                self.settings,
                self.interrupts.mask_before(),
            ) {
                Ok(process) => self.running.push((index, process)),
                Err(why) => {
                    let attempt = Attempt {
                        outcome: Err(why),
                        duration: Duration::ZERO,
                        stderr: Vec::new(),
                    };
                    self.record(index, attempt);
                }
            }
        }
    }

    /// The place in the queue of the next run, if it may start beside those that are running.
    fn next(&self) -> Option<usize> {
        let needs_quiet = |index: usize| self.checks[index].needs_quiet();
        let is_quiet = self.running.iter().any(|(index, _)| needs_quiet(*index));
        let directory_is_taken = |index: usize| {
            let directory = self.checks[index].directory.as_ref();
            directory.is_some()
                && self
                    .running
                    .iter()
                    .any(|(other, _)| self.checks[*other].directory.as_ref() == directory)
        };
        // A check that needs quiet waits until the others have ended, and they wait for it.
        let place = self
            .queue
            .iter()
            .position(|&index| needs_quiet(index) || !directory_is_taken(index))?;
        let may_run = self.running.is_empty() || !(is_quiet || needs_quiet(self.queue[place]));
        may_run.then_some(place)
    }

    /// Waits until a run ends, writes something or reaches its deadline, or a signal arrives.
    /// Returns for each run whether it ended.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let deadline = self
            .running
            .iter()
            .filter_map(|(_, process)| process.deadline())
            .min();
        let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
            // Rounded up to the next millisecond, so that the deadline has passed when poll
            // returns.
            let left =
                deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let runs = || self.running.iter().map(|(_, process)| process);
        let fds = std::iter::once(self.interrupts.as_fd());
        let fds = fds
            .chain(runs().map(RunProcess::as_fd))
            .chain(runs().filter_map(RunProcess::stderr_fd));
        let mut polled: Vec<PollFd> = fds
            .map(|fd: BorrowedFd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled
            .iter()
            .skip(1)
            .take(self.running.len())
            .map(|fd| fd.any().unwrap_or(false))
            .collect())
    }

    /// Collects the results of runs that ended, and kills those past their deadline. Returns
    /// whether there were any of either.
    fn collect(&mut self, ended: &[bool]) -> bool {
        let now = Instant::now();
        let running = std::mem::take(&mut self.running);
        let before = running.len();
        for ((index, mut process), &has_ended) in running.into_iter().zip(ended) {
            process.read_stderr();
            if has_ended {
                self.record(index, process.finish());
            } else if process.deadline().is_some_and(|deadline| deadline <= now) {
                let limit = crate::units::duration(
                    u64::try_from(self.checks[index].timeout.as_nanos()).unwrap_or(u64::MAX),
                );
                let why = format!(
                    "it did not end within {limit}, and was killed with everything below it (timeout)"
                );
                self.record(index, process.kill_for(why));
            } else {
                self.running.push((index, process));
            }
        }
        self.running.len() < before
    }

    /// Records a run. A check that could not be run is not tried again.
    fn record(&mut self, index: usize, attempt: Attempt) {
        if attempt.outcome.is_err() {
            self.queue.retain(|&queued| queued != index);
        }
        self.attempts[index].push(attempt);
    }

    /// Kills what commands left running.
    fn kill_leftovers(&self) {
        let running = self.running.iter().map(|(_, process)| process.pid());
        descendants::kill_all_but(
            &running
                .chain(self.earlier_children.iter().copied())
                .collect::<Vec<_>>(),
        );
    }
}

/// Blocks [`ENDING_SIGNALS`] while it lives, and lets the runner wait for them.
struct Interrupts {
    fd: SignalFd,
    mask_before: SigSet,
}

impl Interrupts {
    fn hold() -> nix::Result<Self> {
        // A signal that was ignored from the start (`nohup`) stays without effect.
        let held: SigSet = ENDING_SIGNALS
            .into_iter()
            .filter(|&signal| !is_ignored(signal))
            .collect();
        let mut mask_before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut mask_before))?;
        Ok(Self {
            fd: SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            mask_before,
        })
    }

    /// The signal mask for children.
    fn mask_before(&self) -> SigSet {
        self.mask_before
    }

    /// A signal that has arrived.
    fn pending(&self) -> Option<Signal> {
        let info = self.fd.read_signal().ok().flatten()?;
        i32::try_from(info.ssi_signo)
            .ok()
            .and_then(|number| Signal::try_from(number).ok())
    }
}

/// Whether this process ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it in.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &raw mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.mask_before), None);
    }
}
