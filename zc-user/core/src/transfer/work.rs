//! [`FlowWork`]: the figures of a flow, summed over the calls that made it. A figure that cannot be
//! divided between several flows is left out.

use crate::trace::sum_known;
use std::collections::BTreeMap;

use super::{
    facts::{moving_calls, sum_bytes},
    flow::{Flow, SourceCalls, is_retry, sum_times},
};
use crate::{
    errno,
    trace::{Part, Row},
    transfer::{Api, Attempt, Evidence},
};

/// The figures of a flow, or of several steps in a row.
#[derive(Debug, Default, Clone)]
pub(super) struct FlowWork {
    /// `None`: the calls cannot be divided.
    pub(super) calls: Option<u64>,
    /// Its calls, by name; empty if they cannot be divided.
    pub(super) by_syscall: BTreeMap<String, u64>,
    /// The bytes that each call at the source (or naming both ends) asked for, if that was the same
    /// for all.
    pub(super) asked_at_source: Option<u64>,
    /// Whether the calls at the destination also wrote other bytes, such as a header.
    pub(super) has_other_bytes: bool,
    /// Calls that moved something at the destination.
    pub(super) moving_calls: u64,
    pub(super) short_calls: u64,
    pub(super) zero_calls: u64,
    pub(super) retries: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    /// Failed attempts before these calls, in order.
    pub(super) attempts: Vec<Attempt>,
    /// How often the program entered the kernel; `None`: unknown, as for io_uring.
    pub(super) crossings: Option<u64>,
    /// `None`: unknown.
    pub(super) total_ns: Option<u64>,
    /// Bytes that were copied to or from user memory.
    pub(super) user_memory_bytes: Option<u64>,
}

impl FlowWork {
    /// The figures of a flow with its attempts.
    pub(super) fn from_flow(flow: &Flow<'_>) -> Self {
        let mut work = flow
            .steps()
            .iter()
            .map(Self::from_step)
            .reduce(Self::followed_by)
            .unwrap_or_default();
        work.attempts = flow
            .attempts
            .iter()
            .flat_map(|row| attempts_in_row(row))
            .collect();
        let tried: u64 = flow.attempts.iter().map(|row| row.calls).sum();
        work.crossings = work.crossings.map(|crossings| crossings + tried);
        work
    }

    fn from_step(step: &Flow<'_>) -> Self {
        let written = sum_bytes(&step.writing);
        let mut work = Self {
            calls: Some(0),
            crossings: Some(0),
            total_ns: Some(0),
            asked_at_source: asked_at_source(step),
            has_other_bytes: !step.parts.is_empty() || written > step.bytes,
            user_memory_bytes: user_memory_bytes(step),
            ..Self::default()
        };
        match &step.reading {
            SourceCalls::None => {}
            SourceCalls::All(rows) => work.add_rows(rows),
            SourceCalls::Some { fills, among } => {
                let calls = (!fills.are_unknown).then_some(fills.calls);
                work.add_calls(calls, only_name(among));
                work.total_ns = sum_known(work.total_ns, fills.total_ns);
            }
        }
        work.add_rows(&step.writing);
        work.add_rows(&step.idle_writing);
        work.moving_calls = moving_calls(&step.writing);
        step.parts.iter().for_each(|part| work.add_part(part));
        let mut rows = step.rows();
        if rows.any(|row| row.call.as_ring_operation().is_some()) {
            work.crossings = None;
        }
        if !step.knows_writing {
            (work.calls, work.crossings, work.total_ns) = (None, None, None);
        }
        if work.calls.is_none() {
            work.by_syscall.clear();
        }
        work
    }

    fn add_rows(&mut self, rows: &[&Row]) {
        for row in rows {
            self.add_calls(Some(row.calls), Some(&row.call.name));
            self.short_calls += row.short_calls;
            self.zero_calls += row.zero_calls;
            for (&errno, &count) in &row.errnos {
                let sums = if is_retry(errno) {
                    &mut self.retries
                } else {
                    &mut self.errors
                };
                *sums.entry(errno::name(errno)).or_default() += count;
            }
        }
        self.total_ns = sum_known(self.total_ns, sum_times(rows.iter().copied()));
    }

    /// Adds calls. Without a name it is not known which calls they are.
    fn add_calls(&mut self, calls: Option<u64>, name: Option<&str>) {
        self.calls = sum_known(self.calls, calls);
        self.crossings = sum_known(self.crossings, calls);
        if let (Some(calls), Some(name)) = (calls.filter(|calls| *calls > 0), name) {
            *self.by_syscall.entry(name.to_owned()).or_default() += calls;
        }
    }

    /// Adds calls that also wrote bytes of other files. Their time belongs to the flows of those
    /// files, so it is unknown here.
    fn add_part(&mut self, part: &Part) {
        self.add_calls(Some(part.calls), Some(&part.call.name));
        self.moving_calls += part.calls;
        self.total_ns = None;
    }

    /// The figures of two steps, one after the other. The calls that moved bytes at the destination
    /// are those of the last one.
    fn followed_by(self, next: Self) -> Self {
        Self {
            calls: sum_known(self.calls, next.calls),
            by_syscall: sum_counts(self.by_syscall, next.by_syscall),
            asked_at_source: self.asked_at_source,
            has_other_bytes: self.has_other_bytes || next.has_other_bytes,
            moving_calls: next.moving_calls,
            short_calls: self.short_calls + next.short_calls,
            zero_calls: self.zero_calls + next.zero_calls,
            retries: sum_counts(self.retries, next.retries),
            errors: sum_counts(self.errors, next.errors),
            attempts: [self.attempts, next.attempts].concat(),
            crossings: sum_known(self.crossings, next.crossings),
            total_ns: sum_known(self.total_ns, next.total_ns),
            user_memory_bytes: sum_known(self.user_memory_bytes, next.user_memory_bytes),
        }
    }
}

/// The counts of both.
pub(crate) fn sum_counts(
    mut sums: BTreeMap<String, u64>,
    more: BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    for (name, count) in more {
        *sums.entry(name).or_default() += count;
    }
    sums
}

/// The name of all calls of these rows that moved something, if it is the same.
fn only_name<'a>(rows: &[&'a Row]) -> Option<&'a str> {
    let mut names = rows
        .iter()
        .filter(|row| moving_calls(&[row]) > 0)
        .map(|row| row.call.name.as_ref());
    let first = names.next()?;
    names.all(|name| name == first).then_some(first)
}

/// The bytes that each call at the source asked for. The calls of one name must all have asked for
/// the same, and so must those of all names.
fn asked_at_source(step: &Flow<'_>) -> Option<u64> {
    let rows = match &step.reading {
        SourceCalls::None => &step.writing,
        SourceCalls::All(rows) | SourceCalls::Some { among: rows, .. } => rows,
    };
    let mut by_name: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
    for row in rows {
        let (calls, requested) = by_name.entry(&row.call.name).or_insert((0, Some(0)));
        *calls += row.calls;
        *requested = sum_known(*requested, row.requested_bytes);
    }
    let mut asked = by_name.values().map(|&(calls, requested)| {
        requested?
            .checked_div(calls)
            .filter(|each| Some(each * calls) == requested)
    });
    let first = asked.next()??;
    asked.all(|other| other == Some(first)).then_some(first)
}

/// A loop copies each byte out of the kernel and back into it. A write from a mapping copies each
/// byte into the kernel only, and one that lends memory none. The other interfaces copy within the
/// kernel, or not at all.
fn user_memory_bytes(step: &Flow<'_>) -> Option<u64> {
    match step.api {
        Api::Vmsplice if step.evidence == Evidence::Mapping => Some(0),
        Api::Vmsplice | Api::MmapWrite => step.bytes,
        _ if step.is_loop() => step.bytes.map(|bytes| bytes.saturating_mul(2)),
        _ => Some(0),
    }
}

/// The attempts in a row of calls that moved nothing: one for each errno, and one for calls that
/// returned 0.
fn attempts_in_row(row: &Row) -> impl Iterator<Item = Attempt> {
    let attempt = |errno: String, calls| Attempt {
        syscall: row.call.name.clone().into_owned(),
        errno,
        calls,
    };
    let failed = row
        .errnos
        .iter()
        .map(move |(&number, &calls)| attempt(errno::name(number), calls));
    let idle = row.calls - row.errors;
    failed.chain((idle > 0).then(|| attempt(Attempt::NOTHING_MOVED.to_owned(), idle)))
}
