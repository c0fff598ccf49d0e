//! Reads many entries of a hash map or an array with one system call, and removes those of a hash
//! map. aya 0.14 has no function for that.
//!
//! Source: `bpf_map_do_batch` and `generic_map_lookup_batch` of the kernel's kernel/bpf/syscall.c
//! and `__htab_map_lookup_and_delete_batch` of its kernel/bpf/hashtab.c.

use std::{
    ffi::c_int,
    io,
    marker::PhantomData,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    Pod,
    maps::{Array, HashMap, Map, MapData, MapError},
};
use nix::errno::Errno;

/// `BPF_MAP_LOOKUP_BATCH` and `BPF_MAP_DELETE_BATCH` of the kernel's include/uapi/linux/bpf.h.
const LOOKUP_BATCH: c_int = 24;
const DELETE_BATCH: c_int = 27;
/// `BPF_MAP_UPDATE_ELEM` of the same file.
const UPDATE: c_int = 2;
/// `BPF_NOEXIST` of the same file: an entry that is there stays as it is.
const ONLY_NEW: u64 = 1;
/// Why an entry may not be added although nothing is wrong: there is one, there is no room or
/// memory, or its bucket is in use.
const REFUSED: [c_int; 4] = [libc::EEXIST, libc::E2BIG, libc::ENOMEM, libc::EBUSY];

/// How many entries are read at once.
const BATCH: usize = 256;

/// A hash map of the kernel side, or an array, which has the key `u32`.
#[derive(Debug)]
pub struct Table<K, V> {
    map: MapData,
    entries: PhantomData<(K, V)>,
}

/// An array of the kernel side whose entries are read together.
pub type ArrayTable<V> = Table<u32, V>;

impl<K: Pod, V: Pod> TryFrom<Map> for Table<K, V> {
    type Error = MapError;

    fn try_from(map: Map) -> Result<Self, MapError> {
        // Compares the sizes of keys and values with those of the map.
        match &map {
            Map::Array(_) if size_of::<K>() == size_of::<u32>() => {
                Array::<&MapData, V>::try_from(&map)?;
            }
            map => {
                HashMap::<&MapData, K, V>::try_from(map)?;
            }
        }
        let (Map::HashMap(map) | Map::Array(map)) = map else {
            return Err(MapError::InvalidMapType { map_type: 0 });
        };
        Ok(Self {
            map,
            entries: PhantomData,
        })
    }
}

impl<V: Pod> ArrayTable<V> {
    /// Replaces an entry.
    pub fn set(&self, index: u32, value: &V) -> io::Result<()> {
        self.update(&index, value, 0)
    }
}

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

/// The member of the kernel's `union bpf_attr` for single entries.
#[repr(C)]
struct Update {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl<K: Pod, V: Pod> Table<K, V> {
    /// Calls the function with every entry. An entry that is there all the time is seen once,
    /// whatever is inserted or removed meanwhile.
    pub fn for_each(&self, mut entry: impl FnMut(K, &V)) -> io::Result<()> {
        self.for_each_batch(|keys, values| {
            keys.iter()
                .zip(values)
                .for_each(|(key, value)| entry(*key, value));
            Ok(())
        })
    }

    /// Calls the function with every entry whose key is wanted, and removes it. Nobody may write to
    /// these entries any more.
    pub fn take(
        &self,
        is_wanted: impl Fn(&K) -> bool,
        mut entry: impl FnMut(K, &V),
    ) -> io::Result<()> {
        let mut taken = Vec::new();
        self.for_each_batch(|keys, values| {
            taken.clear();
            for (key, value) in keys.iter().zip(values).filter(|(key, _)| is_wanted(key)) {
                entry(*key, value);
                taken.push(*key);
            }
            self.remove(&taken)
        })
    }

    /// Adds an entry. If there is one with its key, or no room or memory, nothing changes, and the
    /// result is `false`.
    pub fn insert(&self, key: &K, value: &V) -> io::Result<bool> {
        is_added(self.update(key, value, ONLY_NEW))
    }

    fn update(&self, key: &K, value: &V, flags: u64) -> io::Result<()> {
        let mut attributes = Update {
            map_fd: self.map_fd(),
            padding: 0,
            key: std::ptr::from_ref(key).expose_provenance() as u64,
            value: std::ptr::from_ref(value).expose_provenance() as u64,
            flags,
        };
        bpf(UPDATE, &mut attributes)
    }

    fn for_each_batch(
        &self,
        mut batch: impl FnMut(&[K], &[V]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut keys, mut values) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut position = None;
        loop {
            match self.read(position, &mut keys, &mut values) {
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

    /// Reads as many entries as there is room for, from this position on. Returns the position
    /// after them; `None` at the end.
    fn read(
        &self,
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
            map_fd: self.map_fd(),
            ..Attributes::default()
        };
        let result = bpf(LOOKUP_BATCH, &mut attributes);
        let is_end = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ENOENT));
        if !is_end {
            result?;
        }
        let filled = usize::try_from(attributes.count).unwrap_or(0).min(room);
        // SAFETY: the kernel has filled so many. The map has keys and values of these sizes, see
        // `try_from`, and they are valid for all bit patterns.
        unsafe {
            keys.set_len(filled);
            values.set_len(filled);
        }
        Ok((!is_end).then_some(next))
    }

    fn remove(&self, keys: &[K]) -> io::Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut attributes = Attributes {
            keys: keys.as_ptr().expose_provenance() as u64,
            count: u32::try_from(keys.len()).unwrap_or(u32::MAX),
            map_fd: self.map_fd(),
            ..Attributes::default()
        };
        bpf(DELETE_BATCH, &mut attributes)
    }

    fn map_fd(&self) -> u32 {
        // A descriptor is not negative.
        self.map.fd().as_fd().as_raw_fd().unsigned_abs()
    }
}

/// Whether an entry was added, from the result of the call that should do so.
fn is_added(result: io::Result<()>) -> io::Result<bool> {
    let errno = result.as_ref().err().and_then(io::Error::raw_os_error);
    if errno.is_some_and(|errno| REFUSED.contains(&errno)) {
        return Ok(false);
    }
    result.map(|()| true)
}

/// `T` is the member of the kernel's `union bpf_attr` that the command takes.
fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<()> {
    // SAFETY: the pointers in the attributes are valid for as many keys and values as `count` says,
    // or for one of each, and the kernel writes no further.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_for_which_there_is_no_room_is_no_error() {
        assert!(is_added(Ok(())).expect("was added"));
        let failed = |errno| is_added(Err(io::Error::from_raw_os_error(errno)));
        for errno in REFUSED {
            assert!(!failed(errno).expect("was refused"), "{errno}");
        }
        for errno in [libc::EPERM, libc::EINVAL] {
            let error = failed(errno).expect_err("is wrong");
            assert_eq!(error.raw_os_error(), Some(errno));
        }
    }
}
