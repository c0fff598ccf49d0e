//! Sockets, as strace asks the kernel for them: `TCP:[127.0.0.1:80->127.0.0.1:4000]`, `UNIX-STREAM:[11->12,"/run/x"]`,
//! `NETLINK:[ROUTE:123]`, or with the inode alone, `TCP:[123]`, if the kernel has nothing to say.

use std::net::SocketAddr;

use super::{Told, kernel_file};
use crate::{
    backend::strace::{line::number::decimal, text::sun_path},
    trace::{File, FileKind},
};

/// Reads the name of a socket; `None` if it is something else.
pub(super) fn read(name: &[u8]) -> Option<Told> {
    let colon = name.iter().position(|&byte| byte == b':')?;
    let (protocol, rest) = name.split_at(colon);
    let about = rest.strip_prefix(b":[")?.strip_suffix(b"]")?;
    let kind = kind(protocol)?;
    let told = Told { file: kernel_file(kind, "sockfs", None), ..Told::default() };
    if let Some((inode, rest)) = decimal(about)
        && (rest.is_empty() || is_unix(protocol))
        && kind != FileKind::Netlink
    {
        return Some(unix(Told { inode: Some(inode), ..told }, rest));
    }
    Some(if kind == FileKind::Netlink { told } else { internet(told, about) })
}

/// What the kernel's name of a protocol says. Since Linux 5.15, `UNIX` is everything but a stream; before, that too.
fn kind(protocol: &[u8]) -> Option<FileKind> {
    Some(match protocol {
        b"UNIX-STREAM" => FileKind::UnixStream,
        b"TCP" | b"TCPv6" | b"MPTCP" | b"MPTCPv6" => FileKind::Tcp,
        b"UDP" | b"UDPv6" => FileKind::Udp,
        b"NETLINK" => FileKind::Netlink,
        // `socket` is one of a protocol that strace does not know, and under -y each.
        b"socket" | [b'A'..=b'Z', ..] => FileKind::Socket,
        _ => return None,
    })
}

fn is_unix(protocol: &[u8]) -> bool {
    protocol.starts_with(b"UNIX")
}

/// What follows the inode of a Unix socket: `->12`, the inode of its peer, and `,"/run/x"`, its own address.
fn unix(told: Told, text: &[u8]) -> Told {
    let peer = text.strip_prefix(b"->").and_then(decimal);
    let address = peer.map_or(text, |(_, rest)| rest).strip_prefix(b",");
    let file = File { peer_inode: peer.map(|(inode, _)| inode), path: address.and_then(sun_path), ..told.file };
    Told { file, ..told }
}

/// `127.0.0.1:80`, with `->` and the peer if there is one.
fn internet(told: Told, text: &[u8]) -> Told {
    let text = String::from_utf8_lossy(text);
    let (local, peer) = text.split_once("->").map_or((text.as_ref(), None), |(local, peer)| (local, Some(peer)));
    let file = File { local: address(local), peer: peer.and_then(address), ..told.file };
    Told { file, ..told }
}

/// `HOST:PORT`; `None` without a port.
fn address(text: &str) -> Option<String> {
    let address: SocketAddr = text.parse().ok()?;
    (address.port() != 0).then(|| address.to_string())
}
