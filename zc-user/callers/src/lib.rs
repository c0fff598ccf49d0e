//! Who made a call: unwinds copies of stacks ([`Spaces::unwind_stack`]), and finds the names of their
//! functions ([`symbols::name_stacks`]).
//!
//! Stacks are unwound by the unwind tables that compilers add for exceptions (`.eh_frame`), or
//! those for debuggers (`.debug_frame`). Code need not have frame pointers. A stack whose tables
//! are missing or cannot be followed ends there, and says so: nothing is guessed. That is why this
//! is not the crate `framehop`, which then continues with frame pointers without saying it, and
//! which knows only the registers that profilers sample.
//!
//! ```text
//! mappings, files ──▶ Spaces ── sample ──▶ elf: sections of the files ─▶ cfi: frame by frame ──▶ RawStack
//!                                                                                                   │
//!                                          after the command has ended ──▶ symbols: blazesym ──▶ SampledStack
//! ```

mod apart;
pub mod cfi;
mod debug_files;
pub mod elf;
pub mod file;
mod frame_pointers;
pub mod sampled;
pub mod spaces;
pub mod symbols;

#[cfg(all(test, target_arch = "x86_64"))]
mod own_stack_tests;

pub use file::CodeFile;
pub use spaces::{CodeMapping, RawFrame, RawStack, Spaces};
