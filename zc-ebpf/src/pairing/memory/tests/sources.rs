//! Which file a write has its bytes from, and how much of that is proven.

use std::vec::Vec;

use super::*;

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
    assert_eq!(
        [space.write(0, 4096), space.write(4096, 4096)],
        [[(7, 4096)], [(7, 4096)]]
    );
    space.output = 101;
    assert_eq!(
        [space.write(0, 8192), space.write(4096, 4096)],
        [[(7, 8192)], [(7 | crate::AGAIN, 4096)]]
    );
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
        assert_eq!(
            space.write(0, all),
            [(2 | crate::CHANGED, all)],
            "{reads} reads of {length} bytes"
        );
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
        assert_eq!(
            (space.write(1000, 100), space.write(2000, 100)),
            (vec![(7, 100)], vec![(8, 100)])
        );
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
    assert_eq!(
        space
            .memory
            .ranges
            .iter()
            .filter(|range| range.end > 0)
            .count(),
        1
    );
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
            assert_eq!(
                space.write(buffer * 16_384, 16_384),
                [(7, 16_384)],
                "round {round}, buffer {buffer}"
            );
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
    assert_eq!(
        [space.write(0, 4000), space.write(4000, 4192)],
        [[(7, 4000)], [(7, 4192)]]
    );
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
    assert_eq!(
        [space.write(0, 512), space.write(0, 512)],
        [[(7, 512)], [(7 | crate::UNSAMPLED, 0)]]
    );
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
        assert!(
            found.iter().all(|&(file, _)| file == 1 | crate::UNSAMPLED),
            "{reads} reads: {found:?}"
        );
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
        assert_eq!(
            space.write(piece * 16_384, 16_384),
            [(1 | crate::UNSAMPLED, 0)],
            "{piece}"
        );
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
        let expected = if piece < 32 {
            (1, 1024)
        } else {
            (1 | crate::UNSAMPLED, 0)
        };
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
    assert_eq!(
        space.memory.reads, 500,
        "such writes are no reason to sample densely"
    );
    space.read(1, 0, 8192);
    space.store(4000, 4192);
    assert!(
        space
            .write_of(0, 3000, 8192)
            .iter()
            .all(|&(file, _)| file != 1),
        "the end has changed"
    );
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
    let at = (100..11_000).find(|&at| {
        (0..3).all(|index| !space.memory.ranges[0].sample_lies_in(index, at, at + 100))
    });
    assert_eq!(
        space.write(at.expect("has one"), 100),
        [(7 | crate::UNSAMPLED, 100)]
    );
    space.read(7, 0, 12_000);
    assert_eq!(
        space.memory.ranges[0].samples,
        u32::try_from(SAMPLES).expect("fits")
    );
}

#[test]
fn the_oldest_range_is_given_up_when_there_is_no_room() {
    let mut space = Space::new(10_000);
    let last = u64::try_from(RANGES).expect("fits");
    for piece in 0..=last {
        space.read(1 + u32::try_from(piece).expect("fits"), piece * 100, 50);
    }
    assert_eq!(
        (space.write(0, 50), space.write(last * 100, 50)),
        (vec![], vec![(1 + u32::try_from(last).expect("fits"), 50)])
    );
}

#[test]
fn of_memory_that_no_read_filled_everything_is_unknown() {
    let mut space = Space::new(3000);
    let is_unknown =
        |space: &mut Space, start, end| is_unknown(&raw mut *space.memory, start, end) != 0;
    assert!(is_unknown(&mut space, 0, 3000));
    space.read(1, 1000, 100);
    space.read(2, 2000, 100);
    for (start, end) in [(0, 1000), (1100, 2000), (2100, 3000)] {
        assert!(is_unknown(&mut space, start, end), "{start}");
        assert!(
            !is_unknown(&mut space, start, end + 1) || end == 3000,
            "{start}"
        );
    }
    for (start, end) in [(0, 3000), (1050, 1051), (1099, 2001), (2099, 2100)] {
        assert!(!is_unknown(&mut space, start, end), "{start}");
    }
    space.clear(1000, 100);
    assert!(
        is_unknown(&mut space, 0, 2000),
        "what the kernel overwrites is in no range"
    );
}

/// Random reads, clears and writes: a write never credits a file with more bytes than it owns
/// there.
#[test]
fn random_operations_never_credit_a_wrong_file() {
    let mut space = Space::new(400);
    let mut owners = [0; 400];
    let mut found_bytes = 0;
    for _ in 0..100_000 {
        let (start, length) = (space.below(300), 1 + space.below(100));
        let range =
            usize::try_from(start).expect("fits")..usize::try_from(start + length).expect("fits");
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
                    let there = owners[range.clone()]
                        .iter()
                        .filter(|&&owner| owner == file)
                        .count();
                    assert!(
                        bytes <= u64::try_from(there).expect("fits"),
                        "{bytes} of {file} in {:?}",
                        &owners[range.clone()]
                    );
                    found_bytes += bytes;
                }
            }
        }
        let mut extents: Vec<_> = space
            .memory
            .ranges
            .iter()
            .filter(|range| range.start < range.end)
            .collect();
        extents.sort_unstable_by_key(|range| range.low);
        assert!(
            extents.windows(2).all(|pair| pair[0].high <= pair[1].low),
            "{extents:?}"
        );
    }
    assert!(found_bytes > 300_000, "{found_bytes}");
}

/// As above, but the program overwrites whole buffers: none of their bytes is credited to a file as
/// unchanged.
#[test]
fn stores_over_whole_buffers_are_noticed() {
    let mut space = Space::new(10_000);
    for _ in 0..5_000 {
        let (start, length) = (space.below(1000), 8 + space.below(8000));
        space.read(7, start, length);
        assert!(
            space
                .write(start, length)
                .iter()
                .all(|&(file, _)| file == 7)
        );
        space.store(start, length);
        let found = space.write(start, length);
        assert!(
            found
                .iter()
                .all(|&(file, _)| file & crate::AGAIN == crate::CHANGED),
            "{found:?}"
        );
    }
}
