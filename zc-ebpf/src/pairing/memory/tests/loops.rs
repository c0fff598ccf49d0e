//! How reads of long loops are sampled, and the loops that tasks keep of them.

use std::{vec, vec::Vec};

use super::*;

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
    assert!(
        samples[..32].iter().all(|&samples| samples == 8),
        "{samples:?}"
    );
    assert!(
        samples[32..1024].iter().all(|&samples| samples == 3),
        "{samples:?}"
    );
    assert!(
        samples[1024..].iter().all(|&samples| samples == 1),
        "{samples:?}"
    );
}

#[test]
fn of_bytes_that_are_written_twice_more_than_one_word_is_sampled() {
    let mut space = Space::new(4096);
    assert!(
        samples(&mut space, 1100, 2)
            .iter()
            .all(|&samples| samples >= 3)
    );
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
    assert!(
        found.contains(&vec![(1 | crate::CHANGED, 4096)]),
        "{found:?}"
    );
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
        Self {
            with_loop: Space::new(size),
            without: Space {
                copy_loop: None,
                ..Space::new(size)
            },
        }
    }

    fn both<T: PartialEq + std::fmt::Debug>(&mut self, act: impl Fn(&mut Space) -> T) {
        assert_eq!(act(&mut self.with_loop), act(&mut self.without));
        let mut memory = self.with_loop.memory.clone();
        self.with_loop
            .copy_loop
            .expect("keeps one")
            .end(&mut memory);
        assert!(
            memory == self.without.memory,
            "with the loop: {memory:?}\nwithout: {:?}",
            self.without.memory
        );
    }
}

#[test]
fn a_loop_of_a_task_finds_the_same_as_the_memory_and_leaves_it_the_same() {
    let mut twins = Twins::new(60_000);
    let mut random = Space::new(0);
    for _ in 0..3_000 {
        let (start, length) = (
            random.below(3) * 6000,
            [1, 7, 15, 16, 100, 512, 4096, 20_000][usize::try_from(random.below(8)).expect("fits")],
        );
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
    assert!(
        twins.with_loop.rounds > 10_000,
        "{}",
        twins.with_loop.rounds
    );
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
    assert!(
        (most - most / 32..most - most / 128).contains(&space.rounds),
        "{} of {most}",
        space.rounds
    );
}

#[test]
fn bytes_that_a_long_loop_begins_to_change_are_marked_as_changed() {
    let mut space = Space::new(8192);
    for read in 0..2000 {
        space.read(1, 0, 512);
        if read >= 1500 {
            space.store(0, 512);
        }
        assert_eq!(
            space.write(0, 512),
            [(if read < 1500 { 1 } else { 1 | crate::CHANGED }, 512)]
        );
    }
}
