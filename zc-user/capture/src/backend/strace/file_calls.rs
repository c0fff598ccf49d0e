//! From the arguments that strace prints to those of a [`FileCall`](crate::backend::file_calls::FileCall).

use zctrace_core::text::from_bytes;

use super::{
    args::{Args, NamedDescriptor, elements, field, inside, number, split_args},
    decode::{clone_flags, flag_bits, internet_address, quoted},
    file_name,
    syntax::{sun_path, unsigned},
};
use crate::backend::file_calls::{GivenArgument, OutsideKind, ShownFile, SocketAddress};

/// The arguments of a call.
pub fn given_arguments(name: &str, args: &[u8]) -> [GivenArgument; 6] {
    if name.starts_with("clone") {
        let mut given: [GivenArgument; 6] = Default::default();
        given[0] = GivenArgument::Number(clone_flags(args));
        return given;
    }
    let mut arguments = split_args(args);
    std::array::from_fn(|_| {
        arguments
            .next()
            .map_or(GivenArgument::Unknown, given_argument)
    })
}

/// The file that a call returned a descriptor of, from its result.
pub fn opened(result: &[u8]) -> Option<ShownFile> {
    NamedDescriptor::leading(result).map(|opened| shown_file(opened.name))
}

fn given_argument(argument: &[u8]) -> GivenArgument {
    match argument.first() {
        Some(b'"') => quoted(argument).map_or(GivenArgument::Unknown, |(text, rest)| {
            let (text, is_cut) = (from_bytes(&text), rest.starts_with(b"..."));
            GivenArgument::Text { text, is_cut }
        }),
        Some(b'{') => given_structure(argument),
        Some(b'[') => given_array(argument),
        Some(b'0'..=b'9') => number_or_descriptor(argument),
        Some(b'A'..=b'Z' | b'_') => flags_or_constant(argument),
        _ => GivenArgument::Unknown,
    }
}

/// A number, or a descriptor with its file.
fn number_or_descriptor(argument: &[u8]) -> GivenArgument {
    match NamedDescriptor::whole(argument) {
        Some(descriptor) => GivenArgument::Descriptor {
            number: Some(descriptor.number),
            file: Some(shown_file(descriptor.name)),
        },
        None => number(argument).map_or(GivenArgument::Unknown, GivenArgument::Number),
    }
}

/// Names of flags, or of a constant.
fn flags_or_constant(argument: &[u8]) -> GivenArgument {
    if let Some(rest) = argument.strip_prefix(b"AT_FDCWD") {
        let file = inside(rest, b'<', b'>').map(shown_file);
        return GivenArgument::Descriptor { number: None, file };
    }
    if argument == b"NULL" {
        return GivenArgument::Unknown;
    }
    GivenArgument::Number(ioctl_request(argument).unwrap_or_else(|| flag_bits(argument)))
}

/// The request of an `ioctl` that this strace has no name for: `_IOC(_IOC_WRITE, 0x94, 0x9, 0x4)`,
/// `_IOC` of the kernel's include/uapi/asm-generic/ioctl.h.
fn ioctl_request(argument: &[u8]) -> Option<u64> {
    let parts = argument.strip_prefix(b"_IOC(_IOC_WRITE, ")?;
    let mut parts = split_args(parts.strip_suffix(b")")?).map(number);
    let mut next = || parts.next().flatten();
    let (kind, at, bytes) = (next()?, next()?, next()?);
    Some(1 << 30 | bytes << 16 | kind << 8 | at)
}

/// A structure: flags, an address, or what a file is. That of `clone3` goes on behind its bracket.
fn given_structure(argument: &[u8]) -> GivenArgument {
    let addresses =
        |address: Option<SocketAddress>| GivenArgument::Addresses(address.into_iter().collect());
    let fields = inside(argument, b'{', b'}').unwrap_or(&argument[1..]);
    if let Some(flags) = field(fields, b"flags=") {
        return GivenArgument::Number(flag_bits(flags));
    }
    if fields.starts_with(b"sa_family=") {
        return addresses(socket_address(argument));
    }
    if fields.starts_with(b"msg_name=") {
        return addresses(address_of_message(argument));
    }
    let has = |text: &[u8]| fields.windows(text.len()).any(|part| part == text);
    if has(b"mode=S_IF") {
        let is_link = has(b"S_IFLNK");
        return GivenArgument::Status { is_link };
    }
    GivenArgument::Unknown
}

/// An array: of descriptors, or of messages, `{msg_hdr={...}, ...}`.
fn given_array(argument: &[u8]) -> GivenArgument {
    if argument.starts_with(b"[{") {
        let messages = elements(argument);
        let messages =
            messages.filter_map(|element| field(inside(element, b'{', b'}')?, b"msg_hdr="));
        return GivenArgument::Addresses(messages.filter_map(address_of_message).collect());
    }
    let descriptors = elements(argument).map_while(|element| {
        let (number, rest) = unsigned(element)?;
        let is_whole = rest.is_empty() || rest.starts_with(b"<");
        u32::try_from(number).ok().filter(|_| is_whole)
    });
    GivenArgument::Made(descriptors.collect())
}

/// A file by the name that strace prints of its descriptor.
fn shown_file(name: &[u8]) -> ShownFile {
    const KINDS: [(&[u8], OutsideKind); 6] = [
        (b"TCP", OutsideKind::Tcp),
        (b"MPTCP", OutsideKind::Tcp),
        (b"UDP", OutsideKind::Udp),
        (b"UNIX", OutsideKind::Unix),
        (b"socket:", OutsideKind::Socket),
        (b"pipe:", OutsideKind::Pipe),
    ];
    let parsed = file_name::parse(name, file_name::Devices::default());
    if let Some(path) = parsed.path {
        return ShownFile::Inside {
            path: from_bytes(&path),
            is_deleted: parsed.is_deleted,
        };
    }
    let kind = KINDS.iter().find(|(start, _)| name.starts_with(start));
    let other = if name.first().is_some_and(u8::is_ascii_uppercase) {
        OutsideKind::OtherSocket
    } else {
        OutsideKind::Other
    };
    ShownFile::Outside(kind.map_or(other, |(_, kind)| *kind))
}

/// The address in this structure of a call on the socket in its first argument, as reports show it.
pub fn address(structure: &[u8], args: &Args<'_>) -> Option<String> {
    let socket = args.descriptor(0).map(|socket| shown_file(socket.name));
    socket_address(structure)?.with_protocol(socket.as_ref())
}

/// The address in this structure: `print_sockaddr` of strace's src/sockaddr.c. `None`: there is none,
/// or it is cut, or the kernel of this machine is behind it.
fn socket_address(structure: &[u8]) -> Option<SocketAddress> {
    let fields = inside(structure, b'{', b'}')?;
    Some(match field(fields, b"sa_family=")? {
        b"AF_INET" | b"AF_INET6" => SocketAddress::Internet(internet_address(fields)?),
        b"AF_UNIX" | b"AF_LOCAL" => {
            SocketAddress::Unix(field(fields, b"sun_path=").and_then(sun_path)?)
        }
        b"AF_NETLINK" => return None,
        b"AF_UNSPEC" => SocketAddress::Unspecified,
        family => SocketAddress::Other(from_bytes(family)),
    })
}

fn address_of_message(message: &[u8]) -> Option<SocketAddress> {
    socket_address(field(inside(message, b'{', b'}')?, b"msg_name=")?)
}
