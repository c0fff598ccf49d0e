//! Reads calls on `x86_64`.

use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use zc_ebpf::{ABSENT, COMPAT, X32};

use super::{Numbered, lower_half};
use crate::kernel::fields::{self, offset_of_field};

/// `struct pt_regs` of the kernel's arch/x86/include/uapi/asm/ptrace.h, which is ABI.
pub use aya_ebpf::bindings::pt_regs as Registers;

/// `TS_COMPAT` of the kernel's `arch/x86/include/asm/thread_info.h`: this call came through the 32-bit entry. The CS register does not
/// show that, because 64-bit code may use `int 0x80`.
const TS_COMPAT: u32 = 2;
/// `__X32_SYSCALL_BIT` of the kernel's arch/x86/include/uapi/asm/unistd.h.
const X32_BIT: i64 = 0x4000_0000;

/// The number of the call, at its exit: `orig_ax`.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn number(registers: *const Registers) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::read_volatile(&raw const (*registers).orig_rax) as i64 }
}

/// The table of a call and its number there, from the number in the register.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn table(_registers: *const Registers, number: i64) -> Numbered {
    if is_compat() {
        Numbered::new(number, COMPAT)
    } else if number >= 0 && number & X32_BIT != 0 {
        Numbered::new(number & !X32_BIT, X32)
    } else {
        Numbered::new(number, 0)
    }
}

/// Whether the current call came through the 32-bit entry.
#[inline(always)]
fn is_compat() -> bool {
    let offset = offset_of_field!(task_compat_status);
    if offset == ABSENT {
        return false;
    }
    // SAFETY: the current task is a typed pointer to the verifier.
    let status: u32 = unsafe { fields::load(bpf_get_current_task_btf().cast(), offset) };
    status & TS_COMPAT != 0
}

/// Whether seccomp trapped the call (`SECCOMP_RET_TRAP`). The kernel's `syscall_rollback` in arch/x86/include/asm/syscall.h then puts the
/// number back into the register of the result.
///
/// # Safety
///
/// `registers` is the argument of the tracepoint `sys_exit`.
#[inline(always)]
pub unsafe fn is_rolled_back(registers: *const Registers) -> bool {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::read_volatile(&raw const (*registers).rax) as i64 == number(registers) }
}

/// The arguments: di, si, dx, r10, r8, r9; through the 32-bit entry bx, cx, dx, si, di, bp.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn arguments_at_entry(registers: *const Registers, compat: bool) -> [u64; 8] {
    // SAFETY: the caller's promise. Each is a load at a constant offset, which is what the verifier wants.
    unsafe {
        let native = |address: *const u64| core::ptr::read_volatile(address);
        let narrow = |address: *const u64| lower_half(core::ptr::read_volatile(address));
        if compat {
            [
                narrow(&raw const (*registers).rbx),
                narrow(&raw const (*registers).rcx),
                narrow(&raw const (*registers).rdx),
                narrow(&raw const (*registers).rsi),
                narrow(&raw const (*registers).rdi),
                narrow(&raw const (*registers).rbp),
                0,
                0,
            ]
        } else {
            [
                native(&raw const (*registers).rdi),
                native(&raw const (*registers).rsi),
                native(&raw const (*registers).rdx),
                native(&raw const (*registers).r10),
                native(&raw const (*registers).r8),
                native(&raw const (*registers).r9),
                0,
                0,
            ]
        }
    }
}

/// The arguments. A call does not change these registers.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn arguments_at_exit(registers: *const Registers, compat: bool) -> [u64; 8] {
    // SAFETY: the caller's promise.
    unsafe { arguments_at_entry(registers, compat) }
}
