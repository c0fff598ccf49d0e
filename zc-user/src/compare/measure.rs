//! Measuring: every command is timed untraced as often as planned, then run once more under a backend.

use std::{ffi::OsString, io, time::Duration};

use nix::sys::prctl;
use tokio::runtime::Runtime;

use super::{
    CompareError, Measured, OnFailure, Order, Plan, Series, Shell, Subject, Timing, footprint, hooks, how_it_failed,
    schedule::Schedule, streams, timed,
};
use crate::{
    backend::{self, RunOptions, Until},
    descendants,
    launch::{LaunchOptions, OnTracerExit, Signals, Streams, find_program},
    privileges::AfterAttach,
    trace::{Exit, Trace},
};

/// Whoever wants to know how far the measuring is.
pub trait Progress {
    /// Something of so many steps begins.
    fn begin(&mut self, what: &str, steps: u64);
    /// A step was done; there are so many in all now.
    fn step(&mut self, steps: u64);
    /// It is over.
    fn end(&mut self);
}

/// How often the shell is started to learn what that takes.
const SHELL_RUNS: u64 = 50;

/// Measures as planned. If that fails, nothing is left running.
pub fn measure(plan: &Plan, progress: &mut dyn Progress) -> Result<Measured, CompareError> {
    // Whatever a command leaves behind can be found then.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    footprint::keep_small();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = runtime.block_on(async { Signals::hold(OnTracerExit::Kill) })?;
    let mut session = Session { plan, progress, runtime, signals };
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

/// What was measured of one command so far.
#[derive(Default)]
struct Partial {
    timings: Vec<Timing>,
    trace: Option<Trace>,
}

impl Session<'_> {
    fn measure(&mut self) -> Result<Measured, CompareError> {
        for subject in &self.plan.subjects {
            find_program(&subject.words, &LaunchOptions::default())?;
        }
        self.try_backend()?;
        let shell = if self.plan.shell == Shell::None { Vec::new() } else { self.time_shell()? };
        let all: Vec<usize> = (0..self.plan.subjects.len()).collect();
        let mut partial: Vec<Partial> = all.iter().map(|_| Partial::default()).collect();
        let group_size = if self.plan.order == Order::Interleaved { all.len() } else { 1 };
        for group in all.chunks(group_size) {
            self.measure_group(group, &mut partial)?;
        }
        let series = partial.into_iter().filter_map(|Partial { timings, trace }| Some(Series { timings, trace: trace? }));
        Ok(Measured { shell, series: series.collect() })
    }

    /// That nothing can be traced here is better known before the commands are timed for minutes.
    fn try_backend(&self) -> Result<(), CompareError> {
        let launch = self.launch_options(streams::of_hooks(self.plan)?);
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

    /// Everything that belongs to the commands of a group, which run in turn.
    fn measure_group(&mut self, group: &[usize], partial: &mut [Partial]) -> Result<(), CompareError> {
        let plan = self.plan;
        for &index in group {
            self.hook("--setup", plan.subjects[index].hooks.setup.as_ref())?;
        }
        self.warm_up(group)?;
        self.time_group(group, partial)?;
        self.progress.begin("tracing", group.len() as u64);
        for &index in group {
            partial[index].trace = Some(self.trace_subject(&plan.subjects[index])?);
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

    fn time_group(&mut self, group: &[usize], partial: &mut [Partial]) -> Result<(), CompareError> {
        let plan = self.plan;
        let mut schedule = Schedule::new(group.len());
        self.progress.begin("timing", plan.runs.min * group.len() as u64);
        while let Some(turn) = schedule.next() {
            let index = group[turn];
            let timings = &mut partial[index].timings;
            let (timing, around) = self.time_subject(&plan.subjects[index], || format!("run {}", timings.len() + 1))?;
            if timings.is_empty() {
                schedule.want(turn, plan.runs.wanted(timing.wall + around));
            }
            timings.push(timing);
            self.progress.step(schedule.total());
        }
        Ok(())
    }

    /// One run with what belongs to it, and how long the latter took.
    fn time_subject(&mut self, subject: &Subject, run: impl Fn() -> String) -> Result<(Timing, Duration), CompareError> {
        let mut around = self.hook("--prepare", subject.hooks.prepare.as_ref())?;
        let timing = self.time(&subject.words)?;
        self.check(timing.exit, &subject.name, run)?;
        around += self.hook("--conclude", subject.hooks.conclude.as_ref())?;
        Ok((timing, around))
    }

    fn time(&self, words: &[OsString]) -> Result<Timing, CompareError> {
        let launch = self.launch_options(streams::open(self.plan)?);
        self.runtime.block_on(timed::time(words, &launch, &self.signals))
    }

    fn trace_subject(&mut self, subject: &Subject) -> Result<Trace, CompareError> {
        self.hook("--prepare", subject.hooks.prepare.as_ref())?;
        let trace = self.trace(subject.words.clone(), self.launch_options(streams::open(self.plan)?))?;
        self.check(trace.exit.unwrap_or(Exit::Code(0)), &subject.name, || "the traced run".to_owned())?;
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
            privileges: AfterAttach::Lowered,
            so_far: None,
            timeout: None,
            verbose: tracing.verbose,
        };
        let trace = backend::run(tracing.backend, &options)?;
        footprint::give_back();
        self.signals.pending()?;
        Ok(trace)
    }

    /// How long it took, if there was anything to run.
    fn hook(&self, option: &'static str, line: Option<&String>) -> Result<Duration, CompareError> {
        let timing = self.runtime.block_on(hooks::run(option, line, self.plan, &self.signals))?;
        Ok(timing.map_or(Duration::ZERO, |timing| timing.wall))
    }

    fn launch_options(&self, streams: Streams) -> LaunchOptions {
        LaunchOptions { identity: self.plan.identity, on_tracer_exit: OnTracerExit::Kill, streams, ..LaunchOptions::default() }
    }

    fn check(&self, exit: Exit, name: &str, run: impl Fn() -> String) -> Result<(), CompareError> {
        match how_it_failed(exit).filter(|_| self.plan.on_failure == OnFailure::Stop) {
            None => Ok(()),
            Some(how) => Err(CompareError::Failed { name: name.to_owned(), how, run: run() }),
        }
    }
}
