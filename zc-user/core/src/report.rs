//! [`Report`]: the versioned model that is written as JSON and read by every renderer. It is derived from a
//! [`Trace`](crate::trace::Trace) without I/O.

mod conservation;
mod files;
mod fold;
mod query;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod sort;

use std::collections::{BTreeMap, BTreeSet};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

pub use files::{FileCalls, FileTotals};
pub use fold::{Detail, Files, Options};
pub use query::{Calls, Processes, QueryError, SyscallName};
pub use sort::SortKey;

use crate::syscall::{Selection, covers};

pub use crate::transfer::{
    Api, Attempt, Certainty, DestinationTotals, End, Evidence, Hop, Inode, Reason, Share, SourceTotals, Transfer, Unattributed,
};

/// The version of the JSON. Within a version no field changes its meaning.
pub const SCHEMA: u32 = 1;

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Which tool wrote this.
    pub tool: Tool,
    /// The command as it was launched.
    pub command: Vec<String>,
    /// Where it was launched: relative paths in the report start there. `None`: unknown.
    #[serde(default)]
    pub directory: Option<String>,
    /// Name of the backend.
    pub backend: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Machine architecture.
    pub arch: Option<String>,
    /// When the command was launched, RFC 3339.
    pub started_at: Option<String>,
    /// From the command's successful exec to its end.
    pub wall_ns: Option<u64>,
    /// How the command ended.
    pub exit: Exit,
    /// Whether every count is exact. If not, counts are lower bounds, and `losses` says why. For transfers see `transfers_exact`.
    pub exact: bool,
    /// Whether every byte that counted calls wrote is in an exact transfer, or is known to come from the program's own memory, and no loss
    /// touches transfers. Always false in reports of older versions.
    #[serde(default)]
    pub transfers_exact: bool,
    /// How numbers were lost, and how often. Losses that did not happen are left out.
    pub losses: BTreeMap<String, u64>,
    /// What the report lacks without being wrong, each a sentence.
    pub notes: Vec<String>,
    /// The processes, in the order in which they were created.
    pub processes: Vec<Process>,
    /// Transfers that cross processes.
    #[serde(default)]
    pub transfers: Vec<Transfer>,
    /// Counted calls on files for whose files there was no room. If there are any, transfers and files are lower bounds.
    #[serde(default)]
    pub calls_without_files: u64,
    /// Which calls were counted. A counted call without a row was not made. `None`: unknown.
    #[serde(default)]
    pub counted: Option<Counted>,
    /// Every file, those with the most bytes first, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileTotals>,
    /// Sums over all processes.
    pub totals: Totals,
}

/// Which tool wrote a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// This one.
    pub(crate) fn zctrace() -> Self {
        // All packages of the workspace have the same version.
        Self { name: "zctrace".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// How the command ended: one of the two, or neither while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// Its exit status.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its creator's process id.
    pub ppid: Option<u32>,
    /// Its name.
    pub comm: Option<String>,
    /// Path of its program, as given to `execve`.
    pub exe: Option<String>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// `exited` or `running`.
    pub state: State,
    /// How many threads it had over its life.
    pub threads: u64,
    /// Its CPU time, switches and faults.
    #[serde(flatten)]
    pub usage: Usage,
    /// Its calls.
    pub syscalls: Vec<Syscall>,
    /// What io_uring did for it, by operation. These are not system calls, and have no times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub io_uring: Vec<Syscall>,
    /// Bytes that went from one file to another within it.
    #[serde(default)]
    pub transfers: Vec<Transfer>,
    /// Every file that it read, and how much of that it passed on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceTotals>,
    /// Every file that it wrote, and how much of that is in transfers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<DestinationTotals>,
    /// Bytes that it read or wrote and that are in no transfer.
    #[serde(default)]
    pub unattributed: Unattributed,
    /// Its calls by file, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_calls: Option<Vec<FileCalls>>,
    /// Its calls by thread, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_thread: Vec<Thread>,
}

/// One thread's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its name.
    pub comm: Option<String>,
    /// Its CPU time, switches and faults.
    #[serde(flatten)]
    pub usage: Usage,
    /// Its calls.
    pub syscalls: Vec<Syscall>,
}

/// Whether a process had ended when the trace did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It had ended.
    Exited,
    /// It was still running, and is counted up to then.
    Running,
}

/// CPU time, context switches and page faults. `None` (`null`): the backend cannot know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: Option<u64>,
    /// CPU time in the kernel.
    pub system_ns: Option<u64>,
    /// Context switches.
    pub context_switches: ContextSwitches,
    /// Page faults.
    pub page_faults: PageFaults,
}

/// Context switches by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextSwitches {
    /// The task waited.
    pub voluntary: Option<u64>,
    /// Its time slice ended, or a more urgent task was ready.
    pub involuntary: Option<u64>,
}

/// Page faults by cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageFaults {
    /// Served without I/O.
    pub minor: Option<u64>,
    /// Waited for I/O.
    pub major: Option<u64>,
}

/// The sums of one call. `None` (`null`): unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Syscall {
    /// Its name.
    pub name: String,
    /// Its ABI: `x86_64`, `i386`, `x32`, `aarch64`, `arm`.
    pub abi: String,
    /// How often it returned.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// The errors by errno name.
    pub errnos: BTreeMap<String, u64>,
    /// How often it never returned.
    pub unfinished: u64,
    /// Bytes that it returned as moved.
    pub bytes: Option<u64>,
    /// Bytes that it asked for.
    pub requested_bytes: Option<u64>,
    /// Sum of the times from entry to exit.
    pub total_ns: Option<u64>,
    /// Shortest time.
    pub min_ns: Option<u64>,
    /// Longest time.
    pub max_ns: Option<u64>,
    /// Mean of the timed calls.
    pub mean_ns: Option<u64>,
    /// Median, at most 6.25 % off.
    pub p50_ns: Option<u64>,
    /// 90th percentile, likewise.
    pub p90_ns: Option<u64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<u64>,
}

/// Sums over all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// How many processes there were.
    pub processes: u64,
    /// How many threads they had.
    pub threads: u64,
    /// The calls of all processes.
    pub syscalls: Vec<Syscall>,
    /// CPU time, switches and faults; `None` if those of one process are unknown.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Which calls a run counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Every one.
    All,
    /// Those of these names.
    Names(BTreeSet<String>),
}

impl Counted {
    /// The calls of a selection.
    pub(super) fn of(selection: &Selection) -> Self {
        match selection {
            Selection::All => Self::All,
            Selection::Names(names) => Self::Names(names.iter().map(|&name| name.to_owned()).collect()),
        }
    }

    /// Whether calls of this name were counted.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => covers(name, |name| names.contains(name)),
        }
    }
}

/// The JSON Schema (draft 2020-12) of a report as this version writes it. It lets fields pass that it does not know: new ones may come.
pub fn schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), format!("zctrace report, schema {SCHEMA}").into());
    schema
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn counted_calls_are_all_or_a_list_in_json() {
        let json =
            |selection: &str| serde_json::to_string(&Counted::of(&selection.parse().expect("a selection"))).expect("is data");
        assert_eq!(json("all"), r#""all""#);
        assert_eq!(json("write,read"), r#"{"names":["read","write"]}"#);
    }

    #[test]
    fn counting_ioctl_counts_its_variants() {
        let counted = |selection: &str| Counted::of(&selection.parse().expect("a selection"));
        assert!(counted("ioctl").contains("ioctl(FICLONE)"));
        assert!(counted("%data").contains("ioctl(FICLONE)") && !counted("%data").contains("ioctl"));
    }

    /// `ZC_UPDATE_GOLDEN=1 cargo test -p zctrace-core schema` updates it. Removing or changing a field needs a new version.
    #[test]
    fn the_schema_is_the_published_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/report.schema.json");
        let found = serde_json::to_string_pretty(&schema()).expect("every key is a string") + "\n";
        if std::env::var_os("ZC_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).expect("can be written");
        }
        assert!(fs::read_to_string(&path).expect("is there") == found, "{} is out of date", path.display());
    }
}
