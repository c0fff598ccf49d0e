//! What the arguments of a call say: the size it asks for, the variant of an `ioctl`, the flags of a `clone`, the program of an `execve`.

use super::{
    descriptor::Descriptor,
    line::{
        number::unsigned,
        scan::{end_of_string, find_top_level},
    },
    tasks::Program,
    text::{unescape, unescaped_length},
};
use crate::syscall::{FICLONE, FICLONERANGE, Requested, Spec};

/// Arguments at the top level of `text`, one after the other, without the spaces around them.
pub struct Arguments<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Arguments<'a> {
    /// The arguments in `text`, which is what stands between the brackets of a call, an array or a structure.
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: Some(text) }
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.rest?;
        let Some(comma) = find_top_level(text, b',') else {
            self.rest = None;
            return Some(text.trim_ascii()).filter(|last| !last.is_empty());
        };
        self.rest = Some(&text[comma + 1..]);
        Some(text[..comma].trim_ascii())
    }
}

/// The arguments of a call, found once for all who ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Split<'a>([Option<&'a [u8]>; 6]);

impl<'a> Split<'a> {
    /// Those in `args`, which is what stands between the brackets of a call.
    pub fn new(args: &'a [u8]) -> Self {
        let mut split = Self::default();
        split.0.iter_mut().zip(Arguments::new(args)).for_each(|(argument, text)| *argument = Some(text));
        split
    }

    /// An argument.
    pub fn nth(&self, index: u8) -> Option<&'a [u8]> {
        self.0.get(usize::from(index)).copied().flatten()
    }

    /// The elements of an argument that is an array.
    pub fn elements(&self, index: u8) -> impl Iterator<Item = &'a [u8]> {
        self.nth(index).into_iter().flat_map(elements)
    }

    /// The value of a field of an argument that is a structure; `name` has its `=`.
    pub fn field(&self, index: u8, name: &[u8]) -> Option<&'a [u8]> {
        field(inside(self.nth(index)?, b'{', b'}')?, name)
    }

    /// The descriptor with a name that an argument is.
    pub fn descriptor(&self, index: u8) -> Option<Descriptor<'a>> {
        Descriptor::whole(self.nth(index)?)
    }
}

/// How many bytes the call asks for. `None` if the arguments do not tell: an address in place of what is there, an array cut short.
pub fn requested_bytes(args: &Split<'_>, spec: &Spec) -> Option<u64> {
    let nth = |index| args.nth(index);
    match spec.requested {
        Requested::Size(index) if spec.name == "write" => number(nth(index)?).filter(|&size| is_size_of(size, nth(1))),
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
            args.field(index, b"msg_iov=").and_then(vector_bytes).or_else(|| is_empty().then_some(0))
        }
    }
}

/// Whether what is written can have this size. In a log on stderr the text that a program writes there stands right after the size,
/// so that 1 and "5" look like 15; where strace shows all of the text, that cannot pass.
fn is_size_of(size: u64, text: Option<&[u8]>) -> bool {
    let text = text.and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\""));
    text.is_none_or(|text| u64::try_from(unescaped_length(text)) == Ok(size))
}

/// The sum of the lengths of `[{iov_base="..."..., iov_len=10}, ...]`.
fn vector_bytes(vector: &[u8]) -> Option<u64> {
    Arguments::new(inside(vector, b'[', b']')?).try_fold(0_u64, |sum, element| {
        let length = field(inside(element, b'{', b'}')?, b"iov_len=").and_then(number)?;
        sum.checked_add(length)
    })
}

/// A whole argument that is a number; `-X verbose` may explain it: `0x3 /* PROT_READ|PROT_WRITE */`.
pub fn number(argument: &[u8]) -> Option<u64> {
    let (number, rest) = unsigned(argument)?;
    (rest.is_empty() || rest.starts_with(b" /*")).then_some(number)
}

/// The elements of an array.
pub fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    inside(array, b'[', b']').into_iter().flat_map(Arguments::new)
}

/// What stands between the brackets of an array or a structure.
pub fn inside(argument: &[u8], open: u8, close: u8) -> Option<&[u8]> {
    let (&first, rest) = argument.split_first()?;
    let (&last, inner) = rest.split_last()?;
    (first == open && last == close).then_some(inner)
}

/// The value of a field of a structure; `name` has its `=`.
pub fn field<'a>(structure: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Arguments::new(structure).find_map(|field| field.strip_prefix(name))
}

/// The name of the variant, if this `ioctl` is one. strace prints all names of a command: `BTRFS_IOC_CLONE or FICLONE`.
pub fn ioctl_variant(args: &[u8]) -> Option<&'static str> {
    let command = Arguments::new(args).nth(1)?;
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

/// What a `clone` or `clone3` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// A process, whose parent is the caller's process.
    Process,
    /// A process, whose parent is that of the caller's process (`CLONE_PARENT`).
    Sibling,
    /// A thread of the caller's process.
    Thread,
}

/// What a call that creates a task makes; `fork` and `vfork` have no flags.
pub fn child(args: &[u8]) -> Child {
    // Bits: the kernel's include/uapi/linux/sched.h.
    const PARENT: u64 = 0x8000;
    const THREAD: u64 = 0x1_0000;
    let first = Arguments::new(args).next();
    let fields = first.and_then(|argument| argument.strip_prefix(b"{")).unwrap_or(args);
    let Some(flags) = field(fields, b"flags=") else { return Child::Process };
    let has = |bit, name: &[u8]| number(flags).map_or_else(|| words(flags).any(|word| word == name), |flags| flags & bit != 0);
    if has(THREAD, b"CLONE_THREAD") {
        Child::Thread
    } else if has(PARENT, b"CLONE_PARENT") {
        Child::Sibling
    } else {
        Child::Process
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

/// The program that an `execve` or `execveat` starts, and its command line. What is not printed as text is unknown.
pub fn program(args: &[u8]) -> Program {
    let mut program = Program::default();
    for argument in Arguments::new(args) {
        if argument.starts_with(b"\"") {
            program.exe = Some(string(argument));
        } else if let Some(list) = inside(argument, b'[', b']') {
            let is_cut_to_nothing = list == b"...";
            program.command = (!is_cut_to_nothing).then(|| Arguments::new(list).map(string).collect());
            program.is_cut = Arguments::new(list).any(|word| word.ends_with(b"..."));
            break;
        }
    }
    program
}

/// A string as the program has it; what strace cut short keeps its dots.
fn string(argument: &[u8]) -> String {
    let quoted = argument.strip_prefix(b"\"").and_then(|_| end_of_string(argument, 0));
    let Some(end) = quoted else { return String::from_utf8_lossy(argument).into_owned() };
    let mut bytes = unescape(&argument[1..end - 1]);
    bytes.extend_from_slice(&argument[end..]);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        Arguments::new(text.as_bytes()).map(|argument| std::str::from_utf8(argument).expect("is a piece of a str")).collect()
    }

    #[test]
    fn arguments_are_split_at_the_top_level() {
        assert_eq!(
            split(r#"3</a,b>, "c, \" d"..., {e=1, f=[2, 3]}, 4"#),
            [r"3</a,b>", r#""c, \" d"..."#, "{e=1, f=[2, 3]}", "4"]
        );
        assert_eq!(split("NULL"), ["NULL"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("3, "), ["3"]);
    }

    #[test]
    fn a_size_is_a_whole_number() {
        let size = |args: &str| requested_bytes(&Split::new(args.as_bytes()), &Spec::of("read"));
        assert_eq!(size(r#"0, "abc, 5", 131072"#), Some(131_072));
        assert_eq!(size("0x0, 0x7f, 0x1000"), Some(4096));
        assert_eq!(size("0, 0x7f, 0x10 /* x */"), Some(16));
        for args in ["0, 1", "2, \"hello\", 6hello", "2, \"x\", 15 y", ""] {
            assert_eq!(size(args), None, "{args}");
        }
    }

    #[test]
    fn a_size_is_not_taken_together_with_what_is_written() {
        let size = |args: &str| requested_bytes(&Split::new(args.as_bytes()), &Spec::of("write"));
        assert_eq!(size(r#"2, "5\n", 2"#), Some(2));
        assert_eq!(size(r#"2, "long"..., 4096"#), Some(4096));
        assert_eq!(size("2, 0x7ffe, 4096"), Some(4096));
        assert_eq!(size(r#"2, "5", 15"#), None);
    }

    #[test]
    fn a_vector_is_summed_up() {
        let size = |args: &str| requested_bytes(&Split::new(args.as_bytes()), &Spec::of("writev"));
        assert_eq!(size(r#"1, [{iov_base="a, iov_len=9}", iov_len=3}, {iov_base=""..., iov_len=4}], 2"#), Some(7));
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
    fn a_message_has_a_vector() {
        let size = |args: &str| requested_bytes(&Split::new(args.as_bytes()), &Spec::of("sendmsg"));
        let message = r#"3, {msg_name={sa_family=AF_UNIX, sun_path="msg_iov=["}, msg_namelen=0, msg_iov=[{iov_base="hi", iov_len=64}], msg_iovlen=1}, 0"#;
        assert_eq!(size(message), Some(64));
        assert_eq!(size("3, {msg_name=NULL, msg_iov=NULL, msg_iovlen=0}, 0"), Some(0));
        assert_eq!(size("3, {msg_namelen=0}, 0"), None);
        assert_eq!(size("3, 0x7ffe, 0"), None);
    }

    #[test]
    fn clones_of_files_are_variants_of_ioctl() {
        let variant = |args: &str| ioctl_variant(args.as_bytes());
        assert_eq!(variant("4, BTRFS_IOC_CLONE or FICLONE, 3"), Some(FICLONE));
        assert_eq!(variant("4</FICLONE>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3}"), Some(FICLONERANGE));
        assert_eq!(variant("4, 0x40049409 /* BTRFS_IOC_CLONE or FICLONE */, 3"), Some(FICLONE));
        assert_eq!(variant("4, 0x4020940d, 3"), Some(FICLONERANGE));
        assert_eq!(variant("1, TCGETS, {c_iflag=ICRNL}"), None);
        assert_eq!(variant("1"), None);
    }

    #[test]
    fn flags_say_what_a_clone_makes() {
        let child = |args: &str| child(args.as_bytes());
        assert_eq!(child("child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f"), Child::Process);
        assert_eq!(child("child_stack=NULL, flags=CLONE_PARENT_SETTID|SIGCHLD"), Child::Process);
        assert_eq!(child("child_stack=NULL, flags=CLONE_PARENT|SIGCHLD"), Child::Sibling);
        assert_eq!(child("{flags=CLONE_VM|CLONE_THREAD|CLONE_SYSVSEM, exit_signal=0} => {parent_tid=[9]}, 88"), Child::Thread);
        assert_eq!(child("{flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88"), Child::Process);
        assert_eq!(child("child_stack=0x7f, flags=0x3d0f00 /* CLONE_VM|... */, x"), Child::Thread);
        assert_eq!(child("{flags=0x3d0f00, child_tid=0x7f}, 88"), Child::Thread);
        assert_eq!(child(""), Child::Process);
    }

    #[test]
    fn a_program_has_a_path_and_a_command_line() {
        let program = |args: &str| program(args.as_bytes());
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        let whole = program(r#""/bin/a b", ["a b", "\"c\"\n", "..."], 0x7ffe /* 3 vars */"#);
        assert_eq!(whole, Program { exe: Some("/bin/a b".into()), command: words(&["a b", "\"c\"\n", "..."]), is_cut: false });
        let cut = program(r#"3, "x", ["long"..., ...], 0x7f, 0"#);
        assert_eq!(cut, Program { exe: Some("x".into()), command: words(&["long...", "..."]), is_cut: true });
        assert_eq!(program("0x7f, 0x7f, 0x7f"), Program::default());
    }
}
