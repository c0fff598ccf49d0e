//! The comparison as CSV: a line for each command, times in seconds, sizes in bytes. What is unknown is empty.

use serde::Serialize;

use crate::compare::{Compared, Comparison};

/// A line, with the names of the columns.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    command: &'a str,
    runs: usize,
    time_mean_s: f64,
    time_stddev_s: Option<f64>,
    time_median_s: f64,
    time_min_s: f64,
    time_max_s: f64,
    relative_percent: Option<f64>,
    relative_error_percent: Option<f64>,
    user_s: f64,
    system_s: f64,
    cpu_percent: Option<f64>,
    syscalls: u64,
    bytes_per_call: Option<f64>,
    voluntary_switches: f64,
    involuntary_switches: f64,
    minor_faults: f64,
    major_faults: f64,
    peak_memory_bytes: Option<u64>,
    api: Option<String>,
    exact: bool,
}

/// The whole file.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for command in &comparison.commands {
        writer.serialize(Line::of(command)).expect("a line is flat, and memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("made of text")
}

impl<'a> Line<'a> {
    fn of(command: &'a Compared) -> Self {
        Self {
            name: &command.name,
            command: &command.command,
            runs: command.runs.len(),
            time_mean_s: command.time_s.mean,
            time_stddev_s: command.time_s.stddev,
            time_median_s: command.time_s.median,
            time_min_s: command.time_s.min,
            time_max_s: command.time_s.max,
            relative_percent: command.relative.map(|relative| relative.percent),
            relative_error_percent: command.relative.and_then(|relative| relative.relative_error_percent),
            user_s: command.user_s,
            system_s: command.system_s,
            cpu_percent: command.cpu_percent,
            syscalls: command.traced.syscalls,
            bytes_per_call: command.traced.bytes_per_call,
            voluntary_switches: command.voluntary_switches,
            involuntary_switches: command.involuntary_switches,
            minor_faults: command.minor_faults,
            major_faults: command.major_faults,
            peak_memory_bytes: command.peak_memory_bytes,
            api: command.traced.apis.as_ref().map(|apis| apis.join(", ")),
            exact: command.traced.exact,
        }
    }
}
