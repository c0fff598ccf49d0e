//! What a sample has of its caller: the registers, and a copy of the top of the stack.

use gimli::Register;

/// Registers by their numbers in DWARF tables: 0 to 16 on `x86_64`, where 16 is the return address;
/// 0 to 31 on arm64, where 31 is the stack pointer.
const REGISTERS: usize = 32;

/// The registers that have names of their own here, and those that calls preserve, as samples have
/// them after the instruction pointer.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) mod numbers {
    pub const STACK_POINTER: u16 = 7;
    pub const FRAME_POINTER: u16 = 6;
    /// The return address: not in a register of the function.
    pub const LINK: u16 = 16;
    /// sp, bp, bx, r12 to r15
    pub const SAMPLED: &[u16] = &[7, 6, 3, 12, 13, 14, 15];
}
#[cfg(target_arch = "aarch64")]
pub(crate) mod numbers {
    pub const STACK_POINTER: u16 = 31;
    pub const FRAME_POINTER: u16 = 29;
    pub const LINK: u16 = 30;
    /// sp, x29, x30, x19 to x28
    pub const SAMPLED: &[u16] = &[31, 29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];
}

/// The registers of a function, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledRegisters {
    pub(crate) instruction_pointer: u64,
    pub(crate) by_number: [Option<u64>; REGISTERS],
}

impl SampledRegisters {
    /// The registers of a sample: the instruction pointer, the stack pointer, and those that calls
    /// preserve. On `x86_64` these are bp, bx, r12 to r15; on arm64 x29, x30, x19 to x28.
    pub fn from_sample(values: &[u64]) -> Self {
        let mut by_number = [None; REGISTERS];
        for (&number, &value) in numbers::SAMPLED.iter().zip(values.iter().skip(1)) {
            by_number[usize::from(number)] = Some(value);
        }
        Self {
            instruction_pointer: values.first().copied().unwrap_or(0),
            by_number,
        }
    }

    /// Where the function is, or goes on when the function returns that it has called.
    pub const fn instruction_pointer(&self) -> u64 {
        self.instruction_pointer
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.register(Register(numbers::STACK_POINTER))
    }

    pub(crate) fn register(&self, register: Register) -> Option<u64> {
        self.by_number
            .get(usize::from(register.0))
            .copied()
            .flatten()
    }
}

/// A copy of the top of a stack, in pieces of the same size.
#[derive(Debug, Clone, Copy)]
pub struct StackCopy<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes, from low addresses to high ones.
    pub bytes: &'a [u8],
    /// How large a piece is.
    pub piece_bytes: usize,
    /// Which pieces could be copied, each a bit, from the lowest.
    pub filled: u64,
}

impl StackCopy<'_> {
    fn is_filled(&self, offset: usize) -> bool {
        let piece = u32::try_from(offset / self.piece_bytes).unwrap_or(u32::MAX);
        self.filled
            .checked_shr(piece)
            .is_some_and(|bits| bits & 1 != 0)
    }

    pub(crate) fn read(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes: &[u8; 8] = self.bytes.get(offset..)?.first_chunk()?;
        (self.is_filled(offset) && self.is_filled(offset + bytes.len() - 1))
            .then_some(u64::from_le_bytes(*bytes))
    }

    /// Whether this address is above what was copied.
    pub fn ends_before(&self, address: u64) -> bool {
        address
            .checked_sub(self.start)
            .is_some_and(|offset| offset >= self.bytes.len() as u64)
    }
}

/// A return address without the signature that arm64 may put into its upper bits (pointer
/// authentication). Addresses of user space have at most 52 bits there, and at most 57 elsewhere.
pub(crate) const fn without_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") {
        address & ((1 << 52) - 1)
    } else {
        address
    }
}
