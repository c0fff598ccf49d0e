//! The paths that programs gave to calls: from keys of the kernel side to values.

use zc_ebpf::{GivenText, PathKey};

use super::file_table::FileTable;
use crate::{
    syscalls::{Call, PathForm},
    trace::{FailedPath, GivenPath},
};
use zctrace_core::text::from_bytes;

/// What the key of the kernel side says.
pub fn failed_path(key: &PathKey, files: &FileTable) -> FailedPath {
    let call = Call::from_slot(key.slot);
    let is_address = call.spec().path_form == PathForm::Address;
    let given = key.paths.each_ref();
    let [first, second] = given.map(|text| given_path(text, key.errno == 0, files));
    // The name of a socket that is in no filesystem begins with a NUL.
    let first = first.filter(|path| !(is_address && path.text.is_empty()));
    FailedPath {
        call,
        errno: key.errno,
        paths: [first, second],
    }
}

/// The path in a key.
fn given_path(given: &GivenText, has_succeeded: bool, files: &FileTable) -> Option<GivenPath> {
    let text = given.bytes.get(..usize::try_from(given.length).ok()?)?;
    let path = GivenPath {
        text: from_bytes(text),
        is_cut: text.len() + 1 >= zc_ebpf::PATH_BYTES,
        is_below_descriptor: false,
    };
    let directory = || files.known(given.directory)?.path.as_deref();
    Some(match given.directory {
        0 => path,
        _ => path.below(directory(), has_succeeded),
    })
}
