//! The buffers of `io_uring` operations, and where the bytes in them came from.
//!
//! The kernel copies the vector of an operation when it is submitted, and forgets where it was. So
//! it is read then. The memory itself is read when the operation completes, unless that happens in
//! another address space: then no word is kept or compared.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use zc_ebpf::{
    CallId, Memory, NumberedEnds, Origin, RowKey,
    opaque::smaller,
    origin::memory::{Exchange, intent},
    repeat::repeat,
};

use crate::{
    kernel::argument,
    kernel::entries::{Entries as _, copy},
    kernel::fields::{self, KernelPtr, offset_of_field},
    kernel::helpers::fill_from_user,
    kernel::registers::untagged,
    origin::calls::ELEMENTS,
    origin::credit,
    origin::lock::lock,
    origin::spaces::needed_memory,
    rows::find_or_make,
};

/// `IOSQE_BUFFER_SELECT` of the kernel's `include/uapi/linux/io_uring.h`: the ring chooses the
/// buffer.
const BUFFER_SELECT: u32 = 1 << 5;
/// `IORING_OP_READ_FIXED` of the same file: the operation that reads into registered memory.
pub const READ_FIXED: u32 = 4;
/// That operation, `IORING_OP_READ` and `IORING_OP_WRITE`: those with one buffer, which is in
/// `struct io_rw`. `IORING_OP_WRITE_FIXED` is not among them: what it writes is the memory that was
/// registered, and its address may be another one's by now.
const ONE_BUFFER: [u8; 3] = [4, 22, 23];
/// `IORING_OP_READV` and `IORING_OP_WRITEV`: those with a vector, whose address is there.
const VECTOR: [u8; 2] = [1, 2];
/// Stands for the bytes of an operation whose result is no number of bytes.
pub const NO_NUMBER: u64 = u64::MAX;

/// An operation that completes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RingCall {
    /// What it has moved. The key has the errno, too. The number of bytes is [`NO_NUMBER`] if its
    /// result is none.
    pub exchange: Exchange,
    /// Where the bytes came from that it wrote: the most of them.
    pub origin: Origin,
    /// Where its buffer begins, if it is one, or a part of registered memory. 0: it is not known.
    pub buffer: u64,
}

impl RingCall {
    /// An operation of which nothing else is known.
    #[inline(always)]
    pub const fn new(task: u32, call: CallId) -> Self {
        Self {
            exchange: Exchange {
                key: RowKey {
                    task,
                    call,
                    errno: 0,
                    ends: NumberedEnds::NONE,
                },
                intent: intent::CLEAR,
                unreadable: 0,
                bytes: NO_NUMBER,
            },
            origin: Origin::NONE,
            buffer: 0,
        }
    }
}

/// A buffer. As a `struct iovec` of the kernel's include/uapi/linux/uio.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct RingBuffer {
    start: u64,
    bytes: u64,
}

/// The buffers of an operation with a vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RingVector {
    /// How many elements are known. 0: the vector cannot be read.
    count: u64,
    /// The elements, each an address and a length.
    elements: [[u64; 2]; ELEMENTS],
}

/// Address of an `io_uring` request -> its vector.
#[map]
static RING_VECTORS: HashMap<u64, RingVector> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

static NO_VECTOR: RingVector = RingVector {
    count: 0,
    elements: [[0; 2]; ELEMENTS],
};

/// Remembers the vector of an operation that is submitted, if it has one and it can be read.
#[inline(always)]
pub fn note_vector(request: u64, is_readable: bool) {
    forget_vector(request);
    if is_readable && has(request as KernelPtr, VECTOR) {
        read_vector(request);
    }
}

/// Forgets the vector of an operation.
#[inline(always)]
pub fn forget_vector(request: u64) {
    let _ = RING_VECTORS.remove(request);
}

/// Reads the vector of an operation. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn read_vector(request: u64) -> u32 {
    if let Some(vector) = find_or_make(&RING_VECTORS, &request, &NO_VECTOR) {
        // SAFETY: a request is submitted once, and completes after that.
        let vector = unsafe { vector.as_mut() };
        let RingBuffer { start, bytes } = address(request as KernelPtr);
        let mut reading = BufferReading { vector, start };
        repeat(
            smaller(bytes, ELEMENTS as u64) as u32,
            read_element,
            &mut reading,
        );
    }
    0
}

/// The state of the loop.
#[repr(C)]
struct BufferReading {
    vector: &'static mut RingVector,
    /// Where the elements are in the caller's memory.
    start: u64,
}

/// One round of the loop: reads an element. Returns 1 to end the loop: it cannot be read.
extern "C" fn read_element(index: u64, reading: &mut BufferReading) -> i64 {
    let BufferReading { vector, start } = reading;
    let element = &mut vector.elements[index as usize & (ELEMENTS - 1)];
    if fill_from_user(start.wrapping_add(16 * index), element) != 0 {
        vector.count = 0;
        return 1;
    }
    vector.count = index + 1;
    0
}

/// Whether an operation is one of these, and names its buffers itself.
#[inline(always)]
fn has<const COUNT: usize>(request: KernelPtr, opcodes: [u8; COUNT]) -> bool {
    let opcode: u8 = fields::probe_or_zero(request, offset_of_field!(request_opcode));
    let flags: u32 = fields::probe_or_zero(request, offset_of_field!(request_flags));
    opcodes.contains(&opcode) && flags & BUFFER_SELECT == 0
}

/// The address and the length in the `struct io_rw` of an operation: of its buffer, or of its
/// vector.
#[inline(always)]
fn address(request: KernelPtr) -> RingBuffer {
    let bytes: u32 = fields::probe_or_zero(request, offset_of_field!(rw_length));
    RingBuffer {
        start: fields::probe_or_zero(request, offset_of_field!(rw_address)),
        bytes: bytes.into(),
    }
}

/// Where the buffer of an operation begins, if it has one, or is a part of registered memory. Else 0.
#[inline(always)]
pub fn buffer_of(request: KernelPtr) -> u64 {
    /// `IORING_OP_WRITE_FIXED`.
    const WRITE_FIXED: u8 = 5;
    if has(request, ONE_BUFFER) || has(request, [WRITE_FIXED]) {
        untagged(address(request).start)
    } else {
        0
    }
}

/// Carries out the intent for the buffers of an operation, in this address space. If they are
/// unknown, and the operation may fill them, everything about their address space is forgotten. The
/// result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn exchange_buffers(request: u64, operation: *mut RingCall, space: u32) -> u32 {
    let Some(operation) = argument::as_mut(operation) else {
        return 0;
    };
    if operation.exchange.bytes == 0 || operation.exchange.intent == intent::NONE {
        return 0;
    }
    let Some(shared) = needed_memory(space) else {
        return 0;
    };
    let Some(mut memory) = lock(shared, operation.exchange.intent != intent::CREDIT) else {
        return 0;
    };
    copy(&operation.exchange, &mut memory.exchange);
    let left = exchange_all(&mut memory, request);
    credit::conclude(&raw mut *memory, left, &raw mut operation.origin);
    0
}

/// Carries out the intent for the buffer, or the elements of the vector, of an operation. Returns
/// for how many bytes it could not, because they are in unknown buffers.
#[inline(always)]
fn exchange_all(memory: &mut Memory, request: u64) -> u64 {
    let left = memory.exchange.bytes;
    if has(request as KernelPtr, ONE_BUFFER) {
        let buffer = address(request as KernelPtr);
        exchange_ring_buffer(memory, buffer.start, buffer.bytes, left);
        return 0;
    }
    let Some(vector) = RING_VECTORS.entry(request) else {
        return left;
    };
    // SAFETY: as in `read_vector`.
    let vector = unsafe { vector.as_ref() };
    let count = smaller(vector.count, ELEMENTS as u64) as u32;
    let mut exchanging = Exchanging {
        memory,
        vector,
        left,
    };
    repeat(count, exchange_element, &mut exchanging);
    exchanging.left
}

/// The state of the loop over the elements of a vector.
#[repr(C)]
struct Exchanging<'m> {
    memory: &'m mut Memory,
    vector: &'m RingVector,
    /// How many bytes are left.
    left: u64,
}

/// One round of the loop: carries out the intent for an element. Returns 1 to end the loop.
extern "C" fn exchange_element(index: u64, exchanging: &mut Exchanging<'_>) -> i64 {
    let [start, bytes] = exchanging.vector.elements[index as usize & (ELEMENTS - 1)];
    exchanging.left -= exchange_ring_buffer(exchanging.memory, start, bytes, exchanging.left);
    (exchanging.left == 0).into()
}

/// Carries out the intent for one buffer. Returns how many of the `left` bytes are in it.
#[inline(always)]
fn exchange_ring_buffer(memory: &mut Memory, start: u64, bytes: u64, left: u64) -> u64 {
    let length = if bytes < left { bytes } else { left };
    credit::exchange_piece(memory, untagged(start), length);
    length
}
