//! Measures the commands: times each of them untraced as often as planned, then runs it once under
//! a backend.

use std::{ffi::OsString, io, time::Duration};

use nix::sys::prctl;
use tokio::runtime::Runtime;

use zctrace_core::compare::{
    Measured, OnFailure, Order, Plan, Series, Shell, Subject, Timing, how_it_failed,
};

use super::{error::CompareError, timed_run};
use crate::{
    backend::{self, Listed, Recorded, RunOptions, Until},
    descendants,
    launch::{LaunchOptions, OnTracerExit, Signals, Streams, find_program},
    privileges::AfterAttach,
    trace::{Exit, Trace},
};

/// Receives how far the measurement is.
pub trait Progress {
    /// A phase of `steps` steps begins.
    fn begin(&mut self, what: &str, steps: u64);
    /// A step is done; the phase now has `steps` steps in all.
    fn step(&mut self, steps: u64);
    /// The measurement is over.
    fn end(&mut self);
}

/// How often the shell is timed with an empty command.
const SHELL_RUNS: u64 = 50;

/// Carries out the plan. If that fails, nothing is left running.
pub fn measure(plan: &Plan, progress: &mut dyn Progress) -> Result<Measured, CompareError> {
    // Processes that a command leaves behind become children of this one, where they can be found.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    use_one_heap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let signals = runtime.block_on(async { Signals::hold(OnTracerExit::Kill) })?;
    let mut session = Session {
        plan,
        progress,
        runtime,
        signals,
    };
    let measured = session.measure();
    session.progress.end();
    if measured.is_err() {
        descendants::kill_all_but(&[]);
    }
    measured
}

struct Session<'a> {
    plan: &'a Plan,
    progress: &'a mut dyn Progress,
    runtime: Runtime,
    signals: Signals,
}

/// The measurements of one command so far.
#[derive(Default)]
struct Measurements {
    timings: Vec<Timing>,
    trace: Option<Trace>,
}

impl Session<'_> {
    fn measure(&mut self) -> Result<Measured, CompareError> {
        for subject in &self.plan.subjects {
            find_program(&subject.words, &LaunchOptions::default())?;
        }
        self.try_backend()?;
        let shell = if self.plan.shell == Shell::None {
            Vec::new()
        } else {
            self.time_shell()?
        };
        let all: Vec<usize> = (0..self.plan.subjects.len()).collect();
        let mut measurements: Vec<Measurements> =
            all.iter().map(|_| Measurements::default()).collect();
        let group_size = if self.plan.order == Order::Interleaved {
            all.len()
        } else {
            1
        };
        for group in all.chunks(group_size) {
            self.measure_group(group, &mut measurements)?;
        }
        let series = measurements
            .into_iter()
            .filter_map(|Measurements { timings, trace }| {
                Some(Series {
                    timings,
                    trace: trace?,
                })
            });
        Ok(Measured {
            shell,
            series: series.collect(),
        })
    }

    /// Finds out whether anything can be traced here, before minutes go into timing.
    fn try_backend(&self) -> Result<(), CompareError> {
        let launch = self.launch_options(timed_run::hook_streams(self.plan)?);
        self.trace(self.plan.shell.script(":"), launch).map(drop)
    }

    fn time_shell(&mut self) -> Result<Vec<Timing>, CompareError> {
        self.progress.begin("timing the shell", SHELL_RUNS);
        let words = self.plan.shell.script("");
        let mut timings = Vec::new();
        for _ in 0..SHELL_RUNS {
            let timing = self.time(&words)?;
            if let Some(how) = how_it_failed(timing.exit) {
                return Err(CompareError::ShellFailed { how });
            }
            timings.push(timing);
            self.progress.step(SHELL_RUNS);
        }
        Ok(timings)
    }

    /// Measures the commands of a group, which take turns.
    fn measure_group(
        &mut self,
        group: &[usize],
        measurements: &mut [Measurements],
    ) -> Result<(), CompareError> {
        let plan = self.plan;
        for &index in group {
            self.hook("--setup", plan.subjects[index].hooks.setup.as_ref())?;
        }
        self.warm_up(group)?;
        self.time_group(group, measurements)?;
        self.progress.begin("tracing", group.len() as u64);
        for &index in group {
            measurements[index].trace = Some(self.trace_subject(&plan.subjects[index])?);
            self.progress.step(group.len() as u64);
        }
        for &index in group {
            self.hook("--cleanup", plan.subjects[index].hooks.cleanup.as_ref())?;
        }
        Ok(())
    }

    fn warm_up(&mut self, group: &[usize]) -> Result<(), CompareError> {
        let (plan, steps) = (self.plan, self.plan.warmup * group.len() as u64);
        if steps > 0 {
            self.progress.begin("warming up", steps);
        }
        for round in 1..=plan.warmup {
            for &index in group {
                self.time_subject(&plan.subjects[index], || format!("warm-up run {round}"))?;
                self.progress.step(steps);
            }
        }
        Ok(())
    }

    fn time_group(
        &mut self,
        group: &[usize],
        measurements: &mut [Measurements],
    ) -> Result<(), CompareError> {
        let plan = self.plan;
        let mut schedule = Schedule::new(group.len());
        self.progress
            .begin("timing", plan.runs.min * group.len() as u64);
        while let Some(turn) = schedule.next() {
            let index = group[turn];
            let timings = &mut measurements[index].timings;
            let (timing, hooks) = self.time_subject(&plan.subjects[index], || {
                format!("run {}", timings.len() + 1)
            })?;
            if timings.is_empty() {
                schedule.want(turn, plan.runs.wanted(timing.wall + hooks));
            }
            timings.push(timing);
            self.progress.step(schedule.total());
        }
        Ok(())
    }

    /// Times one run with its --prepare and --conclude commands. Returns also how long these two
    /// took.
    fn time_subject(
        &mut self,
        subject: &Subject,
        run: impl Fn() -> String,
    ) -> Result<(Timing, Duration), CompareError> {
        let mut hooks = self.hook("--prepare", subject.hooks.prepare.as_ref())?;
        let timing = self.time(&subject.words)?;
        self.check(timing.exit, &subject.name, run)?;
        hooks += self.hook("--conclude", subject.hooks.conclude.as_ref())?;
        Ok((timing, hooks))
    }

    fn time(&self, words: &[OsString]) -> Result<Timing, CompareError> {
        let launch = self.launch_options(timed_run::streams(self.plan)?);
        self.runtime
            .block_on(timed_run::time(words, &launch, &self.signals))
    }

    fn trace_subject(&mut self, subject: &Subject) -> Result<Trace, CompareError> {
        self.hook("--prepare", subject.hooks.prepare.as_ref())?;
        let trace = self.trace(
            subject.words.clone(),
            self.launch_options(timed_run::streams(self.plan)?),
        )?;
        self.check(trace.exit.unwrap_or(Exit::Code(0)), &subject.name, || {
            "the traced run".to_owned()
        })?;
        self.hook("--conclude", subject.hooks.conclude.as_ref())?;
        Ok(trace)
    }

    fn trace(&self, command: Vec<OsString>, launch: LaunchOptions) -> Result<Trace, CompareError> {
        let tracing = &self.plan.tracing;
        let options = RunOptions {
            command,
            selection: tracing.selection.clone(),
            until: Until::RootEnds,
            launch,
            limits: tracing.limits,
            listed: Listed::All,
            recorded: Recorded::ALL,
            privileges: AfterAttach::Lowered,
            on_interim_trace: None,
            on_progress: None,
            timeout: None,
            verbose: tracing.verbose,
        };
        let trace = backend::run(tracing.backend, &options)?;
        give_free_memory_back();
        self.signals.pending()?;
        Ok(trace)
    }

    /// Runs the command of this option in a shell, if there is one. Returns how long it took.
    fn hook(&self, option: &'static str, line: Option<&String>) -> Result<Duration, CompareError> {
        let Some(line) = line else {
            return Ok(Duration::ZERO);
        };
        let launch = self.launch_options(timed_run::hook_streams(self.plan)?);
        let words = self.plan.shell.script(line);
        let timing = self
            .runtime
            .block_on(timed_run::time(&words, &launch, &self.signals))?;
        match how_it_failed(timing.exit) {
            None => Ok(timing.wall),
            Some(how) => Err(CompareError::HookFailed {
                option,
                command: line.clone(),
                how,
            }),
        }
    }

    fn launch_options(&self, streams: Streams) -> LaunchOptions {
        LaunchOptions {
            identity: self.plan.identity,
            on_tracer_exit: OnTracerExit::Kill,
            streams,
            ..LaunchOptions::default()
        }
    }

    fn check(&self, exit: Exit, name: &str, run: impl Fn() -> String) -> Result<(), CompareError> {
        match how_it_failed(exit).filter(|_| self.plan.on_failure == OnFailure::Stop) {
            None => Ok(()),
            Some(how) => Err(CompareError::Failed {
                name: name.to_owned(),
                how,
                run: run(),
            }),
        }
    }
}

/// Whose turn it is. Commands take turns; one that needs more runs gets its turns spread evenly
/// among those of the others.
#[derive(Debug)]
struct Schedule {
    runs: Vec<RunCount>,
}

#[derive(Debug, Clone, Copy)]
struct RunCount {
    done: u64,
    wanted: u64,
}

impl Schedule {
    /// How often a command runs is known after its first run; until then it counts as one run.
    fn new(commands: usize) -> Self {
        Self {
            runs: vec![RunCount { done: 0, wanted: 1 }; commands],
        }
    }

    /// Sets how often a command runs in all.
    fn want(&mut self, command: usize, runs: u64) {
        self.runs[command].wanted = runs;
    }

    /// The command whose turn it is: of the unfinished ones, the first with the smallest share of
    /// its runs done. `None` at the end.
    fn next(&mut self) -> Option<usize> {
        let unfinished = self
            .runs
            .iter()
            .enumerate()
            .filter(|(_, runs)| runs.done < runs.wanted);
        // Compares the fractions done/wanted without a division.
        let share = |a: &RunCount, b: &RunCount| {
            (u128::from(a.done) * u128::from(b.wanted))
                .cmp(&(u128::from(b.done) * u128::from(a.wanted)))
        };
        let (command, _) = unfinished.min_by(|(_, a), (_, b)| share(a, b))?;
        self.runs[command].done += 1;
        Some(command)
    }

    /// The number of all runs.
    fn total(&self) -> u64 {
        self.runs.iter().map(|runs| runs.wanted).sum()
    }
}

/// Makes all threads allocate from one heap, so that its free memory can be given back. Call it
/// before there are threads.
///
/// zctrace's own memory limits what can be measured: every command starts as a fork of this
/// process, and the kernel's peak counts that fork. A command with a smaller peak has an unknown
/// one.
fn use_one_heap() {
    // SAFETY: sets a number within malloc.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Gives free memory back to the kernel: a backend needs much of it for a short time.
fn give_free_memory_back() {
    // SAFETY: frees only memory that is not in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[u64]) -> Vec<usize> {
        let mut schedule = Schedule::new(wanted.len());
        let mut order = Vec::new();
        while let Some(command) = schedule.next() {
            schedule.want(command, wanted[command]);
            order.push(command);
        }
        assert_eq!(schedule.total(), order.len() as u64);
        order
    }

    #[test]
    fn commands_with_equally_many_runs_alternate() {
        assert_eq!(order(&[3, 3]), [0, 1, 0, 1, 0, 1]);
        assert_eq!(order(&[1, 1, 1]), [0, 1, 2]);
    }

    #[test]
    fn fewer_runs_are_spread_evenly_among_more() {
        assert_eq!(order(&[2, 6]), [0, 1, 1, 1, 0, 1, 1, 1]);
    }
}
