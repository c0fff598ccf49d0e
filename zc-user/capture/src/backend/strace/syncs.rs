//! The events for the judge of syncs, from calls.
//!
//! Files are told apart by their paths: by the one that strace prints of a descriptor (`-y`), or by
//! the one that the file was opened with.
//!
//! ```text
//! a call ──changes, names: what it did──▶ FileEvent ──Judge──▶ Syncs
//!            └─ paths, descriptors: to which file
//! and, if that is asked for, what it touched: touching, addresses, touched_calls, touches
//! ```

mod addresses;
mod calls;
mod changes;
mod descriptors;
mod events;
mod handles;
mod names;
mod passed_names;
mod paths;
mod real_paths;
mod seen;
mod touched_calls;
mod touches;
mod touching;

pub use crate::backend::strace::line::{Ending, Outcome};
pub use addresses::address;
pub use calls::{NamedFile, is_of_kernel, watched_calls, written};
pub use events::{Called, FileEvents};
pub use handles::CountedWrites;
pub use seen::{FileHandle, SeenFiles};
pub use touching::{Touching, watched_calls as touching_calls};
