//! The subject of a figure, as expectations name it before the dot.

use super::pattern::EndPattern;
use crate::figures::list::Group;
pub(super) use crate::figures::list::{Field, Unit};

/// The subject of a figure, which is named before the dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// One system call, whatever its ABI.
    Call(String),
    /// A class of calls, without its `%`.
    Class(String),
    /// Every call that was counted.
    AllCalls,
    /// A group of figures of the run as a whole.
    Run(Group),
    /// Transfers between these ends.
    Transfer(EndPattern, EndPattern),
}

/// The word for transfers.
pub(super) const TRANSFER: &str = "transfer";

/// The word for all calls.
const ALL_CALLS: &str = "syscalls";

/// The names of the subjects that are neither calls nor transfers.
pub(super) fn aggregates() -> impl Iterator<Item = &'static str> {
    let of_run = Group::OF_RUN.into_iter().map(|(name, _)| name);
    std::iter::once(ALL_CALLS).chain(of_run)
}

impl Subject {
    /// The aggregate of this name.
    pub(super) fn aggregate(name: &str) -> Option<Self> {
        if name == ALL_CALLS {
            return Some(Self::AllCalls);
        }
        let mut groups = Group::OF_RUN.into_iter();
        let (_, group) = groups.find(|(known, _)| *known == name)?;
        Some(Self::Run(group))
    }

    /// The group of its figures.
    pub(super) const fn group(&self) -> Group {
        match self {
            Self::Call(_) | Self::Class(_) | Self::AllCalls => Group::Calls,
            Self::Run(group) => *group,
            Self::Transfer(..) => Group::Transfers,
        }
    }
}
