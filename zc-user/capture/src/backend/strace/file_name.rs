//! Parses the name that strace prints of the file behind a descriptor. Sources: `printfd` of
//! strace's src/util.c, and its src/socketutils.c.

use std::net::SocketAddr;

use super::{
    args::DELETED,
    syntax::{decimal, sun_path, unescape},
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
        return in_filesystem(unescape(path), Some(kind), is_marked);
    }
    let name = unescape(name);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> File {
        parse(name.as_bytes()).file
    }

    /// Kind and path of a name.
    fn shown(name: &str) -> (Option<FileKind>, Option<String>) {
        let file = file(name);
        (file.kind, file.path)
    }

    fn some(kind: FileKind, path: &str) -> (Option<FileKind>, Option<String>) {
        (Some(kind), Some(path.to_owned()))
    }

    #[test]
    fn paths_are_unescaped() {
        for (name, path) in [
            ("/tmp/plain", "/tmp/plain"),
            (r"/d/a\74b\76c", "/d/a<b>c"),
            (r#"/d/q\"uo\\te"#, r#"/d/q"uo\te"#),
            (r"/d/tab\tnl\n", "/d/tab\tnl\n"),
            (r"/d/\303\274mlaut", "/d/ümlaut"),
            (r"/d/x-\76y", "/d/x->y"),
            (r"/d/ \74char 1:3\76", "/d/ <char 1:3>"),
            (r"\x2f\x64\x2f\xc3\xbc", "/d/ü"),
        ] {
            let told = parse(name.as_bytes());
            assert_eq!(
                (told.file.kind, told.file.path.as_deref(), told.is_deleted),
                (None, Some(path), false),
                "{name}"
            );
            assert_eq!(told.path.as_deref(), Some(path.as_bytes()));
        }
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_kept_as_bytes() {
        let told = parse(br"/d/\377");
        assert_eq!(
            (told.file.path.as_deref(), told.path.as_deref()),
            (Some("/d/\u{fffd}"), Some(b"/d/\xff".as_slice()))
        );
    }

    #[test]
    fn a_deleted_file_keeps_its_path() {
        for name in [
            "/tmp/x>(deleted)",
            "/tmp/x (deleted)",
            r"\x2ftmp/x>(deleted)",
        ] {
            let told = parse(name.as_bytes());
            assert_eq!(
                (told.file.path.as_deref(), told.is_deleted),
                (Some("/tmp/x"), true),
                "{name}"
            );
        }
        assert_eq!(
            file("/d/space (deleted)>(deleted)").path.as_deref(),
            Some("/d/space (deleted)")
        );
    }

    #[test]
    fn devices_have_their_kind() {
        assert_eq!(
            shown("/dev/pts/1<char 136:1>"),
            some(FileKind::Char, "/dev/pts/1")
        );
        assert_eq!(
            shown("/dev/loop0<block 7:0>"),
            some(FileKind::Block, "/dev/loop0")
        );
        assert_eq!(
            shown(r"/dev/a\74b\76<char 1:3>"),
            some(FileKind::Char, "/dev/a<b>")
        );
        assert_eq!(
            shown("/dev/null<what 1:3>"),
            (None, Some("/dev/null<what 1:3>".to_owned()))
        );
    }

    #[test]
    fn files_of_memfd_create_are_found() {
        for name in ["/memfd:na me>(deleted)", "/memfd:na me (deleted)"] {
            assert_eq!(shown(name), some(FileKind::Memfd, "memfd:na me"), "{name}");
        }
        assert_eq!(
            shown("/memfd:x"),
            (None, Some("/memfd:x".to_owned())),
            "a file in the root directory"
        );
    }

    #[test]
    fn pipes_have_an_inode_and_no_path() {
        for name in ["pipe:[123]", r"\x70\x69\x70\x65\x3a\x5b\x31\x32\x33\x5d"] {
            let told = parse(name.as_bytes());
            assert_eq!(
                (told.file.kind, told.file.path, told.inode),
                (Some(FileKind::Pipe), None, Some(123)),
                "{name}"
            );
            assert_eq!(told.file.filesystem.as_deref(), Some("pipefs"));
        }
    }

    #[test]
    fn anonymous_inodes_have_the_kernels_names() {
        assert_eq!(
            shown("anon_inode:[eventfd]"),
            some(FileKind::Eventfd, "anon_inode:[eventfd]")
        );
        assert_eq!(
            shown("anon_inode:[eventpoll]"),
            some(FileKind::Anonymous, "anon_inode:[eventpoll]")
        );
        assert_eq!(
            shown("anon_inode:inotify"),
            some(FileKind::Anonymous, "anon_inode:inotify")
        );
        assert_eq!(
            shown("pid:123"),
            some(FileKind::Anonymous, "anon_inode:[pidfd]")
        );
        assert_eq!(
            shown("signalfd:[USR1]"),
            some(FileKind::Anonymous, "anon_inode:[signalfd]")
        );
        let eventfd = "{eventfd-count=0x1, eventfd-id=2, eventfd-semaphore=0}";
        assert_eq!(
            shown(eventfd),
            some(FileKind::Eventfd, "anon_inode:[eventfd]")
        );
        assert_eq!(file(eventfd).filesystem.as_deref(), Some("anon_inodefs"));
        assert_eq!(
            shown("net:[4026531840]"),
            (None, Some("net:[4026531840]".to_owned()))
        );
    }

    #[test]
    fn a_stable_key_does_not_change_with_the_count_of_an_eventfd() {
        let key = |text: &'static str| {
            let (_, name) = text.split_once('<').expect("has a name");
            stable_key(text.as_bytes(), name.as_bytes())
        };
        let eventfd = |count, id| {
            format!("3<{{eventfd-count={count:#x}, eventfd-id={id}, eventfd-semaphore=0}}").leak()
        };
        assert_eq!(key(eventfd(1, 2)), key(eventfd(7, 2)));
        assert_ne!(key(eventfd(1, 2)), key(eventfd(1, 3)));
        assert_eq!(key("3<{eventfd-count=0x1}"), key("4<{eventfd-count=0x2}"));
        assert_eq!(key("3</tmp/x"), key("4</tmp/x"));
        assert_ne!(
            key("3</memfd:x>(deleted)"),
            key("4</memfd:x>(deleted)"),
            "two files of one name"
        );
    }

    #[test]
    fn internet_sockets_have_addresses() {
        let ends = |name: &str| {
            let told = parse(name.as_bytes());
            (told.file.kind, told.file.local, told.file.peer, told.inode)
        };
        let text = |text: &str| Some(text.to_owned());
        let (tcp, udp) = (Some(FileKind::Tcp), Some(FileKind::Udp));
        assert_eq!(
            ends("TCP:[127.0.0.1:80->127.0.0.1:4000]"),
            (tcp, text("127.0.0.1:80"), text("127.0.0.1:4000"), None)
        );
        assert_eq!(
            ends("TCP:[0.0.0.0:80]"),
            (tcp, text("0.0.0.0:80"), None, None)
        );
        assert_eq!(ends("TCP:[159729]"), (tcp, None, None, Some(159_729)));
        assert_eq!(
            ends("TCPv6:[[::1]:80->[::1]:4000]"),
            (tcp, text("[::1]:80"), text("[::1]:4000"), None)
        );
        let mapped = ends("TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:4000]");
        assert_eq!(
            mapped,
            (
                tcp,
                text("[::ffff:127.0.0.1]:80"),
                text("[::ffff:127.0.0.1]:4000"),
                None
            )
        );
        assert_eq!(
            ends("UDP:[127.0.0.1:53]"),
            (udp, text("127.0.0.1:53"), None, None)
        );
        assert_eq!(
            ends("UDPv6:[[::]:45302->[::1]:53]"),
            (udp, text("[::]:45302"), text("[::1]:53"), None)
        );
        assert_eq!(ends("UDP:[0.0.0.0:0]"), (udp, None, None, None));
        assert_eq!(ends("RAW:[0.0.0.0:1]").0, Some(FileKind::Socket));
        assert_eq!(
            file("TCP:[0.0.0.0:80]").filesystem.as_deref(),
            Some("sockfs")
        );
    }

    #[test]
    fn unix_sockets_have_inodes_and_paths() {
        let told = |name: &str| {
            let told = parse(name.as_bytes());
            (
                told.file.kind,
                told.inode,
                told.file.peer_inode,
                told.file.path,
            )
        };
        let text = |text: &str| Some(text.to_owned());
        let stream = Some(FileKind::UnixStream);
        assert_eq!(told("UNIX-STREAM:[11]"), (stream, Some(11), None, None));
        assert_eq!(
            told("UNIX-STREAM:[11->12]"),
            (stream, Some(11), Some(12), None)
        );
        assert_eq!(
            told(r#"UNIX-STREAM:[11,"/run/x"]"#),
            (stream, Some(11), None, text("/run/x"))
        );
        assert_eq!(
            told(r#"UNIX-STREAM:[11->12,"/a b]>"]"#),
            (stream, Some(11), Some(12), text("/a b]>"))
        );
        assert_eq!(
            told(r#"UNIX-STREAM:[11,@"abs\"x"]"#),
            (stream, Some(11), None, text("@abs\"x"))
        );
        assert_eq!(
            told(r#"UNIX-STREAM:[11,"\x2f\x78"]"#),
            (stream, Some(11), None, text("/x"))
        );
        assert_eq!(
            told("UNIX:[11->12]"),
            (Some(FileKind::Socket), Some(11), Some(12), None)
        );
    }

    #[test]
    fn other_sockets_have_a_kind() {
        assert_eq!(
            shown("NETLINK:[ROUTE:29359]"),
            (Some(FileKind::Netlink), None)
        );
        assert_eq!(shown("NETLINK:[7]"), (Some(FileKind::Netlink), None));
        assert_eq!(shown("socket:[123]"), (Some(FileKind::Socket), None));
        assert_eq!(parse(b"socket:[123]").inode, Some(123));
        assert_eq!(shown("L2TP/IP:[5]"), (Some(FileKind::Socket), None));
    }

    #[test]
    fn malformed_names_do_not_panic() {
        for name in [
            "",
            ":",
            "x",
            "TCP:",
            "TCP:[",
            "pipe:[]",
            "pipe:[x]",
            "\\",
            "<",
            ">",
            ">(deleted)",
            "UNIX-STREAM:[",
            "[]",
        ] {
            assert_eq!(parse(name.as_bytes()).inode, None, "{name}");
        }
    }
}
