//! Reading: from the kernel side's messages and maps to values.
//!
//! [`events`] parses what the ring buffer brings: tasks and files. [`drain`] reads the rows of the
//! maps, by many entries a call ([`table`]). Rows are also read while tasks count: [`epochs`] says
//! when those of an epoch are final, and [`forgetting`] gives up the numbers of files that nothing
//! needs any more. [`file_table`] maps these numbers to the files of the trace.

pub mod call_messages;
#[cfg_attr(not(feature = "callers"), path = "no_callers.rs")]
pub mod caller_samples;
pub mod drain;
pub mod epochs;
pub mod events;
pub mod file_table;
pub mod forgetting;
#[cfg(feature = "callers")]
mod found_code;
pub mod given_paths;
pub mod syncs;
pub mod table;
mod touch_parts;
pub mod touches;
