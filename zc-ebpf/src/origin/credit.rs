//! Adds buffers to what is known of a memory, and finds out which files the bytes in a buffer came
//! from. The memory is locked.

use zc_ebpf::{
    FileNumber, How, Loss, Memory, NO_ROOM, Origin, RowKey,
    opaque::{opaque, rounds},
    origin::{
        memory::{self, ORIGINS, RANGES},
        range::{Word, common_part},
    },
};

use crate::{
    kernel::{argument, entries::fetch_add},
    maps::count_loss,
    request, rows,
};

/// In [`fill`] and [`credit`]: there is no hint. And: the memory cannot be read, because another
/// address space is the current one.
pub const UNREADABLE: u32 = 1 << 31;

/// A read that took `ns` has put bytes of `file` here. Returns the index of their range. `hint` is
/// that of the range which the thread filled last, perhaps with [`UNREADABLE`].
#[inline(always)]
pub fn fill(memory: &mut Memory, hint: u32, file: FileNumber, bounds: (u64, u64), ns: u64) -> u32 {
    let (start, end) = bounds;
    let index = memory::fill_range(memory, hint, file, start, end) as u32;
    if memory.given_up != 0 {
        memory.given_up = 0;
        count_loss(Loss::ForgottenBuffer);
    }
    memory.reads = memory.reads.wrapping_add(1);
    let number = memory.reads;
    let Some(range) = memory.range(index) else {
        return index;
    };
    range.note_fill(start, end, ns);
    let mut word = Word::of_read(start, end.wrapping_sub(start), number);
    match request::word(word.at, false) {
        Some(value) if hint & UNREADABLE == 0 => word.value = value,
        _ => word.bytes = 0,
    }
    range.keep(start, word);
    index
}

/// Adds the files that these bytes came from to the origins of the call, which writes to `output`.
/// Returns how many of the bytes came from files. `hint` is as in [`fill`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn credit(
    memory: *mut Memory,
    hint: u32,
    start: u64,
    end: u64,
    output: FileNumber,
) -> u64 {
    let Some(memory) = argument::as_mut(memory) else {
        return 0;
    };
    // Nearly all that a loop over one buffer writes.
    let is_in_hinted = memory
        .range(hint)
        .is_some_and(|range| range.start <= start && end <= range.end);
    if is_in_hinted {
        return credit_range(memory, hint, start, end, output);
    }
    let mut credited = 0;
    for index in rounds(RANGES) {
        if memory.is_unused(index) {
            break;
        }
        credited += credit_range(memory, index | hint & UNREADABLE, start, end, output);
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
    let mut has_changed = false;
    for word in &range.words {
        if index & UNREADABLE == 0
            && word.lies_in(start, end)
            && let Some(now) = request::word(word.at, false)
        {
            has_changed |= word.differs_from(now);
        }
    }
    let how = if has_changed {
        How::CHANGED
    } else {
        How::BUFFER
    };
    let (file, fills) = (range.file, range.fills_for(output));
    if !memory.add_origin(file, how, end - start, fills) {
        count_loss(Loss::UncountedPart);
    }
    end - start
}

/// The origin of most bytes of the call of this `key`, whose ends are those that it names. All
/// other origins are counted as [`Part`](zc_ebpf::Part)s. There are none afterwards.
#[inline(always)]
pub fn settle(memory: &mut Memory, key: &RowKey) -> Origin {
    let used = memory.origins_used;
    if used == 0 {
        return Origin::NONE;
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
    let (mut most, mut bytes) = (0, 0);
    for index in rounds(ORIGINS) {
        if index >= memory.origins_used {
            break;
        }
        let origin = &memory.origins[index as usize & (ORIGINS - 1)];
        if origin.bytes > bytes {
            (most, bytes) = (index, origin.bytes);
        }
    }
    for index in rounds(ORIGINS) {
        if index >= memory.origins_used {
            break;
        }
        if index != most {
            add_part(key, &memory.origins[index as usize & (ORIGINS - 1)]);
        }
    }
    most
}

/// Counts bytes that a call wrote from another origin than that of most of them. The result means
/// nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn add_part(key: *const RowKey, origin: *const Origin) -> u32 {
    let (Some(key), Some(origin)) = (argument::as_ref(key), argument::as_ref(origin)) else {
        return 0;
    };
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
