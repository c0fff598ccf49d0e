//! [`Flow`]: bytes that went from one end to another within a process, and the rows that show it.

use std::{collections::HashSet, ptr};

use zc_ebpf::is_restart;

use crate::{
    trace::{FileId, Part, Row},
    transfer::{Api, Certainty, Evidence},
};

/// Where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Source {
    /// A file.
    File(FileId),
    /// The program's own memory.
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
    /// The weakest evidence for any of its bytes.
    pub(super) evidence: Evidence,
    /// Bytes that arrived. `None`: the calls do not say.
    pub(super) bytes: Option<u64>,
    /// The part of `bytes` that is proven. A flow can be exact only if this is all of them.
    pub(super) proven_bytes: Option<u64>,
    /// The part of `proven_bytes` that may have been written to the destination before, so that it
    /// may be the same bytes of the source twice.
    pub(super) again_bytes: u64,
    /// Whether some of its bytes were not sampled, or may have been changed by another process, so
    /// that nobody knows whether they were changed.
    pub(super) is_partly_unsampled: bool,
    /// Whether more bytes may have gone from this source to this destination. Then `bytes` is a
    /// lower bound.
    pub(super) may_be_more: bool,
    /// What happened to the bytes in the program's memory.
    pub(super) condition: Condition,
    /// Calls at the source, if the calls of this flow name one end each.
    pub(super) reading: Vec<&'a Row>,
    /// Calls at the destination. Calls that name both ends are here.
    pub(super) writing: Vec<&'a Row>,
    /// What calls wrote together with bytes of other sources. The rows of these calls are in other
    /// flows.
    pub(super) parts: Vec<&'a Part>,
    /// Calls that failed or moved nothing before these calls were tried, in order.
    pub(super) attempts: Vec<&'a Row>,
    /// The steps from the source through pipes to the destination. Empty if no pipe lies between
    /// them.
    pub(super) hops: Vec<Leg>,
}

/// One step of a flow.
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
        let Flow {
            from,
            to,
            api,
            evidence,
            bytes,
            proven_bytes,
            ..
        } = *flow;
        Self {
            from,
            to,
            api,
            evidence,
            certainty: flow.certainty(),
            bytes,
            proven_bytes,
        }
    }

    /// The same leg with another number of bytes.
    pub(super) fn with_bytes(self, bytes: u64) -> Self {
        let proven_bytes = if self.certainty == Certainty::Exact {
            bytes
        } else {
            0
        };
        Self {
            bytes: Some(bytes),
            proven_bytes: Some(proven_bytes),
            ..self
        }
    }
}

/// What is known of the bytes while they were in the program's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Condition {
    /// No sample of them differs.
    #[default]
    AsRead,
    /// They were changed, or others were put in their place: of the bytes in sampled calls, most
    /// are in calls with a sample that differs; or the two streams differ.
    Changed,
    /// Of the bytes in sampled calls, at least half are in calls whose samples all agree. The other
    /// calls wrote something else.
    Replaced,
}

impl<'a> Flow<'a> {
    /// A flow of which nothing is proven.
    pub(super) fn inferred(
        from: FileId,
        to: FileId,
        api: Api,
        evidence: Evidence,
        bytes: u64,
    ) -> Self {
        let (bytes, proven_bytes) = (Some(bytes), Some(0));
        Self {
            evidence,
            bytes,
            proven_bytes,
            ..Self::direct(Source::File(from), to, api, Vec::new())
        }
    }

    /// A flow of calls that name both ends.
    pub(super) fn direct(from: Source, to: FileId, api: Api, writing: Vec<&'a Row>) -> Self {
        let bytes = sum_bytes(&writing);
        Self {
            from,
            to,
            api,
            evidence: Evidence::Call,
            bytes,
            proven_bytes: bytes,
            again_bytes: 0,
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

    /// Its steps: the hops, or the flow itself.
    pub(super) fn legs(&self) -> impl Iterator<Item = Leg> {
        let own = self.hops.is_empty().then(|| Leg::of(self));
        self.hops.iter().copied().chain(own)
    }

    /// Adds bytes that are inferred.
    pub(super) fn infer(
        &mut self,
        bytes: u64,
        evidence: Evidence,
        reading: &[&'a Row],
        writing: &[&'a Row],
    ) {
        self.bytes = self.bytes.and_then(|known| known.checked_add(bytes));
        self.evidence = self.evidence.max(evidence);
        for (rows, more) in [(&mut self.reading, reading), (&mut self.writing, writing)] {
            rows.extend(more.iter().filter(|row| !only_failed(row)));
            // The proven part may already have the same reads.
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(ptr::from_ref::<Row>(row)));
        }
    }

    /// How sure it is. Calls that do not say how many bytes they moved (a reflink) still prove that
    /// they moved them.
    pub(super) fn certainty(&self) -> Certainty {
        let is_weak = matches!(self.evidence, Evidence::Order | Evidence::Totals);
        if is_weak
            || self.may_be_more
            || self.condition != Condition::AsRead
            || self.bytes != self.proven_bytes
        {
            Certainty::Inferred
        } else {
            Certainty::Exact
        }
    }

    /// All its rows except the attempts.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.reading.iter().chain(&self.writing).copied()
    }

    /// Whether the bytes were read into memory and written from there, by calls or io_uring
    /// operations that name one end each.
    pub(super) fn is_loop(&self) -> bool {
        match self.api {
            Api::ReadWrite => true,
            Api::IoUring => self.reading.iter().any(|row| row.ends.output.is_none()),
            _ => false,
        }
    }

    /// The source, if plain reads took the bytes from it.
    pub(super) fn read_from(&self) -> Option<FileId> {
        self.from.file().filter(|_| self.is_loop())
    }

    /// The destination, if plain writes brought the bytes to it.
    pub(super) fn written_to(&self) -> Option<FileId> {
        (self.read_from().is_some() || self.api == Api::MmapWrite).then_some(self.to)
    }

    /// When the destination was first written to, as [`Row::order`].
    pub(super) fn order(&self) -> Option<u64> {
        first_order(&self.writing)
    }

    /// When the destination was last written to, as [`Row::last_order`].
    pub(super) fn last_order(&self) -> Option<u64> {
        last_order(&self.writing)
    }
}

/// The last order of these rows. `None` if one is unknown.
fn last_order(rows: &[&Row]) -> Option<u64> {
    rows.iter()
        .map(|row| row.last_order)
        .reduce(|a, b| Some(a?.max(b?)))
        .flatten()
}

/// A sum with one more figure. `None`: unknown, as it is if either is unknown, or if it does not
/// fit.
pub(crate) fn sum_known(sum: Option<u64>, figure: Option<u64>) -> Option<u64> {
    sum?.checked_add(figure?)
}

/// The bytes that these rows moved. `None` if one of them does not say.
pub(super) fn sum_bytes(rows: &[&Row]) -> Option<u64> {
    rows.iter()
        .filter(|row| row.calls > row.errors)
        .map(|row| row.bytes)
        .fold(Some(0), sum_known)
}

/// The first order of these rows. `None` if one is unknown.
pub(super) fn first_order(rows: &[&Row]) -> Option<u64> {
    rows.iter()
        .map(|row| row.order)
        .reduce(|a, b| Some(a?.min(b?)))
        .flatten()
}

/// When the first call of these rows that moved bytes had returned. `None` if unknown.
pub(super) fn first_moved(rows: &[&Row]) -> Option<u64> {
    rows.iter().filter_map(|row| row.moved_order).min()
}

/// Calls of these rows that moved something.
pub(super) fn moving_calls(rows: &[&Row]) -> u64 {
    rows.iter().map(|row| moving(row)).sum()
}

/// Whether these are io_uring operations that moved something.
pub(super) fn is_by_ring(row: &Row) -> bool {
    row.call.as_ring_operation().is_some() && moving(row) > 0
}

fn moving(row: &Row) -> u64 {
    row.calls
        .saturating_sub(row.errors)
        .saturating_sub(row.zero_calls)
}

/// Whether all calls of the row failed, and not only with errnos that mean "try again".
pub(super) fn only_failed(row: &Row) -> bool {
    row.errors > 0 && row.calls == row.errors && row.errnos.keys().any(|&errno| !is_retry(errno))
}

/// Whether programs simply repeat a call that failed with this errno: `EAGAIN`, `EINTR`, and the
/// restarts that only tracers see.
pub(super) fn is_retry(errno: u32) -> bool {
    errno == libc::EAGAIN.unsigned_abs() || errno == libc::EINTR.unsigned_abs() || is_restart(errno)
}
