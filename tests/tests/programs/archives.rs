//! GNU `tar` and `rsync`.

use zctrace::report::Api;

use super::{BYTES, assert_copied, directory};
use crate::harness::{Transfers as _, program, shell, zctrace};

#[test]
fn tar_writes_blocks_of_which_all_but_headers_come_from_the_file() {
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&program("tar").args(&["cf", "archive", "in"]));
    let transfer = run.report.transfer("in", "archive");
    assert_eq!((transfer.api, transfer.bytes), (Api::ReadWrite, Some(BYTES)));
}

#[test]
fn tar_extracts_what_it_reads_but_headers() {
    let directory = directory();
    let script = "tar cf archive in && mkdir x && exec \"$@\"";
    let run = zctrace()
        .dir(directory.path())
        .through(&["sh", "-c", script, "sh"])
        .run(&program("tar").args(&["xf", "archive", "-C", "x"]));
    assert_copied(&directory, "x/in");
    let transfer = run.report.transfer("archive", "in");
    assert_eq!(transfer.api, Api::ReadWrite);
    assert!(transfer.bytes <= Some(BYTES) && transfer.bytes > Some(BYTES / 10 * 9), "{transfer:?}");
}

#[test]
fn rsync_talks_while_it_copies_so_its_bytes_are_shown_without_a_transfer() {
    let directory = directory();
    let run = zctrace().option("--wait-all").dir(directory.path()).run(&shell("exec rsync --whole-file in out"));
    assert_copied(&directory, "out");
    // Between a read of the file and the write that follows it reads what the others say: no pair of calls belongs together.
    assert!(run.report.processes.iter().all(|process| process.transfers.is_empty()), "nothing is made up");
    let read = (run.report.processes.iter().flat_map(|process| &process.unattributed.read))
        .find(|share| share.file.as_ref().is_some_and(|file| file.path.as_deref() == Some("in")));
    assert_eq!(read.and_then(|share| share.bytes), Some(BYTES));
}
