//! [`Flow`]: bytes that went from one end to another, as the rows that say so.

use std::{collections::HashSet, ptr};

use zc_ebpf::is_restart;

use crate::{
    trace::{FileId, Part, Row},
    transfer::{Api, Certainty, Evidence},
};

/// Where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Source {
    /// From a file.
    File(FileId),
    /// From the program's own memory.
    Memory,
}

impl Source {
    pub(super) const fn file(self) -> Option<FileId> {
        match self {
            Self::File(file) => Some(file),
            Self::Memory => None,
        }
    }
}

/// Bytes that went from one end to another within a process.
#[derive(Debug, Clone)]
pub(super) struct Flow<'a> {
    pub(super) from: Source,
    pub(super) to: FileId,
    pub(super) api: Api,
    /// The weakest evidence that its bytes rest on.
    pub(super) evidence: Evidence,
    /// Bytes that arrived; `None`: the calls do not tell.
    pub(super) bytes: Option<u64>,
    /// Those of them that are proven. The flow is exact if that is all of them.
    pub(super) proven_bytes: Option<u64>,
    /// Whether bytes went the same way of which no sample tells whether they were changed.
    pub(super) is_partly_unsampled: bool,
    /// Whether more bytes may have gone the same way: then the figure is a lower bound.
    pub(super) may_be_more: bool,
    /// What became of the bytes in the program's memory.
    pub(super) condition: Condition,
    /// Calls at the source, of a flow whose calls name one end each.
    pub(super) reading: Vec<&'a Row>,
    /// Calls at the destination; calls that name both ends are here.
    pub(super) writing: Vec<&'a Row>,
    /// What calls wrote beside the bytes of other sources. These calls are in the rows of other flows.
    pub(super) parts: Vec<&'a Part>,
    /// Calls that failed, or moved nothing, before these were tried; in their order.
    pub(super) attempts: Vec<&'a Row>,
    /// The ways from pipe to pipe by which the bytes went, from the source to the destination; none, if they went there straight.
    pub(super) hops: Vec<Leg>,
}

/// A way without a stop between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) from: Source,
    pub(super) to: FileId,
    pub(super) api: Api,
    pub(super) evidence: Evidence,
    pub(super) certainty: Certainty,
    pub(super) bytes: Option<u64>,
    pub(super) proven_bytes: Option<u64>,
}

impl Leg {
    /// The flow as a leg of a longer one.
    pub(super) fn of(flow: &Flow<'_>) -> Self {
        let Flow { from, to, api, evidence, bytes, proven_bytes, .. } = *flow;
        Self { from, to, api, evidence, certainty: flow.certainty(), bytes, proven_bytes }
    }

    /// As much of it.
    pub(super) fn with_bytes(self, bytes: u64) -> Self {
        let proven_bytes = if self.certainty == Certainty::Exact { bytes } else { 0 };
        Self { bytes: Some(bytes), proven_bytes: Some(proven_bytes), ..self }
    }
}

/// What is known of bytes while they were in the program's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Condition {
    /// No sample of them differs.
    #[default]
    AsRead,
    /// They were something else when they were written, wherever or almost wherever they were sampled.
    Changed,
    /// Most calls wrote them as they had been read. A sample of the others' differs.
    Replaced,
}

impl<'a> Flow<'a> {
    /// A loop of which nothing is proven.
    pub(super) fn inferred(from: FileId, to: FileId, api: Api, evidence: Evidence, bytes: u64) -> Self {
        let (bytes, proven_bytes) = (Some(bytes), Some(0));
        Self { evidence, bytes, proven_bytes, ..Self::direct(Source::File(from), to, api, Vec::new()) }
    }

    /// A flow by calls that name both ends.
    pub(super) fn direct(from: Source, to: FileId, api: Api, writing: Vec<&'a Row>) -> Self {
        let bytes = sum_bytes(&writing);
        Self {
            from,
            to,
            api,
            evidence: Evidence::Call,
            bytes,
            proven_bytes: bytes,
            is_partly_unsampled: false,
            may_be_more: false,
            condition: Condition::AsRead,
            reading: Vec::new(),
            writing,
            parts: Vec::new(),
            attempts: Vec::new(),
            hops: Vec::new(),
        }
    }

    /// The ways that it went: its hops, or itself.
    pub(super) fn legs(&self) -> impl Iterator<Item = Leg> {
        let own = self.hops.is_empty().then(|| Leg::of(self));
        self.hops.iter().copied().chain(own)
    }

    /// Adds bytes that are not proven.
    pub(super) fn infer(&mut self, bytes: u64, evidence: Evidence, reading: &[&'a Row], writing: &[&'a Row]) {
        self.bytes = self.bytes.and_then(|known| known.checked_add(bytes));
        self.evidence = self.evidence.max(evidence);
        for (rows, more) in [(&mut self.reading, reading), (&mut self.writing, writing)] {
            rows.extend(more.iter().filter(|row| !only_failed(row)));
            // The same reads may have been taken for what is proven.
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(ptr::from_ref::<Row>(row)));
        }
    }

    /// How sure it is. Calls that do not tell their bytes prove what they do all the same.
    pub(super) fn certainty(&self) -> Certainty {
        let is_weak = matches!(self.evidence, Evidence::Order | Evidence::Totals);
        if is_weak || self.may_be_more || self.condition != Condition::AsRead || self.bytes != self.proven_bytes {
            Certainty::Inferred
        } else {
            Certainty::Exact
        }
    }

    /// All its calls but the attempts.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.reading.iter().chain(&self.writing).copied()
    }

    /// Whether its bytes were read into memory and written from there, by calls (or operations) that name one end each.
    pub(super) fn is_loop(&self) -> bool {
        match self.api {
            Api::ReadWrite => true,
            Api::IoUring => self.reading.iter().any(|row| row.ends.output.is_none()),
            _ => false,
        }
    }

    /// The file whose plain reads this flow took its bytes from.
    pub(super) fn read_from(&self) -> Option<FileId> {
        self.from.file().filter(|_| self.is_loop())
    }

    /// The file whose plain writes brought its bytes.
    pub(super) fn written_to(&self) -> Option<FileId> {
        (self.read_from().is_some() || self.api == Api::MmapWrite).then_some(self.to)
    }

    /// When the destination was first written to, as [`Row::order`].
    pub(super) fn order(&self) -> Option<u64> {
        first_order(&self.writing)
    }

    /// When it was written to for the last time, as [`Row::last_order`].
    pub(super) fn last_order(&self) -> Option<u64> {
        last_order(&self.writing)
    }
}

/// The last order among these rows; `None` if one is unknown.
fn last_order(rows: &[&Row]) -> Option<u64> {
    rows.iter().map(|row| row.last_order).reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The sum of what these rows moved; `None` as soon as one does not tell.
pub(super) fn sum_bytes(rows: &[&Row]) -> Option<u64> {
    rows.iter().filter(|row| row.calls > row.errors).map(|row| row.bytes).reduce(|a, b| a?.checked_add(b?)).unwrap_or(Some(0))
}

/// The first order among these rows; `None` if one is unknown.
pub(super) fn first_order(rows: &[&Row]) -> Option<u64> {
    rows.iter().map(|row| row.order).reduce(|a, b| Some(a?.min(b?))).flatten()
}

/// When the first bytes of these rows had moved; `None` if unknown.
pub(super) fn first_moved(rows: &[&Row]) -> Option<u64> {
    rows.iter().filter_map(|row| row.moved_order).min()
}

/// Calls of these rows that moved something.
pub(super) fn moving_calls(rows: &[&Row]) -> u64 {
    rows.iter().map(|row| moving(row)).sum()
}

/// Whether the row is of operations of `io_uring` that moved something.
pub(super) fn is_by_ring(row: &Row) -> bool {
    row.call.as_ring_operation().is_some() && moving(row) > 0
}

fn moving(row: &Row) -> u64 {
    row.calls.saturating_sub(row.errors).saturating_sub(row.zero_calls)
}

/// Whether the row has failed calls alone, and none that a program just makes again.
pub(super) fn only_failed(row: &Row) -> bool {
    row.errors > 0 && row.calls == row.errors && row.errnos.keys().any(|&errno| !is_retry(errno))
}

/// Whether a call that failed so is made again as it was: `EAGAIN`, `EINTR`, and the restarts that only tracers see.
pub(super) fn is_retry(errno: u32) -> bool {
    errno == libc::EAGAIN.unsigned_abs() || errno == libc::EINTR.unsigned_abs() || is_restart(errno)
}
