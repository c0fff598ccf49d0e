//! The files of a call, found at its entry: by its exit, another thread may have closed a descriptor and opened it again.

use aya_ebpf::{bindings::pt_regs, helpers::bpf_probe_read_user};
use zc_ebpf::{ABSENT, CallSpec, Ends, FileNumber, MAPPED, NO_ROOM, Task, fds};

use crate::{
    fields::{offset_of_field, regs},
    identify::{self, FOR_WRITING, NO_FD},
    mapping,
    request::{FICLONE, FICLONERANGE},
};

/// The files of the call that the current task enters.
#[inline(always)]
pub fn of(registers: *const pt_regs, spec: CallSpec, compat: bool, task: &mut Task) -> Ends {
    if spec.fds == fds::NONE || offset_of_field!(task_files) == ABSENT {
        return Ends::NONE;
    }
    // SAFETY: `registers` is the tracepoint's argument.
    let argument = |index| unsafe { regs::argument(registers, index, compat) };
    let first = argument(spec.first);
    let (from, to) = match spec.fds {
        fds::WRITES => (NO_FD, first),
        fds::PIPE => return pipe(identify::number(task, first, identify::PIPE)),
        fds::READS | fds::ON => (first, NO_FD),
        fds::COPIES => (first, argument(spec.second)),
        _ => match argument(spec.argument) as u32 {
            FICLONE => (argument(spec.second), first),
            FICLONERANGE => (range_source(argument(spec.second)), first),
            _ => (first, NO_FD),
        },
    };
    let output = identify::number(task, to, identify::OUTPUT);
    let input = if spec.fds == fds::WRITES {
        source(registers, spec, compat, task)
    } else {
        identify::number(task, from, identify::INPUT)
    };
    Ends { input, output }
}

#[inline(always)]
const fn pipe(number: FileNumber) -> Ends {
    if number & FOR_WRITING == 0 { Ends { input: number, output: 0 } } else { Ends { input: 0, output: number & !FOR_WRITING } }
}

/// Takes note of what a call moved. Returns how many of the bytes that it wrote had been read before, from the file of its input.
#[inline(always)]
pub fn moved(task: &mut Task, spec: CallSpec, result: i64) -> u64 {
    if spec.returns_bytes == 0 || result <= 0 {
        return 0;
    }
    let bytes = result as u64;
    match spec.fds {
        fds::READS => {
            let file = if task.ends.input == NO_ROOM { 0 } else { task.ends.input };
            task.unwritten.read(file, bytes);
            0
        }
        // What comes from a mapping was not read.
        fds::WRITES if task.ends.input & MAPPED != 0 => 0,
        fds::WRITES => {
            let covered = task.unwritten.write(bytes);
            if task.ends.input == 0 { 0 } else { covered }
        }
        _ => 0,
    }
}

/// Where the bytes come from that a call writes which names only its output: from the file that its buffer is a mapping of, or else
/// from the file that the task has read from last.
#[inline(always)]
fn source(registers: *const pt_regs, spec: CallSpec, compat: bool, task: &Task) -> FileNumber {
    if spec.returns_bytes == 0 {
        return 0;
    }
    let mapped = mapping::source(registers, spec, compat, task);
    if mapped == 0 { task.unwritten.source() } else { mapped }
}

/// `src_fd`, the first field of a `struct file_clone_range` of the kernel's include/uapi/linux/fs.h.
#[inline(always)]
fn range_source(request: u64) -> u64 {
    // SAFETY: the helper checks the address.
    unsafe { bpf_probe_read_user(request as *const u64) }.unwrap_or(NO_FD)
}
