//! The types that the eBPF programs and user space share.

mod call;
mod events;
mod failed_path;
mod file;
pub mod histogram;
mod kernel_fields;
pub mod records;
mod row;
mod task;

pub use call::*;
pub use events::{ARGS_BYTES, COMM_BYTES, Counters, EXE_BYTES, Ended, EventHeader, Exec, event_kind};
pub use failed_path::{FailedPath, PATH_BYTES, UNKNOWN_PATH};
pub use file::{
    CHANGED, Ends, FILESYSTEM_BYTES, FROM_BUFFER, FileKey, FileNumber, FileSeen, KnownFile, MAPPED, NAME_BYTES, NAMES_BYTES,
    NO_ROOM, STREAM_FILES, UNSAMPLED, path_end, reported, stream_slot,
};
pub use histogram::{BUCKETS, bucket_of};
pub use kernel_fields::{ABSENT, KernelFields};
#[cfg(feature = "user")]
pub use kernel_fields::{Field, GROUPS, Group, Need, Place};
pub use row::{ErrnoKey, OtherCalls, Part, Row, RowKey};
pub use task::{Arguments, Descriptor, Interrupted, Mapping, Outcome, Task, hook, other, phase};
