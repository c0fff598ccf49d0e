//! The mappings of the current task.

use core::ffi::c_void;

use aya_ebpf::{bindings::task_struct, helpers::generated::bpf_find_vma};
use zc_ebpf::ABSENT;

use crate::kernel::fields::{self, KernelPtr, TypedPtr, offset_of_field};

/// A mapping of the current task.
#[repr(C)]
pub struct Vma {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Its `VM_...` flags.
    pub flags: u64,
    /// The page of the file that it begins with.
    pub page: u64,
    /// Not 0: a private mapping may have pages of its own, because the process has changed some.
    /// The kernel sets this before it makes the first.
    pub changed_pages: u64,
    /// The mapped file, or null. It may be freed at once if another thread unmaps the memory.
    pub file: KernelPtr,
}

/// Why there is no mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoVma {
    /// Nothing is mapped there.
    Unmapped,
    /// Another thread changes the mappings.
    Busy,
}

/// `-EBUSY` of the kernel's include/uapi/asm-generic/errno-base.h.
const BUSY: i64 = -16;

/// The mapping at this address.
#[inline(always)]
pub fn vma_at(address: u64) -> Result<Vma, NoVma> {
    let mut found = Vma {
        start: 0,
        end: 0,
        flags: 0,
        page: 0,
        changed_pages: 0,
        file: core::ptr::null(),
    };
    if offset_of_field!(vma_file) == ABSENT {
        return Err(NoVma::Unmapped);
    }
    match with_vma_at(address, copy, &mut found) {
        0 => Ok(found),
        BUSY => Err(NoVma::Busy),
        _ => Err(NoVma::Unmapped),
    }
}

/// What [`with_vma_at`] calls.
pub type WithVma<State> = extern "C" fn(*mut task_struct, TypedPtr, &mut State) -> i64;

/// Calls `then` with the mapping at this address, if there is one. Returns 0 if it did.
#[inline(always)]
pub fn with_vma_at<State>(address: u64, then: WithVma<State>, state: &mut State) -> i64 {
    let task = TypedPtr::current_task().address().cast_mut().cast();
    // SAFETY: `then` has the signature that the helper calls, and `state` lives longer than the
    // call.
    unsafe {
        bpf_find_vma(
            task,
            address,
            then as *mut c_void,
            core::ptr::from_mut(state).cast(),
            0,
        )
    }
}

/// Called by the helper with the mapping that was found.
extern "C" fn copy(_task: *mut task_struct, vma: TypedPtr, found: &mut Vma) -> i64 {
    *found = Vma {
        start: vma.load(offset_of_field!(vma_start)),
        end: vma.load(offset_of_field!(vma_end)),
        flags: vma.load(offset_of_field!(vma_flags)),
        page: vma.load(offset_of_field!(vma_page)),
        changed_pages: fields::probe_or_zero(vma.address(), offset_of_field!(vma_anon)),
        // Read with a helper, so that it is a number: a typed pointer could not be passed to a
        // global function.
        file: fields::probe_pointer(vma.address(), offset_of_field!(vma_file)),
    };
    0
}
