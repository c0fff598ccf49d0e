//! What the report shows: transfers, and the bytes that are in none.

use std::collections::BTreeMap;

use derive_more::{Deref, DerefMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ends::End, report::Callers, units::is_zero, words::names};

/// Bytes that went from one end to another by one kernel interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// Where the bytes came from.
    pub from: End,
    /// Where they went.
    pub to: End,
    /// The interface that moved them; over several processes, the costliest one.
    pub api: Api,
    /// Of several steps and what joins them, the weakest.
    pub evidence: Evidence,
    /// Of several parts, the weakest.
    pub certainty: Certainty,
    /// Bytes that arrived. `None`: the calls do not say (a reflink).
    pub bytes: Option<u64>,
}

/// Bytes that went from one end to another, with their calls.
#[derive(Debug, Clone, Default, PartialEq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// What went where.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub edge: Edge,
    /// The observed part of `bytes`. The rest is inferred. `None`: as for `bytes`.
    #[serde(default)]
    pub observed_bytes: Option<u64>,
    /// Compared words of the buffers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compared_words: u64,
    /// Compared words that differ.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed_words: u64,
    /// The calls that wrote the bytes or read the source, without `attempts`. `None`: some may
    /// belong to other transfers.
    pub calls: Option<u64>,
    /// `calls` by name; empty if they cannot be divided.
    pub calls_by_syscall: BTreeMap<String, u64>,
    /// What failed before, in order.
    pub attempts: Vec<Attempt>,
    /// Mean bytes of the calls that wrote some. `None`: they also moved other bytes.
    pub mean_bytes: Option<u64>,
    /// `calls` and those of `attempts`. `None`: as for `calls`, and for io_uring.
    pub crossings: Option<u64>,
    /// Bytes through the program's memory. A byte read and written counts twice.
    pub user_memory_bytes: Option<u64>,
    /// Calls that moved less than they asked for.
    pub short_calls: u64,
    /// Calls that returned 0: the end of the source.
    pub zero_calls: u64,
    /// Calls that failed with `EAGAIN`, `EINTR` or `ERESTARTSYS`, by errno.
    pub retries: BTreeMap<String, u64>,
    /// Failed calls not in `attempts` or `retries`, by errno.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Time in these calls. `None`: one was not timed, or it cannot be divided.
    pub total_ns: Option<u64>,
    /// What moved the bytes, and why if known, in a sentence.
    pub verdict: String,
    /// Why this interface was used. `None`: no known rule.
    pub reason: Option<Reason>,
    /// What would be cheaper, and what it costs. `None`: nothing known.
    pub hint: Option<String>,
    /// Who made its sampled calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<Callers>,
    /// The processes: one, or one for each step.
    pub pids: Vec<u32>,
    /// The transfers of which this is a step: indices into
    /// [`Report::transfers`](crate::report::Report::transfers).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part_of: Vec<usize>,
    /// The steps through pipes or connections. Steps of several processes are also transfers of
    /// their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// What merged processes have in common. Ids are those of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// What merged transfers have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// How many these are.
    pub transfers: u64,
    /// The name of their process, or of each step's process. `None`: unknown.
    pub programs: Vec<Option<String>>,
    /// Whether all have these ends. If not, the ends name only kinds.
    pub same_ends: bool,
}

/// Sums over processes that had ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergedProcesses {
    /// Programs that they ran; each run counts.
    pub programs: u64,
    /// What they read, by file. Sums of many files have a kind, but no path.
    pub sources: Vec<SourceTotals>,
    /// What they wrote, as for `sources`.
    pub destinations: Vec<DestinationTotals>,
}

/// One step of a transfer through pipes or connections.
#[derive(Debug, Clone, PartialEq, Eq, Deref, DerefMut, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// The process that moved the bytes.
    pub pid: u32,
    /// What it moved where.
    #[deref]
    #[deref_mut]
    #[serde(flatten)]
    pub edge: Edge,
}

impl Transfer {
    /// The bytes by which transfers are ordered; for a reflink, which moves none, the length of its
    /// source.
    pub fn weight_bytes(&self) -> u64 {
        self.bytes.or(self.from.size).unwrap_or(0)
    }

    /// Whether bytes arrived as they were. If not, some were changed on the way.
    pub fn is_transfer(&self) -> bool {
        self.certainty != Certainty::Changed
    }

    /// How many transfers this is the sum of.
    pub fn transfer_count(&self) -> u64 {
        self.merged.as_ref().map_or(1, |merged| merged.transfers)
    }

    /// Whether several processes took part.
    pub fn crosses_processes(&self) -> bool {
        self.pids.len() > 1
    }
}

names! {
    /// How a transfer was seen, the strongest evidence first.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum Evidence {
        /// One call names both ends.
        #[default]
        Call = "call",
        /// A call wrote memory that a read had filled from the source. Compared words agree.
        Buffer = "buffer",
        /// A call wrote memory that maps the source.
        Mapping = "mapping",
        /// Only addresses match the ends of a TCP connection.
        Addresses = "addresses",
        /// As [`buffer`](Self::Buffer), but the process wrote more of these bytes than it read.
        Reused = "reused",
        /// strace: a thread wrote as many bytes as it had read last, and the shown bytes agree.
        Sequence = "sequence",
        /// Equal sums of the source and the destination are in no other transfer.
        Totals = "totals",
        /// As [`buffer`](Self::Buffer), but some compared words differ. This is no transfer, and in
        /// no sum.
        Changed = "changed",
    }
}

impl Evidence {
    /// How sure it makes a transfer.
    pub const fn certainty(self) -> Certainty {
        match self {
            Self::Call | Self::Buffer | Self::Mapping => Certainty::Observed,
            Self::Addresses | Self::Reused | Self::Sequence | Self::Totals => Certainty::Inferred,
            Self::Changed => Certainty::Changed,
        }
    }
}

names! {
    /// How sure a transfer is.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum Certainty {
        /// Calls, addresses and compared words show it.
        #[default]
        Observed = "observed",
        /// It is likely, at least for some of the bytes.
        Inferred = "inferred",
        /// The program changed some of them on the way.
        Changed = "changed",
    }
}

names! {
    /// A kernel interface that moves bytes.
    #[derive(
        Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum Api {
        /// A loop through user memory, with any such calls.
        #[default]
        #[serde(rename = "read+write")]
        ReadWrite = "read+write",
        /// The source is written from a mapping.
        #[serde(rename = "mmap+write")]
        MmapWrite = "mmap+write",
        /// `sendfile`.
        Sendfile = "sendfile",
        /// `splice`.
        Splice = "splice",
        /// `tee`.
        Tee = "tee",
        /// `vmsplice`.
        Vmsplice = "vmsplice",
        /// `copy_file_range`.
        CopyFileRange = "copy_file_range",
        /// `ioctl(FICLONE)` or `ioctl(FICLONERANGE)`: the files share blocks, no byte moves.
        Reflink = "reflink",
        /// Reads and writes through io_uring.
        IoUring = "io_uring",
    }
}

/// A call that failed before another did the work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// The call.
    pub syscall: String,
    /// The errno, or `0 bytes` if it moved nothing although there was something to move.
    pub errno: String,
    /// How often.
    pub calls: u64,
}

/// A rule that explains why an interface was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The rule, as a clause for the verdict.
    pub text: String,
    /// The rule's source: project, file and version.
    pub source: String,
}

/// What a process read from one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceTotals {
    /// The file. `None`: not identified.
    pub file: Option<End>,
    /// Bytes that it read. `None`: the calls do not say.
    pub read_bytes: Option<u64>,
    /// Calls that read some bytes.
    pub read_calls: u64,
    /// Read bytes in no transfer, if none was written twice. `None`: transfers have more.
    pub kept_bytes: Option<u64>,
    /// Forgotten buffers with its bytes. What was written from them has no known source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forgotten_buffers: u64,
    /// Whether the process mapped it and wrote from memory that may have been mapped
    /// ([`DestinationTotals::unseen_mappings`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_mapped: bool,
}

/// What a process wrote to one file. In bytes and in calls, `written` is `transferred` plus
/// `own_memory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DestinationTotals {
    /// The file. `None`: not identified.
    pub file: Option<End>,
    /// Bytes that it wrote. `None`: the calls do not say.
    pub written_bytes: Option<u64>,
    /// Calls that wrote some bytes.
    pub written_calls: u64,
    /// Bytes in transfers.
    pub transferred_bytes: u64,
    /// Calls that wrote some of these, perhaps with other bytes.
    pub transferred_calls: u64,
    /// Bytes in no transfer. Without [`Report::sees_memory`](crate::report::Report::sees_memory)
    /// their source is unknown. `None`: the calls do not say.
    pub own_memory_bytes: Option<u64>,
    /// Calls without bytes of a transfer.
    pub own_memory_calls: u64,
    /// The part of `own_memory_bytes` from buffers that reads filled.
    #[serde(default, rename = "changed", skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferTotals>,
    /// Calls that wrote from memory that may be a mapping. Their bytes have no known source.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen_mappings: u64,
}

/// Bytes in no transfer, written from buffers that a file was read into.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferTotals {
    /// The file read into the buffers.
    pub from: End,
    /// The sum of `same_bytes`, `changed_bytes`, `other_use_bytes` and `uncompared_bytes`. A byte
    /// counts each time that it is written.
    pub bytes: u64,
    /// Bytes whose compared words agree.
    #[serde(default)]
    pub same_bytes: u64,
    /// Bytes with a different word, not written there since they were read.
    #[serde(default)]
    pub changed_bytes: u64,
    /// As `changed_bytes`, but written there since: the memory was used for something else.
    #[serde(default)]
    pub other_use_bytes: u64,
    /// Bytes of which no word was compared.
    #[serde(default)]
    pub uncompared_bytes: u64,
    /// Words that were compared.
    #[serde(default)]
    pub compared_words: u64,
    /// Compared words that differ.
    #[serde(default)]
    pub changed_words: u64,
    /// Calls that wrote some of these bytes.
    pub calls: u64,
}
