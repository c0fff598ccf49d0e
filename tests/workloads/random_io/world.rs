//! The files, pipes, sockets and memory of a program, with the origin of every byte.

use std::{collections::VecDeque, os::fd::RawFd};

use crate::origin::{
    ANY_VALUE, Books, Cell, EndpointId, Fate, Lender, Manner, Origin, Origins, Process,
};

/// The kind of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    pub(crate) kind: Kind,
    pub(crate) read_fd: RawFd,
    pub(crate) write_fd: RawFd,
    /// For a socket: the other socket of the pair. For a pipe: itself.
    pub(crate) peer: EndpointId,
    /// For a file: where the next call without an offset reads or writes.
    pub(crate) position: usize,
    /// For a file: its bytes.
    pub(crate) bytes: Vec<Cell>,
    /// For a pipe or a socket: the bytes that can be read here.
    pub(crate) queue: VecDeque<Cell>,
    /// The lengths of the datagrams in the queue.
    pub(crate) messages: VecDeque<usize>,
}

impl Endpoint {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Source | Kind::Destination)
    }
}

/// A region of an address space.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) start: usize,
    pub(crate) cells: Vec<Cell>,
}

/// A range of memory in one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) region: usize,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// The state of everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) endpoints: Vec<Endpoint>,
    /// The regions of each process: the first is plain memory, the others are private mappings of
    /// files.
    pub(crate) memory: Vec<Vec<Region>>,
    pub(crate) pids: Vec<u32>,
    /// How many times something was read to memory.
    pub(crate) reads: u32,
    pub(crate) origins: Origins,
    pub(crate) books: Books,
}

/// Replaces the origin of each cell. It remembers the last change, because neighbours mostly have
/// the same origin.
fn each_origin(cells: &mut [Cell], mut change: impl FnMut(Origin) -> Origin) {
    let mut last = None;
    for cell in cells {
        let known = last.filter(|&(from, _)| from == cell.origin);
        let (_, to) = *last.insert(known.unwrap_or_else(|| (cell.origin, change(cell.origin))));
        cell.origin = to;
    }
}

impl World {
    /// A call of `process` takes bytes out of an endpoint: from a file at `at`, or at its position.
    pub(crate) fn take(
        &mut self,
        process: Process,
        endpoint: EndpointId,
        at: Option<usize>,
        bytes: usize,
        manner: Take,
    ) -> Vec<Cell> {
        let from = &mut self.endpoints[endpoint];
        let mut cells: Vec<Cell> = if from.is_file() {
            let start = at.unwrap_or(from.position);
            if at.is_none() {
                from.position += bytes;
            }
            from.bytes[start..start + bytes].to_vec()
        } else if manner == Take::Remove {
            from.queue.drain(..bytes).collect()
        } else {
            from.queue.iter().take(bytes).copied().collect()
        };
        assert_eq!(
            cells.len(),
            bytes,
            "more came out of {} than is there",
            from.name
        );
        if manner != Take::Peek {
            self.books.read(process, endpoint, bytes);
        }
        each_origin(&mut cells, |origin| {
            self.origins.taken_from(origin, endpoint, false)
        });
        cells
    }

    /// Removes the first datagram, of which `read` bytes were read. The rest of it is lost.
    pub(crate) fn end_message(&mut self, endpoint: EndpointId, read: usize) {
        let from = &mut self.endpoints[endpoint];
        if let Some(length) = from.messages.pop_front() {
            from.queue.drain(..length - read);
        }
    }

    /// A call of `process` moves these bytes to an endpoint.
    pub(crate) fn put(
        &mut self,
        process: Process,
        endpoint: EndpointId,
        at: Option<usize>,
        mut cells: Vec<Cell>,
        manner: Manner,
    ) {
        self.books
            .write(&self.origins, process, endpoint, manner, &cells);
        each_origin(&mut cells, |origin| {
            self.origins.written_by(origin, process, manner)
        });
        let to = &mut self.endpoints[endpoint];
        if to.is_file() {
            for cell in &mut cells {
                cell.lender = Lender::Nobody;
            }
            let start = at.unwrap_or(to.position);
            let end = start + cells.len();
            if at.is_none() {
                to.position = end;
            }
            if to.bytes.len() < end {
                to.bytes.resize(end, Cell::own(0));
            }
            to.bytes[start..end].copy_from_slice(&cells);
            return;
        }
        let is_message = to.kind == Kind::Datagram;
        let peer = to.peer;
        let to = &mut self.endpoints[peer];
        if is_message {
            to.messages.push_back(cells.len());
        }
        to.queue.extend(cells);
    }

    /// At most this many bytes from these pieces, in order.
    pub(crate) fn load(&self, process: Process, pieces: &[Piece], bytes: usize) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(bytes);
        for piece in pieces {
            let length = piece.length.min(bytes - cells.len());
            cells.extend_from_slice(
                &self.memory[process][piece.region].cells[piece.offset..piece.offset + length],
            );
        }
        cells
    }

    /// The kernel puts these bytes into these pieces, in order.
    pub(crate) fn fill(&mut self, process: Process, pieces: &[Piece], cells: &[Cell]) {
        self.reads += 1;
        let mut rest = cells;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.length.min(rest.len()));
            rest = later;
            let memory = &mut self.memory[process][piece.region].cells
                [piece.offset..piece.offset + now.len()];
            for (place, cell) in memory.iter_mut().zip(now) {
                *place = Cell {
                    under: cell.origin,
                    under_value: cell.value,
                    under_read: self.reads,
                    lender: Lender::Nobody,
                    ..*cell
                };
            }
        }
    }

    /// The program stores these bytes in a piece.
    pub(crate) fn store(&mut self, process: Process, piece: Piece, cells: &[Cell]) {
        let memory =
            &mut self.memory[process][piece.region].cells[piece.offset..piece.offset + cells.len()];
        for (place, cell) in memory.iter_mut().zip(cells) {
            *place = Cell {
                under: place.under,
                under_value: place.under_value,
                under_read: place.under_read,
                lender: Lender::Nobody,
                ..*cell
            };
        }
    }

    /// Marks these bytes as copied or changed by the program.
    pub(crate) fn handled(&mut self, cells: &mut [Cell], fate: Fate) {
        each_origin(cells, |origin| self.origins.handled(origin, fate));
    }

    /// The bytes of a new private mapping of a file, with zeroes to the end of the last page.
    pub(crate) fn mapped(&mut self, endpoint: EndpointId, length: usize) -> Vec<Cell> {
        let mut cells = self.endpoints[endpoint].bytes.clone();
        each_origin(&mut cells, |origin| {
            self.origins.taken_from(origin, endpoint, true)
        });
        for cell in &mut cells {
            (cell.under, cell.under_value) = (cell.origin, cell.value);
        }
        cells.resize(length, Cell::own(0));
        cells
    }

    /// Whether a pipe or socket refers to pages of this lender.
    pub(crate) fn is_lent(&self, lender: Lender) -> bool {
        self.endpoints
            .iter()
            .any(|endpoint| endpoint.queue.iter().any(|cell| cell.lender == lender))
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

/// Whether the memory at this address has the values of these cells, as far as they are known.
pub(crate) fn has_values(address: usize, cells: &[Cell]) -> bool {
    // SAFETY: the caller's region has this much readable memory, and nobody changes it at the
    // moment.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, cells.len()) };
    bytes
        .iter()
        .zip(cells)
        .all(|(&byte, cell)| cell.value == ANY_VALUE || cell.value == u16::from(byte))
}
