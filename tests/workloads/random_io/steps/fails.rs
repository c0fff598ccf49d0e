//! Calls that fail, or that memory ends early.

use zc_tests::chance::Chance;

use crate::log::kernel_result;
use crate::origin::{FROM_MEMORY, Lender};
use crate::program::{ARENA, ARENA_BYTES, Program};
use crate::world::{
    Kind::{Destination, Pipe, Source},
    Piece, Take,
};

/// What is left of the memory in a call that goes on where there is none.
const LEFT: usize = 50;

impl Program {
    /// One of them.
    pub(super) fn fail(&mut self, chance: &mut Chance, actor: usize) {
        let (Some(from), Some(to)) = (self.thing(chance, &[Source]), self.thing(chance, &[Destination])) else { return };
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let length = self.length(chance);
        let piece = self.piece(chance, actor, length, false);
        let memory = self.address(actor, piece);
        let nowhere = ARENA + ARENA_BYTES;
        let pipe = self.thing(chance, &[Pipe]).map_or(-1, |pipe| self.fds(pipe).0);
        match chance.below(9) {
            0 => self.fails(actor, "read", "no descriptor", || libc_read(-1, memory, length)),
            1 => self.fails(actor, "write", "no descriptor", || libc_write(-1, memory, length)),
            2 => self.fails(actor, "write", "a descriptor for reading", || libc_write(input, memory, length)),
            3 => self.fails(actor, "write", "no memory", || libc_write(output, nowhere, length)),
            4 => self.fails(actor, "pread64", "a pipe", || {
                // SAFETY: the memory is there. Nothing is read.
                kernel_result(unsafe { libc::pread64(pipe, memory as *mut _, length, 0) })
            }),
            5 => self.fails(actor, "splice", "two files", || {
                // SAFETY: no memory is named.
                kernel_result(unsafe { libc::splice(input, std::ptr::null_mut(), output, std::ptr::null_mut(), length, 0) })
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

    /// The last bytes of memory, and more than there are.
    fn write_to_the_end(&mut self, actor: usize, to: usize, fd: i32) {
        if self.world.is_lent(Lender::Thing(to)) {
            return;
        }
        let piece = Piece { region: 0, offset: ARENA_BYTES - LEFT, length: LEFT };
        self.verify(actor, &[piece]);
        let memory = self.address(actor, piece);
        let words = format!("{} from the last {LEFT} bytes of memory and more", self.name(to));
        let written = self.call(actor, "write", || words, || libc_write(fd, memory, 4 * LEFT));
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
        let piece = Piece { region: 0, offset: ARENA_BYTES - LEFT, length: LEFT };
        let memory = self.address(actor, piece);
        let words = format!("{} to the last {LEFT} bytes of memory and more", self.name(from));
        let read = self.call(actor, "read", || words, || libc_read(fd, memory, 4 * LEFT));
        if let Ok(read) = usize::try_from(read) {
            let process = self.process_of(actor);
            let cells = self.world.take(process, from, None, read, Take::Remove);
            self.world.fill(process, &[piece], &cells);
        }
    }
}

fn libc_read(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: the kernel checks the memory, and none of Rust's lies there.
    kernel_result(unsafe { libc::read(fd, memory as *mut _, length) })
}

fn libc_write(fd: i32, memory: usize, length: usize) -> i64 {
    // SAFETY: as above.
    kernel_result(unsafe { libc::write(fd, memory as *const _, length) })
}
