//! A call that touched something, as `strace -yy` prints it.

use std::{
    mem::offset_of,
    net::{Ipv4Addr, Ipv6Addr},
};

use zc_ebpf::{ADDRESS_BYTES, FileSeen, TouchCall, TouchSpec, path_end, touch_kind, touch_part};

use super::events::parse_file;
use crate::{
    backend::ebpf::load::touch_specs::at_flags,
    trace::{DELETED_SUFFIX, File, FileKind},
};

/// What belongs to a call: see [`touch_part`].
#[derive(Debug, Default)]
pub struct CallParts {
    texts: [Option<Vec<u8>>; 2],
    files: [Option<ShownFile>; 4],
}

/// A file as `strace -yy` shows it.
#[derive(Debug, Clone)]
pub struct ShownFile {
    /// In the brackets behind its descriptor.
    annotation: Vec<u8>,
    /// Its path, whether it has that name or had it.
    pub path: Option<String>,
}

impl CallParts {
    /// Keeps the text of a part. `None`: there is no such part.
    pub fn keep_text(&mut self, part: u32, text: Vec<u8>) -> Option<()> {
        *self.texts.get_mut(usize::try_from(part).ok()?)? = Some(text);
        Some(())
    }

    /// Keeps the file of a part. `None`: there is no such part, or its path is not known.
    pub fn keep_file(&mut self, part: u32, message: &[u8]) -> Option<()> {
        let place = part.checked_sub(touch_part::DIRECTORY)?;
        let file = ShownFile::new(message)?;
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
        let path = self.texts[0].as_ref()?.strip_prefix(b"/proc/self/fd/")?;
        std::str::from_utf8(path).ok()?.parse().ok()
    }

    /// What is behind the descriptor that a call returned: `3</tmp/x>`.
    pub fn returned(&self, call: &TouchCall) -> Vec<u8> {
        match self.file(touch_part::OTHER_FILE) {
            Some(file) => file.behind(&call.result.to_string()),
            None => Vec::new(),
        }
    }

    /// The arguments of a call.
    pub fn arguments(&self, name: &str, call: &TouchCall, spec: TouchSpec) -> Vec<u8> {
        let words = (1..=6).map(|number| self.argument(name, number, call, spec));
        let mut words: Vec<Option<Vec<u8>>> = words.collect();
        while words.last().is_some_and(Option::is_none) {
            words.pop();
        }
        // The other calls need no arguments.
        let words = words.into_iter().map(|word| word.unwrap_or(b"0".to_vec()));
        words.collect::<Vec<_>>().join(&b", "[..])
    }

    /// The argument with this number, from 1 on; `None`: it does not matter.
    fn argument(
        &self,
        name: &str,
        number: u8,
        call: &TouchCall,
        spec: TouchSpec,
    ) -> Option<Vec<u8>> {
        let value = call.arguments.values[usize::from(number) - 1];
        // Descriptors and flags are 32-bit numbers.
        let low = value & u64::from(u32::MAX);
        let described = |part: u32| match self.file(part) {
            Some(file) => file.behind(&low.to_string()),
            None => low.to_string().into_bytes(),
        };
        Some(match number {
            _ if number == spec.path => quoted(self.texts[0].as_ref()),
            _ if number == spec.second => quoted(self.texts[1].as_ref()),
            _ if number == spec.directory => self.directory(touch_part::DIRECTORY, low),
            _ if number == spec.second_directory => {
                self.directory(touch_part::SECOND_DIRECTORY, low)
            }
            _ if number == spec.file => described(touch_part::FILE),
            _ if number == spec.other_file => described(touch_part::OTHER_FILE),
            _ if number == spec.buffer => structure(call, spec)?,
            _ if at_flags(name) == Some(number - 1) => at_names(low),
            3 if spec.kind == touch_kind::OPEN_HOW => format!("{{flags={value:#x}}}").into_bytes(),
            1 if name.starts_with("clone") => format!("flags={value:#x}").into_bytes(),
            _ if spec.words >> (number - 1) & 1 != 0 => format!("{low:#x}").into_bytes(),
            _ => return None,
        })
    }

    fn directory(&self, part: u32, fd: u64) -> Vec<u8> {
        const AT_FDCWD: u64 = 0xffff_ff9c;
        let shown = if fd == AT_FDCWD {
            "AT_FDCWD".to_owned()
        } else {
            fd.to_string()
        };
        match self.file(part) {
            Some(file) => file.behind(&shown),
            None => shown.into_bytes(),
        }
    }
}

impl ShownFile {
    /// From its message. `None`: its path is not known.
    fn new(message: &[u8]) -> Option<Self> {
        let (_, file) = parse_file(message)?;
        let is_deleted = number_at(message, offset_of!(FileSeen, is_deleted))? != 0;
        let path = file.path.as_deref().filter(|path| path.starts_with('/'));
        let bare = |path: &str| path.strip_suffix(DELETED_SUFFIX).map(str::to_owned);
        let shown = path.map(|path| {
            let bare = bare(path).filter(|_| is_deleted);
            bare.unwrap_or(path.to_owned())
        });
        let has_name = matches!(
            file.kind,
            Some(FileKind::Regular | FileKind::Directory | FileKind::Char | FileKind::Block)
        );
        let is_cut = number_at(message, offset_of!(FileSeen, path_end))? == path_end::CUT;
        if shown.is_none() && (has_name || is_cut) {
            return None;
        }
        let mut annotation = match &shown {
            Some(path) => escaped(path.as_bytes()),
            None => outside(&file).into_bytes(),
        };
        if is_deleted && shown.is_some() {
            annotation.extend(b">(deleted)");
        }
        Some(Self {
            annotation,
            path: shown,
        })
    }

    /// With the descriptor before it.
    fn behind(&self, descriptor: &str) -> Vec<u8> {
        let end: &[u8] = if self.annotation.ends_with(b">(deleted)") {
            b""
        } else {
            b">"
        };
        [descriptor.as_bytes(), b"<", &self.annotation, end].concat()
    }
}

/// What is in the buffer that a call was given.
fn structure(call: &TouchCall, spec: TouchSpec) -> Option<Vec<u8>> {
    if spec.mode_at != 0 {
        let name = match libc::mode_t::from(call.mode) {
            0 => return None,
            libc::S_IFLNK => "S_IFLNK",
            libc::S_IFDIR => "S_IFDIR",
            libc::S_IFREG => "S_IFREG",
            _ => "S_IFCHR",
        };
        return Some(format!("{{mode={name}}}").into_bytes());
    }
    let length = usize::try_from(call.address_length).ok()?;
    let address = address(call.address.get(..length)?)?;
    let text = match spec.kind {
        touch_kind::MESSAGE => format!("{{msg_name={address}}}"),
        touch_kind::MESSAGES => format!("[{{msg_hdr={{msg_name={address}}}}}]"),
        _ => address,
    };
    Some(text.into_bytes())
}

/// A number in a message.
fn number_at(message: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*message.get(offset..)?.first_chunk()?))
}

/// A file that is in no directory.
fn outside(file: &File) -> String {
    match file.kind {
        Some(FileKind::Tcp) => "TCP:[1]".to_owned(),
        Some(FileKind::Udp) => "UDP:[1]".to_owned(),
        Some(FileKind::Netlink) => "NETLINK:[1]".to_owned(),
        Some(FileKind::UnixStream | FileKind::UnixDatagram | FileKind::UnixSeqpacket) => {
            "UNIX:[1]".to_owned()
        }
        Some(FileKind::Socket) => "RAW:[1]".to_owned(),
        Some(FileKind::Pipe) => "pipe:[1]".to_owned(),
        _ => "anon_inode:[other]".to_owned(),
    }
}

/// The names of the `AT_...` flags that matter: of the kernel's include/uapi/linux/fcntl.h.
fn at_names(flags: u64) -> Vec<u8> {
    const NAMES: [(u64, &str); 3] = [
        (0x100, "AT_SYMLINK_NOFOLLOW"),
        (0x200, "AT_REMOVEDIR"),
        (0x400, "AT_SYMLINK_FOLLOW"),
    ];
    let set = NAMES.iter().filter(|(bit, _)| flags & bit != 0);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if names.is_empty() {
        b"0".to_vec()
    } else {
        names.join("|").into_bytes()
    }
}

/// The names of the families in common use: the kernel's include/linux/socket.h.
const FAMILIES: [(u16, &str); 8] = [
    (0, "AF_UNSPEC"),
    (3, "AF_AX25"),
    (16, "AF_NETLINK"),
    (17, "AF_PACKET"),
    (29, "AF_CAN"),
    (31, "AF_BLUETOOTH"),
    (38, "AF_ALG"),
    (40, "AF_VSOCK"),
];

/// The address of a socket. `None`: it is cut.
fn address(bytes: &[u8]) -> Option<String> {
    const AF_UNIX: u16 = 1;
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = || Some(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    let fields = match family {
        AF_UNIX => format!("sa_family=AF_UNIX{}", sun_path(&bytes[2..])),
        AF_INET => {
            let host = Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?);
            let port = port()?;
            format!("sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr(\"{host}\")")
        }
        AF_INET6 => {
            let host = Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?);
            let port = port()?;
            format!(
                "sa_family=AF_INET6, sin6_port=htons({port}), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, \"{host}\", &sin6_addr), sin6_scope_id=0"
            )
        }
        family => match FAMILIES.iter().find(|(number, _)| *number == family) {
            Some((_, name)) => format!("sa_family={name}"),
            None => format!("sa_family={family:#x}"),
        },
    };
    Some(format!("{{{fields}}}"))
}

/// The name of a Unix socket as a field: `, sun_path="/run/x"`, or with `@"x"`.
fn sun_path(name: &[u8]) -> String {
    const SUN_PATH_BYTES: usize = 108;
    let name = &name[..name.len().min(SUN_PATH_BYTES)];
    let text = |name: &[u8]| String::from_utf8_lossy(&quoted(Some(&name.to_vec()))).into_owned();
    let named = match name {
        [] => return String::new(),
        [0, rest @ ..] => format!("@{}", text(rest)),
        name => text(name.split(|byte| *byte == 0).next().unwrap_or_default()),
    };
    format!(", sun_path={named}")
}

/// A text in quotation marks; `NULL` if there is none.
fn quoted(text: Option<&Vec<u8>>) -> Vec<u8> {
    match text {
        Some(text) => [b"\"", escaped(text).as_slice(), b"\""].concat(),
        None => b"NULL".to_vec(),
    }
}

/// A text in which no character has a special meaning.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"/._-+=@%~ :#^".contains(&byte) {
            escaped.push(byte);
        } else {
            escaped.extend(format!("\\x{byte:02x}").bytes());
        }
    }
    escaped
}

const _: () = assert!(ADDRESS_BYTES >= 110, "a `sockaddr_un` has 110 bytes");
