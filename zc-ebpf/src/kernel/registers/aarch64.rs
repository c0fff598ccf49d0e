//! Reads calls on `aarch64`.

use aya_ebpf::bindings::user_pt_regs;
use zc_ebpf::{ARM_PRIVATE, ARM_PRIVATE_CALLS, COMPAT};

use super::{Numbered, lower_half};
use crate::kernel::fields::{self, offset_of_field};

/// The kernel's `struct pt_regs` begins with the `struct user_pt_regs` of its arch/arm64/include/uapi/asm/ptrace.h, which is ABI. The
/// fields after it are not, so they are found by their offsets in the kernel's BTF.
pub type Registers = user_pt_regs;

/// `PSR_MODE32_BIT` of the kernel's arch/arm64/include/uapi/asm/ptrace.h: the caller runs 32-bit code. On this architecture 64-bit code
/// cannot make 32-bit calls, nor the other way round.
const PSR_MODE32_BIT: u64 = 0x10;
/// `__ARM_NR_BASE` of the kernel's arch/arm/include/uapi/asm/unistd.h: 32-bit ARM has a few calls with numbers from here on.
const ARM_NR_BASE: i64 = 0x0f_0000;

/// The number of the call, at its exit: `syscallno`, an `int`.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn number(registers: *const Registers) -> i64 {
    // SAFETY: the caller's promise.
    i64::from(unsafe { fields::load::<i32>(registers.cast(), offset_of_field!(registers_number)) })
}

/// The table of a call and its number there, from the number in the register.
///
/// # Safety
///
/// `registers` is the tracepoint's argument.
#[inline(always)]
pub unsafe fn table(registers: *const Registers, number: i64) -> Numbered {
    // SAFETY: the caller's promise.
    let state = unsafe { core::ptr::read_volatile(&raw const (*registers).pstate) };
    if state & PSR_MODE32_BIT == 0 {
        return Numbered::new(number, 0);
    }
    let private = number - ARM_NR_BASE;
    let is_private = (0..i64::from(ARM_PRIVATE_CALLS)).contains(&private);
    Numbered::new(if is_private { private + i64::from(ARM_PRIVATE) } else { number }, COMPAT)
}

/// Whether seccomp trapped the call (`SECCOMP_RET_TRAP`). The kernel's `syscall_rollback` in arch/arm64/include/asm/syscall.h then puts the
/// first argument back into the register of the result.
///
/// # Safety
///
/// `registers` is the argument of the tracepoint `sys_exit`.
#[inline(always)]
pub unsafe fn is_rolled_back(registers: *const Registers) -> bool {
    // SAFETY: the caller's promise.
    unsafe { register(registers, 0) == first_argument(registers) }
}

/// The arguments: x0 to x5. For 32-bit code r0 to r5, which are the lower halves of these.
///
/// # Safety
///
/// `registers` is the argument of the tracepoint `sys_enter`.
#[inline(always)]
pub unsafe fn arguments_at_entry(registers: *const Registers, compat: bool) -> [u64; 8] {
    // SAFETY: the caller's promise.
    unsafe { arguments(registers, register(registers, 0), compat) }
}

/// The arguments. By now x0 has the result, so the first argument comes from the kernel's `orig_x0`.
///
/// # Safety
///
/// `registers` is the argument of the tracepoint `sys_exit`.
#[inline(always)]
pub unsafe fn arguments_at_exit(registers: *const Registers, compat: bool) -> [u64; 8] {
    // SAFETY: the caller's promise.
    unsafe { arguments(registers, first_argument(registers), compat) }
}

#[inline(always)]
unsafe fn arguments(registers: *const Registers, first: u64, compat: bool) -> [u64; 8] {
    // SAFETY: the promise of both callers.
    let [second, third, fourth, fifth, sixth] = unsafe {
        [register(registers, 1), register(registers, 2), register(registers, 3), register(registers, 4), register(registers, 5)]
    };
    if compat {
        let narrow = lower_half;
        [narrow(first), narrow(second), narrow(third), narrow(fourth), narrow(fifth), narrow(sixth), 0, 0]
    } else {
        [first, second, third, fourth, fifth, sixth, 0, 0]
    }
}

/// One of the general registers. The verifier wants a load at a constant offset.
#[inline(always)]
unsafe fn register(registers: *const Registers, index: usize) -> u64 {
    // SAFETY: the promise of all callers, whose indices are constants below 31.
    unsafe { core::ptr::read_volatile((&raw const (*registers).regs).cast::<u64>().add(index)) }
}

/// `orig_x0`: what x0 was when the caller entered the kernel.
#[inline(always)]
unsafe fn first_argument(registers: *const Registers) -> u64 {
    // SAFETY: the promise of all callers.
    unsafe { fields::load(registers.cast(), offset_of_field!(registers_first_argument)) }
}
