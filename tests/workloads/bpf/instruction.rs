//! eBPF instructions, as far as this crate looks into them.
//!
//! Encoding: RFC 9669, section 3 ("Instruction Encoding").

/// Bytes of an instruction.
pub const SIZE: usize = 8;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `BPF_LD | BPF_IMM | BPF_DW`: takes the room of two instructions.
const LOAD_64: u8 = 0x18;
/// `BPF_ALU64 | BPF_MOV | BPF_X`.
const MOVE: u8 = 0xbf;
/// `BPF_ALU64 | BPF_ADD | BPF_K`.
const ADD: u8 = 0x07;
/// `BPF_PSEUDO_CALL` of the kernel's include/uapi/linux/bpf.h: the source register of a call of one of our own functions.
const PSEUDO_CALL: u8 = 1;
/// The register that points to the end of the function's stack frame.
pub const FRAME: u8 = 10;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    target: u8,
    source: u8,
    offset: i16,
    immediate: i32,
}

/// What an instruction does, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Calls a helper of the kernel, by its number.
    CallsHelper(i32),
    /// Calls another function, this many instructions after the next one, unless a relocation says otherwise.
    CallsFunction(i32),
    /// Loads a constant of 64 bits, or an address if a relocation says so.
    LoadsConstant {
        /// The register.
        target: u8,
        /// The lower half of the constant.
        constant: i32,
    },
    /// Copies a register.
    Copies {
        /// Where to.
        target: u8,
        /// Where from.
        source: u8,
    },
    /// Adds a constant to a register.
    Adds {
        /// The register.
        target: u8,
        /// The constant.
        constant: i32,
    },
    /// Reads memory into a register.
    Loads {
        /// The register.
        target: u8,
        /// The register that points to the memory.
        base: u8,
        /// How far from there, in bytes.
        offset: i16,
    },
    /// Writes memory, atomically or not.
    Stores {
        /// The register that points to the memory.
        base: u8,
        /// How far from there, in bytes.
        offset: i16,
    },
    /// Writes a register in another way.
    Sets(u8),
    /// Jumps, ends the function.
    Jumps,
}

impl Instruction {
    /// Decodes an instruction of the little-endian encoding.
    pub fn decode(bytes: [u8; SIZE]) -> Self {
        let [code, registers, low, high, immediate @ ..] = bytes;
        Self {
            code,
            target: registers & 0xf,
            source: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    /// Whether the next eight bytes belong to this one.
    pub const fn is_wide(self) -> bool {
        self.code == LOAD_64
    }

    /// The number of the helper that it calls, if it does.
    pub const fn helper(self) -> Option<i32> {
        if let Does::CallsHelper(number) = self.does() { Some(number) } else { None }
    }

    /// What it does.
    pub const fn does(self) -> Does {
        let Self { code, target, source, offset, immediate } = self;
        match code {
            CALL if source == PSEUDO_CALL => Does::CallsFunction(immediate),
            CALL => Does::CallsHelper(immediate),
            LOAD_64 => Does::LoadsConstant { target, constant: immediate },
            MOVE if offset == 0 => Does::Copies { target, source },
            ADD => Does::Adds { target, constant: immediate },
            // The class is in the three lowest bits: BPF_LD, BPF_LDX, BPF_ST, BPF_STX, BPF_ALU, BPF_JMP, BPF_JMP32, BPF_ALU64.
            _ => match code & 7 {
                1 => Does::Loads { target, base: source, offset },
                2 | 3 => Does::Stores { base: target, offset },
                5 | 6 => Does::Jumps,
                _ => Does::Sets(target),
            },
        }
    }
}
