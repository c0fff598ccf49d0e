//! Reads, replaces or removes many entries of a map with one system call. aya 0.14 has no function
//! for that.
//!
//! Source: `bpf_map_do_batch` and `generic_map_lookup_batch` of the kernel's kernel/bpf/syscall.c
//! and `__htab_map_lookup_and_delete_batch` of its kernel/bpf/hashtab.c.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    Pod,
    maps::{HashMap, IterableMap, MapData, MapError},
};

use crate::backend::ebpf::load::bpf_call;

/// `BPF_MAP_LOOKUP_BATCH`, `BPF_MAP_UPDATE_BATCH` and `BPF_MAP_DELETE_BATCH` of the kernel's
/// include/uapi/linux/bpf.h.
const LOOKUP_BATCH: c_int = 24;
const UPDATE_BATCH: c_int = 26;
const DELETE_BATCH: c_int = 27;
/// `BPF_NOEXIST` of the same file: an entry that is there stays as it is.
const ONLY_NEW: u64 = 1;
/// Why an entry may not be added although nothing is wrong: there is one, there is no room or
/// memory, or its bucket is in use.
const REFUSED: [c_int; 4] = [libc::EEXIST, libc::E2BIG, libc::ENOMEM, libc::EBUSY];

/// How many entries are read at once.
const BATCH: usize = 256;

/// The member `batch` of the kernel's `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// A hash map, or an array, which has the key `u32`. aya has compared the sizes of keys and values
/// with those of the kernel's map.
pub trait Table<K: Pod, V: Pod>: IterableMap<K, V> {
    /// Calls the function with every entry. An entry that is there all the time is seen once,
    /// whatever is inserted or removed meanwhile.
    fn for_each(&self, mut entry: impl FnMut(K, &V)) -> io::Result<()> {
        for_each_batch(self.map(), |keys: &[K], values| {
            keys.iter()
                .zip(values)
                .for_each(|(key, value)| entry(*key, value));
            Ok(())
        })
    }

    /// Calls the function with every entry whose key is wanted, and removes it. Nobody may write to
    /// these entries any more.
    fn take_entries(
        &self,
        is_wanted: impl Fn(&K) -> bool,
        mut entry: impl FnMut(K, &V),
    ) -> io::Result<()> {
        let mut taken = Vec::new();
        for_each_batch(self.map(), |keys: &[K], values| {
            taken.clear();
            for (key, value) in keys.iter().zip(values).filter(|(key, _)| is_wanted(key)) {
                entry(*key, value);
                taken.push(*key);
            }
            change_entries(self.map(), DELETE_BATCH, &taken, &[] as &[V])
        })
    }

    /// Removes all entries.
    fn clear(&self) -> io::Result<()> {
        self.take_entries(|_| true, |_, _| ())
    }

    /// Replaces these entries by the same value.
    fn set_all(&self, keys: &[K], value: &V) -> io::Result<()> {
        change_entries(self.map(), UPDATE_BATCH, keys, &vec![*value; keys.len()])
    }
}

impl<K: Pod, V: Pod, M: IterableMap<K, V>> Table<K, V> for M {}

/// Adds an entry. If there is one with its key, or no room or memory, nothing changes, and the
/// result is `false`.
pub fn insert_new<K: Pod, V: Pod>(
    map: &mut HashMap<MapData, K, V>,
    key: &K,
    value: &V,
) -> Result<bool, MapError> {
    is_added(map.insert(key, value, ONLY_NEW))
}

/// Whether an entry was added, from the result of the call that should do so.
fn is_added(result: Result<(), MapError>) -> Result<bool, MapError> {
    match result {
        Err(MapError::SyscallError(error))
            if (error.io_error.raw_os_error()).is_some_and(|errno| REFUSED.contains(&errno)) =>
        {
            Ok(false)
        }
        result => result.map(|()| true),
    }
}

fn for_each_batch<K: Pod, V: Pod>(
    map: &MapData,
    mut batch: impl FnMut(&[K], &[V]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut keys, mut values) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut position = None;
    loop {
        match read_entries(map, position, &mut keys, &mut values) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                // The entries of one bucket are read together.
                keys.reserve(2 * keys.capacity());
                values.reserve(keys.capacity());
            }
            next => {
                position = next?;
                batch(&keys, &values)?;
                if position.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// Reads as many entries as there is room for, from this position on. Returns the position after
/// them; `None` at the end.
fn read_entries<K: Pod, V: Pod>(
    map: &MapData,
    position: Option<u32>,
    keys: &mut Vec<K>,
    values: &mut Vec<V>,
) -> io::Result<Option<u32>> {
    keys.clear();
    values.clear();
    let mut next = 0_u32;
    let room = keys.capacity().min(values.capacity());
    let position = position
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    let mut attributes = Attributes {
        in_batch: position.expose_provenance() as u64,
        out_batch: (&raw mut next).expose_provenance() as u64,
        keys: keys.as_mut_ptr().expose_provenance() as u64,
        values: values.as_mut_ptr().expose_provenance() as u64,
        count: u32::try_from(room).unwrap_or(u32::MAX),
        ..Attributes::default()
    };
    let result = call_bpf(map, LOOKUP_BATCH, &mut attributes);
    let is_end = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ENOENT));
    if !is_end {
        result?;
    }
    let filled = usize::try_from(attributes.count).unwrap_or(0).min(room);
    // SAFETY: the kernel has filled so many. The map has keys and values of these sizes, and they
    // are valid for all bit patterns.
    unsafe {
        keys.set_len(filled);
        values.set_len(filled);
    }
    Ok((!is_end).then_some(next))
}

/// Has the kernel replace or remove the entries of these keys.
fn change_entries<K, V>(map: &MapData, command: c_int, keys: &[K], values: &[V]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut attributes = Attributes {
        keys: keys.as_ptr().expose_provenance() as u64,
        values: values.as_ptr().expose_provenance() as u64,
        count: u32::try_from(keys.len()).unwrap_or(u32::MAX),
        ..Attributes::default()
    };
    call_bpf(map, command, &mut attributes)
}

fn call_bpf(map: &MapData, command: c_int, attributes: &mut Attributes) -> io::Result<()> {
    // A descriptor is not negative.
    attributes.map_fd = map.fd().as_fd().as_raw_fd().unsigned_abs();
    // SAFETY: the pointers in the attributes are valid for as many keys and values as `count` says,
    // and the kernel writes no further.
    unsafe { bpf_call::bpf(command, attributes) }
}

#[cfg(test)]
mod tests {
    use aya::sys::SyscallError;

    use super::*;

    #[test]
    fn an_entry_for_which_there_is_no_room_is_no_error() {
        assert!(is_added(Ok(())).expect("was added"));
        let failed = |errno| {
            is_added(Err(MapError::SyscallError(SyscallError {
                call: "bpf",
                io_error: io::Error::from_raw_os_error(errno),
            })))
        };
        for errno in REFUSED {
            assert!(!failed(errno).expect("was refused"), "{errno}");
        }
        for errno in [libc::EPERM, libc::EINVAL] {
            failed(errno).expect_err("is wrong");
        }
    }
}
