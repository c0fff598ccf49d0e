//! The rules, on a small address space.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses, files and places of these tests are small"
)]

extern crate std;

use std::{collections::BTreeMap, vec, vec::Vec};

use super::{
    memory::{Memory, ORIGINS, RANGES, fill_range, remove, shift},
    range::{Range, WORD_BYTES, Word, common_part, compared},
};
use crate::{FileNumber, Fills, How, Origin, zeroed};

const A: FileNumber = 1;
const B: FileNumber = 2;
const OUT: FileNumber = 11;
const OTHER_OUT: FileNumber = 12;

/// An address space: its bytes, and what is known of it. What the kernel half does with both is
/// done here.
#[derive(Clone)]
struct TestSpace {
    memory: Memory,
    bytes: Vec<u8>,
}

impl TestSpace {
    fn new() -> Self {
        Self {
            memory: zeroed(),
            bytes: vec![0; 8192],
        }
    }

    fn word(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("a word"))
    }

    /// A read puts bytes of `file` there, and takes 10 ns.
    fn read(&mut self, file: FileNumber, start: u64, length: u64) {
        let end = start + length;
        for at in start..end {
            self.bytes[at as usize] = file as u8 ^ at as u8;
        }
        let index = fill_range(&raw mut self.memory, file, start, end) as u32;
        let words = [Word::first_of(start, length), Word::last_of(start, length)];
        let words = words.map(|word| Word {
            value: self.word(word.at),
            ..word
        });
        let range = self.memory.range(index).expect("a range");
        assert!(range.start <= start && end <= range.end && range.file == file);
        range.note_fill(start, end, 10);
        if start == range.start {
            range.words[0] = words[0];
        }
        if start != range.start || length > WORD_BYTES {
            range.words[1] = words[1];
        }
    }

    /// The program itself stores bytes there.
    fn store(&mut self, start: u64, length: u64) {
        for at in start..start + length {
            self.bytes[at as usize] ^= 0x55;
        }
    }

    /// The kernel puts other bytes there.
    fn overwrite(&mut self, start: u64, end: u64) {
        remove(&raw mut self.memory, 0, start, end);
    }

    /// A write to `output` of these bytes: the origins of its bytes.
    fn write_to(&mut self, output: FileNumber, start: u64, length: u64) -> Vec<Origin> {
        (self.memory.origins_used, self.memory.origins_lost) = (0, 0);
        for index in 0..self.memory.used {
            let range = *self.memory.range(index).expect("a range");
            let (from, to) = common_part(start, start + length, range.start, range.end);
            if from >= to {
                continue;
            }
            let differs = |word: &Word| word.differs_from(self.word(word.at), from, to);
            let compare = |word: &Word| {
                if differs(word) {
                    compared::DIFFERENT
                } else {
                    compared::SAME
                }
            };
            let touched = range.words.iter().filter(|word| word.touches(from, to));
            let found = touched.map(compare).fold(0, |found, one| found | one);
            let known = self.memory.range(index).expect("a range");
            let how = known.how(found, from, to);
            let fills = known.fills_for(how, output, from, to);
            known.note_write(from, to);
            self.memory.add_origin(range.file, how, to - from, fills);
        }
        self.memory.origins[..self.memory.origins_used as usize].to_vec()
    }

    /// The files that these bytes came from when they are written, how that is known, and how many
    /// bytes.
    fn write(&mut self, start: u64, length: u64) -> Vec<(FileNumber, How, u64)> {
        let mut origins: Vec<_> = self
            .write_to(OUT, start, length)
            .iter()
            .map(|origin| (origin.file, origin.how, origin.bytes))
            .collect();
        origins.sort_unstable_by_key(|&(file, how, _)| (file, how.0));
        origins
    }

    /// The reads that are counted with a write.
    fn fills(&mut self, output: FileNumber, start: u64, length: u64) -> Fills {
        let mut fills = Fills::NONE;
        for origin in self.write_to(output, start, length) {
            fills.add(origin.fills);
        }
        fills
    }
}

fn calls(calls: u64) -> Fills {
    Fills {
        calls,
        total_ns: 10 * calls,
        unknown: 0,
    }
}

#[test]
fn memory_in_which_a_word_has_changed_is_the_programs_own() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 1000);
    space.store(1996, 4);
    assert_eq!(space.write(1000, 996), [(A, How::BUFFER, 996)]);
    assert_eq!(space.write(1000, 1000), [(A, How::CHANGED, 1000)]);
    assert_eq!(space.write(1000, 996), []);
    space.read(A, 1000, 1000);
    assert_eq!(space.write(1000, 1000), [(A, How::BUFFER, 1000)]);
}

#[test]
fn bytes_between_the_words_are_the_files_right_behind_others() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 100);
    assert_eq!(space.write(1020, 20), [(A, How::CHANGED, 20)]);
    assert_eq!(space.write(1000, 20), [(A, How::BUFFER, 20)]);
    assert_eq!(space.write(1020, 20), [(A, How::BUFFER, 20)]);
    assert_eq!(space.write(1020, 20), [(A, How::CHANGED, 20)], "again");
    assert_eq!(space.write(1040, 60), [(A, How::BUFFER, 60)], "the end");
    space.read(A, 1000, 100);
    assert_eq!(space.write(1020, 20), [(A, How::CHANGED, 20)]);
}

#[test]
fn buffers_side_by_side_keep_their_words_when_one_is_filled_anew() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 100);
    space.read(A, 1100, 100);
    assert_eq!(space.write(1000, 100), [(A, How::BUFFER, 100)]);
    space.read(A, 1000, 100);
    assert_eq!(space.write(1100, 100), [(A, How::BUFFER, 100)]);
    assert_eq!(space.write(1000, 100), [(A, How::BUFFER, 100)]);
}

#[test]
fn a_change_shows_only_in_its_own_part_of_a_call() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 100);
    space.read(A, 2000, 100);
    space.read(B, 3000, 100);
    space.store(2000, 100);
    assert_eq!(
        space.write(1000, 3000),
        [
            (A, How::BUFFER, 100),
            (A, How::CHANGED, 100),
            (B, How::BUFFER, 100)
        ]
    );
}

#[test]
fn the_word_of_a_short_read_is_only_what_was_read() {
    let mut space = TestSpace::new();
    space.read(A, 100, 3);
    space.store(103, 5);
    assert_eq!(space.write(100, 8), [(A, How::BUFFER, 3)]);
    space.store(102, 1);
    assert_eq!(space.write(100, 3), [(A, How::CHANGED, 3)]);
}

#[test]
fn reads_one_behind_the_other_make_one_range() {
    let mut space = TestSpace::new();
    for start in (1000..2000).step_by(100) {
        space.read(A, start, 100);
    }
    assert_eq!(space.memory.used, 1);
    assert_eq!(space.fills(OUT, 1000, 1000), calls(10));
    let mut both = TestSpace::new();
    both.read(A, 1000, 100);
    both.read(B, 1100, 100);
    assert_eq!(both.memory.used, 2, "of two files");
}

#[test]
fn the_first_and_the_last_read_of_a_range_have_a_word() {
    for length in [4, 100] {
        for changed in [1000, 1000 + 9 * length] {
            let mut space = TestSpace::new();
            for number in 0..10 {
                space.read(A, 1000 + number * length, length);
            }
            space.store(changed, length);
            let all = 10 * length;
            assert_eq!(space.write(1000, all), [(A, How::CHANGED, all)]);
        }
    }
}

#[test]
fn a_word_that_was_overwritten_is_not_compared() {
    for (at, other) in [(1000, 1092), (1092, 1000)] {
        let mut space = TestSpace::new();
        space.read(A, 1000, 100);
        space.overwrite(at, at + 8);
        space.store(at, 8);
        assert_eq!(space.write(1000, 100), [(A, How::BUFFER, 92)]);
        space.store(other, 8);
        assert_eq!(space.write(1000, 100), [(A, How::CHANGED, 92)]);
    }
}

#[test]
fn reads_are_counted_once_for_each_output() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    assert_eq!(space.fills(OUT, 100, 20), calls(1));
    assert_eq!(space.fills(OUT, 120, 30), calls(0), "the rest of it");
    assert_eq!(space.fills(OTHER_OUT, 100, 50), calls(1), "as tee does");
    space.read(A, 100, 50);
    assert_eq!(space.fills(OUT, 100, 50), calls(1), "the next read");
}

#[test]
fn reads_are_counted_with_the_first_bytes_that_count_as_the_files() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 1000);
    // No word of these is compared.
    assert_eq!(space.fills(OUT, 1064, 100), calls(0));
    assert_eq!(space.fills(OUT, 1500, 500), calls(1));
}

#[test]
fn of_bytes_that_are_written_twice_the_reads_are_not_known() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    assert_eq!(space.fills(OUT, 100, 20), calls(1));
    assert_eq!(space.fills(OUT, 110, 40), Fills::UNKNOWN);
}

#[test]
fn a_range_that_grows_after_it_was_written_counts_anew() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    space.read(A, 150, 50);
    assert_eq!(space.fills(OUT, 100, 100), calls(2));
    space.read(A, 200, 50);
    assert_eq!(space.memory.used, 1);
    assert_eq!(space.fills(OUT, 200, 50), calls(1));
    // A ring: the next read is at the beginning again.
    space.read(A, 100, 50);
    assert_eq!(space.fills(OUT, 100, 50), calls(1));
}

#[test]
fn of_several_reads_a_part_is_not_counted() {
    for (start, length) in [(100, 30), (120, 80)] {
        let mut space = TestSpace::new();
        space.read(A, 100, 50);
        space.read(A, 150, 50);
        assert_eq!(space.fills(OUT, start, length), Fills::UNKNOWN);
        assert_eq!(space.fills(OUT, 100, 100), calls(2), "all of them");
    }
}

#[test]
fn a_read_whose_memory_is_divided_is_counted_once() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    space.overwrite(110, 120);
    assert_eq!(space.write(100, 50), [(A, How::BUFFER, 40)]);
    assert_eq!(space.fills(OTHER_OUT, 100, 10), calls(1));
    assert_eq!(space.fills(OTHER_OUT, 120, 30), Fills::UNKNOWN);
}

#[test]
fn too_many_outputs_are_known_to_be_unknown() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    let unknown: u64 = (0..5)
        .map(|output| space.fills(OUT + output, 100, 50).unknown)
        .sum();
    assert_eq!(unknown, 2);
}

#[test]
fn what_was_written_is_forgotten_once_its_buffer_is_filled_anew() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    assert_eq!(space.write(100, 50), [(A, How::BUFFER, 50)]);
    space.read(A, 100, 20);
    assert_eq!(space.write(100, 50), [(A, How::BUFFER, 20)]);
    // What was not written is kept.
    space.read(A, 100, 50);
    space.read(A, 100, 20);
    assert_eq!(space.write(100, 50), [(A, How::BUFFER, 50)]);
}

#[test]
fn memory_that_is_moved_keeps_what_is_known_of_it() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    space.read(B, 150, 50);
    space.bytes.copy_within(90..170, 1090);
    shift(&raw mut space.memory, 90, 170, 1000);
    assert_eq!(space.write(1100, 50), [(A, How::BUFFER, 50)]);
    assert_eq!(space.fills(OTHER_OUT, 1100, 50), calls(1));
    assert_eq!(space.write(100, 50), [], "nothing is left there");
    // What lies in it in part is forgotten there.
    assert_eq!(space.write(150, 50), [(B, How::BUFFER, 30)]);
    assert_eq!(space.write(1150, 50), []);
    space.bytes[1100] ^= 1;
    let changed = space.write(1100, 50);
    assert_ne!(changed, [(A, How::BUFFER, 50)], "its words are compared");
}

#[test]
fn the_oldest_range_is_given_up_if_there_are_too_many() {
    let mut space = TestSpace::new();
    for number in 0..=(RANGES as u64) {
        space.read(A, 200 * number, 100);
    }
    assert_eq!(space.memory.given_up, 1);
    assert_eq!(space.write(0, 100), []);
    assert_eq!(space.write(200, 100), [(A, How::BUFFER, 100)]);
    assert_eq!(
        space.write(200 * RANGES as u64, 100),
        [(A, How::BUFFER, 100)]
    );
}

#[test]
fn an_empty_range_is_used_again() {
    let mut space = TestSpace::new();
    for number in 0..100 {
        space.read(A, 50 * number, 50 + number % 7);
        space.overwrite(0, 8000);
    }
    assert_eq!((space.memory.used, space.memory.given_up), (1, 0));
}

#[test]
fn no_more_origins_than_there_is_room_for_are_added() {
    let mut memory: Memory = zeroed();
    for file in 1..=ORIGINS as u32 {
        memory.add_origin(file, How::BUFFER, 1, Fills::NONE);
    }
    memory.add_origin(1, How::BUFFER, 5, Fills::NONE);
    assert_eq!((memory.origins[0].bytes, memory.origins_lost), (6, 0));
    memory.add_origin(99, How::BUFFER, 1, Fills::NONE);
    assert_eq!(memory.origins_lost, 1);
    memory.add_origin(1, How::CHANGED, 5, Fills::NONE);
    assert_eq!(memory.origins_lost, 2, "how it is known matters");
}

/// Numbers that look random, the same each time (splitmix64).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Where something begins, and how long it is.
    fn interval(&mut self) -> (u64, u64) {
        let unit = [1, 16, 64][self.below(3) as usize];
        (self.below(1024 / unit) * unit, (1 + self.below(8)) * unit)
    }
}

#[test]
fn every_credited_byte_is_right_whatever_happens() {
    for seed in 0..50 {
        let mut random = RandomNumbers(seed);
        let mut space = TestSpace::new();
        // The file of each byte, and whether the program has changed it; and whether the byte may
        // have been forgotten.
        let mut truth = vec![(0, false); 8192];
        let (mut is_forgotten, mut is_written) = (vec![false; 8192], vec![false; 8192]);
        for _ in 0..300 {
            let (start, length) = random.interval();
            let bytes = start as usize..(start + length) as usize;
            match random.below(10) {
                0..5 => {
                    let file = 1 + random.below(3) as u32;
                    let before = space.memory;
                    space.read(file, start, length);
                    note_forgotten(&before, &space.memory, &mut is_forgotten);
                    truth[bytes.clone()].fill((file, false));
                    is_forgotten[bytes.clone()].fill(false);
                    is_written[bytes.clone()].fill(false);
                    let behind =
                        (bytes.end..8192).take_while(|&at| truth[at].0 == file && is_written[at]);
                    behind.for_each(|at| is_forgotten[at] = true);
                }
                5 => {
                    let before = space.memory;
                    space.overwrite(start, start + length);
                    note_forgotten(&before, &space.memory, &mut is_forgotten);
                    truth[bytes].fill((0, false));
                }
                6 => {
                    space.store(start, length);
                    truth[bytes]
                        .iter_mut()
                        .for_each(|(_, has_changed)| *has_changed = true);
                }
                _ => {
                    let before = space.memory;
                    let truth = &truth[bytes.clone()];
                    check_write(&mut space, truth, &is_forgotten[bytes.clone()], start);
                    note_gone(&before, &space.memory, &mut is_forgotten);
                    is_written[bytes].fill(true);
                }
            }
        }
    }
}

/// Notes which bytes are forgotten because there were too many ranges.
fn note_forgotten(before: &Memory, after: &Memory, is_forgotten: &mut [bool]) {
    if before.given_up != after.given_up {
        note_gone(before, after, is_forgotten);
    }
}

/// Notes which bytes are in no range any more.
fn note_gone(before: &Memory, after: &Memory, is_forgotten: &mut [bool]) {
    for (memory, is_gone) in [(before, true), (after, false)] {
        for range in memory.ranges.iter().filter(|range| range.end != 0) {
            is_forgotten[range.start as usize..range.end as usize].fill(is_gone);
        }
    }
}

/// Compares what is credited for each byte of a write, one by one and all together.
fn check_write(
    space: &mut TestSpace,
    truth: &[(FileNumber, bool)],
    is_forgotten: &[bool],
    start: u64,
) {
    let mut sums = BTreeMap::new();
    for ((at, &(file, _)), &is_forgotten) in (start..).zip(truth).zip(is_forgotten) {
        match space.clone().write(at, 1)[..] {
            [] => assert!(file == 0 || is_forgotten, "byte {at} of file {file}"),
            [(found, _, bytes)] => {
                assert_eq!((found, bytes), (file, 1), "byte {at}");
                *sums.entry(file).or_insert(0) += 1;
            }
            _ => panic!("byte {at} has two origins"),
        }
    }
    let (mut found, before) = (BTreeMap::new(), space.memory);
    for (file, how, bytes) in space.write(start, truth.len() as u64) {
        *found.entry(file).or_insert(0) += bytes;
        let has_changed = truth.contains(&(file, true));
        let end = start + truth.len() as u64;
        let is_uncompared = |range: &Range| {
            let (from, to) = common_part(start, end, range.start, range.end);
            let touched = range.words.iter().any(|word| word.touches(from, to));
            range.file == file && from < to && !touched
        };
        assert!(
            how == How::BUFFER || has_changed || before.ranges.iter().any(is_uncompared),
            "nothing of file {file} was changed"
        );
    }
    assert_eq!(found, sums, "all together");
}
