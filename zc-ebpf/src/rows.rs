//! Finds the row that a call is counted in: the row with its files or, if there is no room for that, the row without files. Each of them
//! may go on in a busy row.

use aya_ebpf::{bindings::BPF_NOEXIST, maps::HashMap};
use zc_ebpf::{BusyRow, CallId, Ends, ErrnoKey, Part, Row, RowKey};

use crate::{
    kernel::entries::Entries as _,
    maps::{BUSY_ROWS, EMPTY_BUSY_ROW, EMPTY_ROW, ERRNOS, FILE_ERRNOS, FILE_ROWS, PARTS, ROWS, epoch},
};

/// A call's place in the maps. Only its own task writes a row, except for those of `io_uring` operations. Programs remove nothing, and user
/// space removes only what belongs to an earlier epoch: a program reads the epoch each time, and nothing of a place is kept after it ends.
pub struct Place {
    /// Its row.
    pub row: &'static mut Row,
    /// The count of its errno. `None` if it has no errno, or if there is no room for the count.
    pub errno: Option<&'static mut u64>,
    /// Whether the call has files, but there was no room for a row with them.
    pub without_files: bool,
}

/// Finds the place of a call, or makes one. `serial` is the task's number, `errno` is 0 for a call without one. `None` if the maps are
/// full.
#[inline(always)]
pub fn place(serial: u32, call: CallId, ends: Ends, errno: u32) -> Option<Place> {
    let call = call | epoch();
    if !ends.is_none() && !ends.lack_room() {
        let row = find_or_make(&FILE_ROWS, &RowKey { task: serial, call, ends }, &EMPTY_ROW);
        if errno == 0 {
            if let Some(row) = row {
                return Some(Place { row, errno: None, without_files: false });
            }
        } else if let (Some(row), Some(count)) =
            (row, find_or_make(&FILE_ERRNOS, &ErrnoKey { task: serial, call, errno, ends }, &0))
        {
            return Some(Place { row, errno: Some(count), without_files: false });
        }
    }
    let row = find_or_make(&ROWS, &RowKey { task: serial, call, ends: Ends::NONE }, &EMPTY_ROW)?;
    let errno =
        if errno == 0 { None } else { find_or_make(&ERRNOS, &ErrnoKey { task: serial, call, errno, ends: Ends::NONE }, &0) };
    Some(Place { row, errno, without_files: !ends.is_none() })
}

/// The row in which a call of this key is counted, if the key has had many calls already.
#[inline(always)]
pub fn busy(serial: u32, call: CallId, ends: Ends) -> Option<&'static mut BusyRow> {
    BUSY_ROWS.entry(RowKey { task: serial, call: call | epoch(), ends })
}

/// As [`busy`], but makes the row if there is none. `None` if the map is full.
#[inline(always)]
pub fn make_busy(serial: u32, call: CallId, ends: Ends) -> Option<&'static mut BusyRow> {
    find_or_make(&BUSY_ROWS, &RowKey { task: serial, call: call | epoch(), ends }, &EMPTY_BUSY_ROW)
}

/// Where the bytes are counted that a call wrote from a second or later file. `None` if the map is full.
#[inline(always)]
pub fn part(key: RowKey) -> Option<&'static mut Part> {
    let key = RowKey { call: key.call | epoch(), ..key };
    find_or_make(&PARTS, &key, &Part { bytes: 0, calls: 0, checked_calls: 0 })
}

/// Finds the entry of this key, or makes one. `None` if the map is full.
#[inline(always)]
pub fn find_or_make<K, V: 'static>(map: &HashMap<K, V>, key: &K, empty: &V) -> Option<&'static mut V> {
    if let Some(value) = map.entry(key) {
        return Some(value);
    }
    // Operations of `io_uring` complete on several CPUs at once, and paths are counted for all tasks, so another CPU may have made the
    // entry.
    let _ = map.insert(key, empty, BPF_NOEXIST.into());
    map.entry(key)
}
