//! The model of a comparison, derived from what was measured without any I/O. JSON shows it as it is.

use std::time::Duration;

use serde::Serialize;

use super::{
    Measured, Order, Plan, Series, Subject, Timing, Traced, Warning, how_it_failed,
    statistics::{Ratio, Statistics, mean},
    warning::Care,
};
use crate::{
    report::{self, Report, Tool},
    trace::Exit,
};

/// The schema that the JSON carries. Field names never change their meaning within a number.
pub const SCHEMA: u32 = 1;

/// Commands side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Which tool wrote this.
    pub tool: Tool,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub arch: Option<String>,
    /// When the measuring was done: when the first command was traced, RFC 3339.
    pub traced_at: Option<String>,
    /// Whether the commands ran in turn, and not one after the other.
    pub interleaved: bool,
    /// What a shell with nothing to do takes, which is subtracted from all times; `None` without a shell.
    pub shell: Option<ShellOverhead>,
    /// Index of the command that is 100 %.
    pub reference: usize,
    /// Whether the user chose it.
    pub reference_is_chosen: bool,
    /// The commands, in the order in which they were given.
    pub commands: Vec<Compared>,
}

/// What a shell with nothing to do takes: means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShellOverhead {
    /// Wall time.
    pub time_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
}

/// One command. Times, switches, faults and memory are of the untraced runs, counts and APIs of the traced one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it is called.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// Whether it is the one that is 100 %.
    pub is_reference: bool,
    /// Wall time.
    pub time_s: Statistics,
    /// Its mean time beside that of the reference; `None` if one of both is 0.
    pub relative: Option<Relative>,
    /// Mean CPU time in user mode.
    pub user_s: f64,
    /// Mean CPU time in the kernel.
    pub system_s: f64,
    /// CPU time as a share of wall time; `None` of no time, and of one that is little beside the shell's, which was subtracted.
    pub cpu_percent: Option<f64>,
    /// Mean number of context switches because it waited.
    pub voluntary_switches: f64,
    /// Mean number of context switches because its time was up, or another was more urgent.
    pub involuntary_switches: f64,
    /// Mean number of page faults served without I/O.
    pub minor_faults: f64,
    /// Mean number of page faults that waited for I/O.
    pub major_faults: f64,
    /// Peak resident memory of its largest process in any run; `None` if it is too little to be told from zctrace's own.
    pub peak_memory_bytes: Option<u64>,
    /// What its traced run says.
    pub traced: Traced,
    /// What makes the figures doubtful.
    pub warnings: Vec<Warning>,
    /// The timed runs, in their order.
    pub runs: Vec<Run>,
}

/// A time beside that of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Relative {
    /// The reference is 100.
    pub percent: f64,
    /// The standard deviation of that, in percent of it, by propagation of errors; `None` for the reference itself, and if that of one
    /// of the times is unknown.
    pub relative_error_percent: Option<f64>,
}

/// One timed run, what the shell takes subtracted from its times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Run {
    /// Wall time.
    pub time_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because its time was up, or another was more urgent.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Peak resident memory of its largest process, if known.
    pub peak_memory_bytes: Option<u64>,
    /// How it ended.
    pub exit: report::Exit,
}

impl Comparison {
    /// What these measurements of this plan say.
    pub fn new(plan: &Plan, measured: &Measured) -> Self {
        let shell = ShellOverhead::of(&measured.shell);
        let reference = plan.reference.unwrap_or(0);
        let traces: Vec<_> =
            measured.series.iter().map(|series| Report::from_trace(&series.trace, &report::Options::default())).collect();
        let first = traces.first();
        let mut comparison = Self {
            schema: SCHEMA,
            tool: Tool::zctrace(),
            kernel: first.and_then(|report| report.kernel.clone()),
            arch: first.and_then(|report| report.arch.clone()),
            traced_at: first.and_then(|report| report.started_at.clone()),
            interleaved: plan.order == Order::Interleaved,
            shell,
            reference,
            reference_is_chosen: plan.reference.is_some(),
            commands: Vec::new(),
        };
        let series = plan.subjects.iter().zip(&measured.series).zip(traces);
        comparison.commands =
            series.map(|((subject, series), report)| Compared::of(plan, subject, series, shell, report)).collect();
        comparison.relate();
        comparison
    }

    /// Puts every time beside that of the reference.
    fn relate(&mut self) {
        let Some(reference) = self.commands.get(self.reference).map(|command| command.time_s) else { return };
        for (index, command) in self.commands.iter_mut().enumerate() {
            command.is_reference = index == self.reference;
            let is_reference = command.is_reference;
            command.relative = Ratio::of(&command.time_s, &reference).map(|ratio| Relative {
                percent: ratio.value * 100.0,
                relative_error_percent: ratio.relative_error.filter(|_| !is_reference).map(|error| error * 100.0),
            });
        }
    }
}

impl ShellOverhead {
    fn of(runs: &[Timing]) -> Option<Self> {
        let mean = |time: fn(&Timing) -> Duration| mean(&runs.iter().map(|run| time(run).as_secs_f64()).collect::<Vec<_>>());
        (!runs.is_empty()).then(|| Self {
            time_s: mean(|run| run.wall),
            user_s: mean(|run| run.user),
            system_s: mean(|run| run.system),
        })
    }
}

impl Compared {
    fn of(plan: &Plan, subject: &Subject, series: &Series, shell: Option<ShellOverhead>, report: Report) -> Self {
        let runs: Vec<Run> = series.timings.iter().map(|timing| Run::of(timing, shell)).collect();
        let times: Vec<f64> = runs.iter().map(|run| run.time_s).collect();
        let statistics = Statistics::of(&times);
        let mean = |figure: fn(&Run) -> f64| mean(&runs.iter().map(figure).collect::<Vec<_>>());
        let (user_s, system_s) = (mean(|run| run.user_s), mean(|run| run.system_s));
        let beside_shell = shell.and_then(|shell| Warning::of_shell(&times, shell.time_s));
        let is_timed = statistics.mean > 0.0 && beside_shell.is_none();
        let care = Care { warmup: plan.warmup > 0, prepare: subject.hooks.prepare.is_some() };
        let failures = series.timings.iter().filter(|timing| how_it_failed(timing.exit).is_some()).count();
        let warnings = [
            beside_shell,
            Warning::of_outliers(&times, statistics.median, care),
            (failures > 0).then_some(Warning::IgnoredFailures { failures, runs: runs.len() }),
        ];
        Self {
            name: subject.name.clone(),
            command: subject.line.clone(),
            is_reference: false,
            time_s: statistics,
            relative: None,
            user_s,
            system_s,
            cpu_percent: is_timed.then(|| (user_s + system_s) / statistics.mean * 100.0),
            voluntary_switches: mean(|run| count(run.voluntary_switches)),
            involuntary_switches: mean(|run| count(run.involuntary_switches)),
            minor_faults: mean(|run| count(run.minor_faults)),
            major_faults: mean(|run| count(run.major_faults)),
            peak_memory_bytes: runs.iter().map(|run| run.peak_memory_bytes).max().flatten(),
            traced: Traced::of(report),
            warnings: warnings.into_iter().flatten().collect(),
            runs,
        }
    }
}

impl Run {
    fn of(timing: &Timing, shell: Option<ShellOverhead>) -> Self {
        let net =
            |time: Duration, overhead: fn(ShellOverhead) -> f64| (time.as_secs_f64() - shell.map_or(0.0, overhead)).max(0.0);
        Self {
            time_s: net(timing.wall, |shell| shell.time_s),
            user_s: net(timing.user, |shell| shell.user_s),
            system_s: net(timing.system, |shell| shell.system_s),
            voluntary_switches: timing.voluntary_switches,
            involuntary_switches: timing.involuntary_switches,
            minor_faults: timing.minor_faults,
            major_faults: timing.major_faults,
            peak_memory_bytes: timing.peak_memory_bytes,
            exit: match timing.exit {
                Exit::Code(code) => report::Exit { code: Some(code), signal: None },
                Exit::Signal(signal) => report::Exit { code: None, signal: Some(signal) },
            },
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean is no count: its error in the 16th digit does not matter")]
fn count(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sample::{self, timed};

    #[test]
    fn every_time_stands_beside_the_reference() {
        let percents = |reference| -> Vec<_> {
            let comparison = sample::comparison(&[timed(&[40, 40]), timed(&[10, 10])], reference);
            comparison.commands.iter().map(|command| command.relative.expect("no zero").percent.round()).collect()
        };
        assert_eq!(percents(None), [100.0, 25.0]);
        assert_eq!(percents(Some(1)), [400.0, 100.0]);
    }

    #[test]
    fn the_reference_itself_has_no_error() {
        let comparison = sample::comparison(&[timed(&[38, 40, 42]), timed(&[10, 10, 10])], None);
        let errors: Vec<_> =
            comparison.commands.iter().map(|command| command.relative.expect("no zero").relative_error_percent).collect();
        assert_eq!(errors[0], None);
        assert!(errors[1].is_some_and(|error| (error - 5.0).abs() < 1e-9), "{errors:?}");
    }

    #[test]
    fn what_the_shell_takes_is_subtracted_but_never_more_than_there_is() {
        let comparison = sample::comparison_with_shell(&[timed(&[12, 1])], &[2, 2]);
        let times: Vec<_> = comparison.commands[0].runs.iter().map(|run| run.time_s).collect();
        assert!((times[0] - 0.010).abs() < 1e-9 && times[1] == 0.0, "{times:?}");
        assert_eq!(comparison.commands[0].warnings, [Warning::NoTime { timeless: 1, runs: 2 }]);
    }

    #[test]
    fn cpu_is_a_share_of_a_time_that_is_known_well_enough() {
        // The sample spends a tenth of its time in user mode, and half of it in the kernel.
        let is_60 = |comparison: Comparison| comparison.commands[0].cpu_percent.map(|cpu| (cpu - 60.0).abs() < 1e-9);
        assert_eq!(is_60(sample::comparison(&[timed(&[40, 60])], None)), Some(true));
        let in_shell = |runs: &[u64]| is_60(sample::comparison_with_shell(&[timed(runs)], &[2, 2]));
        assert_eq!([in_shell(&[52, 52]), in_shell(&[3, 3, 3]), in_shell(&[2, 2, 3])], [Some(true), None, None]);
    }

    #[test]
    fn of_no_time_nothing_is_a_share() {
        let comparison = sample::comparison(&[timed(&[0]), timed(&[10])], None);
        assert_eq!(comparison.commands[0].cpu_percent, None);
        assert!(comparison.commands.iter().all(|command| command.relative.is_none()));
    }

    #[test]
    fn failures_that_are_ignored_are_not_forgotten() {
        let mut series = timed(&[10, 10, 10]);
        series.timings[1].exit = Exit::Code(3);
        let comparison = sample::comparison(&[series], None);
        assert_eq!(comparison.commands[0].warnings, [Warning::IgnoredFailures { failures: 1, runs: 3 }]);
        assert_eq!(comparison.commands[0].runs[1].exit.code, Some(3));
    }
}
