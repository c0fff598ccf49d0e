//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    FileNumber, How, Loss, Memory, NO_ROOM, Origin, RowKey,
    opaque::{opaque, rounds},
    origin::{
        memory::{self, ORIGINS, RANGES},
        range::{Range, Word, common_part},
    },
};

use crate::{
    kernel::{argument, entries::fetch_add},
    maps::count_loss,
    request, rows,
};

/// In [`Read::flags`] and [`credit`]: the memory cannot be read, because another address space is the
/// current one.
pub const UNREADABLE: u32 = 1 << 31;

/// A read that has returned.
pub struct Read {
    /// The file.
    pub file: FileNumber,
    /// How many bytes it has read, into all its buffers.
    pub bytes: u64,
    /// How long it took, ns.
    pub ns: u64,
    /// [`UNREADABLE`] or 0.
    pub flags: u32,
}

/// A read has filled this memory. Returns the index of its range.
#[inline(always)]
pub fn fill(memory: &mut Memory, start: u64, end: u64, read: Read) -> u32 {
    let index = memory::fill_range(memory, read.file, start, end) as u32;
    if memory.given_up != 0 {
        memory.given_up = 0;
        count_loss(Loss::ForgottenBuffer);
    }
    let number = memory.next_read() | read.flags;
    let length = end.wrapping_sub(start);
    if let Some(range) = memory.range(index) {
        note_read(range, start, length, number, read.ns);
        if length != read.bytes {
            // It would count once for each of its buffers.
            range.filled_to = 0;
        }
    }
    index
}

/// Notes that a read of so many bytes filled the range from `start` on, and keeps a word of it
/// unless that cannot be read. `number` counts the reads, perhaps with [`UNREADABLE`]. A global
/// function, so that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_read(
    range: *mut Range,
    start: u64,
    length: u64,
    number: u32,
    ns: u64,
) -> u32 {
    let Some(range) = argument::as_mut(range) else {
        return 0;
    };
    range.note_fill(start, start.wrapping_add(length), ns);
    let mut word = Word::of_read(start, length, number);
    match request::word(word.at, false) {
        Some(value) if number & UNREADABLE == 0 => word.value = value,
        _ => word.bytes = 0,
    }
    range.keep(start, word);
    0
}

/// Adds the files that these bytes came from to the origins of the call, which writes to `output`.
/// Returns how many of the bytes came from files. `flags` is as in [`Read`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn credit(
    memory: *mut Memory,
    start: u64,
    end: u64,
    output: FileNumber,
    flags: u32,
) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let mut credited = 0;
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        credited += credit_range(memory, index | flags, start, end, output);
    }
    opaque(credited)
}

/// Adds the file of a range to the origins of the call, if bytes that the call wrote are in the
/// range. Returns how many.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn credit_range(
    memory: *mut Memory,
    index: u32,
    start: u64,
    end: u64,
    output: FileNumber,
) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let Some(range) = memory.range(index & !UNREADABLE) else {
        return 0;
    };
    let (start, end) = common_part(start, end, range.start, range.end);
    if start >= end {
        return 0;
    }
    let how = how_now(range, start, end, index & UNREADABLE == 0);
    let (file, fills) = (range.file, range.fills_for(output, start, end));
    range.note_write(start, end);
    memory.add_origin(file, how, end - start, fills);
    end - start
}

/// Whether these bytes of a range are still those that were read, as far as words show.
#[inline(always)]
pub fn how_now(range: &Range, start: u64, end: u64, is_readable: bool) -> How {
    let mut changed = 0;
    if is_readable {
        for word in &range.words {
            if word.lies_in(start, end) {
                changed |= has_changed(word);
            }
        }
    }
    if changed == 0 {
        How::BUFFER
    } else {
        How::CHANGED
    }
}

/// Whether another word is in its place now, as 1 or 0. 0 if it cannot be read.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn has_changed(word: *const Word) -> u32 {
    let Some(word) = argument::as_ref(word) else {
        return 0;
    };
    request::word(word.at, false)
        .is_some_and(|now| word.differs_from(now))
        .into()
}

/// The origin of most bytes of the call of this `key`, whose ends are those that it names. All
/// other origins are counted as [`Part`](zc_ebpf::Part)s. There are none afterwards.
#[inline(always)]
pub fn settle(memory: &mut Memory, key: &RowKey) -> Origin {
    let used = memory.origins_used;
    if used == 0 {
        return Origin::NONE;
    }
    if memory.origins_lost != 0 {
        memory.origins_lost = 0;
        count_loss(Loss::UncountedPart);
    }
    let most = if used == 1 {
        0
    } else {
        settle_several(memory, key)
    };
    memory.origins_used = 0;
    memory.origins[most as usize & (ORIGINS - 1)]
}

/// Counts all origins but the one of most bytes as parts. Returns the index of that one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn settle_several(memory: *mut Memory, key: *const RowKey) -> u32 {
    let (Some(memory), Some(key)) = (argument::as_mut(memory), argument::as_ref(key)) else {
        return 0;
    };
    let mut most = 0;
    for index in rounds(ORIGINS) {
        most = memory::larger_origin(memory, most, index);
    }
    for index in rounds(ORIGINS) {
        add_part(key, memory, index, most);
    }
    most
}

/// Counts the bytes of the origin at `index`, if it is in use and is not the one at `most`. The
/// result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_part(key: *const RowKey, memory: *const Memory, index: u32, most: u32) -> u32 {
    let (Some(key), Some(memory)) = (argument::as_ref(key), argument::as_ref(memory)) else {
        return 0;
    };
    if index == most || index >= memory.origins_used {
        return 0;
    }
    let origin = memory.origins[index as usize & (ORIGINS - 1)];
    let ends = origin.ends(key.ends);
    if ends.output == 0 || ends.output == NO_ROOM {
        return 0;
    }
    let Some(part) = rows::part(RowKey { ends, ..*key }) else {
        count_loss(Loss::UncountedPart);
        return 0;
    };
    // Operations of `io_uring` complete on several CPUs at once.
    fetch_add(&mut part.bytes, origin.bytes);
    fetch_add(&mut part.calls, 1);
    fetch_add(&mut part.fills.calls, origin.fills.calls);
    fetch_add(&mut part.fills.total_ns, origin.fills.total_ns);
    fetch_add(&mut part.fills.unknown, origin.fills.unknown);
    0
}
