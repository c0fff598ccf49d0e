//! Reads calls on `aarch64`.

use core::mem::offset_of;

/// The kernel's `struct pt_regs` begins with the `struct user_pt_regs` of its
/// arch/arm64/include/uapi/asm/ptrace.h, which is ABI. The fields after it are not, so they are
/// found by their offsets in the kernel's BTF.
use aya_ebpf::bindings::user_pt_regs;
use zc_ebpf::{ARM_PRIVATE, ARM_PRIVATE_CALLS, COMPAT};

use super::{Numbered, Registers, lower_half};
use crate::kernel::fields::{TypedPtr, offset_of_field};

/// `PSR_MODE32_BIT` of the kernel's arch/arm64/include/uapi/asm/ptrace.h: the caller runs 32-bit
/// code. On this architecture 64-bit code cannot make 32-bit calls, nor the other way round.
const PSR_MODE32_BIT: u64 = 0x10;
/// `__ARM_NR_BASE` of the kernel's arch/arm/include/uapi/asm/unistd.h: 32-bit ARM has a few calls
/// with numbers from here on.
const ARM_NR_BASE: i64 = 0x0f_0000;

/// The place of the general register with this number.
const fn place(number: usize) -> usize {
    assert!(number < 31, "there are 31 general registers");
    offset_of!(user_pt_regs, regs) + 8 * number
}

/// The places of so many general registers, from this number on.
const fn places<const COUNT: usize>(first: usize) -> [usize; COUNT] {
    let mut places = [0; COUNT];
    let mut index = 0;
    while index < COUNT {
        places[index] = place(first + index);
        index += 1;
    }
    places
}

/// The places of the arguments of a call.
pub const ARGUMENTS: [usize; 6] = places(0);
/// Those of a call of 32-bit code: its r0 to r5 are the lower halves of these.
pub const COMPAT_ARGUMENTS: [usize; 6] = ARGUMENTS;
/// The places of the registers that unwinding starts with, in the order of
/// [`SampledCall::registers`](zc_ebpf::SampledCall::registers).
pub const UNWOUND: [usize; 14] = {
    let mut unwound = [0; 14];
    let (named, preserved) = unwound.split_at_mut(4);
    named.copy_from_slice(&[INSTRUCTION_POINTER, STACK_POINTER, place(29), place(30)]);
    preserved.copy_from_slice(&places::<10>(19));
    unwound
};
/// The place of the address at which the caller goes on.
pub const INSTRUCTION_POINTER: usize = offset_of!(user_pt_regs, pc);
/// The place of the stack pointer.
pub const STACK_POINTER: usize = offset_of!(user_pt_regs, sp);

/// The slots of calls that map code: their numbers in include/uapi/asm-generic/unistd.h of the
/// kernel.
pub mod slots {
    pub const MMAP: u32 = 222;
    pub const MPROTECT: u32 = 226;
}

impl Registers {
    /// The number of the call, at its exit: `syscallno`, an `int`.
    #[inline(always)]
    pub fn number(self) -> i64 {
        i64::from(self.0.load::<i32>(offset_of_field!(registers_number)))
    }

    /// The table of the current task's call and its number there, from the number in the register.
    #[inline(always)]
    pub fn table(self, number: i64, _current: TypedPtr) -> Numbered {
        if self.load(offset_of!(user_pt_regs, pstate)) & PSR_MODE32_BIT == 0 {
            return Numbered::new(number, 0);
        }
        let private = number - ARM_NR_BASE;
        let is_private = (0..i64::from(ARM_PRIVATE_CALLS)).contains(&private);
        Numbered::new(
            if is_private {
                private + i64::from(ARM_PRIVATE)
            } else {
                number
            },
            COMPAT,
        )
    }

    /// Whether seccomp trapped the call (`SECCOMP_RET_TRAP`), at its exit. The kernel's
    /// `syscall_rollback` in arch/arm64/include/asm/syscall.h then puts the first argument back
    /// into the register of the result.
    #[inline(always)]
    pub fn is_rolled_back(self) -> bool {
        self.load(place(0)) == self.first_argument()
    }

    /// The arguments at the exit of a call. By now x0 has the result, so the first argument comes
    /// from the kernel's `orig_x0`.
    #[inline(always)]
    pub fn arguments_at_exit(self, compat: bool) -> [u64; 8] {
        let mut values = self.arguments_at_entry(compat);
        let first = self.first_argument();
        values[0] = if compat { lower_half(first) } else { first };
        values
    }

    /// `orig_x0`: what x0 was when the caller entered the kernel.
    #[inline(always)]
    fn first_argument(self) -> u64 {
        self.0.load(offset_of_field!(registers_first_argument))
    }
}
