//! Entries of maps, which programs on several CPUs may use at the same time.
//!
//! An entry stays in memory until the program ends that has looked it up, even if it is removed
//! meanwhile. (A removed entry may be given to another key at once; a task's entry is removed only
//! when nothing is counted for it any more.) So a look-up returns where the entry is, as an
//! [`EntryPtr`], and there are two ways to go on:
//!
//! - What several CPUs may change is read and written by the [`field!`] alone, with plain loads and
//!   stores or atomically. What is read may be stale, and the place that uses it says why that does
//!   no harm.
//! - What belongs to one program as long as that runs becomes a reference, by
//!   [`EntryPtr::as_mut`]. The caller says why: only its own task writes a task's entry and rows;
//!   memories have a lock, and scratch space of a CPU a mark that it is taken.

use core::borrow::Borrow;

use aya_ebpf::maps::{Array, HashMap, PerCpuArray};

/// Where an entry of a map is, or a part of it.
#[repr(transparent)]
pub struct EntryPtr<T>(*mut T);

impl<T> Clone for EntryPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for EntryPtr<T> {}

impl<T> EntryPtr<T> {
    /// What lies at an address.
    ///
    /// # Safety
    ///
    /// It is that of an entry of a map or of a global, or of a part of it.
    #[inline(always)]
    pub const unsafe fn new(address: *mut T) -> Self {
        Self(address)
    }

    /// Its address.
    #[inline(always)]
    pub const fn address(self) -> *mut T {
        self.0
    }

    /// A reference to it.
    ///
    /// # Safety
    ///
    /// As long as the reference lives, nobody writes to it.
    #[inline(always)]
    pub const unsafe fn as_ref(self) -> &'static T {
        // SAFETY: an entry outlives the program that has looked it up, and the caller promises the
        // rest.
        unsafe { &*self.0 }
    }

    /// A reference by which it is changed.
    ///
    /// # Safety
    ///
    /// As long as the reference lives, nobody else uses what it is used for. Others may read fields,
    /// and get old or new values.
    #[inline(always)]
    pub const unsafe fn as_mut(self) -> &'static mut T {
        // SAFETY: as for `as_ref`.
        unsafe { &mut *self.0 }
    }
}

impl<T: Copy> EntryPtr<T> {
    /// Its value now.
    #[inline(always)]
    pub fn load(self) -> T {
        // SAFETY: an entry is valid and aligned. Volatile because others may write to it.
        unsafe { self.0.read_volatile() }
    }

    /// Sets its value.
    #[inline(always)]
    pub fn store(self, value: T) {
        // SAFETY: as in `load`.
        unsafe { self.0.write_volatile(value) }
    }

    /// Copies its value.
    #[inline(always)]
    pub fn copy_to(self, to: &mut T) {
        // SAFETY: both are valid and aligned, and there is no other reference to what `to` is.
        unsafe { core::ptr::copy_nonoverlapping(self.0, to, 1) }
    }
}

/// Has an atomic instruction use a number and this value, and returns what the instruction puts there.
///
/// The BPF instruction set (v3) has atomics, but rustc does not offer them. On the host this crate is
/// only checked, never run.
macro_rules! atomic {
    ($instruction:literal, $number:expr, $value:expr) => {{
        let (number, mut value) = ($number, $value);
        #[cfg(target_arch = "bpf")]
        // SAFETY: an entry is valid and aligned.
        unsafe {
            core::arch::asm!($instruction, value = inout(reg) value, number = in(reg) number);
        }
        #[cfg(not(target_arch = "bpf"))]
        let _ = (number, &mut value);
        value
    }};
}

impl EntryPtr<u64> {
    /// Atomically adds to the number and returns its old value (`BPF_ATOMIC | BPF_FETCH`).
    #[inline(always)]
    pub fn fetch_add(self, addend: u64) -> u64 {
        atomic!(
            "{value} = atomic_fetch_add((u64 *)({number} + 0), {value})",
            self.0,
            addend
        )
    }

    /// Atomically sets the number and returns its old value. That orders what was written before
    /// it, on every architecture.
    #[inline(always)]
    pub fn exchange(self, new: u64) -> u64 {
        atomic!("{value} = xchg_64({number} + 0, {value})", self.0, new)
    }
}

/// Where a field of an entry is: `field!(row, words.compared)`.
macro_rules! field {
    ($entry:expr, $($field:tt)+) => {{
        let entry = $entry;
        // SAFETY: a part of an entry. No reference to it is made.
        unsafe {
            $crate::kernel::entries::EntryPtr::new(&raw mut (*entry.address()).$($field)+)
        }
    }};
}
pub(crate) use field;

/// A map.
pub trait Entries<Key> {
    /// What the map has for each key.
    type Entry: 'static;

    /// Where the entry of a key is. `None` if there is none.
    fn entry(&self, key: impl Borrow<Key>) -> Option<EntryPtr<Self::Entry>>;
}

impl<Key, Entry: 'static> Entries<Key> for HashMap<Key, Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, key: impl Borrow<Key>) -> Option<EntryPtr<Entry>> {
        self.get_ptr_mut(key).map(EntryPtr)
    }
}

impl<Entry: 'static> Entries<u32> for Array<Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, index: impl Borrow<u32>) -> Option<EntryPtr<Entry>> {
        self.get_ptr_mut(*index.borrow()).map(EntryPtr)
    }
}

/// The entry is this CPU's own: a task stays on its CPU while a program runs for it.
impl<Entry: 'static> Entries<u32> for PerCpuArray<Entry> {
    type Entry = Entry;

    #[inline(always)]
    fn entry(&self, index: impl Borrow<u32>) -> Option<EntryPtr<Entry>> {
        self.get_ptr_mut(*index.borrow()).map(EntryPtr)
    }
}

/// Copies a value. Of an assignment the compiler would think that both may overlap, and copy byte by
/// byte.
#[inline(always)]
pub fn copy<T: Copy>(from: &T, to: &mut T) {
    // SAFETY: what a reference may write to is behind no other reference.
    unsafe { core::ptr::copy_nonoverlapping(from, to, 1) }
}
