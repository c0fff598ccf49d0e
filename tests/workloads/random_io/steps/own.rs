//! Stores of the program in its own memory, and calls by which the kernel writes there something
//! that comes from no file.

use zc_tests::truth::Rng;

use crate::{
    origin::{ANY_VALUE, Cell, Fate, OWN},
    program::{ARENA_BYTES, Program, kernel_result},
    world::{Kind::Source, Piece},
};

/// The size of a page.
const PAGE: usize = 4096;

/// `sizeof(struct stat)`, all of which the kernel writes.
const STAT_BYTES: usize = size_of::<libc::stat>();

impl Program {
    /// Makes a store, or such a call.
    pub(super) fn own(&mut self, rng: &mut Rng, actor: usize) {
        if self.is_memory_lent(actor) {
            return;
        }
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

    /// The piece, extended as far as the options require: without partial stores, by all bytes of
    /// the reads that it has a part of; without adjacent stores, also by the bytes of the reads
    /// next to those.
    fn whole(&self, actor: usize, piece: Piece) -> Piece {
        if self.options.allows("partial-stores") {
            return piece;
        }
        let cells = &self.world.memory[self.process_of(actor)][piece.region].cells;
        let goes_on = |one: &Cell, other: &Cell| {
            let is_same =
                one.under_read == other.under_read || !self.options.allows("adjacent-stores");
            one.under != OWN && is_same
        };
        let (mut start, mut end) = (piece.offset, piece.offset + piece.length);
        while start > 0 && goes_on(&cells[start - 1], &cells[start]) {
            start -= 1;
        }
        while end < cells.len() && end > 0 && goes_on(&cells[end], &cells[end - 1]) {
            end += 1;
        }
        Piece {
            offset: start,
            length: end - start,
            ..piece
        }
    }

    fn set(&mut self, rng: &mut Rng, actor: usize, piece: Piece) {
        let piece = self.whole(actor, piece);
        let byte = rng.of(&[0, 1, b' ', 0xff]);
        let address = self.address(actor, piece);
        let call = || {
            // SAFETY: the region has this much memory, which nobody else uses now. The same holds
            // below.
            unsafe { std::ptr::write_bytes(address as *mut u8, byte, piece.length) };
            0
        };
        self.call(actor, "memset", || format!("{piece:?} to {byte}"), call);
        let cells = vec![Cell::own(byte.into()); piece.length];
        self.world.store(self.process_of(actor), piece, &cells);
    }

    fn copy_memory(&mut self, actor: usize, from: Piece, to: Piece) {
        let whole = self.whole(actor, to);
        let length = from.length.min(to.length);
        if (whole, length) != (to, to.length) && !self.options.allows("partial-stores") {
            return;
        }
        let [source, target] = [from, to].map(|piece| self.address(actor, piece));
        let call = || {
            // SAFETY: as above.
            unsafe { std::ptr::copy(source as *const u8, target as *mut u8, length) };
            0
        };
        self.call(
            actor,
            "memmove",
            || format!("{length} bytes from {from:?} to {to:?}"),
            call,
        );
        self.copied(actor, from, to, length);
    }

    fn copied(&mut self, actor: usize, from: Piece, to: Piece, length: usize) {
        let process = self.process_of(actor);
        let mut cells = self.world.load(process, &[from], length);
        if self.address(actor, from) != self.address(actor, to) {
            self.world.handled(&mut cells, Fate::Copied);
        }
        self.world.store(process, to, &cells);
    }

    /// Changes the bytes by computing others from them.
    fn change(&mut self, rng: &mut Rng, actor: usize, piece: Piece) {
        let piece = self.whole(actor, piece);
        let mask = 1 + u8::try_from(rng.below(255)).expect("a byte");
        let address = self.address(actor, piece);
        let call = || {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, piece.length) };
            for byte in bytes {
                *byte ^= mask;
            }
            0
        };
        self.call(actor, "xor", || format!("{piece:?} by {mask}"), call);
        let process = self.process_of(actor);
        let mut cells = self.world.load(process, &[piece], piece.length);
        self.world.handled(&mut cells, Fate::Changed);
        for cell in cells.iter_mut().filter(|cell| cell.value != ANY_VALUE) {
            cell.value ^= u16::from(mask);
        }
        self.world.store(process, piece, &cells);
    }

    /// Whether the kernel may fill this piece. Without partial fills, it must not be a part of what
    /// was read.
    fn may_fill(&self, actor: usize, piece: Piece) -> bool {
        self.options.allows("partial-fills") || self.whole(actor, piece) == piece
    }

    fn random(&mut self, actor: usize, piece: Piece) {
        if !self.may_fill(actor, piece) {
            return;
        }
        let address = self.address(actor, piece);
        // SAFETY: as above.
        let call = || kernel_result(unsafe { libc::getrandom(address as *mut _, piece.length, 0) });
        let got = self.call(actor, "getrandom", || format!("{piece:?}"), call);
        self.made_by_kernel(actor, piece, usize::try_from(got).unwrap_or(0), ANY_VALUE);
    }

    fn stat(&mut self, rng: &mut Rng, actor: usize, piece: Piece) {
        let Some(endpoint) = self.endpoint(rng, &[Source]) else {
            return;
        };
        if piece.region > 0 || piece.offset + STAT_BYTES > ARENA_BYTES {
            return;
        }
        let (piece, fd) = (
            Piece {
                length: STAT_BYTES,
                ..piece
            },
            self.fds(endpoint).0,
        );
        if !self.may_fill(actor, piece) {
            return;
        }
        let address = self.address(actor, piece);
        // SAFETY: as above.
        let call =
            || kernel_result(unsafe { libc::syscall(libc::SYS_fstat, fd, address) } as isize);
        let words = format!("{} to {piece:?}", self.name(endpoint));
        self.call(actor, "fstat", || words, call);
        self.made_by_kernel(actor, piece, STAT_BYTES, ANY_VALUE);
    }

    /// Gives whole pages of the plain memory back to the kernel, so that they become zeroes.
    fn drop_pages(&mut self, actor: usize, piece: Piece) {
        let (start, end) = (
            piece.offset.next_multiple_of(PAGE),
            (piece.offset + piece.length) / PAGE * PAGE,
        );
        if piece.region > 0 || start >= end || !self.options.allows("madvise") {
            return;
        }
        let piece = Piece {
            region: 0,
            offset: start,
            length: end - start,
        };
        if self.whole(actor, piece) != piece {
            return;
        }
        let address = self.address(actor, piece);
        // SAFETY: as above. The memory stays mapped.
        let call = || {
            kernel_result(unsafe {
                libc::madvise(address as *mut _, piece.length, libc::MADV_DONTNEED)
            } as isize)
        };
        self.call(actor, "madvise", || format!("{piece:?}"), call);
        self.world.store(
            self.process_of(actor),
            piece,
            &vec![Cell::own(0); piece.length],
        );
    }

    /// Lets the kernel copy memory of the process to other memory of the same process.
    fn copy_by_kernel(&mut self, actor: usize, from: Piece, to: Piece) {
        let length = from.length.min(to.length);
        let overlaps = from.region == to.region && from.offset.abs_diff(to.offset) < length;
        if overlaps
            || !self.options.allows("process_vm_readv")
            || !self.may_fill(actor, Piece { length, ..to })
        {
            return;
        }
        let part = |piece| libc::iovec {
            iov_base: self.address(actor, piece) as *mut _,
            iov_len: length,
        };
        let (here, there, pid) = (
            part(to),
            part(from),
            self.world.pids[self.process_of(actor)],
        );
        // SAFETY: as above.
        let call = || {
            kernel_result(unsafe {
                libc::process_vm_readv(
                    pid.cast_signed(),
                    &raw const here,
                    1,
                    &raw const there,
                    1,
                    0,
                )
            })
        };
        let copied = self.call(
            actor,
            "process_vm_readv",
            || format!("{length} bytes from {from:?} to {to:?}"),
            call,
        );
        self.copied(actor, from, to, usize::try_from(copied).unwrap_or(0));
    }

    fn made_by_kernel(&mut self, actor: usize, piece: Piece, bytes: usize, value: u16) {
        self.world.fill(
            self.process_of(actor),
            &[piece],
            &vec![Cell::own(value); bytes],
        );
    }
}
