//! Unwinds the stack of the test itself: a copy of it, its registers, and what is mapped here.

use std::{
    arch::asm,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
};

use zctrace_core::trace::{SampledStack, StackEnd};

use crate::{
    CodeFile, CodeMapping, Spaces,
    file::tests::code_file,
    sampled::{SampledRegisters, StackCopy},
    symbols,
};

const PIECE: usize = 1024;
const PIECES: usize = 16;
const SPACE: u32 = 7;

/// What is mapped here to be executed.
fn own_spaces() -> Spaces {
    let mut spaces = Spaces::default();
    let maps = fs::read_to_string("/proc/self/maps").expect("it is ours");
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let (start, end) = words[0].split_once('-').expect("a range");
        let file = words.get(5).filter(|path| path.starts_with('/'));
        let mapping = CodeMapping {
            start: hex(start),
            end: hex(end),
            offset: hex(words[2]),
            file: file.map(|path| code_file(Path::new(path))),
            mapped_ns: None,
        };
        if words[1].contains('x') {
            spaces.map_code(SPACE, mapping);
        }
    }
    spaces
}

/// The registers and the stack of a function, as a sample has them.
struct Sample {
    registers: [u64; 8],
    start: u64,
    bytes: Vec<u8>,
}

/// A sample of this function and its callers.
#[inline(never)]
fn sample() -> Sample {
    let mut registers = [0_u64; 8];
    // SAFETY: stores registers to an array that has room for them.
    unsafe {
        asm!(
            "lea {scratch}, [rip]",
            "mov [{to}], {scratch}",
            "mov [{to} + 8], rsp",
            "mov [{to} + 16], rbp",
            "mov [{to} + 24], rbx",
            "mov [{to} + 32], r12",
            "mov [{to} + 40], r13",
            "mov [{to} + 48], r14",
            "mov [{to} + 56], r15",
            to = in(reg) registers.as_mut_ptr(),
            scratch = out(reg) _,
        );
    }
    let start = registers[1] & !(PIECE as u64 - 1);
    // The kernel says where the stack ends.
    let memory = File::open("/proc/self/mem").expect("it is ours");
    let mut bytes = vec![0; PIECE * PIECES];
    for (piece, to) in (0..).zip(bytes.chunks_mut(PIECE)) {
        let _ = memory.read_at(to, start + piece * PIECE as u64);
    }
    Sample {
        registers,
        start,
        bytes,
    }
}

/// Has a frame that the unwinder has to find its way through.
#[inline(never)]
fn middle(buffer: &mut [u8; 3000]) -> Sample {
    let sampled = sample();
    std::hint::black_box(buffer);
    sampled
}

/// The stack of a sample of this thread in this space, of which these pieces were copied.
fn unwound_in(spaces: &Spaces, space: u32, filled: u64) -> SampledStack {
    let sample = middle(&mut std::hint::black_box([1; 3000]));
    let copy = StackCopy {
        start: sample.start,
        bytes: &sample.bytes,
        piece_bytes: PIECE,
        filled,
    };
    let raw = spaces.unwind_stack(
        space,
        SampledRegisters::from_sample(&sample.registers),
        &copy,
    );
    symbols::name_stacks(&[raw], spaces).stacks.remove(0)
}

fn unwind_own(spaces: &Spaces, filled: u64) -> SampledStack {
    unwound_in(spaces, SPACE, filled)
}

/// All pieces.
const ALL: u64 = (1 << PIECES) - 1;

fn has_function(stack: &SampledStack, name: &str) -> bool {
    stack.frames.iter().any(|frame| {
        frame
            .function
            .as_deref()
            .is_some_and(|function| function.contains(name))
    })
}

#[test]
fn this_thread_is_unwound_to_its_start() {
    let stack = unwind_own(&own_spaces(), ALL);
    assert!(stack.complete, "{stack:#?}");
    assert!(
        has_function(&stack, "sample")
            && has_function(&stack, "middle")
            && has_function(&stack, "this_thread_is_unwound"),
        "{stack:#?}"
    );
}

#[test]
fn what_was_looked_up_before_leads_to_the_same_start() {
    let spaces = own_spaces();
    let frames = unwind_own(&spaces, ALL).frames.len();
    // A failure that depends on the stack is not kept for its address.
    for (filled, end) in [
        (ALL, StackEnd::Root),
        (0b11, StackEnd::Unreadable),
        (ALL, StackEnd::Root),
    ] {
        let again = unwind_own(&spaces, filled);
        assert_eq!(again.incomplete_because, end.why_incomplete());
        assert_eq!(again.frames.len() == frames, filled == ALL);
        // The frame of `middle` is larger than the first two pieces.
        assert!(has_function(&again, "sample"));
        assert_eq!(has_function(&again, "what_was_looked_up"), filled == ALL);
    }
}

#[test]
fn code_in_no_file_ends_a_stack() {
    let stack = unwind_own(&Spaces::default(), ALL);
    assert_eq!(stack.incomplete_because, StackEnd::NoFile.why_incomplete());
    assert_eq!(stack.frames.len(), 1);
}

#[test]
fn an_address_space_begins_with_the_code_of_the_one_that_it_is_a_copy_of() {
    let mut spaces = own_spaces();
    spaces.copy_space(SPACE, SPACE + 1);
    for (space, end) in [(SPACE + 1, StackEnd::Root), (SPACE + 2, StackEnd::NoFile)] {
        let stack = unwound_in(&spaces, space, ALL);
        assert_eq!(stack.incomplete_because, end.why_incomplete());
    }
}

#[test]
fn a_program_that_was_replaced_ends_a_stack() {
    let own = code_file(&std::env::current_exe().expect("this test is a program"));
    let mut spaces = Spaces::default();
    let other = CodeFile {
        inode: own.inode + 1,
        ..own
    };
    spaces.map_code(
        SPACE,
        CodeMapping {
            start: 0,
            end: u64::MAX,
            offset: 0,
            file: Some(other.clone()),
            mapped_ns: None,
        },
    );
    assert_eq!(
        unwind_own(&spaces, ALL).incomplete_because,
        StackEnd::FileReplaced(other.path).why_incomplete()
    );
}
