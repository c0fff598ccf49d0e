//! What was measured, and the comparison that is derived from it without I/O. JSON shows
//! [`Comparison`] as it is.

use std::time::Duration;

use serde::Serialize;

use super::{
    Plan, Subject, Traced, Warning,
    statistics::{Ratio, Statistics, mean},
};
use crate::{
    diff::Diff,
    report::{self, Report, Tool},
    signal,
    trace::{Exit, Trace},
};

/// All measurements of a plan, raw: nothing is subtracted.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Runs of the shell with an empty command; none without a shell.
    pub shell: Vec<Timing>,
    /// One for each command, in the order of the plan.
    pub series: Vec<Series>,
}

/// The measurements of one command.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its timed runs, in order.
    pub timings: Vec<Timing>,
    /// Its traced run.
    pub trace: Trace,
}

/// What one run took from its exec to its end, including the children that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Wall time.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because its time slice ended, or a more urgent task was ready.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Peak resident memory of the largest process; `None` if it is too small to be told apart from
    /// that of the process that zctrace forked.
    pub peak_memory_bytes: Option<u64>,
    /// How it ended.
    pub exit: Exit,
}

/// How a command failed, as a clause: "failed with exit status 1". `None` if it did not fail.
pub fn how_it_failed(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("failed with exit status {code}")),
        Exit::Signal(signal) => Some(format!("was killed by {}", signal::name(signal))),
    }
}

/// The schema that the JSON carries. Field names never change their meaning within a number.
pub const SCHEMA: u32 = 1;

/// A comparison of commands.
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
    /// When the first command was traced, RFC 3339.
    pub traced_at: Option<String>,
    /// What a shell with an empty command takes. It is subtracted from all times. `None` without a
    /// shell.
    pub shell: Option<ShellOverhead>,
    /// The commands, in the order in which they were given. The first one is 100 %.
    pub commands: Vec<Compared>,
}

/// Mean times of a shell with an empty command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShellOverhead {
    /// Wall time.
    pub time_s: f64,
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel.
    pub system_s: f64,
}

/// One command. Times, switches, faults and memory are from the untraced runs, counts and APIs from
/// the traced one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// Wall time.
    pub time_s: Statistics,
    /// Its mean time relative to that of the first one; `None` if one of the two is 0.
    pub relative: Option<Relative>,
    /// Mean CPU time in user mode.
    pub user_s: f64,
    /// Mean CPU time in the kernel.
    pub system_s: f64,
    /// CPU time as a share of wall time; `None` if that is 0, or small compared with the shell's,
    /// which was subtracted.
    pub cpu_percent: Option<f64>,
    /// Mean number of context switches because it waited.
    pub voluntary_switches: f64,
    /// Mean number of context switches because its time slice ended, or a more urgent task was
    /// ready.
    pub involuntary_switches: f64,
    /// Mean number of page faults served without I/O.
    pub minor_faults: f64,
    /// Mean number of page faults that waited for I/O.
    pub major_faults: f64,
    /// Peak resident memory of its largest process in any run; `None` if it is too small to be told
    /// apart from zctrace's own.
    pub peak_memory_bytes: Option<u64>,
    /// Its traced run.
    pub traced: Traced,
    /// What differs from the traced run of the first one to its own; `None` for that itself.
    pub changes: Option<Diff>,
    /// Why its figures may be unreliable.
    pub warnings: Vec<Warning>,
    /// The timed runs, in order.
    pub runs: Vec<Run>,
}

/// A time relative to that of the first command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Relative {
    /// The first command is 100.
    pub percent: f64,
    /// Its standard deviation, in percent of it, by propagation of errors; `None` for the first
    /// command itself, and if the deviation of one of the two times is unknown.
    pub relative_error_percent: Option<f64>,
}

/// One timed run, with the shell's times subtracted.
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
    /// Context switches because its time slice ended, or a more urgent task was ready.
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
    /// Compares the measurements of a plan.
    pub fn new(plan: &Plan, measured: &Measured) -> Self {
        let shell = ShellOverhead::of(&measured.shell);
        let traces: Vec<_> = measured
            .series
            .iter()
            .map(|series| Report::from_trace(&series.trace, &report::Options::default()))
            .collect();
        let first = traces.first();
        let changes: Vec<Option<Diff>> = traces
            .iter()
            .enumerate()
            .map(|(index, report)| (index > 0).then(|| Diff::new(&traces[0], report)))
            .collect();
        let mut comparison = Self {
            schema: SCHEMA,
            tool: Tool::zctrace(),
            kernel: first.and_then(|report| report.kernel.clone()),
            arch: first.and_then(|report| report.arch.clone()),
            traced_at: first.and_then(|report| report.started_at.clone()),
            shell,
            commands: Vec::new(),
        };
        let series = plan
            .subjects
            .iter()
            .zip(&measured.series)
            .zip(traces.into_iter().zip(changes));
        let compared = |((subject, series), (report, changes))| Compared {
            changes,
            ..Compared::of(subject, series, shell, report)
        };
        comparison.commands = series.map(compared).collect();
        comparison.relate();
        comparison
    }

    /// Fills in every time relative to that of the first command.
    fn relate(&mut self) {
        let Some(first) = self.commands.first().map(|command| command.time_s) else {
            return;
        };
        for (index, command) in self.commands.iter_mut().enumerate() {
            command.relative = Ratio::of(&command.time_s, &first).map(|ratio| Relative {
                percent: ratio.value * 100.0,
                relative_error_percent: ratio
                    .relative_error
                    .filter(|_| index > 0)
                    .map(|error| error * 100.0),
            });
        }
    }
}

impl ShellOverhead {
    fn of(runs: &[Timing]) -> Option<Self> {
        let mean = |time: fn(&Timing) -> Duration| {
            mean(
                &runs
                    .iter()
                    .map(|run| time(run).as_secs_f64())
                    .collect::<Vec<_>>(),
            )
        };
        (!runs.is_empty()).then(|| Self {
            time_s: mean(|run| run.wall),
            user_s: mean(|run| run.user),
            system_s: mean(|run| run.system),
        })
    }
}

impl Compared {
    fn of(
        subject: &Subject,
        series: &Series,
        shell: Option<ShellOverhead>,
        report: Report,
    ) -> Self {
        let runs: Vec<Run> = series
            .timings
            .iter()
            .map(|timing| Run::of(timing, shell))
            .collect();
        let times: Vec<f64> = runs.iter().map(|run| run.time_s).collect();
        let statistics = Statistics::of(&times);
        let mean = |figure: fn(&Run) -> f64| mean(&runs.iter().map(figure).collect::<Vec<_>>());
        let (user_s, system_s) = (mean(|run| run.user_s), mean(|run| run.system_s));
        let beside_shell = shell.and_then(|shell| Warning::of_shell(&times, shell.time_s));
        let is_timed = statistics.mean > 0.0 && beside_shell.is_none();
        let warnings = [
            beside_shell,
            Warning::of_outliers(&times, statistics.median),
        ];
        Self {
            name: subject.name.clone(),
            command: subject.line.clone(),
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
            traced: Traced::from_report(report),
            changes: None,
            warnings: warnings.into_iter().flatten().collect(),
            runs,
        }
    }
}

impl Run {
    fn of(timing: &Timing, shell: Option<ShellOverhead>) -> Self {
        let net = |time: Duration, overhead: fn(ShellOverhead) -> f64| {
            (time.as_secs_f64() - shell.map_or(0.0, overhead)).max(0.0)
        };
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
                Exit::Code(code) => report::Exit {
                    code: Some(code),
                    signal: None,
                },
                Exit::Signal(signal) => report::Exit {
                    code: None,
                    signal: Some(signal),
                },
            },
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean is not a count: an error in its 16th digit does not matter"
)]
fn count(count: u64) -> f64 {
    count as f64
}

/// Which command is how much faster than the others: what users came for.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Index of the command that is compared: the fastest.
    pub subject: usize,
    /// All others, those that it beats by most first.
    pub others: Vec<Speed>,
}

/// How many times faster the fastest command is than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Index of the other.
    pub other: usize,
    /// How many times faster; at least 1.
    pub times: f64,
    /// Its standard deviation, by propagation of errors; `None` if that of one of the times is
    /// unknown.
    pub stddev: Option<f64>,
}

impl Summary {
    /// `None` for a single command, and if a command took no time at all, since there are no ratios
    /// then.
    pub fn of(comparison: &Comparison) -> Option<Self> {
        let times: Vec<&Statistics> = comparison
            .commands
            .iter()
            .map(|command| &command.time_s)
            .collect();
        let by_time = |&a: &usize, &b: &usize| times[a].mean.total_cmp(&times[b].mean);
        let subject = (0..times.len()).min_by(by_time)?;
        let mut order: Vec<usize> = (0..times.len()).filter(|&index| index != subject).collect();
        order.sort_by(by_time);
        let others = order
            .into_iter()
            .map(|other| Speed::of(other, times[other], times[subject]))
            .collect::<Option<Vec<_>>>()?;
        (!others.is_empty()).then_some(Self { subject, others })
    }
}

impl Speed {
    /// Whether the times show a difference: not if the interval of one standard deviation includes
    /// the ratio 1.
    pub fn is_difference(&self) -> bool {
        self.stddev.is_none_or(|stddev| self.times - stddev > 1.0)
    }

    fn of(other: usize, of_other: &Statistics, of_subject: &Statistics) -> Option<Self> {
        let ratio = Ratio::of(of_other, of_subject)?;
        Some(Self {
            other,
            times: ratio.value,
            stddev: ratio.relative_error.map(|error| error * ratio.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sample::{self, timed};

    #[test]
    fn a_failure_is_described_by_its_status_or_signal() {
        assert_eq!(how_it_failed(Exit::Code(0)), None);
        assert_eq!(
            how_it_failed(Exit::Code(3)).as_deref(),
            Some("failed with exit status 3")
        );
        assert_eq!(
            how_it_failed(Exit::Signal(11)).as_deref(),
            Some("was killed by SIGSEGV")
        );
        assert_eq!(
            how_it_failed(Exit::Signal(40)).as_deref(),
            Some("was killed by signal 40")
        );
    }

    #[test]
    fn times_are_relative_to_the_first_command() {
        let comparison = sample::comparison(&[timed(&[40, 40]), timed(&[10, 10])]);
        let percents = comparison
            .commands
            .iter()
            .map(|command| command.relative.expect("no zero").percent.round());
        assert_eq!(percents.collect::<Vec<_>>(), [100.0, 25.0]);
    }

    #[test]
    fn the_first_command_itself_has_no_error() {
        let comparison = sample::comparison(&[timed(&[38, 40, 42]), timed(&[10, 10, 10])]);
        let errors: Vec<_> = comparison
            .commands
            .iter()
            .map(|command| command.relative.expect("no zero").relative_error_percent)
            .collect();
        assert_eq!(errors[0], None);
        assert!(
            errors[1].is_some_and(|error| (error - 5.0).abs() < 1e-9),
            "{errors:?}"
        );
    }

    #[test]
    fn the_shells_time_is_subtracted_and_no_time_becomes_negative() {
        let comparison = sample::comparison_with_shell(&[timed(&[12, 1])], &[2, 2]);
        let times: Vec<_> = comparison.commands[0]
            .runs
            .iter()
            .map(|run| run.time_s)
            .collect();
        assert!(
            (times[0] - 0.010).abs() < 1e-9 && times[1] == 0.0,
            "{times:?}"
        );
        assert_eq!(
            comparison.commands[0].warnings,
            [Warning::NoTime {
                timeless: 1,
                runs: 2
            }]
        );
    }

    #[test]
    fn the_cpu_share_is_unknown_if_the_shells_time_dominates() {
        // The sample spends a tenth of its time in user mode, and half of it in the kernel.
        let is_60 = |comparison: Comparison| {
            comparison.commands[0]
                .cpu_percent
                .map(|cpu| (cpu - 60.0).abs() < 1e-9)
        };
        assert_eq!(is_60(sample::comparison(&[timed(&[40, 60])])), Some(true));
        let in_shell = |runs: &[u64]| is_60(sample::comparison_with_shell(&[timed(runs)], &[2, 2]));
        assert_eq!(
            [
                in_shell(&[52, 52]),
                in_shell(&[3, 3, 3]),
                in_shell(&[2, 2, 3])
            ],
            [Some(true), None, None]
        );
    }

    #[test]
    fn no_time_has_no_cpu_share_and_no_ratio() {
        let comparison = sample::comparison(&[timed(&[0]), timed(&[10])]);
        assert_eq!(comparison.commands[0].cpu_percent, None);
        assert!(
            comparison
                .commands
                .iter()
                .all(|command| command.relative.is_none())
        );
    }

    /// The fastest command, then the others with how many times faster it is.
    fn summary(comparison: &Comparison) -> Option<Vec<(usize, f64)>> {
        Summary::of(comparison).map(|summary| {
            let of = |speed: &Speed| (speed.other, speed.times);
            std::iter::once((summary.subject, 1.0))
                .chain(summary.others.iter().map(of))
                .collect()
        })
    }

    #[test]
    fn the_summary_compares_the_fastest_with_all_others() {
        let comparison = sample::comparison(&[timed(&[40]), timed(&[10]), timed(&[25])]);
        assert_eq!(
            summary(&comparison),
            Some(vec![(1, 1.0), (2, 2.5), (0, 4.0)])
        );
    }

    #[test]
    fn the_error_of_a_speed_includes_both_times() {
        let comparison = sample::comparison(&[timed(&[38, 40, 42]), timed(&[10, 10, 10])]);
        let speed = Summary::of(&comparison).expect("two").others[0];
        // 2 of 40 are 5 %, and of 4.0 times 0.2.
        assert!(
            speed
                .stddev
                .is_some_and(|stddev| (stddev - 0.2).abs() < 1e-9),
            "{speed:?}"
        );
    }

    #[test]
    fn a_ratio_whose_interval_includes_1_is_no_difference() {
        let is_difference = |one: &[u64], other: &[u64]| {
            let comparison = sample::comparison(&[timed(one), timed(other)]);
            Summary::of(&comparison).expect("two").others[0].is_difference()
        };
        assert!(is_difference(&[38, 40, 42], &[10, 10, 10]));
        assert!(!is_difference(&[10, 12, 14], &[9, 11, 13]));
        assert!(
            is_difference(&[11], &[10]),
            "without a deviation there is no interval"
        );
    }

    #[test]
    fn there_is_no_summary_of_one_command_or_of_no_time() {
        assert_eq!(summary(&sample::comparison(&[timed(&[40])])), None);
        assert_eq!(
            summary(&sample::comparison(&[timed(&[40]), timed(&[0])])),
            None
        );
    }
}
