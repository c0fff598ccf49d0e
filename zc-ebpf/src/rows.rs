//! Where a call is counted: in the row of its files, or for want of room in the one without.

use core::ptr::NonNull;

use aya_ebpf::{bindings::BPF_NOEXIST, maps::HashMap};
use zc_ebpf::{CallId, Ends, ErrnoKey, Part, Row, RowKey};

use crate::maps::{EMPTY_ROW, ERRNOS, FILE_ERRNOS, FILE_ROWS, PARTS, ROWS};

/// A call's place in the maps. Rows and errnos are never removed while programs run, and have one writer, their own task; but for
/// those of `io_uring`'s operations.
pub struct Place {
    /// Its row.
    pub row: NonNull<Row>,
    /// Its count of the errno; `None` if it has none, or there is no room for it.
    pub errno: Option<NonNull<u64>>,
    /// Whether the row is one without files although the call has some, for want of room.
    pub without_files: bool,
}

/// The place of a call by the task with this serial number; `None` if the maps are full. `errno` is 0 for a call that has none.
#[inline(always)]
pub fn place(serial: u32, call: CallId, ends: Ends, errno: u32) -> Option<Place> {
    if !ends.is_none() && !ends.lack_room() {
        let row = file_row(RowKey { task: serial, call, ends });
        if errno == 0 {
            if let Some(row) = row {
                return Some(Place { row, errno: None, without_files: false });
            }
        } else if let (Some(row), Some(count)) = (row, file_errno(ErrnoKey { task: serial, call, errno, ends })) {
            return Some(Place { row, errno: Some(count), without_files: false });
        }
    }
    let row = entry(&ROWS, RowKey { task: serial, call, ends: Ends::NONE }, &EMPTY_ROW)?;
    let errno = if errno == 0 { None } else { entry(&ERRNOS, ErrnoKey { task: serial, call, errno, ends: Ends::NONE }, &0) };
    Some(Place { row, errno, without_files: !ends.is_none() })
}

/// Where bytes are counted that a call wrote from a further file; `None` if the map is full.
#[inline(always)]
pub fn part(key: RowKey) -> Option<NonNull<Part>> {
    entry(&PARTS, key, &Part { bytes: 0, calls: 0, checked_calls: 0 })
}

#[inline(always)]
fn file_row(key: RowKey) -> Option<NonNull<Row>> {
    FILE_ROWS.get_ptr_mut(key).and_then(NonNull::new).or_else(|| new_file_row(key))
}

/// First the row without files, so that the call's place is safe, then the one with them.
#[inline(never)]
fn new_file_row(key: RowKey) -> Option<NonNull<Row>> {
    entry(&ROWS, RowKey { ends: Ends::NONE, ..key }, &EMPTY_ROW)?;
    entry(&FILE_ROWS, key, &EMPTY_ROW)
}

/// As with rows.
#[inline(never)]
fn file_errno(key: ErrnoKey) -> Option<NonNull<u64>> {
    if let Some(count) = FILE_ERRNOS.get_ptr_mut(key) {
        return NonNull::new(count);
    }
    entry(&ERRNOS, ErrnoKey { ends: Ends::NONE, ..key }, &0)?;
    entry(&FILE_ERRNOS, key, &0)
}

/// The entry of this key, made if need be; `None` if the map is full.
#[inline(always)]
fn entry<K: Copy, V>(map: &HashMap<K, V>, key: K, empty: &V) -> Option<NonNull<V>> {
    if let Some(value) = map.get_ptr_mut(key) {
        return NonNull::new(value);
    }
    // Operations of `io_uring` complete on several CPUs at once: another may have been faster.
    let _ = map.insert(key, empty, BPF_NOEXIST.into());
    map.get_ptr_mut(key).and_then(NonNull::new)
}
