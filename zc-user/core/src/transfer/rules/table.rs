//! The data: which library uses which interface when.

use super::{Asked, Proof, Rule, RuleProgram};
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
const FILE_OR_DEVICE: &[FileKind] = &[Regular, Memfd, Char, Block];
const SOCKET: &[FileKind] = &[Tcp, UnixStream];
const NO_PIPE: &[FileKind] = &[Regular, Memfd, Block, Char, Tcp, UnixStream];
const ANY: &[FileKind] = &[];

const RUST_SOURCE: &str = "rust-lang/rust library/std/src/sys/io/kernel_copy/linux.rs, 1.95.0";
/// Since 1.70 it avoids `sendfile` and `splice` where the file could still change; its other
/// choices and sizes are older.
const RUST: RuleProgram = RuleProgram::Built(Language::Rust, [1, 70]);
/// What it asks for: its buffer, then the pieces for `copy_file_range`, and those for `sendfile`
/// and `splice`.
const RUST_BUFFER: Asked = Asked::Exactly(8 << 10);
const RUST_RANGE: Asked = Asked::Exactly(0x4000_0000);
const RUST_SENDFILE: Asked = Asked::Exactly(0x7fff_f000);

const TOKIO_SOURCE: &str =
    "tokio-rs/tokio tokio/src/io/util/{copy.rs, copy_buf.rs, copy_bidirectional.rs}, 1.48.0";

const GO: RuleProgram = RuleProgram::Built(Language::Go, [1, 21]);
const GO_FILE_SOURCE: &str = "golang/go src/os/zero_copy_linux.go, go1.26";
const GO_SPLICE_SOURCE: &str = "golang/go src/net/splice_linux.go, go1.26";
const GO_COPY_SOURCE: &str = "golang/go src/io/io.go, go1.26";

const PYTHON: RuleProgram = RuleProgram::Interpreter("python3");
const PYTHON_SOURCE: &str = "python/cpython Lib/shutil.py, 3.11";

/// The programs that copy files with the same code of coreutils.
const COPYING: RuleProgram = RuleProgram::Named(&["cp", "mv", "install"]);
const CP: RuleProgram = RuleProgram::Named(&["cp"]);
const CP_SOURCE: &str = "coreutils/coreutils src/copy.c, 9.1";

/// A rule for any ends.
const fn rule(
    program: RuleProgram,
    api: Api,
    asked: Asked,
    text: &'static str,
    source: &'static str,
) -> Rule {
    Rule {
        program,
        api,
        from: ANY,
        to: ANY,
        after: &[],
        asked,
        library: "",
        text,
        proof: Proof::Likely,
        source,
    }
}

const fn rust(api: Api, asked: Asked, text: &'static str) -> Rule {
    rule(RUST, api, asked, text, RUST_SOURCE).by("std::io::copy")
}

const fn rust_loop(text: &'static str) -> Rule {
    rust(Api::ReadWrite, RUST_BUFFER, text)
}

const fn rust_sendfile(text: &'static str) -> Rule {
    rust(Api::Sendfile, RUST_SENDFILE, text)
}

const fn go(api: Api, asked: Asked, text: &'static str, source: &'static str) -> Rule {
    rule(GO, api, asked, text, source).by("io.Copy")
}

/// The rule is about the program itself, whatever its name.
const fn copying(program: RuleProgram, api: Api, text: &'static str) -> Rule {
    rule(program, api, Asked::Any, text, CP_SOURCE).proven(Proof::Sure)
}

impl Rule {
    const fn by(self, library: &'static str) -> Self {
        Self { library, ..self }
    }

    const fn proven(self, proof: Proof) -> Self {
        Self { proof, ..self }
    }

    const fn between(self, from: &'static [FileKind], to: &'static [FileKind]) -> Self {
        Self { from, to, ..self }
    }

    const fn after(self, after: &'static [&'static str]) -> Self {
        Self { after, ..self }
    }
}

/// Every rule. The first that applies is taken, so specific rules come before general ones.
pub(super) const RULES: &[Rule] = &[
    rule(
        RUST,
        Api::ReadWrite,
        Asked::Any,
        "always reads and writes, through a buffer of its own",
        TOKIO_SOURCE,
    )
    .by("tokio::io::copy")
    .proven(Proof::OnlyIfShown),
    rust_loop("does not use sendfile or splice from a file to a pipe or a socket")
        .between(FILE_OR_BLOCK, &[Pipe, Tcp, UnixStream]),
    rust_loop("uses splice from a socket only if the destination is a pipe")
        .between(SOCKET, NO_PIPE),
    rust_loop("uses its 8 KiB buffer to read from a character device").between(&[Char], NO_PIPE),
    rust_loop("falls back to its 8 KiB buffer")
        .after(&["copy_file_range", "sendfile"])
        .proven(Proof::Sure),
    rust_loop("falls back to its 8 KiB buffer").after(&["sendfile"]),
    rust_loop("falls back to its 8 KiB buffer").after(&["splice"]),
    rust(
        Api::CopyFileRange,
        RUST_RANGE,
        "uses copy_file_range between regular files",
    )
    .between(FILE, FILE)
    .by("std::io::copy or std::fs::copy"),
    rust_sendfile("falls back to sendfile")
        .after(&["copy_file_range"])
        .proven(Proof::Sure),
    rust_sendfile("uses sendfile from a file to a device").between(FILE, &[Char, Block]),
    rust_sendfile("uses sendfile from a block device").between(&[Block], FILE_OR_DEVICE),
    rust(
        Api::Splice,
        RUST_SENDFILE,
        "uses splice from a pipe, and from a socket into one",
    )
    .between(&[Pipe, Tcp, UnixStream], ANY),
    go(
        Api::CopyFileRange,
        Asked::Exactly(0x7fff_f000),
        "uses copy_file_range from one os.File to another",
        GO_FILE_SOURCE,
    )
    .between(FILE, FILE),
    go(
        Api::Sendfile,
        Asked::Any,
        "uses sendfile from an os.File to a TCP or Unix connection",
        GO_FILE_SOURCE,
    )
    .between(FILE, SOCKET),
    go(
        Api::Splice,
        Asked::Any,
        "uses splice, through a pipe of its own, from a TCP or Unix connection",
        GO_SPLICE_SOURCE,
    )
    .between(SOCKET, ANY),
    go(
        Api::ReadWrite,
        Asked::Exactly(32 << 10),
        "uses its 32 KiB buffer when neither side has a faster way",
        GO_COPY_SOURCE,
    ),
    rule(
        PYTHON,
        Api::Sendfile,
        Asked::LengthOrAtLeast(8 << 20),
        "asks sendfile for the whole file at once, or for 8 MiB if the file is smaller",
        PYTHON_SOURCE,
    )
    .between(FILE, FILE)
    .by("shutil.copyfile"),
    copying(
        COPYING,
        Api::ReadWrite,
        "falls back to reads and writes of at least 128 KiB",
    )
    .after(&["copy_file_range"]),
    // cp then looks for holes and copies each extent, so its requests may have any size.
    copying(
        CP,
        Api::ReadWrite,
        "reads and writes if the source has fewer blocks than its size needs, or with --sparse=always",
    )
    .between(&[Regular], &[Regular])
    .after(&["ioctl(FICLONE)"]),
    Rule {
        asked: Asked::Exactly(128 << 10),
        ..copying(
            CP,
            Api::ReadWrite,
            "reads and writes with --reflink=never, and always before coreutils 9.0",
        )
        .between(&[Regular], &[Regular])
    },
    copying(COPYING, Api::Reflink, "shares blocks if the filesystem can"),
    copying(
        COPYING,
        Api::CopyFileRange,
        "uses copy_file_range if the files cannot share blocks",
    )
    .after(&["ioctl(FICLONE)"]),
];
