//! Reads calls on `x86_64`.

use core::mem::offset_of;

/// `struct pt_regs` of the kernel's arch/x86/include/uapi/asm/ptrace.h, which is ABI.
use aya_ebpf::bindings::pt_regs;
use zc_ebpf::{COMPAT, X32};

use super::{Numbered, Registers};
use crate::kernel::fields::{TypedPtr, offset_of_field};

/// `TS_COMPAT` of the kernel's `arch/x86/include/asm/thread_info.h`: this call came through the
/// 32-bit entry. The CS register does not show that, because 64-bit code may use `int 0x80`.
const TS_COMPAT: u32 = 2;
/// `__X32_SYSCALL_BIT` of the kernel's arch/x86/include/uapi/asm/unistd.h.
const X32_BIT: i64 = 0x4000_0000;

/// The place of a register.
macro_rules! place {
    ($name:ident) => {
        offset_of!(pt_regs, $name)
    };
}

/// The places of the arguments of a call.
pub const ARGUMENTS: [usize; 6] = [
    place!(rdi),
    place!(rsi),
    place!(rdx),
    place!(r10),
    place!(r8),
    place!(r9),
];
/// Those of a call through the 32-bit entry.
pub const COMPAT_ARGUMENTS: [usize; 6] = [
    place!(rbx),
    place!(rcx),
    place!(rdx),
    place!(rsi),
    place!(rdi),
    place!(rbp),
];
/// The places of the registers that unwinding starts with, in the order of
/// [`SampledCall::registers`](zc_ebpf::SampledCall::registers).
pub const UNWOUND: [usize; 8] = [
    INSTRUCTION_POINTER,
    STACK_POINTER,
    place!(rbp),
    place!(rbx),
    place!(r12),
    place!(r13),
    place!(r14),
    place!(r15),
];
/// The place of the address at which the caller goes on.
pub const INSTRUCTION_POINTER: usize = place!(rip);
/// The place of the stack pointer.
pub const STACK_POINTER: usize = place!(rsp);

/// The slots of calls that map code: their numbers in `arch/x86/entry/syscalls/syscall_64.tbl` of
/// the kernel.
pub mod slots {
    pub const MMAP: u32 = 9;
    pub const MPROTECT: u32 = 10;
}

impl Registers {
    /// The number of the call, at its exit: `orig_ax`.
    #[inline(always)]
    pub fn number(self) -> i64 {
        self.load(place!(orig_rax)).cast_signed()
    }

    /// The table of the current task's call and its number there, from the number in the register.
    #[inline(always)]
    #[expect(
        clippy::unused_self,
        reason = "the registers of other architectures are needed for this"
    )]
    pub fn table(self, number: i64, current: TypedPtr) -> Numbered {
        if is_compat(current) {
            Numbered::new(number, COMPAT)
        } else if number >= 0 && number & X32_BIT != 0 {
            Numbered::new(number & !X32_BIT, X32)
        } else {
            Numbered::new(number, 0)
        }
    }

    /// Whether seccomp trapped the call (`SECCOMP_RET_TRAP`), at its exit. The kernel's
    /// `syscall_rollback` in arch/x86/include/asm/syscall.h then puts the number back into the
    /// register of the result.
    #[inline(always)]
    pub fn is_rolled_back(self) -> bool {
        self.load(place!(rax)) == self.load(place!(orig_rax))
    }

    /// The arguments at the exit of a call, which does not change their registers.
    #[inline(always)]
    pub fn arguments_at_exit(self, compat: bool) -> [u64; 8] {
        self.arguments_at_entry(compat)
    }
}

/// Whether the current call came through the 32-bit entry.
#[inline(always)]
fn is_compat(current: TypedPtr) -> bool {
    let status: u32 = current.load(offset_of_field!(task_compat_status));
    status & TS_COMPAT != 0
}
