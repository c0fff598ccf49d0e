//! Reads calls on `x86_64`.

use zc_ebpf::{ABSENT, COMPAT, SAMPLE_REGISTERS, X32};

use super::{Numbered, Registers, lower_half};
use crate::kernel::fields::{TypedPtr, offset_of_field};

/// `struct pt_regs` of the kernel's arch/x86/include/uapi/asm/ptrace.h, which is ABI.
pub use aya_ebpf::bindings::pt_regs as Saved;

/// `TS_COMPAT` of the kernel's `arch/x86/include/asm/thread_info.h`: this call came through the
/// 32-bit entry. The CS register does not show that, because 64-bit code may use `int 0x80`.
const TS_COMPAT: u32 = 2;
/// `__X32_SYSCALL_BIT` of the kernel's arch/x86/include/uapi/asm/unistd.h.
const X32_BIT: i64 = 0x4000_0000;

/// Reads a register. The verifier wants a load at a constant offset.
macro_rules! register {
    ($registers:ident.$name:ident) => {{
        let saved: *const Saved = $registers.0;
        // SAFETY: a `Registers` has a whole `struct pt_regs`.
        unsafe { core::ptr::read_volatile(&raw const (*saved).$name) }
    }};
}

impl Registers {
    /// The number of the call, at its exit: `orig_ax`.
    #[inline(always)]
    pub fn number(self) -> i64 {
        register!(self.orig_rax).cast_signed()
    }

    /// The table of a call and its number there, from the number in the register.
    #[inline(always)]
    #[expect(
        clippy::unused_self,
        reason = "the registers of other architectures are needed for this"
    )]
    pub fn table(self, number: i64) -> Numbered {
        if is_compat() {
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
        register!(self.rax).cast_signed() == self.number()
    }

    /// The arguments: di, si, dx, r10, r8, r9; through the 32-bit entry bx, cx, dx, si, di, bp.
    #[inline(always)]
    pub fn arguments_at_entry(self, compat: bool) -> [u64; 8] {
        if compat {
            [
                lower_half(register!(self.rbx)),
                lower_half(register!(self.rcx)),
                lower_half(register!(self.rdx)),
                lower_half(register!(self.rsi)),
                lower_half(register!(self.rdi)),
                lower_half(register!(self.rbp)),
                0,
                0,
            ]
        } else {
            [
                register!(self.rdi),
                register!(self.rsi),
                register!(self.rdx),
                register!(self.r10),
                register!(self.r8),
                register!(self.r9),
                0,
                0,
            ]
        }
    }

    /// The arguments. A call does not change these registers.
    #[inline(always)]
    pub fn arguments_at_exit(self, compat: bool) -> [u64; 8] {
        self.arguments_at_entry(compat)
    }
}

/// The slots of calls that map code: their numbers in `arch/x86/entry/syscalls/syscall_64.tbl` of
/// the kernel.
pub mod slots {
    pub const MMAP: u32 = 9;
    pub const MPROTECT: u32 = 10;
}

impl Registers {
    /// The registers that unwinding starts with, in the order of
    /// [`SampledCall::registers`](zc_ebpf::SampledCall::registers). Those that a function may
    /// change are not among them.
    #[inline(always)]
    pub fn save_for_unwinding(self, into: &mut [u64; SAMPLE_REGISTERS]) {
        *into = [0; SAMPLE_REGISTERS];
        [into[0], into[1], into[2], into[3]] = [
            register!(self.rip),
            register!(self.rsp),
            register!(self.rbp),
            register!(self.rbx),
        ];
        [into[4], into[5], into[6], into[7]] = [
            register!(self.r12),
            register!(self.r13),
            register!(self.r14),
            register!(self.r15),
        ];
    }

    /// Where the caller goes on.
    #[inline(always)]
    pub fn instruction_pointer(self) -> u64 {
        register!(self.rip)
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn stack_pointer(self) -> u64 {
        register!(self.rsp)
    }
}

/// Whether the current call came through the 32-bit entry.
#[inline(always)]
fn is_compat() -> bool {
    let offset = offset_of_field!(task_compat_status);
    if offset == ABSENT {
        return false;
    }
    let status: u32 = TypedPtr::current_task().load(offset);
    status & TS_COMPAT != 0
}
