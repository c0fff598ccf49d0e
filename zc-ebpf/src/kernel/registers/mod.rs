//! Reads a call from the registers of its caller: its number, the table that the number is from,
//! and its arguments.
//!
//! Each architecture has a file of its own, with the same functions. The build of the programs
//! names the architecture in `bpf_target_arch`. Where that is not set, as when an editor checks
//! this code, it is the architecture of the host.

#[cfg(any(
    bpf_target_arch = "aarch64",
    all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))
))]
mod aarch64;
#[cfg(any(
    bpf_target_arch = "x86_64",
    all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))
))]
mod x86_64;

#[cfg(any(
    bpf_target_arch = "aarch64",
    all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))
))]
use aarch64 as arch;
use aya_ebpf::{helpers::generated::bpf_task_pt_regs, programs::BtfTracePointContext};
#[cfg(any(
    bpf_target_arch = "x86_64",
    all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))
))]
use x86_64 as arch;
use zc_ebpf::{CallId, FIRST_BEYOND};

pub use arch::slots;

use crate::kernel::fields::TypedPtr;

/// The registers of the current call's caller: a `struct pt_regs` of which the verifier knows the
/// type.
#[derive(Clone, Copy)]
pub struct Registers(*const arch::Saved);

/// A call's number, and the table that the number is from.
#[derive(Clone, Copy)]
pub struct Numbered {
    /// The number. [`FIRST_BEYOND`] if no table can have it.
    pub number: u32,
    /// The flag of the table in a [`CallId`]: [`COMPAT`](zc_ebpf::COMPAT), [`X32`](zc_ebpf::X32),
    /// or 0 for the native table.
    pub table: CallId,
}

impl Numbered {
    /// From the number in a register.
    #[inline(always)]
    fn new(number: i64, table: CallId) -> Self {
        let is_in_range = (0..i64::from(FIRST_BEYOND)).contains(&number);
        Self {
            number: if is_in_range {
                number as u32
            } else {
                FIRST_BEYOND
            },
            table,
        }
    }
}

impl Registers {
    /// The registers that the tracepoints `sys_enter` and `sys_exit` have as their first argument.
    #[inline(always)]
    pub fn of_tracepoint(ctx: &BtfTracePointContext) -> Self {
        Self(ctx.arg(0))
    }

    /// The same registers, for other programs that run in the call.
    #[inline(always)]
    pub fn of_current() -> Self {
        Self::of_task(TypedPtr::current_task())
    }

    /// The registers of a task, with which it entered the kernel last.
    #[inline(always)]
    pub fn of_task(task: TypedPtr) -> Self {
        // SAFETY: the helper takes a `task_struct` of which the verifier knows the type.
        Self(unsafe { bpf_task_pt_regs(task.address().cast_mut().cast()) as *const arch::Saved })
    }

    /// The struct itself.
    #[inline(always)]
    pub fn pointer(self) -> TypedPtr {
        TypedPtr::argument(self.0.cast())
    }
}

/// Removes the tag that an address of user space may have in its upper bits. Addresses that differ
/// only in the tag are the same memory.
///
/// On arm64 the tag is in bits 56 to 63 (the kernel's
/// Documentation/arch/arm64/tagged-address-abi.rst). On x86 with linear address masking it is in
/// bits 57 to 62 (its `arch/x86/include/asm/uaccess_64.h`). Untagged addresses of user space use
/// neither. Where tags are not allowed, the kernel refuses tagged addresses.
#[inline(always)]
pub const fn untagged(address: u64) -> u64 {
    address & ((1 << 56) - 1)
}

/// The lower half of a register. A 32-bit call uses no more.
#[inline(always)]
const fn lower_half(register: u64) -> u64 {
    register & 0xffff_ffff
}
