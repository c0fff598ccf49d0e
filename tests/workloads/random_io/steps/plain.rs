//! Reads to memory and writes from memory.

use io_uring::{opcode, squeue, types::Fd};
use zc_tests::truth::Rng;

use crate::{
    memory::{ARENA_BYTES, MemoryPiece, look_at, parts, remember},
    program::{RandomProgram, syscall},
    steps::kernel::NO_WAIT,
    world::{
        Endpoint, EndpointAt, EndpointId,
        EndpointKind::{Datagram, Destination, Pipe, Source, Stream},
        Take, WritesBy,
    },
};

/// How many bytes an empty pipe or socket takes at once.
const RING_ROOM: usize = 16 << 10;

/// The part of these pieces that begins at byte `from` and has at most this many bytes.
fn part(pieces: &[MemoryPiece], from: usize, bytes: usize) -> Vec<MemoryPiece> {
    let parts = parts(pieces, from, bytes);
    parts.filter(|piece| piece.length > 0).collect()
}

fn sum(pieces: &[MemoryPiece]) -> usize {
    pieces.iter().map(|piece| piece.length).sum()
}

/// Who makes a call that reads or writes memory, and its name.
type PlainCall = (usize, &'static str);

/// A copying loop.
struct CopyLoop {
    reader: usize,
    writer: usize,
    from: EndpointId,
    to: EndpointId,
    /// A second destination.
    second: Option<EndpointId>,
    turns: usize,
    length: usize,
    /// The buffer; `None` if each turn uses another one.
    buffer: Option<Vec<MemoryPiece>>,
    /// Whether the program stores to its memory in each turn.
    changes: bool,
    /// Whether it writes each buffer in two parts.
    splits: bool,
    /// Whether it writes a header before each buffer.
    heads: bool,
}

impl RandomProgram {
    /// Copies in a loop that does the same in each turn.
    pub(super) fn copy(&mut self, rng: &mut Rng, reader: usize) {
        let any = &[Source, Destination, Pipe, Stream, Datagram];
        let from = if rng.one_in(4) {
            any.as_slice()
        } else {
            &[Source]
        };
        let to = &[Destination, Destination, Pipe, Stream, Datagram];
        let (Some(from), Some(to)) = (self.endpoint(rng, from), self.endpoint(rng, to)) else {
            return;
        };
        let second = self.endpoint(rng, &[Destination]).filter(|_| rng.one_in(6));
        let writer = if rng.one_in(3) {
            rng.below(self.actors.len())
        } else {
            reader
        };
        let is_one_process = self.process_of(writer) == self.process_of(reader);
        let length = self.length(rng);
        let buffer = self.pieces(rng, reader, length, false);
        let all = CopyLoop {
            reader,
            writer: if is_one_process { writer } else { reader },
            from,
            to,
            second,
            turns: rng.pick(&[1, 1, 2, 3, 8, 10, 20]),
            length,
            buffer: (!rng.one_in(4)).then_some(buffer),
            changes: rng.one_in(6) && self.style.weights[5] > 0,
            splits: rng.one_in(6),
            heads: rng.one_in(8),
        };
        self.copy_in_turns(rng, &all);
    }

    fn copy_in_turns(&mut self, rng: &mut Rng, all: &CopyLoop) {
        let mut at = if rng.one_in(2) {
            0
        } else {
            rng.below(self.world.endpoints[all.from].bytes.max(1))
        };
        for _ in 0..all.turns {
            let buffer = all.buffer.clone();
            let pieces = buffer.unwrap_or_else(|| self.pieces(rng, all.reader, all.length, false));
            let read = self.fill(&mut rng.clone(), all.reader, all.from, &pieces, Some(at));
            if read == 0 {
                break;
            }
            at += read;
            if all.changes {
                self.own(&mut Rng::new(at as u64), all.reader);
            }
            self.write_on(all, part(&pieces, 0, read));
        }
    }

    /// Writes what one turn has read.
    fn write_on(&mut self, all: &CopyLoop, mut parts: Vec<MemoryPiece>) {
        let rng = &mut Rng::new(all.length as u64);
        if all.heads {
            let head = MemoryPiece {
                region: 0,
                offset: ARENA_BYTES - 64,
                length: 10,
            };
            parts.insert(0, head);
        }
        let bytes = sum(&parts);
        let middle = if all.splits { bytes / 2 } else { bytes };
        for (mut start, end) in [(0, middle), (middle, bytes)] {
            // What a short write leaves is written by a second one.
            for _ in 0..2 {
                if start < end {
                    let rest = part(&parts, start, end - start);
                    let written = self.write(rng, all.writer, all.to, &rest);
                    start = if written == 0 { end } else { start + written };
                }
            }
        }
        if let Some(second) = all.second {
            self.write(rng, all.writer, second, &parts);
        }
    }

    /// Reads from any endpoint to any memory.
    pub(super) fn fill_any(&mut self, rng: &mut Rng, actor: usize) {
        let any = &[Source, Destination, Pipe, Stream, Datagram];
        if let Some(endpoint) = self.endpoint(rng, any) {
            let length = self.length(rng);
            let pieces = self.pieces(rng, actor, length, true);
            self.fill(rng, actor, endpoint, &pieces, None);
        }
    }

    /// Writes from any memory to any endpoint.
    pub(super) fn write_any(&mut self, rng: &mut Rng, actor: usize) {
        let any = &[Destination, Destination, Pipe, Stream, Datagram];
        if let Some(endpoint) = self.endpoint(rng, any) {
            let length = self.length(rng);
            let pieces = self.pieces(rng, actor, length, true);
            self.write(rng, actor, endpoint, &pieces);
        }
    }

    fn reading_call(&self, rng: &mut Rng, endpoint: EndpointId, is_vector: bool) -> &'static str {
        let Endpoint { kind, bytes, .. } = self.world.endpoints[endpoint];
        let call = rng.pick(match (kind, is_vector) {
            (Source | Destination, false) => {
                &["read", "read", "pread64", "ring_read", "ring_read_async"]
            }
            (Source | Destination, true) => {
                &["readv", "preadv", "preadv2", "preadv2_here", "ring_readv"]
            }
            (Pipe, false) => &["read", "read", "vmsplice_out", "ring_read"],
            (Pipe, true) => &["readv", "vmsplice_out"],
            (Stream, false) => &["read", "recvfrom", "peek", "ring_read"],
            (Stream, true) => &["readv", "recvmsg", "peekmsg"],
            (Datagram, false) => &["read", "recvfrom", "recvmmsg", "peek"],
            (Datagram, true) => &["readv", "recvmsg", "recvmmsg", "peekmsg"],
        });
        // A ring waits for something to read, even if the descriptor is non-blocking.
        let can_ring = bytes > 0 || matches!(kind, Source | Destination);
        self.allowed(call, can_ring, if is_vector { "readv" } else { "read" })
    }

    fn writing_call(
        &self,
        rng: &mut Rng,
        endpoint: EndpointId,
        pieces: &[MemoryPiece],
    ) -> &'static str {
        let Endpoint { kind, peer, .. } = self.world.endpoints[endpoint];
        let is_vector = pieces.len() > 1;
        let call = rng.pick(match (kind, is_vector) {
            (Source | Destination, false) => &[
                "write",
                "write",
                "pwrite64",
                "ring_write",
                "ring_write_async",
            ],
            (Source | Destination, true) => &[
                "writev",
                "pwritev",
                "pwritev2",
                "pwritev2_here",
                "ring_writev",
            ],
            (Pipe, false) => &["write", "write", "ring_write"],
            (Pipe, true) => &["writev"],
            (Stream, false) => &["write", "sendto", "ring_write"],
            (Stream, true) => &["writev", "sendmsg"],
            (Datagram, false) => &["write", "sendto", "sendmmsg"],
            (Datagram, true) => &["writev", "sendmsg", "sendmmsg"],
        });
        // A ring also waits for room to write.
        let has_room = self.world.endpoints[peer].bytes == 0 && sum(pieces) <= RING_ROOM;
        let can_ring = has_room || matches!(kind, Source | Destination);
        self.allowed(call, can_ring, if is_vector { "writev" } else { "write" })
    }

    fn allowed(&self, call: &'static str, can_ring: bool, instead: &'static str) -> &'static str {
        let is_kept = match call {
            _ if call.starts_with("ring") => self.has_rings && can_ring,
            "vmsplice_out" => self.options.allows("vmsplice") && self.options.allows(call),
            "peek" | "peekmsg" => self.options.allows("peek"),
            _ => self.options.allows(call),
        };
        if is_kept { call } else { instead }
    }

    /// Where such a call reads or writes in a file; `None` if it uses the position.
    fn named_offset(
        &self,
        rng: &mut Rng,
        name: &str,
        endpoint: EndpointId,
        at: usize,
    ) -> Option<usize> {
        let says_where = [
            "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2",
        ]
        .contains(&name)
            || name.starts_with("ring") && rng.one_in(2);
        (says_where && self.world.endpoints[endpoint].is_file()).then_some(at)
    }

    /// Makes one call that reads or writes these pieces, and asks for so many bytes beyond them.
    /// `afterwards` gets the bytes that it moved, before other threads go on. Returns these bytes.
    fn plain_call(
        &mut self,
        (actor, name): PlainCall,
        (endpoint, at): EndpointAt,
        (pieces, beyond): (&[MemoryPiece], usize),
        afterwards: impl FnOnce(usize),
    ) -> usize {
        let (mut vector, (input, output)) = (self.vector(actor, pieces), self.fds(endpoint));
        vector[pieces.len() - 1].iov_len += beyond;
        let afterwards = |result| afterwards(usize::try_from(result).unwrap_or(0));
        let result = if name.starts_with("ring") {
            let entry = ring_entry(name, [input, output], &vector, at);
            self.ring_call(actor, name, &entry, afterwards)
        } else {
            let call = || {
                let result = plain_result(name, [input, output], &vector, at);
                afterwards(result);
                result
            };
            self.call(actor, name, call)
        };
        usize::try_from(result).unwrap_or(0)
    }

    /// Reads to these pieces by such a call. Returns how many bytes it read.
    pub(super) fn read_by(
        &mut self,
        call: PlainCall,
        from: EndpointAt,
        pieces: &[MemoryPiece],
        beyond: usize,
    ) -> usize {
        let (actor, name) = call;
        let (process, vector) = (self.process_of(actor), self.vector(actor, pieces));
        let mut first = None;
        let afterwards = |bytes| first = Some(remember(&vector, bytes));
        let read = self.plain_call(call, from, (pieces, beyond), afterwards);
        if read == 0 {
            return 0;
        }
        if matches!(name, "recvmmsg" | "vmsplice_out") {
            // zctrace does not look where these put their bytes.
            self.world.spaces[process].is_forgetful = true;
        }
        let take = if name.starts_with("peek") {
            Take::Peek
        } else {
            Take::Remove
        };
        self.world.read(process, from, pieces, read, take, first);
        read
    }

    /// Writes from these pieces by such a call. Returns how many bytes it wrote.
    pub(super) fn write_by(
        &mut self,
        call: PlainCall,
        to: EndpointAt,
        pieces: &[MemoryPiece],
        beyond: usize,
    ) -> usize {
        let (actor, name) = call;
        let (process, vector) = (self.process_of(actor), self.vector(actor, pieces));
        let look = self.is_me(actor).then(|| look_at(&vector));
        let written = self.plain_call(call, to, (pieces, beyond), |_| ());
        if written > 0 {
            let by = match name {
                "sendmmsg" => WritesBy::Messages,
                _ if name.starts_with("ring") => WritesBy::Ring,
                _ => WritesBy::Call,
            };
            self.world
                .write(process, to, pieces, written, by, look.as_ref());
        }
        written
    }

    /// Reads to these pieces: at `at`, if the call takes an offset, or else anywhere.
    fn fill(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        endpoint: EndpointId,
        pieces: &[MemoryPiece],
        at: Option<usize>,
    ) -> usize {
        let name = self.reading_call(rng, endpoint, pieces.len() > 1);
        let length = self.world.endpoints[endpoint].bytes;
        let at = at.unwrap_or_else(|| rng.below(length + 1));
        let at = self.named_offset(rng, name, endpoint, at);
        self.read_by((actor, name), (endpoint, at), pieces, 0)
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        endpoint: EndpointId,
        pieces: &[MemoryPiece],
    ) -> usize {
        let name = self.writing_call(rng, endpoint, pieces);
        let length = self.world.endpoints[endpoint].bytes;
        let at = if rng.one_in(2) {
            length
        } else {
            rng.below(length + 1)
        };
        let at = self.named_offset(rng, name, endpoint, at);
        self.write_by((actor, name), (endpoint, at), pieces, 0)
    }
}

/// The operation of a ring that reads or writes this memory.
fn ring_entry(
    name: &str,
    [fd, to]: [usize; 2],
    vector: &[libc::iovec],
    at: Option<usize>,
) -> squeue::Entry {
    let (all, count) = (vector.as_ptr(), vector.len() as u32);
    let (base, length) = (vector[0].iov_base.cast(), vector[0].iov_len as u32);
    let at = at.map_or(u64::MAX, |at| at as u64);
    let (fd, to) = (Fd(fd as i32), Fd(to as i32));
    let entry = match (name.starts_with("ring_read"), count) {
        (true, 1) => opcode::Read::new(fd, base, length).offset(at).build(),
        (true, _) => opcode::Readv::new(fd, all, count).offset(at).build(),
        (false, 1) => opcode::Write::new(to, base, length).offset(at).build(),
        (false, _) => opcode::Writev::new(to, all, count).offset(at).build(),
    };
    if name.ends_with("async") {
        entry.flags(squeue::Flags::ASYNC)
    } else {
        entry
    }
}

fn message(vector: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: a `msghdr` of zeroes is an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vector.as_ptr().cast_mut();
    // musl has another type for it.
    message.msg_iovlen = vector.len() as _;
    message
}

fn plain_result(
    name: &str,
    [fd, to]: [usize; 2],
    vector: &[libc::iovec],
    at: Option<usize>,
) -> i64 {
    /// The position, as an offset.
    const HERE: usize = usize::MAX;
    const PEEK: usize = libc::MSG_PEEK as usize;
    const NO_SIGNAL: usize = libc::MSG_NOSIGNAL as usize;
    let (base, length) = (vector[0].iov_base as usize, vector[0].iov_len);
    let (at, all, count) = (at.unwrap_or(0), vector.as_ptr() as usize, vector.len());
    let mut one = libc::mmsghdr {
        msg_hdr: message(vector),
        msg_len: 0,
    };
    // The header of the message comes first.
    let header = &raw mut one as usize;
    let result = match name {
        "read" | "pread64" => syscall(name, &[fd, base, length, at]),
        "readv" | "preadv" | "preadv2" => syscall(name, &[fd, all, count, at]),
        "preadv2_here" => syscall("preadv2", &[fd, all, count, HERE]),
        "vmsplice_out" => syscall("vmsplice", &[fd, all, count, NO_WAIT]),
        "recvfrom" => syscall(name, &[fd, base, length]),
        "peek" => syscall("recvfrom", &[fd, base, length, PEEK]),
        "recvmsg" => syscall(name, &[fd, header]),
        "peekmsg" => syscall("recvmsg", &[fd, header, PEEK]),
        "recvmmsg" => syscall(name, &[fd, header, 1]),
        "write" | "pwrite64" => syscall(name, &[to, base, length, at]),
        "writev" | "pwritev" | "pwritev2" => syscall(name, &[to, all, count, at]),
        "pwritev2_here" => syscall("pwritev2", &[to, all, count, HERE]),
        "sendto" => syscall(name, &[to, base, length, NO_SIGNAL]),
        "sendmsg" => syscall(name, &[to, header, NO_SIGNAL]),
        "sendmmsg" => syscall(name, &[to, header, 1, NO_SIGNAL]),
        _ => unreachable!("{name}"),
    };
    if name.ends_with("mmsg") && result == 1 {
        one.msg_len.into()
    } else {
        result
    }
}
