//! The ranges of an address space. A read fills and samples them, a write compares the samples and credits the files.

use zc_ebpf::{
    CHANGED, CallId, Ends, FROM_BUFFER, FileNumber, Loss, Memory, RowKey, UNSAMPLED,
    pairing::memory::{self, RANGES},
    pairing::range::{Comparison, Range, SAMPLES, Verdict, common_length, compared, folded},
};

use crate::{
    evidence::sums::{sum_differs, sum_up},
    kernel::argument,
    kernel::entries::fetch_add,
    maps::count_loss,
    request, rows,
};

/// Packs how many bytes were read (lower half) and how many were wanted (upper half), because a global function has at most five
/// arguments. No call moves 4 GiB.
#[inline(always)]
pub fn lengths(read: u64, wanted: u64) -> u64 {
    common_length(0, wanted, 0, u32::MAX.into()) << 32 | read
}

/// Remembers bytes that a read put here, as many as [`lengths`] says. Returns the index of their range. `hint` is the index of the range
/// that the thread filled last.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn fill(memory: *mut Memory, hint: u32, file: FileNumber, start: u64, lengths: u64) -> u32 {
    let Some(memory) = argument::as_mut(memory) else { return 0 };
    let (length, wanted) = (lengths & u64::from(u32::MAX), lengths >> 32);
    let (plan, summed_blocks) = memory.plan(file, length);
    let index = memory::fill_range(memory, hint, file, start, start.saturating_add(length));
    let Some(range) = memory.ranges.get_mut(index as usize) else { return 0 };
    range.wanted_to = start.saturating_add(wanted);
    let first = range.plan_samples(start, length, plan);
    sample(range, first);
    if summed_blocks.count() > 0 && start == range.start {
        range.summed_blocks = summed_blocks;
        sum_up(range, start, length);
    }
    index as u32
}

/// Adds the files that these bytes came from to the sources of the call. `is_moved` is 0 if the call failed. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn take(memory: *mut Memory, hint: u32, start: u64, length: u64, is_moved: u32) -> u32 {
    let Some(memory) = argument::as_mut(memory) else { return 0 };
    let end = start.saturating_add(length);
    if let Some(range) = memory.ranges.get_mut(hint as usize)
        && range.holds(start, end)
    {
        return take_range(memory, hint, start, end, is_moved);
    }
    for index in 0..RANGES as u32 {
        take_range(memory, index, start, end, is_moved);
    }
    0
}

/// Reads the sampled words, from this index on. If one cannot be read, the range has no samples. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn sample(range: *mut Range, first: u32) -> u32 {
    let Some(range) = argument::as_mut(range) else { return 0 };
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

/// Adds the file of a range to the sources of the call, if bytes that the call wrote are in the range. The result means nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_range(memory: *mut Memory, index: u32, written: u64, written_end: u64, is_moved: u32) -> u32 {
    let Some(memory) = argument::as_mut(memory) else { return 0 };
    let Some(range) = memory.ranges.get_mut(index as usize) else { return 0 };
    let start = if written > range.start { written } else { range.start };
    let end = if written_end < range.end { written_end } else { range.end };
    if start >= end {
        return 0;
    }
    let is_whole = start == written && end == written_end;
    let (file, bytes) = match range.judge(start, is_whole, compare(range, start, end)) {
        Verdict::Same => (range.file, end - start),
        Verdict::Changed => (range.file | CHANGED, end - start),
        Verdict::Unsampled => (range.file | UNSAMPLED, end - start),
        Verdict::Undecided => (range.file | UNSAMPLED, 0),
        Verdict::Reused => {
            range.end = 0;
            return 0;
        }
        Verdict::Overlaid => {
            range.end = 0;
            let file = range.file;
            memory.add_source(file | UNSAMPLED, 0);
            return 0;
        }
    };
    let again = start < range.written_to;
    if is_moved != 0 && end > range.written_to {
        range.written_to = end;
    }
    if file & UNSAMPLED != 0 {
        memory.sample_densely();
    } else if again {
        memory.sample_more();
    }
    memory.add_source(file, bytes);
    0
}

/// Compares the samples in a piece of a range, and its checksum, with what is there now.
#[inline(always)]
fn compare(range: &Range, start: u64, end: u64) -> Comparison {
    let words = compare_words(range, start, end);
    let mut compared = Comparison::unpack(words.into());
    compared.different += u32::from(sum_differs(range, start, end));
    compared
}

/// The sum of what the samples in a piece of a range add to a [`Comparison`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compare_words(range: *const Range, start: u64, end: u64) -> u32 {
    let Some(range) = argument::as_ref(range) else { return 0 };
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

/// The sum in [`compare_words`] begins with this, a bit above what is returned: the verifier of 6.1 distinguishes a 0 on the stack from
/// other numbers.
const NEVER_ZERO: u64 = 1 << 32;

/// Credits the bytes of a call to their sources. The result has the file with the most bytes in its lower half, and how many these are in
/// its upper half (no call moves 4 GiB). All other files get [`Part`]s.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn settle(memory: *mut Memory, serial: u32, call: CallId, output: FileNumber, is_moved: u32) -> u64 {
    let Some(memory) = argument::as_mut(memory) else { return 0 };
    let (mut most, mut file) = (0, 0);
    for source in &memory.sources {
        if source.file == 0 {
            break;
        }
        if u64::from(source.bytes) > most {
            (most, file) = (source.bytes.into(), source.file);
        }
    }
    for source in &mut memory.sources {
        if source.file == 0 {
            break;
        }
        if source.file != file && is_moved != 0 {
            add_part(serial, call, source.file, output, source.bytes.into());
        }
        (source.file, source.bytes) = (0, 0);
    }
    most << 32 | u64::from(file)
}

/// Counts bytes that a call wrote from a second or later file. If there is no room, these bytes have no known source. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_part(serial: u32, call: CallId, file: FileNumber, output: FileNumber, bytes: u64) -> u32 {
    let ends = Ends { input: file | FROM_BUFFER, output };
    if output == 0 || ends.lack_room() {
        return 0;
    }
    let Some(part) = rows::part(RowKey { task: serial, call, ends }) else {
        count_loss(Loss::UncountedPart);
        return 0;
    };
    // Operations of `io_uring` complete on several CPUs at once.
    fetch_add(&mut part.bytes, bytes);
    fetch_add(&mut part.calls, 1);
    fetch_add(&mut part.checked_calls, 1);
    0
}
