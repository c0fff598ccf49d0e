//! Tests the ranges of the kernel side, and the loops that tasks keep of them, against memory in which the owner of each byte is known.

extern crate std;

use std::{boxed::Box, vec, vec::Vec};

use super::{
    super::blocks::SEGMENTS,
    super::copy_loop::CopyLoop,
    super::range::{Comparison, SAMPLES, Sum, Verdict, compared, folded},
    *,
};

/// Memory of a process, and what the kernel side knows about it.
#[derive(Clone)]
struct Space {
    bytes: Vec<u8>,
    memory: Box<Memory>,
    last_range: u32,
    random: u64,
    /// Whether reads get checksums.
    sums: bool,
    /// The file that is written.
    output: FileNumber,
    /// The loop of the task that reads and writes. `None`: it keeps none.
    copy_loop: Option<CopyLoop>,
    /// Reads and writes that went on with the loop.
    rounds: usize,
}

/// The sources of a write: `(file, bytes)`. The file may have [`CHANGED`](crate::CHANGED) or [`UNSAMPLED`](crate::UNSAMPLED).
type Found = Vec<(FileNumber, u64)>;

impl Space {
    fn new(size: usize) -> Self {
        Self {
            bytes: vec![0; size],
            memory: Box::new(Memory::NOTHING),
            last_range: 0,
            random: 1,
            sums: true,
            output: 100,
            copy_loop: Some(CopyLoop::NONE),
            rounds: 0,
        }
    }

    /// A random number below the limit.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// The program itself stores random bytes, which the kernel side does not see.
    fn store(&mut self, start: u64, length: u64) {
        for at in start..start + length {
            self.bytes[usize::try_from(at).expect("fits")] = 1 + u8::try_from(self.below(255)).expect("a byte");
        }
    }

    fn word(&self, at: u64) -> u64 {
        let at = usize::try_from(at).expect("fits");
        let word = |index: usize| self.bytes.get(at + index).copied().unwrap_or(0);
        u64::from_ne_bytes(std::array::from_fn(word))
    }

    /// A read that gets as many bytes as it wants.
    fn read(&mut self, file: FileNumber, start: u64, length: u64) {
        self.read_of(file, start, length, length);
    }

    /// As the kernel side does it, for a read that wanted this many bytes.
    fn read_of(&mut self, file: FileNumber, start: u64, length: u64, wanted: u64) {
        self.store(start, length);
        if let Some(mut copy_loop) = self.copy_loop
            && let Some(at) = copy_loop.next_sample(file, start, length)
        {
            copy_loop.read(start, length, wanted, at, folded(self.word(at), u64::MAX));
            self.copy_loop = Some(copy_loop);
            self.rounds += 1;
            return;
        }
        self.end_loop();
        self.fill(file, start, length, wanted);
        if let Some(copy_loop) = &mut self.copy_loop {
            copy_loop.begin(&self.memory, self.last_range);
        }
    }

    /// Brings the memory up to date.
    fn end_loop(&mut self) {
        if let Some(copy_loop) = &mut self.copy_loop {
            copy_loop.end(&mut self.memory);
        }
    }

    /// As `fill` of the kernel side.
    fn fill(&mut self, file: FileNumber, start: u64, length: u64, wanted: u64) {
        let (plan, is_summed) = self.memory.plan(file, length);
        let index = fill_range(&raw mut *self.memory, self.last_range, file, start, start + length);
        self.last_range = u32::try_from(index).expect("fits");
        let mut range = self.memory.ranges[self.last_range as usize];
        range.wanted_to = start + wanted;
        let is_summed = if start == range.start {
            range.begin();
            is_summed
        } else {
            let goes_on = range.goes_on_with_sum(start, length)
                && self.compare_sum(self.last_range as usize, range.start, start) == Sum::Same;
            range.has_changed = self.memory.ranges[self.last_range as usize].has_changed;
            goes_on
        };
        let first = range.plan_samples(start, length, plan);
        for index in first..range.samples {
            range.words[index as usize] = folded(self.word(range.sampled_at(index)), range.mask());
        }
        if self.sums && is_summed {
            range.summed_blocks = self.memory.summed_blocks(range.end - range.start);
            range.summed_bytes = u32::try_from(range.end - range.start).expect("fits");
            range.sums = self.sums(&range);
        }
        self.memory.ranges[self.last_range as usize] = range;
    }

    /// For each segment, a checksum of its bytes: of all of them, also where the kernel side takes only blocks.
    fn sums(&self, range: &Range) -> [u16; SEGMENTS] {
        let mut sums = [7; SEGMENTS];
        for place in 0..u64::from(range.summed_bytes) {
            let sum = &mut sums[range.summed_blocks.segment(range.summed_bytes.into(), place) as usize];
            *sum = (*sum ^ u16::from(self.bytes[usize::try_from(range.origin + place).expect("fits")])).wrapping_mul(0x79b1);
        }
        sums
    }

    /// What the checksum says about these bytes of a range. As `compare_sum` of the kernel side.
    fn compare_sum(&mut self, index: usize, start: u64, end: u64) -> Sum {
        let range = self.memory.ranges[index];
        if range.has_changed != 0 {
            return Sum::Different;
        }
        if range.summed_bytes == 0 {
            return Sum::Unknown;
        }
        let Some((first, last)) = range.segments(start, end) else { return Sum::Lost };
        let segments = first as usize..=last as usize;
        if self.sums(&range)[segments.clone()] == range.sums[segments] {
            return Sum::Same;
        }
        self.memory.ranges[index].has_changed = 1;
        Sum::Different
    }

    fn clear(&mut self, start: u64, length: u64) {
        self.store(start, length);
        self.end_loop();
        clear(&raw mut *self.memory, start, start + length);
    }

    /// A write of all bytes that it wants to write.
    fn write(&mut self, start: u64, length: u64) -> Found {
        self.write_of(start, length, length)
    }

    /// As the kernel side does it, for a write that wanted to write this many bytes.
    fn write_of(&mut self, start: u64, length: u64, wanted: u64) -> Found {
        if let Some(mut copy_loop) = self.copy_loop
            && let Some(at) = copy_loop.sample_of(start, length, wanted)
        {
            let file = copy_loop.write(start, length, folded(self.word(at), u64::MAX), self.output);
            self.copy_loop = Some(copy_loop);
            if file != 0 {
                self.rounds += 1;
                return vec![(file, length)];
            }
        }
        if is_unknown(&raw mut *self.memory, start, start + length) != 0 {
            // The loop goes on, and the memory knows no more than that.
            let mut same = self.clone();
            same.end_loop();
            assert_eq!(same.take(start, length, wanted), []);
            return Found::new();
        }
        self.end_loop();
        self.take(start, length, wanted)
    }

    /// As `take_range` of the kernel side, for each range.
    fn take(&mut self, written: u64, length: u64, wanted: u64) -> Found {
        let mut found = Found::new();
        for index in 0..RANGES {
            let range = self.memory.ranges[index];
            let (start, end) = (written.max(range.start), (written + length).min(range.end));
            if start >= end {
                continue;
            }
            let judged_end = (written + wanted).clamp(end, range.end);
            let is_rest = range.is_rest(start, judged_end);
            let lies_in = |index: &u32| range.sample_lies_in(*index, start, judged_end);
            let words = (0..range.samples)
                .filter(lies_in)
                .map(|index| compared(range.words[index as usize], self.word(range.sampled_at(index)), range.mask()));
            let mut compared = Comparison::unpack(words.sum());
            compared.sum = self.compare_sum(index, start, judged_end);
            let range = &mut self.memory.ranges[index];
            let is_whole = start == written && end == written + length;
            let verdict = range.judge(start, judged_end, is_whole, compared);
            let (file, bytes) = match verdict {
                Verdict::Same if range.writes_again(start, self.output) => (range.file | crate::AGAIN, end - start),
                Verdict::Same => (range.file, end - start),
                Verdict::Changed => (range.file | crate::CHANGED, end - start),
                Verdict::Unsampled => (range.file | crate::UNSAMPLED, end - start),
                Verdict::Undecided => (range.file | crate::UNSAMPLED, 0),
                Verdict::Reused => {
                    range.end = 0;
                    continue;
                }
                Verdict::Overlaid => {
                    range.end = 0;
                    found.push((range.file | crate::UNSAMPLED, 0));
                    continue;
                }
            };
            let again = start < range.written_to;
            range.written_to = range.written_to.max(end);
            if matches!(verdict, Verdict::Unsampled | Verdict::Undecided) || !is_rest {
                self.memory.sample_densely();
            } else if again {
                self.memory.sample_more();
            }
            found.push((file, bytes));
        }
        found.sort_unstable();
        found
    }
}

#[test]
fn a_loop_over_one_buffer_finds_the_source_of_every_byte() {
    let mut space = Space::new(20_000);
    for length in [8192, 8192, 100, 1, 8192, 7, 15, 16] {
        space.read(7, 4096, length);
        assert_eq!(space.write(4096, length), [(7, length)]);
    }
}

#[test]
fn a_second_write_of_the_same_memory_to_the_same_file_is_told_apart() {
    let mut space = Space::new(10_000);
    space.read(7, 0, 8192);
    assert_eq!([space.write(0, 4096), space.write(4096, 4096)], [[(7, 4096)], [(7, 4096)]]);
    space.output = 101;
    assert_eq!([space.write(0, 8192), space.write(4096, 4096)], [[(7, 8192)], [(7 | crate::AGAIN, 4096)]]);
    space.read(7, 0, 8192);
    assert_eq!(space.write(0, 8192), [(7, 8192)]);
}

#[test]
fn bytes_that_were_peeked_at_may_be_read_and_written_again() {
    let mut space = Space::new(10_000);
    space.read(7, 0, 8192);
    space.memory.ranges[space.last_range as usize].peeked();
    assert_eq!(space.write(0, 8192), [(7 | crate::AGAIN, 8192)]);
}

#[test]
fn a_change_anywhere_in_what_several_reads_filled_is_noticed() {
    for (reads, length) in [(45, 1448), (5, 1200), (300, 1), (7, 4096)] {
        let mut space = Space::new(70_000);
        let all = reads * length;
        for start in (0..all).step_by(usize::try_from(length).expect("fits")) {
            space.read_of(1, start, length, all - start);
        }
        assert_eq!(space.write(0, all), [(1, all)]);
        let mut changed = space.clone();
        changed.store(all / 3, 1);
        assert_eq!(changed.write(0, all), [], "{reads} reads of {length} bytes");
        // Before the last read.
        space.read_of(2, 0, all - length, all);
        space.store(all / 3, 1);
        space.read_of(2, all - length, length, length);
        assert_eq!(space.write(0, all), [(2 | crate::CHANGED, all)], "{reads} reads of {length} bytes");
    }
}

#[test]
fn what_is_left_of_a_read_is_proven_only_where_its_checksum_is() {
    let mut space = Space::new(70_000);
    space.read(1, 0, 65_536);
    // In the first of eight segments.
    space.read(2, 0, 64);
    let found = space.write(0, 65_536);
    assert_eq!(found, [(2, 64), (1 | crate::UNSAMPLED, 65_536 - 64)]);
    assert_eq!(space.write(8192, 8192), [(1, 8192)]);
    space.store(20_000, 1);
    assert_eq!(space.write(16_384, 8192), [(1 | crate::UNSAMPLED, 0)]);
}

#[test]
fn two_copies_in_turn_are_told_apart() {
    let mut space = Space::new(10_000);
    for _ in 0..3 {
        space.read(7, 1000, 100);
        space.read(8, 2000, 100);
        assert_eq!((space.write(1000, 100), space.write(2000, 100)), (vec![(7, 100)], vec![(8, 100)]));
    }
}

#[test]
fn several_files_in_one_buffer_each_get_their_bytes() {
    let mut space = Space::new(20_000);
    space.read(7, 512, 2000);
    space.read(8, 3072, 3000);
    space.read(9, 6656, 3584);
    assert_eq!(space.write(0, 10_240), [(7, 2000), (8, 3000), (9, 3584)]);
}

#[test]
fn a_read_that_completes_a_short_read_shares_its_range() {
    let mut space = Space::new(20_000);
    for (start, length) in [(0, 3), (3, 2), (5, 4000), (4005, 3), (4008, 6232)] {
        space.read_of(7, start, length, 10_240 - start);
    }
    assert_eq!(space.write(0, 10_240), [(7, 10_240)]);
    assert_eq!(space.memory.ranges.iter().filter(|range| range.end > 0).count(), 1);
}

#[test]
fn a_change_in_the_first_part_of_a_completed_read_is_noticed() {
    let mut space = Space::new(20_000);
    space.read_of(7, 0, 5000, 10_240);
    space.read_of(7, 5000, 5240, 5240);
    space.store(0, 5000);
    assert_eq!(space.write(0, 10_240), [(7 | crate::CHANGED, 10_240)]);
}

#[test]
fn buffers_side_by_side_are_told_apart() {
    let mut space = Space::new(100_000);
    for round in 0..4 {
        for buffer in 0..6 {
            space.read(7, buffer * 16_384, 16_384);
        }
        for buffer in [3, 0, 1, 5, 2, 4] {
            assert_eq!(space.write(buffer * 16_384, 16_384), [(7, 16_384)], "round {round}, buffer {buffer}");
        }
    }
}

#[test]
fn adjacent_reads_share_a_range_when_there_is_no_room() {
    let mut space = Space::new(100_000);
    for piece in 0..40 {
        space.read(7, piece * 1000, 1000);
    }
    assert_eq!(
        space
            .write(0, 40_000)
            .into_iter()
            .map(|(file, bytes)| {
                assert_eq!(file, 7);
                bytes
            })
            .sum::<u64>(),
        40_000
    );
}

#[test]
fn a_write_may_continue_a_short_write() {
    let mut space = Space::new(20_000);
    space.read(7, 0, 8192);
    assert_eq!([space.write(0, 4000), space.write(4000, 4192)], [[(7, 4000)], [(7, 4192)]]);
}

#[test]
fn bytes_changed_in_place_are_marked_as_changed() {
    let mut space = Space::new(10_000);
    space.read(7, 0, 8192);
    space.store(0, 8192);
    assert_eq!(space.write(0, 8192), [(7 | crate::CHANGED, 8192)]);
}

#[test]
fn a_buffer_that_is_reused_after_a_write_has_no_source() {
    let mut space = Space::new(20_000);
    space.read(7, 0, 512);
    assert_eq!(space.write(0, 512), [(7, 512)]);
    space.store(0, 512);
    assert_eq!(space.write(0, 512), []);
}

#[test]
fn of_a_buffer_that_overlaps_a_read_by_chance_nothing_is_proven() {
    let mut space = Space::new(20_000);
    space.read(7, 1000, 8192);
    // As if two functions had used the same part of the stack.
    space.store(800, 8192);
    assert_eq!(space.write(800, 8192), [(7 | crate::UNSAMPLED, 0)]);
    space.store(800, 8192);
    assert_eq!(space.write(800, 8192), []);
}

#[test]
fn zeroes_in_memory_that_was_written_before_prove_nothing() {
    let mut space = Space::new(10_000);
    space.read(7, 0, 512);
    space.bytes.fill(0);
    space.memory.ranges[0].words.fill(0);
    space.memory.ranges[0].summed_bytes = 0;
    assert_eq!([space.write(0, 512), space.write(0, 512)], [[(7, 512)], [(7 | crate::UNSAMPLED, 0)]]);
}

#[test]
fn a_checksum_notices_a_single_changed_byte() {
    let mut space = Space::new(70_000);
    space.read(7, 0, 65_536);
    space.store(40_001, 1);
    assert_eq!(space.write(0, 65_536), [(7 | crate::CHANGED, 65_536)]);
}

#[test]
fn a_shorter_record_in_the_same_buffer_is_not_the_files_although_it_begins_alike() {
    for reads in [1, 20, 2000] {
        let mut space = Space::new(4096);
        for _ in 0..reads {
            space.read(1, 0, 2136);
        }
        space.store(8, 218);
        let found = space.write(0, 226);
        assert!(found.iter().all(|&(file, _)| file == 1 | crate::UNSAMPLED), "{reads} reads: {found:?}");
    }
}

#[test]
fn pieces_of_records_that_were_changed_between_the_samples_are_not_proven() {
    let mut space = Space::new(65_536);
    space.read(1, 0, 65_536);
    for record in 0..128 {
        space.store(record * 512 + 222, 68);
    }
    for piece in 0..4 {
        assert_eq!(space.write(piece * 16_384, 16_384), [(1 | crate::UNSAMPLED, 0)], "{piece}");
    }
}

#[test]
fn small_pieces_of_an_unchanged_buffer_are_proven_by_its_checksum() {
    let mut space = Space::new(4096);
    for _ in 0..100 {
        space.read(1, 0, 4096);
        for piece in 0..64 {
            assert_eq!(space.write(piece * 64, 64), [(1, 64)]);
        }
    }
}

#[test]
fn pieces_are_proven_up_to_the_first_segment_that_was_changed() {
    let mut space = Space::new(65_536);
    space.read(1, 0, 65_536);
    // In the fifth segment, between the sampled words.
    space.store(40_000, 1);
    for piece in 0..64 {
        let expected = if piece < 32 { (1, 1024) } else { (1 | crate::UNSAMPLED, 0) };
        assert_eq!(space.write(piece * 1024, 1024), [expected], "piece {piece}");
    }
}

#[test]
fn a_write_that_moves_a_part_is_judged_by_all_that_it_wanted() {
    let mut space = Space::new(8192);
    for _ in 0..500 {
        space.read(1, 0, 8192);
        assert_eq!(space.write_of(0, 3000, 8192), [(1, 3000)]);
        assert_eq!(space.write_of(3000, 5192, 5192), [(1, 5192)]);
    }
    assert_eq!(space.memory.reads, 500, "such writes are no reason to sample densely");
    space.read(1, 0, 8192);
    space.store(4000, 4192);
    assert!(space.write_of(0, 3000, 8192).iter().all(|&(file, _)| file != 1), "the end has changed");
}

#[test]
fn an_archive_header_stored_over_the_last_record_belongs_to_no_file() {
    let mut space = Space::new(20_000);
    space.read(7, 512, 9728);
    assert_eq!(space.write(0, 10_240), [(7, 9728)]);
    // The next record: a header, a short file, a header, the next file.
    space.store(0, 512);
    space.read(8, 512, 1000);
    space.store(2048, 512);
    space.read(9, 2560, 7680);
    assert_eq!(space.write(0, 10_240), [(8, 1000), (9, 7680)]);
}

#[test]
fn memory_that_the_kernel_overwrites_has_no_source() {
    let mut space = Space::new(10_000);
    space.read(7, 0, 8192);
    let generation = space.memory.generation;
    space.clear(0, 8192);
    assert_eq!(space.write(0, 8192), []);
    assert_ne!(space.memory.generation, generation);
}

#[test]
fn a_piece_without_a_sample_is_marked_and_the_next_reads_are_sampled_densely() {
    let mut space = Space::new(100_000);
    for _ in 0..DENSE_READS {
        space.read(7, 0, 12_000);
    }
    space.read(7, 0, 12_000);
    assert_eq!(space.memory.ranges[0].samples, 3);
    let at = (100..11_000).find(|&at| (0..3).all(|index| !space.memory.ranges[0].sample_lies_in(index, at, at + 100)));
    assert_eq!(space.write(at.expect("has one"), 100), [(7 | crate::UNSAMPLED, 100)]);
    space.read(7, 0, 12_000);
    assert_eq!(space.memory.ranges[0].samples, u32::try_from(SAMPLES).expect("fits"));
}

#[test]
fn the_oldest_range_is_given_up_when_there_is_no_room() {
    let mut space = Space::new(10_000);
    let last = u64::try_from(RANGES).expect("fits");
    for piece in 0..=last {
        space.read(1 + u32::try_from(piece).expect("fits"), piece * 100, 50);
    }
    assert_eq!((space.write(0, 50), space.write(last * 100, 50)), (vec![], vec![(1 + u32::try_from(last).expect("fits"), 50)]));
}

#[test]
fn of_memory_that_no_read_filled_everything_is_unknown() {
    let mut space = Space::new(3000);
    let is_unknown = |space: &mut Space, start, end| is_unknown(&raw mut *space.memory, start, end) != 0;
    assert!(is_unknown(&mut space, 0, 3000));
    space.read(1, 1000, 100);
    space.read(2, 2000, 100);
    for (start, end) in [(0, 1000), (1100, 2000), (2100, 3000)] {
        assert!(is_unknown(&mut space, start, end), "{start}");
        assert!(!is_unknown(&mut space, start, end + 1) || end == 3000, "{start}");
    }
    for (start, end) in [(0, 3000), (1050, 1051), (1099, 2001), (2099, 2100)] {
        assert!(!is_unknown(&mut space, start, end), "{start}");
    }
    space.clear(1000, 100);
    assert!(is_unknown(&mut space, 0, 2000), "what the kernel overwrites is in no range");
}

/// Random reads, clears and writes: a write never credits a file with more bytes than it owns there.
#[test]
fn random_operations_never_credit_a_wrong_file() {
    let mut space = Space::new(400);
    let mut owners = [0; 400];
    let mut found_bytes = 0;
    for _ in 0..100_000 {
        let (start, length) = (space.below(300), 1 + space.below(100));
        let range = usize::try_from(start).expect("fits")..usize::try_from(start + length).expect("fits");
        match space.below(8) {
            0..=2 => {
                let file = 1 + u32::try_from(space.below(3)).expect("fits");
                space.read(file, start, length);
                owners[range].fill(file);
            }
            3 => {
                space.clear(start, length);
                owners[range].fill(0);
            }
            _ => {
                for (file, bytes) in space.write(start, length) {
                    let file = file & !crate::AGAIN;
                    let there = owners[range.clone()].iter().filter(|&&owner| owner == file).count();
                    assert!(bytes <= u64::try_from(there).expect("fits"), "{bytes} of {file} in {:?}", &owners[range.clone()]);
                    found_bytes += bytes;
                }
            }
        }
        let mut extents: Vec<_> = space.memory.ranges.iter().filter(|range| range.start < range.end).collect();
        extents.sort_unstable_by_key(|range| range.low);
        assert!(extents.windows(2).all(|pair| pair[0].high <= pair[1].low), "{extents:?}");
    }
    assert!(found_bytes > 300_000, "{found_bytes}");
}

/// As above, but the program overwrites whole buffers: none of their bytes is credited to a file as unchanged.
#[test]
fn stores_over_whole_buffers_are_noticed() {
    let mut space = Space::new(10_000);
    for _ in 0..5_000 {
        let (start, length) = (space.below(1000), 8 + space.below(8000));
        space.read(7, start, length);
        assert!(space.write(start, length).iter().all(|&(file, _)| file == 7));
        space.store(start, length);
        let found = space.write(start, length);
        assert!(found.iter().all(|&(file, _)| file & crate::AGAIN == crate::CHANGED), "{found:?}");
    }
}

/// How many words each of the next reads of 4 KiB has sampled, if each is written `writes` times.
fn samples(space: &mut Space, reads: usize, writes: usize) -> Vec<u32> {
    let of_a_read = |_| {
        space.read(1, 0, 4096);
        for output in 0..writes {
            space.output = u32::try_from(output).expect("few");
            assert_eq!(space.write(0, 4096), [(1, 4096)]);
        }
        space.memory.ranges[space.last_range as usize].samples
    };
    (0..reads).map(of_a_read).collect()
}

#[test]
fn a_loop_that_lasts_is_sampled_less_and_less() {
    let mut space = Space::new(4096);
    let samples = samples(&mut space, 1100, 1);
    assert!(samples[..32].iter().all(|&samples| samples == 8), "{samples:?}");
    assert!(samples[32..1024].iter().all(|&samples| samples == 3), "{samples:?}");
    assert!(samples[1024..].iter().all(|&samples| samples == 1), "{samples:?}");
}

#[test]
fn of_bytes_that_are_written_twice_more_than_one_word_is_sampled() {
    let mut space = Space::new(4096);
    assert!(samples(&mut space, 1100, 2).iter().all(|&samples| samples >= 3));
}

#[test]
fn a_change_of_one_word_at_the_beginning_is_noticed_within_four_reads_of_a_long_loop() {
    let mut space = Space::new(4096);
    space.sums = false;
    samples(&mut space, 1100, 1);
    let found: Vec<Found> = (0..4)
        .map(|_| {
            space.read(1, 0, 4096);
            space.store(0, 8);
            space.write(0, 4096)
        })
        .collect();
    assert!(found.contains(&vec![(1 | crate::CHANGED, 4096)]), "{found:?}");
}

#[test]
fn a_change_within_each_small_record_of_two_files_in_turn_is_noticed() {
    let mut space = Space::new(2048);
    for _ in 0..50 {
        space.read(1, 0, 500);
        space.read(2, 1024, 500);
        // Between the sampled words: only a checksum shows it.
        space.store(100, 20);
        assert_eq!(space.write(0, 500), [(1 | crate::CHANGED, 500)]);
    }
}

#[test]
fn a_change_of_every_50th_read_is_noticed_though_few_reads_have_a_checksum() {
    let mut space = Space::new(8192);
    let changed = (0..10_000).filter(|read| {
        space.read(1, 0, 8192);
        if read % 50 == 7 && *read > 60 {
            space.store(3000, 2);
        }
        space.write(0, 8192) == [(1 | crate::CHANGED, 8192)]
    });
    assert!(changed.count() >= 1);
}

/// Does the same with a loop and without one, and compares what is found and what is known.
struct Twins {
    with_loop: Space,
    without: Space,
}

impl Twins {
    fn new(size: usize) -> Self {
        Self { with_loop: Space::new(size), without: Space { copy_loop: None, ..Space::new(size) } }
    }

    fn both<T: PartialEq + std::fmt::Debug>(&mut self, act: impl Fn(&mut Space) -> T) {
        assert_eq!(act(&mut self.with_loop), act(&mut self.without));
        let mut memory = self.with_loop.memory.clone();
        self.with_loop.copy_loop.expect("keeps one").end(&mut memory);
        assert!(memory == self.without.memory, "with the loop: {memory:?}\nwithout: {:?}", self.without.memory);
    }
}

#[test]
fn a_loop_of_a_task_finds_the_same_as_the_memory_and_leaves_it_the_same() {
    let mut twins = Twins::new(60_000);
    let mut random = Space::new(0);
    for _ in 0..3_000 {
        let (start, length) =
            (random.below(3) * 6000, [1, 7, 15, 16, 100, 512, 4096, 20_000][usize::try_from(random.below(8)).expect("fits")]);
        let file = 1 + u32::from(random.below(20) == 0);
        twins.both(|space| {
            // As if the loop had lasted, so that one word of each read is enough.
            space.end_loop();
            space.memory.reads = space.memory.reads.saturating_add(STEADY_READS);
        });
        for _ in 0..random.below(12) {
            match random.below(16) {
                0 => {
                    let (at, bytes) = (random.below(10_000), 1 + random.below(600));
                    twins.both(|space| space.store(start + at, bytes));
                }
                1 => twins.both(|space| space.clear(start + 64, 32)),
                2 => {
                    let (from, bytes) = (random.below(length), 1 + random.below(length));
                    twins.both(|space| space.write(start + from, bytes));
                }
                3 => twins.both(|space| space.read_of(file, start, length, length + 100)),
                4 => twins.both(|space| space.read(file, start + length, length)),
                _ => {}
            }
            twins.both(|space| space.read(file, start, length));
            twins.both(|space| space.write(start, length));
        }
    }
    assert!(twins.with_loop.rounds > 10_000, "{}", twins.with_loop.rounds);
}

#[test]
fn nearly_all_reads_and_writes_of_a_long_copy_go_on_with_the_loop() {
    let mut space = Space::new(8192);
    for _ in 0..10_000 {
        space.read(1, 0, 8192);
        assert_eq!(space.write(0, 8192), [(1, 8192)]);
    }
    // All but the first 1024 of each, and one of 64 of the others, which has a checksum.
    let most = 2 * (10_000 - 1024);
    assert!((most - most / 32..most - most / 128).contains(&space.rounds), "{} of {most}", space.rounds);
}

#[test]
fn bytes_that_a_long_loop_begins_to_change_are_marked_as_changed() {
    let mut space = Space::new(8192);
    for read in 0..2000 {
        space.read(1, 0, 512);
        if read >= 1500 {
            space.store(0, 512);
        }
        assert_eq!(space.write(0, 512), [(if read < 1500 { 1 } else { 1 | crate::CHANGED }, 512)]);
    }
}
