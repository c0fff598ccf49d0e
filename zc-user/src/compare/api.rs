//! By which kernel API a command moved its bytes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use crate::{
    report::{Api, Report, Share, Unattributed},
    syscall::Call,
    transfer::api_of_call,
};

/// An API that moved less than one part in so many of all known bytes is not worth its name.
const NEGLIGIBLE: u64 = 10;

/// The APIs that did a command's work, the one that moved most first; those of which the bytes are unknown come last. Empty if nothing
/// was moved.
///
/// They are those of the transfers. Bytes that stand in none count too: those of calls that are an API by themselves, and what was only
/// read, or only written.
pub(super) fn apis_of(report: &Report) -> Vec<String> {
    let transfers = || report.processes.iter().flat_map(|process| &process.transfers);
    let mut shares: Vec<(&str, Option<u64>)> = transfers().map(|transfer| (transfer.api.name(), transfer.bytes)).collect();
    let in_transfers: HashSet<&String> = transfers().flat_map(|transfer| transfer.calls_by_syscall.keys()).collect();
    let others = report.totals.syscalls.iter().filter(|call| call.calls > call.errors && !in_transfers.contains(&call.name));
    let operations_are_known = report.processes.iter().any(|process| !process.io_uring.is_empty());
    shares.extend(others.filter_map(|call| match call.name.as_str() {
        "io_uring_enter" => (!operations_are_known).then_some((Api::IoUring.name(), None)),
        "vmsplice" => Some((Api::Vmsplice.name(), call.bytes)),
        name => Some((api_of_call(&Call::native(name.to_owned()))?.name(), call.bytes)),
    }));
    shares.extend(one_sided(report).map(|(name, bytes)| (name, Some(bytes))));
    ranked(&shares)
}

/// The names of the APIs that moved more than little, by the bytes of all their shares.
fn ranked(shares: &[(&str, Option<u64>)]) -> Vec<String> {
    let mut moved: BTreeMap<&str, u64> = BTreeMap::new();
    for &(api, bytes) in shares {
        let sum = moved.entry(api).or_default();
        *sum = sum.saturating_add(bytes.unwrap_or(0));
    }
    let all = moved.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let is_unknown = |name: &str| shares.iter().any(|&(api, bytes)| api == name && bytes.is_none());
    let is_worth_it = |&(api, bytes): &(&str, u64)| is_unknown(api) || (bytes > 0 && bytes >= all / NEGLIGIBLE);
    let mut ranked: Vec<(&str, u64)> = moved.into_iter().filter(is_worth_it).collect();
    ranked.sort_by_key(|&(_, bytes)| Reverse(bytes));
    ranked.into_iter().map(|(api, _)| api.to_owned()).collect()
}

/// What was read, and what was written, without a transfer. Where the files are not known, as many bytes in as out are taken for a loop
/// through user memory.
fn one_sided(report: &Report) -> impl Iterator<Item = (&'static str, u64)> {
    let sum = |side: fn(&Unattributed) -> &Vec<Share>, file_is_known: bool| {
        let shares = report.processes.iter().flat_map(|process| side(&process.unattributed));
        let shares = shares.filter(|share| share.file.is_some() == file_is_known);
        shares.filter_map(|share| share.bytes).fold(0, u64::saturating_add)
    };
    let sides = |file_is_known| (sum(|of| &of.read, file_is_known), sum(|of| &of.written, file_is_known));
    let ((read, written), (from_unknown, to_unknown)) = (sides(true), sides(false));
    // Beside its loop, a program reads its libraries and writes its messages.
    let unknown = if from_unknown / 2 > to_unknown {
        ("read", from_unknown)
    } else if to_unknown / 2 > from_unknown {
        ("write", to_unknown)
    } else {
        (Api::ReadWrite.name(), from_unknown.min(to_unknown))
    };
    [("read", read), ("write", written), unknown].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::sample::report,
        report::{
            Options,
            sample::{
                files::{Scene, copy, map, read, write, written_after, written_from},
                row,
            },
        },
        trace::{FileKind, Row},
    };

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
        assert_eq!(apis(vec![row("ioctl(FICLONE)").called(1)]), ["reflink"]);
        assert_eq!(apis(vec![moved("read", 9), moved("write", 9), row("ioctl(FICLONE)").called(1)]), ["read+write", "reflink"]);
        // One that failed moved nothing.
        assert_eq!(apis(vec![row("ioctl(FICLONE)").failed(libc::EXDEV, 1), moved("sendfile", 9)]), ["sendfile"]);
    }

    const MIB: u64 = 1 << 20;

    /// The APIs of a process with these files.
    fn apis_with_files(rows: impl Fn(&mut Scene) -> Vec<Row>) -> Vec<String> {
        let mut scene = Scene::new();
        let rows = rows(&mut scene);
        scene.process("copier", rows);
        apis_of(&Report::from_trace(&scene.trace, &Options::default()))
    }

    #[test]
    fn where_files_are_known_the_transfers_tell() {
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.file(FileKind::Tcp, "sock"));
            vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]
        });
        assert_eq!(found, ["mmap+write"]);
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![copy("copy_file_range", from, to, 2, MIB)]
        });
        assert_eq!(found, ["copy_file_range"]);
        let found = apis_with_files(|scene| {
            let (from, to) = (scene.regular("in"), scene.regular("out"));
            vec![read("read", from, 257, MIB), written_after("write", from, to, 256, MIB, MIB)]
        });
        assert_eq!(found, ["read+write"]);
    }

    #[test]
    fn what_is_read_and_written_by_chance_is_no_loop() {
        let found = apis_with_files(|scene| {
            let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
            vec![read("read", libc, 1, 832), write("write", stdout, 1, 800)]
        });
        assert_eq!(found, ["read", "write"]);
    }

    #[test]
    fn an_io_uring_whose_operations_nobody_sees() {
        assert_eq!(apis(vec![moved("read", 832), row("io_uring_enter").called(3)]), ["read", "io_uring"]);
    }

    #[test]
    fn nothing_was_moved() {
        assert!(apis(vec![row("mmap").called(3), row("sendfile").failed(libc::EINVAL, 1)]).is_empty());
    }
}
