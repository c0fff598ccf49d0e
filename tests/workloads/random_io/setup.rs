//! The start of a program: its style, files, pipes and sockets, all chosen by the seed.

use std::fs::File;

use anyhow::{Result, ensure};
use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
};
use zc_tests::{
    descriptor,
    truth::{Rng, SOURCES},
};

use crate::{
    memory::{ARENA_BYTES, map_memory},
    program::{ProgramOptions, ProgramStyle, RandomProgram},
    world::{Endpoint, EndpointKind},
};

/// The weights of each kind of step in each kind of program: copies, reads, writes, calls within
/// the kernel, `vmsplice`, stores, mappings, failures, children, positions.
const THEMES: [[usize; 10]; 8] = [
    [10, 1, 1, 1, 0, 0, 0, 0, 0, 1],
    [3, 5, 5, 1, 0, 1, 1, 1, 0, 1],
    [2, 1, 1, 8, 1, 0, 0, 1, 0, 1],
    [3, 4, 5, 0, 0, 6, 1, 0, 0, 1],
    [2, 2, 5, 1, 0, 2, 4, 0, 0, 0],
    [3, 3, 4, 3, 1, 2, 1, 1, 1, 1],
    [4, 3, 4, 2, 0, 1, 1, 0, 2, 0],
    [5, 0, 0, 3, 0, 0, 0, 0, 0, 0],
];

/// The theme of programs with children.
const FORKING: usize = 6;

/// The program with this seed.
pub(crate) fn program(options: ProgramOptions) -> Result<RandomProgram> {
    let mut rng = Rng::new(options.seed);
    let theme = rng.below(THEMES.len());
    let unit = rng.pick(&[
        1, 8, 16, 100, 512, 1000, 1000, 4096, 4096, 8192, 10_000, 16_384, 20_000, 60_000,
    ]);
    let style = ProgramStyle {
        weights: THEMES[theme],
        unit,
        slots: slots(&mut rng, unit),
        vectors: rng.pick(&[1, 2, 5, 50]),
    };
    let threads = if theme == FORKING || !rng.one_in(4) {
        1
    } else {
        2 + rng.below(2)
    };
    ensure!(map_memory(), "no memory for buffers");
    let endpoints = endpoints(&mut rng, theme, options.number)?;
    RandomProgram::new(options, style, endpoints, threads)
}

/// The offsets of buffers: some are adjacent, some overlap, some are anywhere.
fn slots(rng: &mut Rng, unit: usize) -> Vec<usize> {
    let mut slots = vec![rng.pick(&[0, 1, 4000, 4096])];
    for _ in 0..=rng.below(4) {
        let last = slots[slots.len() - 1];
        slots.push(match rng.below(4) {
            0 => last + unit,
            1 => last + unit / 2,
            2 => last + unit + 13,
            _ => rng.below(ARENA_BYTES / 2),
        });
    }
    slots.retain(|slot| *slot < ARENA_BYTES - 8192);
    slots
}

fn endpoints(rng: &mut Rng, theme: usize, number: u64) -> Result<Vec<Endpoint>> {
    let mut endpoints = Vec::new();
    for _ in 0..=rng.below(3) {
        let index = rng.below(SOURCES.len());
        let name = format!("s{index}");
        if endpoints
            .iter()
            .all(|endpoint: &Endpoint| endpoint.name != name)
        {
            let fd = descriptor(File::open(&name)?);
            endpoints.push(Endpoint {
                bytes: SOURCES[index],
                ..endpoint(name, EndpointKind::Source, fd, fd)
            });
        }
    }
    for index in 0..=rng.below(3) {
        let name = format!("d{number}.{index}");
        let mut file = File::options();
        file.read(true).write(true).create(true).truncate(true);
        let fd = descriptor(file.open(&name)?);
        endpoints.push(endpoint(name, EndpointKind::Destination, fd, fd));
    }
    let is_plain = theme == 0 && rng.one_in(2);
    for _ in 0..if is_plain { 0 } else { rng.below(3) } {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let [reader, writer] = [reader, writer].map(descriptor);
        let peer = endpoints.len();
        endpoints.push(Endpoint {
            peer,
            ..endpoint(inode(reader)?, EndpointKind::Pipe, reader, writer)
        });
    }
    if !is_plain && rng.one_in(2) {
        let (kind, socket) = if rng.one_in(3) {
            (EndpointKind::Datagram, SocketType::DGRAM)
        } else {
            (EndpointKind::Stream, SocketType::STREAM)
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, socket, flags, None)?;
        let first = endpoints.len();
        for (fd, peer) in [(one, first + 1), (other, first)] {
            let fd = descriptor(fd);
            endpoints.push(Endpoint {
                peer,
                ..endpoint(inode(fd)?, kind, fd, fd)
            });
        }
    }
    Ok(endpoints)
}

fn endpoint(name: String, kind: EndpointKind, read_fd: usize, write_fd: usize) -> Endpoint {
    Endpoint {
        name,
        kind,
        read_fd,
        write_fd,
        peer: 0,
        position: 0,
        bytes: 0,
    }
}

/// The name of a pipe or a socket: its inode number, which is also in reports.
fn inode(fd: usize) -> Result<String> {
    // SAFETY: the descriptor is open, and stays open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd as i32) };
    Ok(format!("ino:{}", rustix::fs::fstat(fd)?.st_ino))
}
