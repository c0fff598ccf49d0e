//! Which interface works between which ends. This is the only place that says so.

/// A source, or a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A regular file.
    File,
    /// A regular file that is appended to.
    Appended,
    /// A file in memory.
    Memory,
    /// A block device.
    Block,
    /// A pipe that another process of the copier feeds or drains.
    Pipe,
    /// A socket of the Unix family.
    Unix,
    /// A TCP socket.
    Tcp,
    /// `-`, which is a regular file.
    StandardFile,
    /// `-`, which is a pipe.
    StandardPipe,
    /// `/dev/null`.
    Null,
}

use End::{Appended, Block, File, Memory, Null, Pipe, StandardFile, StandardPipe, Tcp, Unix};

/// What can be read from.
pub const SOURCES: &[End] = &[File, Memory, Block, Pipe, Unix, Tcp, StandardFile, StandardPipe];

/// What can be written to. (Every test has its stdout in a file.)
pub const DESTINATIONS: &[End] = &[File, Appended, Memory, Block, Pipe, Unix, Tcp, StandardFile, Null];

impl End {
    /// Whether it has positions, and pages that can be mapped.
    fn has_pages(self) -> bool {
        matches!(self, File | Appended | Memory | Block | StandardFile)
    }

    /// Whether it is a regular file.
    fn is_regular(self) -> bool {
        self.has_pages() && self != Block
    }

    fn is_socket(self) -> bool {
        matches!(self, Unix | Tcp)
    }

    fn is_named_file(self) -> bool {
        matches!(self, File | Block | Null)
    }
}

/// Whether the case has --append.
pub fn has_append(case: &str) -> bool {
    !["std-fs-copy", "std-buffered-copy"].contains(&case)
}

/// What the copier says if the case cannot do it; `None` if it can.
pub fn refusal(case: &str, from: End, to: End) -> Option<&'static str> {
    match case {
        "std-fs-copy" if !from.is_named_file() || !to.is_named_file() => Some("from a path to a path"),
        "std-fs-copy" => (from != File).then_some("neither a regular file nor a symlink"),
        "std-buffered-copy" if !from.has_pages() && from != StandardPipe => Some("from file to file"),
        "std-buffered-copy" => (to.is_socket() || to == Pipe).then_some("from file to file"),
        "mmap-write" | "mmap-send" | "vmsplice" if !from.has_pages() => Some("ESPIPE"),
        "read-send" | "mmap-send" => (!to.is_socket()).then_some("ENOTSOCK"),
        // What has no pages cannot be sent by sendfile, unless from a socket to a pipe; and neither that nor splice appends.
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" if from.is_socket() && to == Pipe => None,
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" if !from.has_pages() => Some("EINVAL"),
        "libc-sendfile64" | "nix-sendfile64" | "sendfile" | "splice-pipe" | "vmsplice" | "fast-cat" => {
            (to == Appended).then_some("EINVAL")
        }
        "copy-file-range" => copy_file_range_refusal(from, to),
        _ => None,
    }
}

/// `generic_copy_file_checks`, in its order, and then that both must be of one file system.
fn copy_file_range_refusal(from: End, to: End) -> Option<&'static str> {
    match (from.is_regular(), to.is_regular()) {
        (true, true) if to == Appended => Some("EBADF"),
        (true, true) if (from == Memory) != (to == Memory) => Some("EXDEV"),
        (true, true) => None,
        (..) => Some("EINVAL"),
    }
}
