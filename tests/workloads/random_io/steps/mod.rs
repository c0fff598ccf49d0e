//! The steps of a random program. A step depends only on the seed and its number, so that any step
//! can be left out.

mod kernel;
mod own;
mod plain;

use anyhow::{Result, ensure};
use zc_tests::truth::Rng;

use crate::{
    memory::{ARENA, ARENA_BYTES, MAPPING_DISTANCE, MAPPINGS, MAX_MAPPINGS, MemoryPiece, Region},
    program::{RandomProgram, syscall},
    world::EndpointKind::{Destination, Source},
};

/// The most calls of one step.
const MAX_CALLS: usize = 200;

/// The most processes of a program.
const MAX_PROCESSES: usize = 4;

impl RandomProgram {
    /// Makes all steps.
    pub(crate) fn run(&mut self) -> Result<()> {
        for step in 0..self.options.steps {
            if !self.options.skipped.contains(&step) && self.log.has_room(MAX_CALLS) {
                self.step(step)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, step: usize) -> Result<()> {
        let seed = self.options.seed.wrapping_mul(0x0123_4567_89ab_cdef);
        let rng = &mut Rng::new(seed.wrapping_add(step as u64));
        let actor = rng.below(self.actors.len());
        match self.kind_of_step(rng) {
            0 => self.copy(rng, actor),
            1 => self.fill_any(rng, actor),
            2 => self.write_any(rng, actor),
            3 => self.in_kernel(rng, actor),
            4 => self.lend(rng, actor),
            5 => self.own(rng, actor),
            6 => self.map(rng, actor),
            7 => self.fail(rng, actor),
            8 => self.fork(actor)?,
            _ => self.seek(rng, actor),
        }
        Ok(())
    }

    fn kind_of_step(&self, rng: &mut Rng) -> usize {
        let mut at = rng.below(self.style.weights.iter().sum());
        for (kind, &weight) in self.style.weights.iter().enumerate() {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        unreachable!("it is below the sum")
    }

    /// Maps a file privately, perhaps in place of another file.
    fn map(&mut self, rng: &mut Rng, actor: usize) {
        let Some(file) = self
            .endpoint(rng, &[Source])
            .filter(|&file| self.world.endpoints[file].bytes > 0)
        else {
            return;
        };
        if !self.options.allows("mmap") {
            return;
        }
        let known = self.space(actor).regions.len();
        let region = if known <= MAX_MAPPINGS {
            known
        } else {
            1 + rng.below(MAX_MAPPINGS)
        };
        let start = MAPPINGS + region * MAPPING_DISTANCE;
        let new = Region::mapping(start, file, self.world.endpoints[file].bytes);
        let old = self.space(actor).regions.get(region);
        let old = old.map_or(0, |region| region.cells.len());
        let (fd, length) = (self.fds(file).0, new.cells.len());
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;
        let call = || {
            if old > 0 {
                syscall("munmap", &[start, old]);
            }
            syscall("mmap", &[start, length, protection, flags, fd])
        };
        let result = self.call(actor, "mmap", call);
        assert_eq!(result, start as i64, "a file of the program can be mapped");
        let process = self.process_of(actor);
        let regions = &mut self.world.spaces[process].regions;
        if region < known {
            regions[region] = new;
        } else {
            regions.push(new);
        }
    }

    /// Sets the position of a file.
    fn seek(&mut self, rng: &mut Rng, actor: usize) {
        let Some(file) = self.endpoint(rng, &[Source, Destination]) else {
            return;
        };
        let length = self.world.endpoints[file].bytes;
        let at = if rng.one_in(2) {
            0
        } else {
            rng.below(length + 1)
        };
        let fd = self.fds(file).0;
        self.syscall(actor, "lseek", &[fd, at]);
        self.world.endpoints[file].position = at;
    }

    /// Forks a child. Both go on with the program.
    fn fork(&mut self, actor: usize) -> Result<()> {
        let process = self.process_of(actor);
        let threads = self.actors.iter().filter(|&&other| other == process);
        if threads.count() > 1 || self.world.pids.len() == MAX_PROCESSES {
            return Ok(());
        }
        let child = self.actors.len();
        self.actors.push(self.world.pids.len());
        self.parents.push(process);
        let mut pid = 0;
        if actor == self.me {
            // SAFETY: this process has one thread, so the child may make any calls.
            pid = unsafe { libc::fork() };
            ensure!(pid >= 0, "fork");
            if pid == 0 {
                crate::end_in_time();
                self.become_actor(child);
            }
        }
        let pid = self.call(actor, "fork", || pid.into());
        self.world.pids.push(u32::try_from(pid)?);
        let memory = self.world.spaces[process].inherited();
        self.world.spaces.push(memory);
        Ok(())
    }

    /// Waits for the children of this process, which must all succeed.
    pub(crate) fn wait_for_children(&self) -> Result<()> {
        let process = self.process_of(self.me);
        for child in (1..self.parents.len()).filter(|&child| self.parents[child] == process) {
            let (pid, mut status) = (self.world.pids[child].cast_signed(), 0);
            // SAFETY: the status lives until the call returns.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            ensure!(waited > 0 && status == 0, "a child failed: {status:#x}");
        }
        Ok(())
    }
}

/// How many bytes of memory are left for a call that goes beyond the end of memory, and how many it
/// asks for beyond.
const LEFT: usize = 50;
const BEYOND: usize = 150;

/// No descriptor.
const NO_FILE: usize = usize::MAX;

/// The last bytes of memory.
const LAST: MemoryPiece = MemoryPiece {
    region: 0,
    offset: ARENA_BYTES - LEFT,
    length: LEFT,
};

impl RandomProgram {
    /// Makes a call that fails, or one that goes beyond the end of memory.
    fn fail(&mut self, rng: &mut Rng, actor: usize) {
        let (Some(from), Some(to)) = (
            self.endpoint(rng, &[Source]),
            self.endpoint(rng, &[Destination]),
        ) else {
            return;
        };
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let length = self.length(rng);
        let piece = self.piece(rng, actor, length, false);
        let memory = self.address(actor, piece);
        let nowhere = ARENA + ARENA_BYTES;
        match rng.below(8) {
            0 => self.fails(actor, "read", "no file", &[NO_FILE, memory, length]),
            1 => self.fails(actor, "write", "no file", &[NO_FILE, memory, length]),
            2 => self.fails(actor, "write", "for reading", &[input, memory, length]),
            3 => self.fails(actor, "write", "no memory", &[output, nowhere, length]),
            4 => self.fails(actor, "splice", "two files", &[input, 0, output, 0, length]),
            5 => drop(self.write_by((actor, "write"), (to, None), &[LAST], BEYOND)),
            6 => drop(self.read_by((actor, "read"), (from, None), &[LAST], BEYOND)),
            _ => self.fails(actor, "lseek", "before the beginning", &[input, usize::MAX]),
        }
    }

    fn fails(&mut self, actor: usize, name: &str, why: &str, arguments: &[usize]) {
        let result = self.syscall(actor, name, arguments);
        assert!(result < 0, "{name} succeeded: {why}");
    }
}
