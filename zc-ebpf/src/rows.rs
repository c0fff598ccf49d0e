//! Finds the row that a call is counted in: the row with its files or, if there is no room for
//! that, the row without files. Each of them may go on in a busy row.
//!
//! Only its own task writes a row, except for those of `io_uring` operations. Programs remove
//! nothing, and user space removes only what belongs to an earlier epoch: a program reads the epoch
//! each time, and keeps nothing of a row after it ends.

use aya_ebpf::{bindings::BPF_NOEXIST, maps::HashMap};
use zc_ebpf::{BusyRow, CallId, NearBusyRow, NumberedEnds, Origin, PART, Row, RowKey};

use crate::{
    kernel::entries::{Entries as _, EntryPtr, field},
    maps::{
        BUSY_ROWS, EMPTY_BUSY_ROW, EMPTY_ROW, FILE_ROWS, NEAR_BUSY_ROWS, NEAR_ROWS, ROWS, epoch,
        is_near_full, note_far_rows, note_near_full, uses_near_rows,
    },
};

/// The key of the row, in this epoch, of a call with this errno, or 0, and these files. `serial` is the
/// number of its task.
#[inline(always)]
pub fn key(serial: u32, call: CallId, errno: u32, ends: NumberedEnds) -> RowKey {
    RowKey {
        task: serial,
        call: call | epoch(),
        errno,
        ends,
    }
}

/// Finds the row of this key, or makes one. `None` if the maps are full.
#[inline(always)]
pub fn row(key: &RowKey) -> Option<EntryPtr<Row>> {
    match near_row(key) {
        Some(row) => Some(row),
        None => row_of_operation(key),
    }
}

/// As [`row`], for an operation of `io_uring`. These are not in [`NEAR_ROWS`]: few processes have
/// them, so the kernel need not check the code for that.
#[inline(always)]
pub fn row_of_operation(key: &RowKey) -> Option<EntryPtr<Row>> {
    let rows = if key.ends.is_none() {
        &ROWS
    } else {
        &FILE_ROWS
    };
    find_or_make_far(rows, key, &EMPTY_ROW)
}

/// Finds the row of this key in [`NEAR_ROWS`], or makes one there. `None` if there is no room.
#[inline(always)]
fn near_row(key: &RowKey) -> Option<EntryPtr<Row>> {
    if !uses_near_rows() {
        return None;
    }
    if is_near_full() {
        return NEAR_ROWS.entry(key);
    }
    let row = find_or_make(&NEAR_ROWS, key, &EMPTY_ROW);
    if row.is_none() {
        note_near_full();
    }
    row
}

/// The busy row of this key in [`NEAR_BUSY_ROWS`]. Only keys with many calls have busy rows.
#[inline(always)]
pub fn near_busy(key: &RowKey) -> Option<EntryPtr<BusyRow>> {
    let near = NEAR_BUSY_ROWS.entry(key.near_place())?;
    has_key(near, key).then(|| field!(near, busy))
}

/// The busy row of this key in [`BUSY_ROWS`], where keys without a near place have theirs.
#[inline(always)]
pub fn far_busy(key: &RowKey) -> Option<EntryPtr<BusyRow>> {
    BUSY_ROWS.entry(key)
}

/// Whether the near busy row has this key of the current task. This is false while another task is
/// taking the place, because the row never has the current task's number then.
#[inline(always)]
fn has_key(near: EntryPtr<NearBusyRow>, key: &RowKey) -> bool {
    field!(near, key.task).load() == key.task
        && field!(near, key.call).load() == key.call
        && field!(near, key.errno).load() == key.errno
        && field!(near, key.ends.input).load() == key.ends.input
        && field!(near, key.ends.how).load() == key.ends.how
        && field!(near, key.ends.output).load() == key.ends.output
}

/// Takes the place of this key among the near busy rows. `None` if another key has it.
#[inline(always)]
fn take_near_busy(key: &RowKey) -> Option<EntryPtr<BusyRow>> {
    let near = NEAR_BUSY_ROWS
        .entry(key.near_place())
        .filter(|_| uses_near_rows())?;
    if !has_key(near, key) {
        if field!(near, is_taken).exchange(1) != 0 {
            return None;
        }
        field!(near, busy.row.min_bytes).store(Row::EMPTY.min_bytes);
        field!(near, busy.row.min_ns).store(Row::EMPTY.min_ns);
        field!(near, key).store(*key);
    }
    Some(field!(near, busy))
}

/// The busy row of this key, near or far. Makes it if there is none. `None` if the map is full.
#[inline(always)]
pub fn make_busy(key: &RowKey) -> Option<EntryPtr<BusyRow>> {
    match take_near_busy(key) {
        Some(busy) => Some(busy),
        None => find_or_make_far(&BUSY_ROWS, key, &EMPTY_BUSY_ROW),
    }
}

/// The row of the bytes that a call wrote from a second or later file, see [`PART`]. `None` if the
/// map is full. Operations of `io_uring` complete on several CPUs at once.
#[inline(always)]
pub fn part_row(serial: u32, call: CallId, ends: NumberedEnds) -> Option<EntryPtr<Row>> {
    row_of_operation(&key(serial, call | PART, 0, ends))
}

/// Adds where bytes came from to a row that several CPUs may change at once, because operations of
/// `io_uring` complete there.
#[inline(always)]
pub fn add_origin(row: EntryPtr<Row>, origin: &Origin) {
    field!(row, input_bytes).fetch_add(origin.bytes);
    field!(row, repeated_bytes).fetch_add(origin.repeated_bytes);
    field!(row, words.compared).fetch_add(origin.words.compared);
    field!(row, words.changed).fetch_add(origin.words.changed);
}

/// Finds the entry of this key, or makes one. `None` if the map is full.
#[inline(always)]
pub fn find_or_make<K, V: 'static>(map: &HashMap<K, V>, key: &K, empty: &V) -> Option<EntryPtr<V>> {
    match map.entry(key) {
        Some(value) => Some(value),
        None => make(map, key, empty),
    }
}

/// As [`find_or_make`], in a map that user space reads only if [`note_far_rows`] was called.
#[inline(always)]
fn find_or_make_far<V: 'static>(
    map: &HashMap<RowKey, V>,
    key: &RowKey,
    empty: &V,
) -> Option<EntryPtr<V>> {
    if let Some(value) = map.entry(key) {
        return Some(value);
    }
    note_far_rows();
    make(map, key, empty)
}

/// Makes the entry of this key. `None` if the map is full.
#[inline(always)]
fn make<K, V: 'static>(map: &HashMap<K, V>, key: &K, empty: &V) -> Option<EntryPtr<V>> {
    // Operations of `io_uring` complete on several CPUs at once, and paths are counted for all
    // tasks, so another CPU may have made the entry.
    let _ = map.insert(key, empty, BPF_NOEXIST.into());
    map.entry(key)
}
