//! What the programs read from the kernel: fields of its structs, and the registers of a caller.

pub mod fields;
pub mod registers;
