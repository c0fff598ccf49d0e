//! What the programs send about callers: samples of stacks, and the mappings of code that these
//! stacks are unwound with. All of it goes through one ring buffer, so that a sample comes after
//! the mappings that it needs.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{CallId, FileNumber, NumberedEnds};
#[cfg(doc)]
use crate::{Control, Task};

/// Stacks are copied in pieces of this size, which begin at multiples of it. So no piece is on two
/// pages.
pub const CHUNK_BYTES: usize = 1024;
/// The most pieces of a stack that a sample has: as many as [`SampledCall::filled`] has bits.
pub const MAX_CHUNKS: usize = 64;
/// How many registers a sample has room for.
pub const SAMPLE_REGISTERS: usize = 16;

/// What [`SampleHeader::kind`] says.
pub mod sample_kind {
    /// A call: [`StackSample`](crate::StackSample).
    pub const STACK: u32 = 1;
    /// Code was mapped: [`CodeMapped`](crate::CodeMapped).
    pub const MAPPED: u32 = 2;
    /// A process got a copy of its creator's memory: [`SpaceCopied`](crate::SpaceCopied).
    pub const COPIED: u32 = 3;
    /// A call that touched something as no call before: a [`StackSample`](crate::StackSample) with the
    /// time of its [`TouchCall`](crate::TouchCall).
    pub const TOUCH: u32 = 4;
    /// A call that has a [`SlowCallEvent`](crate::SlowCallEvent): a [`StackSample`](crate::StackSample).
    pub const SLOW_CALL: u32 = 5;
}

/// The beginning of every message about callers.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SampleHeader {
    /// One of [`sample_kind`]'s constants.
    pub kind: u32,
    /// The address space that it is about: [`Task::space`].
    pub space: u32,
}

/// A call that returned, with the registers of its caller.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SampledCall {
    /// What it is.
    pub header: SampleHeader,
    /// [`Task::serial`] of the caller.
    pub task: u32,
    /// The thread id of the caller.
    pub tid: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
    /// The call, as in the key of its row, but without the epoch.
    pub call: CallId,
    /// The files of its row.
    pub ends: NumberedEnds,
    /// How many calls of its row were made since the sample before it, this one included.
    pub stands_for: u32,
    /// The result.
    pub result: i64,
    /// When it was entered: `CLOCK_MONOTONIC`, ns. 0 if times are not recorded. Of
    /// [`sample_kind::TOUCH`]: [`TouchCall::at_ns`](crate::TouchCall::at_ns).
    pub entered_ns: u64,
    /// How long it took, or [`CallReturn::UNTIMED`](crate::CallReturn::UNTIMED).
    pub duration_ns: u64,
    /// The caller's registers. `x86_64`: ip, sp, bp, bx, r12 to r15. arm64: pc, sp, x29, x30, x19
    /// to x28. The rest is 0.
    pub registers: [u64; SAMPLE_REGISTERS],
    /// The address of the first byte in [`StackSample::stack`]: less than [`CHUNK_BYTES`] below the
    /// stack pointer.
    pub stack_start: u64,
    /// Which pieces of [`StackSample::stack`] are filled, each a bit, from the lowest. The others
    /// could not be read: a stack ends, or has pages that its thread has not touched yet.
    pub filled: u64,
}

/// A call that returned, with the top of the stack of its caller. The length of the message says
/// how many pieces it has: as many as the stack needs, and up to twice as many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StackSample<const CHUNKS: usize> {
    /// The call.
    pub of: SampledCall,
    /// The stack, from low addresses to high ones.
    pub stack: [[u8; CHUNK_BYTES]; CHUNKS],
}

/// A part of an address space has code in it: a file was mapped to be executed, or memory without a
/// file was made executable.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct CodeMapped {
    /// What it is.
    pub header: SampleHeader,
    /// Where the mapping begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The page of the file that it begins with.
    pub page: u64,
    /// When it was seen, `CLOCK_MONOTONIC`: after it was mapped, and before its code ran.
    pub time_ns: u64,
    /// The file. 0: it has none, or it is unknown.
    pub file: FileNumber,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}

/// A new address space has the mappings of another.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
pub struct SpaceCopied {
    /// What it is. [`SampleHeader::space`] is the new one.
    pub header: SampleHeader,
    /// The one that it is a copy of.
    pub from: u32,
    /// Unused; keeps the layout free of padding.
    pub reserved: u32,
}
