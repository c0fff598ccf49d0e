//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    How, Loss, Memory, NO_ROOM, Origin,
    origin::{
        memory::{self, Exchange, ORIGINS, intent},
        range::{Range, UNCOMPARED, WORD_BYTES, Word, common_part, compared},
    },
    repeat::repeat,
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
        count_loss(Loss::UnknownOrigin);
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
        range.same_to = UNCOMPARED;
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
    let used = memory.used;
    let mut written = WrittenBytes {
        memory,
        start,
        end,
        credited: 0,
    };
    repeat(used, credit_range, &mut written);
    written.credited
}

/// Bytes that a call wrote.
#[repr(C)]
struct WrittenBytes<'m> {
    memory: &'m mut Memory,
    start: u64,
    end: u64,
    /// How many of them came from files.
    credited: u64,
}

/// One round of the loop over the ranges: adds the file of the range to the origins of the call, if
/// bytes that the call wrote are in the range.
extern "C" fn credit_range(index: u64, written: &mut WrittenBytes<'_>) -> i64 {
    let memory = &mut *written.memory;
    let Exchange {
        key, unreadable, ..
    } = memory.exchange;
    let Some(range) = memory.range(index as u32) else {
        return 1;
    };
    let (start, end) = common_part(written.start, written.end, range.start, range.end);
    if start >= end {
        return 0;
    }
    let how = how_now(range, start, end, unreadable == 0);
    let fills = range.fills_for(how, key.ends.output, start, end);
    let file = range.file;
    range.note_write(start, end);
    memory.add_origin(file, how, end - start, fills);
    written.credited += end - start;
    0
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
    range.how(found, start, end)
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
    let used = memory.origins_used;
    let mut settling = Settling { memory, most: 0 };
    repeat(used, find_most, &mut settling);
    repeat(used, add_part, &mut settling);
    settling.most
}

/// The state of the loops over the origins.
#[repr(C)]
struct Settling<'m> {
    memory: &'m mut Memory,
    /// The index of the origin with most bytes so far.
    most: u32,
}

impl Settling<'_> {
    #[inline(always)]
    fn origin(&self, index: u32) -> &Origin {
        &self.memory.origins[index as usize & (ORIGINS - 1)]
    }
}

/// One round: compares the origin of this index with the largest one so far.
extern "C" fn find_most(index: u64, settling: &mut Settling<'_>) -> i64 {
    if settling.origin(index as u32).bytes > settling.origin(settling.most).bytes {
        settling.most = index as u32;
    }
    0
}

/// One round: counts the bytes of the origin of this index, unless it is the largest one.
extern "C" fn add_part(index: u64, settling: &mut Settling<'_>) -> i64 {
    let origin = *settling.origin(index as u32);
    let key = settling.memory.exchange.key;
    let ends = origin.ends(key.ends);
    if index as u32 == settling.most || ends.output == 0 || ends.output == NO_ROOM {
        return 0;
    }
    match rows::part(key.task, key.call, ends) {
        Some(part) => {
            fetch_add(&mut part.calls, 1);
            rows::add_origin(part, &origin);
        }
        None => count_loss(Loss::UncountedPart),
    }
    0
}
