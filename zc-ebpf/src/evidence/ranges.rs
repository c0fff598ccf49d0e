//! The ranges of an address space. A read fills and samples them, a write compares the samples and
//! credits the files.

use zc_ebpf::{
    AGAIN, CHANGED, CallId, Ends, FROM_BUFFER, FileNumber, Loss, Memory, RowKey, UNSAMPLED,
    opaque::{if_set, is_less, opaque, rounds},
    pairing::memory::{self, RANGES, SOURCES, Source},
    pairing::range::{Comparison, Range, SAMPLES, Sum, Verdict, common_length, compared, folded},
};

use crate::{
    evidence::buffers::intent,
    evidence::sums::{compare_sum, sum_up},
    kernel::argument,
    kernel::entries::fetch_add,
    kernel::helpers::repeat,
    maps::count_loss,
    request, rows,
};

/// The most bytes of a buffer that matter: no call moves 4 GiB.
pub const MOST_LENGTH: u64 = u32::MAX as u64;

/// Packs how many bytes were moved (lower half) and how many were wanted (upper half), because a
/// global function has at most five arguments.
#[inline(always)]
pub fn lengths(moved: u64, wanted: u64) -> u64 {
    common_length(0, wanted, 0, MOST_LENGTH) << 32 | common_length(0, moved, 0, MOST_LENGTH)
}

/// What [`lengths`] packed: how many bytes were moved, and how many were wanted.
#[inline(always)]
const fn unpacked(lengths: u64) -> (u64, u64) {
    (lengths & MOST_LENGTH, lengths >> 32)
}

/// In [`Memory::output`]: the call under way only peeks.
pub const PEEK: FileNumber = u32::MAX;

/// Remembers bytes that a read put here, as many as [`lengths`] says. Returns the index of their
/// range. `hint` is the index of the range that the thread filled last.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fill(
    memory: *mut Memory,
    hint: u32,
    file: FileNumber,
    start: u64,
    lengths: u64,
) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let (length, wanted) = unpacked(lengths);
    let is_peek = memory.output == PEEK;
    let (plan, is_summed) = memory.plan(file, length);
    let index = memory::fill_range(memory, hint, file, start, start.saturating_add(length));
    let Some(range) = memory.ranges.get(index as usize) else {
        return 0;
    };
    let summed_blocks = memory.summed_blocks(range.end - range.start);
    let Some(range) = memory.ranges.get_mut(index as usize) else {
        return 0;
    };
    range.wanted_to = start.saturating_add(wanted);
    let is_summed = if start == range.start {
        range.begin();
        is_summed
    } else {
        // The checksum of several reads is of all their bytes.
        range.goes_on_with_sum(start, length)
            && matches!(compare_sum(range, range.start, start), Sum::Same)
    };
    let first = range.plan_samples(start, length, plan);
    sample(range, first);
    if is_summed {
        range.summed_blocks = summed_blocks;
        sum_up(range);
    }
    if is_peek {
        range.peeked();
    }
    index as u32
}

/// Adds the files that these bytes came from to the sources of the call, as many as [`lengths`]
/// says. `intent` is [`intent::TAKE`], [`intent::FIND`] or [`intent::LEND`]. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn take(
    memory: *mut Memory,
    hint: u32,
    start: u64,
    lengths: u64,
    intent: u32,
) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    if let Some(range) = memory.ranges.get_mut(hint as usize)
        && range.holds(start, start.saturating_add(unpacked(lengths).0))
    {
        return take_range(memory, hint, start, lengths, intent);
    }
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        take_range(memory, index, start, lengths, intent);
    }
    0
}

/// Reads the sampled words, from this index on. If one cannot be read, the range has no samples.
/// The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sample(range: *mut Range, first: u32) -> u32 {
    let Some(range) = argument::as_mut(range) else {
        return 0;
    };
    for index in 0..SAMPLES as u32 {
        if index >= range.samples {
            break;
        }
        if index < first {
            continue;
        }
        let Some(word) = request::word(range.sampled_at(index), false) else {
            range.samples = 0;
            break;
        };
        range.words[index as usize & (SAMPLES - 1)] = folded(word, range.mask());
    }
    0
}

/// Adds the file of a range to the sources of the call, if bytes that the call wrote are in the
/// range. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_range(
    memory: *mut Memory,
    index: u32,
    written: u64,
    lengths: u64,
    intent: u32,
) -> u32 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let output = memory.output;
    let Some(range) = memory.ranges.get_mut(opaque(index.into()) as usize) else {
        return 0;
    };
    let (moved, wanted) = unpacked(lengths);
    let (written_end, wanted_end) = (
        written.saturating_add(moved),
        written.saturating_add(wanted),
    );
    let start = if written > range.start {
        written
    } else {
        range.start
    };
    let end = if written_end < range.end {
        written_end
    } else {
        range.end
    };
    if start >= end {
        return 0;
    }
    let is_whole = start == written && end == written_end;
    // A call that moves less than it wanted shows no less about the rest.
    let judged_end = if wanted_end < end {
        end
    } else if wanted_end < range.end {
        wanted_end
    } else {
        range.end
    };
    let is_rest = range.is_rest(start, judged_end);
    let compared = compare(range, start, judged_end);
    let verdict = range.judge(start, judged_end, is_whole, compared);
    let (file, bytes) = match verdict {
        Verdict::Same if intent == intent::LEND => (range.file | UNSAMPLED, end - start),
        Verdict::Same if range.writes_again(start, output) => (range.file | AGAIN, end - start),
        Verdict::Same => (range.file, end - start),
        Verdict::Changed => (range.file | CHANGED, end - start),
        Verdict::Unsampled => (range.file | UNSAMPLED, end - start),
        Verdict::Undecided | Verdict::Overlaid => (range.file | UNSAMPLED, 0),
        Verdict::Reused => (0, 0),
    };
    if matches!(verdict, Verdict::Reused | Verdict::Overlaid) {
        range.end = 0;
    } else {
        let again = start < range.written_to;
        if intent != intent::FIND && end > range.written_to {
            range.written_to = end;
        }
        if matches!(verdict, Verdict::Unsampled | Verdict::Undecided) || !is_rest {
            memory.sample_densely();
        } else if again {
            memory.sample_more();
        }
    }
    if file != 0 {
        memory.add_source(file, bytes);
    }
    0
}

/// Compares the samples in a piece of a range, and its checksum, with what is there now.
#[inline(always)]
fn compare(range: &mut Range, start: u64, end: u64) -> Comparison {
    let words = compare_words(range, start, end);
    Comparison {
        sum: compare_sum(range, start, end),
        ..Comparison::unpack(words.into())
    }
}

/// The sum of what the samples in a piece of a range add to a [`Comparison`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare_words(range: *const Range, start: u64, end: u64) -> u32 {
    let Some(range) = argument::as_ref(range) else {
        return 0;
    };
    let mask = range.mask();
    let mut sums = NEVER_ZERO;
    for index in 0..SAMPLES as u32 {
        if index >= range.samples {
            break;
        }
        if range.sample_lies_in(index, start, end)
            && let Some(now) = request::word(range.sampled_at(index), false)
        {
            sums += compared(range.words[index as usize & (SAMPLES - 1)], now, mask);
        }
    }
    sums as u32
}

/// The sum in [`compare_words`] begins with this, a bit above what is returned: the verifier of 6.1
/// distinguishes a 0 on the stack from other numbers.
const NEVER_ZERO: u64 = 1 << 32;

/// Credits the bytes of a call to their sources, and forgets these. `who` has the task's serial
/// number in its upper half and the call in its lower half. The result has the file with the most
/// bytes in its lower half, and how many these are in its upper half (no call moves 4 GiB). All
/// other files get [`Part`](zc_ebpf::Part)s.
#[inline(always)]
pub fn settle(memory: &mut Memory, who: u64, output: FileNumber, is_moved: bool) -> u64 {
    let [first, second, ..] = memory.sources;
    // A source with 0 bytes may have unproven ones. It is never the largest, but still gets a part.
    let is_only = second.file == 0 && (first.bytes != 0 || first.file == 0);
    if !is_only {
        return settle_several(memory, who, if is_moved { output } else { 0 });
    }
    memory.sources[0] = Source::default();
    packed(first)
}

/// As [`settle`], for any number of sources. `output` is 0 if the call failed.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn settle_several(memory: *mut Memory, who: u64, output: FileNumber) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    let mut settling = Settling {
        memory,
        who,
        output,
        largest: 0,
    };
    repeat(SOURCES as u32, find_largest, &mut settling);
    repeat(SOURCES as u32, settle_one, &mut settling);
    settling.largest
}

/// The state of the loops: of the program itself, they would be checked round by round.
#[repr(C)]
struct Settling<'m> {
    memory: &'m mut Memory,
    who: u64,
    output: FileNumber,
    /// The source with the most bytes, [`packed`].
    largest: u64,
}

/// One round of the first loop. Returns 0, to go on.
extern "C" fn find_largest(index: u64, settling: &mut Settling<'_>) -> i64 {
    let source = packed(settling.memory.sources[index as usize & (SOURCES - 1)]);
    settling.largest = if_set(
        is_less(settling.largest >> 32, source >> 32),
        source,
        settling.largest,
    );
    0
}

/// One round of the second loop. Returns 0, to go on.
extern "C" fn settle_one(index: u64, settling: &mut Settling<'_>) -> i64 {
    let source = &mut settling.memory.sources[index as usize & (SOURCES - 1)];
    add_part(
        settling.who,
        settling.largest << 32 | u64::from(settling.output),
        packed(*source),
    );
    *source = Source::default();
    0
}

/// A source as one number: its file (lower half) and its bytes (upper half).
#[inline(always)]
fn packed(source: Source) -> u64 {
    u64::from(source.bytes) << 32 | u64::from(source.file)
}

/// Counts bytes that a call wrote from a source other than its largest one. `files` has the largest
/// one's file in its upper half and the output in its lower half. If there is no room, these bytes
/// have no known source. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_part(who: u64, files: u64, source: u64) -> u32 {
    let (file, output) = (source as FileNumber, files as FileNumber);
    let ends = Ends {
        input: file | FROM_BUFFER,
        output,
    };
    if file == 0 || file == (files >> 32) as FileNumber || output == 0 || ends.lack_room() {
        return 0;
    }
    let Some(part) = rows::part(RowKey {
        task: (who >> 32) as u32,
        call: who as CallId,
        ends,
    }) else {
        count_loss(Loss::UncountedPart);
        return 0;
    };
    // Operations of `io_uring` complete on several CPUs at once.
    fetch_add(&mut part.bytes, source >> 32);
    fetch_add(&mut part.calls, 1);
    fetch_add(&mut part.checked_calls, 1);
    0
}
