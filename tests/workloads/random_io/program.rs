//! A random program: its endpoints, threads and processes, how it makes a call, and the log of
//! results that all its threads and processes share.
//!
//! Every thread computes all steps of the program, with the same random numbers, but makes only its
//! own calls. It takes the results of the other calls from the log, so that each thread always
//! knows the whole state.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ptr,
    str::FromStr as _,
    sync::atomic::{AtomicI64, AtomicU32, Ordering},
};

use anyhow::Result;
use io_uring::{IoUring, squeue};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    thread::futex,
};
use zc_tests::{raw_call, ring::complete, truth::Rng};
use zctrace::Sysno;

use crate::{
    books::{Books, ProcessIndex},
    memory::{ARENA_BYTES, AddressSpace, MemoryPiece},
    world::{Endpoint, EndpointId, EndpointKind, World},
};

/// The program to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProgramOptions {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) steps: usize,
    /// Steps that are left out.
    pub(crate) skipped: Vec<usize>,
    /// The kinds of calls that are left out.
    pub(crate) without: Vec<String>,
}

impl ProgramOptions {
    pub(crate) fn allows(&self, what: &str) -> bool {
        !self.without.iter().any(|without| without == what)
    }
}

/// The preferences of a program.
#[derive(Debug, Clone)]
pub(crate) struct ProgramStyle {
    /// The weight of each kind of step; see [`crate::steps`].
    pub(crate) weights: [usize; 10],
    /// How many bytes most calls move.
    pub(crate) unit: usize,
    /// The offsets of its buffers.
    pub(crate) slots: Vec<usize>,
    /// One in this many calls uses vectors.
    pub(crate) vectors: usize,
}

thread_local! {
    /// The ring of this thread.
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
}

/// A random program from the view of one of its threads.
#[derive(Clone)]
pub(crate) struct RandomProgram {
    pub(crate) options: ProgramOptions,
    pub(crate) style: ProgramStyle,
    pub(crate) world: World,
    pub(crate) log: StepLog,
    /// The process of each thread.
    pub(crate) actors: Vec<ProcessIndex>,
    /// The index of this thread.
    pub(crate) me: usize,
    /// The creator of each process except the first.
    pub(crate) parents: Vec<ProcessIndex>,
    pub(crate) has_rings: bool,
    pub(crate) kinds: BTreeMap<String, u64>,
}

impl RandomProgram {
    pub(crate) fn new(
        options: ProgramOptions,
        style: ProgramStyle,
        endpoints: Vec<Endpoint>,
        threads: usize,
    ) -> Result<Self> {
        let has_rings = options.allows("rings") && IoUring::new(2).is_ok();
        Ok(Self {
            options,
            style,
            world: World::new(endpoints),
            log: StepLog::new()?,
            actors: vec![0; threads],
            me: 0,
            parents: vec![0],
            has_rings,
            kinds: BTreeMap::new(),
        })
    }

    /// The same program from the view of another thread, before the first step.
    pub(crate) fn seen_by(&self, actor: usize) -> Self {
        Self {
            me: actor,
            ..self.clone()
        }
    }

    pub(crate) fn process_of(&self, actor: usize) -> ProcessIndex {
        self.actors[actor]
    }

    /// Whether this thread makes the calls of this actor.
    pub(crate) fn is_me(&self, actor: usize) -> bool {
        actor == self.me
    }

    /// Makes a call, or waits for it if it belongs to another thread. Returns its result.
    pub(crate) fn call(&mut self, actor: usize, name: &str, call: impl FnOnce() -> i64) -> i64 {
        let result = self.log.result(self.is_me(actor), call);
        *self.kinds.entry(name.to_owned()).or_default() += 1;
        result
    }

    /// The same for the system call of this name with these arguments.
    pub(crate) fn syscall(&mut self, actor: usize, name: &str, arguments: &[usize]) -> i64 {
        self.call(actor, name, || syscall(name, arguments))
    }

    /// The same for an operation of a ring. `afterwards` gets its result, before other threads go
    /// on.
    pub(crate) fn ring_call(
        &mut self,
        actor: usize,
        name: &str,
        entry: &squeue::Entry,
        afterwards: impl FnOnce(i64),
    ) -> i64 {
        self.call(actor, name, || {
            let result = RING.with_borrow_mut(|ring| {
                let ring =
                    ring.get_or_insert_with(|| IoUring::new(4).expect("a ring was made before"));
                // SAFETY: the request names memory of regions, which live as long as the process.
                unsafe { complete(ring, entry) }
            });
            let result = match result {
                Ok(result) => result.into(),
                Err(err) => -i64::from(err.raw_os_error().expect("an errno")),
            };
            afterwards(result);
            result
        })
    }

    /// Turns the child of a fork into this thread. It drops the ring, because rings are not
    /// inherited, and begins new books.
    pub(crate) fn become_actor(&mut self, actor: usize) {
        std::mem::forget(RING.take());
        self.world.books = Books::default();
        self.me = actor;
    }

    /// The memory of a thread.
    pub(crate) fn space(&self, actor: usize) -> &AddressSpace {
        &self.world.spaces[self.process_of(actor)]
    }

    /// The address of a piece.
    pub(crate) fn address(&self, actor: usize, piece: MemoryPiece) -> usize {
        self.space(actor).address(piece)
    }

    /// An `iovec` for each piece.
    pub(crate) fn vector(&self, actor: usize, pieces: &[MemoryPiece]) -> Vec<libc::iovec> {
        let part = |&piece: &MemoryPiece| libc::iovec {
            iov_base: self.address(actor, piece) as *mut _,
            iov_len: piece.length,
        };
        pieces.iter().map(part).collect()
    }

    /// Memory for this many bytes: in one of the program's buffers, or, if `any`, perhaps in a
    /// mapping.
    pub(crate) fn piece(
        &self,
        rng: &mut Rng,
        actor: usize,
        length: usize,
        any: bool,
    ) -> MemoryPiece {
        let regions = &self.space(actor).regions;
        if any && regions.len() > 1 && rng.one_in(2) {
            let region = 1 + rng.below(regions.len() - 1);
            let has = regions[region].cells.len();
            let offset = if rng.one_in(2) { 0 } else { rng.below(has) };
            return MemoryPiece {
                region,
                offset,
                length: length.min(has - offset),
            };
        }
        let offset = rng.pick(&self.style.slots)
            + if rng.one_in(5) {
                rng.pick(&[1, 7, 8, 100, 512])
            } else {
                0
            };
        MemoryPiece {
            region: 0,
            offset,
            length: length.min(ARENA_BYTES - offset),
        }
    }

    /// Several pieces, or one.
    pub(crate) fn pieces(
        &self,
        rng: &mut Rng,
        actor: usize,
        length: usize,
        any: bool,
    ) -> Vec<MemoryPiece> {
        if !rng.one_in(self.style.vectors) || !self.options.allows("vectors") {
            return vec![self.piece(rng, actor, length, any)];
        }
        let most = if rng.one_in(10) { 20 } else { 4 };
        let count = 1 + rng.below(most);
        let part = (length / count).max(1);
        if rng.one_in(2) {
            return (0..count)
                .map(|_| self.piece(rng, actor, part, any))
                .collect();
        }
        // Adjacent pieces, as after a header.
        let first = self.piece(rng, actor, part, false);
        let at = |index| MemoryPiece {
            offset: first.offset + index * part,
            ..first
        };
        (0..count)
            .map(at)
            .filter(|piece| piece.offset + piece.length <= ARENA_BYTES)
            .collect()
    }

    /// How many bytes to move with one call.
    pub(crate) fn length(&self, rng: &mut Rng) -> usize {
        match rng.below(6) {
            0 => rng.pick(&[
                1, 3, 7, 8, 9, 15, 16, 17, 100, 511, 512, 1000, 4095, 4096, 5000, 8192, 16_384,
                60_000,
            ]),
            1 => 1 + rng.below(self.style.unit),
            _ => self.style.unit,
        }
    }

    /// An endpoint of one of these kinds.
    pub(crate) fn endpoint(&self, rng: &mut Rng, kinds: &[EndpointKind]) -> Option<EndpointId> {
        let fitting: Vec<usize> = (0..self.world.endpoints.len())
            .filter(|&endpoint| kinds.contains(&self.world.endpoints[endpoint].kind))
            .collect();
        (!fitting.is_empty()).then(|| rng.pick(&fitting))
    }

    /// The descriptors for reading and for writing, as arguments of calls.
    pub(crate) fn fds(&self, endpoint: EndpointId) -> (usize, usize) {
        let endpoint = &self.world.endpoints[endpoint];
        (endpoint.read_fd, endpoint.write_fd)
    }
}

/// The most calls of a program.
const MAX_CALLS: usize = 16_000;

#[repr(C)]
struct SharedState {
    made: AtomicU32,
    results: [AtomicI64; MAX_CALLS],
}

/// A thread's view of the shared log.
#[derive(Clone)]
pub(crate) struct StepLog {
    shared: &'static SharedState,
    /// How many results this thread has seen.
    seen: u32,
}

impl StepLog {
    /// An empty log, which children inherit.
    pub(crate) fn new() -> Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = size_of::<SharedState>();
        // SAFETY: asks for new memory.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), length, access, flags) }?;
        // SAFETY: the memory is never unmapped, it is large enough, and zeroes are a valid log.
        let shared = unsafe { &*memory.cast::<SharedState>() };
        Ok(Self { shared, seen: 0 })
    }

    /// The result of the next call. If it is this thread's own, makes the call; otherwise waits for
    /// the thread that makes it.
    pub(crate) fn result(&mut self, is_own: bool, call: impl FnOnce() -> i64) -> i64 {
        let index = self.seen;
        self.seen += 1;
        let place = &self.shared.results[index as usize];
        if is_own {
            let result = call();
            place.store(result, Ordering::Relaxed);
            self.shared.made.store(self.seen, Ordering::Release);
            let woken = futex::wake(&self.shared.made, futex::Flags::empty(), u32::MAX >> 1);
            woken.expect("the word is there");
            return result;
        }
        loop {
            let made = self.shared.made.load(Ordering::Acquire);
            if made > index {
                return place.load(Ordering::Relaxed);
            }
            // It fails if there are more by now, or a signal came.
            let _ = futex::wait(&self.shared.made, futex::Flags::empty(), made, None);
        }
    }

    /// Whether there is room for this many more.
    pub(crate) fn has_room(&self, calls: usize) -> bool {
        self.seen as usize + calls < MAX_CALLS
    }
}

/// Makes the system call of this name. The arguments after those that are given are 0. The result
/// is as the kernel returns it: a number, or a negated errno.
pub(crate) fn syscall(name: &str, arguments: &[usize]) -> i64 {
    let number = Sysno::from_str(name).expect("there is such a call");
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: calls name memory of regions, which has no references and which the kernel checks, or
    // structures that their callers keep until they return.
    let result = unsafe { raw_call(number, all) };
    result.map_or_else(
        |errno| -i64::from(errno.raw_os_error()),
        |number| number as i64,
    )
}
