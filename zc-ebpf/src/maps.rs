//! Every map, and the counting of losses. User space sizes the hashes when it loads the object.

use aya_ebpf::{
    Global,
    bindings::BPF_F_NO_PREALLOC,
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use zc_ebpf::{
    CallSpec, Control, ErrnoKey, FileKey, FileSeen, KnownFile, LOSSES as LOSS_COUNT, Loss, Memory, Part, Row, RowKey, SPEC_SLOTS,
    STREAM_FILES, Stream, Task,
};

use crate::{
    evidence::sums::Block,
    file::path::Walk,
    hooks::ring::{Maker, RingInput},
};

/// Address of a `task_struct` -> the task, while it is followed. Preallocated: to follow a new task must not depend on free memory.
#[map]
pub static TASKS: HashMap<u64, Task> = HashMap::with_max_entries(1, 0);

/// The counts. Rows are large and their number is unknown, so memory is taken as they come.
#[map]
pub static ROWS: HashMap<RowKey, Row> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// The counts by file. A map of its own: however many files there are, they take no room from the calls.
#[map]
pub static FILE_ROWS: HashMap<RowKey, Row> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// What reads have filled in each address space. Memory is taken as processes read.
#[map]
pub static MEMORIES: HashMap<u32, Memory> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// What calls wrote from other files than that of their row.
#[map]
pub static PARTS: HashMap<RowKey, Part> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Errors by errno.
#[map]
pub static ERRNOS: HashMap<ErrnoKey, u64> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Errors by errno and file.
#[map]
pub static FILE_ERRNOS: HashMap<ErrnoKey, u64> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// The files that counted calls used.
#[map]
pub static FILES: HashMap<FileKey, KnownFile> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// What was read from each file and written to it, at some places, by [`stream_slot`](zc_ebpf::stream_slot).
#[map]
pub static STREAMS: Array<Stream> = Array::with_max_entries(2 * STREAM_FILES, 0);

/// A block of memory that is summed up: too large for the stack.
#[map]
pub static BLOCK: PerCpuArray<Block> = PerCpuArray::with_max_entries(1, 0);

/// Where an event of a file is put together: too large for the stack, and sent with just the bytes that are filled.
#[map]
pub static SCRATCH: PerCpuArray<FileSeen> = PerCpuArray::with_max_entries(1, 0);

/// The walk along a path, on its way: of what is on the stack, the verifier would follow every value that it can take.
#[map]
pub static WALK: PerCpuArray<Walk> = PerCpuArray::with_max_entries(1, 0);

/// Tasks starting, executing, ending; files seen for the first time.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);

/// Where operations of `io_uring` take bytes from that name two files: the kernel forgets that before they complete.
#[map]
pub static RING_INPUTS: HashMap<u64, RingInput> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// Address of a ring that a thread of the kernel polls -> the followed task that made it.
#[map]
pub static POLLED_RINGS: HashMap<u64, Maker> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// What to do with each call. A global, so that finding it takes no call of a helper, and filling it in no system call.
#[unsafe(no_mangle)]
static SPECS: Global<[CallSpec; SPEC_SLOTS as usize]> = Global::new([CallSpec::NONE; SPEC_SLOTS as usize]);

/// What to do with the call in this slot.
#[inline(always)]
pub fn spec(slot: u32) -> Option<CallSpec> {
    let slot = opaque(slot.into());
    if slot >= u64::from(SPEC_SLOTS) {
        return None;
    }
    // SAFETY: `slot` is within the array, and any two words are a CallSpec. Volatile because user space fills the global in after
    // compilation.
    unsafe {
        let words = (&raw const SPECS).cast::<[u64; 2]>().add(slot as usize).cast::<u64>();
        Some(core::mem::transmute::<[u64; 2], CallSpec>([words.read_volatile(), words.add(1).read_volatile()]))
    }
}

/// What user space tells the programs.
#[map]
pub static CONTROL: Array<Control> = Array::with_max_entries(1, 0);

/// 1: the trace is over, and nothing more is counted. A global of its own, since to read an entry of a map takes a look-up.
#[unsafe(no_mangle)]
static mut IS_OVER: u32 = 0;

/// How often which [`Loss`] happened.
#[map]
pub static LOSSES: PerCpuArray<u64> = PerCpuArray::with_max_entries(LOSS_COUNT, 0);

/// The row that new rows are copied from: too large for the stack.
pub static EMPTY_ROW: Row = Row::EMPTY;

/// The memory that new ones are copied from, likewise.
pub static EMPTY_MEMORY: Memory = Memory::NOTHING;

/// Whether the trace is over: programs are taken off one after the other, and what they see until then does not count.
#[inline(always)]
pub fn is_over() -> bool {
    // SAFETY: no reference to it exists; volatile because user space writes it while programs run.
    unsafe { core::ptr::read_volatile(&raw const IS_OVER) != 0 }
}

/// Counts a loss, so that the report says "lower bound".
pub fn lose(loss: Loss) {
    if let Some(count) = LOSSES.get_ptr_mut(loss as u32) {
        // SAFETY: a value of a map. Atomic, as another program of this CPU may have been preempted here.
        unsafe { fetch_add(count, 1) };
    }
}

/// The same number, of which the compiler knows nothing. Otherwise the compiler may compare what the number came from a second time. The
/// verifier of 6.1 follows both comparisons even where they contradict each other, and refuses what it finds there.
#[inline(always)]
fn opaque(number: u64) -> u64 {
    let mut value = number;
    #[cfg(target_arch = "bpf")]
    // SAFETY: it changes nothing. Without any instruction, the kernel refuses the line numbers, of which two would stand at one place.
    unsafe {
        core::arch::asm!("{value} += 0", value = inout(reg) value, options(pure, nomem, nostack));
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host this crate is only checked, never run.
        let _ = &mut value;
    }
    value
}

/// Sets a number that other CPUs set as well, and returns what it was before.
///
/// # Safety
///
/// `number` points to an aligned u64 in a map.
#[inline(always)]
pub unsafe fn exchange(number: *mut u64, new: u64) -> u64 {
    let mut value = new;
    #[cfg(target_arch = "bpf")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!("{value} = xchg_64({number} + 0, {value})", value = inout(reg) value, number = in(reg) number);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host this crate is only checked, never run.
        let _ = (number, &mut value);
    }
    value
}

/// Adds to a number that other CPUs add to as well, and returns what it was before.
///
/// rustc knows no atomics for BPF, the instruction set does (v3): `BPF_ATOMIC | BPF_FETCH`.
///
/// # Safety
///
/// `number` points to an aligned u64 in a map.
#[inline(always)]
pub unsafe fn fetch_add(number: *mut u64, addend: u64) -> u64 {
    let mut value = addend;
    #[cfg(target_arch = "bpf")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!("{value} = atomic_fetch_add((u64 *)({number} + 0), {value})", value = inout(reg) value, number = in(reg) number);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        // On the host this crate is only checked, never run.
        let _ = (number, &mut value);
    }
    value
}
