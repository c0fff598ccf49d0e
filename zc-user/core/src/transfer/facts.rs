//! [`Facts`]: the figures of a flow, summed over its rows.

use std::collections::BTreeMap;

use super::{
    flow::{Flow, is_retry, moving_calls, sum_bytes},
    shared::{Part, Shared},
};
use crate::{
    errno,
    trace::{self, Row},
    transfer::{Api, Attempt},
};

/// The figures of a flow, or of several together.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Its calls, by name.
    pub(super) by_syscall: BTreeMap<String, Called>,
    /// Those of them at the source, or that name both ends.
    at_source: BTreeMap<String, Called>,
    /// Whether calls at the destination wrote other bytes, too: a header, say.
    pub(super) has_other_bytes: bool,
    /// Calls that moved something at the destination.
    pub(super) moving_calls: u64,
    pub(super) short_calls: u64,
    pub(super) zero_calls: u64,
    pub(super) retries: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    /// What was tried before, in this order.
    pub(super) attempts: Vec<Attempt>,
    /// Calls of these attempts.
    attempt_calls: u64,
    /// Operations of `io_uring` among the calls.
    ring_calls: u64,
    /// `None`: unknown.
    pub(super) total_ns: Option<u64>,
}

/// How often a call was made, and what it asked for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Called {
    pub(super) calls: u64,
    /// `None`: unknown.
    requested_bytes: Option<u64>,
}

impl Called {
    fn add(sums: &mut BTreeMap<String, Self>, row: &Row, part: Part) {
        let none = Self { calls: 0, requested_bytes: Some(0) };
        let sum = sums.entry(row.call.name.clone().into_owned()).or_insert(none);
        sum.requested_bytes = sum.requested_bytes.zip(row.requested_bytes).and_then(|(a, b)| a.checked_add(b));
        sum.calls += part.of(row.calls);
    }

    /// The bytes that each of them asked for, if that may have been the same for all.
    fn asked_each(self) -> Option<u64> {
        let requested = self.requested_bytes?;
        (self.calls > 0 && requested.is_multiple_of(self.calls)).then(|| requested / self.calls)
    }
}

impl Facts {
    pub(super) fn of(flow: &Flow<'_>, shared: &Shared) -> Self {
        let written = sum_bytes(&flow.writing).filter(|_| !flow.writing.iter().any(|row| shared.part(row, flow).is_less()));
        let mut facts = Self {
            has_other_bytes: !flow.parts.is_empty() || written.zip(flow.bytes).is_some_and(|(all, bytes)| all > bytes),
            attempts: flow.attempts.iter().flat_map(|row| attempts(row)).collect(),
            attempt_calls: flow.attempts.iter().map(|row| row.calls).sum(),
            total_ns: Some(0),
            ..Self::default()
        };
        for row in flow.rows() {
            facts.add(row, shared.part(row, flow));
        }
        facts.moving_calls = flow.writing.iter().map(|row| shared.part(row, flow).of(moving_calls(&[row]))).sum();
        for part in &flow.parts {
            facts.add_part(part);
        }
        let at_source = if flow.reading.is_empty() { &flow.writing } else { &flow.reading };
        for row in at_source {
            Called::add(&mut facts.at_source, row, Part::ALL);
        }
        facts
    }

    fn add(&mut self, row: &Row, part: Part) {
        Called::add(&mut self.by_syscall, row, part);
        self.short_calls += part.of(row.short_calls);
        self.zero_calls += part.of(row.zero_calls);
        for (&errno, &count) in &row.errnos {
            let sums = if is_retry(errno) { &mut self.retries } else { &mut self.errors };
            let count = part.of(count);
            if count > 0 {
                *sums.entry(errno::name(errno)).or_default() += count;
            }
        }
        if row.call.as_ring_operation().is_some() {
            self.ring_calls += row.calls;
        }
        let ns = row.times.as_ref().map(|times| part.of(times.total_ns));
        self.total_ns = self.total_ns.zip(ns).and_then(|(a, b)| a.checked_add(b));
    }

    /// Calls that wrote bytes of other sources as well: their time is part of those flows.
    fn add_part(&mut self, part: &trace::Part) {
        let none = Called { calls: 0, requested_bytes: None };
        self.by_syscall.entry(part.call.name.clone().into_owned()).or_insert(none).calls += part.calls;
        self.moving_calls += part.calls;
        self.total_ns = None;
        if part.call.as_ring_operation().is_some() {
            self.ring_calls += part.calls;
        }
    }

    /// Takes up the figures of the next hop of a chain: what arrives in the end, the last hop tells.
    pub(super) fn then(mut self, next: Self) -> Self {
        for (name, called) in next.by_syscall {
            self.by_syscall.entry(name).or_default().calls += called.calls;
        }
        for (sums, more) in [(&mut self.retries, next.retries), (&mut self.errors, next.errors)] {
            for (errno, count) in more {
                *sums.entry(errno).or_default() += count;
            }
        }
        self.attempts.extend(next.attempts);
        Self {
            has_other_bytes: self.has_other_bytes || next.has_other_bytes,
            moving_calls: next.moving_calls,
            short_calls: self.short_calls + next.short_calls,
            zero_calls: self.zero_calls + next.zero_calls,
            attempt_calls: self.attempt_calls + next.attempt_calls,
            ring_calls: self.ring_calls + next.ring_calls,
            total_ns: self.total_ns.zip(next.total_ns).and_then(|(a, b)| a.checked_add(b)),
            ..self
        }
    }

    /// What each call at the source, or that names both ends, asked for, if that was the same for all.
    pub(super) fn asked_at_source(&self) -> Option<u64> {
        let mut asked = self.at_source.values().map(|called| called.asked_each());
        let first = asked.next()??;
        asked.all(|other| other == Some(first)).then_some(first)
    }

    pub(super) fn calls(&self) -> u64 {
        self.by_syscall.values().map(|called| called.calls).sum()
    }

    /// `None`: by operations of `io_uring`, whose submission crosses for many at once.
    pub(super) fn crossings(&self) -> Option<u64> {
        (self.ring_calls == 0).then(|| self.calls() + self.attempt_calls)
    }
}

/// Bytes that passed through user memory. A loop copies each byte out of the kernel and into it; out of a mapping it is copied into the
/// kernel alone; the other interfaces leave the bytes where they are, or copy them within the kernel.
pub(super) fn user_memory_bytes(flow: &Flow<'_>) -> Option<u64> {
    if flow.is_loop() {
        flow.bytes.map(|bytes| bytes.saturating_mul(2))
    } else if flow.api == Api::MmapWrite {
        flow.bytes
    } else {
        Some(0)
    }
}

/// A row of calls that moved nothing, as attempts: one for each way in which they did so.
fn attempts(row: &Row) -> impl Iterator<Item = Attempt> {
    let attempt = |errno: String, calls| Attempt { syscall: row.call.name.clone().into_owned(), errno, calls };
    let failed = row.errnos.iter().map(move |(&number, &calls)| attempt(errno::name(number), calls));
    let idle = row.calls - row.errors;
    failed.chain((idle > 0).then(|| attempt(Attempt::NOTHING_MOVED.to_owned(), idle)))
}
