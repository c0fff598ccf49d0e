//! The size that a call asks for, found at its exit: by then the kernel itself has read the caller's memory, so it is there.

use core::ffi::c_void;

use aya_ebpf::helpers::{bpf_probe_read_user, generated::bpf_loop};
use zc_ebpf::{
    CallId, CallSpec, FICLONE_VARIANT, FICLONERANGE_VARIANT, SOCKET_CALLS, SOCKET_VARIANTS, VARIANT_SHIFT, requested, selected,
    socket_slot,
};

use crate::{maps::SPECS, registers::Arguments};

/// Most elements an I/O vector may have: `UIO_MAXIOV` of the kernel's include/uapi/linux/uio.h.
const MAX_VECTOR: u64 = 1024;
/// `FICLONE` of the kernel's include/uapi/linux/fs.h: `_IOW(0x94, 9, int)`.
pub const FICLONE: u32 = 0x4004_9409;
/// `FICLONERANGE`: `_IOW(0x94, 13, struct file_clone_range)`.
pub const FICLONERANGE: u32 = 0x4020_940d;

/// What a call asks for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// So many bytes; 0 for a call that names no size.
    pub bytes: u64,
    /// 1: the memory that says so cannot be read.
    pub is_unknown: u32,
}

impl Request {
    /// The memory that says it cannot be read.
    const UNREADABLE: Self = Self { bytes: 0, is_unknown: 1 };

    #[inline(always)]
    const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, is_unknown: 0 }
    }
}

/// The call with its variant, and what to do with that; `None` if this variant is not selected.
#[inline(always)]
pub fn variant(arguments: &Arguments, spec: CallSpec, call: CallId) -> Option<(CallId, CallSpec)> {
    let argument = || arguments.get(spec.argument) as u32;
    match spec.requested {
        requested::IOCTL => {
            let variant = match argument() {
                FICLONE => FICLONE_VARIANT,
                FICLONERANGE => FICLONERANGE_VARIANT,
                _ if spec.selected == selected::VARIANTS => return None,
                _ => 0,
            };
            Some((call | (variant << VARIANT_SHIFT), spec))
        }
        requested::SOCKETCALL => socket_variant(call, argument()),
        _ => Some((call, spec)),
    }
}

/// Rare, so that it may cost a look-up.
#[inline(always)]
fn socket_variant(call: CallId, argument: u32) -> Option<(CallId, CallSpec)> {
    let argument = if argument < SOCKET_CALLS { argument } else { 0 };
    let spec = SPECS.get(socket_slot(argument)).copied().filter(|spec| spec.selected != selected::NEVER)?;
    Some((call | ((SOCKET_VARIANTS | argument) << VARIANT_SHIFT), spec))
}

/// The size.
#[inline(always)]
pub fn of(arguments: &Arguments, spec: CallSpec) -> Request {
    let compat = arguments.compat;
    let argument = |index| arguments.get(index);
    match spec.requested {
        requested::SIZE => Request::of_bytes(argument(spec.argument)),
        requested::IOVEC => vector(argument(spec.argument), argument(spec.count_argument), compat),
        requested::MSGHDR => message(argument(spec.argument), compat),
        requested::UNKNOWN => Request::UNREADABLE,
        _ => Request::of_bytes(0),
    }
}

/// Sum of the lengths of a `struct iovec[count]`: two words each, the length second.
#[inline(always)]
fn vector(base: u64, count: u64, compat: bool) -> Request {
    if count > MAX_VECTOR {
        return Request::UNREADABLE;
    }
    match sum_of_lengths(base, count as u32, u32::from(compat)) {
        UNREADABLE => Request::UNREADABLE,
        bytes => Request::of_bytes(bytes),
    }
}

/// Stands for a sum that cannot be had.
const UNREADABLE: u64 = u64::MAX;

/// A helper does the loop: the verifier looks at one round of it instead of at a thousand. Global, so that it does so once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sum_of_lengths(base: u64, count: u32, compat: u32) -> u64 {
    let mut sum = Sum { base, bytes: 0, compat, unreadable: 0 };
    // SAFETY: `add_element` has the signature that the helper calls, and `sum` lives longer than the call.
    unsafe { bpf_loop(count, add_element as *mut c_void, (&raw mut sum).cast(), 0) };
    if sum.unreadable == 0 { sum.bytes } else { UNREADABLE }
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
    match vector_of(address, compat) {
        Some((base, count)) => vector(base, count, compat),
        None => Request::UNREADABLE,
    }
}

/// Where the vector of a message stands, and the number of its elements.
#[inline(always)]
pub fn vector_of(message: u64, compat: bool) -> Option<(u64, u64)> {
    let word_bytes = if compat { 4 } else { 8 };
    Some((word(message.wrapping_add(2 * word_bytes), compat)?, word(message.wrapping_add(3 * word_bytes), compat)?))
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
