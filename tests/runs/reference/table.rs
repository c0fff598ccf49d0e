//! The tables, in Markdown: published figures beside measured ones, and for each row a sentence or
//! two from its trace. No I/O.

use zctrace::report::{Report, Syscall, Transfer};

use super::{
    ExportedTiming, Measured,
    scenario::{RunPlace, Scenario},
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
        let from = if input.on == RunPlace::Memory {
            "tmpfs"
        } else {
            "the page cache: nothing waits for a disk to read"
        };
        let bytes = scenario.bytes(scale);
        lines.push(format!(
            "Here: {bytes} bytes, {scale} of the published size, from {from}."
        ));
    }
    lines.push("\n| | published | here |\n|---|---|---|".to_owned());
    // On a busy machine, the shortest time says most.
    let reference_s = rows.first().and_then(least_s).unwrap_or(f64::NAN);
    for row in rows {
        let published = row.run.published.as_deref().unwrap_or("-");
        let here = row.timing.as_ref().map_or_else(
            || calls(&row.report),
            |timing| times(timing, row.run.copies, reference_s),
        );
        lines.push(format!("| {} | {published} | {here} |", row.run.name));
    }
    lines.push(String::new());
    let sentence = |row: &Measured| format!("- **{}**: {}.", row.run.name, explanation(row));
    lines.extend(rows.iter().map(sentence));
    lines.join("\n") + "\n"
}

fn least_s(row: &Measured) -> Option<f64> {
    Some(row.timing.as_ref()?.time_s.min)
}

/// The times of one copy: the mean, the least, and that in percent of the reference's.
fn times(timing: &ExportedTiming, copies: u32, reference_s: f64) -> String {
    let ms = |seconds: f64| milliseconds(seconds * 1000.0 / f64::from(copies));
    let time = timing.time_s;
    let spread = time.stddev.map(|stddev| format!(" ± {}", ms(stddev)));
    let spread = spread.unwrap_or_default();
    let percent = timing.cpu_percent;
    let percent = percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0} %"));
    format!(
        "{}{spread}, least {}, {:.1} %; {:.2} s user, {:.2} s system, {percent} CPU",
        ms(time.mean),
        ms(time.min),
        time.min / reference_s * 100.0,
        timing.user_s,
        timing.system_s,
    )
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

/// The interfaces of a run, its calls that moved bytes, and its page faults and context switches.
fn calls(report: &Report) -> String {
    let totals = &report.totals;
    let moving = totals.syscalls.iter();
    let moving = moving.filter(|call| call.bytes > Some(0) && call.calls > 1);
    let mut said = vec![interfaces(report)];
    said.extend(moving.map(times_of_call));
    let (faults, switches) = (totals.usage.page_faults, totals.usage.context_switches);
    let figures = [
        (faults.minor, "minor faults"),
        (faults.major, "major faults"),
        (switches.voluntary, "voluntary switches"),
        (switches.involuntary, "involuntary switches"),
    ];
    said.extend(figures.map(|(count, what)| format!("{} {what}", or_dash(count))));
    said.join("<br>")
}

fn times_of_call(call: &Syscall) -> String {
    let times = [call.total_ns, call.min_ns, call.mean_ns, call.max_ns];
    let [total, min, mean, max] = times.map(|ns| or_dash(ns.map(as_ms)));
    let Syscall { name, calls, .. } = call;
    format!("`{name}` {calls} calls, {total} ms (min {min}, mean {mean}, max {max})")
}

/// A figure, or a dash for an unknown one.
fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string())
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

/// The names of all interfaces, each once, that of the largest transfer first; `none` if no
/// transfer was seen.
fn interfaces(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for transfer in transfers(report) {
        if !names.contains(&transfer.api.name()) {
            names.push(transfer.api.name());
        }
    }
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Up to this many transfers are described one by one, of more only the largest.
const FEW: usize = 2;

/// If a command is on the CPU for less than this share of its time, the table says why.
const BUSY_PERCENT: f64 = 80.0;

/// What this row did, and what it waited for.
fn explanation(row: &Measured) -> String {
    let mut described = transfers(&row.report);
    if described.len() > FEW {
        described.sort_by_key(|transfer| transfer.bytes);
        described.drain(..described.len() - 1);
    }
    let verdicts = described.iter().map(|transfer| transfer.verdict.as_str());
    let verdicts = verdicts.collect::<Vec<_>>().join(", and ");
    let waits = row.timing.as_ref().and_then(waits).unwrap_or_default();
    if verdicts.is_empty() {
        format!("no transfer was seen{waits}")
    } else {
        verdicts + &waits
    }
}

/// How much of its time a command is not on the CPU, because it waits or is preempted.
fn waits(timing: &ExportedTiming) -> Option<String> {
    let percent = timing.cpu_percent?;
    let (waits, preempted) = (timing.voluntary_switches, timing.involuntary_switches);
    (percent < BUSY_PERCENT).then(|| {
        format!(
            "; {:.0} % of the time it is not on the CPU: it waited {waits:.0} times for the other side or the disk, \
             and was preempted {preempted:.0} times",
            100.0 - percent
        )
    })
}
