//! Counts failed calls by the path that they were given, and those without path or row by their error.
//! A call that succeeds costs one comparison, since most calls do, unless their paths are asked for,
//! too.
//!
//! The path is read when the call returns: by then the kernel has read it, so its memory is
//! present. Another thread may have changed it meanwhile; then the changed path is counted.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    macros::map,
    maps::{HashMap, PerCpuArray},
};
use zc_ebpf::{Arguments, FailedPath, Loss, PATH_BYTES, Task, UNKNOWN_PATH, is_restart, recorded};

use crate::{
    kernel::entries::{Entries as _, exchange, fetch_add},
    kernel::helpers::read_user_text,
    kernel::registers::Registers,
    maps::{count_loss, records},
    rows::find_or_make,
};

/// `AT_FDCWD` of the kernel's include/uapi/linux/fcntl.h: a relative path starts in the working
/// directory.
const AT_FDCWD: i32 = -100;
/// The null pointer: the caller gave no path, or it cannot be read any more.
const NO_ADDRESS: u64 = 0;

/// How often calls returned, by call, errno and path. Many tasks count in the same entry.
#[map]
static FAILED_PATHS: HashMap<FailedPath, u64> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Where a key is put together: it is too large for the stack.
#[repr(C)]
struct PathScratch {
    /// 1: a program is using it.
    is_taken: u64,
    key: FailedPath,
}

#[map]
static FAILED_PATH: PerCpuArray<PathScratch> = PerCpuArray::with_max_entries(1, 0);

/// The call in [`Task::slot`] returns with the result in [`Task::outcome`]. Counts its path if it
/// was given one and failed, or succeeded and such paths are asked for. A call that a signal
/// interrupted has done neither: the kernel restarts it, or its caller is told of the signal. A
/// successful `execve` is counted without its path. So is a failed call that takes none, unless it has
/// a row: rows have errors.
#[inline(always)]
pub fn count(task: &mut Task) {
    let errno = task.outcome.errno;
    let is_asked_for = errno != 0 || records(recorded::PATHS);
    if !records(recorded::FILES) || !is_asked_for || is_restart(errno) {
        return;
    }
    let takes_path = task.spec.path != 0;
    let has_no_path = if takes_path {
        errno == 0 && task.spec.replaces_memory != 0
    } else {
        errno != 0 && task.has_row == 0
    };
    if has_no_path {
        count_path(task.slot, errno, NO_ADDRESS, 0);
    }
    if has_no_path || !takes_path {
        return;
    }
    task.arguments = Arguments {
        values: Registers::of_current().arguments_at_exit(task.compat() != 0),
    };
    let (arguments, spec) = (&task.arguments, &task.spec);
    let names_directory =
        spec.directory != 0 && arguments.get(spec.directory - 1) as i32 != AT_FDCWD;
    count_path(
        task.slot,
        errno,
        arguments.get(spec.path - 1),
        names_directory.into(),
    );
}

/// Counts a call whose path is at this address; [`NO_ADDRESS`]: it is not known. `names_directory`
/// is 1 if a relative path starts in a directory that the call names. A global function, so that
/// the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_path(slot: u32, errno: u32, address: u64, names_directory: u32) -> u32 {
    let Some(scratch) = FAILED_PATH.entry(0) else {
        return 0;
    };
    // Programs that the kernel may preempt are replaced by others; this holds if that fails.
    if exchange(&raw mut scratch.is_taken, 1) != 0 {
        count_loss(Loss::UncountedPath);
        return 0;
    }
    let key = &mut scratch.key;
    (key.slot, key.errno) = (slot, errno);
    // The helper leaves what is behind the NUL as it was.
    key.path = [0; PATH_BYTES];
    key.length = if address == NO_ADDRESS {
        UNKNOWN_PATH
    } else {
        read_user_text(address, &mut key.path).unwrap_or(UNKNOWN_PATH)
    };
    let is_relative = key.length != UNKNOWN_PATH && key.path[0] != b'/';
    key.below_descriptor = if is_relative { names_directory } else { 0 };
    match find_or_make(&FAILED_PATHS, &*key, &0) {
        Some(calls) => drop(fetch_add(calls, 1)),
        None => count_loss(Loss::UncountedPath),
    }
    exchange(&raw mut scratch.is_taken, 0);
    0
}
