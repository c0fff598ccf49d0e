//! The data: which library uses which interface when ([`RULES`]), and what an errno means
//! ([`MEANINGS`]).

use super::{Asked, Meaning, Program, Proof, Rule};
use crate::{
    trace::{
        FileKind::{self, Block, Char, Memfd, Pipe, Regular, Tcp, UnixStream},
        Language,
    },
    transfer::Api,
};

/// What Rust's standard library treats as a file.
const FILE: &[FileKind] = &[Regular, Memfd];
const FILE_OR_BLOCK: &[FileKind] = &[Regular, Memfd, Block];
const SOCKET: &[FileKind] = &[Tcp, UnixStream];
const ANY: &[FileKind] = &[];

const RUST_SOURCE: &str = "rust-lang/rust library/std/src/sys/io/kernel_copy/linux.rs, 1.95.0";
/// Since 1.70 it avoids `sendfile` and `splice` where the file could still change; its other
/// choices and sizes are older.
const RUST: Program = Program::Built(Language::Rust, [1, 70]);
/// What it asks for: its buffer, then the pieces for `copy_file_range`, and those for `sendfile`
/// and `splice`.
const RUST_BUFFER: Asked = Asked::Exactly(8 << 10);
const RUST_RANGE: Asked = Asked::Exactly(0x4000_0000);
const RUST_SENDFILE: Asked = Asked::Exactly(0x7fff_f000);

const TOKIO_SOURCE: &str =
    "tokio-rs/tokio tokio/src/io/util/{copy.rs, copy_buf.rs, copy_bidirectional.rs}, 1.48.0";

const GO: Program = Program::Built(Language::Go, [1, 21]);
const GO_FILE_SOURCE: &str = "golang/go src/os/zero_copy_linux.go, go1.26";
const GO_SPLICE_SOURCE: &str = "golang/go src/net/splice_linux.go, go1.26";
const GO_COPY_SOURCE: &str = "golang/go src/io/io.go, go1.26";

const PYTHON: Program = Program::Interpreter("python3");
const PYTHON_SOURCE: &str = "python/cpython Lib/shutil.py, 3.11";

const CP: Program = Program::Named("cp");
const CP_SOURCE: &str = "coreutils/coreutils src/copy.c, 9.1";

/// A rule for any ends. Callers override what is more specific.
const fn rule(
    program: Program,
    api: Api,
    asked: Asked,
    text: &'static str,
    source: &'static str,
) -> Rule {
    let (library, proof) = ("", Proof::Likely);
    Rule {
        program,
        api,
        from: ANY,
        to: ANY,
        only_without_length: false,
        after: &[],
        asked,
        library,
        text,
        proof,
        source,
    }
}

const fn rust(api: Api, asked: Asked, text: &'static str) -> Rule {
    Rule {
        library: "std::io::copy",
        ..rule(RUST, api, asked, text, RUST_SOURCE)
    }
}

const fn go(api: Api, asked: Asked, text: &'static str, source: &'static str) -> Rule {
    Rule {
        library: "io.Copy",
        ..rule(GO, api, asked, text, source)
    }
}

/// The program is `cp` itself.
const fn cp(api: Api, asked: Asked, text: &'static str) -> Rule {
    Rule {
        library: "cp",
        proof: Proof::Sure,
        ..rule(CP, api, asked, text, CP_SOURCE)
    }
}

/// Every rule. The first that applies is taken, so specific rules come before general ones.
pub(super) const RULES: &[Rule] = &[
    Rule {
        library: "tokio::io::copy",
        proof: Proof::OnlyIfShown,
        ..rule(
            RUST,
            Api::ReadWrite,
            Asked::Any,
            "always reads and writes, through a buffer of its own",
            TOKIO_SOURCE,
        )
    },
    Rule {
        from: FILE,
        only_without_length: true,
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "uses its 8 KiB buffer for files of length 0, such as those in procfs",
        )
    },
    Rule {
        from: FILE_OR_BLOCK,
        to: SOCKET,
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "does not use sendfile or splice from a file to a socket",
        )
    },
    Rule {
        from: FILE_OR_BLOCK,
        to: &[Pipe],
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "does not use splice from a file to a pipe",
        )
    },
    Rule {
        from: SOCKET,
        to: &[Regular, Memfd, Block, Char, Tcp, UnixStream],
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "uses splice from a socket only if the destination is a pipe",
        )
    },
    Rule {
        from: &[Char],
        to: &[Regular, Memfd, Block, Char, Tcp, UnixStream],
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "uses its 8 KiB buffer to read from a character device",
        )
    },
    Rule {
        after: &["copy_file_range", "sendfile"],
        proof: Proof::Sure,
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "falls back to its 8 KiB buffer when copy_file_range and sendfile fail",
        )
    },
    Rule {
        after: &["sendfile"],
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "falls back to its 8 KiB buffer when sendfile fails",
        )
    },
    Rule {
        after: &["splice"],
        ..rust(
            Api::ReadWrite,
            RUST_BUFFER,
            "falls back to its 8 KiB buffer when splice fails",
        )
    },
    Rule {
        from: FILE,
        to: FILE,
        library: "std::io::copy or std::fs::copy",
        ..rust(
            Api::CopyFileRange,
            RUST_RANGE,
            "uses copy_file_range between regular files",
        )
    },
    Rule {
        after: &["copy_file_range"],
        proof: Proof::Sure,
        ..rust(
            Api::Sendfile,
            RUST_SENDFILE,
            "falls back to sendfile when copy_file_range fails",
        )
    },
    Rule {
        from: FILE,
        to: &[Char, Block],
        ..rust(
            Api::Sendfile,
            RUST_SENDFILE,
            "uses sendfile from a file to a device",
        )
    },
    Rule {
        from: &[Block],
        to: &[Regular, Memfd, Char, Block],
        ..rust(
            Api::Sendfile,
            RUST_SENDFILE,
            "uses sendfile from a block device to anything but a pipe or a socket",
        )
    },
    Rule {
        from: &[Pipe],
        ..rust(Api::Splice, RUST_SENDFILE, "uses splice from a pipe")
    },
    Rule {
        from: SOCKET,
        to: &[Pipe],
        ..rust(
            Api::Splice,
            RUST_SENDFILE,
            "uses splice from a socket into a pipe",
        )
    },
    Rule {
        from: FILE,
        to: FILE,
        ..go(
            Api::CopyFileRange,
            Asked::Exactly(0x7fff_f000),
            "uses copy_file_range from one os.File to another",
            GO_FILE_SOURCE,
        )
    },
    Rule {
        from: FILE,
        to: SOCKET,
        ..go(
            Api::Sendfile,
            Asked::Any,
            "uses sendfile from an os.File to a TCP or Unix connection",
            GO_FILE_SOURCE,
        )
    },
    Rule {
        from: SOCKET,
        ..go(
            Api::Splice,
            Asked::Any,
            "uses splice, through a pipe of its own, from a TCP or Unix connection",
            GO_SPLICE_SOURCE,
        )
    },
    go(
        Api::ReadWrite,
        Asked::Exactly(32 << 10),
        "uses its 32 KiB buffer when neither side has a faster way",
        GO_COPY_SOURCE,
    ),
    Rule {
        from: FILE,
        to: FILE,
        library: "shutil.copyfile",
        ..rule(
            PYTHON,
            Api::Sendfile,
            Asked::LengthOrAtLeast(8 << 20),
            "asks sendfile for the whole file at once, or for 8 MiB if the file is smaller",
            PYTHON_SOURCE,
        )
    },
    Rule {
        after: &["copy_file_range"],
        ..cp(
            Api::ReadWrite,
            Asked::Any,
            "falls back to reads and writes of at least 128 KiB",
        )
    },
    // cp copies each extent of a source with holes, so its requests may have any size.
    Rule {
        from: &[Regular],
        to: &[Regular],
        after: &["ioctl(FICLONE)"],
        ..cp(
            Api::ReadWrite,
            Asked::Any,
            "reads and writes if the source has holes, or with --sparse=always",
        )
    },
    Rule {
        from: &[Regular],
        to: &[Regular],
        ..cp(
            Api::ReadWrite,
            Asked::Exactly(128 << 10),
            "reads and writes with --reflink=never, and always before coreutils 9.0",
        )
    },
    cp(
        Api::Reflink,
        Asked::Any,
        "shares blocks if the filesystem can",
    ),
    Rule {
        after: &["ioctl(FICLONE)"],
        ..cp(
            Api::CopyFileRange,
            Asked::Any,
            "uses copy_file_range if the files cannot share blocks",
        )
    },
];

const fn meaning(
    syscall: &'static str,
    errno: &'static str,
    text: &'static str,
    source: &'static str,
) -> Meaning {
    Meaning {
        syscall,
        errno,
        text,
        source,
    }
}

const COPY_FILE_RANGE_2: &str =
    "man-pages 6.03 copy_file_range(2), ERRORS; Linux 6.12 fs/read_write.c";
const SENDFILE_2: &str = "man-pages 6.03 sendfile(2), ERRORS; Linux 6.12 fs/splice.c";
const SPLICE_2: &str = "man-pages 6.03 splice(2), ERRORS; Linux 6.12 fs/splice.c";
const FICLONE_2: &str = "man-pages 6.03 ioctl_ficlonerange(2), ERRORS; Linux 6.12 fs/remap_range.c";

/// What errnos mean, by call.
pub(super) const MEANINGS: &[Meaning] = &[
    meaning(
        "copy_file_range",
        "EXDEV",
        "copy_file_range does not work between these two filesystems",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "EBADF",
        "copy_file_range refuses a destination opened with O_APPEND or without write access",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "EINVAL",
        "copy_file_range works only on regular files, and not on overlapping ranges",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "EOPNOTSUPP",
        "the filesystem does not support copy_file_range",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "ENOSYS",
        "a sandbox denies copy_file_range, or the kernel is older than Linux 4.5",
        "man-pages 6.03 copy_file_range(2), VERSIONS; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning(
        "copy_file_range",
        "EPERM",
        "the destination is immutable, or a sandbox denies copy_file_range",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "ETXTBSY",
        "copy_file_range cannot copy a file in use as swap",
        COPY_FILE_RANGE_2,
    ),
    meaning(
        "copy_file_range",
        "0 bytes",
        "copy_file_range took the source for empty: it relies on the file's length, which is 0 in special filesystems such as procfs",
        "man-pages 6.03 copy_file_range(2), BUGS; Linux 6.12 fs/read_write.c",
    ),
    meaning(
        "sendfile",
        "EINVAL",
        "sendfile needs a source that can be mapped, and a destination opened without O_APPEND",
        SENDFILE_2,
    ),
    meaning(
        "sendfile",
        "ENOSYS",
        "a sandbox denies sendfile, or the kernel does not have it",
        "man-pages 6.03 sendfile(2), NOTES; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning(
        "sendfile",
        "EBADF",
        "sendfile needs a source open for reading and a destination open for writing",
        SENDFILE_2,
    ),
    meaning(
        "splice",
        "EINVAL",
        "splice needs a pipe at one end, and at the other a file that supports it and was opened without O_APPEND",
        SPLICE_2,
    ),
    meaning(
        "splice",
        "EBADF",
        "splice needs a source open for reading and a destination open for writing",
        SPLICE_2,
    ),
    meaning(
        "splice",
        "ENOSYS",
        "a sandbox denies splice, or the kernel does not have it",
        "man-pages 6.03 splice(2), VERSIONS; seccomp(2), SECCOMP_RET_ERRNO",
    ),
    meaning(
        "ioctl(FICLONE)",
        "EOPNOTSUPP",
        "the filesystem cannot share blocks between files",
        FICLONE_2,
    ),
    meaning(
        "ioctl(FICLONE)",
        "ENOTTY",
        "the filesystem cannot share blocks between files",
        FICLONE_2,
    ),
    meaning(
        "ioctl(FICLONE)",
        "EXDEV",
        "only files of one filesystem can share blocks",
        FICLONE_2,
    ),
    meaning(
        "ioctl(FICLONE)",
        "EINVAL",
        "these two files cannot share blocks: they are not regular files, or the ranges are not aligned to blocks",
        FICLONE_2,
    ),
    meaning(
        "ioctl(FICLONE)",
        "EPERM",
        "the destination is immutable",
        FICLONE_2,
    ),
    meaning(
        "ioctl(FICLONE)",
        "ETXTBSY",
        "a file in use as swap cannot share its blocks",
        FICLONE_2,
    ),
];
