//! What the arguments of a call mean: the size it asks for, its descriptors, the first bytes it
//! moved, whether it only peeked, the variant of an `ioctl`, the kind of task that a `clone` makes,
//! the program of an `execve`.

use super::{
    args::{Args, Descriptor, SplitArgs, elements, field, inside, number},
    first_bytes::FirstBytes,
    syntax::{end_of_string, unescape, unescape_up_to, unescaped_length},
};
use crate::{
    syscall::{FICLONE, FICLONERANGE, Fds, Requested, Spec},
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
    text.is_none_or(|text| u64::try_from(unescaped_length(text)) == Ok(size))
}

/// The sum of the lengths of `[{iov_base="..."..., iov_len=10}, ...]`.
fn vector_bytes(vector: &[u8]) -> Option<u64> {
    SplitArgs::new(inside(vector, b'[', b']')?).try_fold(0_u64, |sum, element| {
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

/// The path in the argument at this index; a relative one may start in the directory of another
/// argument. `None`: strace printed an address, or `NULL`.
pub(super) fn given_path(
    args: &Args<'_>,
    index: u8,
    directory_argument: Option<u8>,
) -> Option<GivenPath> {
    let argument = args
        .nth(index)
        .filter(|argument| argument.starts_with(b"\""))?;
    let end = end_of_string(argument, 0)?;
    let text = String::from_utf8_lossy(&unescape(&argument[1..end - 1])).into_owned();
    let directory = directory_argument.and_then(|index| args.nth(index));
    let names_directory = directory.is_some_and(|directory| !directory.starts_with(b"AT_FDCWD"));
    let is_below_descriptor = names_directory && !text.starts_with('/');
    Some(GivenPath {
        text,
        is_cut: argument[end..].starts_with(b"..."),
        is_below_descriptor,
    })
}

/// The first bytes that a call moved; empty if the log does not show them.
pub(super) fn first_bytes(args: &Args<'_>, spec: &Spec, moved: u64) -> FirstBytes {
    let mut bytes = Vec::new();
    match spec.requested {
        // `read(3, "..."..., 4096)`: the argument before the size has the bytes.
        Requested::Size(size) => {
            bytes = size
                .checked_sub(1)
                .and_then(|buffer| text(args.nth(buffer)?))
                .unwrap_or_default()
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
    bytes.truncate(usize::try_from(moved).unwrap_or(usize::MAX));
    FirstBytes::from_shown(&bytes)
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
        if !base.ends_with(b"\"") || bytes.len() >= FirstBytes::MOST_BYTES {
            return;
        }
    }
}

/// The bytes of `"abc"`, or of `"abc"...`, which is cut.
fn text(argument: &[u8]) -> Option<Vec<u8>> {
    let quoted = argument.strip_suffix(b"...").unwrap_or(argument);
    Some(unescape_up_to(
        quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?,
        FirstBytes::MOST_BYTES,
    ))
}

/// A flag of `recv` and similar calls, as strace prints it.
const PEEK: &[u8] = b"MSG_PEEK";

/// Whether the flags of a call have `MSG_PEEK`. They follow the bytes that it received.
pub fn has_peek(args: &[u8]) -> bool {
    let behind = args.rsplit(|&byte| byte == b'"').next().unwrap_or(args);
    behind.windows(PEEK.len()).any(|word| word == PEEK)
}

/// The variant of an `ioctl`, if it clones files. strace prints all names of a request:
/// `BTRFS_IOC_CLONE or FICLONE`.
pub fn ioctl_variant(args: &[u8]) -> Option<&'static str> {
    let command = SplitArgs::new(args).nth(1)?;
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
    let first = SplitArgs::new(args).next();
    let fields = first
        .and_then(|argument| argument.strip_prefix(b"{"))
        .unwrap_or(args);
    let Some(flags) = field(fields, b"flags=") else {
        return ChildKind::Process;
    };
    let has = |bit, name: &[u8]| {
        number(flags).map_or_else(
            || words(flags).any(|word| word == name),
            |flags| flags & bit != 0,
        )
    };
    if has(THREAD, b"CLONE_THREAD") {
        ChildKind::Thread
    } else if has(PARENT, b"CLONE_PARENT") {
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
    for argument in SplitArgs::new(args) {
        if argument.starts_with(b"\"") {
            program.exe = Some(string(argument));
        } else if let Some(list) = inside(argument, b'[', b']') {
            let is_cut_to_nothing = list == b"...";
            program.command =
                (!is_cut_to_nothing).then(|| SplitArgs::new(list).map(string).collect());
            program.is_cut = SplitArgs::new(list).any(|word| word.ends_with(b"..."));
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
    let mut bytes = unescape(&argument[1..end - 1]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_whole_number() {
        let size = |args: &str| requested_bytes(&Args::new(args.as_bytes()), &Spec::of("read"));
        assert_eq!(size(r#"0, "abc, 5", 131072"#), Some(131_072));
        assert_eq!(size("0x0, 0x7f, 0x1000"), Some(4096));
        assert_eq!(size("0, 0x7f, 0x10 /* x */"), Some(16));
        for args in ["0, 1", "2, \"hello\", 6hello", "2, \"x\", 15 y", ""] {
            assert_eq!(size(args), None, "{args}");
        }
    }

    #[test]
    fn a_size_with_output_behind_it_is_noticed() {
        let size = |args: &str| requested_bytes(&Args::new(args.as_bytes()), &Spec::of("write"));
        assert_eq!(size(r#"2, "5\n", 2"#), Some(2));
        assert_eq!(size(r#"2, "long"..., 4096"#), Some(4096));
        assert_eq!(size("2, 0x7ffe, 4096"), Some(4096));
        assert_eq!(size(r#"2, "5", 15"#), None);
    }

    #[test]
    fn the_lengths_of_a_vector_are_summed() {
        let size = |args: &str| requested_bytes(&Args::new(args.as_bytes()), &Spec::of("writev"));
        assert_eq!(
            size(r#"1, [{iov_base="a, iov_len=9}", iov_len=3}, {iov_base=""..., iov_len=4}], 2"#),
            Some(7)
        );
        assert_eq!(size("1, NULL, 0"), Some(0));
        for args in [
            "1, 0x7ffe, 2",
            "1, [{iov_base=\"a\", iov_len=3}, ...], 200",
            "1, [{iov_base=\"a\", iov_len=3}, ... /* 0x7ffe */], 2",
        ] {
            assert_eq!(size(args), None, "{args}");
        }
    }

    #[test]
    fn the_size_of_a_message_is_that_of_its_vector() {
        let size = |args: &str| requested_bytes(&Args::new(args.as_bytes()), &Spec::of("sendmsg"));
        let message = r#"3, {msg_name={sa_family=AF_UNIX, sun_path="msg_iov=["}, msg_namelen=0, msg_iov=[{iov_base="hi", iov_len=64}], msg_iovlen=1}, 0"#;
        assert_eq!(size(message), Some(64));
        assert_eq!(
            size("3, {msg_name=NULL, msg_iov=NULL, msg_iovlen=0}, 0"),
            Some(0)
        );
        assert_eq!(size("3, {msg_namelen=0}, 0"), None);
        assert_eq!(size("3, 0x7ffe, 0"), None);
    }

    #[test]
    fn ioctls_that_clone_files_are_variants() {
        let variant = |args: &str| ioctl_variant(args.as_bytes());
        assert_eq!(variant("4, BTRFS_IOC_CLONE or FICLONE, 3"), Some(FICLONE));
        assert_eq!(
            variant("4</FICLONE>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3}"),
            Some(FICLONERANGE)
        );
        assert_eq!(
            variant("4, 0x40049409 /* BTRFS_IOC_CLONE or FICLONE */, 3"),
            Some(FICLONE)
        );
        assert_eq!(variant("4, 0x4020940d, 3"), Some(FICLONERANGE));
        assert_eq!(variant("1, TCGETS, {c_iflag=ICRNL}"), None);
        assert_eq!(variant("1"), None);
    }

    #[test]
    fn flags_say_what_a_clone_creates() {
        let child = |args: &str| child_kind(args.as_bytes());
        assert_eq!(
            child("child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f"),
            ChildKind::Process
        );
        assert_eq!(
            child("child_stack=NULL, flags=CLONE_PARENT_SETTID|SIGCHLD"),
            ChildKind::Process
        );
        assert_eq!(
            child("child_stack=NULL, flags=CLONE_PARENT|SIGCHLD"),
            ChildKind::Sibling
        );
        assert_eq!(
            child(
                "{flags=CLONE_VM|CLONE_THREAD|CLONE_SYSVSEM, exit_signal=0} => {parent_tid=[9]}, 88"
            ),
            ChildKind::Thread
        );
        assert_eq!(
            child("{flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88"),
            ChildKind::Process
        );
        assert_eq!(
            child("child_stack=0x7f, flags=0x3d0f00 /* CLONE_VM|... */, x"),
            ChildKind::Thread
        );
        assert_eq!(
            child("{flags=0x3d0f00, child_tid=0x7f}, 88"),
            ChildKind::Thread
        );
        assert_eq!(child(""), ChildKind::Process);
    }

    #[test]
    fn a_program_has_a_path_and_a_command_line() {
        let program = |args: &str| program(args.as_bytes());
        let words = |words: &[&str]| {
            Some(
                words
                    .iter()
                    .map(|&word| word.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let whole = program(r#""/bin/a b", ["a b", "\"c\"\n", "..."], 0x7ffe /* 3 vars */"#);
        assert_eq!(
            whole,
            Program {
                exe: Some("/bin/a b".into()),
                command: words(&["a b", "\"c\"\n", "..."]),
                is_cut: false
            }
        );
        let cut = program(r#"3, "x", ["long"..., ...], 0x7f, 0"#);
        assert_eq!(
            cut,
            Program {
                exe: Some("x".into()),
                command: words(&["long...", "..."]),
                is_cut: true
            }
        );
        assert_eq!(program("0x7f, 0x7f, 0x7f"), Program::default());
    }

    #[test]
    fn the_descriptors_at_both_ends_are_found() {
        let numbers = |name: &str, args: &str| {
            let found = ends(&Args::new(args.as_bytes()), Spec::of(name).fds);
            let number = |end| {
                if let End::Named(descriptor) = end {
                    descriptor.number
                } else {
                    panic!("no name: {args}")
                }
            };
            [found.from, found.to].map(|end| end.map(number))
        };
        assert_eq!(numbers("read", r#"3</a, b>, ""..., 5"#), [Some(3), None]);
        assert_eq!(
            numbers("write", r#"3</a>(deleted), ""..., 5"#),
            [None, Some(3)]
        );
        assert_eq!(
            numbers(
                "sendfile",
                "4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 3</a>, NULL, 5"
            ),
            [Some(3), Some(4)]
        );
        assert_eq!(
            numbers("splice", "5<pipe:[1]>, NULL, 4</b>, NULL, 65536, 0"),
            [Some(5), Some(4)]
        );
        assert_eq!(
            numbers(
                "vmsplice",
                "5<pipe:[1]>, [{iov_base=\"\", iov_len=5}], 1, 0"
            ),
            [None, Some(5)]
        );
        assert_eq!(
            numbers("mmap", "NULL, 4096, PROT_READ, MAP_PRIVATE, 3</a>, 0"),
            [Some(3), None]
        );
        assert_eq!(
            numbers(
                "mmap",
                "NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0"
            ),
            [None, None]
        );
        assert_eq!(
            numbers("fstat", "3</a>, {st_mode=S_IFREG|0644, st_size=5, ...}"),
            [Some(3), None]
        );
        assert_eq!(numbers("openat", "3</a>, \"x\", O_RDONLY"), [None, None]);
        let range = "4</b>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3</a>, src_offset=0, src_length=0, dest_offset=0}";
        assert_eq!(numbers(FICLONERANGE, range), [Some(3), Some(4)]);
    }

    #[test]
    fn a_descriptor_need_not_have_a_name() {
        let found = |name: &str, args: &str| {
            let Ends { from, to } = ends(&Args::new(args.as_bytes()), Spec::of(name).fds);
            [from, to].map(|end| end.map(|end| matches!(end, End::Named(_))))
        };
        assert_eq!(
            found(FICLONE, "4</b>, BTRFS_IOC_CLONE or FICLONE, 3"),
            [Some(false), Some(true)]
        );
        assert_eq!(found("sendfile", "4, 0x3, NULL, 5"), [Some(false); 2]);
        assert_eq!(found("read", "-1, 0x7ffe, 5"), [None; 2]);
    }

    fn first_bytes_of(name: &str, args: &str, moved: u64) -> FirstBytes {
        first_bytes(&Args::new(args.as_bytes()), &Spec::of(name), moved)
    }

    #[test]
    fn the_first_bytes_are_found_before_the_size_or_in_a_vector() {
        assert_eq!(
            first_bytes_of("read", r#"3</in>, "a\n\0\377"..., 4096"#, 4096),
            FirstBytes::from_shown(b"a\n\0\xff")
        );
        assert_eq!(
            first_bytes_of("pwrite64", r#"3, "abc", 3, 10"#, 3),
            FirstBytes::from_shown(b"abc")
        );
        assert_eq!(
            first_bytes_of("sendto", r#"3, "abc", 3, 0, NULL, 0"#, 3),
            FirstBytes::from_shown(b"abc")
        );
        let vector = r#"3, [{iov_base="ab", iov_len=2}, {iov_base="cd"..., iov_len=20}, {iov_base="x", iov_len=1}], 3"#;
        assert_eq!(
            first_bytes_of("writev", vector, 23),
            FirstBytes::from_shown(b"abcd")
        );
        let message = r#"3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base="abc", iov_len=3}], msg_iovlen=1, msg_flags=0}, 0"#;
        assert_eq!(
            first_bytes_of("recvmsg", message, 3),
            FirstBytes::from_shown(b"abc")
        );
    }

    #[test]
    fn bytes_that_were_not_moved_or_are_not_shown_are_left_out() {
        assert_eq!(
            first_bytes_of("write", r#"3, "abcdef", 6"#, 2),
            FirstBytes::from_shown(b"ab")
        );
        for args in [r#"3, ""..., 4096"#, "3, 0x7ffc0, 4096", "3, NULL, 0", "3"] {
            assert_eq!(
                first_bytes_of("read", args, 4096),
                FirstBytes::default(),
                "{args}"
            );
        }
        assert_eq!(
            first_bytes_of("recvmmsg", "3, [{}], 1, 0, NULL", 1),
            FirstBytes::default()
        );
    }
}
