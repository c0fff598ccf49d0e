//! Helpers of the kernel as safe functions.

use core::ffi::c_void;

use aya_ebpf::helpers::{
    bpf_ktime_get_ns, bpf_probe_read_kernel_buf, bpf_probe_read_kernel_str_bytes,
    bpf_probe_read_user, bpf_probe_read_user_buf, bpf_probe_read_user_str_bytes,
    generated::{self, bpf_get_current_task},
};
use zc_ebpf::origin::range::UNREADABLE_WORD;

use crate::kernel::fields::{KernelPtr, Plain};

/// The time: `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The `task_struct` of the current task. Tasks are found by its address. To the verifier it is a
/// number, so its fields are read with [`probe`](super::fields::probe).
#[inline(always)]
pub fn current_task() -> KernelPtr {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_current_task() as KernelPtr }
}

/// Reads the caller's memory. `None` if it cannot be read.
#[inline(always)]
pub fn read_user<T: Plain>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address, and whatever it reads is a `T`.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// Reads a word of the caller's memory. [`UNREADABLE_WORD`] if it cannot be read.
///
/// A function of its own, because its frame is small. The frames of larger ones are not on the
/// kernel's stack from Linux 6.13 on (`BPF_PRIV_STACK_MIN_SIZE` in the kernel's
/// include/linux/filter.h), and `copy_from_user_nofault` needs 20 ns more to check such a place.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn user_word(address: u64) -> u64 {
    read_user(address).unwrap_or(UNREADABLE_WORD)
}

/// Fills a value with the caller's memory. Returns 0, or another number if it cannot be read.
#[inline(always)]
pub fn fill_from_user<T: Plain>(address: u64, into: &mut T) -> u64 {
    // SAFETY: the helper checks the address, and whatever it reads is a `T`.
    unsafe {
        generated::bpf_probe_read_user(
            core::ptr::from_mut(into).cast(),
            size_of::<T>() as u32,
            address as *const c_void,
        ) as u64
    }
}

/// Fills a slice with the caller's memory. `false` if it cannot be read.
#[inline(always)]
pub fn read_user_bytes(address: u64, into: &mut [u8]) -> bool {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user_buf(address as *const u8, into) }.is_ok()
}

/// Fills a slice with kernel memory. `false` if it cannot be read.
#[inline(always)]
pub fn read_kernel_bytes(address: KernelPtr, into: &mut [u8]) -> bool {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel_buf(address, into) }.is_ok()
}

/// Copies a string of the caller, as far as it fits, and ends it with a NUL. Returns its length
/// without the NUL. `None` if it cannot be read.
#[inline(always)]
pub fn read_user_text(address: u64, into: &mut [u8]) -> Option<u32> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user_str_bytes(address as *const u8, into) }
        .ok()
        .map(|text| text.len() as u32)
}

/// Copies a string of the kernel, as far as it fits, and ends it with a NUL. Returns its length
/// without the NUL. `None` if it cannot be read.
#[inline(always)]
pub fn read_kernel_text(address: KernelPtr, into: &mut [u8]) -> Option<u32> {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_kernel_str_bytes(address, into) }
        .ok()
        .map(|text| text.len() as u32)
}
