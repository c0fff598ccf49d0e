//! Keys and values of the maps that count.

use zerocopy::{FromBytes, Immutable, IntoBytes};

#[cfg(doc)]
use crate::Task;
use crate::{
    BUCKETS, CallId, FACTOR, FileNumber, NumberedEnds, ODD_EPOCH, TABLE_SLOTS, WordCounts, zeroed,
};

/// After how many calls a row is busy.
pub const FEW_CALLS: usize = 8;

/// Key of a row: thread, call, errno and files. Only the thread itself writes its rows, so they need
/// no atomics. (Rows of `io_uring` operations do.)
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct RowKey {
    /// [`Task::serial`] of the caller.
    pub task: u32,
    /// The call, and [`ODD_EPOCH`] in every second epoch.
    pub call: CallId,
    /// The errno of calls that failed, as a positive number; 0: those that did not. Kernel-internal
    /// errnos, from 512 on, are among them.
    pub errno: u32,
    /// The files involved.
    pub ends: NumberedEnds,
}

/// The epoch that tasks count in. User space writes it when it begins one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct Epoch {
    /// 0 or [`ODD_EPOCH`].
    pub current: CallId,
    /// 1: there was no room for a row in [`maps::NEAR_ROWS`](crate::maps::NEAR_ROWS), so further
    /// ones are made elsewhere.
    pub is_near_full: u32,
}

/// The sums of a [`RowKey`]. Most rows have few calls; when there are [`FEW_CALLS`] in it, further
/// ones are counted in a [`BusyRow`] of the same key.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct Row {
    /// Calls that returned.
    pub calls: u64,
    /// Sum of the positive results, where the result is a number of bytes.
    pub bytes: u64,
    /// Sum of the sizes asked for.
    pub requested_bytes: u64,
    /// Calls whose size is missing in that sum, because it could not be read.
    pub requested_unknown: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// Sum of the times from entry to exit, ns.
    pub total_ns: u64,
    /// When the first call was entered: `CLOCK_MONOTONIC`, ns. 0 without any.
    pub first_ns: u64,
    /// The part of [`bytes`](Self::bytes) that came from [`NumberedEnds::input`], of calls that do not name
    /// it. In a row of [`PART`](crate::PART)s, which counts nothing but this, the words and the
    /// calls, they are among the bytes of the rows of the calls themselves.
    pub input_bytes: u64,
    /// The words of the memory with these bytes that were compared.
    pub words: WordCounts,
    /// The part of [`input_bytes`](Self::input_bytes) that may have been written to that file before,
    /// since it was read.
    pub repeated_bytes: u64,
    /// The first bytes that its first call moved, at most eight.
    pub first_word: u64,
    /// How many these are. 0: they are not known.
    pub first_bytes: u64,
    /// Calls that returned 0 where the result is a number of bytes.
    pub zero_calls: u64,
    /// Calls that moved something, but less than they asked for.
    pub short_calls: u64,
    /// Fewest bytes that a call moved, of those that moved some. `u64::MAX` without any.
    pub min_bytes: u64,
    /// Most bytes that a call moved. 0: none moved any, or that is not noted, as for operations of
    /// `io_uring`.
    pub max_bytes: u64,
    /// Calls, including unfinished ones, that are in this row because there was no room for a row
    /// with their files.
    pub without_files: u64,
    /// Shortest time, ns. `u64::MAX` without any.
    pub min_ns: u64,
    /// Longest time, ns.
    pub max_ns: u64,
    /// For each of the first calls the place of its time in a [`histogram`](crate::histogram), plus
    /// 1. 0: it has no time.
    pub few: [u16; FEW_CALLS],
}

/// The sums of a [`RowKey`] from its call after the first few on.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct BusyRow {
    /// The sums. [`few`](Row::few) is not used.
    pub row: Row,
    /// Number of calls by time, see [`histogram`](crate::histogram).
    pub histogram: [u32; BUCKETS],
}

impl BusyRow {
    /// The row before its first call.
    pub const EMPTY: Self = Self {
        row: Row::EMPTY,
        ..zeroed()
    };
}

/// How many [`NearBusyRow`]s an epoch has: a power of two.
pub const NEAR_BUSY_ROWS_OF_EPOCH: u32 = 64;

/// Room for a busy row in the place that its key chooses. A key whose place is taken has its busy
/// row in [`maps::BUSY_ROWS`](crate::maps::BUSY_ROWS).
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct NearBusyRow {
    /// 1: there is a row, or will be in a moment.
    pub is_taken: u64,
    /// The key of the row.
    pub key: RowKey,
    /// The row.
    pub busy: BusyRow,
}

impl NearBusyRow {
    /// A place that is free, apart from [`Row::min_bytes`] and [`Row::min_ns`]: the places are all
    /// zeroes at first, so whoever takes one sets these.
    #[cfg(feature = "user")]
    pub const FREE: Self = Self {
        busy: BusyRow::EMPTY,
        ..zeroed()
    };
}

impl RowKey {
    /// The place of its row in [`maps::NEAR_BUSY_ROWS`](crate::maps::NEAR_BUSY_ROWS). Each of two
    /// epochs in turn has its own half.
    #[inline(always)]
    pub const fn near_place(&self) -> u32 {
        let caller = (self.task as u64) << 32 | self.call as u64;
        let files = (self.ends.input as u64) << 32
            | (self.ends.output as u64) << 4
            | self.ends.how.0 as u64;
        let mixed = (caller.wrapping_mul(FACTOR) ^ files).wrapping_mul(FACTOR) >> 32;
        mixed as u32 & (NEAR_BUSY_ROWS_OF_EPOCH - 1)
            | if self.call & ODD_EPOCH == 0 {
                0
            } else {
                NEAR_BUSY_ROWS_OF_EPOCH
            }
    }
}

const _: () = assert!(
    BUCKETS < u16::MAX as usize,
    "the place of a time fits into `few`"
);

impl Row {
    /// The row before its first call.
    pub const EMPTY: Self = Self {
        min_bytes: u64::MAX,
        min_ns: u64::MAX,
        ..zeroed()
    };
}

/// Sums over calls that have no rows, because they were not selected: those of a task, or all calls
/// of one kind in the trace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct OtherCallSums {
    /// How many returned.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How many never returned.
    pub unfinished: u64,
    /// How many of those that returned have no time, because seccomp answered them.
    pub untimed: u64,
    /// Sum of the times from entry to exit, ns.
    pub total_ns: u64,
    /// The longest of them, ns.
    pub max_ns: u64,
    /// How many ended because their time limit had passed.
    pub timed_out: u64,
    /// Sum of the times of these, ns.
    pub timed_out_ns: u64,
}

impl OtherCallSums {
    /// No calls.
    pub const NONE: Self = zeroed();
}

/// How many calls share an entry of the map of [`OtherCallSums`].
pub const OTHER_CALLS_IN_BLOCK: u32 = 256;
/// How many entries that map has: the slots of the tables of calls.
pub const OTHER_CALLS_BLOCKS: u32 = 2 * TABLE_SLOTS / OTHER_CALLS_IN_BLOCK;

/// An entry of the map of [`OtherCallSums`].
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct OtherCallsBlock {
    /// By the slot of the call, less that of the first one in this block.
    pub calls: [OtherCallSums; OTHER_CALLS_IN_BLOCK as usize],
}

/// Most bytes of a path that are kept, with the NUL at its end.
pub const PATH_BYTES: usize = 240;
/// In [`GivenText::length`]: the path could not be read, or the caller passed none.
pub const UNKNOWN_PATH: u32 = u32::MAX;
/// A bit of [`GivenText::length`]: it is no path, but the port and the address of a `sockaddr_in` or
/// `sockaddr_in6`, as the kernel's include/uapi/linux/in.h and in6.h have them.
pub const INTERNET_ADDRESS: u32 = 1 << 31;
/// In [`GivenText::directory`]: nothing is known of the directory.
pub const UNKNOWN_DIRECTORY: FileNumber = FileNumber::MAX;

/// Key of the map of calls by path: a call that failed or, if these are asked for, one that
/// succeeded. The map has their [`PathSums`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct PathKey {
    /// The call, by its slot in [`maps::SPECS`](crate::maps::SPECS), and
    /// [`ODD_EPOCH`] in every second epoch.
    pub slot: u32,
    /// The errno, as a positive number; 0: the call succeeded.
    pub errno: u32,
    /// Its path, and the second one of a call that looks up two.
    pub paths: [GivenText; 2],
}

/// Key of the map of calls by size, which has how many calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct SizeKey {
    /// The call.
    pub call: CallId,
    /// The place of the bytes that it moved in a [`histogram`](crate::histogram).
    pub bucket: u32,
}

/// How often and when calls returned. Zeroes are no calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, IntoBytes)]
pub struct PathSums {
    /// How many calls.
    pub calls: u64,
    /// When the last one of them returned: the greater, the later.
    pub last: u64,
}

/// A path that a call was given.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, Immutable, IntoBytes)]
pub struct GivenText {
    /// Length of the path without its NUL, or [`UNKNOWN_PATH`], or with [`INTERNET_ADDRESS`]. If it is the longest that there is
    /// room for, the path may be longer.
    pub length: u32,
    /// If the path is relative, and starts in a directory that the call named by a descriptor: the
    /// number of that, or [`UNKNOWN_DIRECTORY`]. Else 0.
    pub directory: FileNumber,
    /// The path, and zeroes after it.
    pub bytes: [u8; PATH_BYTES],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_few_tasks_that_copy_mostly_have_places_of_their_own() {
        let mut taken = [0; NEAR_BUSY_ROWS_OF_EPOCH as usize];
        for task in 100..110 {
            let ends = [NumberedEnds::named(3, 0), NumberedEnds::named(3, 4)];
            for (call, ends) in (0..).zip(ends) {
                let key = RowKey {
                    task,
                    call,
                    errno: 0,
                    ends,
                };
                taken[key.near_place() as usize] += 1;
            }
        }
        assert!(
            taken.iter().filter(|&&rows| rows > 0).count() >= 15,
            "{taken:?}"
        );
    }
}
