//! The figures of a transfer, summed over the calls that made it. A figure that cannot be divided
//! between several transfers is left out.

use super::{
    buffers::moving_calls,
    facts::{may_have_moved, sum_bytes},
    flow::{Flow, is_retry},
};
use crate::{
    counts::add_counts,
    errno,
    report::error_meanings::NOTHING_MOVED,
    syscalls::Call,
    trace::{Row, least_and_most_of},
    transfer::{Api, Attempt, Evidence, Transfer},
    units::{mean, sum_all},
};

/// Gives a transfer without figures those of this flow, and its attempts.
pub(super) fn add_work(transfer: &mut Transfer, flow: &Flow<'_>) {
    for leg in flow.legs() {
        transfer.add_leg(leg);
    }
    transfer.keep_names_only_of_all_calls();
    for row in &flow.attempts {
        transfer.attempts.extend(attempts_in_row(row));
        transfer.crossings = sum_all([transfer.crossings, Some(row.calls)]);
    }
    if let Some(bytes) = flow.bytes {
        transfer.mean_bytes = mean(bytes, flow.moving_calls());
    }
}

impl Flow<'_> {
    /// Calls that moved something at the destination.
    pub(super) fn moving_calls(&self) -> u64 {
        let Some(last) = self.legs().last() else {
            return 0;
        };
        let of_parts = last.parts.iter().map(|part| part.calls);
        moving_calls(&last.writing) + of_parts.sum::<u64>()
    }

    /// The fewest and the most bytes that one of these calls moved. `None`: unknown.
    pub(super) fn least_and_most_bytes(&self) -> Option<[u64; 2]> {
        let last = self.legs().last()?;
        let of_other_files = !last.parts.is_empty() || sum_bytes(&last.writing) != last.bytes;
        let moving = last.writing.iter().filter(|row| may_have_moved(row));
        let mut sizes = moving.map(|row| row.least_and_most_bytes);
        let first = sizes.next().filter(|_| !of_other_files)??;
        sizes.try_fold(first, |known, sizes| Some(least_and_most_of(known, sizes?)))
    }

    /// Whether the calls at the destination also wrote other bytes, such as a header.
    pub(super) fn has_other_bytes(&self) -> bool {
        let mut legs = self.legs().iter();
        legs.any(|leg| !leg.parts.is_empty() || sum_bytes(&leg.writing) > leg.bytes)
    }

    /// The bytes that each call at the source (or naming both ends) asked for, if that was the same
    /// for all.
    pub(super) fn asked_at_source(&self) -> Option<u64> {
        let leg = self.legs().first()?;
        let names_both = leg.evidence == Evidence::Call;
        let rows = if names_both {
            &leg.writing
        } else {
            &leg.reading
        };
        let mut asked = None;
        for row in rows {
            let requested = row.requested_bytes?;
            let each = requested.checked_div(row.calls)?;
            if each * row.calls != requested || *asked.get_or_insert(each) != each {
                return None;
            }
        }
        asked
    }
}

impl Transfer {
    fn add_leg(&mut self, leg: &Flow<'_>) {
        if leg.has_other_reads {
            (self.calls, self.crossings, self.total_ns) = (None, None, None);
        } else {
            self.add_rows(&leg.reading);
        }
        self.add_rows(&leg.writing);
        self.add_rows(&leg.idle_writing);
        for part in &leg.parts {
            self.add_calls(part.calls, &part.call);
            // It also belongs to the flows of other files.
            self.total_ns = None;
        }
        self.user_memory_bytes = sum_all([self.user_memory_bytes, user_memory_bytes(leg)]);
        let mut rows = leg.own_rows();
        if rows.any(|row| row.call.as_ring_operation().is_some()) {
            self.crossings = None;
        }
    }

    fn add_rows(&mut self, rows: &[&Row]) {
        for row in rows {
            self.add_calls(row.calls, &row.call);
            self.total_ns = sum_all([self.total_ns, row.total_ns]);
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
    }

    fn add_calls(&mut self, calls: u64, call: &Call) {
        self.calls = sum_all([self.calls, Some(calls)]);
        self.crossings = sum_all([self.crossings, Some(calls)]);
        if calls > 0 {
            let name = call.name.clone().into_owned();
            *self.calls_by_syscall.entry(name).or_default() += calls;
        }
    }

    /// Adds the figures of another one: of the next step of a chain, or of one of the same shape.
    pub(crate) fn add_figures(&mut self, more: &Self) {
        self.calls = sum_all([self.calls, more.calls]);
        self.crossings = sum_all([self.crossings, more.crossings]);
        self.user_memory_bytes = sum_all([self.user_memory_bytes, more.user_memory_bytes]);
        self.total_ns = sum_all([self.total_ns, more.total_ns]);
        self.short_calls += more.short_calls;
        self.zero_calls += more.zero_calls;
        add_counts(&mut self.calls_by_syscall, &more.calls_by_syscall);
        add_counts(&mut self.retries, &more.retries);
        add_counts(&mut self.errors, &more.errors);
        self.keep_names_only_of_all_calls();
    }

    /// Leaves out the calls by name unless they are all of its calls.
    fn keep_names_only_of_all_calls(&mut self) {
        if self.calls != Some(self.calls_by_syscall.values().sum()) {
            self.calls_by_syscall.clear();
        }
    }

    /// Leaves out the figures that cannot be divided, since the calls also moved other bytes.
    pub(super) fn forget_undivided(&mut self) {
        (self.calls, self.crossings) = (None, None);
        (self.user_memory_bytes, self.total_ns) = (None, None);
        self.calls_by_syscall.clear();
    }
}

/// A loop copies each byte out of the kernel and back into it. A write from a mapping copies each
/// byte into the kernel only, and one that lends memory none. The other interfaces copy within the
/// kernel, or not at all.
fn user_memory_bytes(leg: &Flow<'_>) -> Option<u64> {
    match leg.api {
        Api::Vmsplice if leg.evidence == Evidence::Mapping => Some(0),
        Api::Vmsplice | Api::MmapWrite => leg.bytes,
        _ if leg.is_loop() => leg.bytes.map(|bytes| bytes.saturating_mul(2)),
        _ => Some(0),
    }
}

/// The attempts in a row of calls that moved nothing: one for each errno, and one for calls that
/// returned 0.
fn attempts_in_row(row: &Row) -> Vec<Attempt> {
    let attempt = |errno: String, calls| Attempt {
        syscall: row.call.name.clone().into_owned(),
        errno,
        calls,
    };
    let mut attempts = Vec::new();
    for (&number, &calls) in &row.errnos {
        attempts.push(attempt(errno::name(number), calls));
    }
    if row.calls > row.errors {
        attempts.push(attempt(NOTHING_MOVED.to_owned(), row.calls - row.errors));
    }
    attempts
}
