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
fn rsync_sends_through_a_socket_even_on_one_machine() {
    let directory = directory();
    let run = zctrace().option("--wait-all").dir(directory.path()).run(&shell("exec rsync --whole-file in out"));
    assert_copied(&directory, "out");
    let sent = run.report.transfer("in", "unix-stream");
    assert_eq!(sent.api, Api::ReadWrite);
    // The receiver writes a temporary file, which it renames at the end.
    let written: u64 = (run.report.processes.iter().flat_map(|process| &process.transfers))
        .filter(|transfer| transfer.from.kind.as_deref() == Some("unix-stream") && transfer.to.kind.as_deref() == Some("regular"))
        .filter_map(|transfer| transfer.bytes)
        .sum();
    assert!((BYTES / 10 * 9..=BYTES).contains(&written), "{written} bytes from the socket into the file");
}
