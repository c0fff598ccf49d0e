//! The record of which addresses a random program's calls used, which the program writes and the
//! tests read; and random numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Lengths of the source files. `s8` has only zeroes, `s9` is half zeroes.
pub const SOURCES: [usize; 10] = [
    0, 1, 100, 4096, 20_000, 70_001, 200_000, 30_000, 30_000, 50_000,
];

/// How a call that wrote bytes got them from a file: from a buffer that a read filled.
pub const BUFFER: &str = "buffer";

/// From a mapping.
pub const MAPPING: &str = "mapping";

/// The thread wrote as many as it had read last, with the same first bytes.
pub const SEQUENCE: &str = "sequence";

/// Bytes that one process wrote to a file and that came from another file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MovedBytes {
    /// The process.
    pub pid: u32,
    /// A file of the working directory by its name, a pipe or socket as `ino:NUMBER`.
    pub from: String,
    /// Likewise.
    pub to: String,
    /// [`BUFFER`], [`MAPPING`], [`SEQUENCE`], or the call that names both files.
    pub how: String,
    /// How many, and what was done with them.
    pub sums: Sums,
}

/// Sums of calls that wrote bytes of one file to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// All bytes that were the file's by their addresses.
    pub bytes: u64,
    /// Those that a tracer sees within the limits that it documents.
    pub seen: u64,
    /// Those that had not been written there since they were read.
    pub once: u64,
    /// Those that were as they had been read.
    pub intact: u64,
    /// Those for which both is true.
    pub once_intact: u64,
    /// The bytes of adjacent memory of which the program had changed some, and of which some had not
    /// been written there since they were read.
    pub changed: u64,
    /// The same, where some had been written there.
    pub other_use: u64,
    /// How many calls wrote them.
    pub calls: u64,
}

impl Sums {
    /// Adds other calls.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.seen += other.seen;
        self.once += other.once;
        self.intact += other.intact;
        self.once_intact += other.once_intact;
        self.changed += other.changed;
        self.other_use += other.other_use;
        self.calls += other.calls;
    }
}

/// What one process read from a file, or wrote to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UsedBytes {
    /// The process.
    pub pid: u32,
    /// The file, as in [`MovedBytes::from`].
    pub file: String,
    /// What its calls moved.
    pub sums: UsedSums,
}

/// What calls moved that read from one file, or wrote to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedSums {
    /// How many bytes.
    pub bytes: u64,
    /// By how many calls that moved some.
    pub calls: u64,
    /// How many bytes went to or from the program's memory.
    pub memory_bytes: u64,
    /// By how many calls.
    pub memory_calls: u64,
    /// The number of the first of these, and the first bytes that it moved.
    pub first: Option<(u32, Vec<u8>)>,
}

impl UsedSums {
    /// Adds other calls.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.calls += other.calls;
        self.memory_bytes += other.memory_bytes;
        self.memory_calls += other.memory_calls;
        let firsts = [&self.first, &other.first].into_iter().flatten();
        self.first = firsts.min_by_key(|(number, _)| *number).cloned();
    }
}

/// The record of one program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Truth {
    /// The seed that the program was generated from.
    pub seed: u64,
    /// All processes, the first one first.
    pub pids: Vec<u32>,
    /// The processes that made calls after which zctrace forgets their whole memory.
    pub forgetful: Vec<u32>,
    /// Those that used more ranges of memory at a time than zctrace remembers.
    pub crowded: Vec<u32>,
    /// What moved from file to file.
    pub moved: Vec<MovedBytes>,
    /// What was written.
    pub written: Vec<UsedBytes>,
    /// What was read.
    pub read: Vec<UsedBytes>,
    /// Which process wrote bytes of one file twice to another from the same memory.
    pub twice: BTreeSet<(u32, String, String)>,
    /// The two ends of each connection.
    pub connections: Vec<[String; 2]>,
    /// How often each kind of call was made.
    pub kinds: BTreeMap<String, u64>,
}

impl Truth {
    /// The file with the record of a process of this program.
    fn path(directory: &Path, program: u64, process: usize) -> PathBuf {
        directory.join(format!("truth.{program}.{process}"))
    }

    /// Writes the record of one process.
    pub fn store(&self, directory: &Path, program: u64, process: usize) -> io::Result<()> {
        fs::write(
            Self::path(directory, program, process),
            serde_json::to_vec(self)?,
        )
    }

    /// Reads the records of all processes of a program.
    pub fn read(directory: &Path, program: u64) -> io::Result<Self> {
        let read_one = |process| -> io::Result<Self> {
            let file = File::open(Self::path(directory, program, process))?;
            Ok(serde_json::from_reader(io::BufReader::new(file))?)
        };
        let mut truth = read_one(0)?;
        for process in 1..truth.pids.len() {
            let other = read_one(process)?;
            truth.moved.extend(other.moved);
            truth.written.extend(other.written);
            truth.read.extend(other.read);
            truth.twice.extend(other.twice);
        }
        Ok(truth)
    }
}

/// The bytes of a source file, which are the same in every run.
fn source(index: usize) -> Vec<u8> {
    let mut rng = Rng::new(1000 + index as u64);
    let mut bytes = Vec::with_capacity(SOURCES[index] + 8);
    while bytes.len() < SOURCES[index] {
        match index {
            8 => bytes.push(0),
            9 if bytes.len() / 5000 % 2 == 0 => bytes.push(0),
            _ => bytes.extend_from_slice(&rng.next().to_le_bytes()),
        }
    }
    bytes.truncate(SOURCES[index]);
    bytes
}

/// Whether a file may have words of zeros. Of the sources, only the last two have.
pub fn may_be_zeros(file: &str) -> bool {
    let index = file.strip_prefix('s').and_then(|index| index.parse().ok());
    index.is_none_or(|index: usize| index >= 8)
}

/// Makes all source files: `s0`, `s1` and so on.
pub fn make_sources(directory: &Path) -> io::Result<()> {
    (0..SOURCES.len())
        .try_for_each(|index| fs::write(directory.join(format!("s{index}")), source(index)))
}

/// A source of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The random numbers with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below the limit, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "it is less than a usize")]
    pub const fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True once in this many cases, on average.
    pub const fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of these choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
