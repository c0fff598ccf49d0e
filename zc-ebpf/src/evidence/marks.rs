//! Marks windows of streams: hashes by which a copy is recognised even if it lacks the beginning.
//! What they say is in [`zc_ebpf::pairing::marks`].

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST},
    macros::map,
    maps::{HashMap, PerCpuArray},
};
use zc_ebpf::{
    STREAM_FILES,
    pairing::marks::{FIRST_WORDS, Marks, Sequence, WINDOW_BYTES, WINDOWS, Window},
};

use crate::kernel::{
    entries::{Entries as _, exchange},
    helpers::{fill_part_from_user, repeat},
};

/// The marks of streams that are long enough, by [`stream_slot`](zc_ebpf::stream_slot).
#[map]
static MARKS: HashMap<u32, Marks> = HashMap::with_max_entries(2 * STREAM_FILES, BPF_F_NO_PREALLOC);

/// Those of a new stream: too many for the stack.
static NO_MARKS: Marks = Marks::NONE;

/// Room for a window: too large for the stack.
#[map]
static WINDOW: PerCpuArray<Bytes> = PerCpuArray::with_max_entries(1, 0);

/// Words in a window.
const WINDOW_WORDS: usize = WINDOW_BYTES as usize / 8;

/// The bytes of a window.
#[repr(C)]
struct Bytes {
    /// 1: a program is using it. Some kernels preempt programs; 7.3 preempts those on tracepoints.
    is_taken: u64,
    words: [u64; WINDOW_WORDS],
}

/// Adds bytes at this address in the caller's memory to the window of this number. Returns 1, or 0
/// without room and where the bytes cannot be read: the window then has fewer marks.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn mark(slot: u32, number: u32, address: u64, length: u64) -> u32 {
    if MARKS.entry(slot).is_none() {
        #[expect(
            clippy::needless_borrows_for_generic_args,
            reason = "a copy would be too large for the stack"
        )]
        let _ = MARKS.insert(slot, &NO_MARKS, BPF_NOEXIST.into());
    }
    let (Some(marks), Some(bytes)) = (MARKS.entry(slot), WINDOW.entry(0)) else {
        return 0;
    };
    // The masks tell the verifier what is true anyway: these numbers are within the arrays.
    let window = &mut marks.windows[number as usize & (WINDOWS - 1)];
    if exchange(&mut bytes.is_taken, 1) != 0 {
        return 0;
    }
    let is_read = fill_part_from_user(address, &mut bytes.words, length);
    if is_read {
        let sequence = Sequence::new([bytes.words[0], bytes.words[1]]);
        let mut marking = Marking {
            window,
            words: &bytes.words,
            sequence,
        };
        repeat(
            ((length / 8) as u32).saturating_sub(FIRST_WORDS as u32),
            add_word,
            &mut marking,
        );
    }
    exchange(&mut bytes.is_taken, 0);
    u32::from(is_read)
}

/// The state of the loop.
#[repr(C)]
struct Marking<'m> {
    window: &'m mut Window,
    words: &'m [u64; WINDOW_WORDS],
    sequence: Sequence,
}

/// One round of the loop: adds a word. Returns 0, to go on.
extern "C" fn add_word(index: u64, marking: &mut Marking<'_>) -> i64 {
    let word = marking.words[(index as usize + FIRST_WORDS) & (WINDOW_WORDS - 1)];
    marking.sequence.add(word, marking.window);
    0
}
