//! The files, pipes, sockets and memory of a program.

use crate::{
    books::{Books, ProcessIndex},
    memory::{AddressSpace, ByteOrigin, MemoryLook, MemoryPiece},
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
    /// Descriptors, as arguments of calls.
    pub(crate) read_fd: usize,
    pub(crate) write_fd: usize,
    /// For a socket: the other socket of the pair. For a pipe: itself.
    pub(crate) peer: EndpointId,
    /// For a file: where the next call without an offset reads or writes.
    pub(crate) position: usize,
    /// For a file: its length. For a pipe or a stream: how many bytes can be read here.
    pub(crate) bytes: usize,
}

impl Endpoint {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, EndpointKind::Source | EndpointKind::Destination)
    }

    /// Where a call reads or writes in a file, and moves the position if it names no offset.
    fn start_of_call(&mut self, at: Option<usize>, bytes: usize) -> usize {
        at.unwrap_or_else(|| {
            self.position += bytes;
            self.position - bytes
        })
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
    /// A call.
    Call,
    /// An operation of a ring, which zctrace credits to no mapping.
    Ring,
    /// `sendmmsg`, which zctrace credits to nothing.
    Messages,
}

/// A file, and the offset that a call names. Without one, the file's position is used.
pub(crate) type EndpointAt = (EndpointId, Option<usize>);

/// The state of everything, as each thread knows it; and what this thread moved.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) endpoints: Vec<Endpoint>,
    /// The memory of each process.
    pub(crate) spaces: Vec<AddressSpace>,
    pub(crate) pids: Vec<u32>,
    /// How many calls put something into memory, or wrote from there.
    calls: u32,
    pub(crate) books: Books,
}

impl World {
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Self {
        Self {
            endpoints,
            spaces: vec![AddressSpace::new()],
            pids: vec![std::process::id()],
            calls: 0,
            books: Books::default(),
        }
    }

    /// A call takes bytes out of an endpoint.
    fn take(&mut self, (endpoint, at): EndpointAt, bytes: usize, take: Take) {
        let from = &mut self.endpoints[endpoint];
        let last = match from.kind {
            // The rest of a datagram is lost, so what is left is not known.
            EndpointKind::Datagram => return,
            _ if from.is_file() => from.start_of_call(at, bytes) + bytes,
            _ => bytes,
        };
        assert!(last <= from.bytes, "{} has fewer bytes", from.name);
        if take == Take::Remove && !from.is_file() {
            from.bytes -= bytes;
        }
    }

    /// A call moves so many bytes to an endpoint.
    fn put(&mut self, (endpoint, at): EndpointAt, bytes: usize) {
        let to = &mut self.endpoints[endpoint];
        if to.is_file() {
            let end = to.start_of_call(at, bytes) + bytes;
            to.bytes = to.bytes.max(end);
        } else {
            let peer = to.peer;
            self.endpoints[peer].bytes += bytes;
        }
    }

    /// A thread reads bytes into these pieces. `first` are the first ones, if it was this thread.
    pub(crate) fn read(
        &mut self,
        process: ProcessIndex,
        from: EndpointAt,
        pieces: &[MemoryPiece],
        bytes: usize,
        take: Take,
        first: Option<Vec<u8>>,
    ) {
        self.take(from, bytes, take);
        self.fill(process, pieces, bytes, ByteOrigin::Read(from.0));
        if let Some(first) = first {
            let is_peek = take == Take::Peek;
            self.books.read(from.0, bytes, (self.calls, first), is_peek);
        }
    }

    /// A call puts so many bytes into these pieces.
    pub(crate) fn fill(
        &mut self,
        process: ProcessIndex,
        pieces: &[MemoryPiece],
        bytes: usize,
        origin: ByteOrigin,
    ) {
        self.calls += 1;
        self.spaces[process].fill(pieces, bytes, origin);
    }

    /// A thread writes bytes from these pieces. `look` is what was there, if it was this thread.
    pub(crate) fn write(
        &mut self,
        process: ProcessIndex,
        to: EndpointAt,
        pieces: &[MemoryPiece],
        bytes: usize,
        by: WritesBy,
        look: Option<&MemoryLook>,
    ) {
        let mut cells = self.spaces[process].write(pieces, bytes, to.0);
        for cell in &mut cells {
            cell.fill.is_seen &= match by {
                WritesBy::Call => true,
                WritesBy::Ring => !matches!(cell.fill.origin, ByteOrigin::Mapping(_)),
                WritesBy::Messages => false,
            };
        }
        self.calls += 1;
        if let Some(look) = look {
            self.books.write(to.0, &cells, look, self.calls);
        }
        self.put(to, bytes);
    }

    /// A call moves bytes from one end to another.
    pub(crate) fn transfer(
        &mut self,
        from: EndpointAt,
        to: EndpointAt,
        bytes: usize,
        how: &'static str,
        is_own: bool,
    ) {
        let is_copy = how == "tee";
        self.take(from, bytes, if is_copy { Take::Copy } else { Take::Remove });
        if is_own {
            self.books.call([from.0, to.0], how, bytes);
        }
        self.put(to, bytes);
    }
}
