//! Reads to memory and writes from memory.

use std::ptr;

use io_uring::{opcode, squeue, types::Fd};
use zc_tests::truth::Rng;

use crate::{
    origin::{EndpointId, FROM_MEMORY, Lender},
    program::{ARENA_BYTES, Program, kernel_result},
    world::{
        Endpoint,
        Kind::{Datagram, Destination, Pipe, Source, Stream},
        Piece, Take,
    },
};

/// How many bytes an empty pipe or socket takes at once.
const RING_ROOM: usize = 16 << 10;

/// Where a call reads or writes in a file.
#[derive(Clone, Copy)]
enum Place {
    /// Anywhere.
    Any,
    /// Here, if the call takes an offset.
    At(usize),
}

/// The part of these pieces that begins at byte `from` and has at most this many bytes.
fn part(pieces: &[Piece], from: usize, bytes: usize) -> Vec<Piece> {
    let (mut skip, mut left, mut parts) = (from, bytes, Vec::new());
    for piece in pieces {
        let skipped = skip.min(piece.length);
        skip -= skipped;
        let length = (piece.length - skipped).min(left);
        left -= length;
        if length > 0 {
            parts.push(Piece {
                offset: piece.offset + skipped,
                length,
                ..*piece
            });
        }
    }
    parts
}

fn sum(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.length).sum()
}

impl Program {
    /// Copies in a loop that does the same in each turn.
    pub(super) fn copy(&mut self, rng: &mut Rng, reader: usize) {
        let from = if rng.one_in(4) {
            None
        } else {
            self.endpoint(rng, &[Source])
        };
        let Some(from) =
            from.or_else(|| self.endpoint(rng, &[Source, Destination, Pipe, Stream, Datagram]))
        else {
            return;
        };
        let Some(to) = self.endpoint(rng, &[Destination, Destination, Pipe, Stream, Datagram])
        else {
            return;
        };
        let second = self.endpoint(rng, &[Destination]).filter(|_| rng.one_in(6));
        let writer = if rng.one_in(3) {
            rng.below(self.actors.len())
        } else {
            reader
        };
        let writer = if self.process_of(writer) == self.process_of(reader) {
            writer
        } else {
            reader
        };
        let turns = rng.of(&[1, 1, 2, 3, 8, 10, 20]);
        let length = self.length(rng);
        let pieces = self.pieces(rng, reader, length, false);
        let (moves, changes, splits, heads) = (
            rng.one_in(4),
            rng.one_in(6) && self.style.weights[5] > 0,
            rng.one_in(6),
            rng.one_in(8),
        );
        let mut at = if rng.one_in(2) {
            0
        } else {
            rng.below(self.world.endpoints[from].bytes.len().max(1))
        };
        for _ in 0..turns {
            let pieces = if moves {
                self.pieces(rng, reader, length, false)
            } else {
                pieces.clone()
            };
            let (mut reading, mut writing) = (rng.clone(), Rng::new(length as u64));
            let read = self.fill(&mut reading, reader, from, &pieces, Place::At(at));
            if read == 0 {
                break;
            }
            at += read;
            if changes {
                self.own(&mut Rng::new(at as u64), reader);
            }
            let mut parts = part(&pieces, 0, read);
            if heads {
                parts.insert(
                    0,
                    Piece {
                        region: 0,
                        offset: ARENA_BYTES - 64,
                        length: 10,
                    },
                );
            }
            let all = sum(&parts);
            let first = if splits { all / 2 } else { all };
            for (from, bytes) in [(0, first), (first, all - first)]
                .into_iter()
                .filter(|(_, bytes)| *bytes > 0)
            {
                let written = self.write(&mut writing, writer, to, &part(&parts, from, bytes));
                if written > 0 && written < bytes {
                    self.write(
                        &mut writing,
                        writer,
                        to,
                        &part(&parts, from + written, bytes - written),
                    );
                }
            }
            if let Some(second) = second {
                self.write(&mut writing, writer, second, &parts);
            }
        }
    }

    /// Reads from any endpoint to any memory.
    pub(super) fn fill_any(&mut self, rng: &mut Rng, actor: usize) {
        let Some(endpoint) = self.endpoint(rng, &[Source, Destination, Pipe, Stream, Datagram])
        else {
            return;
        };
        let length = self.length(rng);
        let pieces = self.pieces(rng, actor, length, true);
        self.fill(rng, actor, endpoint, &pieces, Place::Any);
    }

    /// Writes from any memory to any endpoint.
    pub(super) fn write_any(&mut self, rng: &mut Rng, actor: usize) {
        let Some(endpoint) =
            self.endpoint(rng, &[Destination, Destination, Pipe, Stream, Datagram])
        else {
            return;
        };
        let length = self.length(rng);
        let pieces = self.pieces(rng, actor, length, true);
        self.write(rng, actor, endpoint, &pieces);
    }

    fn reading_call(&self, rng: &mut Rng, endpoint: EndpointId, is_vector: bool) -> &'static str {
        let Endpoint {
            kind, ref queue, ..
        } = self.world.endpoints[endpoint];
        let call = rng.of(match (kind, is_vector) {
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
        let can_ring = !queue.is_empty() || matches!(kind, Source | Destination);
        self.allowed(call, can_ring, if is_vector { "readv" } else { "read" })
    }

    fn writing_call(&self, rng: &mut Rng, endpoint: EndpointId, pieces: &[Piece]) -> &'static str {
        let Endpoint { kind, peer, .. } = self.world.endpoints[endpoint];
        let is_vector = pieces.len() > 1;
        let call = rng.of(match (kind, is_vector) {
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
        let has_room = self.world.endpoints[peer].queue.is_empty() && sum(pieces) <= RING_ROOM;
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

    fn fill(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        endpoint: EndpointId,
        pieces: &[Piece],
        place: Place,
    ) -> usize {
        if self.is_memory_lent(actor) {
            return 0;
        }
        let kind = self.world.endpoints[endpoint].kind;
        let name = self.reading_call(rng, endpoint, pieces.len() > 1);
        let length = self.world.endpoints[endpoint].bytes.len();
        let says_where = matches!(name, "pread64" | "preadv" | "preadv2")
            || (name.starts_with("ring") && rng.one_in(2));
        let at = (says_where && self.world.endpoints[endpoint].is_file()).then(|| match place {
            Place::At(at) => at,
            Place::Any => rng.below(length + 1),
        });
        let (vector, fd) = (self.vector(actor, pieces), self.fds(endpoint).0);
        let words = format!("{} to {pieces:?} at {at:?}", self.name(endpoint));
        let result = if name.starts_with("ring") {
            let offset = at.map_or(u64::MAX, |at| at as u64);
            let entry = match vector.as_slice() {
                [one] => opcode::Read::new(
                    Fd(fd),
                    one.iov_base.cast(),
                    u32::try_from(one.iov_len).expect("short"),
                )
                .offset(offset)
                .build(),
                all => opcode::Readv::new(Fd(fd), all.as_ptr(), all.len() as u32)
                    .offset(offset)
                    .build(),
            };
            let entry = if name.ends_with("async") {
                entry.flags(squeue::Flags::ASYNC)
            } else {
                entry
            };
            self.ring_call(actor, name, || words, &entry)
        } else {
            self.call(actor, name, || words, || raw_read(name, fd, &vector, at))
        };
        let Some(read) = usize::try_from(result).ok().filter(|read| *read > 0) else {
            return 0;
        };
        let manner = if name.starts_with("peek") {
            Take::Peek
        } else {
            Take::Remove
        };
        let process = self.process_of(actor);
        let cells = self.world.take(process, endpoint, at, read, manner);
        if kind == Datagram && manner == Take::Remove {
            self.world.end_message(endpoint, read);
        }
        self.world.fill(process, pieces, &cells);
        read
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        actor: usize,
        endpoint: EndpointId,
        pieces: &[Piece],
    ) -> usize {
        let is_file = self.world.endpoints[endpoint].is_file();
        if is_file && self.world.is_lent(Lender::Endpoint(endpoint)) {
            return 0;
        }
        let name = self.writing_call(rng, endpoint, pieces);
        let length = self.world.endpoints[endpoint].bytes.len();
        let says_where = matches!(name, "pwrite64" | "pwritev" | "pwritev2")
            || (name.starts_with("ring") && rng.one_in(2));
        let at = (says_where && is_file).then(|| {
            if rng.one_in(2) {
                length
            } else {
                rng.below(length + 1)
            }
        });
        self.verify(actor, pieces);
        let (vector, fd) = (self.vector(actor, pieces), self.fds(endpoint).1);
        let words = format!("{} from {pieces:?} at {at:?}", self.name(endpoint));
        let result = if name.starts_with("ring") {
            let offset = at.map_or(u64::MAX, |at| at as u64);
            let entry = match vector.as_slice() {
                [one] => opcode::Write::new(
                    Fd(fd),
                    one.iov_base.cast(),
                    u32::try_from(one.iov_len).expect("short"),
                )
                .offset(offset)
                .build(),
                all => opcode::Writev::new(Fd(fd), all.as_ptr(), all.len() as u32)
                    .offset(offset)
                    .build(),
            };
            let entry = if name.ends_with("async") {
                entry.flags(squeue::Flags::ASYNC)
            } else {
                entry
            };
            self.ring_call(actor, name, || words, &entry)
        } else {
            self.call(actor, name, || words, || raw_write(name, fd, &vector, at))
        };
        let Some(written) = usize::try_from(result).ok().filter(|written| *written > 0) else {
            return 0;
        };
        let process = self.process_of(actor);
        let cells = self.world.load(process, pieces, written);
        self.world.put(process, endpoint, at, cells, FROM_MEMORY);
        written
    }
}

fn message(vector: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: a `msghdr` of zeroes is an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (vector.as_ptr().cast_mut(), vector.len());
    message
}

fn messages(vector: &[libc::iovec]) -> libc::mmsghdr {
    libc::mmsghdr {
        msg_hdr: message(vector),
        msg_len: 0,
    }
}

/// The result of a call on one message: its length.
fn of_messages(result: i32, message: &libc::mmsghdr) -> i64 {
    if result == 1 {
        message.msg_len.into()
    } else {
        kernel_result(result as isize)
    }
}

fn raw_read(name: &str, fd: i32, vector: &[libc::iovec], at: Option<usize>) -> i64 {
    let (base, length, count) = (vector[0].iov_base, vector[0].iov_len, vector.len() as i32);
    let offset = at.unwrap_or(0) as i64;
    // SAFETY: the vector names memory of regions, which has no references.
    let result = unsafe {
        match name {
            "read" => libc::read(fd, base, length),
            "pread64" => libc::pread64(fd, base, length, offset),
            "readv" => libc::readv(fd, vector.as_ptr(), count),
            "preadv" => libc::preadv64(fd, vector.as_ptr(), count, offset),
            "preadv2" => libc::preadv64v2(fd, vector.as_ptr(), count, offset, 0),
            "preadv2_here" => libc::preadv64v2(fd, vector.as_ptr(), count, -1, 0),
            "vmsplice_out" => {
                libc::vmsplice(fd, vector.as_ptr(), vector.len(), libc::SPLICE_F_NONBLOCK)
            }
            "recvfrom" => libc::recv(fd, base, length, 0),
            "peek" => libc::recv(fd, base, length, libc::MSG_PEEK),
            "recvmsg" => libc::recvmsg(fd, &raw mut *Box::new(message(vector)), 0),
            "peekmsg" => libc::recvmsg(fd, &raw mut *Box::new(message(vector)), libc::MSG_PEEK),
            "recvmmsg" => {
                let mut message = messages(vector);
                let result = libc::recvmmsg(fd, &raw mut message, 1, 0, ptr::null_mut());
                return of_messages(result, &message);
            }
            _ => unreachable!("{name}"),
        }
    };
    kernel_result(result)
}

fn raw_write(name: &str, fd: i32, vector: &[libc::iovec], at: Option<usize>) -> i64 {
    let (base, length, count) = (vector[0].iov_base, vector[0].iov_len, vector.len() as i32);
    let offset = at.unwrap_or(0) as i64;
    // SAFETY: as above.
    let result = unsafe {
        match name {
            "write" => libc::write(fd, base, length),
            "pwrite64" => libc::pwrite64(fd, base, length, offset),
            "writev" => libc::writev(fd, vector.as_ptr(), count),
            "pwritev" => libc::pwritev64(fd, vector.as_ptr(), count, offset),
            "pwritev2" => libc::pwritev64v2(fd, vector.as_ptr(), count, offset, 0),
            "pwritev2_here" => libc::pwritev64v2(fd, vector.as_ptr(), count, -1, 0),
            "sendto" => libc::send(fd, base, length, libc::MSG_NOSIGNAL),
            "sendmsg" => libc::sendmsg(
                fd,
                &raw const *Box::new(message(vector)),
                libc::MSG_NOSIGNAL,
            ),
            "sendmmsg" => {
                let mut message = messages(vector);
                let result = libc::sendmmsg(fd, &raw mut message, 1, libc::MSG_NOSIGNAL);
                return of_messages(result, &message);
            }
            _ => unreachable!("{name}"),
        }
    };
    kernel_result(result)
}
