//! Counts what `io_uring` does for followed tasks, whether the task itself, a worker or a polling
//! thread of the kernel executes it.
//!
//! An operation is counted when it completes, since its result and its files are known then. It is
//! credited to the task that submitted it. If a kernel thread polls the ring, no task submits the
//! operations, and they are credited to the task that created the ring.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{
    ABSENT, CallSpec, FileKey, FileNumber, INVALID_OPERATION, KernelLoss, NO_ROOM, NumberedEnds,
    RING, Row, Task, UNKNOWN_OPERATION, errno_of, fds, hook,
    opaque::smaller,
    operation_slot,
    origin::{
        memory::{Exchange, UNREADABLE, intent},
        range::WORD_BYTES,
    },
    overwrites, phase, recorded,
};

use crate::{
    file::identify,
    hooks::ring_buffers::{self, NO_NUMBER, READ_FIXED, RingCall},
    kernel::argument,
    kernel::entries::{Entries as _, EntryPtr, copy, field},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::{current_task, now_ns, read_user},
    maps::{count_loss, is_over, records, spec},
    origin::spaces::forget,
    rows, tasks,
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
    /// What operations of the ring are credited to.
    credit: Credit,
}

/// Address of a ring that a thread of the kernel polls -> the followed task that made it.
#[map]
static POLLED_RINGS: HashMap<u64, Maker> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// The task that an operation is credited to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Credit {
    /// [`Task::serial`] of the task.
    serial: u32,
    /// [`Task::space`] of it.
    space: u32,
    /// The address of its `mm_struct`.
    mm: u64,
}

impl Credit {
    /// The credit to a task whose `task_struct` is at this address.
    #[inline(always)]
    fn to_task(task: EntryPtr<Task>, address: u64) -> Self {
        Self {
            serial: field!(task, serial).load(),
            space: field!(task, space).load(),
            mm: mm_of(address),
        }
    }
}

/// The current task has created a ring.
pub fn created(ring: KernelPtr, flags: u32) {
    // An earlier ring may have had the same address.
    let _ = POLLED_RINGS.remove(ring as u64);
    let current = current_task() as u64;
    let Some(task) = active(current) else {
        return;
    };
    let hooks = field!(task, hooks);
    hooks.store(hooks.load() | hook::RING_CREATE);
    if flags & IS_POLLED == 0 {
        return;
    }
    let maker = Maker {
        task: current,
        credit: Credit::to_task(task, current),
    };
    if POLLED_RINGS.insert(ring as u64, maker, 0).is_err() {
        count_loss(KernelLoss::UncountedCall);
    }
}

/// An operation was submitted, by the current task or on its behalf.
pub fn submitted(request: KernelPtr) {
    let ring = fields::probe_pointer(request, offset_of_field!(request_ring));
    let Some(credit) = submitter(ring, request) else {
        return;
    };
    let flags: u32 = fields::probe_or_zero(request, offset_of_field!(request_flags));
    if flags & SKIP_SUCCESS != 0 {
        count_loss(KernelLoss::SilentOperation);
    }
    let (_, spec) = operation(request);
    if records(recorded::PAIRING) {
        ring_buffers::note_vector(request as u64, is_current(credit));
    }
    if spec.fds == fds::COPIES
        && let Some(input) = splice_input(request)
    {
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
    let file = identify::open_file(fd)?;
    Some(RingInput {
        file: file as u64,
        key: identify::key_of(file)?,
    })
}

/// An operation completes. If `request` is null, it is one of several completions of an operation,
/// and the kernel does not say of which.
#[inline(always)]
pub fn completed(ring: KernelPtr, request: KernelPtr) {
    if request.is_null() {
        unknown_completed(ring);
        return;
    }
    let Some(credit) = submitter(ring, request) else {
        return;
    };
    let request = request as u64;
    let mut completed = RingCall::new(credit.serial, RING | UNKNOWN_OPERATION);
    completed.exchange.unreadable = if is_current(credit) { 0 } else { UNREADABLE };
    if describe_operation(request, &raw mut completed) == 0 {
        return;
    }
    if records(recorded::PAIRING) {
        ring_buffers::exchange_buffers(request, &raw mut completed, credit.space);
        ring_buffers::forget_vector(request);
    }
    record_operation(&completed);
}

/// Fills in what an operation was that completes, and what it has done. Returns 1, or 0 if this is no
/// completion of its own. A global function, so that the verifier follows the rest once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn describe_operation(request: u64, completed: *mut RingCall) -> u32 {
    let Some(RingCall {
        exchange, buffer, ..
    }) = argument::as_mut(completed)
    else {
        return 0;
    };
    let request = request as KernelPtr;
    let flags: u32 = fields::probe_or_zero(request, offset_of_field!(request_cqe_flags));
    if flags & NOTIFICATION != 0 {
        return 0;
    }
    let result: i32 = fields::probe_or_zero(request, offset_of_field!(request_result));
    let (opcode, spec) = operation(request);
    let is_invalid = opcode == NOP && result == -EINVAL;
    exchange.key.call = RING
        | if is_invalid {
            INVALID_OPERATION
        } else {
            opcode
        };
    exchange.key.errno = errno_of(result.into());
    exchange.key.ends = ends(request, spec);
    exchange.bytes = match result {
        _ if spec.returns_bytes == 0 => NO_NUMBER,
        1.. => result as u64,
        _ => 0,
    };
    *buffer = ring_buffers::buffer_of(request);
    let input = exchange.key.ends.input;
    exchange.intent = match spec.fds {
        fds::WRITES => intent::CREDIT,
        fds::READS if opcode != READ_FIXED && input != 0 && input != NO_ROOM => intent::FILL,
        fds::READS => intent::CLEAR,
        _ if spec.overwrites != overwrites::NONE => intent::CLEAR,
        _ => intent::NONE,
    };
    1
}

/// An operation of a ring completes, and the kernel does not say which. Returns whether it is one
/// of a followed task.
fn unknown_completed(ring: KernelPtr) -> bool {
    let Some(credit) = credited(ring, current_task() as u64) else {
        return false;
    };
    forget(credit.space);
    let call = RING | UNKNOWN_OPERATION;
    record_operation(&RingCall::new(credit.serial, call));
    true
}

/// An operation completes, but the completion queue is full, and the kernel does not say which
/// operation it is. So it is missing in the counts of its kind.
pub fn overflowed(ring: KernelPtr) {
    if unknown_completed(ring) {
        count_loss(KernelLoss::OverflowedOperation);
    }
}

/// The task that a request is credited to. `None` if it is not in scope.
#[inline(always)]
fn submitter(ring: KernelPtr, request: KernelPtr) -> Option<Credit> {
    let owner = fields::probe_pointer(request, offset_of_field!(request_owner));
    let offset = offset_of_field!(owner_task);
    let task = if offset == ABSENT {
        owner
    } else {
        fields::probe_pointer(owner, offset)
    };
    credited(ring, task as u64)
}

/// The task that an operation is credited to: `task`, which submitted it, or the maker of the ring.
/// `None` if neither is in scope, or the trace is over.
#[inline(always)]
fn credited(ring: KernelPtr, task: u64) -> Option<Credit> {
    let mut credit = Credit {
        serial: 0,
        space: 0,
        mm: 0,
    };
    (find_credit(ring as u64, task, &raw mut credit) != 0).then_some(credit)
}

/// Does what [`credited`] says. Returns 1, or 0 if there is no such task. A global function, so that
/// the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_credit(ring: u64, task: u64, credit: *mut Credit) -> u32 {
    let Some(credit) = argument::as_mut(credit).filter(|_| !is_over()) else {
        return 0;
    };
    if let Some(known) = active(task) {
        copy(&Credit::to_task(known, task), credit);
        return 1;
    }
    // A ring's entry is written before the ring can be used, and not again while it is there.
    let Some(maker) = POLLED_RINGS.entry(ring) else {
        return 0;
    };
    field!(maker, credit).copy_to(credit);
    // At worst the entry is given to another task meanwhile, whose serial is another.
    let is_paused = tasks::find(field!(maker, task).load())
        .is_some_and(|task| field!(task, serial).load() == credit.serial && !is_active(task));
    (!is_paused).into()
}

/// The address of the `mm_struct` of the task whose `task_struct` is at this address.
#[inline(always)]
fn mm_of(task: u64) -> u64 {
    fields::probe_or_zero(task as KernelPtr, offset_of_field!(task_mm))
}

/// Whether the address space that an operation is about is the current one, so that its memory can
/// be read: the kernel completes operations in workers of the process, too, but also elsewhere.
#[inline(always)]
fn is_current(credit: Credit) -> bool {
    credit.mm != 0 && credit.mm == mm_of(current_task() as u64)
}

/// The entry of a task that is in scope. It lives as long as its task, which waits for its
/// operations.
#[inline(always)]
fn active(task: u64) -> Option<EntryPtr<Task>> {
    tasks::find(task).filter(|&task| is_active(task))
}

#[inline(always)]
fn is_active(task: EntryPtr<Task>) -> bool {
    field!(task, phase).load() == phase::ACTIVE
}

/// The opcode of a request, and its spec.
#[inline(always)]
fn operation(request: KernelPtr) -> (u32, CallSpec) {
    let opcode: u8 = fields::probe_or_zero(request, offset_of_field!(request_opcode));
    let spec = spec(operation_slot(opcode)).unwrap_or(CallSpec::NONE);
    (opcode.into(), spec)
}

/// The files of an operation.
#[inline(always)]
fn ends(request: KernelPtr, spec: CallSpec) -> NumberedEnds {
    if spec.fds == fds::NONE || !records(recorded::FILES) {
        return NumberedEnds::NONE;
    }
    let number = number_of(request as u64);
    match spec.fds {
        fds::WRITES => NumberedEnds::named(0, number),
        fds::COPIES => NumberedEnds::named(take_input(request as u64), number),
        _ => NumberedEnds::named(number, 0),
    }
}

/// The number of the file of a request; 0 if it has none. A global function, as is the next one,
/// because of the stack that they take.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn number_of(request: u64) -> FileNumber {
    match fields::probe_pointer(request as KernelPtr, offset_of_field!(request_file)) {
        file if file.is_null() => 0,
        file => identify::number_of(file),
    }
}

/// The number of the input that [`submitted`] remembered for this request. [`NO_ROOM`] if there was
/// no room to remember it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_input(request: u64) -> FileNumber {
    // Copied before anybody else can have this request.
    let input = RING_INPUTS.entry(request).map(EntryPtr::load);
    let _ = RING_INPUTS.remove(request);
    input.map_or(NO_ROOM, |input| {
        identify::number_of_former(input.file as KernelPtr, input.key)
    })
}

/// Counts an operation in the row with its files, or else in that without files.
#[inline(always)]
fn record_operation(operation: &RingCall) {
    let ends = operation.origin.ends(operation.exchange.key.ends);
    let has_files = !ends.is_none() && !ends.lack_room();
    let is_counted = has_files && record_in_row(operation, 1) != 0;
    if !is_counted && record_in_row(operation, 0) == 0 {
        count_loss(KernelLoss::UncountedCall);
    }
}

/// Counts an operation in the row with its files or without. Returns 1, or 0 if there is no room.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn record_in_row(operation: *const RingCall, has_files: u32) -> u32 {
    let Some(operation) = argument::as_ref(operation) else {
        return 0;
    };
    let key = operation.exchange.key;
    let all = operation.origin.ends(key.ends);
    let ends = if has_files == 0 {
        NumberedEnds::NONE
    } else {
        all
    };
    let key = rows::key(key.task, key.call, key.errno, ends);
    let Some(row) = rows::row_of_operation(&key) else {
        return 0;
    };
    add(row, operation, has_files == 0 && !all.is_none());
    1
}

/// Notes the first bytes that the first operation of a row has moved, if its memory can be read.
#[inline(always)]
fn note_first_bytes(row: EntryPtr<Row>, operation: &RingCall) {
    let Exchange {
        bytes, unreadable, ..
    } = operation.exchange;
    if operation.buffer != 0
        && unreadable == 0
        && bytes != NO_NUMBER
        && let Some(word) = read_user(operation.buffer)
    {
        field!(row, first_word).store(word);
        field!(row, first_bytes).store(smaller(bytes, WORD_BYTES));
    }
}

/// Adds an operation to its row. Several may complete at once on different CPUs, so all sums are
/// atomic.
#[inline(always)]
fn add(row: EntryPtr<Row>, operation: &RingCall, without_files: bool) {
    if field!(row, calls).fetch_add(1) == 0 {
        field!(row, first_ns).store(now_ns());
        note_first_bytes(row, operation);
    }
    field!(row, without_files).fetch_add(without_files.into());
    let Exchange { key, bytes, .. } = operation.exchange;
    if bytes != NO_NUMBER && key.errno == 0 {
        field!(row, bytes).fetch_add(bytes);
        field!(row, zero_calls).fetch_add(u64::from(bytes == 0));
    }
    if operation.origin.file != 0 {
        rows::add_origin(row, &operation.origin);
    }
}
