//! Finds the files of a call. That happens at its entry: by its exit, another thread may have closed a descriptor and opened it again.

use zc_ebpf::{ABSENT, Ends, FileNumber, Mapping, Task, fds, recorded};

use crate::{
    file::identify::{self, FOR_WRITING, NO_FD},
    file::mapping,
    kernel::fields::offset_of_field,
    kernel::helpers::read_user,
    maps::records,
    request::{FICLONE, FICLONERANGE},
};

/// The files of the call that the current task enters.
#[inline(always)]
pub fn of(task: &mut Task) -> Ends {
    find(task, identify::number, mapping::source)
}

/// The files of a call whose entry was not seen. This is slower, and quicker to verify.
#[inline(always)]
pub fn of_unseen(task: &mut Task) -> Ends {
    let ends = find(task, |_, fd, side| identify::number_unseen(fd, side), mapping::source_unseen);
    // It was looked up without the kernel's count of changes.
    task.mapping = Mapping::NONE;
    ends
}

/// The files of the call in the task: `number` finds those of its descriptors, `mapped` the one that it writes from.
#[inline(always)]
fn find(task: &mut Task, number: impl Fn(&mut Task, u64, u32) -> FileNumber, mapped: impl Fn(&Task) -> FileNumber) -> Ends {
    let spec = task.spec;
    if spec.fds == fds::NONE || offset_of_field!(task_files) == ABSENT || !records(recorded::FILES) {
        return Ends::NONE;
    }
    let first = task.arguments.get(spec.first);
    let (from, to) = match spec.fds {
        fds::WRITES => (NO_FD, first),
        fds::PIPE => {
            let number = number(task, first, identify::PIPE);
            return if number & FOR_WRITING == 0 {
                Ends { input: number, output: 0 }
            } else {
                Ends { input: mapped(task), output: number & !FOR_WRITING }
            };
        }
        fds::READS | fds::ON => (first, NO_FD),
        fds::COPIES => (first, task.arguments.get(spec.second)),
        _ => match task.arguments.get(spec.argument) as u32 {
            FICLONE => (task.arguments.get(spec.second), first),
            FICLONERANGE => (range_source(task.arguments.get(spec.second)), first),
            _ => (first, NO_FD),
        },
    };
    let output = number(task, to, identify::OUTPUT);
    let input = if spec.fds == fds::WRITES {
        if spec.returns_bytes == 0 { 0 } else { mapped(task) }
    } else {
        number(task, from, identify::INPUT)
    };
    Ends { input, output }
}

/// `src_fd`, the first field of a `struct file_clone_range` of the kernel's include/uapi/linux/fs.h.
#[inline(always)]
fn range_source(request: u64) -> u64 {
    read_user(request).unwrap_or(NO_FD)
}
