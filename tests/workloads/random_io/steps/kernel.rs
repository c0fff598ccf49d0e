//! Calls that move bytes from one end to another without the program's memory; and `vmsplice`,
//! after which a pipe refers to that memory.

use std::ptr;

use io_uring::{opcode, types::Fd};
use zc_tests::truth::Rng;

use crate::{
    memory::look_at,
    program::RandomProgram,
    world::{
        EndpointAt, EndpointId,
        EndpointKind::{self, Destination, Pipe, Source, Stream},
        WritesBy,
    },
};

/// The flag of splices that do not wait.
pub(super) const NO_WAIT: usize = libc::SPLICE_F_NONBLOCK as usize;

/// Files, most of them those that are only read.
const FILES: &[EndpointKind] = &[Source, Source, Destination];

impl RandomProgram {
    /// One such call, or a loop through a pipe.
    pub(super) fn in_kernel(&mut self, rng: &mut Rng, actor: usize) {
        let (name, from, to): (_, _, &[EndpointKind]) = match rng.below(8) {
            0 | 1 => ("sendfile", FILES, &[Destination, Pipe, Stream]),
            2 => ("copy_file_range", FILES, &[Destination]),
            3 => ("tee", &[Pipe][..], &[Pipe]),
            4 | 5 => return self.splice_through(rng, actor),
            6 => ("splice", &[Pipe][..], &[Pipe, Pipe, Destination, Stream]),
            // This may be impossible, as between two files.
            _ => (
                "splice",
                &[Source, Destination, Stream][..],
                &[Pipe, Pipe, Destination, Stream],
            ),
        };
        let Some((from, to)) = self.two(rng, from, to) else {
            return;
        };
        let (length, at) = (self.length(rng), self.offset(rng, from));
        let to_at = self.offset(rng, to).filter(|_| name != "sendfile");
        self.kernel_call(rng, actor, name, (from, at), (to, to_at), length);
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

    /// Splices a file into an empty pipe and everything out of that, several times.
    fn splice_through(&mut self, rng: &mut Rng, actor: usize) {
        let ends = self.two(rng, FILES, &[Destination, Stream]);
        let Some(((from, to), pipe)) = ends.zip(self.endpoint(rng, &[Pipe])) else {
            return;
        };
        let (from, to, pipe) = ((from, None), (to, None), (pipe, None));
        let (length, turns) = (self.length(rng), rng.pick(&[1, 2, 9]));
        for _ in 0..turns {
            if !rng.one_in(9) && self.world.endpoints[pipe.0].bytes > 0 {
                return;
            }
            let into = self.kernel_call(rng, actor, "splice", from, pipe, length);
            let all = if rng.one_in(9) { into / 2 } else { into };
            let mut left = all;
            for _ in 0..4 {
                if left > 0 {
                    let out = self.kernel_call(rng, actor, "splice", pipe, to, left);
                    left -= out.min(left);
                }
            }
            if all == 0 {
                return;
            }
        }
    }

    /// Makes one call that names both ends, or the same operation of a ring. Returns how many bytes
    /// it moved.
    fn kernel_call(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        name: &'static str,
        (from, at): EndpointAt,
        (to, to_at): EndpointAt,
        length: usize,
    ) -> usize {
        let (input, output) = (self.fds(from).0, self.fds(to).1);
        let moved = if name == "splice" && self.has_rings && rng.one_in(5) {
            let offset = |at: Option<usize>| at.map_or(-1, |at| at as i64);
            let (fd, to_fd) = (Fd(input as i32), Fd(output as i32));
            let entry = opcode::Splice::new(fd, offset(at), to_fd, offset(to_at), length as u32);
            let entry = entry.flags(libc::SPLICE_F_NONBLOCK).build();
            self.ring_call(actor, "ring_splice", &entry, |_| ())
        } else {
            let mut offsets = [at, to_at].map(|at| at.map(|at| at as i64));
            let [start, to_start] = offsets
                .each_mut()
                .map(|offset| offset.as_mut().map_or(0, |at| ptr::from_mut(at) as usize));
            let arguments = match name {
                "sendfile" => [output, input, start, length, 0, 0],
                "copy_file_range" => [input, start, output, to_start, length, 0],
                "tee" => [input, output, length, NO_WAIT, 0, 0],
                _ => [input, start, output, to_start, length, NO_WAIT],
            };
            self.syscall(actor, name, &arguments)
        };
        let moved = usize::try_from(moved).unwrap_or(0);
        if moved > 0 {
            let is_own = self.is_me(actor);
            self.world
                .transfer((from, at), (to, to_at), moved, name, is_own);
        }
        moved
    }
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
        let look = self.is_me(actor).then(|| look_at(&vector));
        let arguments = [fd, vector.as_ptr() as usize, vector.len(), NO_WAIT];
        let lent = self.syscall(actor, "vmsplice", &arguments);
        if let Some(lent) = usize::try_from(lent).ok().filter(|lent| *lent > 0) {
            let (process, to) = (self.process_of(actor), (pipe, None));
            self.world
                .write(process, to, &pieces, lent, WritesBy::Call, look.as_ref());
        }
        let queued = self.world.endpoints[pipe].bytes;
        if queued > 0 && !rng.one_in(4) {
            self.kernel_call(rng, actor, "splice", (pipe, None), (to, None), queued);
        }
    }
}
