//! References to the entries of maps, and numbers in them that several CPUs change.
//!
//! What makes the references sound, although several CPUs may have one to the same entry:
//!
//! - An entry stays in memory until the program ends that has looked it up, even if it is removed
//!   meanwhile. A removed entry may be given to another key at once; a task's entry is removed only
//!   when nothing is counted for it any more.
//! - Only its own task writes a task's entry and rows. Memories have a lock, and scratch space of a
//!   CPU a mark that it is taken.
//! - What several CPUs change they change with [`fetch_add`] and [`exchange`]. Anything else may be
//!   stale or wrong without harm, and the place that uses it says why.

use core::borrow::Borrow;

use aya_ebpf::maps::{Array, HashMap, PerCpuArray};

/// A map.
pub trait Entries<Key> {
    /// What the map has for each key.
    type Entry: 'static;

    /// The entry of a key. `None` if there is none.
    fn entry(&self, key: impl Borrow<Key>) -> Option<&'static mut Self::Entry>;
}

impl<Key, Entry: 'static> Entries<Key> for HashMap<Key, Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, key: impl Borrow<Key>) -> Option<&'static mut Entry> {
        // SAFETY: the verifier knows that the pointer is not null and points to a whole entry. See
        // above for what else.
        self.get_ptr_mut(key).map(|entry| unsafe { &mut *entry })
    }
}

impl<Entry: 'static> Entries<u32> for Array<Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, index: impl Borrow<u32>) -> Option<&'static mut Entry> {
        // SAFETY: as for a hash.
        self.get_ptr_mut(*index.borrow())
            .map(|entry| unsafe { &mut *entry })
    }
}

impl<Entry: 'static> Entries<u32> for PerCpuArray<Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, index: impl Borrow<u32>) -> Option<&'static mut Entry> {
        // SAFETY: as for a hash. The entry is this CPU's own: a task stays on its CPU while a
        // program runs for it.
        self.get_ptr_mut(*index.borrow())
            .map(|entry| unsafe { &mut *entry })
    }
}

/// Copies a value. Of an assignment the compiler would think that both may overlap, and copy byte by
/// byte.
#[inline(always)]
pub fn copy<T: Copy>(from: &T, to: &mut T) {
    // SAFETY: what a reference may write to is behind no other reference.
    unsafe { core::ptr::copy_nonoverlapping(from, to, 1) }
}

/// Atomically sets a number and returns its old value.
#[inline(always)]
pub fn exchange(number: *mut u64, new: u64) -> u64 {
    let mut value = new;
    #[cfg(target_arch = "bpf")]
    // SAFETY: the verifier refuses a program in which it is not the address of a number.
    unsafe {
        core::arch::asm!("{value} = xchg_64({number} + 0, {value})", value = inout(reg) value, number = in(reg) number);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host this crate is only checked, never run.
        let _ = (number, &mut value);
    }
    value
}

/// Atomically adds to a number and returns its old value.
///
/// The BPF instruction set (v3) has atomics, `BPF_ATOMIC | BPF_FETCH`, but rustc does not offer
/// them.
#[inline(always)]
pub fn fetch_add(number: &mut u64, addend: u64) -> u64 {
    let mut value = addend;
    #[cfg(target_arch = "bpf")]
    // SAFETY: a reference is valid and aligned.
    unsafe {
        core::arch::asm!(
            "{value} = atomic_fetch_add((u64 *)({number} + 0), {value})",
            value = inout(reg) value,
            number = in(reg) core::ptr::from_mut(number),
        );
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host this crate is only checked, never run.
        let _ = (number, &mut value);
    }
    value
}
