//! [`Summary`]: the figures of a flow, summed over its rows.
//!
//! A row can be part of several flows, such as the reads of a source with several destinations.
//! [`SharedRows`] gives each of these flows a fraction of the row's figures, in proportion to its
//! bytes. Otherwise the figures of all flows would add up to more than there was.

use std::{
    collections::{BTreeMap, HashMap},
    ptr,
};

use super::flow::{Flow, is_retry, moving_calls, sum_bytes};
use crate::{
    errno,
    trace::{self, Row},
    transfer::{Api, Attempt},
};

/// The figures of a flow, or of a chain of flows.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Its calls, by name.
    pub(super) by_syscall: BTreeMap<String, Called>,
    /// The calls at the source, or those that name both ends.
    at_source: BTreeMap<String, Called>,
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
    /// Number of calls in `attempts`.
    attempt_calls: u64,
    /// Number of io_uring operations among the calls.
    ring_calls: u64,
    /// `None`: unknown.
    pub(super) total_ns: Option<u64>,
}

/// How often a call was made, and how many bytes it asked for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Called {
    pub(super) calls: u64,
    /// `None`: unknown.
    requested_bytes: Option<u64>,
}

impl Called {
    fn add(sums: &mut BTreeMap<String, Self>, row: &Row, fraction: Fraction) {
        let none = Self {
            calls: 0,
            requested_bytes: Some(0),
        };
        let sum = sums
            .entry(row.call.name.clone().into_owned())
            .or_insert(none);
        sum.requested_bytes = sum
            .requested_bytes
            .zip(row.requested_bytes)
            .and_then(|(a, b)| a.checked_add(b));
        sum.calls += fraction.of(row.calls);
    }

    /// The bytes that each call asked for, if all may have asked for the same number.
    fn asked_each(self) -> Option<u64> {
        let requested = self.requested_bytes?;
        (self.calls > 0 && requested.is_multiple_of(self.calls)).then(|| requested / self.calls)
    }
}

impl Summary {
    pub(super) fn of(flow: &Flow<'_>, shared: &SharedRows) -> Self {
        let written = sum_bytes(&flow.writing).filter(|_| {
            !flow
                .writing
                .iter()
                .any(|row| shared.fraction(row, flow).is_less())
        });
        let mut summary = Self {
            has_other_bytes: !flow.parts.is_empty()
                || written
                    .zip(flow.bytes)
                    .is_some_and(|(all, bytes)| all > bytes),
            attempts: flow.attempts.iter().flat_map(|row| attempts(row)).collect(),
            attempt_calls: flow.attempts.iter().map(|row| row.calls).sum(),
            total_ns: Some(0),
            ..Self::default()
        };
        for row in flow.rows() {
            summary.add(row, shared.fraction(row, flow));
        }
        summary.moving_calls = flow
            .writing
            .iter()
            .map(|row| shared.fraction(row, flow).of(moving_calls(&[row])))
            .sum();
        for part in &flow.parts {
            summary.add_part(part);
        }
        let at_source = if flow.reading.is_empty() {
            &flow.writing
        } else {
            &flow.reading
        };
        for row in at_source {
            Called::add(&mut summary.at_source, row, Fraction::ALL);
        }
        summary
    }

    fn add(&mut self, row: &Row, fraction: Fraction) {
        Called::add(&mut self.by_syscall, row, fraction);
        self.short_calls += fraction.of(row.short_calls);
        self.zero_calls += fraction.of(row.zero_calls);
        for (&errno, &count) in &row.errnos {
            let sums = if is_retry(errno) {
                &mut self.retries
            } else {
                &mut self.errors
            };
            let count = fraction.of(count);
            if count > 0 {
                *sums.entry(errno::name(errno)).or_default() += count;
            }
        }
        if row.call.as_ring_operation().is_some() {
            self.ring_calls += row.calls;
        }
        let ns = row.times.as_ref().map(|times| fraction.of(times.total_ns));
        self.total_ns = self.total_ns.zip(ns).and_then(|(a, b)| a.checked_add(b));
    }

    /// Adds calls that also wrote bytes of other sources. Their time belongs to the flows of those
    /// sources, so it is unknown here.
    fn add_part(&mut self, part: &trace::Part) {
        let none = Called {
            calls: 0,
            requested_bytes: None,
        };
        self.by_syscall
            .entry(part.call.name.clone().into_owned())
            .or_insert(none)
            .calls += part.calls;
        self.moving_calls += part.calls;
        self.total_ns = None;
        if part.call.as_ring_operation().is_some() {
            self.ring_calls += part.calls;
        }
    }

    /// Adds the figures of the next hop of a chain. The calls that moved bytes at the destination
    /// are those of the last hop.
    pub(super) fn then(mut self, next: Self) -> Self {
        for (name, called) in next.by_syscall {
            self.by_syscall.entry(name).or_default().calls += called.calls;
        }
        for (sums, more) in [
            (&mut self.retries, next.retries),
            (&mut self.errors, next.errors),
        ] {
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
            total_ns: self
                .total_ns
                .zip(next.total_ns)
                .and_then(|(a, b)| a.checked_add(b)),
            ..self
        }
    }

    /// The bytes that each call at the source (or naming both ends) asked for, if that was the same
    /// for all.
    pub(super) fn asked_at_source(&self) -> Option<u64> {
        let mut asked = self.at_source.values().map(|called| called.asked_each());
        let first = asked.next()??;
        asked.all(|other| other == Some(first)).then_some(first)
    }

    pub(super) fn calls(&self) -> u64 {
        self.by_syscall.values().map(|called| called.calls).sum()
    }

    /// How often the program entered the kernel. `None` for io_uring: one `io_uring_enter` submits
    /// operations of many transfers.
    pub(super) fn crossings(&self) -> Option<u64> {
        (self.ring_calls == 0).then(|| self.calls() + self.attempt_calls)
    }
}

/// Bytes that were copied to or from user memory. A loop copies each byte out of the kernel and
/// back into it. A write from a mapping copies each byte into the kernel only. The other interfaces
/// copy within the kernel, or not at all.
pub(super) fn user_memory_bytes(flow: &Flow<'_>) -> Option<u64> {
    if flow.is_loop() {
        flow.bytes.map(|bytes| bytes.saturating_mul(2))
    } else if flow.api == Api::MmapWrite {
        flow.bytes
    } else {
        Some(0)
    }
}

/// The attempts in a row of calls that moved nothing: one for each errno, and one for calls that
/// returned 0.
fn attempts(row: &Row) -> impl Iterator<Item = Attempt> {
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

/// The rows that are part of several flows.
#[derive(Debug, Default)]
pub(super) struct SharedRows {
    /// For each such row, the sum of the bytes of all its flows.
    bytes: HashMap<*const Row, u64>,
}

impl SharedRows {
    /// Finds the rows that are in more than one of these flows.
    pub(super) fn of<'f, 'a: 'f>(flows: impl Iterator<Item = &'f Flow<'a>>) -> Self {
        let mut sums: HashMap<*const Row, (u32, u64)> = HashMap::new();
        for flow in flows {
            for row in flow.rows() {
                let (flows, bytes) = sums.entry(ptr::from_ref(row)).or_default();
                *flows += 1;
                *bytes = bytes.saturating_add(flow.bytes.unwrap_or(0));
            }
        }
        let several = sums
            .into_iter()
            .filter(|(_, (flows, bytes))| *flows > 1 && *bytes > 0);
        Self {
            bytes: several.map(|(row, (_, bytes))| (row, bytes)).collect(),
        }
    }

    /// The fraction of a row that belongs to a flow.
    pub(super) fn fraction(&self, row: &Row, flow: &Flow<'_>) -> Fraction {
        self.bytes
            .get(&ptr::from_ref(row))
            .map_or(Fraction::ALL, |&bytes| Fraction {
                bytes: flow.bytes.unwrap_or(0),
                of: bytes,
            })
    }
}

/// A fraction of a row's figures: `bytes` / `of`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fraction {
    bytes: u64,
    of: u64,
}

impl Fraction {
    pub(super) const ALL: Self = Self { bytes: 1, of: 1 };

    /// Whether other flows have a part, too.
    pub(super) fn is_less(self) -> bool {
        self.bytes < self.of
    }

    /// This fraction of a figure, rounded down.
    pub(super) fn of(self, figure: u64) -> u64 {
        let part = u128::from(figure) * u128::from(self.bytes) / u128::from(self.of);
        u64::try_from(part).unwrap_or(figure)
    }
}
