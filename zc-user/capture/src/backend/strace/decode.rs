//! What the arguments of a call mean: the size it asks for, its descriptors, the first bytes it
//! moved, whether its result is only a length, the variant of an `ioctl`, the kind of task that a
//! `clone` makes, the program of an `execve`.

use std::net::{IpAddr, SocketAddr};

use super::{
    args::{Args, NamedDescriptor, elements, field, inside, number, split_args},
    file_name,
    syntax::{end_of_string, unescaped, unsigned},
};
use crate::{
    backend::file_calls::{ChildKind, flag},
    syscalls::{FICLONE, FICLONERANGE, Fds, PathArgument, PathForm, Requested, Returned, Spec},
    text::file_name,
    trace::GivenPath,
};
use zctrace_core::text::from_bytes;

/// How many bytes the call requests. `None` if the arguments do not say: strace printed an address,
/// or cut an array short.
pub fn requested_bytes(args: &Args<'_>, spec: &Spec) -> Option<u64> {
    let nth = |index| args.nth(index);
    match spec.requested {
        Requested::Size(index) if spec.name == "write" => {
            number(nth(index)?).filter(|&size| is_size_of(size, nth(1)))
        }
        Requested::Nowhere => Some(0),
        Requested::Size(index) => number(nth(index)?),
        Requested::Iovec { base, count } => {
            if nth(count).and_then(number) == Some(0) {
                return Some(0);
            }
            vector_bytes(nth(base)?)
        }
        Requested::Message(index) => {
            let is_empty = || args.field(index, b"msg_iovlen=").and_then(number) == Some(0);
            args.field(index, b"msg_iov=")
                .and_then(vector_bytes)
                .or_else(|| is_empty().then_some(0))
        }
    }
}

/// Whether a call may have returned so many bytes: it cannot move more than it asks for, and strace
/// always prints a size that is an argument. A message may be longer than what is read of it
/// (`MSG_TRUNC` of recv(2)). With `is_cut`, foreign output stood in the arguments, so that a vector
/// must say a size, too.
pub fn may_return(args: &Args<'_>, spec: &Spec, bytes: u64, is_cut: bool) -> bool {
    if spec.returned != Returned::Bytes || spec.message_flags.is_some() {
        return true;
    }
    match spec.requested {
        Requested::Size(index) => {
            let size = args.nth(index).and_then(number);
            size.is_some_and(|size| bytes <= size)
        }
        _ => requested_bytes(args, spec).map_or(!is_cut, |size| bytes <= size),
    }
}

/// Whether the size of a write agrees with the text that it writes. In a log on stderr, what the
/// program writes there may follow the size directly, so that the size 1 and the output "5" look
/// like 15. Where strace shows the whole text, this is noticed.
fn is_size_of(size: u64, text: Option<&[u8]>) -> bool {
    let whole = text.and_then(quoted).filter(|(_, rest)| rest.is_empty());
    whole.is_none_or(|(text, _)| text.len() as u64 == size)
}

/// The bytes of the string that an argument begins with, and what follows it.
pub fn quoted(argument: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let inside = argument.strip_prefix(b"\"")?;
    let end = end_of_string(argument, 0)?;
    let (text, rest) = inside.split_at(end - 2);
    Some((unescaped(text).collect(), &rest[1..]))
}

/// The base and the length of `{iov_base="..."..., iov_len=10}`.
fn iovec_element(element: &[u8]) -> Option<(&[u8], u64)> {
    let fields = inside(element, b'{', b'}')?;
    let length = field(fields, b"iov_len=")?;
    Some((field(fields, b"iov_base=")?, number(length)?))
}

/// The sum of the lengths of the elements of a vector.
fn vector_bytes(vector: &[u8]) -> Option<u64> {
    split_args(inside(vector, b'[', b']')?).try_fold(0_u64, |sum, element| {
        sum.checked_add(iovec_element(element)?.1)
    })
}

/// A descriptor that a call reads from or writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgEnd<'a> {
    /// strace printed the name of its file.
    Named(NamedDescriptor<'a>),
    /// strace printed the number only: without `-y`, and always for the source of `FICLONE`.
    Number(u32),
}

impl<'a> ArgEnd<'a> {
    fn new(argument: &'a [u8]) -> Option<Self> {
        let number = || {
            number(argument)
                .and_then(|number| u32::try_from(number).ok())
                .map(Self::Number)
        };
        NamedDescriptor::whole(argument)
            .map(Self::Named)
            .or_else(number)
    }
}

/// The descriptors that the call names: the source, or the file that a call is about that moves
/// nothing; and the destination.
///
/// The descriptor of a pipe does not say which of its ends it is, so `vmsplice` is assumed to write
/// into the pipe. To copy out of one, programs call `readv`.
pub fn ends_of_arguments<'a>(
    args: &Args<'a>,
    fds: Fds,
) -> (Option<ArgEnd<'a>>, Option<ArgEnd<'a>>) {
    let end = |index| args.nth(index).and_then(ArgEnd::new);
    match fds {
        Fds::None => (None, None),
        Fds::Reads(from) | Fds::On(from) => (end(from), None),
        Fds::Maps(_) if is_anonymous(args) => (None, None),
        Fds::Maps(file) if maps_for_writing(args) => (None, end(file)),
        Fds::Maps(file) => (end(file), None),
        Fds::Writes(to) | Fds::Pipe(to) => (None, end(to)),
        Fds::Copies { from, to } => (end(from), end(to)),
        Fds::ClonesRange { to, request } => (
            args.field(request, b"src_fd=").and_then(ArgEnd::new),
            end(to),
        ),
    }
}

/// Whether an `mmap` with these arguments makes a mapping by which stores reach the file.
fn maps_for_writing(args: &Args<'_>) -> bool {
    has_flag(args.nth(2), flag::PROT_WRITE) && has_flag(args.nth(3), flag::MAP_SHARED)
}

/// Whether an `mmap` with these arguments maps no file, whatever its descriptor is.
fn is_anonymous(args: &Args<'_>) -> bool {
    has_flag(args.nth(3), flag::MAP_ANONYMOUS)
}

/// The path that a call looks up. `None`: strace printed an address, or `NULL`, or the socket is in no
/// filesystem.
pub(super) fn given_path(
    args: &Args<'_>,
    path: PathArgument,
    spec: &Spec,
    has_succeeded: bool,
) -> Option<GivenPath> {
    let is_address = spec.path_form == PathForm::Address;
    let structure = args.nth(path.index).filter(|_| is_address);
    let fields = structure.and_then(|structure| inside(structure, b'{', b'}'));
    if let Some(text) = fields.and_then(internet_address) {
        return Some(GivenPath {
            text,
            is_cut: false,
            is_below_descriptor: false,
        });
    }
    let argument = if is_address {
        args.field(path.index, b"sun_path=")?
    } else {
        args.nth(path.index)?
    };
    let (text, rest) = quoted(argument)?;
    let given = GivenPath {
        text: from_bytes(&text),
        is_cut: rest.starts_with(b"..."),
        is_below_descriptor: false,
    };
    let directory = path.directory.and_then(|index| args.nth(index));
    let directory = directory.filter(|_| !given.text.starts_with('/'));
    let Some(directory) = directory.filter(|text| !text.starts_with(b"AT_FDCWD")) else {
        return Some(given);
    };
    let named = NamedDescriptor::whole(directory).and_then(|directory| {
        let name = file_name::parse(directory.name, file_name::Devices::default());
        name.path
    });
    let directory = named.map(|path| from_bytes(&path));
    Some(given.in_directory_of(directory.as_deref(), has_succeeded))
}

/// `HOST:PORT` of `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}` or
/// `{sa_family=AF_INET6, sin6_port=htons(80), ..., inet_pton(AF_INET6, "::1", &sin6_addr), ...}`.
pub(super) fn internet_address(fields: &[u8]) -> Option<String> {
    let field = |name: &[u8]| field(fields, name);
    let v4 = || Some((field(b"sin_port=htons(")?, field(b"sin_addr=inet_addr(")?));
    let v6 = || Some((field(b"sin6_port=htons(")?, field(b"inet_pton(AF_INET6, ")?));
    let (port, host) = v4().or_else(v6)?;
    let (port, _) = unsigned(port)?;
    let (host, _) = quoted(host)?;
    let host: IpAddr = from_bytes(&host).parse().ok()?;
    Some(SocketAddr::new(host, u16::try_from(port).ok()?).to_string())
}

/// So many of the bytes that a call moved are kept. They usually suffice to tell texts apart.
pub const MAX_FIRST_BYTES: usize = 16;

/// The first bytes that a call moved; empty if the log does not show them.
pub fn first_bytes(args: &Args<'_>, spec: &Spec, moved: u64) -> Vec<u8> {
    let mut bytes = match spec.requested {
        // `read(3, "..."..., 4096)`: the argument before the size has the bytes.
        Requested::Size(size) => size
            .checked_sub(1)
            .and_then(|buffer| quoted(args.nth(buffer)?))
            .map_or_else(Vec::new, |(text, _)| text),
        Requested::Iovec { base, .. } => vector_text(args.nth(base)),
        Requested::Message(index) => vector_text(args.field(index, b"msg_iov=")),
        Requested::Nowhere => Vec::new(),
    };
    let moved = usize::try_from(moved).unwrap_or(usize::MAX);
    bytes.truncate(moved.min(MAX_FIRST_BYTES));
    bytes
}

/// The bytes of the elements of a vector up to the first one that is not shown whole.
fn vector_text(vector: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for element in vector.into_iter().flat_map(elements) {
        let Some((base, _)) = iovec_element(element) else {
            break;
        };
        bytes.extend(quoted(base).into_iter().flat_map(|(text, _)| text));
        if !base.ends_with(b"\"") || bytes.len() >= MAX_FIRST_BYTES {
            break;
        }
    }
    bytes
}

/// Whether a receiving call left the data in the socket, so that its result is only a length, and
/// whether what is in its buffer may be something else, since TCP discards the data.
pub fn peeks_and_truncates(args: &Args<'_>, spec: &Spec) -> [bool; 2] {
    let reads = matches!(spec.fds, Fds::Reads(_));
    let flags = spec.message_flags.and_then(|index| args.nth(index));
    let flags = flags.filter(|_| reads);
    [flag::MSG_PEEK, flag::MSG_TRUNC].map(|one| has_flag(flags, one))
}

/// Whether an argument that is flags has this one.
pub fn has_flag(flags: Option<&[u8]>, flag: u64) -> bool {
    flags.is_some_and(|flags| flag_bits(flags) & flag != 0)
}

/// Flags as a number: those of [`flag`], and one more bit for all others. Of names for one constant
/// (`BTRFS_IOC_CLONE or FICLONE`), the known one.
pub fn flag_bits(flags: &[u8]) -> u64 {
    const OTHERS: u64 = 1 << 63;
    if let Some(number) = number(flags) {
        return number;
    }
    let value_of = |word: &[u8]| {
        let known = flag::NAMES.iter().find(|(name, _)| *name == word);
        known.map(|(_, value)| *value)
    };
    let has_alternatives = words_of_flags(flags).any(|word| word == b"or");
    let others = if has_alternatives { 0 } else { OTHERS };
    let bits = words_of_flags(flags).map(|word| value_of(word).unwrap_or(others));
    bits.fold(0, |all, bits| all | bits)
}

/// The variant of an `ioctl`, if it clones files. strace prints all names of a request:
/// `BTRFS_IOC_CLONE or FICLONE`.
pub fn ioctl_variant(args: &[u8]) -> Option<&'static str> {
    let command = split_args(args).nth(1)?;
    match flag_bits(command) {
        flag::FICLONE => Some(FICLONE),
        flag::FICLONERANGE => Some(FICLONERANGE),
        _ => None,
    }
}

/// The flags of a `clone` or `clone3`; `fork` and `vfork` have none.
pub fn clone_flags(args: &[u8]) -> u64 {
    let first = split_args(args).next();
    let fields = first
        .and_then(|argument| argument.strip_prefix(b"{"))
        .unwrap_or(args);
    field(fields, b"flags=").map_or(0, flag_bits)
}

/// The kind of task that a call creates.
pub fn child_kind(args: &[u8]) -> ChildKind {
    ChildKind::from_flags(clone_flags(args))
}

fn words_of_flags(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

/// A program that a process executes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewProgram {
    /// Its path as given to `execve`.
    pub exe: Option<String>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// Whether strace cut any of its words.
    pub is_cut: bool,
}

/// The program and the command line of an `execve` or `execveat`. What is not printed as text is
/// unknown.
pub fn program(args: &[u8]) -> NewProgram {
    let mut program = NewProgram::default();
    for argument in split_args(args) {
        if argument.starts_with(b"\"") {
            program.exe = Some(string(argument));
        } else if let Some(list) = inside(argument, b'[', b']') {
            let is_cut_to_nothing = list == b"...";
            program.command = (!is_cut_to_nothing).then(|| split_args(list).map(string).collect());
            program.is_cut = split_args(list).any(|word| word.ends_with(b"..."));
            break;
        }
    }
    program
}

/// A string without escapes; one that strace cut short keeps its dots.
fn string(argument: &[u8]) -> String {
    let (text, rest) = quoted(argument).unwrap_or((Vec::new(), argument));
    from_bytes(&[&text, rest].concat())
}

/// The name that the kernel gives a task at an exec: the last part of the path, cut to 15 bytes
/// (`TASK_COMM_LEN` of its include/linux/sched.h less the zero).
pub fn name_by_exec(path: &str) -> Option<String> {
    const MAX_BYTES: usize = 15;
    let name = Some(file_name(path)).filter(|name| !name.is_empty())?;
    let end = (0..=name.len().min(MAX_BYTES))
        .rev()
        .find(|&end| name.is_char_boundary(end))?;
    Some(name[..end].to_owned())
}
