//! Stores of the program in its own memory, and calls by which the kernel writes there something
//! that comes from no file.

use zc_tests::truth::Rng;

use crate::{
    memory::{ARENA_BYTES, ByteOrigin, MemoryPiece},
    program::RandomProgram,
    world::EndpointKind::Source,
};

/// The size of a page.
const PAGE: usize = 4096;

/// `sizeof(struct stat)`, all of which the kernel writes.
const STAT_BYTES: usize = size_of::<libc::stat>();

impl RandomProgram {
    /// Makes a store, or such a call.
    pub(super) fn own(&mut self, rng: &mut Rng, actor: usize) {
        let length = self.length(rng);
        let from = self.piece(rng, actor, length, true);
        let piece = self.piece(rng, actor, length, true);
        match rng.below(9) {
            0 | 1 => self.set(rng, actor, piece),
            2 | 3 => self.copy_memory(actor, from, piece),
            4 => self.change(rng, actor, piece),
            5 => self.random(actor, piece),
            6 => self.stat(rng, actor, piece),
            7 => self.drop_pages(actor, piece),
            _ => self.copy_by_kernel(actor, from, piece),
        }
    }

    /// Makes a store to a piece of memory.
    fn store(&mut self, actor: usize, name: &str, piece: MemoryPiece, store: impl FnOnce(*mut u8)) {
        let address = self.address(actor, piece) as *mut u8;
        self.call(actor, name, || {
            store(address);
            0
        });
        let process = self.process_of(actor);
        self.world.spaces[process].regions[piece.region].is_dirty = true;
    }

    fn set(&mut self, rng: &mut Rng, actor: usize, piece: MemoryPiece) {
        let byte = rng.pick(&[0, 1, b' ', 0xff]);
        self.store(actor, "memset", piece, |address| {
            // SAFETY: the region has this much memory, which nobody else uses now. The same holds
            // below.
            unsafe { std::ptr::write_bytes(address, byte, piece.length) };
        });
    }

    fn copy_memory(&mut self, actor: usize, from: MemoryPiece, to: MemoryPiece) {
        let length = from.length.min(to.length);
        let source = self.address(actor, from) as *const u8;
        self.store(actor, "memmove", to, |target| {
            // SAFETY: as above.
            unsafe { std::ptr::copy(source, target, length) };
        });
    }

    /// Changes the bytes by computing others from them.
    fn change(&mut self, rng: &mut Rng, actor: usize, piece: MemoryPiece) {
        let mask = 1 + u8::try_from(rng.below(255)).expect("a byte");
        self.store(actor, "xor", piece, |address| {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts_mut(address, piece.length) };
            for byte in bytes {
                *byte ^= mask;
            }
        });
    }

    fn random(&mut self, actor: usize, piece: MemoryPiece) {
        let address = self.address(actor, piece);
        let got = self.syscall(actor, "getrandom", &[address, piece.length]);
        self.filled_by_kernel(actor, piece, got);
    }

    fn stat(&mut self, rng: &mut Rng, actor: usize, piece: MemoryPiece) {
        let Some(file) = self.endpoint(rng, &[Source]) else {
            return;
        };
        if piece.region > 0 || piece.offset + STAT_BYTES > ARENA_BYTES {
            return;
        }
        let length = STAT_BYTES;
        let (piece, fd) = (MemoryPiece { length, ..piece }, self.fds(file).0);
        let address = self.address(actor, piece);
        self.syscall(actor, "fstat", &[fd, address]);
        self.filled_by_kernel(actor, piece, length as i64);
    }

    /// Gives whole pages of the plain memory back to the kernel, so that they become zeroes.
    fn drop_pages(&mut self, actor: usize, piece: MemoryPiece) {
        let start = piece.offset.next_multiple_of(PAGE);
        let end = (piece.offset + piece.length) / PAGE * PAGE;
        if piece.region > 0 || start >= end || !self.options.allows("madvise") {
            return;
        }
        let piece = MemoryPiece {
            region: 0,
            offset: start,
            length: end - start,
        };
        let address = self.address(actor, piece);
        let arguments = [address, piece.length, libc::MADV_DONTNEED as usize];
        self.syscall(actor, "madvise", &arguments);
        self.filled_by_kernel(actor, piece, piece.length as i64);
    }

    /// Lets the kernel copy memory of the process to other memory of the same process.
    fn copy_by_kernel(&mut self, actor: usize, from: MemoryPiece, to: MemoryPiece) {
        let length = from.length.min(to.length);
        let overlaps = from.region == to.region && from.offset.abs_diff(to.offset) < length;
        if overlaps || !self.options.allows("process_vm_readv") {
            return;
        }
        let (from, to) = (MemoryPiece { length, ..from }, MemoryPiece { length, ..to });
        let (here, there) = (self.vector(actor, &[to]), self.vector(actor, &[from]));
        let pid = self.world.pids[self.process_of(actor)] as usize;
        let arguments = [pid, here.as_ptr() as usize, 1, there.as_ptr() as usize, 1];
        let copied = self.syscall(actor, "process_vm_readv", &arguments);
        self.filled_by_kernel(actor, to, copied);
    }

    /// A call put something there that comes from no file: so many bytes, which are fewer than it was
    /// to put there if a signal interrupted it, or none if it failed.
    fn filled_by_kernel(&mut self, actor: usize, piece: MemoryPiece, result: i64) {
        let (process, bytes) = (self.process_of(actor), usize::try_from(result).unwrap_or(0));
        self.world.spaces[process].forget_read(piece);
        self.world
            .fill(process, &[piece], bytes, ByteOrigin::NoFile);
    }
}
