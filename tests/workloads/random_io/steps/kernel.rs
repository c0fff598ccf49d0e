//! Calls that move bytes from one end to another without the program's memory; and `vmsplice`,
//! after which a pipe refers to that memory.

use io_uring::{opcode, types::Fd};
use zc_tests::truth::Rng;

use crate::{
    memory::look_at,
    program::{RandomProgram, kernel_result},
    world::{
        EndpointId,
        EndpointKind::{self, Destination, Pipe, Source, Stream},
        Place, WritesBy,
    },
};

impl RandomProgram {
    /// One such call, or a loop through a pipe.
    pub(super) fn in_kernel(&mut self, rng: &mut Rng, actor: usize) {
        match rng.below(8) {
            0 | 1 => self.sendfile(rng, actor),
            2 => self.copy_file_range(rng, actor),
            3 => self.tee(rng, actor),
            4 | 5 => self.splice_through(rng, actor),
            _ => self.splice_any(rng, actor),
        }
    }

    fn two(
        &self,
        rng: &mut Rng,
        from: &[EndpointKind],
        to: &[EndpointKind],
    ) -> Option<(EndpointId, EndpointId)> {
        let ends = (self.endpoint(rng, from)?, self.endpoint(rng, to)?);
        (ends.0 != ends.1).then_some(ends)
    }

    /// Perhaps an offset, if this is a file.
    fn offset(&self, rng: &mut Rng, endpoint: EndpointId) -> Option<usize> {
        let endpoint = &self.world.endpoints[endpoint];
        (endpoint.is_file() && rng.one_in(2)).then(|| rng.below(endpoint.bytes + 1))
    }

    fn sendfile(&mut self, rng: &mut Rng, actor: usize) {
        let Some((from, to)) = self.two(
            rng,
            &[Source, Source, Destination],
            &[Destination, Pipe, Stream],
        ) else {
            return;
        };
        let (length, at) = (self.length(rng), self.offset(rng, from));
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!(
            "{} to {}, {length} bytes at {at:?}",
            self.name(from),
            self.name(to)
        );
        let call = || {
            let mut offset = at.unwrap_or(0) as i64;
            let offset = if at.is_some() {
                &raw mut offset
            } else {
                std::ptr::null_mut()
            };
            // SAFETY: the offset lives until the call returns.
            kernel_result(unsafe { libc::sendfile64(output, input, offset, length) })
        };
        let moved = self.call(actor, "sendfile", &words, call);
        self.moved(actor, (from, at), (to, None), moved, "sendfile");
    }

    fn copy_file_range(&mut self, rng: &mut Rng, actor: usize) {
        let Some((from, to)) = self.two(rng, &[Source, Source, Destination], &[Destination]) else {
            return;
        };
        let (length, at, to_at) = (
            self.length(rng),
            self.offset(rng, from),
            self.offset(rng, to),
        );
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!(
            "{} at {at:?} to {} at {to_at:?}, {length} bytes",
            self.name(from),
            self.name(to)
        );
        let call = || {
            by_offsets(at, to_at, |at, to_at| {
                // SAFETY: the offsets live until the call returns.
                unsafe { libc::copy_file_range(input, at, output, to_at, length, 0) }
            })
        };
        let moved = self.call(actor, "copy_file_range", &words, call);
        self.moved(actor, (from, at), (to, to_at), moved, "copy_file_range");
    }

    fn tee(&mut self, rng: &mut Rng, actor: usize) {
        let Some((from, to)) = self.two(rng, &[Pipe], &[Pipe]) else {
            return;
        };
        let (length, input, output) = (self.length(rng), self.fds(from).0, self.fds(to).1);
        let words = format!("{} to {}, {length} bytes", self.name(from), self.name(to));
        let call = || {
            // SAFETY: no memory is named.
            kernel_result(unsafe { libc::tee(input, output, length, libc::SPLICE_F_NONBLOCK) })
        };
        let moved = self.call(actor, "tee", &words, call);
        self.moved(actor, (from, None), (to, None), moved, "tee");
    }

    /// A call that may be impossible, as between two files.
    fn splice_any(&mut self, rng: &mut Rng, actor: usize) {
        let from = if rng.one_in(2) {
            &[Pipe][..]
        } else {
            &[Source, Destination, Stream]
        };
        let Some((from, to)) = self.two(rng, from, &[Pipe, Pipe, Destination, Stream]) else {
            return;
        };
        let (length, at, to_at) = (
            self.length(rng),
            self.offset(rng, from),
            self.offset(rng, to),
        );
        self.splice(rng, actor, (from, at), (to, to_at), length);
    }

    /// Splices a file into an empty pipe and everything out of that, several times.
    fn splice_through(&mut self, rng: &mut Rng, actor: usize) {
        let Some((from, to)) =
            self.two(rng, &[Source, Source, Destination], &[Destination, Stream])
        else {
            return;
        };
        let Some(pipe) = self.endpoint(rng, &[Pipe]) else {
            return;
        };
        let (length, turns) = (self.length(rng), rng.pick(&[1, 2, 9]));
        for _ in 0..turns {
            if !rng.one_in(9) && self.world.endpoints[pipe].bytes > 0 {
                return;
            }
            let into = self.splice(rng, actor, (from, None), (pipe, None), length);
            let all = if rng.one_in(9) { into / 2 } else { into };
            let mut left = all;
            for _ in 0..4 {
                if left > 0 {
                    left -= self
                        .splice(rng, actor, (pipe, None), (to, None), left)
                        .min(left);
                }
            }
            if all == 0 {
                return;
            }
        }
    }

    pub(super) fn splice(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        (from, at): Place,
        (to, to_at): Place,
        length: usize,
    ) -> usize {
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let words = format!(
            "{} at {at:?} to {} at {to_at:?}, {length} bytes",
            self.name(from),
            self.name(to)
        );
        let is_by_ring = self.has_rings && rng.one_in(5);
        let moved = if is_by_ring {
            let offset = |at: Option<usize>| at.map_or(-1, |at| at as i64);
            let entry = opcode::Splice::new(
                Fd(input),
                offset(at),
                Fd(output),
                offset(to_at),
                u32::try_from(length).expect("short"),
            );
            self.ring_call(
                actor,
                "ring_splice",
                &words,
                &entry.flags(libc::SPLICE_F_NONBLOCK).build(),
                |_| (),
            )
        } else {
            let call = || {
                by_offsets(at, to_at, |at, to_at| {
                    // SAFETY: the offsets live until the call returns.
                    unsafe {
                        libc::splice(input, at, output, to_at, length, libc::SPLICE_F_NONBLOCK)
                    }
                })
            };
            self.call(actor, "splice", &words, call)
        };
        self.moved(actor, (from, at), (to, to_at), moved, "splice");
        usize::try_from(moved).unwrap_or(0)
    }

    /// Enters the bytes that such a call moved.
    fn moved(&mut self, actor: usize, from: Place, to: Place, moved: i64, how: &'static str) {
        if let Some(bytes) = usize::try_from(moved).ok().filter(|bytes| *bytes > 0) {
            let is_own = self.is_me(actor);
            self.world.transfer(from, to, bytes, how, is_own);
        }
    }
}

/// Makes a call with pointers to these offsets.
fn by_offsets(
    at: Option<usize>,
    to_at: Option<usize>,
    call: impl FnOnce(*mut i64, *mut i64) -> isize,
) -> i64 {
    let mut offsets = [at, to_at].map(|at| at.map(|at| at as i64));
    let [at, to_at] = offsets.each_mut().map(|offset| {
        offset
            .as_mut()
            .map_or(std::ptr::null_mut(), std::ptr::from_mut)
    });
    kernel_result(call(at, to_at))
}

impl RandomProgram {
    /// Puts memory into a pipe by `vmsplice`, and in most cases drains the pipe to a file.
    pub(super) fn lend(&mut self, rng: &mut Rng, actor: usize) {
        let (Some(pipe), Some(to)) = (
            self.endpoint(rng, &[Pipe]),
            self.endpoint(rng, &[Destination]),
        ) else {
            return;
        };
        if !self.options.allows("vmsplice") {
            return;
        }
        let length = self.length(rng);
        let pieces = self.pieces(rng, actor, length, true);
        let (vector, fd) = (self.vector(actor, &pieces), self.fds(pipe).1);
        let words = format!("{} from {pieces:?}", self.name(pipe));
        let flags = libc::SPLICE_F_NONBLOCK;
        let look = self.is_me(actor).then(|| look_at(&vector));
        // SAFETY: the vector names memory of regions, which live as long as the process.
        let call =
            || kernel_result(unsafe { libc::vmsplice(fd, vector.as_ptr(), vector.len(), flags) });
        let lent = self.call(actor, "vmsplice", &words, call);
        if let Some(lent) = usize::try_from(lent).ok().filter(|lent| *lent > 0) {
            let (process, to) = (self.process_of(actor), (pipe, None));
            self.world
                .write(process, to, &pieces, lent, WritesBy::Call, look.as_ref());
        }
        let queued = self.world.endpoints[pipe].bytes;
        if queued > 0 && !rng.one_in(4) {
            self.splice(rng, actor, (pipe, None), (to, None), queued);
        }
    }
}
