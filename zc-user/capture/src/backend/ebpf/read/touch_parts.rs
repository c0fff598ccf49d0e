//! [`CallParts`]: what belongs to a call that touched something.

use std::{
    mem::offset_of,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use zc_ebpf::{ADDRESS_BYTES, FileSeen, TouchCall, TouchSpec, path_end, touch_kind, touch_part};
use zctrace_core::text::from_bytes;

use super::{
    call_messages::{ReadText, given_text, outside_kind},
    events::{parse_file, read},
};
use crate::{
    backend::file_calls::{GivenArgument, ShownFile, SocketAddress, descriptor_in},
    syscalls::Spec,
    trace::{DELETED_SUFFIX, FileKind},
};

/// What belongs to a call: see [`touch_part`].
#[derive(Debug, Default)]
pub struct CallParts {
    texts: [Option<String>; 2],
    files: [Option<ShownFile>; 4],
}

impl CallParts {
    /// Keeps the text of a part. `None`: there is no such part.
    pub fn keep_text(&mut self, given: ReadText) -> Option<()> {
        *self.texts.get_mut(given.index)? = Some(given.text);
        Some(())
    }

    /// Keeps the file of a part. `None`: there is no such part, or its path is not known.
    pub fn keep_file(&mut self, part: u32, message: &[u8]) -> Option<()> {
        let place = part.checked_sub(touch_part::DIRECTORY)?;
        let file = shown_file(message)?;
        *self.files.get_mut(usize::try_from(place).ok()?)? = Some(file);
        Some(())
    }

    /// Whether all of these are there: bits of [`touch_part`].
    pub fn has_all(&self, parts: u32) -> bool {
        let texts = self.texts.iter().map(Option::is_some);
        let all = texts.chain(self.files.iter().map(Option::is_some));
        (0..)
            .zip(all)
            .all(|(part, is_there)| parts >> part & 1 == 0 || is_there)
    }

    /// Forgets the parts that are not among these.
    pub fn keep_only(&mut self, parts: u32) {
        for (part, text) in (touch_part::PATH..).zip(&mut self.texts) {
            *text = text.take().filter(|_| parts >> part & 1 != 0);
        }
        for (part, file) in (touch_part::DIRECTORY..).zip(&mut self.files) {
            *file = file.take().filter(|_| parts >> part & 1 != 0);
        }
    }

    /// The file of a part.
    pub fn file(&self, part: u32) -> Option<&ShownFile> {
        let place = part.checked_sub(touch_part::DIRECTORY)?;
        self.files.get(usize::try_from(place).ok()?)?.as_ref()
    }

    /// The descriptor in a path such as `/proc/self/fd/3`.
    pub fn descriptor(&self) -> Option<u32> {
        descriptor_in(self.texts[0].as_ref()?)
    }

    /// The arguments of a call.
    pub fn arguments(&self, name: &str, call: &TouchCall, spec: TouchSpec) -> [GivenArgument; 6] {
        let mut values = (1..).zip(call.arguments.values);
        std::array::from_fn(|_| match values.next() {
            Some((number, value)) => self.argument(name, (number, value), call, spec),
            None => GivenArgument::Unknown,
        })
    }

    /// The argument with this number, from 1 on, and this value.
    fn argument(
        &self,
        name: &str,
        (number, value): (u8, u64),
        call: &TouchCall,
        spec: TouchSpec,
    ) -> GivenArgument {
        const AT_FDCWD: u32 = libc::AT_FDCWD.cast_unsigned();
        // Descriptors and flags are 32-bit numbers.
        let low = value & u64::from(u32::MAX);
        let descriptor = |part: u32| GivenArgument::Descriptor {
            number: u32::try_from(low).ok().filter(|fd| *fd != AT_FDCWD),
            file: self.file(part).cloned(),
        };
        let has_word = spec.words >> (number - 1) & 1 != 0;
        match number {
            _ if number == spec.path => given_text(self.texts[0].as_ref()),
            _ if number == spec.second => given_text(self.texts[1].as_ref()),
            _ if number == spec.directory => descriptor(touch_part::DIRECTORY),
            _ if number == spec.second_directory => descriptor(touch_part::SECOND_DIRECTORY),
            _ if number == spec.file => descriptor(touch_part::FILE),
            _ if number == spec.other_file => descriptor(touch_part::OTHER_FILE),
            _ if number == spec.buffer && spec.mode_at != 0 && call.mode == 0 => {
                GivenArgument::Unknown
            }
            _ if number == spec.buffer && spec.mode_at != 0 => GivenArgument::Status {
                is_link: libc::mode_t::from(call.mode) == libc::S_IFLNK,
            },
            _ if number == spec.buffer => {
                GivenArgument::Addresses(address_of(call).into_iter().collect())
            }
            _ if spec.kind == touch_kind::OPEN_HOW && number == 3 => GivenArgument::Number(value),
            _ if name.starts_with("clone") && number == 1 => GivenArgument::Number(value),
            _ if has_word || Spec::named(name).at_flags == Some(number - 1) => {
                GivenArgument::Number(low)
            }
            _ => GivenArgument::Unknown,
        }
    }
}

/// A file from its message. `None`: its path is not known.
fn shown_file(message: &[u8]) -> Option<ShownFile> {
    let (_, file) = parse_file(message)?;
    let field = |at: usize| read::<u16>(message.get(at..)?);
    let is_deleted = field(offset_of!(FileSeen, is_deleted))? != 0;
    let has_name = matches!(
        file.kind,
        Some(FileKind::Regular | FileKind::Directory | FileKind::Char | FileKind::Block)
    );
    let is_cut = field(offset_of!(FileSeen, path_end))? == path_end::CUT;
    match file.path.as_deref().filter(|path| path.starts_with('/')) {
        Some(path) => {
            let bare = path.strip_suffix(DELETED_SUFFIX).filter(|_| is_deleted);
            let path = bare.unwrap_or(path).to_owned();
            Some(ShownFile::Inside { path, is_deleted })
        }
        None if has_name || is_cut => None,
        None => Some(ShownFile::Outside(outside_kind(file.kind))),
    }
}

/// The names of the families in common use: the kernel's include/linux/socket.h.
const FAMILIES: [(u16, &str); 6] = [
    (3, "AF_AX25"),
    (17, "AF_PACKET"),
    (29, "AF_CAN"),
    (31, "AF_BLUETOOTH"),
    (38, "AF_ALG"),
    (40, "AF_VSOCK"),
];

/// The address of a socket in a call. `None`: it is cut, or there is none.
fn address_of(call: &TouchCall) -> Option<SocketAddress> {
    const AF_UNSPEC: u16 = 0;
    const AF_UNIX: u16 = 1;
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    const AF_NETLINK: u16 = 16;
    let bytes = call
        .address
        .get(..usize::try_from(call.address_length).ok()?)?;
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = || Some(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    let internet = |address: SocketAddr| SocketAddress::Internet(address.to_string());
    Some(match family {
        AF_UNSPEC => SocketAddress::Unspecified,
        AF_NETLINK => return None,
        AF_UNIX => SocketAddress::Unix(unix_name(&bytes[2..])?),
        AF_INET => {
            let host = Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?);
            internet((host, port()?).into())
        }
        AF_INET6 => {
            let host = Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?);
            internet((host, port()?).into())
        }
        family => {
            let known = FAMILIES.iter().find(|(number, _)| *number == family);
            SocketAddress::Other(
                known.map_or_else(|| format!("{family:#x}"), |(_, name)| (*name).to_owned()),
            )
        }
    })
}

/// The name of a Unix socket; `None`: it has none.
fn unix_name(name: &[u8]) -> Option<String> {
    const SUN_PATH_BYTES: usize = 108;
    match &name[..name.len().min(SUN_PATH_BYTES)] {
        [] => None,
        [0, rest @ ..] => Some(format!("@{}", from_bytes(rest))),
        name => name.split(|byte| *byte == 0).next().map(from_bytes),
    }
}

const _: () = assert!(ADDRESS_BYTES >= 110, "a `sockaddr_un` has 110 bytes");
