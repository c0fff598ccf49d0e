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
#[path = "aarch64.rs"]
mod arch;
#[cfg(not(any(
    bpf_target_arch = "aarch64",
    all(target_arch = "aarch64", not(bpf_target_arch = "x86_64"))
)))]
#[path = "x86_64.rs"]
mod arch;

use aya_ebpf::{helpers::generated::bpf_task_pt_regs, programs::BtfTracePointContext};
use zc_ebpf::{CallId, FIRST_BEYOND, SAMPLE_REGISTERS};

pub use arch::slots;

use crate::kernel::fields::{KernelPtr, TypedPtr};

/// The registers of the current call's caller: a `struct pt_regs` of which the verifier knows the
/// type.
#[derive(Clone, Copy)]
pub struct Registers(TypedPtr);

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
        Self(TypedPtr::argument(ctx.arg(0)))
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
        let registers = unsafe { bpf_task_pt_regs(task.address().cast_mut().cast()) };
        Self(TypedPtr::argument(registers as KernelPtr))
    }

    /// The struct itself.
    #[inline(always)]
    pub fn pointer(self) -> TypedPtr {
        self.0
    }

    /// The register at this place. The verifier wants a load at a constant offset.
    #[inline(always)]
    fn load(self, place: usize) -> u64 {
        self.0.load(place as u32)
    }

    /// The registers at these places, which are constants. What is behind them is left as it is.
    #[inline(always)]
    fn load_all<const COUNT: usize>(self, places: [usize; COUNT], into: &mut [u64]) {
        for (value, place) in into.iter_mut().zip(places) {
            *value = self.load(place);
        }
    }

    /// The arguments at the entry of a call.
    #[inline(always)]
    pub fn arguments_at_entry(self, compat: bool) -> [u64; 8] {
        let mut values = [0; 8];
        if compat {
            self.load_all(arch::COMPAT_ARGUMENTS, &mut values);
            values.map(lower_half)
        } else {
            self.load_all(arch::ARGUMENTS, &mut values);
            values
        }
    }

    /// The registers that unwinding starts with. Those that a function may change are not among
    /// them.
    #[inline(always)]
    pub fn save_for_unwinding(self, into: &mut [u64; SAMPLE_REGISTERS]) {
        *into = [0; SAMPLE_REGISTERS];
        self.load_all(arch::UNWOUND, into);
    }

    /// Where the caller goes on.
    #[inline(always)]
    pub fn instruction_pointer(self) -> u64 {
        self.load(arch::INSTRUCTION_POINTER)
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn stack_pointer(self) -> u64 {
        self.load(arch::STACK_POINTER)
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
