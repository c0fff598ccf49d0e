//! A random program: what it has, who takes part, how a call is made, and the log of results that all its threads and processes share.

use std::{
    collections::BTreeMap,
    io,
    os::fd::RawFd,
    ptr,
    sync::atomic::{AtomicI64, AtomicU32, Ordering},
};

use anyhow::{Result, ensure};
use io_uring::{IoUring, squeue};
use zc_tests::truth::Chance;

use crate::{
    origin::{Lender, Process},
    world::{Kind, Piece, Region, Thingy, World, has_values},
};

/// Where the plain memory of each process begins.
pub(crate) const ARENA: usize = 0x1000_0000_0000;

/// How long it is. Behind it there is none.
pub(crate) const ARENA_BYTES: usize = 160 << 10;

/// Where the mappings of files begin, and how far they are apart.
pub(crate) const MAPPINGS: usize = 0x2000_0000_0000;
pub(crate) const MAPPING_DISTANCE: usize = 0x1000_0000;

/// What is to be done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) steps: usize,
    /// What kind of program it is, if the seed is not to say that.
    pub(crate) theme: Option<usize>,
    /// Steps that are left out.
    pub(crate) skipped: Vec<usize>,
    /// What the program must not do.
    pub(crate) without: Vec<String>,
    /// Whether to tell the program in words.
    pub(crate) tells: bool,
}

impl Options {
    pub(crate) fn allows(&self, what: &str) -> bool {
        !self.without.iter().any(|without| without == what)
    }
}

/// What a program likes to do.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    /// What kind of program it is.
    pub(crate) theme: usize,
    /// How much it prefers each kind of step; see [`crate::steps`].
    pub(crate) weights: [usize; 10],
    /// What it moves at once, mostly.
    pub(crate) unit: usize,
    /// Where its buffers begin.
    pub(crate) slots: Vec<usize>,
    /// Whether it uses vectors: in one of so many calls.
    pub(crate) vectors: usize,
}

/// A random program, as one of its threads sees it.
pub(crate) struct Program {
    pub(crate) options: Options,
    pub(crate) style: Style,
    pub(crate) world: World,
    pub(crate) log: Log,
    /// The processes of the threads that take part.
    pub(crate) actors: Vec<Process>,
    /// Which of them this one is.
    pub(crate) me: usize,
    /// The creator of each process but the first.
    pub(crate) parents: Vec<Process>,
    pub(crate) has_rings: bool,
    pub(crate) ring_operations: u64,
    ring: Option<IoUring>,
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) words: Vec<String>,
}

impl Program {
    pub(crate) fn new(options: Options, style: Style, things: Vec<Thingy>, threads: usize) -> Result<Self> {
        let memory = vec![vec![Region { start: ARENA, cells: vec![crate::origin::Cell::own(0); ARENA_BYTES] }]];
        let world = World {
            things,
            memory,
            pids: vec![std::process::id()],
            reads: 0,
            origins: crate::origin::Origins::new(),
            books: crate::origin::Books::default(),
        };
        let has_rings = options.allows("rings") && IoUring::new(2).is_ok();
        Ok(Self {
            options,
            style,
            world,
            log: Log::new()?,
            actors: vec![0; threads],
            me: 0,
            parents: vec![0],
            has_rings,
            ring_operations: 0,
            ring: None,
            kinds: BTreeMap::new(),
            words: Vec::new(),
        })
    }

    /// The same as another of its threads sees it before the first step.
    pub(crate) fn seen_by(&self, actor: usize) -> Result<Self> {
        let other = Self::new(self.options.clone(), self.style.clone(), self.world.things.clone(), self.actors.len())?;
        Ok(Self { log: self.log.clone(), me: actor, has_rings: self.has_rings, ..other })
    }

    pub(crate) fn process_of(&self, actor: usize) -> Process {
        self.actors[actor]
    }

    /// Makes a call, if it is this thread's own, and returns its result.
    pub(crate) fn call(&mut self, actor: usize, name: &str, words: impl FnOnce() -> String, call: impl FnOnce() -> i64) -> i64 {
        let result = self.log.result(actor == self.me, call);
        self.note(actor, name, words, result);
        result
    }

    /// The same for an operation of a ring.
    pub(crate) fn ring_call(&mut self, actor: usize, name: &str, words: impl FnOnce() -> String, entry: &squeue::Entry) -> i64 {
        let Self { log, ring, me, .. } = self;
        let result = log.result(actor == *me, || {
            let ring = ring.get_or_insert_with(|| IoUring::new(4).expect("a ring was made before"));
            complete(ring, entry)
        });
        self.ring_operations += 1;
        self.note(actor, name, words, result);
        result
    }

    pub(crate) fn note(&mut self, actor: usize, name: &str, words: impl FnOnce() -> String, result: i64) {
        *self.kinds.entry(name.to_owned()).or_default() += 1;
        if self.options.tells {
            let process = self.process_of(actor);
            self.words.push(format!("process {process} thread {actor}: {name} {} = {result}", words()));
        }
    }

    /// The child of a fork begins a life of its own: rings are not inherited.
    pub(crate) fn become_actor(&mut self, actor: usize) {
        std::mem::forget(self.ring.take());
        self.me = actor;
    }

    /// Makes sure that the memory is as the picture of it says.
    pub(crate) fn verify(&self, actor: usize, pieces: &[Piece]) {
        if actor != self.me {
            return;
        }
        for piece in pieces {
            let region = &self.world.memory[self.process_of(actor)][piece.region];
            let cells = &region.cells[piece.offset..piece.offset + piece.length];
            let place = (self.options.seed, self.log.made());
            assert!(has_values(region.start + piece.offset, cells), "the generator is wrong about memory: {place:?}");
        }
    }

    /// Where a piece lies.
    pub(crate) fn address(&self, actor: usize, piece: Piece) -> usize {
        self.world.memory[self.process_of(actor)][piece.region].start + piece.offset
    }

    /// The same as an `iovec` each.
    pub(crate) fn vector(&self, actor: usize, pieces: &[Piece]) -> Vec<libc::iovec> {
        let part = |piece: &Piece| libc::iovec { iov_base: self.address(actor, *piece) as *mut _, iov_len: piece.length };
        pieces.iter().map(part).collect()
    }

    /// Memory for so many bytes: of a buffer that this program likes, or (`any`) of a mapping.
    pub(crate) fn piece(&self, chance: &mut Chance, actor: usize, length: usize, any: bool) -> Piece {
        let regions = &self.world.memory[self.process_of(actor)];
        if any && regions.len() > 1 && chance.one_in(2) {
            let region = 1 + chance.below(regions.len() - 1);
            let has = regions[region].cells.len();
            let offset = if chance.one_in(2) { 0 } else { chance.below(has) };
            return Piece { region, offset, length: length.min(has - offset) };
        }
        let offset = chance.of(&self.style.slots) + if chance.one_in(5) { chance.of(&[1, 7, 8, 100, 512]) } else { 0 };
        Piece { region: 0, offset, length: length.min(ARENA_BYTES - offset) }
    }

    /// Several pieces, or one.
    pub(crate) fn pieces(&self, chance: &mut Chance, actor: usize, length: usize, any: bool) -> Vec<Piece> {
        if !chance.one_in(self.style.vectors) {
            return vec![self.piece(chance, actor, length, any)];
        }
        let most = if chance.one_in(10) { 20 } else { 4 };
        let count = 1 + chance.below(most);
        let part = (length / count).max(1);
        if chance.one_in(2) {
            return (0..count).map(|_| self.piece(chance, actor, part, any)).collect();
        }
        // Side by side, as after a header.
        let first = self.piece(chance, actor, part, false);
        let at = |index| Piece { offset: first.offset + index * part, ..first };
        (0..count).map(at).filter(|piece| piece.offset + piece.length <= ARENA_BYTES).collect()
    }

    /// How much to move at once.
    pub(crate) fn length(&self, chance: &mut Chance) -> usize {
        match chance.below(6) {
            0 => chance.of(&[1, 3, 7, 8, 9, 15, 16, 17, 100, 511, 512, 1000, 4095, 4096, 5000, 8192, 16_384, 60_000]),
            1 => 1 + chance.below(self.style.unit),
            _ => self.style.unit,
        }
    }

    /// A thing of one of these kinds.
    pub(crate) fn thing(&self, chance: &mut Chance, kinds: &[Kind]) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.world.things.len()).filter(|&thing| kinds.contains(&self.world.things[thing].kind)).collect();
        (!fitting.is_empty()).then(|| chance.of(&fitting))
    }

    pub(crate) fn name(&self, thing: usize) -> &str {
        &self.world.things[thing].name
    }

    pub(crate) fn fds(&self, thing: usize) -> (RawFd, RawFd) {
        (self.world.things[thing].read_fd, self.world.things[thing].write_fd)
    }

    /// Whether this memory must stay as it is: a pipe refers to it.
    pub(crate) fn is_memory_lent(&self, actor: usize) -> bool {
        self.world.is_lent(Lender::Memory(self.process_of(actor)))
    }
}

/// Makes one request, and returns its result.
fn complete(ring: &mut IoUring, entry: &squeue::Entry) -> i64 {
    // SAFETY: what it names lies in regions, which live as long as the process.
    unsafe { ring.submission().push(entry) }.expect("the ring is empty");
    ring.submit_and_wait(1).expect("the ring works");
    ring.completion().next().expect("it waited for one").result().into()
}

/// Most calls of a program.
const MOST_CALLS: usize = 16_000;

#[repr(C)]
struct Shared {
    made: AtomicU32,
    results: [AtomicI64; MOST_CALLS],
}

/// A thread's view of it.
#[derive(Clone)]
pub(crate) struct Log {
    shared: &'static Shared,
    /// The results that this thread has seen.
    seen: u32,
}

impl Log {
    /// An empty one, which children inherit.
    pub(crate) fn new() -> Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size_of::<Shared>(), protection, flags, -1, 0) };
        ensure!(memory != libc::MAP_FAILED, "no shared memory");
        // SAFETY: it is never unmapped, it is large enough, and zeroes are a valid log.
        Ok(Self { shared: unsafe { &*memory.cast::<Shared>() }, seen: 0 })
    }

    /// The result of the next call: of this one if it is this thread's own, else of the thread whose call it is.
    pub(crate) fn result(&mut self, is_own: bool, call: impl FnOnce() -> i64) -> i64 {
        let index = self.seen;
        self.seen += 1;
        let place = &self.shared.results[index as usize];
        if is_own {
            let result = call();
            place.store(result, Ordering::Relaxed);
            self.shared.made.store(self.seen, Ordering::Release);
            self.futex(libc::FUTEX_WAKE, u32::MAX >> 1);
            return result;
        }
        loop {
            let made = self.shared.made.load(Ordering::Acquire);
            if made > index {
                return place.load(Ordering::Relaxed);
            }
            self.futex(libc::FUTEX_WAIT, made);
        }
    }

    fn futex(&self, operation: i32, value: u32) {
        // SAFETY: the word lives as long as the process; no time limit is given.
        unsafe {
            libc::syscall(libc::SYS_futex, self.shared.made.as_ptr(), operation, value, ptr::null::<libc::timespec>());
        }
    }

    /// Calls that were made so far.
    pub(crate) fn made(&self) -> u64 {
        self.seen.into()
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, calls: usize) -> bool {
        self.seen as usize + calls < MOST_CALLS
    }
}

/// The result of a call as the kernel returns it: the number, or the errno negated.
pub(crate) fn kernel_result(result: isize) -> i64 {
    if result >= 0 { result as i64 } else { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(1)) }
}
