//! What would be cheaper, and its price.

use super::{
    rules::{Case, was_refused},
    verdict,
};
use crate::{
    report::{Api, End},
    trace::FileKind::{self, Block, Char, Memfd, Pipe, Regular, Tcp, UnixStream},
    units::short_bytes,
};

/// Of fewer bytes nothing is to be gained.
const LEAST_BYTES: u64 = 1 << 20;
/// Calls that move less than this spend most of their time on the way into the kernel and back.
const SMALL_CALL_BYTES: u64 = 32 << 10;
/// What is recommended instead.
const LARGE_CALL_BYTES: u64 = 128 << 10;

/// An interface that would do with fewer copies.
#[derive(Debug)]
struct Cheaper {
    from: &'static [FileKind],
    to: &'static [FileKind],
    syscall: &'static str,
    gain: &'static str,
    price: &'static str,
}

/// What can replace a loop through user memory. All of it holds only for a program that does not look at the bytes itself.
///
/// Source: the manual pages `sendfile(2)`, `splice(2)`, `copy_file_range(2)`; for what may change later, `safe_kernel_copy` in rust-lang/rust
/// `library/std/src/sys/io/kernel_copy/linux.rs`.
const CHEAPER: &[Cheaper] = &[
    Cheaper {
        from: &[Regular, Memfd, Block],
        to: &[Tcp, UnixStream],
        syscall: "sendfile",
        gain: "sendfile would copy nothing through user memory",
        price: "later changes of the file may show in data already sent",
    },
    Cheaper {
        from: &[Regular, Memfd, Block],
        to: &[Pipe],
        syscall: "splice",
        gain: "splice would copy nothing through user memory",
        price: "later changes of the file may show in what is not yet read from the pipe",
    },
    Cheaper {
        from: &[Regular],
        to: &[Regular],
        syscall: "copy_file_range",
        gain: "copy_file_range would copy within the kernel, or share blocks",
        price: "it works between regular files of some filesystems only, so it needs this loop as its fallback",
    },
    Cheaper {
        from: &[Regular, Memfd, Block],
        to: &[Regular, Memfd, Block, Char],
        syscall: "sendfile",
        gain: "sendfile would copy within the kernel",
        price: "it does not work where the destination was opened with O_APPEND",
    },
    Cheaper {
        from: &[Pipe],
        to: &[Regular, Memfd, Block, Char, Pipe, Tcp, UnixStream],
        syscall: "splice",
        gain: "splice would copy nothing through user memory",
        price: "it does not work where the destination was opened with O_APPEND",
    },
    Cheaper {
        from: &[Tcp, UnixStream],
        to: &[Pipe],
        syscall: "splice",
        gain: "splice would copy nothing through user memory",
        price: "none, as long as the program does not look at the bytes",
    },
    Cheaper {
        from: &[Tcp],
        to: &[Tcp, UnixStream, Regular],
        syscall: "splice",
        gain: "splice through a pipe would copy nothing through user memory",
        price: "two calls for each piece, and a pipe for each pair of connections",
    },
];

/// A hint, if there is anything to gain.
pub(super) fn hint(case: &Case<'_>) -> Option<String> {
    let bytes = case.bytes.filter(|&bytes| bytes >= LEAST_BYTES)?;
    cheaper(case).or_else(|| larger(bytes, case))
}

fn cheaper(case: &Case<'_>) -> Option<String> {
    let is = |kinds: &[FileKind], end: &End| kinds.iter().any(|kind| end.kind.as_deref() == Some(kind.name()));
    let found = CHEAPER.iter().find(|cheaper| {
        is(cheaper.from, case.from) && is(cheaper.to, case.to) && !was_refused(&case.facts.attempts, cheaper.syscall)
    });
    // What adds bytes of its own, or finds a length of 0 (procfs), needs user memory.
    let only_copies = case.facts.other_bytes == 0 && case.from.size != Some(0);
    let is_loop = matches!(case.api, Api::ReadWrite | Api::MmapWrite);
    found.filter(|_| is_loop && only_copies).map(|cheaper| format!("{}; price: {}", cheaper.gain, cheaper.price))
}

/// Fewer calls, if they are small.
fn larger(bytes: u64, case: &Case<'_>) -> Option<String> {
    let calls = case.facts.moving_calls;
    let mean = bytes.checked_div(calls)?;
    let few = bytes.div_ceil(LARGE_CALL_BYTES);
    (mean < SMALL_CALL_BYTES).then(|| {
        let name = verdict::name(case.api);
        let at_once = short_bytes(LARGE_CALL_BYTES);
        format!("{few} calls of {name} instead of {calls}, with {at_once} at a time; price: the memory for it")
    })
}
