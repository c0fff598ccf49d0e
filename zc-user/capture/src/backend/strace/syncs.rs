//! The events for the judge of syncs, from calls.
//!
//! Files are told apart by their paths: by the one that strace prints of a descriptor (`-y`), or by
//! the one that the file was opened with.
//!
//! ```text
//! a call ──changes, names: what it did──▶ FileEvent ──Judge──▶ Syncs
//!            └─ paths, descriptors: to which file
//! ```

mod calls;
mod changes;
mod descriptors;
mod events;
mod names;
mod paths;

pub use calls::{is_watched, watched_calls};
pub use events::{Called, FileEvents, Returned};
