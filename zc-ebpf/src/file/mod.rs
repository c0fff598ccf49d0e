//! Finds the number of the file behind a descriptor or a mapping, and reports what the file is.

pub mod ends;
pub mod file_info;
pub mod identify;
pub mod mapping;
pub mod path;
pub mod socket;
