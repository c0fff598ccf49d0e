//! Calls that move bytes from one end to another without the program's memory; and `vmsplice`, by which a pipe refers to that memory, which
//! must stay as it is until the pipe is empty.

use io_uring::{opcode, types::Fd};
use zc_tests::truth::Chance;

use crate::{
    origin::{Lender, Manner, Thing},
    program::{Program, kernel_result},
    world::{
        Kind::{self, Destination, Pipe, Source, Stream},
        Take,
    },
};

impl Program {
    /// One such call, or a loop over a pipe.
    pub(super) fn in_kernel(&mut self, chance: &mut Chance, actor: usize) {
        match chance.below(8) {
            0 | 1 => self.sendfile(chance, actor),
            2 => self.copy_file_range(chance, actor),
            3 => self.tee(chance, actor),
            4 | 5 => self.splice_through(chance, actor),
            _ => self.splice_any(chance, actor),
        }
    }

    fn two(&self, chance: &mut Chance, from: &[Kind], to: &[Kind]) -> Option<(Thing, Thing)> {
        let ends = (self.thing(chance, from)?, self.thing(chance, to)?);
        let is_lent = self.world.is_lent(Lender::Thing(ends.1));
        (ends.0 != ends.1 && !is_lent).then_some(ends)
    }

    /// An offset in a file, or none; never one in anything else.
    fn offset(&self, chance: &mut Chance, thing: Thing) -> Option<usize> {
        let thing = &self.world.things[thing];
        (thing.is_file() && chance.one_in(2)).then(|| chance.below(thing.bytes.len() + 1))
    }

    fn sendfile(&mut self, chance: &mut Chance, actor: usize) {
        let Some((from, to)) = self.two(chance, &[Source, Source, Destination], &[Destination, Pipe, Stream]) else { return };
        let (length, at) = (self.length(chance), self.offset(chance, from));
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!("{} to {}, {length} bytes at {at:?}", self.name(from), self.name(to));
        let call = || {
            let mut offset = at.unwrap_or(0) as i64;
            let offset = if at.is_some() { &raw mut offset } else { std::ptr::null_mut() };
            // SAFETY: the offset lives until the call is over.
            kernel_result(unsafe { libc::sendfile64(output, input, offset, length) })
        };
        let moved = self.call(actor, "sendfile", || words, call);
        self.moved(actor, (from, at), (to, None), moved, "sendfile");
    }

    fn copy_file_range(&mut self, chance: &mut Chance, actor: usize) {
        let Some((from, to)) = self.two(chance, &[Source, Source, Destination], &[Destination]) else { return };
        let (length, at, to_at) = (self.length(chance), self.offset(chance, from), self.offset(chance, to));
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!("{} at {at:?} to {} at {to_at:?}, {length} bytes", self.name(from), self.name(to));
        let call = || {
            by_offsets(at, to_at, |at, to_at| {
                // SAFETY: the offsets live until the call is over.
                unsafe { libc::copy_file_range(input, at, output, to_at, length, 0) }
            })
        };
        let moved = self.call(actor, "copy_file_range", || words, call);
        self.moved(actor, (from, at), (to, to_at), moved, "copy_file_range");
    }

    fn tee(&mut self, chance: &mut Chance, actor: usize) {
        let Some((from, to)) = self.two(chance, &[Pipe], &[Pipe]) else { return };
        let (length, input, output) = (self.length(chance), self.fds(from).0, self.fds(to).1);
        let words = format!("{} to {}, {length} bytes", self.name(from), self.name(to));
        let call = || {
            // SAFETY: no memory is named.
            kernel_result(unsafe { libc::tee(input, output, length, libc::SPLICE_F_NONBLOCK) })
        };
        let moved = self.call(actor, "tee", || words, call);
        self.moved(actor, (from, None), (to, None), moved, "tee");
    }

    /// A call that may be impossible, as between two files.
    fn splice_any(&mut self, chance: &mut Chance, actor: usize) {
        let from = if chance.one_in(2) { &[Pipe][..] } else { &[Source, Destination, Stream] };
        let Some((from, to)) = self.two(chance, from, &[Pipe, Pipe, Destination, Stream]) else { return };
        let (length, at, to_at) = (self.length(chance), self.offset(chance, from), self.offset(chance, to));
        self.splice(chance, actor, (from, at), (to, to_at), length);
    }

    /// A file into an empty pipe, and all of that on, several times.
    fn splice_through(&mut self, chance: &mut Chance, actor: usize) {
        let Some((from, to)) = self.two(chance, &[Source, Source, Destination], &[Destination, Stream]) else { return };
        let Some(pipe) = self.thing(chance, &[Pipe]) else { return };
        let (length, turns) = (self.length(chance), chance.of(&[1, 2, 9]));
        for _ in 0..turns {
            if !chance.one_in(9) && !self.world.things[pipe].queue.is_empty() {
                return;
            }
            let into = self.splice(chance, actor, (from, None), (pipe, None), length);
            let all = if chance.one_in(9) { into / 2 } else { into };
            let mut left = all;
            for _ in 0..4 {
                if left > 0 && !self.world.is_lent(Lender::Thing(to)) {
                    left -= self.splice(chance, actor, (pipe, None), (to, None), left).min(left);
                }
            }
            if all == 0 {
                return;
            }
        }
    }

    pub(super) fn splice(
        &mut self,
        chance: &mut Chance,
        actor: usize,
        (from, at): (Thing, Option<usize>),
        (to, to_at): (Thing, Option<usize>),
        length: usize,
    ) -> usize {
        let is_from_memory = self.world.things[from].queue.iter().any(|cell| matches!(cell.lender, Lender::Memory(_)));
        if is_from_memory && self.world.things[to].kind == Stream {
            return 0;
        }
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!("{} at {at:?} to {} at {to_at:?}, {length} bytes", self.name(from), self.name(to));
        let is_by_ring = self.has_rings && chance.one_in(5);
        let moved = if is_by_ring {
            let offset = |at: Option<usize>| at.map_or(-1, |at| at as i64);
            let entry =
                opcode::Splice::new(Fd(input), offset(at), Fd(output), offset(to_at), u32::try_from(length).expect("short"));
            self.ring_call(actor, "ring_splice", || words, &entry.flags(libc::SPLICE_F_NONBLOCK).build())
        } else {
            let call = || {
                by_offsets(at, to_at, |at, to_at| {
                    // SAFETY: the offsets live until the call is over.
                    unsafe { libc::splice(input, at, output, to_at, length, libc::SPLICE_F_NONBLOCK) }
                })
            };
            self.call(actor, "splice", || words, call)
        };
        self.moved(actor, (from, at), (to, to_at), moved, if is_by_ring { "ring-splice" } else { "splice" });
        usize::try_from(moved).unwrap_or(0)
    }

    /// Enters what such a call moved.
    fn moved(
        &mut self,
        actor: usize,
        (from, at): (Thing, Option<usize>),
        (to, to_at): (Thing, Option<usize>),
        moved: i64,
        manner: Manner,
    ) {
        let Some(bytes) = usize::try_from(moved).ok().filter(|bytes| *bytes > 0) else { return };
        let process = self.process_of(actor);
        let take = if manner == "tee" { Take::Copy } else { Take::Remove };
        let mut cells = self.world.take(process, from, at, bytes, take);
        if self.world.things[from].is_file() {
            for cell in &mut cells {
                cell.lender = Lender::Thing(from);
            }
        }
        self.world.put(process, to, to_at, cells, manner);
    }
}

/// Makes a call with pointers to these offsets.
fn by_offsets(at: Option<usize>, to_at: Option<usize>, call: impl FnOnce(*mut i64, *mut i64) -> isize) -> i64 {
    let mut offsets = [at, to_at].map(|at| at.map(|at| at as i64));
    let [at, to_at] = offsets.each_mut().map(|offset| offset.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut));
    kernel_result(call(at, to_at))
}

impl Program {
    /// Lends memory to a pipe, and mostly drains that to a file.
    pub(super) fn lend(&mut self, chance: &mut Chance, actor: usize) {
        let (Some(pipe), Some(to)) = (self.thing(chance, &[Pipe]), self.thing(chance, &[Destination])) else { return };
        if !self.options.allows("vmsplice") || self.world.is_lent(Lender::Thing(to)) {
            return;
        }
        let length = self.length(chance);
        let pieces = self.pieces(chance, actor, length, true);
        self.verify(actor, &pieces);
        let (vector, fd) = (self.vector(actor, &pieces), self.fds(pipe).1);
        let words = format!("{} from {pieces:?}", self.name(pipe));
        // SAFETY: the vector names memory of regions, which stays as it is while it is lent.
        let call = || kernel_result(unsafe { libc::vmsplice(fd, vector.as_ptr(), vector.len(), libc::SPLICE_F_NONBLOCK) });
        let lent = self.call(actor, "vmsplice", || words, call);
        if let Ok(lent) = usize::try_from(lent) {
            let process = self.process_of(actor);
            let mut cells = self.world.load(process, &pieces, lent);
            for cell in &mut cells {
                cell.lender = Lender::Memory(process);
            }
            self.world.put(process, pipe, None, cells, "vmsplice");
        }
        let queued = self.world.things[pipe].queue.len();
        if queued > 0 && !chance.one_in(4) {
            self.splice(chance, actor, (pipe, None), (to, None), queued);
        }
    }
}
