//! `zctrace check`: runs commands under zctrace and judges their reports.
//!
//! ```text
//! zctrace.toml, options ──▶ Check ──run──▶ Reports ──judge──▶ CheckResult ──render──▶ person, CI
//! ```
//!
//! Only [`run`] has effects; the steps before and after it are pure. Workers do the runs: each is a
//! process, so that several can run at the same time, and so that a run can be killed with
//! everything below it. Nothing is left running.

mod files;
mod job;
mod run_process;
mod work;
mod worker;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    time::Duration,
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, Signal},
    },
    unistd::Pid,
};
use tokio::task::JoinSet;
pub use zctrace_core::check::{
    Baseline, Check, CheckProfile, CheckResult, ControlResult, Difference, DifferenceState,
    ExpectationResult, FileError, LockFile, NoReport, PlaceInFile, PreparedContent, PreparedFile,
    Repeatability, Results, RunAttempt, SCHEMA, Status, Tolerance, ToleranceError, Tolerances,
    Varying, choose_checks, is_time, judge_check, known_figures, parse, parse_timeout,
};

pub use run_process::CheckSettings;
pub use work::work;
pub use worker::WORKER;

use self::{
    run_process::{EndedRun, RunProcess},
    worker::Worker,
};
use crate::{
    descendants,
    launch::{OnTracerExit, Received, SignalError, Signals},
};

/// The outcome of all runs.
#[derive(Debug)]
pub struct RunResults {
    /// The runs of each check; empty for a check that was never started.
    pub attempts: Vec<Vec<RunAttempt>>,
    /// The run of each check's control command; `None`: it has none, or was never started.
    pub controls: Vec<Option<RunAttempt>>,
    /// The signal that ended the series early.
    pub interrupted: Option<Signal>,
}

/// Called with the number of finished runs and the number of all runs.
pub type RunProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Runs each check as often as it asks for, and its control command once.
pub fn run(
    checks: &[Check],
    settings: &CheckSettings,
    progress: RunProgress<'_>,
) -> io::Result<RunResults> {
    let controls = checks.iter().filter_map(Check::of_control);
    let all: Vec<Check> = checks.iter().cloned().chain(controls).collect();
    let mut results = run_all(&all, settings, progress)?;
    let mut controls = results.attempts.split_off(checks.len()).into_iter();
    let control = |check: &Check| {
        let has_one = check.control.is_some();
        has_one.then(|| controls.next()?.pop()).flatten()
    };
    results.controls = checks.iter().map(control).collect();
    Ok(results)
}

/// Runs each of these as often as it asks for.
fn run_all(
    checks: &[Check],
    settings: &CheckSettings,
    progress: RunProgress<'_>,
) -> io::Result<RunResults> {
    // Processes that a command leaves behind become children of this one, which can then kill them.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    let mask_before = SigSet::thread_get_mask()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let results = runtime.block_on(async {
        let queue: VecDeque<usize> = checks
            .iter()
            .enumerate()
            .flat_map(|(index, check)| (0..check.repeat.max(1)).map(move |_| index))
            .collect();
        let runner = Runner {
            checks,
            settings,
            signals: Signals::hold(OnTracerExit::Kill)?,
            mask_before,
            total: queue.len() as u64,
            queue,
            running: Vec::new(),
            idle: Vec::new(),
            ends: JoinSet::new(),
            attempts: checks.iter().map(|_| Vec::new()).collect(),
            earlier_children: descendants::own_children(),
        };
        runner.run(progress).await
    });
    // A second signal must not end an interrupted series before its results are shown.
    if !matches!(&results, Ok(results) if results.interrupted.is_some()) {
        mask_before.thread_set_mask()?;
    }
    results
}

struct Runner<'a> {
    checks: &'a [Check],
    settings: &'a CheckSettings,
    signals: Signals,
    /// The signal mask for children.
    mask_before: SigSet,
    /// The number of all runs.
    total: u64,
    /// The check of each run that has not been started.
    queue: VecDeque<usize>,
    /// The check of each run in progress, and the process of its worker.
    running: Vec<(usize, Pid)>,
    /// The workers that wait.
    idle: Vec<Worker>,
    /// Where the runs in progress end.
    ends: JoinSet<EndedRun>,
    attempts: Vec<Vec<RunAttempt>>,
    /// Children that this process had before. They are left alone.
    earlier_children: Vec<Pid>,
}

impl Runner<'_> {
    async fn run(mut self, progress: RunProgress<'_>) -> io::Result<RunResults> {
        let mut interrupted = None;
        loop {
            self.start_runs();
            let unfinished = (self.queue.len() + self.running.len()) as u64;
            progress(self.total - unfinished, self.total);
            if self.running.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                signal = self.signals.next() => interrupted = interrupting(signal)?,
                Some(end) = self.ends.join_next() => {
                    self.collect(end.map_err(io::Error::other)?).await;
                }
            }
            if interrupted.is_some() {
                // Dropping a run kills it.
                self.ends.shutdown().await;
                self.running.clear();
                break;
            }
        }
        self.idle.clear();
        self.kill_leftovers();
        Ok(RunResults {
            attempts: self.attempts,
            controls: Vec::new(),
            interrupted,
        })
    }

    /// Starts as many runs as may go on at the same time.
    fn start_runs(&mut self) {
        while self.running.len() < self.settings.jobs.max(1) {
            let Some(index) = self.next().and_then(|place| self.queue.remove(place)) else {
                return;
            };
            let (idle, settings, mask) = (self.idle_worker(), self.settings, self.mask_before);
            let new = || Worker::start(&settings.zctrace, settings.shows_output, mask);
            let worker = || idle.map_or_else(new, Ok);
            match RunProcess::start(&self.checks[index], settings, worker) {
                Ok(process) => {
                    self.running.push((index, process.pid()));
                    self.ends.spawn(process.end());
                }
                Err(why) => {
                    let attempt = RunAttempt {
                        outcome: Err(why),
                        files: BTreeSet::new(),
                        duration: Duration::ZERO,
                        stderr: Vec::new(),
                    };
                    self.record(index, attempt);
                }
            }
        }
    }

    /// A worker that waits for a job. One that somebody has killed meanwhile is left out.
    fn idle_worker(&mut self) -> Option<Worker> {
        self.idle.retain(|worker| !worker.is_gone());
        self.idle.pop()
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

    /// Records a run that ended, and kills what it left running. If it has a report, the next run
    /// begins before that is read, unless it needs quiet.
    async fn collect(&mut self, ended: EndedRun) {
        self.idle.extend(ended.worker);
        let place = self.running.iter().position(|&(_, pid)| pid == ended.pid);
        let ended_check = place.map(|place| self.running.swap_remove(place).0);
        self.kill_leftovers();
        let Some(index) = ended_check else { return };
        let Some(result) = ended.result else {
            self.queue.push_front(index);
            return;
        };
        let next = self.next().map(|place| self.queue[place]);
        let needs_quiet = next.is_some_and(|next| self.checks[next].needs_quiet());
        if result.has_report() && !needs_quiet {
            self.start_runs();
            tokio::task::yield_now().await;
        }
        self.record(index, result.read());
    }

    /// Records a run. A check without a result is not tried again.
    fn record(&mut self, index: usize, attempt: RunAttempt) {
        if attempt.outcome.is_err() {
            self.queue.retain(|&queued| queued != index);
        }
        self.attempts[index].push(attempt);
    }

    /// Kills what commands left running.
    fn kill_leftovers(&self) {
        let running = self.running.iter().map(|&(_, pid)| pid);
        let kept: Vec<Pid> = running
            .chain(self.idle.iter().map(Worker::pid))
            .chain(self.earlier_children.iter().copied())
            .collect();
        descendants::kill_all_but(&kept);
    }
}

/// The signal that ends the series, if this one does. One that was ignored from the start (`nohup`)
/// stays without effect.
fn interrupting(signal: Result<Received, SignalError>) -> io::Result<Option<Signal>> {
    match signal {
        Err(SignalError::Interrupted(signal)) => {
            Ok(Some(signal).filter(|&signal| !is_ignored(signal)))
        }
        Err(SignalError::Io(error)) => Err(error),
        Ok(_) => Ok(None),
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
