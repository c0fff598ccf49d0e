//! [`Syncs`]: what the report says of syncs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{event::SyncResult, timeline::TimelineEvent};
use crate::units::is_zero;

/// Which files were changed, and whether they were synced in order (`--syncs`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Syncs {
    /// Files and directories changed, made, moved or removed.
    pub changed: u64,
    /// Those of `changed` that were synced in order.
    pub in_order: u64,
    /// Those of `changed` with an unknown verdict.
    pub unknown: u64,
    /// All syncs.
    pub sums: SyncSums,
    /// Those changed or synced, those not synced in order first.
    pub files: Vec<FileSyncs>,
    /// What was not synced in order at marks, by name.
    pub marks: Vec<SyncMoment>,
    /// What was not synced in order at output, by where it went: `stdout`, `tcp`.
    pub told: Vec<SyncMoment>,
    /// The syncs by program, most first.
    pub programs: Vec<ProgramSyncs>,
    /// Why all verdicts are unknown, each a sentence.
    pub doubts: Vec<String>,
}

/// What became of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSyncs {
    /// Its path at the end of the run; empty for the syncs of everything (`sync`).
    pub path: String,
    /// Whether it was changed, made, moved or removed, not only synced.
    pub changed: bool,
    /// Whether it was synced in order.
    pub verdict: SyncVerdict,
    /// Why it was not, or is unknown. Left out: it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Calls that changed its content.
    pub calls: u64,
    /// Bytes that `calls` wrote.
    pub bytes: u64,
    /// The last change that was not synced in order, or may not have been. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsynced_change: Option<FileChange>,
    /// Its syncs.
    pub syncs: SyncSums,
    /// When it was changed and synced. Empty: unknown, or one of many files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineEvent>,
    /// How many events followed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeline_left_out: u64,
}

/// A change of a file or of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The call.
    pub call: String,
    /// The program that made it. `None`: unknown.
    pub program: Option<String>,
    /// With `--callers`: the functions that made the sampled calls of this name on this file; of a
    /// call with a row and a path (`-e rename`), on any file. Left out: unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// Unsynced bytes.
    pub unsynced_bytes: u64,
    /// When it was made, from the beginning of the run. `None`: unknown.
    pub at_ns: Option<u64>,
    /// How long before the end. `None`: unknown.
    pub age_ns: Option<u64>,
}

/// Whether a file was synced in order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SyncVerdict {
    /// A sync of it failed, and the program went on.
    FailedSync,
    /// Its content or its name was not synced.
    NotSynced,
    /// It was moved before its content was synced.
    MovedUnsynced,
    /// It is unknown.
    Unknown,
    /// All rules hold.
    InOrder,
}

impl SyncVerdict {
    /// The verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::FailedSync => "sync failed",
            Self::NotSynced => "not synced",
            Self::MovedUnsynced => "moved unsynced",
            Self::Unknown => "unknown",
            Self::InOrder => "in order",
        }
    }
}

/// Sums over syncs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncSums {
    /// How many returned.
    pub count: u64,
    /// How many had nothing to do.
    pub wasted: u64,
    /// Syncs that failed, or could not sync their file.
    pub failed: u64,
    /// How long they took. `None`: unknown.
    pub ns: Option<u64>,
}

impl SyncSums {
    /// One sync.
    pub(super) fn of_one_sync(is_wasted: bool, result: SyncResult, ns: Option<u64>) -> Self {
        let has_failed = result != SyncResult::Succeeded;
        Self {
            count: 1,
            wasted: u64::from(is_wasted && !has_failed),
            failed: u64::from(has_failed),
            ns,
        }
    }

    pub(super) fn add_sums(&mut self, more: &Self) {
        let is_first = self.count == 0;
        self.ns = match (self.ns, more.ns) {
            (_, ns) if is_first => ns,
            (sum, _) if more.count == 0 => sum,
            (Some(sum), Some(ns)) => sum.checked_add(ns),
            _ => None,
        };
        self.count += more.count;
        self.wasted += more.wasted;
        self.failed += more.failed;
    }
}

/// The syncs of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramSyncs {
    /// Its name; empty: unknown.
    pub program: String,
    /// Its syncs.
    pub syncs: SyncSums,
}

/// What was not synced in order at moments of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncMoment {
    /// The name of the mark, or where output went.
    pub name: String,
    /// How often.
    pub count: u64,
    /// First time, from the beginning of the run. `None`: unknown.
    pub first_ns: Option<u64>,
    /// What was not synced in order, or is unknown, at one of them.
    pub files: Vec<MomentFile>,
    /// How many more files there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// A file not synced in order at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MomentFile {
    /// Its path at that moment.
    pub path: String,
    /// How it stood.
    pub verdict: SyncVerdict,
    /// Why.
    pub why: String,
    /// First time, from the beginning of the run. `None`: unknown.
    pub first_ns: Option<u64>,
}
