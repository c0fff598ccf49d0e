//! The rules, on a small address space.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses, files and places of these tests are small"
)]

extern crate std;

use std::{collections::BTreeMap, vec, vec::Vec};

use super::{
    memory::{Memory, ORIGINS, RANGES, SEVERAL, fill_range, remove, shift},
    range::{Range, WORD_BYTES, WORDS, WordComparison, common_part, words_of_read},
};
use crate::{FileNumber, How, Origin, WordCounts, zeroed};

const A: FileNumber = 1;
const B: FileNumber = 2;
const OUT: FileNumber = 11;
const OTHER_OUT: FileNumber = 12;
const THIRD_OUT: FileNumber = 13;

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
            bytes: vec![0; (1 << 18) + 8],
        }
    }

    fn word(&self, at: u64) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("a word"))
    }

    /// A read puts bytes of `file` there.
    fn read(&mut self, file: FileNumber, start: u64, length: u64) {
        for at in start..start + length {
            self.bytes[at as usize] = file as u8 ^ at as u8 | 1;
        }
        self.note_read(file, start, length);
    }

    /// A read has put the bytes there that are there now.
    fn note_read(&mut self, file: FileNumber, start: u64, length: u64) {
        let end = start + length;
        self.memory.reads += 1;
        let read = self.memory.reads;
        let index = fill_range(&raw mut self.memory, file, start, end) as u32;
        let mut range = *self.range(index);
        assert!(range.start <= start && end <= range.end && range.file == file);
        range.note_read(start, end, read);
        let words = words_of_read(length);
        for word in 0..words {
            let at = range.place(start, length / words, word);
            range.keep(at, self.word(at));
        }
        *self.range(index) = range;
    }

    fn range(&mut self, index: u32) -> &mut Range {
        self.memory.range(index).expect("a range")
    }

    /// The program itself stores other bytes there.
    fn store(&mut self, start: u64, length: u64) {
        for at in start..start + length {
            self.bytes[at as usize] = self.bytes[at as usize].wrapping_add(2);
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
            let mut range = *self.range(index);
            let (from, to) = common_part(start, start + length, range.start, range.end);
            if from >= to {
                continue;
            }
            let size = range.word_bytes();
            let packed = range.words[..range.words_kept() as usize]
                .iter()
                .filter(|&&word| from <= range.address(word) && range.address(word) + size <= to)
                .map(|&word| {
                    WordComparison::new(word, self.word(range.address(word)), size).packed()
                })
                .sum();
            let evidence = range.note_write(output, from, to, WordComparison::unpacked(packed));
            *self.range(index) = range;
            self.memory
                .add_origin(evidence.origin(range.file, to - from));
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

    /// How these bytes, which are of one file, are known when they are written.
    fn how(&mut self, output: FileNumber, start: u64, length: u64) -> How {
        let [origin] = self.write_to(output, start, length)[..] else {
            panic!("one origin");
        };
        origin.how
    }

    /// How many bytes may have been written to that file before.
    fn repeated(&mut self, output: FileNumber, start: u64, length: u64) -> u64 {
        let origins = self.write_to(output, start, length);
        origins.iter().map(|origin| origin.repeated_bytes).sum()
    }

    /// Where the words of the only range are.
    fn places(&mut self) -> Vec<u64> {
        assert_eq!(self.memory.used, 1);
        let range = *self.range(0);
        let words = &range.words[..range.words_kept() as usize];
        words.iter().map(|word| range.address(*word)).collect()
    }
}

#[test]
fn a_read_keeps_a_word_of_each_page_at_a_place_that_varies() {
    let mut space = TestSpace::new();
    for (length, words) in [(1, 1), (4096, 1), (4097, 2), (65536, 16), (1 << 18, 16)] {
        let mut seen = Vec::new();
        for _ in 0..3 {
            space.overwrite(0, 1 << 18);
            space.read(A, 0, length);
            let places = space.places();
            let stretch = length / words;
            assert_eq!(places.len() as u64, words, "of {length} bytes");
            for (index, place) in (0..).zip(&places) {
                let within = index * stretch..=(index + 1) * stretch - WORD_BYTES.min(length);
                assert!(within.contains(place), "{place} of {within:?}");
            }
            seen.push(places);
        }
        assert!(length == 1 || seen[0] != seen[1] && seen[1] != seen[2]);
    }
    // The places follow from the number of the read.
    space.overwrite(0, 1 << 18);
    space.read(A, 0, 4096);
    let mut other = TestSpace::new();
    other.memory.reads = space.memory.reads - 1;
    other.read(A, 0, 4096);
    assert_eq!(space.places(), other.places());
}

#[test]
fn bytes_are_the_same_changed_or_not_compared_as_their_words_are() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 8192);
    let [first, second] = space.places()[..] else {
        panic!("two words");
    };
    space.store(second, 1);
    assert_eq!(space.how(OUT, 1000, 4096), How::SAME);
    assert_eq!(space.how(OUT, first + 1, second - first), How::UNCOMPARED);
    assert_eq!(space.how(OTHER_OUT, second, 9192 - second), How::CHANGED);
    let words = space.write_to(THIRD_OUT, 1000, 8192)[0].words;
    let (compared, changed) = (2, 1);
    assert_eq!(words, WordCounts { compared, changed });
    space.read(A, 1000, 8192);
    assert_eq!(space.write(1000, 8192), [(A, How::SAME, 8192)]);
}

#[test]
fn words_of_zeros_tell_less() {
    let mut space = TestSpace::new();
    space.note_read(A, 1000, 100);
    assert_eq!(space.how(OUT, 1000, 100), How::ZEROS);
}

#[test]
fn what_changes_after_it_was_written_there_is_used_for_something_else() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 100);
    assert_eq!(space.how(OUT, 1000, 100), How::SAME);
    space.store(1000, 100);
    assert_eq!(space.how(OUT, 1000, 100), How::OTHER_USE);
    // It was not written to that one, so it was changed on the way there.
    assert_eq!(space.how(OTHER_OUT, 1000, 100), How::CHANGED);
    space.read(A, 1000, 100);
    space.store(1000, 100);
    assert_eq!(space.how(OUT, 1000, 100), How::CHANGED, "the next read");
}

#[test]
fn a_change_marks_all_bytes_of_its_file_in_a_call() {
    let mut space = TestSpace::new();
    space.read(A, 1000, 100);
    space.read(A, 2000, 100);
    space.read(B, 3000, 100);
    space.store(2000, 100);
    assert_eq!(
        space.write(1000, 3000),
        [(A, How::CHANGED, 200), (B, How::SAME, 100)]
    );
}

#[test]
fn reads_right_after_each_other_make_one_range_with_a_word_each() {
    for length in [1, 4, 100] {
        for changed in [0, 5, 9] {
            let mut space = TestSpace::new();
            for number in 0..10 {
                space.read(A, 1000 + number * length, length);
            }
            assert_eq!(space.memory.used, 1);
            let all = 10 * length;
            assert_eq!(space.how(OUT, 1000, all), How::SAME);
            space.store(1000 + changed * length, length);
            assert_eq!(space.how(OTHER_OUT, 1000, all), How::CHANGED);
        }
    }
    let mut both = TestSpace::new();
    both.read(A, 1000, 100);
    both.read(B, 1100, 100);
    assert_eq!(both.memory.used, 2, "of two files");
    let mut many = TestSpace::new();
    for number in 0..100 {
        many.read(A, 1000 + 100 * number, 100);
    }
    assert_eq!(many.places().len(), WORDS);
    assert_eq!(many.how(OUT, 1000, 100), How::UNCOMPARED);
    assert_eq!(many.how(OUT, 10_900, 100), How::SAME, "the last ones");
}

#[test]
fn bytes_that_are_written_to_a_file_again_are_known() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    assert_eq!(space.repeated(OUT, 100, 20), 0);
    assert_eq!(space.repeated(OUT, 120, 30), 0, "the rest of it");
    assert_eq!(space.repeated(OUT, 110, 20), 20);
    space.read(A, 100, 50);
    assert_eq!(space.repeated(OUT, 100, 50), 0, "the next read");
    assert_eq!(space.repeated(OTHER_OUT, 100, 50), 0, "as tee does");
    assert_eq!(
        space.repeated(THIRD_OUT, 100, 50),
        50,
        "of a third, nobody knows"
    );
}

#[test]
fn what_was_written_whole_is_forgotten_once_a_call_fills_a_part_of_it() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    assert_eq!(space.write(100, 50), [(A, How::SAME, 50)]);
    space.read(A, 100, 20);
    assert_eq!(space.write(100, 50), [(A, How::SAME, 20)]);
    space.read(B, 105, 5);
    assert_eq!(space.write(100, 50), [(B, How::SAME, 5)]);
    // What was not written is kept.
    space.read(A, 100, 50);
    space.read(A, 100, 20);
    let kept: u64 = space.write(100, 50).iter().map(|(_, _, bytes)| bytes).sum();
    assert_eq!(kept, 50);
}

#[test]
fn memory_that_is_moved_keeps_what_is_known_of_it() {
    let mut space = TestSpace::new();
    space.read(A, 100, 50);
    space.read(B, 150, 50);
    assert_eq!(space.repeated(OUT, 100, 20), 0);
    space.bytes.copy_within(90..170, 1090);
    shift(&raw mut space.memory, 90, 170, 1000);
    assert_eq!(space.repeated(OUT, 1100, 50), 50, "a part of it");
    assert_eq!(space.write(1100, 50), [(A, How::SAME, 50)]);
    assert_eq!(space.write(100, 50), [], "nothing is left there");
    // What lies in it in part is forgotten there.
    let left = space.write(150, 50);
    assert_eq!((left[0].0, left[0].2), (B, 30));
    assert_eq!(space.write(1150, 50), []);
    space.store(1100, 50);
    assert_eq!(space.how(OTHER_OUT, 1100, 50), How::CHANGED);
}

#[test]
fn a_range_that_was_written_or_else_the_oldest_is_forgotten_if_there_are_too_many() {
    let mut space = TestSpace::new();
    let place = |number: usize| 200 * number as u64;
    for number in 0..RANGES {
        space.read(A + number as u32, place(number), 100);
    }
    assert_eq!(space.write(place(7), 100), [(A + 7, How::SAME, 100)]);
    space.read(B, place(RANGES), 100);
    assert_eq!(space.memory.forgotten, A + 7);
    assert_eq!(space.write(place(7), 100), []);
    assert_eq!(space.write(place(RANGES), 100), [(B, How::SAME, 100)]);
    space.read(B, place(RANGES), 100);
    space.read(B, place(RANGES + 1), 100);
    assert_eq!(space.memory.forgotten, SEVERAL, "of two files");
    assert_eq!(space.write(place(0), 100), [], "the oldest");
    assert_eq!(space.write(place(1), 100), [(A + 1, How::SAME, 100)]);
}

#[test]
fn no_more_origins_than_there_is_room_for_are_added() {
    let mut memory: Memory = zeroed();
    let origin = |file, how, bytes| Origin {
        file,
        how,
        bytes,
        ..Origin::NONE
    };
    for file in 1..=ORIGINS as u32 {
        memory.add_origin(origin(file, How::SAME, 1));
    }
    memory.add_origin(origin(1, How::SAME, 5));
    assert_eq!((memory.origins[0].bytes, memory.origins_lost), (6, 0));
    memory.add_origin(origin(99, How::SAME, 1));
    assert_eq!(memory.origins_lost, 1);
    memory.add_origin(origin(1, How::OTHER_USE, 5));
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

/// What is true of a byte.
#[derive(Clone, Copy, Default)]
struct ByteTruth {
    /// The file that it was read from. 0: none.
    file: FileNumber,
    /// Whether the program has changed it since.
    has_changed: bool,
    /// Whether it may have been forgotten.
    is_forgotten: bool,
    /// Whether it was written to [`OUT`] since it was read.
    is_written: bool,
}

#[test]
fn every_credited_byte_is_right_whatever_happens() {
    for seed in 0..50 {
        let mut random = RandomNumbers(seed);
        let mut space = TestSpace::new();
        let mut truth = [ByteTruth::default(); 2048];
        for _ in 0..200 {
            let (start, length) = random.interval();
            let bytes = start as usize..(start + length) as usize;
            let before = space.memory;
            match random.below(10) {
                0..5 => {
                    let file = 1 + random.below(3) as u32;
                    space.read(file, start, length);
                    note_gone(&before, &space.memory, &mut truth);
                    truth[bytes].fill(ByteTruth {
                        file,
                        ..ByteTruth::default()
                    });
                }
                5 => {
                    space.overwrite(start, start + length);
                    note_gone(&before, &space.memory, &mut truth);
                    truth[bytes].fill(ByteTruth::default());
                }
                6 => {
                    space.store(start, length);
                    truth[bytes]
                        .iter_mut()
                        .for_each(|one| one.has_changed = true);
                }
                _ => check_write(&mut space, &mut truth[bytes], start),
            }
        }
    }
}

/// Notes which bytes are in no range any more.
fn note_gone(before: &Memory, after: &Memory, truth: &mut [ByteTruth]) {
    let bytes = |memory: &Memory| -> Vec<bool> {
        let mut known = vec![false; truth.len()];
        for range in memory.ranges.iter().filter(|range| range.end != 0) {
            known[range.start as usize..range.end as usize].fill(true);
        }
        known
    };
    let gone = bytes(before).into_iter().zip(bytes(after));
    for (one, (was_known, is_known)) in truth.iter_mut().zip(gone) {
        one.is_forgotten |= was_known && !is_known;
    }
}

/// Compares what is credited for each byte of a write, one by one and all together.
fn check_write(space: &mut TestSpace, truth: &mut [ByteTruth], start: u64) {
    let mut sums = BTreeMap::new();
    for (at, one) in (start..).zip(&*truth) {
        match space.clone().write(at, 1)[..] {
            [] => assert!(one.file == 0 || one.is_forgotten, "byte {at}"),
            [(found, _, bytes)] => {
                assert_eq!((found, bytes), (one.file, 1), "byte {at}");
                *sums.entry(found).or_insert(0) += 1;
            }
            _ => panic!("byte {at} has two origins"),
        }
    }
    let (mut found, mut repeated) = (BTreeMap::new(), 0);
    for origin in space.write_to(OUT, start, truth.len() as u64) {
        let Origin { file, how, .. } = origin;
        *found.entry(file).or_insert(0) += origin.bytes;
        let own = || truth.iter().filter(|one| one.file == file);
        if matches!(how, How::CHANGED | How::OTHER_USE) {
            assert!(own().any(|one| one.has_changed), "nothing was changed");
        } else if how == How::SAME {
            assert!(own().any(|one| !one.has_changed), "everything was changed");
        }
        repeated += origin.repeated_bytes;
    }
    assert_eq!(found, sums, "all together");
    let again = truth.iter().filter(|one| one.is_written && one.file != 0);
    let again = again.filter(|one| !one.is_forgotten).count() as u64;
    assert!(repeated >= again, "{again} bytes are written again");
    for one in truth {
        one.is_written = true;
    }
}
