//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    CallId, Ends, FileNumber, How, Loss, Memory, NO_ROOM, Origin,
    origin::{
        memory::{self, Exchange, ORIGINS, SEVERAL, intent},
        range::{Comparison, Range, WORDS, common_part, words_of_read},
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
    let Exchange {
        key, unreadable, ..
    } = memory.exchange;
    memory.reads = memory.reads.wrapping_add(1);
    let read = memory.reads;
    let index = memory::fill_range(memory, key.ends.input, start, end) as u32;
    if memory.forgotten != 0 {
        count_forgotten(memory, key.task, key.call, 0);
    }
    if let Some(range) = memory.range(index) {
        note_read(range, start, end.wrapping_sub(start), read, unreadable);
    }
    index
}

/// Counts that ranges were forgotten, when this call of a task made room; or that it is not known
/// whether the call wrote from a mapping, to `output`. The result means nothing.
#[inline(always)]
pub fn count_forgotten(memory: &mut Memory, task: u32, call: CallId, output: FileNumber) -> u32 {
    let file = memory.forgotten;
    memory.forgotten = 0;
    memory.added = Origin {
        file: if file == SEVERAL { 0 } else { file },
        how: How::FORGOTTEN,
        ..Origin::NONE
    };
    count_part(memory, task, call, output)
}

/// Counts [`Memory::added`] as a [`PART`](zc_ebpf::PART) of a call of a task, which wrote it to
/// `output`. A global function, so that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_part(memory: *mut Memory, task: u32, call: CallId, output: FileNumber) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let Origin { file, how, .. } = memory.added;
    let ends = Ends {
        input: file,
        how,
        output,
    };
    match rows::part(task, call, ends) {
        Some(part) => {
            fetch_add(&mut part.calls, 1);
            rows::add_origin(part, &memory.added);
        }
        None => count_loss(Loss::UncountedPart),
    }
    0
}

/// Notes that the read of this number filled the range from `start` on, with so many bytes, and
/// keeps words of it, unless the memory is `unreadable`, because another address space is the
/// current one. A global function, so that the verifier checks it once. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_read(
    range: *mut Range,
    start: u64,
    length: u64,
    read: u32,
    unreadable: u32,
) -> u32 {
    let Some(range) = argument::as_mut(range) else {
        return 0;
    };
    range.note_read(start, start.wrapping_add(length), read);
    if unreadable != 0 {
        return 0;
    }
    let words = words_of_read(length) as u32;
    if words == 1 {
        return keep_word(range, start, length, 0);
    }
    let mut reading = ReadWords {
        range,
        start,
        length,
    };
    repeat(words, keep_next_word, &mut reading);
    0
}

/// Bytes of a range that were read.
#[repr(C)]
struct ReadWords<'m> {
    range: &'m mut Range,
    start: u64,
    length: u64,
}

/// One round: keeps a word.
extern "C" fn keep_next_word(index: u64, reading: &mut ReadWords<'_>) -> i64 {
    keep_word(reading.range, reading.start, reading.length, index).into()
}

/// Keeps the word of this index, if it can be read. A global function, as [`note_read`] is. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn keep_word(range: *mut Range, start: u64, length: u64, index: u64) -> u32 {
    if let Some(range) = argument::as_mut(range) {
        let at = range.place(start, length, index);
        if let Some(value) = request::word(at, false) {
            range.keep(at, value);
        }
    }
    0
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
    let origin = self::written(range, key.ends.output, start, end, unreadable);
    memory.add_origin(origin);
    written.credited += end - start;
    0
}

/// Notes that a call has written these bytes of a range to a file. Returns where they came from, as
/// far as words show.
#[inline(always)]
pub fn written(
    range: &mut Range,
    output: FileNumber,
    start: u64,
    end: u64,
    unreadable: u32,
) -> Origin {
    let found = if unreadable == 0 {
        unpacked(compare(range, start, end))
    } else {
        Comparison::default()
    };
    let (bytes, how) = (end - start, range.how(found, output, start, end));
    let repeated_bytes = if range.note_write(output, start, end) {
        bytes
    } else {
        0
    };
    Origin {
        file: range.file,
        how,
        bytes,
        words: found.words(),
        repeated_bytes,
    }
}

/// Compares the words of a range that lie wholly within these bytes with what is there now. Returns
/// the numbers of a [`Comparison`], a byte each.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare(range: *const Range, start: u64, end: u64) -> u64 {
    let Some(range) = argument::as_ref(range) else {
        return 0;
    };
    let words = range.words_kept();
    if words == 1 {
        return compare_word(range, start, end, 0);
    }
    let mut comparing = ComparedWords {
        range,
        start,
        end,
        found: 0,
    };
    repeat(words, compare_next_word, &mut comparing);
    comparing.found
}

/// The numbers that [`compare`] returns.
#[inline(always)]
fn unpacked(found: u64) -> Comparison {
    Comparison {
        compared: found as u32 & 0xff,
        changed: (found >> 8) as u32 & 0xff,
        telling: (found >> 16) as u32 & 0xff,
    }
}

/// Bytes of a range that were written.
#[repr(C)]
struct ComparedWords<'m> {
    range: &'m Range,
    start: u64,
    end: u64,
    /// As [`compare`] returns it.
    found: u64,
}

/// One round: compares a word.
extern "C" fn compare_next_word(index: u64, comparing: &mut ComparedWords<'_>) -> i64 {
    let (start, end) = (comparing.start, comparing.end);
    comparing.found += compare_word(comparing.range, start, end, index);
    0
}

/// Compares the word of this index, if it is among these bytes and can be read. Returns what
/// [`compare`] does. A global function, as that is.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare_word(range: *const Range, start: u64, end: u64, index: u64) -> u64 {
    let Some(range) = argument::as_ref(range) else {
        return 0;
    };
    let word = range.words[index as usize & (WORDS - 1)];
    let (at, bytes) = (range.address(word), range.word_bytes());
    let is_among = at >= start && at.wrapping_add(bytes) <= end;
    let mut found = Comparison::default();
    if is_among && let Some(now) = request::word(at, false) {
        found.add(word, now, bytes);
    }
    let Comparison {
        compared,
        changed,
        telling,
    } = found;
    u64::from(compared) | u64::from(changed) << 8 | u64::from(telling) << 16
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
    let output = key.ends.output;
    if index as u32 != settling.most && output != 0 && output != NO_ROOM {
        settling.memory.added = origin;
        count_part(settling.memory, key.task, key.call, output);
    }
    0
}
