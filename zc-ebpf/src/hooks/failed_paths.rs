//! Counts failed calls by the paths that they were given, and those without path or row by their error.
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
use zc_ebpf::{
    Arguments, GivenText, INTERNET_ADDRESS, KernelLoss, PATH_BYTES, PathKey, PathSums, Task,
    UNKNOWN_DIRECTORY, UNKNOWN_PATH, may_be_repeated,
    opaque::{if_set, is_not_zero},
    recorded, traits, zeroed,
};

use crate::{
    file::identify,
    kernel::entries::field,
    kernel::helpers::{now_ns, read_user, read_user_bytes, read_user_text},
    kernel::registers::Registers,
    kernel::scratch::Scratch,
    kernel::{AT_FDCWD, argument},
    maps::{count_loss, epoch, records},
    rows::find_or_make,
};

/// `AF_UNIX`, `AF_INET` and `AF_INET6` of the kernel's include/linux/socket.h. The path, or the port
/// and the address, follow this number.
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The calls that returned, by call, errno and path. Many tasks count in the same entry.
#[map]
static FAILED_PATHS: HashMap<PathKey, PathSums> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// `SOL_SOCKET` and `SO_ERROR` of the kernel's include/uapi/asm-generic/socket.h.
const SOL_SOCKET: u32 = 1;
const SO_ERROR: u32 = 4;

/// Where a key is put together: it is too large for the stack.
#[map]
static FAILED_PATH: PerCpuArray<Scratch<PathKey>> = PerCpuArray::with_max_entries(1, 0);

/// The call in [`Task::slot`] returns with the result in [`Task::outcome`]. Counts its path if it
/// was given one and failed, or succeeded and such paths are asked for. A path on which a signal
/// interrupted the call tells where the call waited. A successful `execve` is counted without its path. So
/// is a failed call that takes none, unless it has a row, since rows have errors, or may just be made
/// again; and one that told the error of a socket, with that.
#[inline(always)]
pub fn count_failure(task: &mut Task) {
    let (mut errno, spec) = (task.outcome.errno, task.spec);
    let may_tell_error = errno == 0 && spec.traits & traits::READS_SOCKET_ERROR != 0;
    let is_asked_for = errno != 0 || may_tell_error || records(recorded::PATHS);
    if !records(recorded::FILES) || !is_asked_for {
        return;
    }
    if spec.path != 0 || may_tell_error {
        task.arguments = Arguments {
            values: Registers::of_current().arguments_at_exit(task.compat() != 0),
        };
        if may_tell_error {
            errno = socket_error(task);
            if errno == 0 {
                return;
            }
        }
    } else if errno == 0
        || task.has_row != 0
        || may_be_repeated(errno, spec.traits & traits::CREATES_TASK != 0)
    {
        return;
    }
    count_paths(task, errno);
}

/// The error of a socket that the call told which has [`Task::arguments`]; 0: it was asked for something
/// else, or there was no error.
#[inline(always)]
fn socket_error(task: &Task) -> u32 {
    if task.arguments.get(1) as u32 == SOL_SOCKET && task.arguments.get(2) as u32 == SO_ERROR {
        read_user(task.arguments.get(3)).unwrap_or(0)
    } else {
        0
    }
}

/// Counts the call by this errno and the paths in [`Task::arguments`].
#[inline(always)]
fn count_paths(task: &mut Task, errno: u32) {
    // Programs that the kernel may preempt are replaced by others; this holds if that fails.
    let Some(scratch) = Scratch::take(&FAILED_PATH) else {
        return count_loss(KernelLoss::UncountedPath);
    };
    let key = &mut **scratch;
    (key.slot, key.errno) = (task.slot | epoch(), errno);
    // The helper leaves what is behind the NUL as it was.
    key.paths = zeroed();
    // Without branches, because the verifier follows each. Between the two paths is nothing, or the
    // descriptor of the second one's directory.
    let (index, directory) = (u32::from(task.spec.path), u32::from(task.spec.directory));
    let has_two = is_not_zero((task.spec.traits & traits::HAS_TWO_PATHS).into());
    let has_directory = is_not_zero(directory.into());
    let second = if_set(has_two, u64::from(index) + 1 + has_directory, 0) as u32;
    let of_second = if_set(has_directory, second.wrapping_sub(1).into(), 0) as u32;
    let [first_path, second_path] = &mut key.paths;
    read_path(task, &raw mut *first_path, index, directory);
    read_path(task, &raw mut *second_path, second, of_second);
    match find_or_make(&FAILED_PATHS, &*key, &zeroed()) {
        Some(sums) => {
            field!(sums, calls).fetch_add(1);
            field!(sums, last).store(now_ns());
        }
        None => count_loss(KernelLoss::UncountedPath),
    }
    scratch.release();
}

/// Reads the path in this argument, and finds the directory in which a relative one starts. Both
/// indices count from 1; 0: there is none. A global function, so that the verifier checks it once. The
/// result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_path(task: *mut Task, into: *mut GivenText, index: u32, directory: u32) -> u32 {
    let (Some(task), Some(into)) = (argument::as_mut(task), argument::as_mut(into)) else {
        return 0;
    };
    into.length = UNKNOWN_PATH;
    let is_gone = task.outcome.errno == 0 && task.spec.traits & traits::REPLACES_MEMORY != 0;
    if index == 0 || is_gone {
        return 0;
    }
    let mut address = task.arguments.get(index as u8 - 1);
    let mut room = PATH_BYTES;
    if task.spec.traits & traits::HAS_ADDRESS != 0 {
        let family = read_user(address);
        if family == Some(AF_INET) || family == Some(AF_INET6) {
            return read_address(into, address, family == Some(AF_INET6));
        }
        if family != Some(AF_UNIX) {
            return 0;
        }
        // The address may end without a NUL, for which there is room, too.
        room = (task.arguments.get(index as u8) as u32 as usize).wrapping_sub(size_of::<u16>()) + 1;
        address += size_of::<u16>() as u64;
    }
    let text = into.bytes.get_mut(..room);
    let Some(length) = text.and_then(|text| read_user_text(address, text)) else {
        return 0;
    };
    into.length = length;
    let fd = task.arguments.get((directory as u8).wrapping_sub(1)) as u32;
    if directory != 0 && fd != AT_FDCWD && into.bytes[0] != b'/' {
        let number = identify::file_behind(task, fd, identify::INPUT);
        into.directory = if number == 0 {
            UNKNOWN_DIRECTORY
        } else {
            number
        };
    }
    0
}

/// Reads the port and the address that follow the family at this address. The result means nothing.
#[inline(always)]
fn read_address(into: &mut GivenText, address: u64, is_v6: bool) -> u32 {
    const V4_BYTES: u64 = 2 + 4;
    // Between the two is `sin6_flowinfo`.
    const V6_BYTES: u64 = 2 + 4 + 16;
    let length = V4_BYTES + if_set(u64::from(is_v6), V6_BYTES - V4_BYTES, 0);
    let bytes = into.bytes.get_mut(..length as usize);
    if bytes.is_some_and(|bytes| read_user_bytes(address + size_of::<u16>() as u64, bytes)) {
        into.length = length as u32 | INTERNET_ADDRESS;
    }
    0
}
