//! The tables, in Markdown: published figures beside measured ones, and for each row a sentence or
//! two from its trace. No I/O.

use zctrace::report::{Report, Syscall, Transfer};

use super::{
    ExportedTiming, Measured,
    scenario::{Measure, Place, Published, PublishedCall, Scenario},
};

/// A scenario's table and its sentences.
pub fn render(scenario: &Scenario, scale: f64, rows: &[Measured]) -> String {
    let Scenario { name, title, .. } = scenario;
    let mut lines = vec![
        format!("## {name}: {title}\n"),
        format!("Published: {}.", scenario.published),
    ];
    if let Some(input) = scenario.input.as_ref().filter(|input| !input.fixed) {
        // Every input has been read once before, see `write_input`.
        let from = if input.on == Place::Memory {
            "tmpfs"
        } else {
            "the page cache: nothing waits for a disk to read"
        };
        let bytes = scenario.bytes(scale);
        lines.push(format!(
            "Here: {bytes} bytes, {scale} of the published size, from {from}."
        ));
    }
    lines.push(String::new());
    match scenario.measure {
        Measure::Compare => lines.extend(table_of_times(rows)),
        Measure::Trace => lines.extend(table_of_calls(rows)),
    }
    lines.push(String::new());
    let sentence = |row: &Measured| format!("- **{}**: {}.", row.run.name, explanation(row));
    lines.extend(rows.iter().map(sentence));
    lines.join("\n") + "\n"
}

fn line_of(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |", cells.join(" | "))
}

/// A cell, or a dash for an unknown figure.
fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

fn table_of_times(rows: &[Measured]) -> Vec<String> {
    let published_cpu_percent = |row: &Measured| row.run.published?.cpu_percent;
    let has_cpu = rows.iter().any(|row| published_cpu_percent(row).is_some());
    let mut head = "| | published | Diff | mean here | least here | Diff |".to_owned();
    let mut rule = "|---|--:|--:|--:|--:|--:|".to_owned();
    if has_cpu {
        head += " published user, system, CPU | here |";
        rule += "--:|--:|";
    }
    // On a busy machine, the shortest time says most.
    let least_s = |row: &Measured| Some(row.timing.as_ref()?.time_s.min);
    let least_of_reference = rows.first().and_then(least_s);
    let mut lines = vec![head, rule];
    for row in rows {
        let (published, timing) = (row.run.published, row.timing.as_ref());
        let (least, copies) = (least_s(row), row.run.copies);
        let mut cells = vec![
            Some(row.run.name.clone()),
            published.map(|published| milliseconds(published.wall_ms)),
            published.map(|published| percent(published.diff_percent)),
            timing.map(|timing| measured_time(timing, copies)),
            least.map(|least| milliseconds(ms_of_one(least, copies))),
            (least.zip(least_of_reference)).map(|(one, other)| percent(one / other * 100.0)),
        ];
        if has_cpu {
            cells.push(published.map(published_cpu));
            cells.push(timing.map(measured_cpu));
        }
        lines.push(line_of(cells.into_iter().map(or_dash)));
    }
    lines
}

/// The time of one copy in milliseconds, if that of all is so many seconds.
fn ms_of_one(seconds: f64, copies: u32) -> f64 {
    seconds * 1000.0 / f64::from(copies)
}

fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn measured_time(timing: &ExportedTiming, copies: u32) -> String {
    let ms = |seconds| milliseconds(ms_of_one(seconds, copies));
    let spread = timing.time_s.stddev;
    let spread = spread.map_or_else(String::new, |stddev| format!(" ± {}", ms(stddev)));
    ms(timing.time_s.mean) + &spread
}

fn published_cpu(published: Published) -> String {
    cpu(published.user_s, published.system_s, published.cpu_percent)
}

fn measured_cpu(timing: &ExportedTiming) -> String {
    cpu(
        Some(timing.user_s),
        Some(timing.system_s),
        timing.cpu_percent,
    )
}

fn cpu(user_s: Option<f64>, system_s: Option<f64>, percent: Option<f64>) -> String {
    let seconds = |time: Option<f64>| or_dash(time.map(|time| format!("{time:.2} s")));
    let percent = or_dash(percent.map(|percent| format!("{percent:.0} %")));
    format!("{}, {}, {percent}", seconds(user_s), seconds(system_s))
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

fn table_of_calls(rows: &[Measured]) -> Vec<String> {
    let mut lines = vec![
        "| run | call | | calls | total ms | min ms | mean ms | max ms |".to_owned(),
        "|---|---|---|--:|--:|--:|--:|--:|".to_owned(),
    ];
    for row in rows {
        let name = &row.run.name;
        let published = row.run.published_calls.iter();
        lines.extend(published.map(|call| published_line(name, call)));
        let totals = &row.report.totals;
        let moving = totals.syscalls.iter();
        let moving = moving.filter(|call| call.bytes > Some(0) && call.calls > 1);
        lines.extend(moving.map(|call| measured_line(name, call)));
        let (faults, switches) = (totals.usage.page_faults, totals.usage.context_switches);
        let [minor, major, voluntary, involuntary] = [
            faults.minor,
            faults.major,
            switches.voluntary,
            switches.involuntary,
        ]
        .map(|figure| or_dash(figure.map(|figure| figure.to_string())));
        lines.push(format!(
            "| {name} | page faults {minor} minor, {major} major; context switches \
             {voluntary} voluntary, {involuntary} involuntary | here | | | | | |"
        ));
    }
    lines
}

fn published_line(name: &str, call: &PublishedCall) -> String {
    let PublishedCall { syscall, calls, .. } = call;
    let times = [call.total_ms, call.min_ms, call.mean_ms, call.max_ms];
    let times = times.map(|ms| format!("{ms:.3}")).join(" | ");
    format!("| {name} | {syscall} | published | {calls} | {times} |")
}

fn measured_line(name: &str, call: &Syscall) -> String {
    let times = [call.total_ns, call.min_ns, call.mean_ns, call.max_ns];
    let times = times.map(|ns| or_dash(ns.map(as_ms))).join(" | ");
    let (call, calls) = (&call.name, call.calls);
    format!("| {name} | {call} | here | {calls} | {times} |")
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with three decimals of a millisecond"
)]
fn as_ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1_000_000.0)
}

/// The transfers of the launched process, the largest first. The processes at the other ends of a
/// copier's pipes do not count.
fn transfers(report: &Report) -> Vec<&Transfer> {
    let root = report.processes.first().into_iter();
    root.flat_map(|process| report.transfers_of(process))
        .collect()
}

/// Up to this many transfers are described one by one, of more only the largest.
const FEW: usize = 2;

/// If a command is on the CPU for less than this share of its time, the table says why.
const BUSY_PERCENT: f64 = 80.0;

/// What this row did, and what it waited for.
fn explanation(row: &Measured) -> String {
    let transfers = transfers(&row.report);
    let largest = transfers.iter().max_by_key(|transfer| transfer.bytes);
    let verdict = |transfer: &&Transfer| transfer.verdict.clone();
    let verdicts: Vec<String> = if transfers.len() <= FEW {
        transfers.iter().map(verdict).collect()
    } else {
        largest.iter().copied().map(verdict).collect()
    };
    let verdicts = if verdicts.is_empty() {
        "no transfer was seen".to_owned()
    } else {
        verdicts.join(", and ")
    };
    let waits = row.timing.as_ref().and_then(waits);
    waits.map_or_else(|| verdicts.clone(), |waits| format!("{verdicts}; {waits}"))
}

/// How much of its time a command is not on the CPU, because it waits or is preempted.
fn waits(timing: &ExportedTiming) -> Option<String> {
    let percent = timing.cpu_percent?;
    let (waits, preempted) = (timing.voluntary_switches, timing.involuntary_switches);
    (percent < BUSY_PERCENT).then(|| {
        format!(
            "{:.0} % of the time it is not on the CPU: it waited {waits:.0} times for the other side or the disk, \
             and was preempted {preempted:.0} times",
            100.0 - percent
        )
    })
}
