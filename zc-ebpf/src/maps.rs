//! The maps and globals that several modules share, and the functions that count losses. What is in
//! them is said where their names are: [`zc_ebpf::maps`], [`zc_ebpf::globals`]. User space sets the
//! sizes of the hashes when it loads the object.

use aya_ebpf::{
    Global,
    bindings::{
        BPF_F_NO_PREALLOC, BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP,
        BPF_RB_RING_SIZE,
    },
    macros::map,
    maps::{Array, HashMap, PerCpuArray, RingBuf},
};
use zc_ebpf::{
    BusyRow, CallId, CallSpec, Control, Epoch, FileKey, FileNumber, FileRoom, FileSeen, KernelLoss,
    KnownFile, LOSSES as LOSS_COUNT, MEMORIES as MEMORY_COUNT, NEAR_BUSY_ROWS_OF_EPOCH,
    NearBusyRow, OTHER_CALLS_BLOCKS, OtherCallsBlock, Row, RowKey, SPEC_SLOTS, SharedMemory,
    is_room_low,
    opaque::{if_set, is_less, is_not_zero, opaque, smaller},
    recorded,
};

use crate::kernel::{
    entries::{Entries as _, field},
    scratch::Scratch,
};

/// The rows are allocated at the start, because short-lived processes make rows all the time, and to
/// allocate one takes longer than all else that a call costs. The table is small, because a look-up
/// in a large one waits for memory.
#[map]
pub static NEAR_ROWS: HashMap<RowKey, Row> = HashMap::with_max_entries(1, 0);

#[unsafe(no_mangle)]
static USES_NEAR_ROWS: Global<u32> = Global::new(1);

/// Whether [`NEAR_ROWS`] and [`NEAR_BUSY_ROWS`] are used.
#[inline(always)]
pub fn uses_near_rows() -> bool {
    USES_NEAR_ROWS.load() != 0
}

/// Whether there was no room in [`NEAR_ROWS`] for a row of this epoch.
#[inline(always)]
pub fn is_near_full() -> bool {
    value_now(&raw const EPOCH).is_near_full != 0
}

/// Notes that [`NEAR_ROWS`] is full, so that further rows of this epoch are made elsewhere.
#[inline(always)]
pub fn note_near_full() {
    // SAFETY: there is no reference to it. Volatile, as in `value_now`.
    unsafe { core::ptr::write_volatile(&raw mut EPOCH.is_near_full, 1) }
}

/// Nobody knows how many rows there will be, so each is allocated when it is needed.
#[map]
pub static ROWS: HashMap<RowKey, Row> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Apart from [`ROWS`], so that many files cannot take the room that calls need.
#[map]
pub static FILE_ROWS: HashMap<RowKey, Row> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Only these rows have room for a histogram: the kernel allocates and copies a row, and user space
/// reads and removes it, for each short-lived process and each of its calls.
#[map]
pub static BUSY_ROWS: HashMap<RowKey, BusyRow> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// To find a row here takes no call of the kernel.
#[map]
pub static NEAR_BUSY_ROWS: Array<NearBusyRow> =
    Array::with_max_entries(2 * NEAR_BUSY_ROWS_OF_EPOCH, 0);

/// An array, because to find an entry takes no helper.
#[map]
pub static MEMORIES: Array<SharedMemory> = Array::with_max_entries(MEMORY_COUNT, 0);

/// Few large entries: the kernel allocates each by itself at the start.
#[map]
pub static OTHER_CALLS: PerCpuArray<OtherCallsBlock> =
    PerCpuArray::with_max_entries(OTHER_CALLS_BLOCKS, 0);

#[map]
pub static FILES: HashMap<FileKey, KnownFile> = HashMap::with_max_entries(1, BPF_F_NO_PREALLOC);

/// Where the event of a file is put together: it is too large for the stack, and only the bytes
/// that are filled are sent.
#[map]
pub static SEEN_FILE: PerCpuArray<Scratch<FileSeen>> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);

#[map]
pub static SAMPLES: RingBuf = RingBuf::with_byte_size(4096, 0);

/// A global, because it needs no helper call to look up.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.specs")]
static mut SPECS: [CallSpec; SPEC_SLOTS as usize] = [CallSpec::NONE; SPEC_SLOTS as usize];

/// What to do with the call in this slot.
#[inline(always)]
pub fn spec(slot: u32) -> Option<CallSpec> {
    // SAFETY: any two words are a CallSpec.
    Some(unsafe { core::mem::transmute::<[u64; 2], CallSpec>(words_of_spec(slot)?) })
}

/// Stores what to do with the call in this slot. Returns whether there is such a slot.
#[inline(always)]
pub fn store_spec(slot: u32, spec: &mut CallSpec) -> bool {
    let Some(words) = words_of_spec(slot) else {
        return false;
    };
    // SAFETY: any two words are a CallSpec, which is aligned like a word. Volatile because the
    // compiler would store each byte by itself.
    unsafe {
        core::ptr::from_mut(spec)
            .cast::<[u64; 2]>()
            .write_volatile(words);
    };
    true
}

/// The words of the [`CallSpec`] in this slot.
#[inline(always)]
fn words_of_spec(slot: u32) -> Option<[u64; 2]> {
    let slot = opaque(slot.into());
    if slot >= u64::from(SPEC_SLOTS) {
        return None;
    }
    // SAFETY: `slot` is within the array. Volatile because user space fills it in.
    unsafe {
        let words = (&raw const SPECS)
            .cast::<[u64; 2]>()
            .add(slot as usize)
            .cast::<u64>();
        Some([words.read_volatile(), words.add(1).read_volatile()])
    }
}

/// Bits of [`recorded`].
#[unsafe(no_mangle)]
static RECORDED: Global<u32> = Global::new(recorded::ALL);

/// Whether this is recorded: one of the bits in [`recorded`]. The verifier knows it, because the
/// global is frozen before it checks the programs.
#[inline(always)]
pub fn records(what: u32) -> bool {
    RECORDED.load() & what != 0
}

#[unsafe(no_mangle)]
static ATTACHES: Global<u32> = Global::new(0);

/// Whether tasks are followed that already run. The verifier knows it, as with [`records`].
#[inline(always)]
pub fn attaches() -> bool {
    ATTACHES.load() != 0
}

#[map]
pub static CONTROL: Array<Control> = Array::with_max_entries(1, 0);

/// A global, because reading an entry of a map takes a look-up.
#[unsafe(no_mangle)]
static mut IS_OVER: u32 = 0;

/// In a section of its own, as the next ones, because user space expects only `IS_OVER` in `.bss`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.epoch")]
static mut EPOCH: Epoch = Epoch {
    current: 0,
    is_near_full: 0,
};

/// The process of the thread that entered the scope by itself: the address of its leader's
/// `task_struct`. 0: there is none. A global, so that calls of tasks that are not followed cost one
/// load. In a section of its own, because user space expects only `IS_OVER` in `.bss`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.scope")]
static mut SCOPED_PROCESS: u64 = 0;

/// The process of the thread that entered the scope by itself: its leader's `task_struct`. 0: there
/// is none.
#[inline(always)]
pub fn scoped_process() -> u64 {
    value_now(&raw const SCOPED_PROCESS)
}

/// Sets that: the address of its leader's `task_struct`, or 0.
#[inline(always)]
pub fn set_scoped_process(leader: u64) {
    // SAFETY: as in `value_now`. A trace has one thread that comes into scope by itself.
    unsafe { core::ptr::write_volatile(&raw mut SCOPED_PROCESS, leader) };
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.awaited")]
static mut IS_AWAITED: u32 = 1;

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.far")]
static mut HAS_FAR_ROWS: u32 = 0;

/// Notes that there are rows in [`ROWS`], [`FILE_ROWS`] or [`BUSY_ROWS`].
#[inline(always)]
pub fn note_far_rows() {
    // SAFETY: there is no reference to it. Volatile, as in `value_now`.
    unsafe { core::ptr::write_volatile(&raw mut HAS_FAR_ROWS, 1) }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.files")]
static mut FILE_ROOM: FileRoom = FileRoom {
    generation: 0,
    given_up: 0,
};

/// The value that a global has now. Volatile, because user space or another program may write it
/// while programs run.
#[inline(always)]
pub fn value_now<T: Copy>(global: *const T) -> T {
    // SAFETY: a global, to which there is no reference.
    unsafe { global.read_volatile() }
}

/// How many bytes of events wait before they wake user space that does not wait for each. Less in a
/// small ring.
const MANY_BYTES: u64 = 1 << 16;

/// The flag for an event: whether it wakes user space. To wake it takes an interrupt and a switch
/// to its thread, several times for each process that starts and ends.
#[inline(always)]
pub fn wakeup() -> u64 {
    let is_awaited = value_now(&raw const IS_AWAITED);
    let waiting = EVENTS.query(BPF_RB_AVAIL_DATA.into());
    let many = smaller(MANY_BYTES, EVENTS.query(BPF_RB_RING_SIZE.into()) / 4);
    // Without branches, because the verifier follows each.
    if_set(
        is_not_zero(is_awaited.into()) | is_less(many, waiting),
        BPF_RB_FORCE_WAKEUP.into(),
        BPF_RB_NO_WAKEUP.into(),
    )
}

/// The flag for an event about this file: if room for files is low, it wakes user space, which can
/// make some.
#[inline(always)]
pub fn wakeup_for_file(number: FileNumber) -> u64 {
    let is_low = CONTROL
        .entry(0)
        .map(|control| field!(control, max_files).load())
        .is_some_and(|max_files| is_room_low(number, numbers_given_up(), max_files));
    if is_low {
        BPF_RB_FORCE_WAKEUP.into()
    } else {
        wakeup()
    }
}

/// What keys of [`FILES`] have in [`FileKey::shared`]: 0 or
/// [`ODD_GENERATION`](zc_ebpf::ODD_GENERATION).
#[inline(always)]
pub fn file_generation() -> u32 {
    value_now(&raw const FILE_ROOM).generation
}

/// See [`FileRoom::given_up`].
#[inline(always)]
pub fn numbers_given_up() -> u32 {
    value_now(&raw const FILE_ROOM).given_up
}

/// What keys of rows have in their call: 0 or [`ODD_EPOCH`](zc_ebpf::ODD_EPOCH).
#[inline(always)]
pub fn epoch() -> CallId {
    value_now(&raw const EPOCH).current
}

/// Sends a message to a ring buffer, or counts that it is lost.
#[inline(always)]
pub fn send_to<T: Copy + 'static>(ring: &RingBuf, message: T, flags: u64, loss: KernelLoss) {
    match ring.reserve::<T>(0) {
        Some(mut entry) => {
            entry.write(message);
            entry.submit(flags);
        }
        None => count_loss(loss),
    }
}

#[map]
pub static LOSSES: PerCpuArray<u64> = PerCpuArray::with_max_entries(LOSS_COUNT, 0);

/// New rows are copied from this one, because a row is too large for the stack.
pub static EMPTY_ROW: Row = Row::EMPTY;

/// New busy rows, likewise.
pub static EMPTY_BUSY_ROW: BusyRow = BusyRow::EMPTY;

/// Whether the trace is over. Programs are detached one after the other; what they see until then
/// is not counted.
#[inline(always)]
pub fn is_over() -> bool {
    value_now(&raw const IS_OVER) != 0
}

/// Counts a loss. The report then says "lower bound".
#[inline(always)]
pub fn count_loss(loss: KernelLoss) {
    count_loss_of(loss as u32);
}

/// As [`count_loss`]. A global function, because the kernel moves all of a program's code wherever
/// it inlines a look-up. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_loss_of(loss: u32) -> u32 {
    if let Some(count) = LOSSES.entry(loss) {
        // Atomic, because another program may have been preempted here on this CPU.
        count.fetch_add(1);
    }
    0
}
