//! GNU coreutils: `cp`, `cat`, `dd`.

use std::fs;

use zctrace::report::Api;

use super::{BYTES, assert_copied, directory};
use crate::harness::{Transfers as _, program, shell, zctrace};

#[test]
fn cp_tries_a_reflink_and_takes_copy_file_range() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&program("cp").args(&["in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::CopyFileRange, Some(BYTES)));
    let attempts: Vec<_> = transfer.attempts.iter().map(|attempt| (attempt.syscall.as_str(), attempt.errno.as_str())).collect();
    assert_eq!(attempts, [("ioctl(FICLONE)", "EOPNOTSUPP")]);
    assert!(transfer.reason.as_ref().is_some_and(|reason| reason.source.contains("coreutils")), "{:?}", transfer.reason);
    assert_eq!(transfer.user_memory_bytes, Some(0));
}

#[test]
fn cp_reflinks_on_btrfs() {
    let directory = directory();
    // In a mount namespace of its own: the filesystem ends with the command.
    let script = "truncate -s 256M image && mkfs.btrfs -q image && mkdir mnt && mount -o loop image mnt && cp in mnt/in && cd mnt && exec \"$@\"";
    let zctrace = zctrace().dir(directory.path()).through(&["unshare", "--mount", "sh", "-c", script, "sh"]);
    let run = zctrace.run(&program("cp").args(&["in", "out"]));
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.from.fs.as_deref()), (Api::Reflink, Some("btrfs")));
    assert_eq!(transfer.attempts, []);
}

#[test]
fn cp_without_reflinks_reads_and_writes() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&program("cp").args(&["--reflink=never", "in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::ReadWrite, Some(BYTES)));
    assert_eq!(transfer.user_memory_bytes, Some(2 * BYTES));
    assert!(transfer.verdict.contains(": cp reads and writes with --reflink=never, "), "{}", transfer.verdict);
}

#[test]
fn cp_reads_and_writes_what_has_holes() {
    let directory = directory();
    let file = fs::File::options().write(true).open(directory.path().join("in"));
    file.and_then(|file| file.set_len(1 << 20)).expect("a file with a hole at its end");
    let run = zctrace().dir(directory.path()).run(&program("cp").args(&["in", "out"]));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(transfer.api, Api::ReadWrite, "{}", transfer.verdict);
    assert!(transfer.verdict.contains(": cp reads and writes where the source has holes, or "), "{}", transfer.verdict);
}

#[test]
fn cat_to_a_file_takes_copy_file_range() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&shell("exec cat in > out"));
    assert_copied(&directory, "out");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::CopyFileRange, Some(BYTES)));
}

#[test]
fn a_pipeline_is_one_transfer_across_processes() {
    let directory = directory();
    let run =
        zctrace().option("--wait-all").dir(directory.path()).run(&shell("cat in | dd of=out bs=64k iflag=fullblock status=none"));
    assert_copied(&directory, "out");
    for (from, to) in [("in", "pipe"), ("pipe", "out")] {
        let transfer = run.report.transfer(from, to);
        assert_eq!((transfer.api, transfer.bytes), (Api::ReadWrite, Some(BYTES)), "{from} -> {to}");
    }
    let crossing = run.report.crossing("in", "out");
    assert_eq!((crossing.bytes, crossing.pids.len()), (Some(BYTES), 2));
}

#[test]
fn dd_reads_and_writes_its_blocks_and_its_last_words_are_no_transfer() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&program("dd").args(&["if=in", "of=out", "bs=64k"]));
    assert_copied(&directory, "out");
    let transfers = &run.root().transfers;
    assert_eq!(transfers.len(), 1, "{transfers:?}");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.api, transfer.bytes), (Api::ReadWrite, Some(BYTES)));
    assert_eq!((transfer.calls_by_syscall["read"], transfer.calls_by_syscall["write"]), (6, 5));
}
