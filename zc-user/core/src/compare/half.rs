//! What a command read, or wrote, without a known other end.

use super::api::{Moved, is_worth_it, mean};
use crate::{
    report::{Report, Share, Syscall, Unattributed},
    syscall::{Fds, Spec},
};

/// Which way bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Read,
    Written,
}

/// The bytes that went one way and stand in no transfer.
#[derive(Debug, Clone)]
pub(super) struct Half<'a> {
    pub(super) side: Side,
    shares: Vec<&'a Share>,
    /// Whether some call that goes this way failed: a share counts those, too, and does not say how many.
    some_failed: bool,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "write",
        }
    }

    const fn shares(self, rest: &Unattributed) -> &Vec<Share> {
        match self {
            Self::Read => &rest.read,
            Self::Written => &rest.written,
        }
    }

    fn is_of(self, call: &Syscall) -> bool {
        matches!((self, Spec::of(&call.name).fds), (Self::Read, Fds::Reads(_)) | (Self::Written, Fds::Writes(_)))
    }
}

impl<'a> Half<'a> {
    /// All of a report.
    pub(super) fn of(report: &'a Report, side: Side) -> Self {
        let some_failed = report.totals.syscalls.iter().any(|call| side.is_of(call) && call.errors > 0);
        let shares = report.processes.iter().flat_map(|process| side.shares(&process.unattributed)).collect();
        Self { side, shares, some_failed }
    }

    /// That of the files that are known, or of the others.
    pub(super) fn where_file_is_known(&self, is_known: bool) -> Self {
        let shares = self.shares.iter().copied().filter(|share| share.file.is_some() == is_known).collect();
        Self { shares, ..*self }
    }

    /// All its bytes; `None` if some calls do not tell.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.shares.iter().map(|share| share.bytes).try_fold(0, |sum: u64, bytes| sum.checked_add(bytes?))
    }

    /// Its calls, those that met the end of a file included; `None` if that is not known.
    pub(super) fn calls(&self) -> Option<u64> {
        (!self.some_failed).then(|| self.shares.iter().map(|share| share.calls).sum())
    }

    /// As the name of a call; `None` if there is nothing. How much a call moved is told of the files that most of the bytes are of: a
    /// library of which the loader reads a few bytes is none of them.
    pub(super) fn moved(&self) -> Option<Moved> {
        if self.shares.is_empty() {
            return None;
        }
        let bytes = self.bytes();
        let is_large = |share: &&&Share| is_worth_it(share.bytes, bytes.unwrap_or(0));
        let large = Self { shares: self.shares.iter().filter(is_large).copied().collect(), ..*self };
        let mean_bytes = large.bytes().zip(large.calls()).and_then(|(bytes, calls)| mean(bytes, calls));
        Some(Moved { api: self.side.name(), bytes, mean_bytes })
    }
}
