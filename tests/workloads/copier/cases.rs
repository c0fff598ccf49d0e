//! The ways to copy.

use std::{error::Error, fmt};

use anyhow::Result;

use crate::{arguments::CopyArguments, job::Job};
use crate::{interfaces, library_copies};

/// One way to copy.
pub(crate) struct Case {
    name: &'static str,
    /// The case of copier-c that makes the same calls. `None` if C has no such interface, and for
    /// `io_uring`, which in C would take liburing or a lot of code.
    twin: Option<&'static str>,
    about: &'static str,
    options: Options,
    pub(crate) run: fn(&mut Job) -> Result<u64>,
}

/// The options that a case takes, besides those that all cases take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Options {
    /// --append, --size and --buffer.
    Buffer,
    /// --append and --size.
    Size,
    /// --append, --size and --wrap.
    Wrap,
    /// None of these.
    None,
}

/// Every case; this table is also `--list`.
const CASES: &[Case] = &[
    Case {
        name: "read-write",
        twin: Some("read-write"),
        about: "std's Read and Write over one buffer on the heap [8 KiB]",
        options: Options::Buffer,
        run: interfaces::read_write,
    },
    Case {
        name: "std-io-copy",
        twin: None,
        about: "std::io::copy",
        options: Options::Wrap,
        run: library_copies::io_copy,
    },
    Case {
        name: "std-buffered-copy",
        twin: None,
        about: "std::io::copy from a BufReader that has 5 bytes to a BufWriter that has 4, then 5 more; file to file",
        options: Options::None,
        run: library_copies::std_buffered_copy,
    },
    Case {
        name: "std-fs-copy",
        twin: None,
        about: "std::fs::copy, path to path",
        options: Options::None,
        run: library_copies::fs_copy,
    },
    Case {
        name: "libc-sendfile64",
        twin: Some("sendfile"),
        about: "libc::sendfile64 [as much as a call takes]",
        options: Options::Buffer,
        run: interfaces::libc_sendfile64,
    },
    Case {
        name: "nix-sendfile64",
        twin: Some("sendfile"),
        about: "nix::sys::sendfile::sendfile64 [as much as a call takes]",
        options: Options::Buffer,
        run: interfaces::nix_sendfile64,
    },
    Case {
        name: "splice-pipe",
        twin: Some("splice-pipe"),
        about: "splice into a pipe and out of it [64 KiB; more widens the pipe]",
        options: Options::Buffer,
        run: interfaces::splice_pipe,
    },
    Case {
        name: "copy-file-range",
        twin: Some("copy-file-range"),
        about: "copy_file_range [as much as a call takes]",
        options: Options::Buffer,
        run: interfaces::copy_file_range,
    },
    Case {
        name: "mmap-write",
        twin: Some("mmap-write"),
        about: "the source mapped whole, std's Write from the mapping [all at once]",
        options: Options::Buffer,
        run: interfaces::mmap_write,
    },
    Case {
        name: "vmsplice",
        twin: Some("vmsplice"),
        about: "the source mapped whole, vmsplice into a pipe, splice out of it [64 KiB]",
        options: Options::Buffer,
        run: interfaces::vmsplice,
    },
    Case {
        name: "tokio-io-copy",
        twin: None,
        about: "tokio::io::copy on a current-thread runtime",
        options: Options::Size,
        run: library_copies::tokio_io_copy,
    },
    Case {
        name: "io-uring",
        twin: None,
        about: "io_uring's read and write over one buffer on the heap, one at a time [64 KiB]",
        options: Options::Buffer,
        run: interfaces::io_uring,
    },
];

/// An invalid command line.
#[derive(Debug)]
pub(crate) struct Misuse(String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Misuse {}

/// The list of cases, with one line for each.
pub(crate) fn list() -> String {
    let line = |case: &Case| {
        format!(
            "{:<17} {:<15} {}",
            case.name,
            case.twin.unwrap_or("-"),
            case.about
        )
    };
    CASES.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The requested case, if it takes all requested options.
pub(crate) fn find(asked: &CopyArguments) -> Result<&'static Case, Misuse> {
    let case = CASES.iter().find(|case| case.name == asked.case);
    let case =
        case.ok_or_else(|| Misuse(format!("there is no case {:?}; see --list", asked.case)))?;
    let ignored = [
        (
            "--buffer",
            asked.buffer.is_some() && case.options != Options::Buffer,
        ),
        (
            "--size",
            asked.size.is_some() && case.options == Options::None,
        ),
        ("--append", asked.append && case.options == Options::None),
        (
            "--wrap",
            !asked.wrap.is_empty() && case.options != Options::Wrap,
        ),
    ];
    match ignored.iter().find(|(_, is_ignored)| *is_ignored) {
        Some((option, _)) => Err(Misuse(format!("{} has no {option}", case.name))),
        None => Ok(case),
    }
}
