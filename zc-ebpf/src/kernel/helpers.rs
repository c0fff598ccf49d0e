//! Helpers of the kernel as safe functions.

use core::ffi::c_void;

use aya_ebpf::helpers::{
    bpf_ktime_get_ns, bpf_probe_read_user,
    generated::{bpf_get_current_task, bpf_loop},
};

use crate::kernel::fields::{KernelPtr, Plain};

/// The time: `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The `task_struct` of the current task. Its address is the key of the task in TASKS. To the verifier it is a number, so its fields are
/// read with [`probe`](super::fields::probe).
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

/// Calls `round` up to `rounds` times, with the number of the round, until it returns 1. The verifier checks one round instead of all.
#[inline(always)]
pub fn repeat<State>(rounds: u32, round: extern "C" fn(u64, &mut State) -> i64, state: &mut State) {
    // SAFETY: `round` has the signature that the helper calls, and the helper passes on `state`, which outlives the call.
    unsafe { bpf_loop(rounds, round as *mut c_void, core::ptr::from_mut(state).cast(), 0) };
}
