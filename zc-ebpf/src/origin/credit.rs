//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    How, Loss, Memory, NO_ROOM, Origin,
    opaque::{opaque, rounds},
    origin::{
        memory::{self, ORIGINS, RANGES, intent},
        range::{Range, WORD_BYTES, Word, common_part, compared},
    },
};

use crate::{
    kernel::{
        argument,
        entries::{copy, fetch_add},
    },
    maps::count_loss,
    request, rows,
};

/// Carries out [`Memory::exchange`] for one buffer. Returns the index of the range that was filled,
/// or how many bytes were credited to files.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn exchange_piece(memory: *mut Memory, start: u64, length: u64) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let end = start.saturating_add(length);
    match memory.exchange.intent {
        _ if length == 0 => 0,
        intent::FILL => fill(memory, start, end).into(),
        intent::CLEAR => memory::remove(memory, 0, start, end).into(),
        _ => credit(memory, start, end),
    }
}

/// A read has filled this memory. Returns the index of its range.
#[inline(always)]
fn fill(memory: &mut Memory, start: u64, end: u64) -> u32 {
    let read = memory.exchange;
    let index = memory::fill_range(memory, read.key.ends.input, start, end) as u32;
    if memory.given_up != 0 {
        memory.given_up = 0;
        count_loss(Loss::ForgottenBuffer);
    }
    let length = end.wrapping_sub(start);
    if let Some(range) = memory.range(index) {
        note_read(range, start, length, read.unreadable, read.ns);
        if length != read.bytes {
            // It would count once for each of its buffers.
            range.filled_to = 0;
        }
    }
    index
}

/// Notes that a read of so many bytes filled the range from `start` on, and keeps its words. If they
/// cannot be read, because another address space is the current one, nothing can be compared: the
/// address speaks for itself. A global function, so that the verifier checks it once. The result
/// means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_read(
    range: *mut Range,
    start: u64,
    length: u64,
    unreadable: u32,
    ns: u64,
) -> u32 {
    let Some(range) = argument::as_mut(range) else {
        return 0;
    };
    range.note_fill(start, start.wrapping_add(length), ns);
    if unreadable != 0 {
        range.is_same = 1;
        return 0;
    }
    let is_first = start == range.start;
    if is_first {
        range.words[0] = as_it_is(Word::first_of(start, length));
    }
    // The first word of a short read has all of it.
    if !is_first || length > WORD_BYTES {
        range.words[1] = as_it_is(Word::last_of(start, length));
    }
    0
}

/// The word with its value. No word if that cannot be read.
#[inline(always)]
fn as_it_is(mut word: Word) -> Word {
    match request::word(word.at, false) {
        Some(value) => word.value = value,
        None => word.bytes = 0,
    }
    word
}

/// Adds the files that these bytes came from to the origins of the call. Returns how many of the
/// bytes came from files.
#[inline(always)]
fn credit(memory: &mut Memory, start: u64, end: u64) -> u64 {
    let mut credited = 0;
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        credited += credit_range(memory, index, start, end);
    }
    opaque(credited)
}

/// Adds the file of a range to the origins of the call, if bytes that the call wrote are in the
/// range. Returns how many.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn credit_range(memory: *mut Memory, index: u32, start: u64, end: u64) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let (output, is_readable) = (
        memory.exchange.key.ends.output,
        memory.exchange.unreadable == 0,
    );
    let Some(range) = memory.range(index) else {
        return 0;
    };
    let (start, end) = common_part(start, end, range.start, range.end);
    if start >= end {
        return 0;
    }
    let how = how_now(range, start, end, is_readable);
    let (file, fills) = (range.file, range.fills_for(output, start, end));
    range.note_write(start, end);
    memory.add_origin(file, how, end - start, fills);
    end - start
}

/// Whether these bytes of a range are those that were read, as far as words show.
#[inline(always)]
pub fn how_now(range: &mut Range, start: u64, end: u64, is_readable: bool) -> How {
    if !is_readable {
        return How::BUFFER;
    }
    let mut found = 0;
    for word in &range.words {
        if word.touches(start, end) {
            found |= compare(word, start, end);
        }
    }
    range.how(found)
}

/// Compares the part of a word that lies within these bytes with what is there now. 0 if that cannot
/// be read, else one of the constants in [`compared`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare(word: *const Word, start: u64, end: u64) -> u32 {
    let Some(word) = argument::as_ref(word) else {
        return 0;
    };
    match request::word(word.at, false) {
        None => 0,
        Some(now) if word.differs_from(now, start, end) => compared::DIFFERENT,
        Some(_) => compared::SAME,
    }
}

/// All buffers of the call were looked at. Sets the origin of most bytes that it wrote; all other
/// origins are counted as [`PART`](zc_ebpf::PART)s. If it may have filled `left` bytes in unknown
/// buffers, everything about the memory is forgotten. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn conclude(memory: *mut Memory, left: u64, origin: *mut Origin) -> u32 {
    let (Some(memory), Some(origin)) = (argument::as_mut(memory), argument::as_mut(origin)) else {
        return 0;
    };
    if memory.exchange.intent != intent::CREDIT {
        if left > 0 {
            memory.forget();
        }
        return 0;
    }
    let used = memory.origins_used;
    if used == 0 {
        return 0;
    }
    if memory.origins_lost != 0 {
        memory.origins_lost = 0;
        count_loss(Loss::UncountedPart);
    }
    let most = if used == 1 { 0 } else { settle(memory) };
    memory.origins_used = 0;
    copy(&memory.origins[most as usize & (ORIGINS - 1)], origin);
    0
}

/// Counts all origins but the one of most bytes as parts. Returns the index of that one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn settle(memory: *mut Memory) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let mut most = 0;
    for index in rounds(ORIGINS) {
        most = memory::larger_origin(memory, most, index);
    }
    for index in rounds(ORIGINS) {
        add_part(memory, index, most);
    }
    most
}

/// Counts the bytes of the origin at `index`, if it is in use and is not the one at `most`. The
/// result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_part(memory: *const Memory, index: u32, most: u32) -> u32 {
    let Some(memory) = argument::as_ref(memory) else {
        return 0;
    };
    if index == most || index >= memory.origins_used {
        return 0;
    }
    let origin = memory.origins[index as usize & (ORIGINS - 1)];
    let key = memory.exchange.key;
    let ends = origin.ends(key.ends);
    if ends.output == 0 || ends.output == NO_ROOM {
        return 0;
    }
    let Some(part) = rows::part(key.task, key.call, ends) else {
        count_loss(Loss::UncountedPart);
        return 0;
    };
    // Operations of `io_uring` complete on several CPUs at once.
    fetch_add(&mut part.input_bytes, origin.bytes);
    fetch_add(&mut part.calls, 1);
    fetch_add(&mut part.fills.calls, origin.fills.calls);
    fetch_add(&mut part.fills.total_ns, origin.fills.total_ns);
    fetch_add(&mut part.fills.unknown, origin.fills.unknown);
    0
}
