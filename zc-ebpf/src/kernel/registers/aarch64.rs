//! Reads calls on `aarch64`.

use aya_ebpf::bindings::user_pt_regs;
use zc_ebpf::{ARM_PRIVATE, ARM_PRIVATE_CALLS, COMPAT, SAMPLE_REGISTERS};

use super::{Numbered, Registers, lower_half};
use crate::kernel::fields::{TypedPtr, offset_of_field};

/// The kernel's `struct pt_regs` begins with the `struct user_pt_regs` of its
/// arch/arm64/include/uapi/asm/ptrace.h, which is ABI. The fields after it are not, so they are
/// found by their offsets in the kernel's BTF.
pub type Saved = user_pt_regs;

/// `PSR_MODE32_BIT` of the kernel's arch/arm64/include/uapi/asm/ptrace.h: the caller runs 32-bit
/// code. On this architecture 64-bit code cannot make 32-bit calls, nor the other way round.
const PSR_MODE32_BIT: u64 = 0x10;
/// `__ARM_NR_BASE` of the kernel's arch/arm/include/uapi/asm/unistd.h: 32-bit ARM has a few calls
/// with numbers from here on.
const ARM_NR_BASE: i64 = 0x0f_0000;

impl Registers {
    /// The number of the call, at its exit: `syscallno`, an `int`.
    #[inline(always)]
    pub fn number(self) -> i64 {
        i64::from(TypedPtr::argument(self.0.cast()).load::<i32>(offset_of_field!(registers_number)))
    }

    /// The table of a call and its number there, from the number in the register.
    #[inline(always)]
    pub fn table(self, number: i64) -> Numbered {
        // SAFETY: a `Registers` has a whole `struct pt_regs`.
        let state = unsafe { core::ptr::read_volatile(&raw const (*self.0).pstate) };
        if state & PSR_MODE32_BIT == 0 {
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
        self.register::<0>() == self.first_argument()
    }

    /// The arguments: x0 to x5. For 32-bit code r0 to r5, which are the lower halves of these.
    #[inline(always)]
    pub fn arguments_at_entry(self, compat: bool) -> [u64; 8] {
        self.arguments(self.register::<0>(), compat)
    }

    /// The arguments. By now x0 has the result, so the first argument comes from the kernel's
    /// `orig_x0`.
    #[inline(always)]
    pub fn arguments_at_exit(self, compat: bool) -> [u64; 8] {
        self.arguments(self.first_argument(), compat)
    }

    /// The arguments, the first of which the caller knows.
    #[inline(always)]
    fn arguments(self, first: u64, compat: bool) -> [u64; 8] {
        let [second, third, fourth, fifth, sixth] = [
            self.register::<1>(),
            self.register::<2>(),
            self.register::<3>(),
            self.register::<4>(),
            self.register::<5>(),
        ];
        if compat {
            let narrow = lower_half;
            [
                narrow(first),
                narrow(second),
                narrow(third),
                narrow(fourth),
                narrow(fifth),
                narrow(sixth),
                0,
                0,
            ]
        } else {
            [first, second, third, fourth, fifth, sixth, 0, 0]
        }
    }

    /// One of the general registers. The verifier wants a load at a constant offset.
    #[inline(always)]
    fn register<const INDEX: usize>(self) -> u64 {
        const { assert!(INDEX < 31, "there are 31 general registers") };
        // SAFETY: a `Registers` has a whole `struct pt_regs`, and there is a register of this
        // index.
        unsafe { core::ptr::read_volatile((&raw const (*self.0).regs).cast::<u64>().add(INDEX)) }
    }

    /// `orig_x0`: what x0 was when the caller entered the kernel.
    #[inline(always)]
    fn first_argument(self) -> u64 {
        TypedPtr::argument(self.0.cast()).load(offset_of_field!(registers_first_argument))
    }
}

/// The slots of calls that map code: their numbers in include/uapi/asm-generic/unistd.h of the
/// kernel.
pub mod slots {
    pub const MMAP: u32 = 222;
    pub const MPROTECT: u32 = 226;
}

impl Registers {
    /// The registers that unwinding starts with, in the order of
    /// [`SampledCall::registers`](zc_ebpf::SampledCall::registers). Those that a function may
    /// change are not among them.
    #[inline(always)]
    pub fn save_for_unwinding(self, into: &mut [u64; SAMPLE_REGISTERS]) {
        *into = [0; SAMPLE_REGISTERS];
        [into[0], into[1], into[2], into[3]] = [
            self.instruction_pointer(),
            self.stack_pointer(),
            self.register::<29>(),
            self.register::<30>(),
        ];
        [into[4], into[5], into[6], into[7], into[8]] = [
            self.register::<19>(),
            self.register::<20>(),
            self.register::<21>(),
            self.register::<22>(),
            self.register::<23>(),
        ];
        [into[9], into[10], into[11], into[12], into[13]] = [
            self.register::<24>(),
            self.register::<25>(),
            self.register::<26>(),
            self.register::<27>(),
            self.register::<28>(),
        ];
    }

    /// Where the caller goes on.
    #[inline(always)]
    pub fn instruction_pointer(self) -> u64 {
        // SAFETY: a `Registers` has a whole `struct pt_regs`.
        unsafe { core::ptr::read_volatile(&raw const (*self.0).pc) }
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn stack_pointer(self) -> u64 {
        // SAFETY: a `Registers` has a whole `struct pt_regs`.
        unsafe { core::ptr::read_volatile(&raw const (*self.0).sp) }
    }
}
