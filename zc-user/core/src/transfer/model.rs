//! Which bytes went from where to where, as the analysis finds it and the report shows it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// Bytes that went from one end to another by one kernel interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Where they came from.
    pub from: End,
    /// Where they went.
    pub to: End,
    /// The kernel interface that did it.
    pub api: Api,
    /// How it is known that these bytes went from the one end to the other: the weakest evidence that [`bytes`](Self::bytes) rests on.
    /// `None`: a report of an older version.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// How sure that is. A report of an older version, which did not tell, proved nothing.
    #[serde(default)]
    pub certainty: Certainty,
    /// Bytes that arrived: to the byte if the transfer is exact, at least so many if it is inferred. `None`: the calls do not tell.
    pub bytes: Option<u64>,
    /// Those of them that calls, memory or a mapping prove: all of an exact transfer. `None`: the calls do not tell.
    #[serde(default)]
    pub proven_bytes: Option<u64>,
    /// Calls that took part, failed ones and those that met the end of the source included; those of `attempts` are not. Calls that
    /// served several transfers, such as the reads of a source with several destinations, are shared among these by their bytes and
    /// rounded down; so are the other figures. A call that wrote bytes of several files at once counts in each of their transfers.
    pub calls: u64,
    /// The same, call by call. An operation of io_uring is named `io_uring:read`.
    pub calls_by_syscall: BTreeMap<String, u64>,
    /// What was tried before and failed, in this order.
    pub attempts: Vec<Attempt>,
    /// Bytes for each call that moved some at the destination.
    pub mean_bytes: Option<u64>,
    /// Times that the program went into the kernel and back for this transfer: its system calls, and those of `attempts`. `None` of
    /// io_uring: the calls of `io_uring_enter` that submit operations belong to no transfer alone.
    pub crossings: Option<u64>,
    /// Bytes that passed through the program's own memory, once for each time they were copied there or from there.
    pub user_memory_bytes: Option<u64>,
    /// Calls that moved less than they asked for.
    pub short_calls: u64,
    /// Calls that returned 0: the end of the source, or a probe for it.
    pub zero_calls: u64,
    /// Calls that failed and were made again, by errno: `EAGAIN`, `EINTR`, `ERESTARTSYS`.
    pub retries: BTreeMap<String, u64>,
    /// Calls that failed otherwise, by errno.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Time in these calls, ns.
    pub total_ns: Option<u64>,
    /// One sentence: what did it, and why, where the reason is known.
    pub verdict: String,
    /// Why this interface was chosen, where a known rule says so.
    pub reason: Option<Reason>,
    /// What would be cheaper, and what it costs; `None`: nothing is known.
    pub hint: Option<String>,
    /// The processes that took part, if they are several: one for each part of the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The way that the bytes went, if it led through pipes or connections: from hop to hop. Hops of one process are in no other
    /// transfer; hops of several processes are transfers of these, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
}

/// A part of the way of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// The process that moved the bytes.
    pub pid: u32,
    /// Where they came from.
    pub from: End,
    /// Where they went.
    pub to: End,
    /// The kernel interface that did it.
    pub api: Api,
    /// Bytes that arrived, as [`Transfer::bytes`].
    pub bytes: Option<u64>,
    /// Those of them that are proven.
    pub proven_bytes: Option<u64>,
    /// How it is known.
    pub evidence: Evidence,
    /// How sure that is.
    pub certainty: Certainty,
}

impl Transfer {
    /// Its bytes for a person: `5.0 MiB`, or `at least 4.7 MiB`. `None`: the calls do not tell.
    pub fn amount(&self) -> Option<String> {
        Some(match self.certainty {
            Certainty::Exact => units::bytes(self.bytes?),
            Certainty::Inferred => format!("at least {}", units::least_bytes(self.bytes?)),
        })
    }

    /// Whether this transfer, within the process `pid`, is a part of the way of another over several processes.
    pub fn is_hop_of(&self, pid: u32, way: &Self) -> bool {
        let hops = || way.hops.iter().filter(|hop| hop.pid == pid);
        let is_hop = |from: &End, to: &End, api| hops().any(|hop| hop.from == *from && hop.to == *to && hop.api == api);
        if self.hops.is_empty() {
            is_hop(&self.from, &self.to, self.api)
        } else {
            self.hops.iter().all(|hop| is_hop(&hop.from, &hop.to, hop.api))
        }
    }

    /// What an inferred transfer rests on: `3.6 MiB of it proven, the rest inferred from the order of calls`; or, of a lower bound that is
    /// proven as a whole, that. `None`: it is exact.
    pub fn doubt(&self) -> Option<String> {
        if self.certainty == Certainty::Exact {
            return None;
        }
        let inferred = match self.evidence {
            Some(Evidence::Order) => "inferred from the order of calls",
            Some(Evidence::Totals) => "inferred from equal byte counts",
            Some(Evidence::Memory | Evidence::Mapping) => "inferred from the memory that the calls used",
            Some(Evidence::Call) | None => "inferred",
        };
        Some(match self.proven_bytes {
            Some(1..) if self.proven_bytes == self.bytes => "all of it proven, but there may be more".to_owned(),
            Some(proven @ 1..) => format!("{} of it proven, the rest {inferred}", units::least_bytes(proven)),
            _ => inferred.to_owned(),
        })
    }
}

/// One end of a transfer. `None` (`null`): the backend cannot know.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// What it is: see [`FileKind::name`](crate::trace::FileKind::name).
    pub kind: Option<String>,
    /// The type of its filesystem.
    pub fs: Option<String>,
    /// Its path, relative to the directory that the command was launched in if it lies below; of a Unix socket, the address.
    pub path: Option<String>,
    /// Length in bytes when it was first used.
    pub size: Option<u64>,
    /// Of a socket: the `HOST:PORT` of its own end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Of a socket: the `HOST:PORT` of the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Device and inode, as `stat` tells them; of btrfs, eBPF tells the device of the filesystem, and `stat` that of the subvolume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<Inode>,
}

impl End {
    /// The kind of an end that is no file: the program's own memory (of `vmsplice`).
    pub const MEMORY: &str = "memory";
}

/// Which file it is, beyond its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Inode {
    /// Device number of the filesystem.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

/// How it is known that bytes went from one end to another, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Calls name both ends.
    #[serde(alias = "calls")]
    Call,
    /// What was written lay in memory where it had been read to, and nothing was seen to fill that memory in between.
    Memory,
    /// What was written lay in memory that the source is mapped to.
    Mapping,
    /// A thread read and then wrote, in turn. The backend does not see memory, or the program copied the bytes within it (or changed
    /// them).
    Order,
    /// As many bytes were read as written.
    Totals,
}

impl Evidence {
    /// The name in reports, the same as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Memory => "memory",
            Self::Mapping => "mapping",
            Self::Order => "order",
            Self::Totals => "totals",
        }
    }
}

/// How sure it is that bytes went from one end to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The bytes went there, as many as the figure says.
    Exact,
    /// Something speaks for it, and the figure is a lower bound.
    #[default]
    Inferred,
}

impl Certainty {
    /// The name in reports, the same as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
        }
    }
}

/// A kernel interface that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Api {
    /// Any loop through user memory, whichever read- and write-like calls it uses.
    #[serde(rename = "read+write")]
    ReadWrite,
    /// The source mapped, and written from there.
    #[serde(rename = "mmap+write")]
    MmapWrite,
    /// `sendfile`.
    #[serde(rename = "sendfile")]
    Sendfile,
    /// `splice`.
    #[serde(rename = "splice")]
    Splice,
    /// `tee`.
    #[serde(rename = "tee")]
    Tee,
    /// `vmsplice`.
    #[serde(rename = "vmsplice")]
    Vmsplice,
    /// `copy_file_range`.
    #[serde(rename = "copy_file_range")]
    CopyFileRange,
    /// `ioctl(FICLONE)` or `ioctl(FICLONERANGE)`: the files share their blocks, no byte is moved.
    #[serde(rename = "reflink")]
    Reflink,
    /// Reads and writes through an io_uring.
    #[serde(rename = "io_uring")]
    IoUring,
}

impl Api {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::ReadWrite,
        Self::MmapWrite,
        Self::Sendfile,
        Self::Splice,
        Self::Tee,
        Self::Vmsplice,
        Self::CopyFileRange,
        Self::Reflink,
        Self::IoUring,
    ];

    /// The name in reports, the same as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "read+write",
            Self::MmapWrite => "mmap+write",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Tee => "tee",
            Self::Vmsplice => "vmsplice",
            Self::CopyFileRange => "copy_file_range",
            Self::Reflink => "reflink",
            Self::IoUring => "io_uring",
        }
    }
}

/// A call that was tried and failed before another did the work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// The call.
    pub syscall: String,
    /// How it failed: the errno's name, or [`NOTHING_MOVED`](Self::NOTHING_MOVED) if it returned 0 although there was something to move.
    pub errno: String,
    /// How often.
    pub calls: u64,
}

impl Attempt {
    /// Stands for an errno where a call returned 0, as `copy_file_range` does for files of procfs.
    pub const NOTHING_MOVED: &str = "0 bytes";
}

/// A rule that explains a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// The rule in one clause: it follows the facts and a colon.
    pub text: String,
    /// Where it is written: project, file and version.
    pub source: String,
}

/// Bytes that a process read or wrote and that stand in no transfer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    /// Files that were read without a known destination, those with the most bytes first.
    pub read: Vec<Share>,
    /// Files that were written without a known source, likewise.
    pub written: Vec<Share>,
}

/// Some bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The file; `None`: it was not identified.
    pub file: Option<End>,
    /// Bytes; `None`: the calls do not tell (`recvmmsg`).
    pub bytes: Option<u64>,
    /// Calls that moved some of these bytes and took part in no transfer.
    pub calls: u64,
    /// Calls that took part in transfers and may have moved some of these bytes besides: a header before what was copied, say.
    #[serde(default)]
    pub partly_attributed_calls: u64,
}

/// All that a process read from one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceTotals {
    /// The file; `None`: it was not identified.
    pub file: Option<End>,
    /// Bytes that it read; `None`: the calls do not tell.
    pub read_bytes: Option<u64>,
    /// Calls that read some.
    pub read_calls: u64,
    /// At most so many of these bytes were written on, once or more often, as far as transfers tell: bytes that were written twice are
    /// not told from others. The rest of `read_bytes` stands in no transfer.
    pub written_on_bytes: Option<u64>,
}

/// All that a process wrote to one file: in bytes and in calls, `written` is `attributed` plus `unattributed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DestinationTotals {
    /// The file; `None`: it was not identified.
    pub file: Option<End>,
    /// Bytes that it wrote; `None`: the calls do not tell.
    pub written_bytes: Option<u64>,
    /// Calls that wrote some.
    pub written_calls: u64,
    /// Bytes that stand in transfers.
    pub attributed_bytes: u64,
    /// Calls that wrote some of those; they may have written others besides.
    pub attributed_calls: u64,
    /// Those of `attributed_bytes` that are proven.
    pub proven_bytes: u64,
    /// Bytes that stand in no transfer; `None`: the calls do not tell.
    pub unattributed_bytes: Option<u64>,
    /// Calls that wrote nothing that stands in a transfer.
    pub unattributed_calls: u64,
    /// Those of `unattributed_bytes` that are known to come from the program's own memory.
    pub memory_bytes: u64,
}
