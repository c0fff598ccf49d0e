//! Tests the ranges of the kernel side, and the loops that tasks keep of them, against memory in
//! which the owner of each byte is known.

extern crate std;

mod loops;
mod sources;

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

/// The sources of a write: `(file, bytes)`. The file may have [`CHANGED`](crate::CHANGED) or
/// [`UNSAMPLED`](crate::UNSAMPLED).
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
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    /// The program itself stores random bytes, which the kernel side does not see.
    fn store(&mut self, start: u64, length: u64) {
        for at in start..start + length {
            self.bytes[usize::try_from(at).expect("fits")] =
                1 + u8::try_from(self.below(255)).expect("a byte");
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
        let index = fill_range(
            &raw mut *self.memory,
            self.last_range,
            file,
            start,
            start + length,
        );
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

    /// For each segment, a checksum of its bytes: of all of them, also where the kernel side takes
    /// only blocks.
    fn sums(&self, range: &Range) -> [u16; SEGMENTS] {
        let mut sums = [7; SEGMENTS];
        for place in 0..u64::from(range.summed_bytes) {
            let sum = &mut sums[range
                .summed_blocks
                .segment(range.summed_bytes.into(), place)
                as usize];
            *sum = (*sum
                ^ u16::from(self.bytes[usize::try_from(range.origin + place).expect("fits")]))
            .wrapping_mul(0x79b1);
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
        let Some((first, last)) = range.segments(start, end) else {
            return Sum::Lost;
        };
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
            let words = (0..range.samples).filter(lies_in).map(|index| {
                compared(
                    range.words[index as usize],
                    self.word(range.sampled_at(index)),
                    range.mask(),
                )
            });
            let mut compared = Comparison::unpack(words.sum());
            compared.sum = self.compare_sum(index, start, judged_end);
            let range = &mut self.memory.ranges[index];
            let is_whole = start == written && end == written + length;
            let verdict = range.judge(start, judged_end, is_whole, compared);
            let (file, bytes) = match verdict {
                Verdict::Same if range.writes_again(start, self.output) => {
                    (range.file | crate::AGAIN, end - start)
                }
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
