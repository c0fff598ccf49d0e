//! [`Scratch`]: memory of each CPU, for what is too large for the stack.

use core::ops::{Deref, DerefMut};

use aya_ebpf::maps::PerCpuArray;

use super::entries::{Entries as _, EntryPtr, field};

/// A value that one program at a time uses.
#[repr(C)]
pub struct Scratch<T> {
    /// 1: a program is using it.
    is_taken: u64,
    value: T,
}

impl<T: 'static> Scratch<T> {
    /// This CPU's one, until it is released. `None` if another program is using it: newer kernels
    /// preempt programs, and a program that runs when an operation of `io_uring` completes may interrupt
    /// another.
    #[inline(always)]
    pub fn take(map: &PerCpuArray<Self>) -> Option<&'static mut Self> {
        let scratch = map.entry(0)?;
        let is_free = field!(scratch, is_taken).exchange(1) == 0;
        // SAFETY: it is this CPU's, and nobody else has taken it.
        is_free.then(|| unsafe { scratch.as_mut() })
    }

    /// This CPU's one, in a function of the program that has taken it.
    ///
    /// # Safety
    ///
    /// The function's callers do not use it meanwhile.
    #[inline(always)]
    pub unsafe fn taken(map: &PerCpuArray<Self>) -> Option<&'static mut Self> {
        // SAFETY: the caller promises it.
        map.entry(0).map(|scratch| unsafe { scratch.as_mut() })
    }

    /// Lets others use it.
    #[inline(always)]
    pub fn release(&mut self) {
        // SAFETY: an entry of the map.
        unsafe { EntryPtr::new(&raw mut self.is_taken) }.exchange(0);
    }
}

impl<T> Deref for Scratch<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Scratch<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
