//! Mappings, positions and children.

use anyhow::{Result, ensure};
use zc_tests::chance::Chance;

use crate::log::kernel_result;
use crate::program::{MAPPING_DISTANCE, MAPPINGS, Program};
use crate::world::{
    Kind::{Destination, Source},
    Region,
};

/// Files that a process maps at the same time.
const MOST_MAPPINGS: usize = 3;

/// Processes of a program.
const MOST_PROCESSES: usize = 4;

impl Program {
    /// Maps a file privately, perhaps in place of another.
    pub(super) fn map(&mut self, chance: &mut Chance, actor: usize) {
        let process = self.process_of(actor);
        let Some(thing) = self.thing(chance, &[Source]).filter(|&thing| !self.world.things[thing].bytes.is_empty()) else {
            return;
        };
        if self.is_memory_lent(actor) || !self.options.allows("mmap") {
            return;
        }
        let known = self.world.memory[process].len();
        let region = if known <= MOST_MAPPINGS { known } else { 1 + chance.below(MOST_MAPPINGS) };
        let start = MAPPINGS + region * MAPPING_DISTANCE;
        let length = self.world.things[thing].bytes.len().next_multiple_of(4096);
        let old = self.world.memory[process].get(region).map_or(0, |region| region.cells.len());
        let fd = self.fds(thing).0;
        let words = format!("{} as region {region}", self.name(thing));
        let call = || {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
            // SAFETY: this memory has no other use.
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
        let region_now = Region { start, cells: self.world.mapped(thing, length) };
        if region < known {
            self.world.memory[process][region] = region_now;
        } else {
            self.world.memory[process].push(region_now);
        }
    }

    /// Goes to another place of a file.
    pub(super) fn seek(&mut self, chance: &mut Chance, actor: usize) {
        let Some(thing) = self.thing(chance, &[Source, Destination]) else { return };
        let at = if chance.one_in(2) { 0 } else { chance.below(self.world.things[thing].bytes.len() + 1) };
        let fd = self.fds(thing).0;
        let words = format!("{} to {at}", self.name(thing));
        // SAFETY: no memory is named.
        self.call(actor, "lseek", || words, || kernel_result(unsafe { libc::lseek(fd, at as i64, libc::SEEK_SET) } as isize));
        self.world.things[thing].position = at;
    }

    /// A child with all that its creator has. Both go on.
    pub(super) fn fork(&mut self, actor: usize) -> Result<()> {
        let process = self.process_of(actor);
        let has_threads = self.actors.iter().filter(|&&other| other == process).count() > 1;
        if has_threads || self.world.pids.len() == MOST_PROCESSES {
            return Ok(());
        }
        let child = self.actors.len();
        self.actors.push(self.world.pids.len());
        self.parents.push(process);
        let mut pid = 0;
        if actor == self.me {
            // SAFETY: this process has one thread, so the child may do as it likes.
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
            // SAFETY: the status lives until the call is over.
            let waited = unsafe { libc::waitpid(self.world.pids[child].cast_signed(), &raw mut status, 0) };
            ensure!(waited > 0 && status == 0, "a child failed: {status:#x}");
        }
        Ok(())
    }
}
