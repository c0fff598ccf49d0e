//! Parses the name that strace prints of the file behind a descriptor. Sources: `printfd` of
//! strace's src/util.c, and its src/socketutils.c.

use std::net::SocketAddr;

use super::{
    args::DELETED,
    syntax::{decimal, sun_path, unescaped},
};
use crate::trace::{File, FileKind};

/// What the kernel appends to the name of a deleted file.
const DELETED_INSIDE: &[u8] = b" (deleted)";
/// What the kernel puts before the name of a file of `memfd_create`.
pub const MEMFD: &[u8] = b"/memfd:";

/// What a name says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedName {
    /// The file; names do not say its identity.
    pub file: File,
    /// The inode number, of a pipe or socket.
    pub inode: Option<u64>,
    /// The path as bytes, if the file is or was in a filesystem.
    pub path: Option<Vec<u8>>,
    /// Whether the path is no longer that of the file.
    pub is_deleted: bool,
}

/// Parses the name of a [`Descriptor`](super::args::Descriptor).
pub fn parse(name: &[u8]) -> ParsedName {
    if let Some(parsed) = parse_socket(name) {
        return parsed;
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
    elsewhere(&name)
}

/// `/dev/null<char 1:3>`: strace adds what it is.
fn split_device(name: &[u8]) -> Option<(&[u8], FileKind)> {
    let (path, device) = name
        .strip_suffix(b">")?
        .split_at(name.iter().rposition(|&byte| byte == b'<')?);
    let kind = if device.starts_with(b"<char ") {
        FileKind::Char
    } else {
        FileKind::Block
    };
    (kind == FileKind::Char || device.starts_with(b"<block ")).then_some((path, kind))
}

fn in_filesystem(path: Vec<u8>, kind: Option<FileKind>, is_deleted: bool) -> ParsedName {
    let is_memfd = is_deleted && path.starts_with(MEMFD);
    let shown = if is_memfd { &path[1..] } else { &path };
    let file = File {
        kind: if is_memfd {
            Some(FileKind::Memfd)
        } else {
            kind
        },
        path: Some(String::from_utf8_lossy(shown).into_owned()),
        ..File::default()
    };
    ParsedName {
        file,
        inode: None,
        path: Some(path),
        is_deleted,
    }
}

/// A file outside of all directories: `pipe:[123]`, `anon_inode:[eventpoll]`, `pid:123`.
fn elsewhere(name: &[u8]) -> ParsedName {
    if let Some(inode) = bracketed_number(name, b"pipe:[") {
        return ParsedName {
            file: kernel_file(FileKind::Pipe, "pipefs", None),
            inode: Some(inode),
            ..ParsedName::default()
        };
    }
    let own_name = match name {
        b"anon_inode:[eventfd]" => return anonymous(FileKind::Eventfd, name),
        _ if name.starts_with(EVENTFD) => {
            return anonymous(FileKind::Eventfd, b"anon_inode:[eventfd]");
        }
        _ if name.starts_with(b"anon_inode:") => name,
        _ if name.starts_with(b"signalfd:[") => b"anon_inode:[signalfd]",
        _ if name.starts_with(b"pid:") => b"anon_inode:[pidfd]",
        // For example a namespace; the kind is unknown.
        _ => {
            return ParsedName {
                file: File {
                    path: Some(String::from_utf8_lossy(name).into_owned()),
                    ..File::default()
                },
                ..ParsedName::default()
            };
        }
    };
    anonymous(FileKind::Anonymous, own_name)
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

fn anonymous(kind: FileKind, name: &[u8]) -> ParsedName {
    ParsedName {
        file: kernel_file(
            kind,
            "anon_inodefs",
            Some(String::from_utf8_lossy(name).into_owned()),
        ),
        ..ParsedName::default()
    }
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

fn bracketed_number(name: &[u8], before: &[u8]) -> Option<u64> {
    let (number, rest) = decimal(name.strip_prefix(before)?)?;
    (rest == b"]").then_some(number)
}

/// Parses the name of a socket, as in `TCP:[127.0.0.1:80->127.0.0.1:4000]`,
/// `UNIX-STREAM:[11->12,"/run/x"]`, `NETLINK:[ROUTE:123]`, or with the inode only, `TCP:[123]`, if
/// the kernel says no more. `None` if it is not a socket.
fn parse_socket(name: &[u8]) -> Option<ParsedName> {
    let colon = name.iter().position(|&byte| byte == b':')?;
    let (protocol, rest) = name.split_at(colon);
    let about = rest.strip_prefix(b":[")?.strip_suffix(b"]")?;
    let kind = socket_kind(protocol)?;
    let parsed = ParsedName {
        file: kernel_file(kind, "sockfs", None),
        ..ParsedName::default()
    };
    if let Some((inode, rest)) = decimal(about)
        && (rest.is_empty() || is_unix(protocol))
        && kind != FileKind::Netlink
    {
        return Some(unix_socket(
            ParsedName {
                inode: Some(inode),
                ..parsed
            },
            rest,
        ));
    }
    Some(if kind == FileKind::Netlink {
        parsed
    } else {
        internet_socket(parsed, about)
    })
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

fn is_unix(protocol: &[u8]) -> bool {
    protocol.starts_with(b"UNIX")
}

/// Parses what follows the inode of a Unix socket: `->12`, the inode of its peer, and `,"/run/x"`,
/// its own address.
fn unix_socket(parsed: ParsedName, text: &[u8]) -> ParsedName {
    let peer = text.strip_prefix(b"->").and_then(decimal);
    let address = peer.map_or(text, |(_, rest)| rest).strip_prefix(b",");
    let file = File {
        peer_inode: peer.map(|(inode, _)| inode),
        path: address.and_then(sun_path),
        ..parsed.file
    };
    ParsedName { file, ..parsed }
}

/// Parses `127.0.0.1:80`, with `->` and the peer if there is one.
fn internet_socket(parsed: ParsedName, text: &[u8]) -> ParsedName {
    let text = String::from_utf8_lossy(text);
    let (local, peer) = text
        .split_once("->")
        .map_or((text.as_ref(), None), |(local, peer)| (local, Some(peer)));
    let file = File {
        local: address(local),
        peer: peer.and_then(address),
        ..parsed.file
    };
    ParsedName { file, ..parsed }
}

/// `HOST:PORT`; `None` without a port.
fn address(text: &str) -> Option<String> {
    let address: SocketAddr = text.parse().ok()?;
    (address.port() != 0).then(|| address.to_string())
}
