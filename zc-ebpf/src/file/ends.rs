//! Finds the files of a call. That happens at its entry: by its exit, another thread may have
//! closed a descriptor and opened it again.

use zc_ebpf::{ABSENT, NumberedEnds, Task, fds, recorded};

use crate::{
    file::identify::{self, FOR_WRITING, NO_FD},
    kernel::fields::offset_of_field,
    kernel::helpers::read_user,
    maps::records,
    request::{FICLONE, FICLONERANGE},
};

/// The files of the call in the task, if they are recorded.
#[inline(always)]
pub fn named(task: &mut Task) -> NumberedEnds {
    let names_files = task.spec.fds != fds::NONE && records(recorded::FILES);
    if !names_files || offset_of_field!(task_files) == ABSENT {
        return NumberedEnds::NONE;
    }
    let spec = task.spec;
    let first = task.arguments.get(spec.first);
    let (from, to, side) = match spec.fds {
        fds::WRITES => (NO_FD, first, identify::OUTPUT),
        fds::PIPE => (NO_FD, first, identify::PIPE),
        fds::READS | fds::ON | fds::MAPS => (first, NO_FD, identify::OUTPUT),
        fds::COPIES => (first, task.arguments.get(spec.second), identify::OUTPUT),
        _ => match task.arguments.get(spec.argument) as u32 {
            FICLONE => (task.arguments.get(spec.second), first, identify::OUTPUT),
            FICLONERANGE => (
                range_source(task.arguments.get(spec.second)),
                first,
                identify::OUTPUT,
            ),
            _ => (first, NO_FD, identify::OUTPUT),
        },
    };
    let output = identify::number(task, to, side);
    let input = identify::number(task, from, identify::INPUT);
    match spec.fds {
        fds::PIPE if output & FOR_WRITING == 0 => NumberedEnds::named(output, 0),
        fds::PIPE => NumberedEnds::named(0, output & !FOR_WRITING),
        fds::MAPS if task.arguments.values[3] & MAP_ANONYMOUS != 0 => NumberedEnds::NONE,
        fds::MAPS if maps_for_writing(task) => NumberedEnds::named(0, input),
        _ => NumberedEnds::named(input, output),
    }
}

/// Of the kernel's include/uapi/asm-generic/mman-common.h: `mmap` ignores its descriptor.
const MAP_ANONYMOUS: u64 = 0x20;

/// Whether the `mmap` in the task makes a mapping by which stores reach the file. `PROT_WRITE` of the
/// kernel's include/uapi/asm-generic/mman-common.h; `MAP_SHARED` of include/uapi/linux/mman.h is also
/// a bit of `MAP_SHARED_VALIDATE`.
#[inline(always)]
fn maps_for_writing(task: &Task) -> bool {
    const PROT_WRITE: u64 = 2;
    const MAP_SHARED: u64 = 1;
    let (protection, flags) = (&task.arguments.values[2], &task.arguments.values[3]);
    protection & PROT_WRITE != 0 && flags & MAP_SHARED != 0
}

/// `src_fd`, the first field of a `struct file_clone_range` of the kernel's
/// include/uapi/linux/fs.h.
#[inline(always)]
fn range_source(request: u64) -> u64 {
    read_user(request).unwrap_or(NO_FD)
}
