//! Properties that hold whatever a program does: no transfer is invented, and no byte is counted
//! twice.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::report::End;

const FILES: u32 = 6;

/// One thing that a thread does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Reads from a file to a place in memory: file, bytes, place.
    Read(u32, u64, u64),
    /// Writes to a file from a place in memory: file, bytes, place.
    Write(u32, u64, u64),
    Copy(&'static str, u32, u32, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let file = 0..FILES;
    // Few sizes, so that they often agree.
    let size = prop_oneof![Just(0), Just(4096), Just(8192), 1_u64..20_000];
    // Close enough to each other to overlap.
    let place = (1_u64..5).prop_map(|place| place * 6000);
    let name = prop_oneof![Just("splice"), Just("sendfile"), Just("copy_file_range")];
    let step = prop_oneof![
        4 => (file.clone(), size.clone(), place.clone()).prop_map(|(file, size, place)| Step::Read(file, size, place)),
        4 => (file.clone(), size.clone(), place).prop_map(|(file, size, place)| Step::Write(file, size, place)),
        1 => (name, file.clone(), file, size).prop_map(|(name, from, to, size)| Step::Copy(name, from, to, size)),
    ];
    vec(step, 0..60)
}

/// The bytes that went out of each file and into it, by inode.
type Totals = BTreeMap<u64, [u64; 2]>;

/// A scene with several files. Those with odd numbers are pipes.
fn scene() -> (Scene, Vec<FileId>) {
    let mut scene = Scene::new();
    let files = (0..FILES)
        .map(|index| {
            if index % 2 == 1 {
                scene.pipe()
            } else {
                scene.regular(&index.to_string())
            }
        })
        .collect();
    (scene, files)
}

fn run(threads: &[Vec<Step>], sees_memory: bool) -> (Scene, Totals) {
    let (mut scene, files) = scene();
    let file = |index: u32| files[usize::try_from(index).expect("fits")];
    let mut totals = Totals::new();
    let mut moved = |index: u32, way: usize, bytes: u64| {
        totals.entry(100 + u64::from(index)).or_default()[way] += bytes
    };
    let mut rows = Vec::new();
    for steps in threads {
        let mut thread = if sees_memory {
            Loop::seen()
        } else {
            Loop::default()
        };
        let mut copies = Vec::new();
        for (order, &step) in (100..).zip(steps) {
            match step {
                Step::Read(from, bytes, place) => {
                    thread.read_to(place, file(from), bytes);
                    moved(from, 0, bytes);
                }
                Step::Write(to, bytes, place) => {
                    thread.write_from(place, file(to), bytes);
                    moved(to, 1, bytes);
                }
                Step::Copy(name, from, to, bytes) => {
                    copies.push(copy(name, file(from), file(to), 1, bytes).at(order));
                    moved(from, 0, bytes);
                    moved(to, 1, bytes);
                }
            }
        }
        rows.push(thread.rows().into_iter().chain(copies).collect());
    }
    scene.threads("program", rows);
    (scene, totals)
}

fn inode(end: &End) -> u64 {
    end.inode.expect("every file has one").number
}

proptest! {
    #[test]
    fn no_byte_is_invented_or_counted_twice(threads in vec(steps(), 1..4), sees_memory in any::<bool>()) {
        let (scene, totals) = run(&threads, sees_memory);
        let analysis = analyse(&scene.trace);
        let process = &analysis.processes[0];
        let mut found = Totals::new();
        for transfer in &process.transfers {
            let bytes = transfer.bytes.expect("every call tells");
            found.entry(inode(&transfer.from)).or_default()[0] += bytes;
            found.entry(inode(&transfer.to)).or_default()[1] += bytes;
        }
        for (way, shares) in [&process.unattributed.read, &process.unattributed.written].into_iter().enumerate() {
            for share in shares {
                let bytes = share.bytes.expect("every call tells");
                found.entry(inode(share.file.as_ref().expect("is known"))).or_default()[way] += bytes;
            }
        }
        for (file, found) in &found {
            let all = totals[file];
            prop_assert!(found[1] <= all[1], "{file}: {found:?} of {all:?}");
        }
        // All bytes of a regular file are in a transfer or unattributed; those of a source several
        // times if they were written several times. The bytes of a pipe may be inside a transfer,
        // as a hop.
        for (file, all) in totals.iter().filter(|(file, _)| *file % 2 == 0) {
            let found = found.get(file).copied().unwrap_or_default();
            prop_assert!(found[0] >= all[0] && found[1] == all[1], "{file}: {found:?} of {all:?}");
        }
    }

    /// Every write is at most half as long as the read before it, and no sum of writes equals a sum
    /// of reads.
    #[test]
    fn unbalanced_reads_and_writes_are_not_a_transfer(steps in vec((0..FILES, 0..FILES, 1_u64..100), 1..80)) {
        let (mut scene, files) = scene();
        let file = |index: u32| files[usize::try_from(index).expect("fits")];
        let mut thread = Loop::default();
        for (from, to, thousands) in steps {
            thread.read(file(from), thousands * 1000);
            thread.write(file(to), thousands * 500 - 499);
        }
        scene.process("program", thread.rows());
        let analysis = analyse(&scene.trace);
        prop_assert!(analysis.processes[0].transfers.is_empty(), "{:?}", analysis.processes[0].transfers);
    }

    /// A real loop is found, whatever its pieces are and whatever else was read before it.
    #[test]
    fn a_copy_is_a_transfer_whatever_its_pieces(pieces in vec(1_u64..100_000, 1..50), before in vec(1_u64..5000, 0..5)) {
        let (mut scene, files) = scene();
        let mut thread = Loop::default();
        for bytes in before {
            thread.read(files[4], bytes);
        }
        for &bytes in &pieces {
            thread.read(files[0], bytes);
            // Like short writes.
            thread.write(files[2], bytes / 3);
            thread.write(files[2], bytes - bytes / 3);
        }
        // strace shows the first bytes, and few small calls are a loop only if these are the same.
        let first_bytes = FirstBytes::of(b"the same bytes");
        scene.process("program", thread.rows().into_iter().map(|row| Row { first_bytes, ..row }).collect());
        let bytes = pieces.iter().sum();
        prop_assert_eq!(transfers(&scene), one("0", "2", Api::ReadWrite, bytes));
    }
}
