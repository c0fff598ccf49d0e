//! What a report does not prove of transfers.

use crate::{
    expect::pattern::{EndPattern, Match},
    report::{Certainty, End, Process, Report, Transfer},
    trace::FileKind,
    units::short_bytes,
};

/// What may be untrue of the transfers that an expectation is about, or missing among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unproven {
    /// Whether inferred transfers are taken for granted.
    accepts: bool,
    /// Whether there are inferred ones.
    has_inferred: bool,
    /// Bytes that were written to their destinations and stand in no exact transfer; `None`: unknown.
    bytes: Option<u64>,
}

impl Unproven {
    /// Everything that the report says is taken for granted.
    pub(super) const NONE: Self = Self { accepts: true, has_inferred: false, bytes: Some(0) };

    /// Of the transfers that were chosen, of those within these processes, and of any other to such an end.
    pub(super) fn of(chosen: &[&Transfer], to: &EndPattern, processes: &[&Process], report: &Report) -> Self {
        let has_inferred = chosen.iter().any(|transfer| transfer.certainty == Certainty::Inferred);
        Self { accepts: false, has_inferred, bytes: unproven_bytes(chosen, to, processes, report) }
    }

    /// Whether some of this transfer is proven.
    pub(super) fn is_sure_of(self, transfer: &Transfer) -> bool {
        self.accepts || transfer.certainty == Certainty::Exact || transfer.proven_bytes > Some(0)
    }

    /// Its bytes, as far as they are proven.
    pub(super) fn bytes_of(self, transfer: &Transfer) -> Option<u64> {
        if self.accepts || transfer.certainty == Certainty::Exact { transfer.bytes } else { transfer.proven_bytes }
    }

    /// Whether there may be transfers that the report does not have.
    pub(super) fn may_hide_transfers(self) -> bool {
        self.bytes != Some(0)
    }

    /// How many bytes there may be beyond what is proven; `None`: unknown.
    pub(super) fn more_bytes(self) -> Option<u64> {
        self.bytes
    }

    /// Why a figure is not known for sure, if it is not.
    pub(super) fn why(self) -> Option<String> {
        match self.bytes {
            _ if self.has_inferred => Some("inferred, not proven; inferred = \"accept\" takes it for granted".to_owned()),
            Some(0) => None,
            Some(bytes) => Some(format!("{} that were written there stand in no exact transfer", short_bytes(bytes))),
            None => Some("what was written there is not known".to_owned()),
        }
    }
}

/// Bytes of which an end like this one got nobody knows whose.
fn unproven_bytes(chosen: &[&Transfer], to: &EndPattern, processes: &[&Process], report: &Report) -> Option<u64> {
    let destinations = || processes.iter().flat_map(|process| &process.destinations);
    // A report of an older version has no accounts.
    let mut all = report.processes.iter();
    let has_accounts = report.transfers_exact || all.any(|process| !process.destinations.is_empty()) || wrote_nothing(report);
    let is_meant = |file: Option<&End>| match file {
        Some(end) => carries_bytes(end) && to.matches(end) != Match::No,
        None => true,
    };
    let unproven = destinations().filter(|one| is_meant(one.file.as_ref())).map(|one| {
        let attributed = one.attributed_bytes.saturating_sub(one.proven_bytes);
        Some(one.unattributed_bytes?.saturating_sub(one.memory_bytes).saturating_add(attributed))
    });
    // What came out of a pipe or a connection that some process of the trace fed is from wherever that had it.
    let is_told = |transfer: &Transfer| {
        let passes = |way: &Transfer| way.hops.iter().any(|hop| hop.to == transfer.to && hop.from == transfer.from);
        chosen.iter().any(|way| std::ptr::eq(*way, transfer) || passes(way))
    };
    let is_fed = |transfer: &&&Transfer| is_meant(Some(&transfer.to)) && !is_told(transfer) && is_fed(&transfer.from, report);
    let transfers: Vec<&Transfer> = processes.iter().flat_map(|process| &process.transfers).collect();
    let fed = transfers.iter().filter(is_fed).map(|transfer| transfer.bytes);
    unproven.chain(fed).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?)).filter(|_| has_accounts)
}

fn wrote_nothing(report: &Report) -> bool {
    let mut calls = report.processes.iter().flat_map(|process| process.syscalls.iter().chain(&process.io_uring));
    calls.all(|call| call.bytes == Some(0) || call.calls == 0)
}

/// Whether a process of the trace wrote into what comes out here.
fn is_fed(end: &End, report: &Report) -> bool {
    let is = |kind: FileKind| end.kind.as_deref() == Some(kind.name());
    let unix = [FileKind::UnixStream, FileKind::UnixSeqpacket, FileKind::UnixDatagram];
    let mut written = report.processes.iter().flat_map(|process| &process.destinations).filter_map(|one| one.file.as_ref());
    if is(FileKind::Pipe) {
        written.any(|file| file == end)
    } else if is(FileKind::Tcp) {
        written.any(|file| file.local == end.peer && file.peer == end.local)
    } else {
        unix.into_iter().any(is) && written.any(|file| file.kind == end.kind && file != end)
    }
}

fn carries_bytes(end: &End) -> bool {
    FileKind::ALL.iter().find(|kind| end.kind.as_deref() == Some(kind.name())).is_none_or(|kind| kind.carries_bytes())
}
