//! What the arguments of a call mean: the size it asks for, its descriptors, the first bytes it
//! moved, whether it only peeked, the variant of an `ioctl`, the kind of task that a `clone` makes,
//! the program of an `execve`.

use super::{
    args::{Args, Descriptor, elements, field, inside, number, split_args},
    syntax::{end_of_string, unescaped, unescaped_text},
};
use crate::{
    syscalls::{FICLONE, FICLONERANGE, Fds, PathArgument, Requested, Spec},
    text::file_name,
    trace::GivenPath,
};

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

/// Whether the size of a write agrees with the text that it writes. In a log on stderr, what the
/// program writes there may follow the size directly, so that the size 1 and the output "5" look
/// like 15. Where strace shows the whole text, this is noticed.
fn is_size_of(size: u64, text: Option<&[u8]>) -> bool {
    let text = text.and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\""));
    text.is_none_or(|text| unescaped(text).count() as u64 == size)
}

/// The sum of the lengths of `[{iov_base="..."..., iov_len=10}, ...]`.
fn vector_bytes(vector: &[u8]) -> Option<u64> {
    split_args(inside(vector, b'[', b']')?).try_fold(0_u64, |sum, element| {
        let length = field(inside(element, b'{', b'}')?, b"iov_len=").and_then(number)?;
        sum.checked_add(length)
    })
}

/// A descriptor that a call reads from or writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<'a> {
    /// strace printed the name of its file.
    Named(Descriptor<'a>),
    /// strace printed the number only: without `-y`, and always for the source of `FICLONE`.
    Number(u32),
}

impl<'a> End<'a> {
    fn new(argument: &'a [u8]) -> Option<Self> {
        let number = || {
            number(argument)
                .and_then(|number| u32::try_from(number).ok())
                .map(Self::Number)
        };
        Descriptor::whole(argument).map(Self::Named).or_else(number)
    }
}

/// The descriptors at the two ends of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends<'a> {
    /// The source; or the file that a call is about that moves nothing.
    pub from: Option<End<'a>>,
    /// The destination.
    pub to: Option<End<'a>>,
}

/// The descriptors that the call names.
///
/// The descriptor of a pipe does not say which of its ends it is, so `vmsplice` is assumed to write
/// into the pipe. To copy out of one, programs call `readv`.
pub fn ends<'a>(args: &Args<'a>, fds: Fds) -> Ends<'a> {
    let end = |index| args.nth(index).and_then(End::new);
    let (from, to) = match fds {
        Fds::None => (None, None),
        Fds::Reads(from) | Fds::On(from) => (end(from), None),
        Fds::Writes(to) | Fds::Pipe(to) => (None, end(to)),
        Fds::Copies { from, to } => (end(from), end(to)),
        Fds::ClonesRange { to, request } => {
            (args.field(request, b"src_fd=").and_then(End::new), end(to))
        }
    };
    Ends { from, to }
}

/// The path that a call looks up. `None`: strace printed an address, or `NULL`.
pub(super) fn given_path(
    args: &Args<'_>,
    PathArgument { index, directory }: PathArgument,
) -> Option<GivenPath> {
    let argument = args
        .nth(index)
        .filter(|argument| argument.starts_with(b"\""))?;
    let end = end_of_string(argument, 0)?;
    let text = unescaped_text(&argument[1..end - 1]);
    let directory = directory.and_then(|index| args.nth(index));
    let names_directory = directory.is_some_and(|directory| !directory.starts_with(b"AT_FDCWD"));
    let is_below_descriptor = names_directory && !text.starts_with('/');
    Some(GivenPath {
        text,
        is_cut: argument[end..].starts_with(b"..."),
        is_below_descriptor,
    })
}

/// So many of the bytes that a call moved are kept. They usually suffice to tell texts apart.
pub const MOST_FIRST_BYTES: usize = 16;

/// The first bytes that a call moved; empty if the log does not show them.
pub fn first_bytes(args: &Args<'_>, spec: &Spec, moved: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    match spec.requested {
        // `read(3, "..."..., 4096)`: the argument before the size has the bytes.
        Requested::Size(size) => {
            bytes = size
                .checked_sub(1)
                .and_then(|buffer| text(args.nth(buffer)?))
                .unwrap_or_default();
        }
        Requested::Iovec { base, .. } => add_elements(&mut bytes, args.elements(base)),
        Requested::Message(index) => {
            add_elements(
                &mut bytes,
                args.field(index, b"msg_iov=")
                    .into_iter()
                    .flat_map(elements),
            );
        }
        Requested::Nowhere => {}
    }
    let moved = usize::try_from(moved).unwrap_or(usize::MAX);
    bytes.truncate(moved.min(MOST_FIRST_BYTES));
    bytes
}

/// Adds the bytes of the elements of a vector up to the first one that is not shown whole.
fn add_elements<'a>(bytes: &mut Vec<u8>, elements: impl Iterator<Item = &'a [u8]>) {
    for element in elements {
        let Some(structure) = inside(element, b'{', b'}') else {
            return;
        };
        let Some(base) = field(structure, b"iov_base=") else {
            return;
        };
        bytes.extend(text(base).unwrap_or_default());
        if !base.ends_with(b"\"") || bytes.len() >= MOST_FIRST_BYTES {
            return;
        }
    }
}

/// The first bytes of `"abc"`, or of `"abc"...`, which is cut.
fn text(argument: &[u8]) -> Option<Vec<u8>> {
    let quoted = argument.strip_suffix(b"...").unwrap_or(argument);
    let text = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescaped(text).take(MOST_FIRST_BYTES).collect())
}

/// Whether a call only peeks at the bytes of a socket, by its flags.
pub fn is_peek(args: &Args<'_>, spec: &Spec) -> bool {
    // The kernel's include/linux/socket.h.
    const PEEK: u64 = 0x2;
    let reads = matches!(spec.fds, Fds::Reads(_));
    let flags = spec.message_flags.and_then(|index| args.nth(index));
    reads && flags.is_some_and(|flags| has_flag(flags, PEEK, b"MSG_PEEK"))
}

/// Whether flags have this one, whose bit is `bit`.
fn has_flag(flags: &[u8], bit: u64, name: &[u8]) -> bool {
    number(flags).map_or_else(
        || words(flags).any(|word| word == name),
        |flags| flags & bit != 0,
    )
}

/// The variant of an `ioctl`, if it clones files. strace prints all names of a request:
/// `BTRFS_IOC_CLONE or FICLONE`.
pub fn ioctl_variant(args: &[u8]) -> Option<&'static str> {
    let command = split_args(args).nth(1)?;
    // Numbers: `FICLONE` and `FICLONERANGE` of the kernel's include/uapi/linux/fs.h.
    match number(command) {
        Some(0x4004_9409) => return Some(FICLONE),
        Some(0x4020_940d) => return Some(FICLONERANGE),
        Some(_) => return None,
        None => {}
    }
    words(command).find_map(|word| match word {
        b"FICLONE" => Some(FICLONE),
        b"FICLONERANGE" => Some(FICLONERANGE),
        _ => None,
    })
}

/// What kind of task a `clone` or `clone3` creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// A process, whose parent is the caller's process.
    Process,
    /// A process, whose parent is that of the caller's process (`CLONE_PARENT`).
    Sibling,
    /// A thread of the caller's process.
    Thread,
}

/// The kind of task that a call creates; `fork` and `vfork` have no flags.
pub fn child_kind(args: &[u8]) -> ChildKind {
    // Bits: the kernel's include/uapi/linux/sched.h.
    const PARENT: u64 = 0x8000;
    const THREAD: u64 = 0x1_0000;
    let first = split_args(args).next();
    let fields = first
        .and_then(|argument| argument.strip_prefix(b"{"))
        .unwrap_or(args);
    let Some(flags) = field(fields, b"flags=") else {
        return ChildKind::Process;
    };
    if has_flag(flags, THREAD, b"CLONE_THREAD") {
        ChildKind::Thread
    } else if has_flag(flags, PARENT, b"CLONE_PARENT") {
        ChildKind::Sibling
    } else {
        ChildKind::Process
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

/// A program that a process executes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its path as given to `execve`.
    pub exe: Option<String>,
    /// Its command line.
    pub command: Option<Vec<String>>,
    /// Whether strace cut any of its words.
    pub is_cut: bool,
}

/// The program and the command line of an `execve` or `execveat`. What is not printed as text is
/// unknown.
pub fn program(args: &[u8]) -> Program {
    let mut program = Program::default();
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
    let quoted = argument
        .strip_prefix(b"\"")
        .and_then(|_| end_of_string(argument, 0));
    let Some(end) = quoted else {
        return String::from_utf8_lossy(argument).into_owned();
    };
    let mut bytes: Vec<u8> = unescaped(&argument[1..end - 1]).collect();
    bytes.extend_from_slice(&argument[end..]);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The name that the kernel gives a task at an exec: the last part of the path, cut to 15 bytes
/// (`TASK_COMM_LEN` of its include/linux/sched.h less the zero).
pub fn name_by_exec(path: &str) -> Option<String> {
    const MOST_BYTES: usize = 15;
    let name = Some(file_name(path)).filter(|name| !name.is_empty())?;
    let end = (0..=name.len().min(MOST_BYTES))
        .rev()
        .find(|&end| name.is_char_boundary(end))?;
    Some(name[..end].to_owned())
}
