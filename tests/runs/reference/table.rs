//! The tables, in Markdown: published figures beside measured ones, and for each row a sentence or
//! two from its trace. No I/O.

use std::fmt::Write as _;

use zctrace::report::{Report, Syscall, Transfer};

use super::{
    Measured, Timing,
    scenario::{Measure, Place, Published, PublishedCall, Scenario},
};

/// A scenario's table and its sentences.
pub fn render(scenario: &Scenario, scale: f64, rows: &[Measured]) -> String {
    let mut text = format!(
        "## {}: {}\n\nPublished: {}.\n",
        scenario.name, scenario.title, scenario.published
    );
    if let Some(input) = scenario.input.as_ref().filter(|input| !input.fixed) {
        // Every input has been read once before, see `write_input`.
        let from = if input.on == Place::Memory {
            "tmpfs"
        } else {
            "the page cache: nothing waits for a disk to read"
        };
        line(
            &mut text,
            format_args!(
                "Here: {} bytes, {scale} of the published size, from {from}.",
                scenario.bytes(scale)
            ),
        );
    }
    text.push('\n');
    match scenario.measure {
        Measure::Compare => times(&mut text, rows),
        Measure::Trace => calls(&mut text, rows),
        Measure::Api => apis(&mut text, rows),
    }
    text.push('\n');
    if let [reference, ..] = rows {
        for row in rows {
            line(
                &mut text,
                format_args!("- **{}**: {}.", row.run.name, explain(row, reference)),
            );
        }
    }
    text
}

fn times(text: &mut String, rows: &[Measured]) {
    let has_cpu = rows.iter().any(|row| {
        row.run
            .published
            .is_some_and(|published| published.cpu_percent.is_some())
    });
    let mut head = "| | published | Diff | here | Diff | least here | Diff |".to_owned();
    let mut rule = "|---|--:|--:|--:|--:|--:|--:|".to_owned();
    // On a busy machine, the shortest time says most.
    let reference_min = rows
        .first()
        .and_then(|row| row.timing.as_ref())
        .map(|timing| timing.time_s.min);
    if has_cpu {
        head += " published user, system, CPU | here |";
        rule += "--:|--:|";
    }
    line(text, format_args!("{head}\n{rule}"));
    for row in rows {
        let published = row.run.published;
        let timing = row.timing.as_ref();
        let least = timing.map(|timing| timing.time_s.min);
        let of_one = 1000.0 / f64::from(row.run.copies);
        let mut cells = vec![
            Some(row.run.name.clone()),
            published.map(|published| milliseconds(published.wall_ms)),
            published.map(|published| percent(published.diff_percent)),
            timing.map(|timing| measured_time(timing, row.run.copies)),
            timing.and_then(measured_diff),
            least.map(|least| milliseconds(least * of_one)),
            least
                .zip(reference_min)
                .map(|(one, other)| percent(one / other * 100.0)),
        ];
        if has_cpu {
            cells.push(published.map(published_cpu));
            cells.push(timing.map(measured_cpu));
        }
        let cells: Vec<_> = cells
            .into_iter()
            .map(|cell| cell.unwrap_or_else(dash))
            .collect();
        line(text, format_args!("| {} |", cells.join(" | ")));
    }
}

fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn measured_time(timing: &Timing, copies: u32) -> String {
    let ms = |seconds: f64| milliseconds(seconds * 1000.0 / f64::from(copies));
    let mean = ms(timing.time_s.mean);
    let spread = timing
        .time_s
        .stddev
        .map(|stddev| format!(" ± {}", ms(stddev)));
    mean + &spread.unwrap_or_default()
}

fn measured_diff(timing: &Timing) -> Option<String> {
    let relative = timing.relative?;
    let error = relative.relative_error_percent;
    let error = error.map(|error| format!(" ± {:.1}", error * relative.percent / 100.0));
    Some(format!(
        "{:.1}{} %",
        relative.percent,
        error.unwrap_or_default()
    ))
}

fn published_cpu(published: Published) -> String {
    let Published {
        user_s,
        system_s,
        cpu_percent,
        ..
    } = published;
    let seconds = |time: Option<f64>| time.map_or_else(dash, |time| format!("{time:.2} s"));
    format!(
        "{}, {}, {}",
        seconds(user_s),
        seconds(system_s),
        whole_percent(cpu_percent)
    )
}

fn measured_cpu(timing: &Timing) -> String {
    let percent = whole_percent(timing.cpu_percent);
    format!(
        "{:.2} s, {:.2} s, {percent}",
        timing.user_s, timing.system_s
    )
}

fn whole_percent(percent: Option<f64>) -> String {
    percent.map_or_else(dash, |percent| format!("{percent:.0} %"))
}

fn calls(text: &mut String, rows: &[Measured]) {
    line(
        text,
        format_args!(
            "| run | call | | calls | total ms | min ms | mean ms | max ms |\n|---|---|---|--:|--:|--:|--:|--:|"
        ),
    );
    for row in rows {
        for published in &row.run.published_calls {
            let PublishedCall { syscall, calls, .. } = published;
            let times = [
                published.total_ms,
                published.min_ms,
                published.mean_ms,
                published.max_ms,
            ];
            let times = times.map(|ms| format!("{ms:.3}")).join(" | ");
            let name = &row.run.name;
            line(
                text,
                format_args!("| {name} | {syscall} | published | {calls} | {times} |"),
            );
        }
        let totals = &row.report.totals;
        let name = &row.run.name;
        for call in totals
            .syscalls
            .iter()
            .filter(|call| call.bytes > Some(0) && call.calls > 1)
        {
            let ms = |ns: Option<u64>| {
                ns.map_or_else(dash, |ns| format!("{:.3}", microseconds(ns) / 1000.0))
            };
            let times = [call.total_ns, call.min_ns, call.mean_ns, call.max_ns];
            let (
                times,
                Syscall {
                    name: call, calls, ..
                },
            ) = (times.map(ms).join(" | "), call);
            line(
                text,
                format_args!("| {name} | {call} | here | {calls} | {times} |"),
            );
        }
        let (faults, switches) = (totals.usage.page_faults, totals.usage.context_switches);
        let counts = [
            faults.minor,
            faults.major,
            switches.voluntary,
            switches.involuntary,
        ];
        let [minor, major, voluntary, involuntary] =
            counts.map(|figure| figure.map_or_else(dash, |figure| figure.to_string()));
        line(
            text,
            format_args!(
                "| {name} | page faults {minor} minor, {major} major; context switches \
                 {voluntary} voluntary, {involuntary} involuntary | here | | | | | |"
            ),
        );
    }
}

fn apis(text: &mut String, rows: &[Measured]) {
    line(text, format_args!("| | published | here |\n|---|---|---|"));
    for row in rows {
        let published = row.run.published_api.as_deref().unwrap_or("-");
        line(
            text,
            format_args!(
                "| {} | {published} | {} |",
                row.run.name,
                Facts::from_report(&row.report).apis()
            ),
        );
    }
}

/// Milliseconds, with more decimals for shorter times.
fn milliseconds(ms: f64) -> String {
    let decimals = match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 1.0 => 2,
        _ => 5,
    };
    format!("{ms:.decimals$} ms")
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with three decimals of a millisecond"
)]
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn dash() -> String {
    "-".to_owned()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// Up to this many transfers are described one by one.
const FEW: usize = 2;
/// Counts that differ by at most this share count as the same.
const SAME_SHARE: f64 = 0.05;
/// If a command is on the CPU for less than this share of its time, the table says why.
const BUSY_PERCENT: f64 = 80.0;

/// The facts of a traced run that the sentences need.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts<'a> {
    /// The transfers of the launched process. All other figures are those of these transfers.
    transfers: Vec<&'a Transfer>,
    /// The transfer that moved most bytes.
    transfer: Option<&'a Transfer>,
    /// Their calls, including failed attempts. 0: unknown.
    calls: u64,
    /// The call that took most time, with its share of the time in all of them; `None` if there is
    /// only one call.
    longest: Option<(&'a str, f64)>,
    /// Bytes through user memory.
    user_memory_bytes: u64,
}

impl<'a> Facts<'a> {
    /// The facts in a report.
    pub fn from_report(report: &'a Report) -> Self {
        // The processes at the other ends of a copier's pipes do not count, nor do the calls that
        // start them.
        let root = report.processes.first();
        let transfers = root
            .into_iter()
            .flat_map(|process| report.transfers_of(process));
        let transfers: Vec<&Transfer> = transfers.collect();
        let syscalls = root.map_or(&[][..], |process| &process.syscalls);
        let (mut calls, mut user_memory_bytes) = (Some(0), 0);
        for transfer in &transfers {
            let attempts: u64 = transfer.attempts.iter().map(|attempt| attempt.calls).sum();
            calls = calls
                .zip(transfer.calls)
                .map(|(sum, more)| sum + more + attempts);
            user_memory_bytes += transfer.user_memory_bytes.unwrap_or(0);
        }
        Self {
            transfer: transfers
                .iter()
                .copied()
                .max_by_key(|transfer| transfer.bytes),
            calls: calls.unwrap_or(0),
            longest: longest(&transfers, syscalls),
            user_memory_bytes,
            transfers,
        }
    }

    /// The names of all interfaces, each once, that of the largest transfer first; `none` if no
    /// transfer was seen.
    pub fn apis(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        // A report has the largest transfers first.
        for name in self.transfers.iter().map(|transfer| transfer.api.name()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    }

    /// A description of the transfers if there are few, otherwise of the largest.
    fn what(&self) -> String {
        let verdicts: Vec<_> = match (self.transfers.as_slice(), self.transfer) {
            (few @ [_, ..], _) if few.len() <= FEW => few
                .iter()
                .map(|transfer| transfer.verdict.as_str())
                .collect(),
            (_, Some(largest)) => vec![largest.verdict.as_str()],
            _ => vec!["no transfer was seen"],
        };
        verdicts.join(", and ")
    }
}

fn longest<'a>(transfers: &[&Transfer], syscalls: &'a [Syscall]) -> Option<(&'a str, f64)> {
    let is_in_transfer = |call: &&Syscall| {
        transfers
            .iter()
            .any(|transfer| transfer.calls_by_syscall.contains_key(&call.name))
    };
    let calls: Vec<&Syscall> = syscalls.iter().filter(is_in_transfer).collect();
    let total: u64 = calls.iter().filter_map(|call| call.total_ns).sum();
    let longest = calls.iter().max_by_key(|call| call.total_ns)?;
    (total > 0 && calls.len() > 1).then(|| {
        (
            longest.name.as_str(),
            ratio(longest.total_ns.unwrap_or(0), total),
        )
    })
}

/// What this row did, compared with the first row.
pub fn explain(row: &Measured, reference: &Measured) -> String {
    let (facts, base) = (
        Facts::from_report(&row.report),
        Facts::from_report(&reference.report),
    );
    let is_reference = row.run.name == reference.run.name;
    let longest = facts.longest.filter(|(_, share)| *share >= 0.5);
    let parts = [
        Some(facts.what()),
        (!is_reference && facts.calls > 0 && base.calls > 0).then(|| beside(&facts, &base)),
        longest.map(|(call, share)| {
            format!(
                "{:.0} % of the time in these calls is {call}",
                share * 100.0
            )
        }),
        row.timing.as_ref().and_then(waits),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The calls and copies of a row, compared with those of the reference.
fn beside(facts: &Facts<'_>, base: &Facts<'_>) -> String {
    let calls = match ratio(facts.calls, base.calls) {
        _ if same(facts.calls, base.calls) => "as many calls as the first row".to_owned(),
        share if share < 1.0 => format!(
            "{} calls where the first row makes {}",
            facts.calls, base.calls
        ),
        share => format!("{share:.1} times the calls of the first row"),
    };
    let copies = match (facts.user_memory_bytes, base.user_memory_bytes) {
        (0, 0) => "nothing through user memory either",
        (0, _) => "nothing through user memory",
        (own, other) if same(own, other) => "as much through user memory",
        (own, other) if own < other => "less through user memory",
        _ => "more through user memory",
    };
    format!("{calls}, {copies}")
}

/// How much of its time a command is not on the CPU, because it waits or is preempted.
fn waits(timing: &Timing) -> Option<String> {
    let percent = timing
        .cpu_percent
        .filter(|percent| *percent < BUSY_PERCENT)?;
    let Timing {
        voluntary_switches: waits,
        involuntary_switches: preempted,
        ..
    } = timing;
    Some(format!(
        "{:.0} % of the time it is not on the CPU: it waited {waits:.0} times for the other side or the disk, and was preempted \
         {preempted:.0} times",
        100.0 - percent
    ))
}

fn same(one: u64, other: u64) -> bool {
    one == other || (ratio(one, other) - 1.0).abs() <= SAME_SHARE
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share for a sentence, shown with two digits"
)]
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_where_its_bytes_come_from() {
        let head = |place: &str| {
            let scenario = format!(
                "title = 't'\npublished = 'p'\nmeasure = 'api'\n[input]\nbytes = 1000\non = '{place}'\n[output]\nto = 'nothing'\n\
                 [[run]]\nname = 'n'\ncommand = []\n"
            );
            render(&toml::from_str(&scenario).expect("a scenario"), 0.5, &[])
        };
        for (place, words) in [
            ("disk", "from the page cache: "),
            ("ext4", "from the page cache: "),
            ("memory", "from tmpfs."),
        ] {
            let head = head(place);
            assert!(
                head.contains("Here: 500 bytes, 0.5 of the published size, ")
                    && head.contains(words),
                "{head}"
            );
        }
    }
}

#[cfg(test)]
mod explain_tests {
    use std::collections::BTreeMap;

    use zctrace::report::{Api, Process};

    use super::*;

    /// A report without calls and transfers, made from a snapshot of zctrace's own tests.
    fn empty() -> Report {
        let snapshot =
            include_str!("../../../zc-user/src/render/snapshots/zctrace__render__tests__json.snap");
        let (_, json) = snapshot
            .split_once("\n---\n")
            .expect("the snapshot's own header ends so");
        let mut report: Report = Report::from_json(json).expect("a report");
        report.processes.truncate(1);
        report.transfers.clear();
        report.processes[0].transfers.clear();
        report.processes[0].syscalls.clear();
        report
    }

    /// Gives the launched process these transfers.
    fn set_transfers(report: &mut Report, transfers: Vec<Transfer>) {
        report.processes[0].transfers = (0..transfers.len()).collect();
        report.transfers = transfers;
    }

    fn call(report: &Report, name: &str, calls: u64, total_ns: u64) -> Syscall {
        let any = report
            .totals
            .syscalls
            .first()
            .expect("it has calls")
            .clone();
        Syscall {
            name: name.to_owned(),
            calls,
            total_ns: Some(total_ns),
            ..any
        }
    }

    fn transfer(api: Api, calls: &[(&str, u64)]) -> Transfer {
        let calls_by_syscall: BTreeMap<String, u64> = calls
            .iter()
            .map(|&(name, calls)| (name.to_owned(), calls))
            .collect();
        let json = serde_json::json!({
            "evidence": "call", "certainty": "observed", "hops": [], "pids": [], "from": {}, "to": {}, "api": api, "bytes": 1 << 20, "calls": calls_by_syscall.values().sum::<u64>(),
            "calls_by_syscall": calls_by_syscall, "attempts": [], "mean_bytes": null, "crossings": 0, "user_memory_bytes": 0,
            "short_calls": 0, "zero_calls": 0, "retries": {}, "total_ns": null, "verdict": "", "reason": null, "hint": null,
        });
        serde_json::from_value(json).expect("a transfer")
    }

    #[test]
    fn calls_outside_the_copy_are_in_no_figure() {
        let mut report = empty();
        let syscalls = [("recvfrom", 1, 900), ("read", 12, 80), ("write", 9, 20)]
            .map(|(name, calls, ns)| call(&report, name, calls, ns));
        let helper = Process {
            pid: 2,
            ..report.processes[0].clone()
        };
        report.processes.push(Process {
            syscalls: vec![call(&report, "read", 5000, 70)],
            ..helper
        });
        report.processes[0].syscalls = syscalls.to_vec();
        set_transfers(
            &mut report,
            vec![transfer(Api::ReadWrite, &[("read", 10), ("write", 9)])],
        );
        let facts = Facts::from_report(&report);
        assert_eq!((facts.calls, facts.longest), (19, Some(("read", 0.8))));
    }

    #[test]
    fn a_single_call_has_no_share_of_the_time() {
        let mut report = empty();
        report.processes[0].syscalls = vec![
            call(&report, "sendfile", 2, 10),
            call(&report, "read", 3, 20),
        ];
        set_transfers(
            &mut report,
            vec![transfer(Api::Sendfile, &[("sendfile", 2)])],
        );
        assert_eq!(
            (
                Facts::from_report(&report).calls,
                Facts::from_report(&report).longest
            ),
            (2, None)
        );
    }

    #[test]
    fn interfaces_are_in_the_order_of_their_transfers() {
        let mut report = empty();
        let apis = [Api::ReadWrite, Api::CopyFileRange, Api::ReadWrite];
        set_transfers(&mut report, apis.map(|api| transfer(api, &[])).to_vec());
        assert_eq!(
            Facts::from_report(&report).apis(),
            "read+write, copy_file_range"
        );
    }
}
