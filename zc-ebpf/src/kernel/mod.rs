//! What is read of the kernel: fields of its structs, and the registers of a caller.

pub mod fields;
pub mod registers;
