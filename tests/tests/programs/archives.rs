//! GNU `tar` and `rsync`.

use zctrace::report::{Api, Certainty, Transfer};

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
fn rsync_copies_through_a_socket_and_talks_meanwhile() {
    let directory = directory();
    let run = zctrace().option("--wait-all").dir(directory.path()).run(&shell("exec rsync --whole-file in out"));
    assert_copied(&directory, "out");
    // A temporary file gets its name when all is there.
    let is_temporary = |transfer: &&Transfer| transfer.to.path.as_deref().is_some_and(|path| path.starts_with(".out."));
    let received = run.report.processes.iter().flat_map(|process| &process.transfers).find(is_temporary).expect("a transfer");
    // Its messages to the other side stand among the bytes that it sends: then nothing is stated, or a lower bound.
    let all = || run.report.processes.iter().flat_map(|process| &process.transfers);
    let sent = all().find(|transfer| transfer.from.path.as_deref() == Some("in"));
    assert!(sent.is_none_or(|sent| sent.bytes <= Some(BYTES) && sent.certainty == Certainty::Inferred), "{sent:?}");
    assert_eq!(received.api, Api::ReadWrite);
    assert!(received.bytes <= Some(BYTES) && received.bytes >= Some(BYTES / 100 * 95), "{received:?}");
    assert_eq!(received.from.kind.as_deref(), Some("unix-stream"));
}
