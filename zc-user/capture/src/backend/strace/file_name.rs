//! Parses the name that strace prints of the file behind a descriptor. Sources: `printfd` of
//! strace's src/util.c, and its src/socketutils.c.

use std::net::SocketAddr;

use super::{
    args::DELETED,
    syntax::{decimal, sun_path, unescaped},
};
use crate::trace::{DELETED_SUFFIX, File, FileIdentity, FileKind};
use zctrace_core::text::from_bytes;

/// [`DELETED_SUFFIX`] as bytes.
pub const DELETED_INSIDE: &[u8] = DELETED_SUFFIX.as_bytes();
/// What the kernel puts before the name of a file of `memfd_create`.
const MEMFD: &[u8] = b"/memfd:";

/// Device numbers of the kernel's internal filesystems; 0 if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices {
    /// The device of pipes without a path.
    pub pipes: u64,
    /// The device of sockets.
    pub sockets: u64,
}

/// What a name says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedName {
    /// The file. Only the name of a pipe or socket says its identity.
    pub file: File,
    /// The path as bytes, if the file is or was in a filesystem.
    pub path: Option<Vec<u8>>,
    /// Whether the path is no longer that of the file.
    pub is_deleted: bool,
}

/// Parses the name of a [`NamedDescriptor`](super::args::NamedDescriptor).
pub fn parse(name: &[u8], devices: Devices) -> ParsedName {
    let outside = |file| ParsedName {
        file,
        ..ParsedName::default()
    };
    if let Some(socket) = parse_socket(name, devices.sockets) {
        return outside(socket);
    }
    let (name, is_marked) = name
        .strip_suffix(DELETED)
        .map_or((name, false), |name| (name, true));
    if let Some((path, kind)) = split_device(name) {
        return in_filesystem(unescaped(path).collect(), Some(kind), is_marked);
    }
    let name: Vec<u8> = unescaped(name).collect();
    if name.starts_with(b"/") {
        let inside = name.strip_suffix(DELETED_INSIDE).filter(|_| !is_marked);
        let is_deleted = is_marked || inside.is_some();
        return in_filesystem(inside.map(<[u8]>::to_vec).unwrap_or(name), None, is_deleted);
    }
    outside(elsewhere(&name, devices.pipes))
}

/// `/dev/null<char 1:3>`: strace adds what it is.
fn split_device(name: &[u8]) -> Option<(&[u8], FileKind)> {
    let (path, device) = name
        .strip_suffix(b">")?
        .split_at(name.iter().rposition(|&byte| byte == b'<')?);
    let kinds = [
        (b"<char ".as_slice(), FileKind::Char),
        (b"<block ", FileKind::Block),
    ];
    let found = kinds.iter().find(|(start, _)| device.starts_with(start));
    found.map(|(_, kind)| (path, *kind))
}

fn in_filesystem(path: Vec<u8>, kind: Option<FileKind>, is_deleted: bool) -> ParsedName {
    let is_memfd = is_deleted && path.starts_with(MEMFD);
    let shown = if is_memfd {
        from_bytes(&path[1..])
    } else if is_deleted {
        from_bytes(&path) + DELETED_SUFFIX
    } else {
        from_bytes(&path)
    };
    let file = File {
        kind: if is_memfd {
            Some(FileKind::Memfd)
        } else {
            kind
        },
        path: Some(shown),
        ..File::default()
    };
    ParsedName {
        file,
        path: Some(path),
        is_deleted,
    }
}

/// A file outside of all directories: `pipe:[123]`, `anon_inode:[eventpoll]`, `pid:123`.
fn elsewhere(name: &[u8], pipes: u64) -> File {
    if let Some(inode) = bracketed_number(name, b"pipe:[") {
        return File {
            identity: Some(identity(pipes, inode)),
            ..kernel_file(FileKind::Pipe, "pipefs", None)
        };
    }
    let (kind, name) = match name {
        b"anon_inode:[eventfd]" => (FileKind::Eventfd, name),
        _ if name.starts_with(EVENTFD) => (FileKind::Eventfd, b"anon_inode:[eventfd]".as_slice()),
        _ if name.starts_with(b"anon_inode:") => (FileKind::Anonymous, name),
        _ if name.starts_with(b"signalfd:[") => {
            (FileKind::Anonymous, b"anon_inode:[signalfd]".as_slice())
        }
        _ if name.starts_with(b"pid:") => (FileKind::Anonymous, b"anon_inode:[pidfd]".as_slice()),
        // For example a namespace; the kind is unknown.
        _ => {
            return File {
                path: Some(from_bytes(name)),
                ..File::default()
            };
        }
    };
    kernel_file(kind, "anon_inodefs", Some(from_bytes(name)))
}

/// How strace 6.10 and newer print an `eventfd`: `{eventfd-count=0x1, eventfd-id=2,
/// eventfd-semaphore=0}`.
const EVENTFD: &[u8] = b"{eventfd-count=";

/// The part of a name that identifies the file: without what changes while the file stays the same.
pub fn stable_key<'a>(text: &'a [u8], name: &'a [u8]) -> &'a [u8] {
    if name.starts_with(EVENTFD) {
        let id = name.windows(9).position(|window| window == b"eventfd-i");
        return id.map_or(EVENTFD, |id| &name[id..]);
    }
    // Several may have the same name; the number of the descriptor tells them apart.
    if name.starts_with(MEMFD) { text } else { name }
}

/// A file in one of the kernel's internal filesystems.
fn kernel_file(kind: FileKind, filesystem: &str, path: Option<String>) -> File {
    File {
        kind: Some(kind),
        filesystem: Some(filesystem.to_owned()),
        path,
        ..File::default()
    }
}

/// An identity as far as user space can see it.
pub fn identity(device: u64, inode: u64) -> FileIdentity {
    FileIdentity {
        device,
        inode,
        generation: None,
    }
}

fn bracketed_number(name: &[u8], before: &[u8]) -> Option<u64> {
    let (number, rest) = decimal(name.strip_prefix(before)?)?;
    (rest == b"]").then_some(number)
}

/// Parses the name of a socket, as in `TCP:[127.0.0.1:80->127.0.0.1:4000]`,
/// `UNIX-STREAM:[11->12,"/run/x"]`, `NETLINK:[ROUTE:123]`, or with the inode only, `TCP:[123]`, if
/// the kernel says no more. `None` if it is not a socket.
fn parse_socket(name: &[u8], sockets: u64) -> Option<File> {
    let colon = name.iter().position(|&byte| byte == b':')?;
    let (protocol, rest) = name.split_at(colon);
    let about = rest.strip_prefix(b":[")?.strip_suffix(b"]")?;
    let kind = socket_kind(protocol)?;
    let mut file = kernel_file(kind, "sockfs", None);
    match decimal(about) {
        _ if kind == FileKind::Netlink => {}
        Some((inode, rest)) if rest.is_empty() || protocol.starts_with(b"UNIX") => {
            file.identity = Some(identity(sockets, inode));
            // `->12` is the inode of the peer, `,"/run/x"` its own address.
            let peer = rest.strip_prefix(b"->").and_then(decimal);
            let address = peer.map_or(rest, |(_, rest)| rest).strip_prefix(b",");
            file.peer_inode = peer.map(|(inode, _)| inode);
            file.path = address.and_then(sun_path);
        }
        _ => {
            // `127.0.0.1:80`, with `->` and the peer if there is one.
            let about = String::from_utf8_lossy(about);
            let (local, peer) = about.split_once("->").unwrap_or((&about, ""));
            (file.local, file.peer) = (socket_address(local), socket_address(peer));
        }
    }
    Some(file)
}

/// The kind of socket by the kernel's name of the protocol. `UNIX` means any Unix socket but a
/// stream, and before Linux 5.15 a stream, too.
fn socket_kind(protocol: &[u8]) -> Option<FileKind> {
    Some(match protocol {
        b"UNIX-STREAM" => FileKind::UnixStream,
        b"TCP" | b"TCPv6" | b"MPTCP" | b"MPTCPv6" => FileKind::Tcp,
        b"UDP" | b"UDPv6" => FileKind::Udp,
        b"NETLINK" => FileKind::Netlink,
        // strace prints `socket` if it does not know the protocol, and under -y always.
        b"socket" | [b'A'..=b'Z', ..] => FileKind::Socket,
        _ => return None,
    })
}

/// `HOST:PORT`; `None` without a port.
fn socket_address(text: &str) -> Option<String> {
    let address: SocketAddr = text.parse().ok()?;
    (address.port() != 0).then(|| address.to_string())
}
