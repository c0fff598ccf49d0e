//! The files, pipes, sockets and memory of a program.

use std::{collections::VecDeque, os::fd::RawFd};

use crate::{
    books::{Books, Process},
    memory::{ANY_VALUE, AddressSpace, ByteOrigin, MemoryPiece, values},
};

/// A file, pipe or socket of the program, as an index.
pub(crate) type EndpointId = usize;

/// The kind of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// A file that is only read.
    Source,
    /// A file that is written, and sometimes read.
    Destination,
    /// A pipe.
    Pipe,
    /// An end of a pair of stream sockets.
    Stream,
    /// An end of a pair of datagram sockets.
    Datagram,
}

/// A file, a pipe, or an end of a pair of sockets.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) kind: EndpointKind,
    pub(crate) read_fd: RawFd,
    pub(crate) write_fd: RawFd,
    /// For a socket: the other socket of the pair. For a pipe: itself.
    pub(crate) peer: EndpointId,
    /// For a file: where the next call without an offset reads or writes.
    pub(crate) position: usize,
    /// For a file: its bytes.
    pub(crate) bytes: Vec<u16>,
    /// For a pipe or a socket: the bytes that can be read here.
    pub(crate) queue: VecDeque<u16>,
    /// The lengths of the datagrams in the queue.
    pub(crate) messages: VecDeque<usize>,
}

impl Endpoint {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, EndpointKind::Source | EndpointKind::Destination)
    }
}

/// What a call does with the bytes that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// It removes them, except from a file.
    Remove,
    /// It leaves them there, and they count as read (`tee`).
    Copy,
    /// It leaves them there, and they do not count (`MSG_PEEK`).
    Peek,
}

/// How a thread writes from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritesBy {
    /// A call that copies the bytes.
    Call,
    /// A call after which the pipe refers to the memory, so that the bytes may still change.
    Loan,
    /// An operation of a ring, which zctrace credits to no mapping.
    Ring,
    /// `sendmmsg`, which zctrace credits to nothing.
    Messages,
}

/// A file, and the offset that a call names. Without one, the file's position is used.
pub(crate) type Place = (EndpointId, Option<usize>);

/// The state of everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) endpoints: Vec<Endpoint>,
    /// The memory of each process.
    pub(crate) spaces: Vec<AddressSpace>,
    pub(crate) pids: Vec<u32>,
    /// How many times a call put something into memory.
    fills: u32,
    pub(crate) books: Books,
}

impl World {
    pub(crate) fn new(endpoints: Vec<Endpoint>, space: AddressSpace) -> Self {
        Self {
            endpoints,
            spaces: vec![space],
            pids: vec![std::process::id()],
            fills: 0,
            books: Books::default(),
        }
    }

    /// A call takes bytes out of an endpoint.
    fn take(
        &mut self,
        process: Process,
        (endpoint, at): Place,
        bytes: usize,
        take: Take,
    ) -> Vec<u16> {
        let from = &mut self.endpoints[endpoint];
        let taken: Vec<u16> = if from.is_file() {
            let start = at.unwrap_or(from.position);
            if at.is_none() {
                from.position += bytes;
            }
            from.bytes[start..start + bytes].to_vec()
        } else if take == Take::Remove {
            from.queue.drain(..bytes).collect()
        } else {
            from.queue.iter().take(bytes).copied().collect()
        };
        assert_eq!(taken.len(), bytes, "{} has fewer bytes", from.name);
        // The rest of a datagram is lost.
        if take == Take::Remove
            && let Some(length) = from.messages.pop_front()
        {
            from.queue.drain(..length - bytes);
        }
        if take != Take::Peek {
            self.books.take(process, endpoint, bytes);
        }
        taken
    }

    /// A call moves these bytes to an endpoint.
    fn put(&mut self, (endpoint, at): Place, values: &[u16]) {
        let to = &mut self.endpoints[endpoint];
        if to.is_file() {
            let start = at.unwrap_or(to.position);
            let end = start + values.len();
            if at.is_none() {
                to.position = end;
            }
            if to.bytes.len() < end {
                to.bytes.resize(end, 0);
            }
            to.bytes[start..end].copy_from_slice(values);
            return;
        }
        let is_message = to.kind == EndpointKind::Datagram;
        let peer = to.peer;
        let to = &mut self.endpoints[peer];
        if is_message {
            to.messages.push_back(values.len());
        }
        to.queue.extend(values);
    }

    /// A thread reads bytes into these pieces.
    pub(crate) fn read(
        &mut self,
        (process, actor): (Process, usize),
        from: Place,
        pieces: &[MemoryPiece],
        bytes: usize,
        take: Take,
    ) {
        let values = self.take(process, from, bytes, take);
        self.fill(process, pieces, &values, ByteOrigin::Read(from.0));
        let space = &self.spaces[process];
        let cells = pieces.iter().flat_map(|piece| space.cells(*piece));
        let values = cells.map(|cell| cell.value).take(bytes);
        self.books
            .read(actor, from.0, bytes, values, take == Take::Peek);
    }

    /// A call puts these bytes into these pieces.
    pub(crate) fn fill(
        &mut self,
        process: Process,
        pieces: &[MemoryPiece],
        values: &[u16],
        origin: ByteOrigin,
    ) {
        self.fills += 1;
        self.spaces[process].fill(pieces, values, origin, self.fills);
    }

    /// A thread writes bytes from these pieces.
    pub(crate) fn write(
        &mut self,
        (process, actor): (Process, usize),
        to: Place,
        pieces: &[MemoryPiece],
        bytes: usize,
        by: WritesBy,
    ) {
        let mut cells = self.spaces[process].write(pieces, bytes, to.0);
        for cell in &mut cells {
            cell.fill.is_seen &= match by {
                WritesBy::Call | WritesBy::Loan => true,
                WritesBy::Ring => !matches!(cell.fill.origin, ByteOrigin::Mapping(_)),
                WritesBy::Messages => false,
            };
        }
        self.books.write(process, actor, to.0, &cells);
        let mut values = values(&cells);
        if by == WritesBy::Loan {
            values.fill(ANY_VALUE);
        }
        self.put(to, &values);
    }

    /// A call moves bytes from one end to another. A pipe or socket refers to the page of a file,
    /// so that the bytes may still change.
    pub(crate) fn transfer(
        &mut self,
        process: Process,
        from: Place,
        to: Place,
        bytes: usize,
        how: &'static str,
    ) {
        let take = if how == "tee" {
            Take::Copy
        } else {
            Take::Remove
        };
        let mut values = self.take(process, from, bytes, take);
        if self.endpoints[from.0].is_file() && !self.endpoints[to.0].is_file() {
            values.fill(ANY_VALUE);
        }
        self.books.call(process, [from.0, to.0], how, bytes);
        self.put(to, &values);
    }
}
