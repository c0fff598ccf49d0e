//! System calls: their names, what is known of each, and which are counted.
//!
//! Numbers and names come from the crate `syscalls`. Every call of which zctrace knows more than
//! its name has an item in the one table, `defs`.

mod abi;
mod call;
mod class;
mod defs;
mod kernel;
mod operations;
mod selection;
mod spec;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("zctrace knows the system calls and registers of x86_64 and aarch64 only");

pub use abi::Abi;
pub(crate) use call::ring_operation;
pub use call::{BEYOND, Call};
pub use class::CallClass;
pub use selection::{Selection, SelectionError, class_names};
pub(crate) use selection::{calls_of_class, has_call, known_names, meant_by};
pub use spec::{
    CallEffect, FICLONE, FICLONERANGE, Fds, PathArgument, PathForm, Requested, Returned, Spec,
    Touching, Variants,
};

/// Every call of which more than its name is known.
pub fn known_calls() -> impl Iterator<Item = &'static Spec> {
    defs::table()
}

/// The calls that move data: the default selection.
pub fn data_calls() -> impl Iterator<Item = &'static Spec> {
    known_calls().filter(|spec| spec.is_in(CallClass::Data))
}

/// Whether calls of this name write the data of files to the disk, or wait for that.
pub fn syncs_files(name: &str) -> bool {
    matches!(
        name,
        "fdatasync" | "fsync" | "msync" | "sync" | "sync_file_range" | "syncfs"
    )
}
