//! [`Flow`]: bytes that went from one end to another, as the rows that say so.

use crate::{
    report::{Api, Evidence},
    trace::{FileId, Row},
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
    /// How it is known that these bytes are the same at both ends.
    pub(super) evidence: Evidence,
    /// Bytes that arrived; `None`: the calls do not tell.
    pub(super) bytes: Option<u64>,
    /// Calls at the source, of a flow whose calls name one end each.
    pub(super) reading: Vec<&'a Row>,
    /// Calls at the destination; calls that name both ends are here.
    pub(super) writing: Vec<&'a Row>,
    /// Calls that failed, or moved nothing, before these were tried; in their order.
    pub(super) attempts: Vec<&'a Row>,
}

impl<'a> Flow<'a> {
    /// A flow by calls that name both ends.
    pub(super) fn direct(from: Source, to: FileId, api: Api, writing: Vec<&'a Row>) -> Self {
        let bytes = sum_bytes(&writing);
        Self { from, to, api, evidence: Evidence::Calls, bytes, reading: Vec::new(), writing, attempts: Vec::new() }
    }

    /// More of the same bytes.
    pub(super) fn extend(&mut self, bytes: u64, reading: &[&'a Row], writing: &[&'a Row]) {
        self.bytes = self.bytes.and_then(|known| known.checked_add(bytes));
        self.reading.extend(reading);
        self.writing.extend(writing);
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
}

/// The sum of what these rows moved; `None` as soon as one does not tell, or if there is none.
pub(super) fn sum_bytes(rows: &[&Row]) -> Option<u64> {
    rows.iter().filter(|row| row.calls > row.errors).map(|row| row.bytes).reduce(|a, b| a?.checked_add(b?)).unwrap_or(Some(0))
}

/// The first order among these rows; `None` if one is unknown.
pub(super) fn first_order(rows: &[&Row]) -> Option<u64> {
    rows.iter().map(|row| row.order).reduce(|a, b| Some(a?.min(b?))).flatten()
}

/// Calls of these rows that moved something.
pub(super) fn moving_calls(rows: &[&Row]) -> u64 {
    rows.iter().map(|row| moving(row)).sum()
}

fn moving(row: &Row) -> u64 {
    row.calls.saturating_sub(row.errors).saturating_sub(row.zero_calls)
}

/// Whether the row has failed calls alone, and none that a program just makes again.
pub(super) fn only_failed(row: &Row) -> bool {
    row.errors > 0 && row.calls == row.errors && row.errnos.keys().any(|&errno| !is_retry(errno))
}

/// Whether a call that failed so is made again as it was: `EAGAIN`, `EINTR`, and the restarts that only tracers see.
///
/// Source: errno(3); the kernel's `include/linux/errno.h` for 512 (`ERESTARTSYS`) to 514 and 516.
pub(super) fn is_retry(errno: u32) -> bool {
    const RESTARTS: [u32; 4] = [512, 513, 514, 516];
    errno == libc::EAGAIN.unsigned_abs() || errno == libc::EINTR.unsigned_abs() || RESTARTS.contains(&errno)
}
