//! The steps of a random program. A step depends only on the seed and its number, so that any step
//! can be left out.

mod kernel;
mod own;
mod plain;

use anyhow::{Result, ensure};
use zc_tests::truth::Rng;

use crate::{
    memory::{ARENA, ARENA_BYTES, MAPPING_DISTANCE, MAPPINGS, MOST_MAPPINGS, MemoryPiece, Region},
    program::{RandomProgram, kernel_result},
    world::EndpointKind::{Destination, Source},
};

/// The most calls of one step.
const MOST_CALLS: usize = 200;

/// The most processes of a program.
const MOST_PROCESSES: usize = 4;

impl RandomProgram {
    /// Makes all steps.
    pub(crate) fn run(&mut self) -> Result<()> {
        for step in 0..self.options.steps {
            if !self.options.skipped.contains(&step) && self.log.has_room(MOST_CALLS) {
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
        let region = if known <= MOST_MAPPINGS {
            known
        } else {
            1 + rng.below(MOST_MAPPINGS)
        };
        let start = MAPPINGS + region * MAPPING_DISTANCE;
        let new = Region::mapping(start, file, self.world.endpoints[file].bytes);
        let old = self.space(actor).regions.get(region);
        let old = old.map_or(0, |region| region.cells.len());
        let (fd, length) = (self.fds(file).0, new.cells.len());
        let call = || {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
            // SAFETY: nothing else uses this memory.
            unsafe {
                if old > 0 {
                    libc::munmap(start as *mut _, old);
                }
                let at = libc::mmap(start as *mut _, length, protection, flags, fd, 0);
                kernel_result(if at == libc::MAP_FAILED { -1 } else { 0 })
            }
        };
        let result = self.call(actor, "mmap", call);
        assert_eq!(result, 0, "a file of the program can be mapped");
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
        self.call(actor, "lseek", || seek(fd, at as i64));
        self.world.endpoints[file].position = at;
    }

    /// Forks a child. Both go on with the program.
    fn fork(&mut self, actor: usize) -> Result<()> {
        let process = self.process_of(actor);
        let threads = self.actors.iter().filter(|&&other| other == process);
        if threads.count() > 1 || self.world.pids.len() == MOST_PROCESSES {
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
            0 => self.fails(actor, "read", "no file", || read(-1, memory, length)),
            1 => self.fails(actor, "write", "no file", || write(-1, memory, length)),
            2 => self.fails(actor, "write", "for reading", || {
                write(input, memory, length)
            }),
            3 => self.fails(actor, "write", "no memory", || {
                write(output, nowhere, length)
            }),
            4 => self.fails(actor, "splice", "two files", || {
                let none = std::ptr::null_mut();
                // SAFETY: no memory is named.
                kernel_result(unsafe { libc::splice(input, none, output, none, length, 0) })
            }),
            5 => drop(self.write_by((actor, "write"), (to, None), &[LAST], BEYOND)),
            6 => drop(self.read_by((actor, "read"), (from, None), &[LAST], BEYOND)),
            _ => self.fails(actor, "lseek", "before the beginning", || seek(input, -1)),
        }
    }

    fn fails(&mut self, actor: usize, name: &str, why: &str, call: impl FnOnce() -> i64) {
        let result = self.call(actor, name, call);
        assert!(result < 0, "{name} succeeded: {why}");
    }
}

fn read(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: the kernel checks the memory, and Rust uses none of it.
    kernel_result(unsafe { libc::read(fd, memory as *mut _, length) })
}

fn write(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: as above.
    kernel_result(unsafe { libc::write(fd, memory as *const _, length) })
}

fn seek(fd: i32, at: i64) -> i64 {
    // SAFETY: no memory is named.
    kernel_result(unsafe { libc::lseek(fd, at, libc::SEEK_SET) } as isize)
}
