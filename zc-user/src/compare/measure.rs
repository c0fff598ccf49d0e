//! Measures the commands: times each of them untraced as often as planned, then runs it once under
//! a backend.

use std::{ffi::OsString, io, time::Duration};

use nix::sys::prctl;
use tokio::runtime::Runtime;

use zctrace_core::compare::{Plan, Series, Subject, Timing, how_it_failed, shell_script};

use super::{error::CompareError, timed_run};
use crate::{
    backend::{self, KernelTracer, RunOptions},
    command::plain_run,
    descendants,
    launch::{LaunchOptions, OnTracerExit, Signals, Stream, Streams, find_program},
    trace::{Exit, Trace},
};

/// Called with the phase of the measurement, the steps of it that are done, and all its steps.
pub type PhaseProgress<'a> = &'a mut dyn FnMut(&'static str, u64, u64);

/// Carries out the plan. If that fails, nothing is left running.
pub fn measure(plan: &Plan, progress: PhaseProgress<'_>) -> Result<Vec<Series>, CompareError> {
    // Processes that a command leaves behind become children of this one, where they can be found.
    prctl::set_child_subreaper(true).map_err(io::Error::from)?;
    use_one_heap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let signals = runtime.block_on(async { Signals::hold(OnTracerExit::Kill) })?;
    let mut session = MeasuringSession {
        plan,
        progress,
        runtime,
        signals,
        set_up: 0,
    };
    let end_all = |_: &CompareError| descendants::kill_all_but(&[]);
    let measured = session.measure().inspect_err(end_all);
    // What was set up is cleaned up, whatever failed.
    let cleaned_up = session.clean_up().inspect_err(end_all);
    measured.and_then(|series| cleaned_up.map(|()| series))
}

struct MeasuringSession<'a> {
    plan: &'a Plan,
    progress: PhaseProgress<'a>,
    runtime: Runtime,
    signals: Signals,
    /// For how many of the commands `--setup` was started.
    set_up: usize,
}

impl MeasuringSession<'_> {
    fn measure(&mut self) -> Result<Vec<Series>, CompareError> {
        for subject in &self.plan.subjects {
            find_program(&subject.words, &LaunchOptions::default())?;
        }
        self.try_backend()?;
        self.set_up()?;
        self.warm_up()?;
        let timings = self.time_all()?;
        let traces = self.trace_all()?;
        let series = timings
            .into_iter()
            .zip(traces)
            .map(|(timings, trace)| Series { timings, trace });
        Ok(series.collect())
    }

    /// Finds out whether anything can be traced here, before minutes go into timing.
    fn try_backend(&self) -> Result<(), CompareError> {
        self.trace(&mut KernelTracer::default(), shell_script(":"))
            .map(drop)
    }

    /// Runs what sets the commands up.
    fn set_up(&mut self) -> Result<(), CompareError> {
        for subject in &self.plan.subjects {
            self.set_up += 1;
            self.run_line("--setup", subject.setup.as_deref())?;
        }
        Ok(())
    }

    /// Runs what cleans up after each command that was set up.
    fn clean_up(&self) -> Result<(), CompareError> {
        let mut set_up = self.plan.subjects.iter().take(self.set_up);
        set_up.try_for_each(|subject| {
            self.run_line("--cleanup", subject.cleanup.as_deref())
                .map(drop)
        })
    }

    fn warm_up(&mut self) -> Result<(), CompareError> {
        let (plan, steps) = (
            self.plan,
            self.plan.warmup * self.plan.subjects.len() as u64,
        );
        let mut done = 0;
        for round in 1..=plan.warmup {
            for subject in &plan.subjects {
                (self.progress)("warming up", done, steps);
                self.time_subject(subject, || format!("warm-up run {round}"))?;
                done += 1;
            }
        }
        Ok(())
    }

    /// Times the commands, which take turns.
    fn time_all(&mut self) -> Result<Vec<Vec<Timing>>, CompareError> {
        let plan = self.plan;
        let mut all: Vec<Vec<Timing>> = plan.subjects.iter().map(|_| Vec::new()).collect();
        // How often each runs is known after its first run; until then it counts as one run.
        let (mut done, mut wanted) = (vec![0; all.len()], vec![1; all.len()]);
        while let Some(turn) = next_turn(&done, &wanted) {
            (self.progress)("timing", done.iter().sum(), wanted.iter().sum());
            let timings = &mut all[turn];
            let (timing, preparation) = self.time_subject(&plan.subjects[turn], || {
                format!("run {}", timings.len() + 1)
            })?;
            if timings.is_empty() {
                wanted[turn] = plan.runs.wanted_runs(timing.wall + preparation);
            }
            timings.push(timing);
            done[turn] += 1;
        }
        Ok(all)
    }

    fn trace_all(&mut self) -> Result<Vec<Trace>, CompareError> {
        let plan = self.plan;
        let steps = plan.subjects.len() as u64;
        // Not before: the commands that are timed are forks of a process without maps.
        let mut tracer = KernelTracer::for_many_runs();
        let mut recorded = Vec::new();
        for subject in &plan.subjects {
            (self.progress)("tracing", recorded.len() as u64, steps);
            self.prepare(subject)?;
            let trace = self.trace(&mut tracer, subject.words.clone())?;
            self.check(trace.exit.unwrap_or(Exit::Code(0)), subject, || {
                "the traced run".to_owned()
            })?;
            recorded.push(trace);
        }
        (self.progress)("tracing", steps, steps);
        Ok(recorded)
    }

    /// Times one run. Returns also how long its preparation took.
    fn time_subject(
        &self,
        subject: &Subject,
        run: impl Fn() -> String,
    ) -> Result<(Timing, Duration), CompareError> {
        let preparation = self.prepare(subject)?;
        let timing = self.time(&subject.words)?;
        self.check(timing.exit, subject, run)?;
        Ok((timing, preparation))
    }

    fn time(&self, words: &[OsString]) -> Result<Timing, CompareError> {
        let launch = self.launch_options()?;
        self.runtime
            .block_on(timed_run::time(words, &launch, &self.signals))
    }

    fn trace(
        &self,
        tracer: &mut KernelTracer,
        command: Vec<OsString>,
    ) -> Result<Trace, CompareError> {
        let options = RunOptions {
            selection: self.plan.selection.clone(),
            launch: self.launch_options()?,
            limits: self.plan.limits,
            ..plain_run(command)
        };
        let trace = backend::run_with(tracer, self.plan.backend, &options)?;
        give_free_memory_back();
        self.signals.pending()?;
        Ok(trace)
    }

    /// Runs what prepares a run of this command. Returns how long it took.
    fn prepare(&self, subject: &Subject) -> Result<Duration, CompareError> {
        self.run_line("--prepare", subject.prepare.as_deref())
    }

    /// Runs the line of this option, if there is one, in a shell. Returns how long it took.
    fn run_line(&self, option: &'static str, line: Option<&str>) -> Result<Duration, CompareError> {
        let Some(line) = line else {
            return Ok(Duration::ZERO);
        };
        let timing = self.time(&self.plan.shell.script_command(line))?;
        match how_it_failed(timing.exit) {
            None => Ok(timing.wall),
            Some(how) => Err(CompareError::LineFailed {
                option,
                command: line.to_owned(),
                how,
            }),
        }
    }

    /// A command that fails ends the comparison: its figures would be useless.
    fn check(
        &self,
        exit: Exit,
        subject: &Subject,
        run: impl Fn() -> String,
    ) -> Result<(), CompareError> {
        match how_it_failed(exit).filter(|_| !self.plan.ignores_failures) {
            None => Ok(()),
            Some(how) => Err(CompareError::Failed {
                name: subject.name.clone(),
                how,
                run: run(),
            }),
        }
    }

    fn launch_options(&self) -> io::Result<LaunchOptions> {
        Ok(LaunchOptions {
            identity: self.plan.identity,
            on_tracer_exit: OnTracerExit::Kill,
            streams: Streams {
                stdin: Stream::null()?,
                stdout: Stream::null()?,
                stderr: Stream::null()?,
            },
            ..LaunchOptions::default()
        })
    }
}

/// Whose turn it is, by how often each has run and is to run: of the unfinished ones, the first with
/// the smallest share of its runs done, so that one that needs more runs gets them spread evenly
/// among those of the others. `None` at the end.
fn next_turn(done: &[u64], wanted: &[u64]) -> Option<usize> {
    let is_unfinished = |index: &usize| done[*index] < wanted[*index];
    // Compares the fractions done/wanted without a division.
    let share = |a: &usize, b: &usize| {
        (u128::from(done[*a]) * u128::from(wanted[*b]))
            .cmp(&(u128::from(done[*b]) * u128::from(wanted[*a])))
    };
    (0..done.len()).filter(is_unfinished).min_by(share)
}

/// Makes all threads allocate from one heap, so that its free memory can be given back. Call it
/// before there are threads.
///
/// zctrace's own memory limits what can be measured: every command starts as a fork of this
/// process, and the kernel's peak counts that fork. A command with a smaller peak has an unknown
/// one. musl has only one heap.
fn use_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number within malloc.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Gives free memory back to the kernel: a backend needs much of it for a short time. musl does so
/// by itself.
fn give_free_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: frees only memory that is not in use.
    unsafe {
        libc::malloc_trim(0)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wanted: &[u64]) -> Vec<usize> {
        let mut done = vec![0; wanted.len()];
        let turns = std::iter::from_fn(|| {
            let turn = next_turn(&done, wanted)?;
            done[turn] += 1;
            Some(turn)
        });
        turns.collect()
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
