//! What the registers of the caller tell about a call: its number, its arguments, and which table its number is from.
//!
//! There is one file per architecture, and all of them have the same functions. The build of the programs names the architecture
//! in `bpf_target_arch`; on the host, where clippy reads this code, it is that of the host.

#[cfg(any(bpf_target_arch = "aarch64", all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))))]
mod aarch64;
#[cfg(any(bpf_target_arch = "x86_64", all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))))]
mod x86_64;

#[cfg(any(bpf_target_arch = "aarch64", all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))))]
use aarch64 as arch;
use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_task_pt_regs};
#[cfg(any(bpf_target_arch = "x86_64", all(target_arch = "x86_64", not(bpf_target_arch = "aarch64"))))]
use x86_64 as arch;
use zc_ebpf::{CallId, FIRST_BEYOND};

pub use arch::{Registers, arguments_at_entry, arguments_at_exit, is_rolled_back, number, table};

/// A call's number, and the table that it is from.
#[derive(Clone, Copy)]
pub struct Numbered {
    /// The number; [`FIRST_BEYOND`] for those that no table has.
    pub number: u32,
    /// The flag of the table in a [`CallId`]: [`COMPAT`](zc_ebpf::COMPAT), [`X32`](zc_ebpf::X32), or 0 for the machine's own.
    pub table: CallId,
}

impl Numbered {
    /// A number as a register has it.
    #[inline(always)]
    fn new(number: i64, table: CallId) -> Self {
        let is_in_range = (0..i64::from(FIRST_BEYOND)).contains(&number);
        Self { number: if is_in_range { number as u32 } else { FIRST_BEYOND }, table }
    }
}

/// The registers of the current task's call: what the tracepoints `sys_enter` and `sys_exit` have as their argument.
#[inline(always)]
pub fn of_current() -> *const Registers {
    // SAFETY: the current task is a typed pointer to the verifier.
    unsafe { bpf_task_pt_regs(bpf_get_current_task_btf()) as *const Registers }
}

/// An address of user space without the tag that it may have in its upper bits: addresses that differ in that alone are of the same
/// memory.
///
/// On arm64 a tag has bits 56 to 63 (the kernel's Documentation/arch/arm64/tagged-address-abi.rst), on x86 with linear address masking
/// bits 57 to 62 (its `arch/x86/include/asm/uaccess_64.h`), and addresses of user space are below both. Where tags are not allowed, the
/// kernel refuses such an address.
#[inline(always)]
pub const fn untagged(address: u64) -> u64 {
    address & ((1 << 56) - 1)
}

/// The lower half of a register, which is all that a 32-bit call has.
#[inline(always)]
const fn lower_half(register: u64) -> u64 {
    register & 0xffff_ffff
}
