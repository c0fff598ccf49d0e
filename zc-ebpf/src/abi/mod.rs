//! The types that the eBPF programs and user space share.

mod call;
mod caller_samples;
mod events;
mod file;
pub mod histogram;
mod kernel_fields;
pub mod records;
mod row;
mod syncs;
mod task;
mod touches;

use zerocopy::FromZeros;

pub use call::*;
pub use caller_samples::{
    CHUNK_BYTES, CodeMapped, MAX_CHUNKS, SAMPLE_REGISTERS, SampleHeader, SampledCall, SpaceCopied,
    StackSample, sample_kind,
};
pub use events::{
    ARGS_BYTES, COMM_BYTES, EXE_BYTES, Ended, EventHeader, Exec, Fault, HeldDescriptor,
    NO_DESCRIPTOR, Replaced, SlowCallEvent, TaskCounters, event_kind,
};
pub use file::{
    FILESYSTEM_BYTES, FileKey, FileNumber, FileRoom, FileSeen, How, KnownFile, NAME_BYTES,
    NAMES_BYTES, NO_ROOM, NumberedEnds, ODD_GENERATION, Origin, WordCounts, is_room_low, path_end,
    reported,
};
pub use histogram::{BUCKETS, bucket_of};
pub use kernel_fields::{ABSENT, KernelFields};
#[cfg(feature = "user")]
pub use kernel_fields::{Field, FieldGroup, FieldPlace, GROUPS, Need};
pub use row::{
    BusyRow, Epoch, FEW_CALLS, GivenText, INTERNET_ADDRESS, NEAR_BUSY_ROWS_OF_EPOCH, NearBusyRow,
    OTHER_CALLS_BLOCKS, OTHER_CALLS_IN_BLOCK, OtherCallSums, OtherCallsBlock, PATH_BYTES, PathKey,
    PathSums, Row, RowKey, SizeKey, UNKNOWN_DIRECTORY, UNKNOWN_PATH,
};
pub use syncs::{
    SYNC_TEXT_BYTES, SyncCall, SyncCounts, SyncFile, SyncSpec, SyncState, SyncTask, SyncText,
    sync_class, sync_event, sync_file, sync_kind,
};
pub use task::{Arguments, CallReturn, Descriptor, Mapping, Task, TaskSlot, hook, phase, state};
pub use touches::{
    ADDRESS_BYTES, TouchCall, TouchCounts, TouchKey, TouchSpec, TouchState, touch_event,
    touch_kind, touch_part,
};

/// A value of zeroes.
pub const fn zeroed<T: FromZeros>() -> T {
    // SAFETY: the trait says that zeroes are a value.
    unsafe { core::mem::zeroed() }
}
