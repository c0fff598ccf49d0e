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
    let is_temporary = |path: &str| path.starts_with(".out.");
    let of_temporary = |transfer: &&Transfer| transfer.to.path.as_deref().is_some_and(is_temporary);
    let of_in = |transfer: &&Transfer| transfer.from.path.as_deref() == Some("in");
    // Messages stand among the bytes that it sends, and it copies them in its memory: nothing is stated, or a lower bound.
    let all = || run.report.processes.iter().flat_map(|process| &process.transfers);
    for stated in all().filter(of_in).chain(all().filter(of_temporary)) {
        assert!(stated.bytes <= Some(BYTES) && stated.certainty == Certainty::Inferred, "{stated:?}");
    }
    let written = run.report.processes.iter().flat_map(|process| &process.destinations);
    let temporary = written.filter(|to| to.file.as_ref().and_then(|file| file.path.as_deref()).is_some_and(is_temporary));
    assert_eq!(temporary.map(|to| to.written_bytes).collect::<Vec<_>>(), [Some(BYTES)]);
}
