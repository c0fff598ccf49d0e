//! Messages of the kernel side: from bytes to values.

use std::{
    collections::HashMap,
    mem::offset_of,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use zc_ebpf::{
    COMM_BYTES, CallId, Ended, EventHeader, Exec, FileNumber, FileSeen, HeldDescriptor, PART,
    PathKey, PathSums, RowKey, SampledCall, SlowCallEvent, event_kind, path_end,
};
use zerocopy::{FromBytes, FromZeros as _, IntoBytes as _};

use crate::{
    attach::split_arguments,
    trace::{
        CallSums, CallerSums, DELETED_SUFFIX, File, FileIdentity, FileKind, OpenFlags, OtherCalls,
        Row, SourcedBytes, StackId, Words,
    },
};
use zctrace_core::text::from_bytes;

/// A call, by its thread id and a time of `CLOCK_MONOTONIC`.
pub type CallKey = (u32, u64);

/// Who made calls that are listed one by one.
pub type ListedCallers = HashMap<CallKey, StackId>;

/// What the kernel side says, by a message or by a row of its maps.
#[derive(Debug, Clone)]
pub enum Message {
    /// An event of a task.
    Task(TaskEvent),
    /// What the file with this number is.
    File(FileNumber, File),
    /// A call that took longer than the limit.
    SlowCall(SlowCallEvent),
    /// A descriptor that a process has open.
    Descriptor(HeldDescriptor),
    /// A row of the maps, with its figures and without its files.
    Row {
        key: RowKey,
        row: Row,
        /// How many of its calls lack their files.
        without_files: u64,
    },
    /// A row of parts.
    Part(RowKey, zc_ebpf::Row),
    /// Calls by path.
    Paths(Box<PathKey>, PathSums),
    /// Who made calls of a row.
    #[cfg_attr(
        not(feature = "callers"),
        expect(dead_code, reason = "there are no callers")
    )]
    Callers(RowKey, CallerSums),
    /// A call whose caller was sampled.
    #[cfg_attr(
        not(feature = "callers"),
        expect(dead_code, reason = "there are no callers")
    )]
    TimedCall(SampledCall, StackId),
    /// One that could not be parsed.
    Unreadable,
}

/// An event of a task; all of them are rare.
#[derive(Debug, Clone)]
pub enum TaskEvent {
    /// It was created.
    Started(EventHeader),
    /// It executed a program.
    Executed(Box<Exec>),
    /// A thread of this process entered the scope by itself.
    Entered(Ended),
    /// It already ran, and is followed from now on.
    Found(Ended),
    /// It ended, or left the scope.
    Ended(Ended),
}

impl Message {
    /// Parses a message.
    pub fn parse(bytes: &[u8]) -> Self {
        Self::parse_known(bytes).unwrap_or(Self::Unreadable)
    }

    /// Parses a message; `None` if this version does not know it.
    fn parse_known(bytes: &[u8]) -> Option<Self> {
        let event = match u32::from_ne_bytes(*bytes.first_chunk()?) {
            event_kind::STARTED => TaskEvent::Started(read(bytes)?),
            event_kind::EXEC => TaskEvent::Executed(Box::new(read(bytes)?)),
            event_kind::ENTERED => TaskEvent::Entered(read(bytes)?),
            event_kind::FOUND => TaskEvent::Found(read(bytes)?),
            event_kind::ENDED => TaskEvent::Ended(read(bytes)?),
            event_kind::DESCRIPTOR => return read(bytes).map(Self::Descriptor),
            event_kind::SLOW_CALL => return read(bytes).map(Self::SlowCall),
            event_kind::FILE => {
                return parse_file(bytes).map(|(number, file)| Self::File(number, file));
            }
            _ => return None,
        };
        Some(Self::Task(event))
    }
}

impl TaskEvent {
    /// What all events have in common.
    pub fn header(&self) -> &EventHeader {
        match self {
            Self::Started(header) => header,
            Self::Executed(exec) => &exec.header,
            Self::Entered(ended) | Self::Found(ended) | Self::Ended(ended) => &ended.header,
        }
    }
}

/// How many calls these are: operations of `io_uring` and parts are none.
pub const fn calls_of(call: CallId, count: u64) -> u64 {
    if call & (zc_ebpf::RING | PART) == 0 {
        count
    } else {
        0
    }
}

/// What the calls of a row moved from its source.
pub const fn sourced_bytes(row: &zc_ebpf::Row) -> SourcedBytes {
    SourcedBytes {
        bytes: row.input_bytes,
        words: Words {
            compared: row.words.compared,
            changed: row.words.changed,
        },
        repeated_bytes: row.repeated_bytes,
    }
}

/// A sum of the kernel side as the trace has it.
pub fn sum_of(calls: &zc_ebpf::OtherCallSums) -> OtherCalls {
    let has_times = calls.untimed == 0;
    OtherCalls {
        sums: CallSums {
            calls: calls.calls,
            errors: calls.errors,
            unfinished: calls.unfinished,
            under_way: 0,
            total_ns: has_times.then_some(calls.total_ns),
        },
        max_ns: (has_times && calls.calls > 0).then_some(calls.max_ns),
        timed_out: calls.timed_out,
        timed_out_ns: calls.timed_out_ns,
    }
}

/// The command line of an executed program. If it was cut, the last argument ends with `…`.
pub fn command_line(event: &Exec) -> Option<Vec<String>> {
    let filled = usize::try_from(event.header.extra).ok()?;
    let is_cut = event.args_length > event.args.len() as u64;
    let filled = &event.args[..filled.min(event.args.len())];
    (!filled.is_empty()).then(|| split_arguments(filled, is_cut))
}

/// The text before the first NUL.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    from_bytes(text)
}

/// Copies a value out of the ring buffer, whose bytes need not be aligned for it.
pub fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    Some(T::read_from_prefix(bytes).ok()?.0)
}

const _: () = assert!(
    COMM_BYTES == 16,
    "TASK_COMM_LEN of the kernel's include/linux/sched.h"
);

/// The filesystem of `eventfd`, `epoll` and the like. Its files share one inode, so the inode does
/// not identify them.
const ANON_INODES: &str = "anon_inodefs";

/// Parses a message about a file; `None` if it is cut.
pub fn parse_file(bytes: &[u8]) -> Option<(FileNumber, File)> {
    let (head, names) = bytes.split_at_checked(offset_of!(FileSeen, names))?;
    // Only the names that the path has were sent.
    let mut seen = FileSeen::new_zeroed();
    seen.as_mut_bytes()[..head.len()].copy_from_slice(head);
    let names = names.get(..usize::try_from(seen.names_length).ok()?)?;
    Some((seen.number, file_seen(&seen, names)))
}

fn file_seen(seen: &FileSeen, names: &[u8]) -> File {
    let filesystem = filesystem_name(seen);
    let is_anonymous = filesystem == ANON_INODES;
    let name = if seen.family == 0 {
        path_seen(seen, names)
    } else {
        unix_address(names)
    };
    let kind = match name.as_deref() {
        Some("[eventfd]") if is_anonymous => FileKind::Eventfd,
        _ if is_anonymous => FileKind::Anonymous,
        name => kind_seen(seen, name),
    };
    let path = if is_anonymous {
        name.map(|name| format!("anon_inode:{name}"))
    } else {
        name
    };
    let has_length = matches!(kind, FileKind::Regular | FileKind::Memfd);
    File {
        kind: Some(kind),
        identity: (!is_anonymous).then(|| identity_seen(seen)),
        filesystem: Some(filesystem).filter(|name| !name.is_empty()),
        path,
        path_at_end: None,
        size_bytes: has_length.then_some(seen.size),
        local: socket_address(seen.family, seen.local, seen.local_port),
        peer: socket_address(seen.family, seen.peer, seen.peer_port),
        peer_inode: Some(seen.peer_inode).filter(|&inode| inode != 0),
        open_flags: Some(OpenFlags::from_bits(seen.open_flags.cast_signed())),
        sum: None,
    }
}

fn identity_seen(seen: &FileSeen) -> FileIdentity {
    // `MINORBITS` of the kernel's include/linux/kdev_t.h is 20.
    let device = libc::makedev(seen.device >> 20, seen.device & 0xf_ffff);
    FileIdentity {
        device,
        inode: seen.inode,
        generation: Some(seen.generation),
    }
}

/// The type of the filesystem with its subtype, as in `/proc/mounts`: `fuse.sshfs`.
fn filesystem_name(seen: &FileSeen) -> String {
    let (name, subtype) = (text(&seen.filesystem), text(&seen.subtype));
    if subtype.is_empty() {
        name
    } else {
        format!("{name}.{subtype}")
    }
}

fn kind_seen(seen: &FileSeen, path: Option<&str>) -> FileKind {
    match libc::mode_t::from(seen.mode) & libc::S_IFMT {
        libc::S_IFREG
            if seen.path_end == path_end::DETACHED
                && path.is_some_and(|name| name.starts_with("memfd:")) =>
        {
            FileKind::Memfd
        }
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFBLK => FileKind::Block,
        libc::S_IFCHR => FileKind::Char,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => socket_kind(seen),
        _ => FileKind::Anonymous,
    }
}

fn socket_kind(seen: &FileSeen) -> FileKind {
    let numbers = (
        i32::from(seen.family),
        i32::from(seen.socket_type),
        i32::from(seen.protocol),
    );
    match numbers {
        (libc::AF_UNIX, libc::SOCK_STREAM, _) => FileKind::UnixStream,
        (libc::AF_UNIX, libc::SOCK_DGRAM, _) => FileKind::UnixDatagram,
        (libc::AF_UNIX, libc::SOCK_SEQPACKET, _) => FileKind::UnixSeqpacket,
        // For the program, Multipath TCP is TCP.
        (
            libc::AF_INET | libc::AF_INET6,
            libc::SOCK_STREAM,
            libc::IPPROTO_TCP | libc::IPPROTO_MPTCP,
        ) => FileKind::Tcp,
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP) => FileKind::Udp,
        (libc::AF_NETLINK, ..) => FileKind::Netlink,
        _ => FileKind::Socket,
    }
}

/// `HOST:PORT`; `None` without a port.
fn socket_address(family: u16, host: [u8; 16], port: u16) -> Option<String> {
    let host = match i32::from(family) {
        _ if port == 0 => return None,
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(host[0], host[1], host[2], host[3])),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(host)),
        _ => return None,
    };
    Some(SocketAddr::new(host, port).to_string())
}

/// Joins the names of a path, which are in the order from the file up to the root, and marks one
/// that was removed; `None` for a file without a name.
fn path_seen(seen: &FileSeen, names: &[u8]) -> Option<String> {
    let mut names: Vec<String> = names
        .split_inclusive(|&byte| byte == 0)
        .map(|name| from_bytes(&name[..name.len() - 1]))
        .collect();
    names.reverse();
    let deleted = if seen.is_deleted == 0 {
        ""
    } else {
        DELETED_SUFFIX
    };
    let path = match seen.path_end {
        path_end::ROOT => format!("/{}{deleted}", names.join("/")),
        path_end::DETACHED => names.join("/"),
        path_end::CUT => format!("…/{}{deleted}", names.join("/")),
        _ => return None,
    };
    Some(path).filter(|path| !path.is_empty())
}

/// The address in a `sun_path`. An abstract one begins with a NUL, which is written as `@` by
/// convention.
fn unix_address(bytes: &[u8]) -> Option<String> {
    match bytes {
        [] => None,
        [0, name @ ..] => Some(format!("@{}", from_bytes(name).replace('\0', "@"))),
        path => Some(text(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_a_message_are_refused() {
        let mut exec_without_its_rest = [0_u8; size_of::<EventHeader>()];
        exec_without_its_rest[0] = 2;
        for bytes in [&[][..], &[0; 64], &exec_without_its_rest] {
            assert!(matches!(Message::parse(bytes), Message::Unreadable));
        }
    }

    #[test]
    fn the_names_of_a_path_are_joined_from_the_last_to_the_first() {
        let names = b"file\0deep\0tmp\0";
        for (end, is_deleted, names, expected) in [
            (path_end::ROOT, 0, &names[..], Some("/tmp/deep/file")),
            (path_end::ROOT, 1, names, Some("/tmp/deep/file (deleted)")),
            (path_end::CUT, 0, names, Some("…/tmp/deep/file")),
            (path_end::ROOT, 0, b"", Some("/")),
            // Outside of all directories it is the kernel's name for the file; a pipe has none.
            (path_end::DETACHED, 1, b"memfd:x y\0", Some("memfd:x y")),
            (path_end::DETACHED, 0, b"\0", None),
            (path_end::NONE, 0, b"", None),
        ] {
            let mut seen = example(0);
            (seen.path_end, seen.is_deleted) = (end, is_deleted);
            assert_eq!(
                path_seen(&seen, names).as_deref(),
                expected,
                "{end} {names:?}"
            );
        }
    }

    #[test]
    fn addresses_are_written_as_host_and_port_or_as_a_path() {
        let mut host = [0; 16];
        host[..4].copy_from_slice(&[127, 0, 0, 1]);
        for (family, host, port, expected) in [
            (2, host, 80, Some("127.0.0.1:80")),
            (2, host, 0, None),
            (10, Ipv6Addr::LOCALHOST.octets(), 443, Some("[::1]:443")),
            // Netlink has none.
            (16, host, 80, None),
        ] {
            assert_eq!(socket_address(family, host, port).as_deref(), expected);
        }
        for (bytes, expected) in [
            (&b"/run/x.sock\0"[..], Some("/run/x.sock")),
            (b"\0name", Some("@name")),
            (b"", None),
        ] {
            assert_eq!(unix_address(bytes).as_deref(), expected);
        }
    }

    #[test]
    fn a_truncated_message_about_a_file_is_refused() {
        let mut bytes = example(5).as_bytes()[..offset_of!(FileSeen, names)].to_vec();
        assert_eq!(parse_file(&bytes), None);
        bytes.extend(b"file\0");
        assert_eq!(parse_file(&bytes[..20]), None);
        let identity = FileIdentity {
            device: libc::makedev(8, 1),
            inode: 12,
            generation: Some(34),
        };
        let expected = File {
            kind: Some(FileKind::Regular),
            identity: Some(identity),
            filesystem: Some("fuse.sshfs".to_owned()),
            path: Some("/file".to_owned()),
            size_bytes: Some(56),
            open_flags: Some(OpenFlags::from_bits(libc::O_SYNC)),
            ..File::default()
        };
        assert_eq!(parse_file(&bytes), Some((7, expected)));
    }

    #[test]
    fn files_that_share_an_inode_have_no_identity() {
        let mut seen = example(10);
        seen.path_end = path_end::DETACHED;
        (seen.filesystem, seen.subtype) = (*b"anon_inodefs\0\0\0\0", [0; 16]);
        let file = file_seen(&seen, b"[eventfd]\0");
        assert_eq!((file.kind, file.identity), (Some(FileKind::Eventfd), None));
        assert_eq!(file.path.as_deref(), Some("anon_inode:[eventfd]"));
    }

    fn example(names_length: u32) -> FileSeen {
        FileSeen {
            kind: event_kind::FILE,
            number: 7,
            inode: 12,
            size: 56,
            generation: 34,
            device: 8 << 20 | 1,
            mode: 0o100_644,
            open_flags: (libc::O_WRONLY | libc::O_SYNC).cast_unsigned(),
            path_end: path_end::ROOT,
            names_length,
            filesystem: *b"fuse\0\0\0\0\0\0\0\0\0\0\0\0",
            subtype: *b"sshfs\0\0\0\0\0\0\0\0\0\0\0",
            ..FileSeen::new_zeroed()
        }
    }
}
