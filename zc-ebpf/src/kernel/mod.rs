//! What the programs read from the kernel: fields of its structs, and the registers of a caller. And what makes that safe.

pub mod argument;
pub mod fields;
pub mod helpers;
pub mod registers;
