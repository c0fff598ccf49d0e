//! Profiles: which system calls a command may make. One is written from a report, and a report is
//! held against one.
//!
//! A profile that was made from a run is evidence of that run. Another one may need more calls, and
//! nothing that it allows is safe for that reason.
//!
//! [`CallProfile`] reads a seccomp profile of the OCI (`seccomp.rs`) or the lines of a systemd unit
//! (`systemd.rs`), which may also say where it writes (`places.rs`) and which sockets it makes
//! (`families.rs`). [`written`] makes both.

mod families;
mod judge;
mod places;
mod seccomp;
mod systemd;
pub mod written;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::{report::Report, syscalls::Abi};

pub use systemd::CallGroups;

use families::SocketFamilies;
use places::WritablePlaces;

/// What a profile allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallProfile {
    /// Whether it has rules for calls.
    judges_calls: bool,
    /// Where the command may write; `None`: everywhere.
    places: Option<WritablePlaces>,
    /// Which sockets it may make; `None`: all.
    families: Option<SocketFamilies>,
    /// What happens to a call that no rule names.
    default: CallRule,
    /// The rule of each named call.
    rules: BTreeMap<String, CallRule>,
    /// The names of the ABIs whose calls may be allowed. `None`: all.
    abis: Option<BTreeSet<String>>,
}

/// What a profile does with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CallRule {
    /// It lets the kernel carry out the call.
    Allows,
    /// It makes the call fail, or kills who made it.
    Denies,
    /// Something decides that a report does not know, in words: "its arguments".
    Depends(&'static str),
}

/// Why a profile cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    /// It looks like JSON, but is no profile.
    #[error("it is not a seccomp profile: {0}")]
    NotSeccomp(String),
    /// It has no such line.
    #[error(
        "it is neither a seccomp profile (JSON) nor a systemd unit with SystemCallFilter=, RestrictAddressFamilies= or ProtectSystem="
    )]
    NoFilter,
    /// An action that the specification does not have.
    #[error("'{0}' is not an action of seccomp, such as SCMP_ACT_ERRNO")]
    UnknownAction(String),
    /// An architecture that the specification or systemd does not have.
    #[error("zctrace does not know the architecture '{0}'")]
    UnknownArchitecture(String),
    /// A group that systemd does not have.
    #[error("systemd-analyze does not know the group '{0}'")]
    UnknownGroup(String),
    /// The members of groups are needed, but unknown.
    #[error("only systemd-analyze knows which calls '{0}' has: install systemd")]
    NoGroups(String),
}

impl CallProfile {
    /// Reads a profile: JSON of the OCI, or lines of a systemd unit. For these, `groups` finds the
    /// named sets of calls of this machine's systemd, if it is installed. `native` is the ABI of the
    /// machine that the profile is for.
    pub fn parse(
        text: &str,
        native: &str,
        groups: impl FnOnce() -> Option<CallGroups>,
    ) -> Result<Self, ProfileError> {
        if text.trim_start().starts_with('{') {
            seccomp::parse(text, native)
        } else {
            systemd::parse(text, native, groups().as_ref())
        }
    }

    /// Whether it is held against [`Report::touched`].
    pub const fn needs_touches(&self) -> bool {
        self.places.is_some() || self.families.is_some()
    }

    /// What it does with a call of this name and ABI.
    fn rule(&self, name: &str, abi: &str) -> &CallRule {
        match &self.abis {
            Some(abis) if !abis.contains(abi) => &CallRule::Denies,
            _ => self.rules.get(name).unwrap_or(&self.default),
        }
    }
}

/// The ABI of 64-bit programs on the machine of a report; if unknown, on this one.
pub fn native_abi(report: &Report) -> &str {
    report.arch.as_deref().unwrap_or(Abi::NATIVE.name())
}

#[cfg(test)]
mod profile_tests;
