//! The judge's input: what calls did to files, whatever recorded them.
//!
//! Both backends make a [`FileCall`] of each call: strace's of a line, the eBPF backend's of messages of
//! the kernel side. Files are told apart by their paths: by the one that is shown of a descriptor, or by
//! the one that the file was opened with.
//!
//! ```text
//! a call ──changes, names: what it did──▶ FileEvent ──Judge──▶ Syncs
//!            └─ paths, descriptors: to which file
//! and, if that is asked for, what it touched: touched_calls, touches
//! ```

mod call;
mod changes;
mod descriptors;
mod events;
pub mod flag;
mod handles;
mod kinds;
mod names;
mod passed_names;
mod paths;
mod real_paths;
mod shown;
mod touched_calls;
mod touches;

pub use call::{ChildKind, Ending, FileCall, GivenArgument, SeenFiles};
pub use events::FileEvents;
pub use handles::CountedWrites;
pub use kinds::{touching_calls, watched_calls, written};
pub use names::descriptor_in;
pub use shown::{NamedFile, OutsideKind, ShownFile, SocketAddress, is_of_kernel};
