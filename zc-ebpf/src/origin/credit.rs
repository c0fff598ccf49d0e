//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    CallId, FileNumber, How, KernelLoss, Memory, NO_ROOM, NumberedEnds, Origin,
    origin::{
        memory::{self, Exchange, ORIGINS, SEVERAL, intent},
        range::{Range, WORDS, WordComparison, WriteEvidence, common_part, words_of_read},
    },
    repeat::repeat,
};

use crate::{
    kernel::{
        argument,
        entries::{copy, field},
        helpers::user_word,
    },
    maps::count_loss,
    rows,
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
        intent::FILL => note_fill(memory, start, end).into(),
        intent::CLEAR => memory::remove(memory, 0, start, end).into(),
        _ => credit(memory, start, end),
    }
}

/// A read has filled this memory. Returns the index of its range.
#[inline(always)]
fn note_fill(memory: &mut Memory, start: u64, end: u64) -> u32 {
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
        range.note_read(start, end, read);
        if unreadable == 0 {
            keep_words(range, start, end.wrapping_sub(start));
        }
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
    let ends = NumberedEnds {
        input: file,
        how,
        output,
    };
    match rows::part_row(task, call, ends) {
        Some(part) => {
            field!(part, calls).fetch_add(1);
            rows::add_origin(part, &memory.added);
        }
        None => count_loss(KernelLoss::UncountedPart),
    }
    0
}

/// Notes that the read of this number filled `length` bytes of the range from `start` on, and keeps
/// words of them. Inlined as [`written`] is.
#[inline(always)]
pub fn note_refill(range: &mut Range, start: u64, length: u64, read: u32) {
    range.note_read(start, start.wrapping_add(length), read);
    if words_of_read(length) == 1 {
        keep_word(range, start, length, 0);
    } else {
        keep_words(range, start, length);
    }
}

/// Keeps words of the last read of a range. A global function, so that the verifier checks it once.
/// The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn keep_words(range: *mut Range, start: u64, length: u64) -> u32 {
    if let Some(range) = argument::as_mut(range) {
        let words = words_of_read(length);
        let mut reading = ReadBytes {
            range,
            start,
            // There is one at least; the compiler does not know.
            stretch: length / words.max(1),
        };
        repeat(words as u32, keep_next_word, &mut reading);
    }
    0
}

/// Bytes of a range that were read.
#[repr(C)]
struct ReadBytes<'m> {
    range: &'m mut Range,
    start: u64,
    /// How many bytes there are for each word that is kept.
    stretch: u64,
}

/// One round: keeps a word.
extern "C" fn keep_next_word(index: u64, reading: &mut ReadBytes<'_>) -> i64 {
    keep_word(reading.range, reading.start, reading.stretch, index);
    0
}

/// Keeps the word of this index, if it can be read.
#[inline(always)]
fn keep_word(range: &mut Range, start: u64, stretch: u64, index: u64) {
    let at = range.place(start, stretch, index);
    range.keep(at, user_word(at));
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
    let found = if unreadable == 0 {
        compare_words(range, start, end)
    } else {
        0
    };
    let evidence = WriteEvidence(note_write(range, key.ends.output, start, end, found));
    let origin = evidence.origin(range.file, end - start);
    memory.add_origin(origin);
    written.credited += end - start;
    0
}

/// Notes that a call has written these bytes of a range to a file. Returns where they came from, as
/// far as words show. All of it is inlined if one word was kept, as for a small read: see
/// [`argument`].
#[inline(always)]
pub fn written(range: &mut Range, output: FileNumber, start: u64, end: u64) -> Origin {
    let evidence = if range.words_kept() == 1 {
        let found = compare_word(range, start, end, 0);
        range.note_write(output, start, end, found)
    } else {
        let found = compare_words(range, start, end);
        WriteEvidence(note_write(range, output, start, end, found))
    };
    evidence.origin(range.file, end.wrapping_sub(start))
}

/// [`Range::note_write`] as a global function, so that the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_write(
    range: *mut Range,
    output: FileNumber,
    start: u64,
    end: u64,
    found: u64,
) -> u64 {
    argument::as_mut(range).map_or(0, |range| {
        let found = WordComparison::unpacked(found);
        range.note_write(output, start, end, found).0
    })
}

/// Compares the words of a range that lie wholly within these bytes with what is there now. Returns a
/// packed [`WordComparison`]. A global function, as [`note_write`] is.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare_words(range: *const Range, start: u64, end: u64) -> u64 {
    let Some(range) = argument::as_ref(range) else {
        return 0;
    };
    let mut part = WrittenPart {
        range,
        start,
        end,
        found: 0,
    };
    repeat(range.words_kept(), compare_next_word, &mut part);
    part.found
}

/// Bytes of a range that were written.
#[repr(C)]
struct WrittenPart<'m> {
    range: &'m Range,
    start: u64,
    end: u64,
    /// What was found, packed.
    found: u64,
}

/// One round: compares a word.
extern "C" fn compare_next_word(index: u64, part: &mut WrittenPart<'_>) -> i64 {
    part.found += compare_word(part.range, part.start, part.end, index).packed();
    0
}

/// Compares the word of this index, if it is among these bytes and can be read.
#[inline(always)]
fn compare_word(range: &Range, start: u64, end: u64, index: u64) -> WordComparison {
    let word = range.words[index as usize & (WORDS - 1)];
    let (at, bytes) = (range.address(word), range.word_bytes());
    let is_among = at >= start && at.wrapping_add(bytes) <= end;
    if is_among {
        WordComparison::new(word, user_word(at), bytes)
    } else {
        WordComparison::default()
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
        count_loss(KernelLoss::UncountedPart);
    }
    let most = if used == 1 { 0 } else { count_parts(memory) };
    memory.origins_used = 0;
    copy(&memory.origins[most as usize & (ORIGINS - 1)], origin);
    0
}

/// Counts all origins but the one of most bytes as parts. Returns the index of that one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_parts(memory: *mut Memory) -> u32 {
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
