//! The record of what a random program really moved, which the program writes and the tests read;
//! and random numbers.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    ptr,
};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use serde::{Deserialize, Serialize};

/// Lengths of the source files. `s7` has only zeroes, `s8` looks like text, `s9` is half zeroes.
const SOURCES: [usize; 10] = [
    0, 1, 100, 4096, 20_000, 70_001, 200_000, 30_000, 30_000, 50_000,
];

/// How many source files there are.
pub const SOURCE_FILES: usize = SOURCES.len();

/// Bytes that went one way, by what happened to them in the program's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Written by a call that names both ends, from a mapping, or from the memory that they were
    /// read to.
    pub unchanged: u64,
    /// Copied by the program to other memory, and written from there with their values.
    pub copied: u64,
    /// Written with other values that the program computed from them.
    pub changed: u64,
}

impl Moved {
    /// The bytes that arrived with their values.
    pub fn kept(self) -> u64 {
        self.unchanged + self.copied
    }

    /// All bytes that came from there, changed or not.
    pub fn most(self) -> u64 {
        self.kept() + self.changed
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            unchanged: self.unchanged + other.unchanged,
            copied: self.copied + other.copied,
            changed: self.changed + other.changed,
        }
    }
}

/// Bytes that one process moved from one end to another in one manner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Leg {
    /// The process.
    pub pid: u32,
    /// The end that they came from: `s0`, `d12.0`, `ino:4711`, `memory`.
    pub from: String,
    /// The end that they went to.
    pub to: String,
    /// `memory`, `mapping`, `sendfile`, `splice`, `ring-splice`, `tee`, `vmsplice`,
    /// `copy_file_range`.
    pub manner: String,
    /// How many bytes.
    #[serde(flatten)]
    pub moved: Moved,
}

/// Bytes that went through several ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Way {
    /// For each step: the process, the end that it took the bytes from, and the manner.
    pub through: Vec<(u32, String, String)>,
    /// The end that they arrived at.
    pub to: String,
    /// How many bytes.
    #[serde(flatten)]
    pub moved: Moved,
}

/// Bytes of a process at one end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct At {
    /// The process.
    pub pid: u32,
    /// The end.
    pub end: String,
    /// How many bytes.
    pub bytes: u64,
}

/// Bytes that a process wrote from memory that had last been filled from another end, but that held
/// something else by then.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overlaid {
    /// The process.
    pub pid: u32,
    /// The end that the memory had been filled from.
    pub from: String,
    /// The end that the bytes were written to.
    pub to: String,
    /// How many bytes.
    pub bytes: u64,
    /// How many of these bytes had the same values as before, so that no tracer can tell the
    /// difference.
    pub alike: u64,
}

/// The record of one program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Truth {
    /// The seed that the program was generated from.
    pub seed: u64,
    /// The kind of program.
    pub theme: usize,
    /// How many calls and stores it made.
    pub actions: u64,
    /// How many of them were operations of `io_uring`.
    pub ring_operations: u64,
    /// All processes, the first one first.
    pub pids: Vec<u32>,
    /// What moved from end to end.
    pub legs: Vec<Leg>,
    /// What moved through several ends.
    pub ways: Vec<Way>,
    /// What was written to each end.
    pub written: Vec<At>,
    /// How much of that the program made itself.
    pub own: Vec<At>,
    /// What was read from each end.
    pub read: Vec<At>,
    /// What was written from memory that had been filled from another end.
    pub overlaid: Vec<Overlaid>,
    /// How often each kind of step was done.
    pub kinds: BTreeMap<String, u64>,
    /// The program in words, if they were asked for.
    #[serde(default)]
    pub words: Vec<String>,
}

impl Truth {
    /// The file with the record of this program.
    pub fn path(directory: &Path, program: u64) -> PathBuf {
        directory.join(format!("truth.{program}"))
    }

    /// Writes the record without a call that writes, because such calls are traced.
    pub fn store(&self, directory: &Path, program: u64) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(Self::path(directory, program))?;
        file.set_len(text.len() as u64)?;
        store_in(&file, &text)
    }

    /// Reads a record.
    pub fn read(directory: &Path, program: u64) -> io::Result<Self> {
        Ok(serde_json::from_reader(io::BufReader::new(File::open(
            Self::path(directory, program),
        )?))?)
    }
}

/// Stores these bytes in a file through a mapping.
fn store_in(file: &File, bytes: &[u8]) -> io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is new, as long as the file, and nobody else has it.
    unsafe {
        let memory = mmap(
            ptr::null_mut(),
            bytes.len(),
            protection,
            MapFlags::SHARED,
            file,
            0,
        )?;
        memory
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    Ok(())
}

/// The bytes of a source file, which are the same in every run.
pub fn source(index: usize) -> Vec<u8> {
    const WORDS: [&[u8]; 6] = [b"the ", b"of ", b"a ", b"copy ", b"byte\n", b"kernel "];
    let mut rng = Rng::new(1000 + index as u64);
    let length = SOURCES[index];
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        match index {
            7 => bytes.push(0),
            8 => bytes.extend_from_slice(WORDS[rng.below(WORDS.len())]),
            9 if bytes.len() / 5000 % 2 == 0 => bytes.push(0),
            _ => bytes.extend_from_slice(&rng.next().to_le_bytes()),
        }
    }
    bytes.truncate(length);
    bytes
}

/// Makes all source files: `s0`, `s1` and so on.
pub fn make_sources(directory: &Path) -> io::Result<()> {
    (0..SOURCE_FILES)
        .try_for_each(|index| std::fs::write(directory.join(format!("s{index}")), source(index)))
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
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
