//! Random programs whose transfers are known by construction: a model tracks the source of each
//! byte in memory and in pipes. Proven bytes must be true to the byte, and the figures of the
//! report must add up.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::*;
use crate::{
    report::{Certainty, End, Options, Report, sample::files::Memory},
    syscall::Call,
    trace::{Ends, Input, Part, Row, Thread},
};

/// The first files are regular, the others pipes.
const REGULAR: usize = 4;
const FILES: usize = 7;
const THREADS: usize = 3;
/// Places in memory, and the bytes of each.
const PLACES: usize = 5;
const PLACE: usize = 10_000;
/// Programs for each kind of backend.
const PROGRAMS: u32 = 4000;

/// One thing that a thread does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Reads from a file to a place.
    Read {
        thread: usize,
        from: usize,
        place: usize,
        bytes: usize,
    },
    /// Writes to a file from within a place.
    Write {
        thread: usize,
        to: usize,
        place: usize,
        skip: usize,
        bytes: usize,
    },
    /// Copies memory, which no tracer sees. Samples show that the bytes at the target were changed.
    Copy {
        from: usize,
        to: usize,
        bytes: usize,
    },
    /// A call fills a place with bytes of no file.
    Fill { place: usize, bytes: usize },
    /// One call copies from one file to another.
    Splice {
        thread: usize,
        from: usize,
        to: usize,
        bytes: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (thread, file, place) = (0..THREADS, 0..FILES, 0..PLACES);
    let size = prop_oneof![Just(4096_usize), Just(1000), 1_usize..9000];
    let ends = (thread, file.clone(), file);
    prop_oneof![
        5 => (ends.clone(), place.clone(), size.clone())
            .prop_map(|((thread, from, _), place, bytes)| Step::Read { thread, from, place, bytes }),
        5 => (ends.clone(), place.clone(), 0_usize..500, size.clone())
            .prop_map(|((thread, to, _), place, skip, bytes)| Step::Write { thread, to, place, skip, bytes }),
        1 => (place.clone(), place.clone(), size.clone()).prop_map(|(from, to, bytes)| Step::Copy { from, to, bytes }),
        1 => (place, size.clone()).prop_map(|(place, bytes)| Step::Fill { place, bytes }),
        2 => (ends, size).prop_map(|((thread, from, to), bytes)| Step::Splice { thread, from, to, bytes }),
    ]
}

/// The file that a byte was last read from, if any.
type Owner = Option<usize>;

/// Numbers of bytes by source and destination.
type Moved = BTreeMap<(usize, usize), u64>;

/// What really happens, and what a tracer sees of it.
struct World {
    sees_memory: bool,
    memory: Vec<Owner>,
    is_changed: Vec<bool>,
    seen: Rc<RefCell<Memory>>,
    pipes: BTreeMap<usize, Vec<Owner>>,
    threads: [Seen; THREADS],
    files: Vec<FileId>,
    /// Bytes that one call moved, or a read and a write.
    legs: Moved,
    /// Bytes that came out of a pipe, by their source when they went in.
    ways: Moved,
    written: BTreeMap<usize, u64>,
    order: u64,
}

/// What a tracer sees of a thread.
#[derive(Default)]
struct Seen {
    unwritten_read: zc_ebpf::UnwrittenRead,
    rows: BTreeMap<(&'static str, Ends), Row>,
    parts: BTreeMap<(Input, FileId), Part>,
}

fn count(length: usize) -> u64 {
    u64::try_from(length).expect("fits")
}

impl World {
    fn new(sees_memory: bool) -> (Self, Scene) {
        let mut scene = Scene::new();
        scene.trace.sees_memory = sees_memory;
        let file = |index| {
            if index < REGULAR {
                scene.regular(&format!("file{index}"))
            } else {
                scene.pipe()
            }
        };
        let files = (0..FILES).map(file).collect();
        let world = Self {
            sees_memory,
            memory: vec![None; PLACES * PLACE],
            is_changed: vec![false; PLACES * PLACE],
            seen: Rc::default(),
            pipes: BTreeMap::new(),
            threads: Default::default(),
            files,
            legs: Moved::new(),
            ways: Moved::new(),
            written: BTreeMap::new(),
            order: 0,
        };
        (world, scene)
    }

    /// The bytes that come out of a file: as many as asked for, or as many as the pipe holds.
    fn take(&mut self, from: usize, bytes: usize) -> Vec<Owner> {
        if from < REGULAR {
            return vec![None; bytes];
        }
        let pipe = self.pipes.entry(from).or_default();
        pipe.drain(..bytes.min(pipe.len())).collect()
    }

    fn bring(&mut self, to: usize, bytes: &[Owner]) {
        *self.written.entry(to).or_default() += count(bytes.len());
        if to >= REGULAR {
            self.pipes.entry(to).or_default().extend(bytes);
        }
        for from in bytes.iter().flatten() {
            *self.legs.entry((*from, to)).or_default() += 1;
        }
    }

    fn fill(&mut self, file: Owner, start: usize, bytes: usize) {
        self.memory[start..start + bytes].fill(file);
        self.is_changed[start..start + bytes].fill(false);
        let file = file.map(|file| self.files[file]);
        self.seen
            .borrow_mut()
            .fill(file, count(start), count(bytes));
    }

    fn row(&mut self, thread: usize, name: &'static str, ends: Ends, bytes: usize) -> &mut Row {
        self.order += 1;
        let order = self.order;
        let new = || Row {
            order: Some(order),
            moved_order: Some(order),
            ..Row::new(Call::native(name), ends)
        };
        let row = self.threads[thread]
            .rows
            .entry((name, ends))
            .or_insert_with(new);
        row.calls += 1;
        row.bytes = row.bytes.map(|sum| sum + count(bytes));
        row
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read {
                thread,
                from,
                place,
                bytes,
            } => {
                let got = self.take(from, bytes).len();
                if got > 0 {
                    let file = self.files[from];
                    self.row(
                        thread,
                        "read",
                        Ends {
                            input: Some(Input::Named(file)),
                            output: None,
                        },
                        got,
                    );
                    self.fill(Some(from), place * PLACE, got);
                    self.threads[thread]
                        .unwritten_read
                        .read(file.0 + 1, count(got));
                }
            }
            Step::Write {
                thread,
                to,
                place,
                skip,
                bytes,
            } => self.write(thread, to, place * PLACE + skip, bytes),
            Step::Copy { from, to, bytes } if from != to => {
                let copied = self.memory[from * PLACE..][..bytes].to_vec();
                self.memory[to * PLACE..][..bytes].copy_from_slice(&copied);
                self.is_changed[to * PLACE..][..bytes].fill(true);
            }
            Step::Fill { place, bytes } => self.fill(None, place * PLACE, bytes),
            Step::Splice {
                thread,
                from,
                to,
                bytes,
            } if from != to => {
                let taken = self.take(from, bytes);
                if !taken.is_empty() {
                    let name = if from.max(to) < REGULAR {
                        "sendfile"
                    } else {
                        "splice"
                    };
                    let ends = Ends {
                        input: Some(Input::Named(self.files[from])),
                        output: Some(self.files[to]),
                    };
                    self.row(thread, name, ends, taken.len());
                    self.bring(to, &vec![Some(from); taken.len()]);
                    for owner in taken.into_iter().flatten() {
                        *self.ways.entry((owner, to)).or_default() += 1;
                    }
                }
            }
            // Source and destination are the same.
            Step::Copy { .. } | Step::Splice { .. } => {}
        }
    }

    fn write(&mut self, thread: usize, to: usize, start: usize, bytes: usize) {
        let range = start..start + bytes;
        let owners = self.memory[range.clone()].to_vec();
        self.bring(to, &owners);
        let output = self.files[to];
        let found = if self.sees_memory {
            self.seen.borrow().find(count(start), count(bytes))
        } else {
            Vec::new()
        };
        let is_changed = self.is_changed[range].contains(&true);
        let input = |file| {
            if is_changed {
                Input::ByChangedBuffer(file)
            } else {
                Input::ByBuffer(file)
            }
        };
        let unwritten_read = &mut self.threads[thread].unwritten_read;
        let by_order = unwritten_read
            .source()
            .checked_sub(1)
            .map(|file| Input::ByOrder(FileId(file)));
        let covered = unwritten_read.write(count(bytes), u32::try_from(to + 1).expect("few files"));
        let (from, paired) = found.first().map_or((by_order, covered), |&(file, held)| {
            (Some(input(file)), held)
        });
        let row = self.row(
            thread,
            "write",
            Ends {
                input: from,
                output: Some(output),
            },
            bytes,
        );
        row.paired_bytes += paired;
        row.checked_calls += u64::from(!found.is_empty());
        for &(file, bytes) in found.iter().skip(1) {
            let from = input(file);
            let none = Part {
                call: Call::native("write"),
                from,
                to: output,
                bytes: 0,
                calls: 0,
                checked_calls: 0,
            };
            let part = self.threads[thread]
                .parts
                .entry((from, output))
                .or_insert(none);
            (part.bytes, part.calls, part.checked_calls) =
                (part.bytes + bytes, part.calls + 1, part.checked_calls + 1);
        }
    }

    /// The report on what a tracer sees. `from_trace` checks that its figures add up.
    fn report(&mut self, mut scene: Scene) -> Report {
        let process = scene.threads("program", vec![Vec::new(); THREADS]);
        for (thread, seen) in process
            .threads
            .iter_mut()
            .zip(std::mem::take(&mut self.threads))
        {
            let (rows, parts) = (
                seen.rows.into_values().collect(),
                seen.parts.into_values().collect(),
            );
            *thread = Thread {
                rows,
                parts,
                ..Thread::default()
            };
        }
        Report::from_trace(&scene.trace, &Options::default())
    }
}

fn number(end: &End) -> usize {
    usize::try_from(end.inode.expect("every file has one").number).expect("fits") - 100
}

/// Compares the report on a program with the truth. Returns the number of proven bytes.
fn compare(steps: &[Step], sees_memory: bool) -> Result<u64, TestCaseError> {
    let (mut world, scene) = World::new(sees_memory);
    for &step in steps {
        world.step(step);
    }
    let report = world.report(scene);
    let mut proven = Moved::new();
    for transfer in &report.transfers {
        let ends = (number(&transfer.from), number(&transfer.to));
        if transfer.hops.is_empty() {
            *proven.entry(ends).or_default() += transfer.proven_bytes.expect("every call tells");
        }
        for hop in &transfer.hops {
            *proven
                .entry((number(&hop.from), number(&hop.to)))
                .or_default() += hop.proven_bytes.expect("every call tells");
        }
        let way = world.ways.get(&ends).copied().unwrap_or(0);
        let is_true = transfer.hops.is_empty() || transfer.proven_bytes <= Some(way);
        prop_assert!(is_true, "of {way} bytes from end to end: {transfer:?}");
        let is_sure =
            transfer.certainty == Certainty::Inferred || transfer.bytes == transfer.proven_bytes;
        prop_assert!(is_sure, "{transfer:?}");
    }
    for (ends, &bytes) in &proven {
        let truth = world.legs.get(ends).copied().unwrap_or(0);
        prop_assert!(
            bytes <= truth,
            "{bytes} bytes are said to be proven of {truth}, {ends:?}"
        );
    }
    // If nothing is hidden from the tracer, everything is proven. Bytes that go back to their own
    // file are an update, not a transfer.
    if sees_memory && !steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
        proven.retain(|(from, to), bytes| *bytes > 0 && from != to);
        let legs: BTreeMap<_, _> = world
            .legs
            .iter()
            .map(|(ends, bytes)| (*ends, *bytes))
            .filter(|((a, b), _)| a != b)
            .collect();
        prop_assert_eq!(&proven, &legs);
    }
    // A process that has read nothing writes its own bytes, so there is nothing to compare.
    let has_read = report.processes[0]
        .syscalls
        .iter()
        .any(|call| call.name == "read");
    for (to, &written) in world
        .written
        .iter()
        .filter(|_| report.transfers_exact && has_read)
    {
        let all: u64 = proven
            .iter()
            .filter(|((from, end), _)| end == to && from != to)
            .map(|(_, bytes)| bytes)
            .sum();
        let updated = world.legs.get(&(*to, *to)).copied().unwrap_or(0);
        prop_assert_eq!(all + updated, written, "all transfers are said to be exact");
    }
    Ok(proven.values().sum())
}

#[test]
fn proven_bytes_are_true() {
    let seed = std::env::var("ZC_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(rand_seed);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    println!("seed {seed}: ZC_SEED={seed} runs the same programs again");
    for sees_memory in [true, false] {
        let config = Config {
            cases: PROGRAMS,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let compared = std::cell::Cell::new(0_u64);
        let result = runner.run(&vec(step(), 1..60), |steps| {
            compared.set(compared.get() + compare(&steps, sees_memory)?);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        println!(
            "{PROGRAMS} programs, {} bytes proven, sees memory: {sees_memory}",
            compared.get()
        );
    }
}

fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("is after 1970");
    u64::from(now.subsec_nanos()) << 20 ^ now.as_secs()
}
