//! The rules.

use super::{Asked, Program, Proof, Rule};
use crate::{
    trace::{
        FileKind::{self, Block, Char, Memfd, Pipe, Regular, Tcp, UnixStream},
        Language,
    },
    transfer::Api,
};

/// What Rust's standard library calls a file.
const FILE: &[FileKind] = &[Regular, Memfd];
const FILE_OR_BLOCK: &[FileKind] = &[Regular, Memfd, Block];
const SOCKET: &[FileKind] = &[Tcp, UnixStream];
const ANY: &[FileKind] = &[];

const RUST_SOURCE: &str = "rust-lang/rust library/std/src/sys/io/kernel_copy/linux.rs, 1.95.0";
/// The rule against what could still change has been there since 1.70, the other sizes and ways for longer.
const RUST: Program = Program::Built(Language::Rust, [1, 70]);
/// Its buffer, its pieces for `copy_file_range`, and those for `sendfile` and `splice`.
const RUST_BUFFER: Asked = Asked::Exactly(8 << 10);
const RUST_RANGE: Asked = Asked::Exactly(0x4000_0000);
const RUST_SENDFILE: Asked = Asked::Exactly(0x7fff_f000);

const GO: Program = Program::Built(Language::Go, [1, 21]);
const GO_FILE_SOURCE: &str = "golang/go src/os/zero_copy_linux.go, go1.26";
const GO_SPLICE_SOURCE: &str = "golang/go src/net/splice_linux.go, go1.26";
const GO_COPY_SOURCE: &str = "golang/go src/io/io.go, go1.26";

const PYTHON: Program = Program::Interpreter("python3");
const PYTHON_SOURCE: &str = "python/cpython Lib/shutil.py, 3.11";

const CP: Program = Program::Named("cp");
const CP_SOURCE: &str = "coreutils/coreutils src/copy.c, 9.1";

/// A rule that holds between any ends; what is more special is set on top of it.
const fn rule(program: Program, api: Api, asked: Asked, text: &'static str, source: &'static str) -> Rule {
    let (library, proof) = ("", Proof::Alike);
    Rule { program, api, from: ANY, to: ANY, only_without_length: false, after: &[], asked, library, text, proof, source }
}

const fn rust(api: Api, asked: Asked, text: &'static str) -> Rule {
    Rule { library: "std::io::copy", ..rule(RUST, api, asked, text, RUST_SOURCE) }
}

const fn go(api: Api, asked: Asked, text: &'static str, source: &'static str) -> Rule {
    Rule { library: "io.Copy", ..rule(GO, api, asked, text, source) }
}

/// The program is `cp` itself.
const fn cp(api: Api, asked: Asked, text: &'static str) -> Rule {
    Rule { library: "cp", proof: Proof::Sure, ..rule(CP, api, asked, text, CP_SOURCE) }
}

/// Every rule. The first that applies is taken: what is more special stands first.
pub(super) const RULES: &[Rule] = &[
    Rule {
        from: FILE,
        only_without_length: true,
        ..rust(Api::ReadWrite, RUST_BUFFER, "uses its 8 KiB buffer for files of length 0, such as those in procfs")
    },
    Rule {
        from: FILE_OR_BLOCK,
        to: SOCKET,
        ..rust(Api::ReadWrite, RUST_BUFFER, "does not use sendfile or splice from a file to a socket")
    },
    Rule { from: FILE_OR_BLOCK, to: &[Pipe], ..rust(Api::ReadWrite, RUST_BUFFER, "does not use splice from a file to a pipe") },
    Rule {
        from: SOCKET,
        to: &[Regular, Memfd, Block, Char, Tcp, UnixStream],
        ..rust(Api::ReadWrite, RUST_BUFFER, "uses splice from a socket only if the destination is a pipe")
    },
    Rule {
        from: &[Char],
        to: &[Regular, Memfd, Block, Char, Tcp, UnixStream],
        ..rust(Api::ReadWrite, RUST_BUFFER, "uses its 8 KiB buffer to read from a character device")
    },
    Rule {
        after: &["copy_file_range", "sendfile"],
        proof: Proof::Sure,
        ..rust(Api::ReadWrite, RUST_BUFFER, "falls back to its 8 KiB buffer when copy_file_range and sendfile fail")
    },
    Rule { after: &["sendfile"], ..rust(Api::ReadWrite, RUST_BUFFER, "falls back to its 8 KiB buffer when sendfile fails") },
    Rule { after: &["splice"], ..rust(Api::ReadWrite, RUST_BUFFER, "falls back to its 8 KiB buffer when splice fails") },
    Rule {
        from: FILE,
        to: FILE,
        library: "std::io::copy or std::fs::copy",
        ..rust(Api::CopyFileRange, RUST_RANGE, "uses copy_file_range between regular files")
    },
    Rule {
        after: &["copy_file_range"],
        proof: Proof::Sure,
        ..rust(Api::Sendfile, RUST_SENDFILE, "falls back to sendfile when copy_file_range fails")
    },
    Rule { from: FILE, to: &[Char, Block], ..rust(Api::Sendfile, RUST_SENDFILE, "uses sendfile from a file to a device") },
    Rule {
        from: &[Block],
        to: &[Regular, Memfd, Char, Block],
        ..rust(Api::Sendfile, RUST_SENDFILE, "uses sendfile from a block device to anything but a pipe or a socket")
    },
    Rule { from: &[Pipe], ..rust(Api::Splice, RUST_SENDFILE, "uses splice from a pipe") },
    Rule { from: SOCKET, to: &[Pipe], ..rust(Api::Splice, RUST_SENDFILE, "uses splice from a socket into a pipe") },
    Rule {
        from: FILE,
        to: FILE,
        ..go(Api::CopyFileRange, Asked::Exactly(0x7fff_f000), "uses copy_file_range from one os.File to another", GO_FILE_SOURCE)
    },
    Rule {
        from: FILE,
        to: SOCKET,
        ..go(Api::Sendfile, Asked::Any, "uses sendfile from an os.File to a TCP or Unix connection", GO_FILE_SOURCE)
    },
    Rule {
        from: SOCKET,
        ..go(Api::Splice, Asked::Any, "uses splice, through a pipe of its own, from a TCP or Unix connection", GO_SPLICE_SOURCE)
    },
    go(Api::ReadWrite, Asked::Exactly(32 << 10), "uses its 32 KiB buffer when neither side has a faster way", GO_COPY_SOURCE),
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
    Rule { after: &["copy_file_range"], ..cp(Api::ReadWrite, Asked::Any, "falls back to reads and writes of at least 128 KiB") },
    // The extents of a source with holes are of any length, and so is what is asked for.
    Rule {
        from: &[Regular],
        to: &[Regular],
        after: &["ioctl(FICLONE)"],
        ..cp(Api::ReadWrite, Asked::Any, "reads and writes if the source has holes, or with --sparse=always")
    },
    Rule {
        from: &[Regular],
        to: &[Regular],
        ..cp(Api::ReadWrite, Asked::Exactly(128 << 10), "reads and writes with --reflink=never, and always before coreutils 9.0")
    },
    cp(Api::Reflink, Asked::Any, "shares blocks if the filesystem can"),
    Rule {
        after: &["ioctl(FICLONE)"],
        ..cp(Api::CopyFileRange, Asked::Any, "uses copy_file_range if the files cannot share blocks")
    },
];
