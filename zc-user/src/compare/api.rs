//! By which kernel API a command moved its bytes.

use crate::{
    report::{Report, Syscall},
    syscall::{FICLONE, FICLONERANGE},
};

/// Calls that bring bytes into user memory.
const READS: &[&str] = &["read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recv"];
/// Calls that take bytes from user memory.
const WRITES: &[&str] = &["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "send"];
/// Calls that move bytes within the kernel, by API. The last two do not tell how many.
const IN_KERNEL: &[(&str, &[&str])] = &[
    ("sendfile", &["sendfile", "sendfile64"]),
    ("splice", &["splice"]),
    ("tee", &["tee"]),
    ("vmsplice", &["vmsplice"]),
    ("copy_file_range", &["copy_file_range"]),
    ("reflink", &[FICLONE, FICLONERANGE]),
    ("io_uring", &["io_uring_enter"]),
];

/// An API that moved less than one part in so many of all known bytes is not worth its name.
const NEGLIGIBLE: u64 = 10;

/// The APIs that did a command's work, the one that moved most first, as far as its calls alone tell: read from what the calls of all
/// its processes add up to. Those of which the bytes are unknown come last. Empty if nothing was moved.
pub(super) fn apis_of(report: &Report) -> Vec<String> {
    let calls = report.totals.syscalls.as_slice();
    let mut moved: Vec<(&str, u64)> = IN_KERNEL.iter().map(|(api, names)| (*api, bytes(calls, names))).collect();
    moved.push(through_user_memory(calls));
    // Those with as many bytes keep their order.
    moved.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let all: u64 = moved.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let known = moved.iter().filter(|(_, bytes)| *bytes > 0 && *bytes >= all / NEGLIGIBLE).map(|(api, _)| *api);
    let unknown = IN_KERNEL.iter().filter(|(_, names)| moved_unknown(calls, names)).map(|(api, _)| *api);
    known.chain(unknown).map(str::to_owned).collect()
}

/// A loop through user memory reads what it writes; a program that does only one of both is no loop.
fn through_user_memory(calls: &[Syscall]) -> (&'static str, u64) {
    let (read, written) = (bytes(calls, READS), bytes(calls, WRITES));
    // Beside its loop, a program reads its libraries and writes its messages.
    if read / 2 > written {
        ("read", read)
    } else if written / 2 > read {
        ("write", written)
    } else {
        ("read+write", read.min(written))
    }
}

fn bytes(calls: &[Syscall], names: &[&str]) -> u64 {
    of(calls, names).filter_map(|call| call.bytes).fold(0, u64::saturating_add)
}

/// Whether such calls succeeded without telling how much they moved.
fn moved_unknown(calls: &[Syscall], names: &[&str]) -> bool {
    of(calls, names).any(|call| call.bytes.is_none() && call.calls > call.errors)
}

fn of<'a>(calls: &'a [Syscall], names: &'a [&str]) -> impl Iterator<Item = &'a Syscall> {
    calls.iter().filter(|call| names.contains(&call.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::sample::report, report::sample::row, trace::Row};

    fn apis(rows: Vec<Row>) -> Vec<String> {
        apis_of(&report(rows))
    }

    fn moved(name: &'static str, bytes: u64) -> Row {
        row(name).called(10).bytes(bytes)
    }

    #[test]
    fn the_call_that_moved_nearly_all() {
        assert_eq!(apis(vec![moved("read", 832), moved("sendfile", 1 << 20), moved("write", 20)]), ["sendfile"]);
        assert_eq!(apis(vec![moved("pread64", 832), moved("copy_file_range", 1 << 20)]), ["copy_file_range"]);
    }

    #[test]
    fn a_loop_through_user_memory_whatever_its_calls() {
        assert_eq!(apis(vec![moved("read", 1 << 20), moved("sendto", 1 << 20)]), ["read+write"]);
        assert_eq!(apis(vec![moved("recvfrom", 600), moved("readv", 400), moved("write", 1000)]), ["read+write"]);
    }

    #[test]
    fn only_one_half_of_a_loop() {
        assert_eq!(apis(vec![moved("read", 832), moved("write", 1 << 20)]), ["write"]);
        assert_eq!(apis(vec![moved("read", 1 << 20), moved("write", 10)]), ["read"]);
    }

    #[test]
    fn several_that_did_a_tenth_or_more() {
        let rows = vec![moved("read", 300), moved("write", 300), moved("sendfile", 600), moved("splice", 20)];
        assert_eq!(apis(rows), ["sendfile", "read+write"]);
    }

    #[test]
    fn bytes_that_nobody_tells() {
        assert_eq!(apis(vec![row(FICLONE).called(1)]), ["reflink"]);
        assert_eq!(apis(vec![moved("read", 9), moved("write", 9), row("io_uring_enter").called(3)]), ["read+write", "io_uring"]);
        // One that failed moved nothing.
        assert_eq!(apis(vec![row(FICLONE).failed(libc::EXDEV, 1), moved("sendfile", 9)]), ["sendfile"]);
    }

    #[test]
    fn nothing_was_moved() {
        assert!(apis(vec![row("mmap").called(3), row("sendfile").failed(libc::EINVAL, 1)]).is_empty());
    }
}
