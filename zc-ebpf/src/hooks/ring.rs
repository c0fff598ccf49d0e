//! Counts what `io_uring` does for followed tasks, whether the task itself, a worker or a polling
//! thread of the kernel executes it.
//!
//! An operation is counted when it completes, since its result and its files are known then. It is
//! credited to the task that submitted it. If a kernel thread polls the ring, no task submits the
//! operations, and they are credited to the task that created the ring.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{
    ABSENT, CallId, CallSpec, Ends, FROM_BUFFER, FileKey, FileNumber, INVALID_OPERATION, Loss,
    NO_ROOM, RING, Task, UNKNOWN_OPERATION, fds, fills, hook, operation_slot, pairing::memory,
    phase, recorded,
};

use crate::{
    evidence::lock::{lock, unlock},
    evidence::{buffers, ranges},
    file::identify,
    hooks::count::is_error,
    kernel::entries::{Entries as _, fetch_add},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{current_task, now_ns},
    maps::{count_loss, is_over, records, spec},
    rows::{self, Place},
    tasks,
};

/// `IORING_SETUP_SQPOLL` of the kernel's `include/uapi/linux/io_uring.h`: a kernel thread takes
/// operations from the ring.
const IS_POLLED: u32 = 1 << 1;
/// `IOSQE_CQE_SKIP_SUCCESS` of the same file: success is not reported.
const SKIP_SUCCESS: u32 = 1 << 6;
/// `IORING_CQE_F_NOTIF` of the same file: not a completion of its own, but the notice that the
/// buffer of an earlier one is free again.
const NOTIFICATION: u32 = 1 << 3;
/// `SPLICE_F_FD_IN_FIXED` of the same file: the input is a registered file, not a descriptor.
const INPUT_IS_REGISTERED: u32 = 1 << 31;

/// `IOSQE_BUFFER_SELECT` of the same file: the ring chooses the buffer.
const BUFFER_SELECT: u32 = 1 << 5;
/// `IORING_OP_READ_FIXED`, `IORING_OP_WRITE_FIXED`, `IORING_OP_READ` and `IORING_OP_WRITE` of the
/// same file: the operations with one buffer, which is in `struct io_rw`.
const ONE_BUFFER: [u8; 4] = [4, 5, 22, 23];
/// The hint for [`ranges::fill`] and [`ranges::take`] if there is none: no range of
/// [`Memory`](zc_ebpf::Memory) has this index.
const NO_HINT: u32 = u32::MAX;
/// `IORING_OP_NOP` of the kernel's `include/uapi/linux/io_uring.h`.
const NOP: u32 = 0;
/// `EINVAL` of the kernel's include/uapi/asm-generic/errno-base.h.
const EINVAL: i32 = 22;

/// The task that created a ring.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Maker {
    /// Address of its `task_struct`. Once the task has ended, it may be that of another task.
    task: u64,
    /// [`Task::serial`] of it.
    serial: u32,
    /// [`Task::space`] of it.
    space: u32,
}

/// Address of a ring that a thread of the kernel polls -> the followed task that made it.
#[map]
static POLLED_RINGS: HashMap<u64, Maker> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// The task that an operation is credited to.
#[derive(Clone, Copy)]
struct Credit {
    /// [`Task::serial`] of the task.
    serial: u32,
    /// [`Task::space`] of it.
    space: u32,
}

/// The current task has created a ring.
pub fn created(ring: KernelPtr, flags: u32) {
    // An earlier ring may have had the same address.
    let _ = POLLED_RINGS.remove(ring as u64);
    let current = current_task() as u64;
    let Some(task) = active(current, hook::RING_CREATE).filter(|_| flags & IS_POLLED != 0) else {
        return;
    };
    let maker = Maker {
        task: current,
        serial: task.serial,
        space: task.space,
    };
    if POLLED_RINGS.insert(ring as u64, maker, 0).is_err() {
        count_loss(Loss::UncountedCall);
    }
}

/// An operation was submitted, by the current task or on its behalf.
pub fn submitted(request: KernelPtr) {
    let ring = fields::probe(request, offset_of_field!(request_ring)).unwrap_or(core::ptr::null());
    let Some(credit) = submitter(ring, request, hook::RING_SUBMIT) else {
        return;
    };
    let flags: u32 = fields::probe(request, offset_of_field!(request_flags)).unwrap_or(0);
    if flags & SKIP_SUCCESS != 0 {
        count_loss(Loss::SilentOperation);
    }
    let operation = operation(request);
    if may_fill(operation) {
        match buffer(request) {
            Some(buffer) => overwrite(credit.space, buffer),
            None => {
                buffers::forget(credit.space);
            }
        }
    }
    let names_two = operation.is_some_and(|(_, spec)| spec.fds == fds::COPIES);
    if names_two && let Some(input) = splice_input(request) {
        // If there is no room, the operation is counted without its files.
        let _ = RING_INPUTS.insert(request as u64, input, 0);
    }
}

/// The file that an operation takes bytes from.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RingInput {
    /// Address of the `struct file`. It may be closed by the time that the operation completes.
    file: u64,
    key: FileKey,
}

/// Address of an `io_uring` request that names two files -> its input. The kernel forgets the input
/// before the request completes.
#[map]
static RING_INPUTS: HashMap<u64, RingInput> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// The file that a splice takes bytes from.
#[inline(always)]
fn splice_input(request: KernelPtr) -> Option<RingInput> {
    let flags: u32 = fields::probe(request, offset_of_field!(splice_flags))?;
    let fd: u32 = fields::probe(request, offset_of_field!(splice_input))?;
    if flags & INPUT_IS_REGISTERED != 0 {
        return None;
    }
    let file = identify::open_file_of_current(fd)?;
    Some(RingInput {
        file: file as u64,
        key: identify::key_of(file)?,
    })
}

/// An operation completes. If `request` is null, it is one of several completions of an operation,
/// and the kernel does not say of which.
pub fn completed(ring: KernelPtr, request: KernelPtr) {
    if request.is_null() {
        unknown_completed(ring, hook::RING_COMPLETE);
        return;
    }
    let Some(credit) = submitter(ring, request, hook::RING_COMPLETE) else {
        return;
    };
    let flags: u32 = fields::probe(request, offset_of_field!(request_cqe_flags)).unwrap_or(0);
    if flags & NOTIFICATION != 0 {
        return;
    }
    let operation = operation(request);
    let Some((call, spec)) = operation else {
        buffers::forget(credit.space);
        return;
    };
    let Some(result) = fields::probe::<i32>(request, offset_of_field!(request_result)) else {
        return;
    };
    let mut ends = ends(request, spec);
    let mut paired_bytes = 0;
    let moved = Buffer {
        bytes: if result > 0 { result as u64 } else { 0 },
        ..buffer(request).unwrap_or(Buffer::NONE)
    };
    if moved.start == 0 {
        if may_fill(operation) {
            buffers::forget(credit.space);
        }
    } else if spec.fds == fds::READS {
        fill(credit.space, ends.input, moved);
    } else if spec.fds == fds::WRITES {
        let settled = take(credit, call, ends.output, moved);
        if settled != 0 {
            ends.input = settled as FileNumber | FROM_BUFFER;
            paired_bytes = settled >> 32;
        }
    }
    let is_invalid = call == RING | NOP && result == -EINVAL;
    let call = if is_invalid {
        RING | INVALID_OPERATION
    } else {
        call
    };
    let returns = if spec.returns_bytes == 0 {
        0
    } else {
        RETURNS_BYTES
    };
    let files = u64::from(ends.input) << 32 | u64::from(ends.output);
    record_operation(
        who(credit, call),
        files,
        result.into(),
        returns,
        paired_bytes,
    );
}

/// The buffer of an operation.
#[derive(Clone, Copy)]
struct Buffer {
    start: u64,
    bytes: u64,
}

impl Buffer {
    /// Unknown.
    const NONE: Self = Self { start: 0, bytes: 0 };
}

/// Whether an operation may write into memory of its process. True if the operation is unknown.
#[inline(always)]
fn may_fill(operation: Option<(CallId, CallSpec)>) -> bool {
    operation.is_none_or(|(_, spec)| spec.fds == fds::READS || spec.fills != fills::NONE)
}

/// The buffer of a plain read or write. `None` if the operation names its buffers in another way,
/// or lets the ring choose one.
#[inline(always)]
fn buffer(request: KernelPtr) -> Option<Buffer> {
    let opcode: u8 = fields::probe(request, offset_of_field!(request_opcode))?;
    let flags: u32 = fields::probe(request, offset_of_field!(request_flags))?;
    if !ONE_BUFFER.contains(&opcode) || flags & BUFFER_SELECT != 0 {
        return None;
    }
    let bytes: u32 = fields::probe(request, offset_of_field!(rw_length))?;
    Some(Buffer {
        start: fields::probe(request, offset_of_field!(rw_address))?,
        bytes: bytes.into(),
    })
}

#[inline(always)]
fn overwrite(space: u32, buffer: Buffer) {
    let Some(memory) = buffers::memory_of(space, false) else {
        return;
    };
    if lock(memory, true) {
        memory::clear(
            memory,
            buffer.start,
            buffer.start.saturating_add(buffer.bytes),
        );
        unlock(memory);
    }
}

#[inline(always)]
fn fill(space: u32, file: FileNumber, buffer: Buffer) {
    if file == 0 || file == NO_ROOM || buffer.bytes == 0 {
        return overwrite(space, buffer);
    }
    let Some(memory) = buffers::memory_of(space, true) else {
        return;
    };
    if lock(memory, true) {
        memory.output = 0;
        ranges::fill(
            memory,
            NO_HINT,
            file,
            buffer.start,
            ranges::lengths(buffer.bytes, buffer.bytes),
        );
        unlock(memory);
    }
}

/// As [`ranges::settle`].
#[inline(always)]
fn take(credit: Credit, call: CallId, output: FileNumber, buffer: Buffer) -> u64 {
    let Some(memory) = buffers::memory_of(credit.space, false).filter(|_| buffer.bytes > 0) else {
        return 0;
    };
    if !lock(memory, false) {
        return 0;
    }
    memory.output = output;
    ranges::take(
        memory,
        NO_HINT,
        buffer.start,
        ranges::lengths(buffer.bytes, buffer.bytes),
        buffers::intent::TAKE,
    );
    let settled = ranges::settle(memory, who(credit, call), output, true);
    unlock(memory);
    settled
}

/// An operation of a ring completes, and the kernel does not say which. Returns whether it is one
/// of a followed task.
fn unknown_completed(ring: KernelPtr, hook: u32) -> bool {
    let Some(credit) = credited(ring, current_task() as u64, hook) else {
        return false;
    };
    buffers::forget(credit.space);
    record_operation(who(credit, RING | UNKNOWN_OPERATION), 0, 0, 0, 0);
    true
}

/// An operation completes, but the completion queue is full, and the kernel does not say which
/// operation it is. So it is missing in the counts of its kind.
pub fn overflowed(ring: KernelPtr) {
    if unknown_completed(ring, hook::OTHER) {
        count_loss(Loss::OverflowedOperation);
    }
}

/// The task that a request is credited to. `None` if it is not in scope. `hook` is the bit of the
/// calling program in [`hook`].
#[inline(always)]
fn submitter(ring: KernelPtr, request: KernelPtr, hook: u32) -> Option<Credit> {
    let owner: KernelPtr = fields::probe(request, offset_of_field!(request_owner))?;
    let offset = offset_of_field!(owner_task);
    credited(
        ring,
        if offset == ABSENT {
            owner as u64
        } else {
            fields::probe(owner, offset)?
        },
        hook,
    )
}

/// The task that an operation is credited to: `task`, which submitted it, or the maker of the ring.
/// `None` if neither is in scope, or the trace is over.
#[inline(always)]
fn credited(ring: KernelPtr, task: u64, hook: u32) -> Option<Credit> {
    if is_over() {
        return None;
    }
    if let Some(task) = active(task, hook) {
        return Some(Credit {
            serial: task.serial,
            space: task.space,
        });
    }
    // A ring's entry is written before the ring can be used, and not again while it is there.
    let maker = *POLLED_RINGS.entry(ring as u64)?;
    // At worst the entry is given to another task meanwhile, whose serial is another.
    let paused = tasks::find(maker.task)
        .is_some_and(|task| task.serial == maker.serial && task.phase != phase::ACTIVE);
    (!paused).then_some(Credit {
        serial: maker.serial,
        space: maker.space,
    })
}

/// The entry of a task that is in scope. It lives as long as its task, which waits for its
/// operations. If the task is a rehearsal, this notes in its entry that the program of `hook` has
/// run; what a rehearsal submits, it completes itself.
#[inline(always)]
fn active(task: u64, hook: u32) -> Option<&'static Task> {
    let task = tasks::find(task)?;
    // A task makes a ring itself, so nobody else writes this meanwhile.
    if task.phase == phase::REHEARSING || hook == hook::RING_CREATE {
        task.hooks |= hook;
    }
    (task.phase == phase::ACTIVE).then_some(task)
}

/// Which operation a request is, and its spec. `None` if the kernel's fields cannot be read.
#[inline(always)]
fn operation(request: KernelPtr) -> Option<(CallId, CallSpec)> {
    let opcode: u8 = fields::probe(request, offset_of_field!(request_opcode))?;
    Some((RING | u32::from(opcode), spec(operation_slot(opcode))?))
}

/// The files of an operation.
#[inline(always)]
fn ends(request: KernelPtr, spec: CallSpec) -> Ends {
    if spec.fds == fds::NONE || !records(recorded::FILES) {
        return Ends::NONE;
    }
    let file: KernelPtr =
        fields::probe(request, offset_of_field!(request_file)).unwrap_or(core::ptr::null());
    let number = if file.is_null() {
        0
    } else {
        identify::number_of(file)
    };
    match spec.fds {
        fds::WRITES => Ends {
            input: 0,
            output: number,
        },
        fds::COPIES => Ends {
            input: take_input(request as u64),
            output: number,
        },
        _ => Ends {
            input: number,
            output: 0,
        },
    }
}

/// The number of the input that [`submitted`] remembered for this request. [`NO_ROOM`] if there was
/// no room to remember it.
#[inline(always)]
fn take_input(request: u64) -> FileNumber {
    // Copied before anybody else can have this request.
    let input = RING_INPUTS.entry(request).map(|input| *input);
    let _ = RING_INPUTS.remove(request);
    input.map_or(NO_ROOM, |input| {
        identify::number_of_former(input.file as KernelPtr, input.key)
    })
}

/// The key of a row as one number: the task's serial number in its upper half and the call in its
/// lower half.
#[inline(always)]
fn who(credit: Credit, call: CallId) -> u64 {
    u64::from(credit.serial) << 32 | u64::from(call)
}

#[inline(always)]
const fn ends_of(files: u64) -> Ends {
    Ends {
        input: (files >> 32) as FileNumber,
        output: files as FileNumber,
    }
}

/// For [`record_in_row`]: the result is a number of bytes.
const RETURNS_BYTES: u32 = 1;
/// For [`record_in_row`]: the operation has files, but there was no room for a row with them.
const WITHOUT_FILES: u32 = 2;

/// Counts an operation in the row with its files, or else in that without files. `files` has the
/// input in its upper half and the output in its lower half. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn record_operation(
    who: u64,
    files: u64,
    result: i64,
    flags: u32,
    paired_bytes: u64,
) -> u32 {
    let has_files = files != 0 && !ends_of(files).lack_room();
    if has_files && record_in_row(who, files, result, flags, paired_bytes) != 0 {
        return 0;
    }
    let flags = if files == 0 {
        flags
    } else {
        flags | WITHOUT_FILES
    };
    if record_in_row(who, 0, result, flags, paired_bytes) == 0 {
        count_loss(Loss::UncountedCall);
    }
    0
}

/// Counts an operation in the row with these files: the input in the upper half, the output in the
/// lower half. Returns 0 if there is no room.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn record_in_row(
    who: u64,
    files: u64,
    result: i64,
    flags: u32,
    paired_bytes: u64,
) -> u32 {
    let ends = ends_of(files);
    let errno = if is_error(result) { -result as u32 } else { 0 };
    let Some(place) = rows::place_of_operation((who >> 32) as u32, who as CallId, ends, errno)
    else {
        return 0;
    };
    let bytes = if flags & RETURNS_BYTES != 0 && errno == 0 {
        Some(result as u64)
    } else {
        None
    };
    add(
        place,
        errno,
        bytes,
        paired_bytes,
        flags & WITHOUT_FILES != 0,
    );
    1
}

/// Adds an operation to its place. Several may complete at once on different CPUs, so all sums are
/// atomic.
#[inline(always)]
fn add(place: Place, errno: u32, bytes: Option<u64>, paired_bytes: u64, without_files: bool) {
    let row = place.row;
    let now = now_ns();
    if row.first_ns == 0 {
        row.first_ns = now;
    }
    row.last_ns = now;
    fetch_add(&mut row.calls, 1);
    fetch_add(&mut row.without_files, without_files.into());
    fetch_add(&mut row.errors, (errno != 0).into());
    if let Some(bytes) = bytes {
        fetch_add(&mut row.bytes, bytes);
        fetch_add(&mut row.paired_bytes, paired_bytes);
        fetch_add(&mut row.checked_calls, u64::from(paired_bytes > 0));
        fetch_add(&mut row.zero_calls, u64::from(bytes == 0));
        if row.moved_ns == 0 && bytes != 0 {
            row.moved_ns = now;
        }
    }
    match place.errno {
        Some(count) => {
            fetch_add(count, 1);
        }
        None if errno != 0 => count_loss(Loss::UncountedErrno),
        None => {}
    }
}
