//! The report as OpenMetrics text, for Prometheus and for the textfile collector of its node
//! exporter, which reads the older format.
//!
//! Every metric is a gauge: each run has new figures, and both formats write gauges in the same
//! way. Every sample names the command, so that a collector can read the files of several runs.
//! Figures are sums over all processes; unknown ones are left out.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
};

use super::transfers::end_kind;
use crate::report::{Report, Syscall, Transfer};

/// The whole text.
pub(super) fn render(report: &Report) -> String {
    let mut text = Text {
        text: String::new(),
        command: report.command.join(" "),
    };
    write_run(&mut text, report);
    write_syscalls(&mut text, report);
    write_transfers(&mut text, report);
    text.text + "# EOF\n"
}

fn write_run(text: &mut Text, report: &Report) {
    let usage = report.totals.usage;
    let (switches, faults) = (usage.context_switches, usage.page_faults);
    text.one(
        "run_details",
        "What traced the command",
        &[
            ("backend", &report.backend),
            ("version", &report.tool.version),
        ],
        Some(1),
    );
    text.one(
        "exact",
        "Whether every figure is exact: 1, or 0 if they are lower bounds",
        &[],
        Some(u8::from(report.exact)),
    );
    text.family(
        "losses",
        "Ways in which figures were lost, with how often",
        |family| {
            for (reason, count) in &report.losses {
                family.sample(&[("reason", reason)], Some(count));
            }
        },
    );
    text.one(
        "exit_status",
        "Exit status of the command; none if a signal killed it",
        &[],
        report.exit.code,
    );
    text.one(
        "exit_signal",
        "Signal that killed the command; none if it ended by itself",
        &[],
        report.exit.signal,
    );
    text.one(
        "wall_seconds",
        "Time from the start of the command to its end",
        &[],
        report.wall_ns.map(Seconds),
    );
    text.family("cpu_seconds", "CPU time of all processes", |family| {
        family.sample(&[("mode", "user")], usage.user_ns.map(Seconds));
        family.sample(&[("mode", "system")], usage.system_ns.map(Seconds));
    });
    text.family(
        "context_switches",
        "Context switches of all processes",
        |family| {
            family.sample(&[("kind", "voluntary")], switches.voluntary);
            family.sample(&[("kind", "involuntary")], switches.involuntary);
        },
    );
    text.family("page_faults", "Page faults of all processes", |family| {
        family.sample(&[("kind", "minor")], faults.minor);
        family.sample(&[("kind", "major")], faults.major);
    });
    text.one(
        "processes",
        "Processes of the command",
        &[],
        Some(report.totals.processes),
    );
    text.one(
        "threads",
        "Threads of all processes",
        &[],
        Some(report.totals.threads),
    );
}

/// A metric of a call: its name, its meaning, its value.
type SyscallMetric = (&'static str, &'static str, fn(&Syscall) -> Option<String>);

fn write_syscalls(text: &mut Text, report: &Report) {
    const METRICS: [SyscallMetric; 7] = [
        ("syscall_calls", "System calls that returned", |call| {
            Some(call.calls.to_string())
        }),
        (
            "syscall_unfinished_calls",
            "System calls that never returned",
            |call| Some(call.unfinished.to_string()),
        ),
        (
            "syscall_bytes",
            "Bytes that system calls returned as moved",
            |call| call.bytes.map(|bytes| bytes.to_string()),
        ),
        (
            "syscall_requested_bytes",
            "Bytes that system calls asked for",
            |call| call.requested_bytes.map(|bytes| bytes.to_string()),
        ),
        ("syscall_seconds", "Time in system calls", |call| {
            call.total_ns.map(|ns| Seconds(ns).to_string())
        }),
        (
            "syscall_longest_seconds",
            "Time of the longest system call",
            |call| call.max_ns.map(|ns| Seconds(ns).to_string()),
        ),
        ("syscall_errors", "System calls that failed", |call| {
            Some(call.errors.to_string())
        }),
    ];
    for (name, help, value) in METRICS {
        text.family(name, help, |family| {
            for call in &report.totals.syscalls {
                family.sample(&[("syscall", &call.name), ("abi", &call.abi)], value(call));
            }
        });
    }
    text.family(
        "syscall_errno_calls",
        "System calls that failed, by errno",
        |family| {
            for call in &report.totals.syscalls {
                for (errno, count) in &call.errnos {
                    family.sample(
                        &[
                            ("syscall", &call.name),
                            ("abi", &call.abi),
                            ("errno", errno),
                        ],
                        Some(count),
                    );
                }
            }
        },
    );
}

/// Transfers by interface, kinds of ends and certainty. Paths are no labels, because each file
/// would become a series.
fn write_transfers(text: &mut Text, report: &Report) {
    let mut groups: BTreeMap<[&str; 4], Vec<&Transfer>> = BTreeMap::new();
    for transfer in &report.transfers {
        let group = [
            transfer.api.name(),
            end_kind(&transfer.from),
            end_kind(&transfer.to),
            transfer.certainty.name(),
        ];
        groups.entry(group).or_default().push(transfer);
    }
    let mut metric = |name, help, value: fn(&[&Transfer]) -> Option<u64>| {
        text.family(name, help, |family| {
            for ([api, from, to, certainty], transfers) in &groups {
                family.sample(
                    &[
                        ("api", api),
                        ("from", from),
                        ("to", to),
                        ("certainty", certainty),
                    ],
                    value(transfers),
                );
            }
        });
    };
    metric(
        "transfers",
        "Transfers, by kernel interface and kinds of their ends",
        |transfers| u64::try_from(transfers.len()).ok(),
    );
    metric("transfer_calls", "System calls of transfers", |transfers| {
        transfers.iter().map(|transfer| transfer.calls).sum()
    });
    metric(
        "transfer_bytes",
        "Bytes that transfers moved",
        |transfers| {
            transfers
                .iter()
                .try_fold(0_u64, |sum, transfer| sum.checked_add(transfer.bytes?))
        },
    );
}

/// Nanoseconds, written exactly as seconds.
#[derive(Debug, Clone, Copy)]
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// The prefix of all names.
const PREFIX: &str = "zctrace";
/// The units that names may end in.
const UNITS: [&str; 2] = ["seconds", "bytes"];

/// The text so far.
struct Text {
    text: String,
    command: String,
}

impl Text {
    /// A metric with a single sample.
    fn one(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: Option<impl Display>,
    ) {
        self.family(name, help, |family| family.sample(labels, value));
    }

    /// A metric with its samples. It is left out if it has none.
    fn family(&mut self, name: &str, help: &str, write: impl FnOnce(&mut Family<'_>)) {
        let name = format!("{PREFIX}_{name}");
        let mut family = Family {
            name: &name,
            command: &self.command,
            samples: String::new(),
        };
        write(&mut family);
        let samples = family.samples;
        if samples.is_empty() {
            return;
        }
        let unit = UNITS
            .iter()
            .find(|unit| name.ends_with(&format!("_{unit}")));
        let unit = unit
            .map(|unit| format!("# UNIT {name} {unit}\n"))
            .unwrap_or_default();
        write!(
            self.text,
            "# TYPE {name} gauge\n{unit}# HELP {name} {help}.\n{samples}"
        )
        .expect("a string takes everything");
    }
}

/// One metric.
struct Family<'a> {
    name: &'a str,
    command: &'a str,
    samples: String,
}

impl Family<'_> {
    /// A sample. It is left out if its value is unknown.
    fn sample(&mut self, labels: &[(&str, &str)], value: Option<impl Display>) {
        let Some(value) = value else { return };
        let labels = [("command", self.command)]
            .into_iter()
            .chain(labels.iter().copied());
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
            .collect();
        writeln!(
            self.samples,
            "{}{{{}}} {value}",
            self.name,
            labels.join(",")
        )
        .expect("a string takes everything");
    }
}

/// Escapes the value of a label.
fn escape(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds(1).to_string(), "0.000000001");
        assert_eq!(Seconds(12_345_678_901).to_string(), "12.345678901");
    }

    #[test]
    fn a_label_cannot_close_its_quotes() {
        assert_eq!(escape("a\"} 1\n\\"), r#"a\"} 1\n\\"#);
    }
}
