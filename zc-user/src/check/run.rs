//! Running checks: one after the other, or several at the same time. Nothing is left running.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{prctl, signal::Signal},
    unistd::Pid,
};

use super::{Attempt, Check, interrupt::Interrupts, started::Started};
use crate::descendants;

/// How checks are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program `zctrace`.
    pub zctrace: PathBuf,
    /// Options of its `run` besides those of each check.
    pub options: Vec<String>,
    /// How many runs may go on at the same time. Counts do not suffer from it; a check of which times or context switches are expected
    /// runs alone, and runs in one [working directory](Check::directory) take turns.
    pub jobs: usize,
    /// Whether commands write to zctrace's own stdout and stderr.
    pub shows_output: bool,
}

/// What came of all runs.
#[derive(Debug)]
pub struct Ran {
    /// The runs of each check; of one that was not begun, none.
    pub attempts: Vec<Vec<Attempt>>,
    /// The signal that ended it.
    pub interrupted: Option<Signal>,
}

/// Called with the number of runs that are done, and of those there are.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Runs the checks, each as often as it says.
pub fn run(checks: &[Check], settings: &Settings, progress: Progress<'_>) -> io::Result<Ran> {
    // What a command leaves behind becomes ours, and can be ended.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    let queue: VecDeque<usize> =
        checks.iter().enumerate().flat_map(|(index, check)| (0..check.repeat.max(1)).map(move |_| index)).collect();
    let runner = Runner {
        checks,
        settings,
        interrupts: Interrupts::hold()?,
        all: queue.len() as u64,
        queue,
        running: Vec::new(),
        attempts: checks.iter().map(|_| Vec::new()).collect(),
        not_ours: descendants::own_children(),
    };
    runner.run(progress)
}

struct Runner<'a> {
    checks: &'a [Check],
    settings: &'a Settings,
    interrupts: Interrupts,
    /// Runs that there are in all.
    all: u64,
    /// The checks whose runs are still to come.
    queue: VecDeque<usize>,
    running: Vec<(usize, Started)>,
    attempts: Vec<Vec<Attempt>>,
    /// Children that this process had before.
    not_ours: Vec<Pid>,
}

impl Runner<'_> {
    fn run(mut self, progress: Progress<'_>) -> io::Result<Ran> {
        let mut interrupted = None;
        loop {
            self.fill();
            let waiting = (self.queue.len() + self.running.len()) as u64;
            progress(self.all - waiting, self.all);
            if self.running.is_empty() {
                break;
            }
            let ended = self.wait()?;
            interrupted = self.interrupts.pending();
            if interrupted.is_some() {
                // Dropped, they are killed.
                self.running.clear();
                break;
            }
            if self.take(&ended) {
                self.sweep();
            }
        }
        self.sweep();
        Ok(Ran { attempts: self.attempts, interrupted })
    }

    /// Starts as many as may run.
    fn fill(&mut self) {
        while self.running.len() < self.settings.jobs.max(1) {
            let Some(index) = self.next().and_then(|place| self.queue.remove(place)) else { return };
            match Started::start(&self.checks[index], self.settings, self.interrupts.before()) {
                Ok(started) => self.running.push((index, started)),
                Err(why) => {
                    let attempt = Attempt { outcome: Err(why), duration: Duration::ZERO, stderr: Vec::new() };
                    self.record(index, attempt);
                }
            }
        }
    }

    /// Which of those in the queue may run beside those that are running.
    fn next(&self) -> Option<usize> {
        let needs_quiet = |index: usize| self.checks[index].needs_quiet();
        let is_quiet = self.running.iter().any(|(index, _)| needs_quiet(*index));
        let directory_is_taken = |index: usize| {
            let directory = self.checks[index].directory.as_ref();
            directory.is_some() && self.running.iter().any(|(other, _)| self.checks[*other].directory.as_ref() == directory)
        };
        // What needs quiet waits for those that run, and others wait for it.
        let place = self.queue.iter().position(|&index| needs_quiet(index) || !directory_is_taken(index))?;
        let may_run = self.running.is_empty() || !(is_quiet || needs_quiet(self.queue[place]));
        may_run.then_some(place)
    }

    /// Waits until a run ends, has written something, has run for too long, or a signal comes. For each run whether it has ended.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let deadline = self.running.iter().filter_map(|(_, started)| started.deadline()).min();
        let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
            // Up to the next millisecond, so that it is over then.
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let runs = || self.running.iter().map(|(_, started)| started);
        let fds = std::iter::once(self.interrupts.as_fd());
        let fds = fds.chain(runs().map(Started::as_fd)).chain(runs().filter_map(Started::written));
        let mut polled: Vec<PollFd> = fds.map(|fd: BorrowedFd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled.iter().skip(1).take(self.running.len()).map(|fd| fd.any().unwrap_or(false)).collect())
    }

    /// Takes the results of those that ended, and ends those that are overdue. Whether there were any.
    fn take(&mut self, ended: &[bool]) -> bool {
        let now = Instant::now();
        let running = std::mem::take(&mut self.running);
        let before = running.len();
        for ((index, mut started), &has_ended) in running.into_iter().zip(ended) {
            started.drain();
            if has_ended {
                self.record(index, started.finish());
            } else if started.deadline().is_some_and(|deadline| deadline <= now) {
                let limit = crate::units::seconds(u64::try_from(self.checks[index].timeout.as_nanos()).unwrap_or(u64::MAX));
                let why = format!("it did not end within {limit}, and was killed with everything below it (timeout)");
                self.record(index, started.give_up(why));
            } else {
                self.running.push((index, started));
            }
        }
        self.running.len() < before
    }

    /// Of a check that cannot be run, once is enough.
    fn record(&mut self, index: usize, attempt: Attempt) {
        if attempt.outcome.is_err() {
            self.queue.retain(|&queued| queued != index);
        }
        self.attempts[index].push(attempt);
    }

    /// Ends what commands left behind.
    fn sweep(&self) {
        let running = self.running.iter().map(|(_, started)| started.pid());
        descendants::kill_all_but(&running.chain(self.not_ours.iter().copied()).collect::<Vec<_>>());
    }
}
