//! The ways to copy. Those that are the same calls in every language are cases of `copier-c`.

use anyhow::{Context as _, Result};

use crate::{interfaces, job::CopyJob, library_copies};

/// One way to copy: its name, what it does, and the function, which returns how many bytes it
/// copied.
type CopyCase = (&'static str, &'static str, CopyFunction);

/// Copies what a job asks for.
pub(crate) type CopyFunction = fn(&mut CopyJob) -> Result<u64>;

/// Every case; this table is also `--list`.
const CASES: &[CopyCase] = &[
    (
        "read-write",
        "std's Read and Write over one buffer on the heap [8 KiB]",
        interfaces::read_write,
    ),
    ("std-io-copy", "std::io::copy", library_copies::io_copy),
    (
        "std-buffered-copy",
        "std::io::copy from a BufReader that has 5 bytes to a BufWriter that has 4, then 5 more; file to file",
        library_copies::std_buffered_copy,
    ),
    (
        "std-fs-copy",
        "std::fs::copy, path to path",
        library_copies::fs_copy,
    ),
    (
        "libc-sendfile64",
        "libc::sendfile64 [as much as a call takes]",
        interfaces::libc_sendfile64,
    ),
    (
        "nix-sendfile64",
        "nix::sys::sendfile::sendfile64 [as much as a call takes]",
        interfaces::nix_sendfile64,
    ),
    (
        "tokio-io-copy",
        "tokio::io::copy from a file, on a current-thread runtime",
        library_copies::tokio_io_copy,
    ),
    (
        "io-uring",
        "io_uring's read and write over one buffer on the heap, one at a time [64 KiB]",
        interfaces::io_uring,
    ),
];

/// The list of cases, with one line for each.
pub(crate) fn list() -> String {
    let line = |(name, about, _): &CopyCase| format!("{name:<17} {about}");
    CASES.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The case with this name.
pub(crate) fn find(name: &str) -> Result<CopyFunction> {
    let case = CASES.iter().find(|(case, ..)| *case == name);
    let (.., run) = case.with_context(|| format!("there is no case {name:?}; see --list"))?;
    Ok(*run)
}
