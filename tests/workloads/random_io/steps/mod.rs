//! The steps of a random program. A step depends only on the seed and its number, so that any step
//! can be left out.

mod kernel;
mod own;
mod plain;

use anyhow::{Result, ensure};
use zc_tests::truth::Rng;

use crate::{
    origin::{FROM_MEMORY, Lender},
    program::{ARENA, ARENA_BYTES, MAPPING_DISTANCE, MAPPINGS, Program, kernel_result},
    world::{
        Kind::{Destination, Pipe, Source},
        Piece, Region, Take,
    },
};

/// The most calls of one step.
const MOST_CALLS: usize = 200;

impl Program {
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
        let mut rng = Rng::new(
            self.options
                .seed
                .wrapping_mul(0x0123_4567_89ab_cdef)
                .wrapping_add(step as u64),
        );
        let rng = &mut rng;
        let actor = rng.below(self.actors.len());
        let first_word = self.words.len();
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
        for words in &mut self.words[first_word..] {
            words.insert_str(0, &format!("step {step}: "));
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
}

/// The most files that a process maps at the same time.
const MOST_MAPPINGS: usize = 3;

/// The most processes of a program.
const MOST_PROCESSES: usize = 4;

impl Program {
    /// Maps a file privately, perhaps in place of another file.
    fn map(&mut self, rng: &mut Rng, actor: usize) {
        let process = self.process_of(actor);
        let Some(endpoint) = self
            .endpoint(rng, &[Source])
            .filter(|&endpoint| !self.world.endpoints[endpoint].bytes.is_empty())
        else {
            return;
        };
        if self.is_memory_lent(actor) || !self.options.allows("mmap") {
            return;
        }
        let known = self.world.memory[process].len();
        let region = if known <= MOST_MAPPINGS {
            known
        } else {
            1 + rng.below(MOST_MAPPINGS)
        };
        let start = MAPPINGS + region * MAPPING_DISTANCE;
        let length = self.world.endpoints[endpoint]
            .bytes
            .len()
            .next_multiple_of(4096);
        let old = self.world.memory[process]
            .get(region)
            .map_or(0, |region| region.cells.len());
        let fd = self.fds(endpoint).0;
        let words = format!("{} as region {region}", self.name(endpoint));
        let call = || {
            let (protection, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
            );
            // SAFETY: nothing else uses this memory.
            unsafe {
                if old > 0 {
                    libc::munmap(start as *mut _, old);
                }
                let at = libc::mmap(start as *mut _, length, protection, flags, fd, 0);
                kernel_result(if at == libc::MAP_FAILED { -1 } else { 0 })
            }
        };
        let result = self.call(actor, "mmap", || words, call);
        assert_eq!(result, 0, "a file of the program can be mapped");
        let region_now = Region {
            start,
            cells: self.world.mapped(endpoint, length),
        };
        if region < known {
            self.world.memory[process][region] = region_now;
        } else {
            self.world.memory[process].push(region_now);
        }
    }

    /// Sets the position of a file.
    fn seek(&mut self, rng: &mut Rng, actor: usize) {
        let Some(endpoint) = self.endpoint(rng, &[Source, Destination]) else {
            return;
        };
        let at = if rng.one_in(2) {
            0
        } else {
            rng.below(self.world.endpoints[endpoint].bytes.len() + 1)
        };
        let fd = self.fds(endpoint).0;
        let words = format!("{} to {at}", self.name(endpoint));
        // SAFETY: no memory is named.
        self.call(
            actor,
            "lseek",
            || words,
            || kernel_result(unsafe { libc::lseek(fd, at as i64, libc::SEEK_SET) } as isize),
        );
        self.world.endpoints[endpoint].position = at;
    }

    /// Forks a child. Both go on with the program.
    fn fork(&mut self, actor: usize) -> Result<()> {
        let process = self.process_of(actor);
        let has_threads = self
            .actors
            .iter()
            .filter(|&&other| other == process)
            .count()
            > 1;
        if has_threads || self.world.pids.len() == MOST_PROCESSES {
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
        let pid = self.call(actor, "fork", String::new, || pid.into());
        self.world.pids.push(u32::try_from(pid)?);
        let memory = self.world.memory[process].clone();
        self.world.memory.push(memory);
        Ok(())
    }

    /// Waits for the children of this process, which must all succeed.
    pub(crate) fn wait_for_children(&self) -> Result<()> {
        let process = self.process_of(self.me);
        for child in (1..self.parents.len()).filter(|&child| self.parents[child] == process) {
            let mut status = 0;
            // SAFETY: the status lives until the call returns.
            let waited =
                unsafe { libc::waitpid(self.world.pids[child].cast_signed(), &raw mut status, 0) };
            ensure!(waited > 0 && status == 0, "a child failed: {status:#x}");
        }
        Ok(())
    }
}

/// How many bytes of memory are left for a call that goes beyond the end of memory.
const LEFT: usize = 50;

impl Program {
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
        let pipe = self
            .endpoint(rng, &[Pipe])
            .map_or(-1, |pipe| self.fds(pipe).0);
        match rng.below(9) {
            0 => self.fails(actor, "read", "no descriptor", || {
                libc_read(-1, memory, length)
            }),
            1 => self.fails(actor, "write", "no descriptor", || {
                libc_write(-1, memory, length)
            }),
            2 => self.fails(actor, "write", "a descriptor for reading", || {
                libc_write(input, memory, length)
            }),
            3 => self.fails(actor, "write", "no memory", || {
                libc_write(output, nowhere, length)
            }),
            4 => self.fails(actor, "pread64", "a pipe", || {
                // SAFETY: the memory exists, and nothing is read.
                kernel_result(unsafe { libc::pread64(pipe, memory as *mut _, length, 0) })
            }),
            5 => self.fails(actor, "splice", "two files", || {
                // SAFETY: no memory is named.
                kernel_result(unsafe {
                    libc::splice(
                        input,
                        std::ptr::null_mut(),
                        output,
                        std::ptr::null_mut(),
                        length,
                        0,
                    )
                })
            }),
            6 => self.write_to_the_end(actor, to, output),
            7 => self.read_to_the_end(actor, from, input),
            _ => self.fails(actor, "lseek", "before the beginning", || {
                // SAFETY: no memory is named.
                kernel_result(unsafe { libc::lseek(input, -1, libc::SEEK_SET) } as isize)
            }),
        }
    }

    fn fails(&mut self, actor: usize, name: &str, why: &str, call: impl FnOnce() -> i64) {
        let result = self.call(actor, name, || why.to_owned(), call);
        assert!(result < 0, "{name} succeeded: {why}");
    }

    /// Writes from the last bytes of memory, and asks for more than there are.
    fn write_to_the_end(&mut self, actor: usize, to: usize, fd: i32) {
        if self.world.is_lent(Lender::Endpoint(to)) {
            return;
        }
        let piece = Piece {
            region: 0,
            offset: ARENA_BYTES - LEFT,
            length: LEFT,
        };
        self.verify(actor, &[piece]);
        let memory = self.address(actor, piece);
        let words = format!(
            "{} from the last {LEFT} bytes of memory and more",
            self.name(to)
        );
        let written = self.call(
            actor,
            "write",
            || words,
            || libc_write(fd, memory, 4 * LEFT),
        );
        if let Ok(written) = usize::try_from(written) {
            let process = self.process_of(actor);
            let cells = self.world.load(process, &[piece], written);
            self.world.put(process, to, None, cells, FROM_MEMORY);
        }
    }

    fn read_to_the_end(&mut self, actor: usize, from: usize, fd: i32) {
        if self.is_memory_lent(actor) {
            return;
        }
        let piece = Piece {
            region: 0,
            offset: ARENA_BYTES - LEFT,
            length: LEFT,
        };
        let memory = self.address(actor, piece);
        let words = format!(
            "{} to the last {LEFT} bytes of memory and more",
            self.name(from)
        );
        let read = self.call(actor, "read", || words, || libc_read(fd, memory, 4 * LEFT));
        if let Ok(read) = usize::try_from(read) {
            let process = self.process_of(actor);
            let cells = self.world.take(process, from, None, read, Take::Remove);
            self.world.fill(process, &[piece], &cells);
        }
    }
}

fn libc_read(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: the kernel checks the memory, and Rust uses none of it.
    kernel_result(unsafe { libc::read(fd, memory as *mut _, length) })
}

fn libc_write(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: as above.
    kernel_result(unsafe { libc::write(fd, memory as *const _, length) })
}
