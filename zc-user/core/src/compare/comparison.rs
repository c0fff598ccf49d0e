//! What was measured, and the comparison that is derived from it without I/O. JSON shows
//! [`Comparison`] as it is.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{
    Plan, Subject, Traced,
    statistics::{Statistics, outlier_warning, sample_mean},
};
use crate::{
    diff::Diff,
    report::{self, Report, Tool},
    signal,
    trace::{Exit, Trace},
};

/// The measurements of one command.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its timed runs, in order.
    pub timings: Vec<Timing>,
    /// Its traced run.
    pub trace: Trace,
}

/// What one run took from its exec to its end, including the children that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Wall time.
    #[serde(rename = "time_s", serialize_with = "serialize_seconds")]
    pub wall: Duration,
    /// CPU time in user mode.
    #[serde(rename = "user_s", serialize_with = "serialize_seconds")]
    pub user: Duration,
    /// CPU time in the kernel.
    #[serde(rename = "system_s", serialize_with = "serialize_seconds")]
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
    /// How it ended. One that fails ends the comparison, unless failures are ignored.
    #[serde(skip)]
    pub exit: Exit,
}

fn serialize_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
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
    /// The commands, in the order in which they were given.
    pub commands: Vec<Compared>,
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
    /// Mean CPU time in user mode.
    pub user_s: f64,
    /// Mean CPU time in the kernel.
    pub system_s: f64,
    /// CPU time as a share of wall time; `None` if that is 0.
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
    /// Why its figures may be unreliable, each a sentence with advice.
    pub warnings: Vec<String>,
    /// The timed runs, in order.
    pub runs: Vec<Timing>,
}

impl Comparison {
    /// Compares the measurements of a plan: one series for each command, in its order.
    pub fn new(plan: &Plan, measured: &[Series]) -> Self {
        let options = report::Options::default();
        let (mut commands, mut first) = (Vec::new(), None);
        for (subject, series) in plan.subjects.iter().zip(measured) {
            let report = Report::from_trace(&series.trace, &options);
            let changes = first.as_ref().map(|before| Diff::new(before, &report));
            first.get_or_insert_with(|| report.clone());
            let traced = Traced::from_report(report);
            commands.push(Compared::new(subject, &series.timings, traced, changes));
        }
        let first = first.as_ref();
        Self {
            schema: SCHEMA,
            tool: Tool::this_version(),
            commands,
            kernel: first.and_then(|report| report.kernel.clone()),
            arch: first.and_then(|report| report.arch.clone()),
            traced_at: first.and_then(|report| report.started_at.clone()),
        }
    }
}

impl Compared {
    /// Whether the times of two commands show a difference.
    pub fn differs_in_time_from(&self, other: &Self) -> bool {
        let (one, other) = (&self.time_s, &other.time_s);
        let (faster, slower) = if one.mean < other.mean {
            (one, other)
        } else {
            (other, one)
        };
        Speed::new(faster, 0, slower).is_some_and(|speed| speed.is_difference())
    }

    fn new(subject: &Subject, runs: &[Timing], traced: Traced, changes: Option<Diff>) -> Self {
        let mean =
            |figure: fn(&Timing) -> f64| sample_mean(&runs.iter().map(figure).collect::<Vec<_>>());
        let times: Vec<f64> = runs.iter().map(|run| run.wall.as_secs_f64()).collect();
        let statistics = Statistics::from_sample(&times);
        let user_s = mean(|run| run.user.as_secs_f64());
        let system_s = mean(|run| run.system.as_secs_f64());
        Self {
            name: subject.name.clone(),
            command: subject.line.clone(),
            time_s: statistics,
            user_s,
            system_s,
            cpu_percent: (statistics.mean > 0.0)
                .then(|| (user_s + system_s) / statistics.mean * 100.0),
            voluntary_switches: mean(|run| count_as_f64(run.voluntary_switches)),
            involuntary_switches: mean(|run| count_as_f64(run.involuntary_switches)),
            minor_faults: mean(|run| count_as_f64(run.minor_faults)),
            major_faults: mean(|run| count_as_f64(run.major_faults)),
            peak_memory_bytes: runs.iter().map(|run| run.peak_memory_bytes).max().flatten(),
            traced,
            changes,
            warnings: [failure_warning(runs), outlier_warning(&times)]
                .into_iter()
                .flatten()
                .collect(),
            runs: runs.to_vec(),
        }
    }
}

/// A warning if runs failed, which only `--ignore-failure` allows.
fn failure_warning(runs: &[Timing]) -> Option<String> {
    let failures = runs.iter().filter_map(|run| how_it_failed(run.exit));
    let failures: Vec<String> = failures.collect();
    let (first, failed, all) = (failures.first()?, failures.len(), runs.len());
    Some(format!(
        "{failed} of {all} runs did not succeed (the first {first}): run the command alone to see why"
    ))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean is not a count: an error in its 16th digit does not matter"
)]
fn count_as_f64(count: u64) -> f64 {
    count as f64
}

/// Which command is how much faster than the others: what users came for.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Index of the command that is compared: the fastest.
    pub subject: usize,
    /// All others, those that it beats by most last.
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
    pub fn from_comparison(comparison: &Comparison) -> Option<Self> {
        let commands = comparison.commands.iter();
        let times = commands.map(|command| &command.time_s).enumerate();
        let mut times: Vec<(usize, &Statistics)> = times.collect();
        times.sort_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
        let ((subject, fastest), others) = times.split_first()?;
        let speed = |(other, time): &(usize, &Statistics)| Speed::new(fastest, *other, time);
        let others = others.iter().map(speed).collect::<Option<Vec<_>>>()?;
        let subject = *subject;
        (!others.is_empty()).then_some(Self { subject, others })
    }
}

impl Speed {
    /// That of a command over a slower one. `None` if it took no time at all.
    fn new(faster: &Statistics, other: usize, slower: &Statistics) -> Option<Self> {
        let (times, stddev) = slower.ratio_to(faster)?;
        Some(Self {
            other,
            times,
            stddev,
        })
    }

    /// Whether the times show a difference: not if the interval of one standard deviation includes
    /// the ratio 1.
    pub fn is_difference(&self) -> bool {
        self.stddev.is_none_or(|stddev| self.times - stddev > 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sample_measurements::{comparison, timed_series};

    #[test]
    fn the_cpu_share_is_known_if_there_is_time() {
        // The sample spends a tenth of its time in user mode, and half of it in the kernel.
        let share = |runs: &[u64]| comparison(&[timed_series(runs)]).commands[0].cpu_percent;
        assert!(share(&[40, 60]).is_some_and(|cpu| (cpu - 60.0).abs() < 1e-9));
        assert_eq!(share(&[0]), None);
    }

    #[test]
    fn the_summary_compares_the_fastest_with_all_others() {
        let summary = |times: &[u64]| {
            let series: Vec<Series> = times.iter().map(|&ms| timed_series(&[ms])).collect();
            Summary::from_comparison(&comparison(&series))
        };
        let slow_first = summary(&[40, 10, 25]).expect("three");
        let others = slow_first.others.iter();
        let others: Vec<_> = others.map(|speed| (speed.other, speed.times)).collect();
        assert_eq!((slow_first.subject, others), (1, vec![(2, 2.5), (0, 4.0)]));
        assert_eq!([summary(&[40]), summary(&[40, 0])], [None, None]);
    }

    #[test]
    fn a_ratio_whose_interval_includes_1_is_no_difference() {
        for (one, other, stddev, is_difference) in [
            // 2 of 40 are 5 %, and of 4.0 times 0.2.
            (&[38, 40, 42][..], &[10, 10, 10][..], Some(0.2), true),
            (&[10, 12, 14], &[9, 11, 13], Some(0.269), false),
            // Without a deviation there is no interval.
            (&[11], &[10], None, true),
        ] {
            let both = comparison(&[timed_series(one), timed_series(other)]);
            let speed = Summary::from_comparison(&both).expect("two").others[0];
            assert_eq!(speed.is_difference(), is_difference, "{speed:?}");
            let is_near = |(found, expected): (f64, f64)| (found - expected).abs() < 1e-3;
            assert_eq!(speed.stddev.is_some(), stddev.is_some());
            assert!(speed.stddev.zip(stddev).is_none_or(is_near), "{speed:?}");
        }
    }
}
