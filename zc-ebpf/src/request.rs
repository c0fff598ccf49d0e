//! The size that a call asks for, found at its exit: by then the kernel itself has read the caller's memory, so it is there.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::pt_regs,
    helpers::{bpf_probe_read_user, generated::bpf_loop},
};
use zc_ebpf::{CallId, CallSpec, FICLONE_VARIANT, FICLONERANGE_VARIANT, VARIANT_SHIFT, requested, selected};

use crate::fields::regs;

/// Most elements an I/O vector may have: `UIO_MAXIOV` of the kernel's include/uapi/linux/uio.h.
const MAX_VECTOR: u64 = 1024;
/// `FICLONE` of the kernel's include/uapi/linux/fs.h: `_IOW(0x94, 9, int)`.
pub const FICLONE: u32 = 0x4004_9409;
/// `FICLONERANGE`: `_IOW(0x94, 13, struct file_clone_range)`.
pub const FICLONERANGE: u32 = 0x4020_940d;

/// What a call asks for.
#[derive(Clone, Copy)]
pub enum Request {
    /// So many bytes; 0 for a call that names no size.
    Bytes(u64),
    /// The memory that says so cannot be read.
    Unreadable,
}

/// The size, and the call with its variant; `None` if this variant is not selected.
#[inline(always)]
pub fn of(registers: *const pt_regs, spec: CallSpec, call: CallId, compat: bool) -> Option<(CallId, Request)> {
    // SAFETY: `registers` is the tracepoint's argument.
    let argument = |index| unsafe { regs::argument(registers, index, compat) };
    let request = match spec.requested {
        requested::SIZE => Request::Bytes(argument(spec.argument)),
        requested::IOVEC => vector(argument(spec.argument), argument(spec.count_argument), compat),
        requested::MSGHDR => message(argument(spec.argument), compat),
        requested::IOCTL => {
            let variant = match argument(spec.argument) as u32 {
                FICLONE => FICLONE_VARIANT,
                FICLONERANGE => FICLONERANGE_VARIANT,
                _ if spec.selected == selected::VARIANTS => return None,
                _ => 0,
            };
            return Some((call | (variant << VARIANT_SHIFT), Request::Bytes(0)));
        }
        _ => Request::Bytes(0),
    };
    Some((call, request))
}

/// Sum of the lengths of a `struct iovec[count]`: two words each, the length second.
#[inline(always)]
fn vector(base: u64, count: u64, compat: bool) -> Request {
    if count > MAX_VECTOR {
        return Request::Unreadable;
    }
    let mut sum = Sum { base, bytes: 0, compat: u32::from(compat), unreadable: 0 };
    // A helper does the loop: the verifier looks at one round of it instead of at a thousand.
    // SAFETY: `add_element` has the signature that the helper calls, and `sum` lives longer than the call.
    unsafe { bpf_loop(count as u32, add_element as *mut c_void, (&raw mut sum).cast(), 0) };
    if sum.unreadable == 0 { Request::Bytes(sum.bytes) } else { Request::Unreadable }
}

/// What the rounds of the loop share.
#[repr(C)]
struct Sum {
    base: u64,
    bytes: u64,
    compat: u32,
    unreadable: u32,
}

/// One round: adds the length of an element. 1 ends the loop.
extern "C" fn add_element(index: u64, sum: *mut c_void) -> i64 {
    // SAFETY: the helper passes on the pointer that `vector` gave it.
    let sum = unsafe { &mut *sum.cast::<Sum>() };
    let compat = sum.compat != 0;
    let length = word(sum.base.wrapping_add(if compat { index * 8 + 4 } else { index * 16 + 8 }), compat);
    if let Some(bytes) = length.and_then(|length| sum.bytes.checked_add(length)) {
        sum.bytes = bytes;
        0
    } else {
        sum.unreadable = 1;
        1
    }
}

/// The vector of a `struct msghdr`: its third and fourth word (the second is a 4-byte length, padded).
#[inline(always)]
fn message(address: u64, compat: bool) -> Request {
    let count = word(address.wrapping_add(if compat { 3 * 4 } else { 3 * 8 }), compat);
    match (vector_of(address, compat), count) {
        (Some(base), Some(count)) => vector(base, count, compat),
        _ => Request::Unreadable,
    }
}

/// Where the vector of a message stands.
#[inline(always)]
pub fn vector_of(message: u64, compat: bool) -> Option<u64> {
    word(message.wrapping_add(if compat { 2 * 4 } else { 2 * 8 }), compat)
}

/// A word of the caller's memory, of the caller's size.
#[inline(always)]
pub fn word(address: u64, compat: bool) -> Option<u64> {
    // SAFETY: the helper checks the address.
    unsafe {
        if compat {
            bpf_probe_read_user(address as *const u32).ok().map(u64::from)
        } else {
            bpf_probe_read_user(address as *const u64).ok()
        }
    }
}
