//! The figures of a command as text: the rows of the page, and the columns of the Markdown table.

use std::time::Duration;

use crate::{
    compare::{Compared, Comparison, Traced},
    render::{
        calls,
        losses::loss,
        text::{self, known},
    },
    syscalls::Selection,
    units,
};

/// A figure that every command has: its title, and its text.
type ComparedFigure = (&'static str, fn(&Compared) -> String);

/// The figures in the order in which they are shown.
pub(super) const FIGURES: [ComparedFigure; 15] = [
    ("time (mean ± σ)", time_with_deviation),
    ("time (min)", |command| time(command.time_s.min)),
    ("user", |command| time(command.user_s)),
    ("system", |command| time(command.system_s)),
    ("CPU", |command| {
        known(command.cpu_percent, |percent| format!("{percent:.0} %"))
    }),
    ("calls", |command| {
        known(all_calls(&command.traced), |calls| {
            format!("{}{calls}", at_least(command))
        })
    }),
    ("counted calls", |command| {
        let traced = &command.traced;
        let counted = calls::counted_calls(&traced.totals.syscalls, traced.counted.as_ref());
        format!("{}{counted}", at_least(command))
    }),
    ("bytes per call", bytes_per_call),
    ("voluntary switches", |command| {
        mean(command.voluntary_switches)
    }),
    ("involuntary switches", |command| {
        mean(command.involuntary_switches)
    }),
    ("minor faults", |command| mean(command.minor_faults)),
    ("major faults", |command| mean(command.major_faults)),
    ("peak memory", |command| {
        known(command.peak_memory_bytes, units::bytes)
    }),
    ("runs", |command| command.runs.len().to_string()),
    ("API", api),
];

/// The name of a command, in quotes if a shell would take it for several words or none.
pub(super) fn name(command: &Compared) -> String {
    text::command_line(std::slice::from_ref(&command.name))
}

/// How many calls there were, with those that were only summed up. `None`: unknown.
fn all_calls(traced: &Traced) -> Option<u64> {
    if traced.counted != Some(Selection::All) && traced.totals.other_syscalls.is_none() {
        return None;
    }
    let others = traced.totals.rows_of_others().map(|call| call.calls);
    Some(traced.syscalls.saturating_add(others.sum()))
}

fn time(seconds: f64) -> String {
    let ns = Duration::from_secs_f64(seconds).as_nanos();
    units::duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The mean time of a command: `4.63 ms ± 2.29 ms`.
pub(super) fn time_with_deviation(command: &Compared) -> String {
    let deviation = command
        .time_s
        .stddev
        .map(|stddev| format!(" ± {}", time(stddev)));
    time(command.time_s.mean) + &deviation.unwrap_or_default()
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
            "calls, bytes per call, API: one traced run (backend {}, {exact}); counted are {}",
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
    match calls::which_calls(counted).as_str() {
        "" => "all calls".to_owned(),
        which => format!("the calls{which}"),
    }
}

/// Losses and warnings, each with the name of its command.
pub(super) fn doubts(comparison: &Comparison) -> Vec<String> {
    let of_command = |command: &Compared| {
        let name = name(command);
        let losses = command.traced.losses.iter();
        let losses = losses.map(|(name, &count)| loss(name, count));
        let doubts = losses.chain(command.warnings.iter().cloned());
        doubts
            .map(|doubt| format!("{name}: {doubt}"))
            .collect::<Vec<_>>()
    };
    comparison.commands.iter().flat_map(of_command).collect()
}
