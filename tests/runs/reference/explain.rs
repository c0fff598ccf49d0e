//! One sentence or two for each row, from its trace and those of the others. Pure.

use zctrace::report::{Report, Syscall, Transfer};

use super::measure::{Measured, Timing};

/// So many transfers are told one by one.
const FEW: usize = 2;
/// Counts this close to each other are called the same.
const SAME_SHARE: f64 = 0.05;
/// A command that is on the CPU for less than this share of its time has something to explain.
const BUSY_PERCENT: f64 = 80.0;

/// What a traced run did, as far as sentences need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts<'a> {
    /// The transfers of the launched process.
    transfers: &'a [Transfer],
    /// The one that moved most.
    transfer: Option<&'a Transfer>,
    /// All counted calls.
    calls: u64,
    /// The call that took most time, with its share of the time in all calls.
    longest: Option<(&'a str, f64)>,
    /// Bytes through user memory.
    user_memory_bytes: u64,
}

impl<'a> Facts<'a> {
    /// Those of a report.
    pub fn of(report: &'a Report) -> Self {
        // Not those of the processes that a copier has at the other end of its pipes.
        let transfers = report.processes.first().map_or(&[][..], |process| &process.transfers);
        let syscalls = &report.totals.syscalls;
        Self {
            transfers,
            transfer: transfers.iter().max_by_key(|transfer| transfer.bytes),
            calls: syscalls.iter().map(|call| call.calls).sum(),
            longest: longest(syscalls),
            user_memory_bytes: transfers.iter().filter_map(|transfer| transfer.user_memory_bytes).sum(),
        }
    }

    /// Names of all interfaces of the copier, each once; `none` if no transfer was seen.
    pub fn apis(&self) -> String {
        let mut names: Vec<&str> = self.transfers.iter().map(|transfer| transfer.api.name()).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// What was done: all of it where the command is one copy in a few steps, of many transfers the largest.
    fn what(&self) -> String {
        let verdicts: Vec<_> = match (self.transfers, self.transfer) {
            (few @ [_, ..], _) if few.len() <= FEW => few.iter().map(|transfer| transfer.verdict.as_str()).collect(),
            (_, Some(largest)) => vec![largest.verdict.as_str()],
            _ => vec!["no transfer was seen"],
        };
        verdicts.join(", and ")
    }

    /// Name of the interface that moved most; `none` if no transfer was seen.
    pub fn api(&self) -> &'static str {
        self.transfer.map_or("none", |transfer| transfer.api.name())
    }
}

fn longest(syscalls: &[Syscall]) -> Option<(&str, f64)> {
    let total: u64 = syscalls.iter().filter_map(|call| call.total_ns).sum();
    let longest = syscalls.iter().max_by_key(|call| call.total_ns)?;
    (total > 0).then(|| (longest.name.as_str(), ratio(longest.total_ns.unwrap_or(0), total)))
}

/// Why this row takes what it takes, beside the first row.
pub fn explain(row: &Measured, reference: &Measured) -> String {
    let (facts, base) = (Facts::of(&row.report), Facts::of(&reference.report));
    let is_reference = row.run.name == reference.run.name;
    let longest = facts.longest.filter(|(_, share)| *share >= 0.5);
    let parts = [
        Some(facts.what()),
        (!is_reference).then(|| beside(&facts, &base)),
        longest.map(|(call, share)| format!("{:.0} % of the time in calls is {call}", share * 100.0)),
        row.timing.as_ref().and_then(waits),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Calls and copies of a row, beside those of the reference.
fn beside(facts: &Facts<'_>, base: &Facts<'_>) -> String {
    let calls = match ratio(facts.calls, base.calls) {
        _ if same(facts.calls, base.calls) => "as many calls as the first row".to_owned(),
        share if share < 1.0 => format!("{} calls where the first row makes {}", facts.calls, base.calls),
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

/// How much of its time a command is not on the CPU: because it waits, or because somebody else has the CPU.
fn waits(timing: &Timing) -> Option<String> {
    let percent = timing.cpu_percent.filter(|percent| *percent < BUSY_PERCENT)?;
    let Timing { voluntary_switches: waits, involuntary_switches: preempted, .. } = timing;
    Some(format!(
        "{:.0} % of the time it is not on the CPU: {waits:.0} times it waited for the other side or the disk, {preempted:.0} times it \
         had to give way",
        100.0 - percent
    ))
}

/// For rows that stand in another order than they were published in: what their traces say of it.
pub fn order(rows: &[Measured]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (index, slower) in rows.iter().enumerate() {
        for faster in &rows[index + 1..] {
            let (first, second) = if published(slower) < published(faster) { (slower, faster) } else { (faster, slower) };
            if is_turned(first, second) {
                sentences.push(format!(
                    "**{}** was published as faster than **{}** and is slower here: {}.",
                    first.run.name,
                    second.run.name,
                    difference(&Facts::of(&first.report), &Facts::of(&second.report)),
                ));
            }
        }
    }
    sentences
}

fn published(row: &Measured) -> Option<f64> {
    row.run.published.map(|published| published.wall_ms)
}

/// Whether `first`, published as the faster one, is slower here, by more than the measurement's own spread.
fn is_turned(first: &Measured, second: &Measured) -> bool {
    let (Some(one), Some(other)) = (&first.timing, &second.timing) else { return false };
    let spread = one.time_s.stddev.unwrap_or(0.0).hypot(other.time_s.stddev.unwrap_or(0.0));
    published(first) < published(second) && one.time_s.mean - other.time_s.mean > spread
}

/// What the trace of one has that the other's has not.
fn difference(slower: &Facts<'_>, faster: &Facts<'_>) -> String {
    if slower.api() == faster.api() && same(slower.calls, faster.calls) {
        return format!(
            "both make the same calls ({} and {} in all, by {}), so the difference that was published is none of the kernel interface",
            slower.calls,
            faster.calls,
            slower.api(),
        );
    }
    let calls = format!("{} calls by {} beside {} by {}", slower.calls, slower.api(), faster.calls, faster.api());
    match slower.user_memory_bytes.cmp(&faster.user_memory_bytes) {
        std::cmp::Ordering::Greater => format!("{calls}, and more bytes through user memory"),
        std::cmp::Ordering::Less => format!("{calls}, though fewer bytes go through user memory"),
        std::cmp::Ordering::Equal => calls,
    }
}

fn same(one: u64, other: u64) -> bool {
    one == other || (ratio(one, other) - 1.0).abs() <= SAME_SHARE
}

#[expect(clippy::cast_precision_loss, reason = "a share for a sentence, shown with two digits")]
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}
