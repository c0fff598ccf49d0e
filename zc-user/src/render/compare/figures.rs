//! The figures of a command as text: the rows of the page, and the columns of the Markdown table.

use crate::{
    compare::{Compared, Comparison},
    render::{
        head,
        text::{self, known},
    },
    units,
};

/// A figure that every command has: its title, and its text, with times in this unit.
type ComparedFigure = (&'static str, fn(&Compared, Unit) -> String);

/// The figures in the order in which they are shown.
pub(super) const FIGURES: [ComparedFigure; 14] = [
    ("time (mean ± σ)", |command, unit| {
        unit.show_with_deviation(command)
    }),
    ("time (min)", |command, unit| unit.show(command.time_s.min)),
    ("user", |command, unit| unit.show(command.user_s)),
    ("system", |command, unit| unit.show(command.system_s)),
    ("CPU", |command, _| {
        known(command.cpu_percent, |percent| format!("{percent:.0} %"))
    }),
    ("counted calls", |command, _| {
        format!("{}{}", at_least(command), command.traced.syscalls)
    }),
    ("bytes per call", |command, _| bytes_per_call(command)),
    ("voluntary switches", |command, _| {
        mean(command.voluntary_switches)
    }),
    ("involuntary switches", |command, _| {
        mean(command.involuntary_switches)
    }),
    ("minor faults", |command, _| mean(command.minor_faults)),
    ("major faults", |command, _| mean(command.major_faults)),
    ("peak memory", |command, _| {
        known(command.peak_memory_bytes, units::bytes)
    }),
    ("runs", |command, _| command.runs.len().to_string()),
    ("API", |command, _| api(command)),
];

/// The name of a command. An empty one is quoted, so that it can be seen.
pub(super) fn name(command: &Compared) -> String {
    if command.name.is_empty() {
        "''".to_owned()
    } else {
        text::escape(&command.name)
    }
}

/// A unit of time with a number of decimals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    name: &'static str,
    per_second: f64,
    decimals: usize,
}

impl Unit {
    /// That of all commands.
    pub(super) fn of_comparison(comparison: &Comparison) -> Self {
        let times = comparison
            .commands
            .iter()
            .map(|command| command.time_s.mean);
        Self::for_time(times.fold(f64::INFINITY, f64::min))
    }

    /// The unit in which the shortest of all times has three digits.
    fn for_time(seconds: f64) -> Self {
        let milliseconds = |decimals| Self {
            name: "ms",
            per_second: 1e3,
            decimals,
        };
        match seconds {
            1.0.. => Self {
                name: "s",
                per_second: 1.0,
                decimals: 3,
            },
            0.01.. => milliseconds(1),
            0.001.. => milliseconds(2),
            _ => milliseconds(3),
        }
    }

    fn number(self, seconds: f64) -> String {
        format!("{:.*}", self.decimals, seconds * self.per_second)
    }

    fn show(self, seconds: f64) -> String {
        format!("{} {}", self.number(seconds), self.name)
    }

    /// The mean time of a command.
    pub(super) fn show_with_deviation(self, command: &Compared) -> String {
        let mean = command.time_s.mean;
        match command.time_s.stddev {
            Some(stddev) => format!("{} ± {}", self.number(mean), self.show(stddev)),
            None => self.show(mean),
        }
    }
}

/// A mean of counts. Large ones need no decimals.
fn mean(mean: f64) -> String {
    if mean < 100.0 {
        format!("{mean:.1}")
    } else {
        format!("{mean:.0}")
    }
}

/// The prefix of a count that is a lower bound.
fn at_least(command: &Compared) -> &'static str {
    if command.traced.exact { "" } else { "≥ " }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of sizes is not negative, and as large as they are"
)]
fn bytes_per_call(command: &Compared) -> String {
    let about = if command.traced.exact { "" } else { "~ " };
    known(command.traced.bytes_per_call, |bytes| {
        format!("{about}{}", units::bytes(bytes.round() as u64))
    })
}

fn api(command: &Compared) -> String {
    known(command.traced.apis.as_ref(), |apis| {
        if apis.is_empty() {
            "none".to_owned()
        } else {
            apis.join(", ")
        }
    })
}

/// Why a peak may be unknown.
const NO_PEAK: &str = "peak memory \"-\": the kernel's peak includes zctrace itself before its exec, and the command needed no more than that";

/// Where the figures come from and how far to trust them: a sentence each.
pub(super) fn remarks(comparison: &Comparison) -> Vec<String> {
    let commands = &comparison.commands;
    let backends = commands.iter().map(|one| one.traced.backend.as_str());
    let mut backends: Vec<&str> = backends.collect();
    backends.dedup();
    let are_exact = commands.iter().all(|one| one.traced.exact);
    let exact = if are_exact { "exact" } else { "not exact" };
    let mut remarks = vec![
        format!(
            "times, CPU, switches, faults: means of untraced runs, in turn; peak memory: the largest process of any run"
        ),
        format!(
            "counted calls, bytes per call, API: one traced run (backend {}, {exact}) of {}",
            text::escape(&backends.join(", ")),
            counted(comparison)
        ),
    ];
    let lacks_peak = commands.iter().any(|one| one.peak_memory_bytes.is_none());
    remarks.extend(lacks_peak.then(|| NO_PEAK.to_owned()));
    let mut notes: Vec<&String> = commands.iter().flat_map(|one| &one.traced.notes).collect();
    notes.dedup();
    let notes = notes.into_iter().map(|note| text::escape(note));
    remarks.extend(notes.map(|note| format!("note: {note}")));
    remarks
}

/// Which calls were counted.
fn counted(comparison: &Comparison) -> String {
    let first = comparison.commands.first();
    let counted = first.and_then(|command| command.traced.counted.as_ref());
    let hint = if head::counts_data(counted) {
        " (--syscalls all counts all)"
    } else {
        ""
    };
    match head::which_calls(counted).as_str() {
        "" => "all calls".to_owned(),
        which => format!("the calls{which}{hint}"),
    }
}

/// Losses and warnings, each with the name of its command.
pub(super) fn doubts(comparison: &Comparison) -> Vec<String> {
    let of_command = |command: &Compared| {
        let losses = command
            .traced
            .losses
            .iter()
            .map(|(name, &count)| head::loss(name, count));
        let warnings = command.warnings.iter().map(ToString::to_string);
        let name = name(command);
        losses
            .chain(warnings)
            .map(|doubt| format!("{name}: {doubt}"))
            .collect::<Vec<_>>()
    };
    comparison.commands.iter().flat_map(of_command).collect()
}
