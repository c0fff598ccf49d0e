//! Reads the kernel's own structs, at the offsets that user space finds in the kernel's BTF.
//!
//! To the verifier the offsets are constants, because the global is frozen before it checks the
//! programs. So it skips the code for a field that this kernel lacks, and accepts a plain load
//! through a typed pointer.

use core::mem::MaybeUninit;

use aya_ebpf::{
    Global,
    helpers::{
        bpf_probe_read_kernel,
        generated::{self, bpf_get_current_task_btf},
    },
};
use zc_ebpf::{ABSENT, KernelFields, TaskCounters};

/// A pointer to a kernel struct: `task_struct`, `pid`, ... The offset that is used with it says
/// which.
pub type KernelPtr = *const u8;

/// A type that can be read from any memory.
///
/// # Safety
///
/// Every bit pattern is a valid value.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),+) => {
        // SAFETY: an integer or a raw pointer.
        $(unsafe impl Plain for $type {})+
    };
}
plain!(u8, u16, u32, u64, i32, i64, KernelPtr);
// SAFETY: an array of integers.
unsafe impl<const LENGTH: usize> Plain for [u8; LENGTH] {}
// SAFETY: an array of integers.
unsafe impl<const LENGTH: usize> Plain for [u64; LENGTH] {}

/// Filled in by user space.
#[unsafe(no_mangle)]
static FIELDS: Global<KernelFields> = Global::new(KernelFields::NONE);

/// The offset in bytes of a field in [`KernelFields`]. [`ABSENT`] if this kernel lacks the field.
macro_rules! offset_of_field {
    ($field:ident) => {
        $crate::kernel::fields::offset(core::mem::offset_of!(zc_ebpf::KernelFields, $field))
    };
}
pub(crate) use offset_of_field;

/// The offset that is stored at this place in [`KernelFields`]. It takes one load of 4 bytes
/// instead of a copy of the whole struct.
#[inline(always)]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "`place` is the offset of a u32 in a struct of them"
)]
pub fn offset(place: usize) -> u32 {
    // SAFETY: `place` is the offset of a u32 in KernelFields. Volatile because user space fills the
    // global in after compilation.
    unsafe { core::ptr::read_volatile((&raw const FIELDS).cast::<u8>().add(place).cast::<u32>()) }
}

/// A pointer to a kernel struct whose type the verifier knows: an argument of a tracepoint or a
/// callback, the current task, or a typed field of such a struct. The verifier refuses a program
/// that takes any other pointer for one, or reads beyond the struct, so reading is safe.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct TypedPtr(KernelPtr);

// SAFETY: a raw pointer.
unsafe impl Plain for TypedPtr {}

impl TypedPtr {
    /// An argument of a tracepoint.
    #[inline(always)]
    pub fn argument(argument: KernelPtr) -> Self {
        Self(argument)
    }

    /// The current `task_struct`.
    #[inline(always)]
    pub fn current_task() -> Self {
        // SAFETY: the helper has no preconditions.
        Self(unsafe { bpf_get_current_task_btf() }.cast::<u8>())
    }

    /// The lower half of the address, as a number to compute with. The verifier refuses to compute
    /// with the whole address.
    #[inline(always)]
    pub fn lower_half(self) -> u64 {
        let mut half = self.0 as u64;
        #[cfg(target_arch = "bpf")]
        // SAFETY: a copy from register to register. The registers are named because only so can the
        // lower half of one be.
        unsafe {
            core::arch::asm!("w0 = w1", in("r1") self.0, out("r0") half, options(pure, nomem, nostack));
        }
        #[cfg(not(target_arch = "bpf"))]
        {
            half &= u64::from(u32::MAX);
        }
        half
    }

    /// The address.
    #[inline(always)]
    pub fn address(self) -> KernelPtr {
        self.0
    }

    /// Reads a field, without a call of a helper. A null pointer reads as zeroes.
    #[inline(always)]
    pub fn load<T: Plain>(self, offset: u32) -> T {
        // SAFETY: see above. Volatile, because the verifier wants a plain load of this width.
        unsafe { core::ptr::read_volatile(self.0.add(offset as usize).cast::<T>()) }
    }
}

/// The address of a kernel struct as a number to compute with. The verifier refuses that for a
/// pointer whose type it knows, but not for a copy of its bytes. 0 if the helper fails, which it
/// does not.
#[inline(always)]
pub fn as_number(pointer: KernelPtr) -> u64 {
    probe_at((&raw const pointer).cast()).unwrap_or(0)
}

/// Reads a field of any kernel struct. `None` if this kernel lacks the field, or the memory cannot
/// be read.
#[inline(always)]
pub fn probe<T: Plain>(base: KernelPtr, offset: u32) -> Option<T> {
    if offset == ABSENT {
        return None;
    }
    probe_at(base.wrapping_add(offset as usize))
}

/// Reads kernel memory at an address. `None` if it cannot be read.
#[inline(always)]
pub fn probe_at<T: Plain>(address: KernelPtr) -> Option<T> {
    // SAFETY: the helper checks the address, and whatever it reads is a `T`.
    unsafe { bpf_probe_read_kernel(address.cast::<T>()) }.ok()
}

/// Reads a field of any kernel struct. The value is zero if this kernel lacks the field or the
/// memory cannot be read.
///
/// This has one path, where `probe(...).unwrap_or(0)` has two. Verifiers before 6.9 distinguish a
/// zero on the stack from other values, so seven such fields in a row would be 128 paths.
#[inline(always)]
pub fn probe_or_zero<T: Plain>(base: KernelPtr, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // Nothing can be read from address 0.
    let from = if offset == ABSENT {
        core::ptr::null()
    } else {
        base.wrapping_add(offset as usize)
    };
    // SAFETY: the helper checks the address and fills all of `value`, with zeroes if it cannot
    // read. Whatever it fills in is a `T`.
    unsafe {
        generated::bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            from.cast(),
        );
        value.assume_init()
    }
}

/// As [`probe_or_zero`], for a pointer. Whatever is read through a null pointer is zero, too.
#[inline(always)]
pub fn probe_pointer(base: KernelPtr, offset: u32) -> KernelPtr {
    probe_or_zero::<u64>(base, offset) as KernelPtr
}

/// A task's counters.
#[inline(always)]
pub fn counters(task: KernelPtr) -> TaskCounters {
    let read = |offset| probe_or_zero::<u64>(task, offset);
    TaskCounters {
        user_ns: read(offset_of_field!(task_utime)),
        system_ns: read(offset_of_field!(task_stime)),
        runtime_ns: read(offset_of_field!(task_runtime)),
        run_delay_ns: read(offset_of_field!(task_run_delay)),
        voluntary_switches: read(offset_of_field!(task_nvcsw)),
        involuntary_switches: read(offset_of_field!(task_nivcsw)),
        minor_faults: read(offset_of_field!(task_min_flt)),
        major_faults: read(offset_of_field!(task_maj_flt)),
    }
}

/// A task's thread id and process id in the PID namespace at this depth. User space has found all
/// fields for that.
#[inline(always)]
pub fn ids(task: KernelPtr, level: u32) -> (u32, u32) {
    let leader = probe_pointer(task, offset_of_field!(task_group_leader));
    (id(task, level), id(leader, level))
}

/// A task's id in the PID namespace at this depth: `task->thread_pid->numbers[level].nr`.
#[inline(always)]
fn id(task: KernelPtr, level: u32) -> u32 {
    let pid = probe_pointer(task, offset_of_field!(task_thread_pid));
    let depth = level.wrapping_mul(offset_of_field!(upid_size));
    probe_or_zero(pid, offset_of_field!(pid_numbers).wrapping_add(depth))
}

/// How deep a task's PID namespace is nested: `task->thread_pid->level`.
#[inline(always)]
pub fn pidns_level(task: KernelPtr) -> u32 {
    let pid = probe_pointer(task, offset_of_field!(task_thread_pid));
    probe_or_zero(pid, offset_of_field!(pid_level))
}
