//! Properties that hold whatever a program does: every observed byte really came from there, no
//! written byte has two sources, and what is written adds up.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::report::sample::files::Memory;

/// The first files are regular, the others pipes.
const REGULAR: usize = 4;
const FILES: usize = 7;
const THREADS: usize = 3;
/// Places in memory, and the bytes of each. Sizes beyond reach into the next one.
const PLACES: u64 = 5;
const PLACE: u64 = 6000;

/// One thing that a thread does.
#[derive(Debug, Clone, Copy)]
enum RandomStep {
    Read {
        thread: usize,
        from: usize,
        start: u64,
        bytes: u64,
    },
    Write {
        thread: usize,
        to: usize,
        start: u64,
        bytes: u64,
        is_changed: bool,
    },
    Copy {
        from: usize,
        to: usize,
        bytes: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let (thread, file) = (0..THREADS, 0..FILES);
    let size = prop_oneof![Just(0_u64), Just(4096), Just(8192), 1_u64..9000];
    let start = (0..PLACES, prop_oneof![Just(0), 0_u64..500])
        .prop_map(|(place, skip)| place * PLACE + skip);
    let one = (thread, file.clone(), start, size.clone());
    let step = prop_oneof![
        5 => one.clone().prop_map(|(thread, from, start, bytes)| RandomStep::Read { thread, from, start, bytes }),
        5 => (one, prop::bool::weighted(0.1)).prop_map(|((thread, to, start, bytes), is_changed)| {
            RandomStep::Write { thread, to, start, bytes, is_changed }
        }),
        1 => (file.clone(), file, size).prop_map(|(from, to, bytes)| RandomStep::Copy { from, to, bytes }),
    ];
    vec(step, 0..80)
}

/// Bytes by source and destination, as indices of files.
type Moved = BTreeMap<(usize, usize), u64>;

/// A program that does this, and what really went from file to file by calls and buffers.
fn run(steps: &[RandomStep]) -> (Scene, Moved) {
    let mut scene = Scene::new();
    let files: Vec<FileId> = (0..FILES)
        .map(|index| {
            if index < REGULAR {
                scene.regular(&index.to_string())
            } else {
                scene.pipe()
            }
        })
        .collect();
    let shared = Rc::new(RefCell::new(Memory::default()));
    let mut threads: Vec<Loop> = (0..THREADS).map(|_| Loop::sharing(&shared)).collect();
    let size = usize::try_from((PLACES + 2) * PLACE).expect("fits");
    let mut memory: Vec<Option<usize>> = vec![None; size];
    let mut moved = Moved::new();
    let mut copies = Vec::new();
    let range = |start: u64, bytes: u64| {
        let start = usize::try_from(start).expect("fits");
        start..start + usize::try_from(bytes).expect("fits")
    };
    for &step in steps {
        match step {
            RandomStep::Read {
                thread,
                from,
                start,
                bytes,
            } => {
                threads[thread].read_to(start, files[from], bytes);
                memory[range(start, bytes)].fill(Some(from));
            }
            RandomStep::Write {
                thread,
                to,
                start,
                bytes,
                is_changed,
            } => {
                threads[thread].write_if(start, files[to], bytes, is_changed);
                for from in memory[range(start, bytes)].iter().flatten() {
                    *moved.entry((*from, to)).or_default() += u64::from(!is_changed);
                }
            }
            RandomStep::Copy { from, to, bytes } => {
                copies.push(copy("splice", files[from], files[to], 1, bytes));
                *moved.entry((from, to)).or_default() += bytes;
            }
        }
    }
    let process = scene.threads("program", Vec::new());
    process.threads = threads.into_iter().map(Loop::thread).collect();
    process.threads[0].rows.extend(copies);
    (scene, moved)
}

/// The index of the file of an end.
fn index(end: &End) -> usize {
    let inode = end.inode.expect("every file has one").number;
    usize::try_from(inode - 100).expect("fits")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The report is checked when it is made: what was written adds up.
    #[test]
    fn observed_bytes_are_those_that_really_moved(steps in steps()) {
        let (scene, mut moved) = run(&steps);
        moved.retain(|_, bytes| *bytes > 0);
        let mut observed = Moved::new();
        let found = found(&scene);
        let whole = found.iter().filter(|one| one.hops.is_empty());
        let whole = whole.map(|one| (&one.from, &one.to, one.bytes, one.certainty));
        let hops = found.iter().flat_map(|one| &one.hops);
        let hops = hops.map(|hop| (&hop.from, &hop.to, hop.bytes, hop.certainty));
        for (from, to, bytes, certainty) in whole.chain(hops) {
            if certainty == Certainty::Observed {
                *observed.entry((index(from), index(to))).or_default() += bytes.expect("calls tell");
            }
        }
        observed.retain(|_, bytes| *bytes > 0);
        prop_assert_eq!(observed, moved);
    }

    /// A real loop is found, whatever its pieces are and whatever else was read before it.
    #[test]
    fn a_copy_is_a_transfer_whatever_its_pieces(
        pieces in vec(1_u64..100_000, 1..50),
        before in vec(1_u64..5000, 0..5),
        sees_memory in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        let [from, to, other] = ["in", "out", "other"].map(|name| scene.regular(name));
        let mut thread = if sees_memory { Loop::seen() } else { Loop::default() };
        for bytes in before {
            thread.read(other, bytes);
        }
        for &bytes in &pieces {
            thread.read(from, bytes);
            thread.write(to, bytes);
        }
        scene.process("program", thread.rows());
        prop_assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, pieces.iter().sum()));
    }
}
