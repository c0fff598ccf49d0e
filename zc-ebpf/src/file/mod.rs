//! From a descriptor, or a mapping, to the number of a file, and what there is to tell of that file.

pub mod ends;
pub mod identify;
pub mod mapping;
pub mod path;
pub mod sight;
pub mod socket;
