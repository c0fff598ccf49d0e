//! The descriptors that a call moves bytes from and to, among its arguments.

use super::{
    args::{Split, number},
    descriptor::Descriptor,
};
use crate::syscall::Fds;

/// A descriptor that a call moves bytes from or to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<'a> {
    /// strace says what is behind it.
    Named(Descriptor<'a>),
    /// It does not: without `-y`, and never of the source of `FICLONE`.
    Number(u32),
}

impl<'a> End<'a> {
    fn new(argument: &'a [u8]) -> Option<Self> {
        let number = || number(argument).and_then(|number| u32::try_from(number).ok()).map(Self::Number);
        Descriptor::whole(argument).map(Self::Named).or_else(number)
    }
}

/// The descriptors that a call moves bytes from and to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends<'a> {
    /// Where from; or what a call is about that moves nothing.
    pub from: Option<End<'a>>,
    /// Where to.
    pub to: Option<End<'a>>,
}

/// The descriptors that the call names.
///
/// A pipe's descriptor does not tell which of its ends it is: `vmsplice` is taken to go into the pipe. Out of one it copies as `readv`
/// does, which programs call instead.
pub fn of<'a>(args: &Split<'a>, fds: Fds) -> Ends<'a> {
    let end = |index| args.nth(index).and_then(End::new);
    let (from, to) = match fds {
        Fds::None => (None, None),
        Fds::Reads(from) | Fds::On(from) => (end(from), None),
        Fds::Writes(to) | Fds::Pipe(to) => (None, end(to)),
        Fds::Copies { from, to } => (end(from), end(to)),
        Fds::ClonesRange { to, request } => (args.field(request, b"src_fd=").and_then(End::new), end(to)),
    };
    Ends { from, to }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscall::{FICLONE, FICLONERANGE, Spec};

    #[test]
    fn a_call_names_its_descriptors() {
        let numbers = |name: &str, args: &str| {
            let found = of(&Split::new(args.as_bytes()), Spec::of(name).fds);
            let number = |end| if let End::Named(descriptor) = end { descriptor.number } else { panic!("no name: {args}") };
            [found.from, found.to].map(|end| end.map(number))
        };
        assert_eq!(numbers("read", r#"3</a, b>, ""..., 5"#), [Some(3), None]);
        assert_eq!(numbers("write", r#"3</a>(deleted), ""..., 5"#), [None, Some(3)]);
        assert_eq!(numbers("sendfile", "4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 3</a>, NULL, 5"), [Some(3), Some(4)]);
        assert_eq!(numbers("splice", "5<pipe:[1]>, NULL, 4</b>, NULL, 65536, 0"), [Some(5), Some(4)]);
        assert_eq!(numbers("vmsplice", "5<pipe:[1]>, [{iov_base=\"\", iov_len=5}], 1, 0"), [None, Some(5)]);
        assert_eq!(numbers("mmap", "NULL, 4096, PROT_READ, MAP_PRIVATE, 3</a>, 0"), [Some(3), None]);
        assert_eq!(numbers("mmap", "NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0"), [None, None]);
        assert_eq!(numbers("fstat", "3</a>, {st_mode=S_IFREG|0644, st_size=5, ...}"), [Some(3), None]);
        assert_eq!(numbers("openat", "3</a>, \"x\", O_RDONLY"), [None, None]);
        let range = "4</b>, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3</a>, src_offset=0, src_length=0, dest_offset=0}";
        assert_eq!(numbers(FICLONERANGE, range), [Some(3), Some(4)]);
    }

    #[test]
    fn a_descriptor_need_not_have_a_name() {
        let found = |name: &str, args: &str| {
            let Ends { from, to } = of(&Split::new(args.as_bytes()), Spec::of(name).fds);
            [from, to].map(|end| end.map(|end| matches!(end, End::Named(_))))
        };
        assert_eq!(found(FICLONE, "4</b>, BTRFS_IOC_CLONE or FICLONE, 3"), [Some(false), Some(true)]);
        assert_eq!(found("sendfile", "4, 0x3, NULL, 5"), [Some(false); 2]);
        assert_eq!(found("read", "-1, 0x7ffe, 5"), [None; 2]);
    }
}
