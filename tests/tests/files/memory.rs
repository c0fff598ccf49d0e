//! Which write goes with which read is told by the memory that they name.

use zctrace::report::{Api, Certainty, Evidence, Transfer};

use super::{BYTES, directory, odd, traced_odd};
use crate::harness::{Run, Transfers as _, zctrace};

/// The ends of all transfers of the program.
fn ends(run: &Run) -> Vec<[Option<&str>; 2]> {
    let mut ends: Vec<_> = run.root().transfers.iter().map(|one| [one.from.path.as_deref(), one.to.path.as_deref()]).collect();
    ends.sort_unstable();
    ends
}

/// `in2` is made by the program itself, before.
fn copied(run: &Run) -> Vec<[Option<&str>; 2]> {
    ends(run).into_iter().filter(|ends| ends != &[Some("in"), Some("in2")]).collect()
}

#[test]
fn two_copies_in_turn_are_told_apart() {
    let run = traced_odd("in-turn");
    assert_eq!(copied(&run), [[Some("in"), Some("out")], [Some("in2"), Some("out2")]]);
    for (from, to) in [("in", "out"), ("in2", "out2")] {
        let transfer = run.report.transfer(from, to);
        assert_eq!((transfer.api, transfer.bytes, transfer.evidence), (Api::ReadWrite, Some(BYTES), Some(Evidence::Memory)));
        assert_eq!(transfer.calls, 2 * BYTES.div_ceil(1000) + 1);
    }
}

#[test]
fn without_memory_nobody_knows_and_nothing_is_said() {
    for case in ["in-turn", "passed-on"] {
        let run = zctrace().option("--backend=strace").dir(directory().path()).run(&odd(case));
        run.finished.successful();
        assert!(copied(&run).is_empty(), "{case}: {:?}", copied(&run));
    }
}

#[test]
fn a_header_before_it_and_several_buffers_do_not_matter() {
    let run = traced_odd("vectors");
    let transfer = run.report.transfer("in", "out");
    assert_eq!((transfer.bytes, transfer.evidence), (Some(BYTES), Some(Evidence::Memory)));
    let headers = BYTES.div_ceil(2000) * 10;
    let unattributed = &run.root().unattributed.written;
    let to_out = unattributed.iter().find(|share| share.file.as_ref().is_some_and(|file| file.path.as_deref() == Some("out")));
    assert_eq!(to_out.and_then(|share| share.bytes), Some(headers));
}

#[test]
fn bytes_from_elsewhere_are_said_to_be() {
    let run = traced_odd("replaced-bytes");
    let of_out = |transfer: &&Transfer| transfer.to.path.as_deref() == Some("out");
    let stated: Vec<&Transfer> = run.root().transfers.iter().filter(of_out).collect();
    assert!(stated.iter().all(|transfer| transfer.certainty == Certainty::Inferred && transfer.hint.is_none()), "{stated:?}");
}

#[test]
fn what_threads_pass_on_comes_from_the_file_that_lies_in_the_buffer() {
    let run = traced_odd("passed-on");
    assert_eq!(copied(&run), [[Some("in"), Some("out")], [Some("in2"), Some("out2")]]);
    for (from, to) in [("in", "out"), ("in2", "out2")] {
        let transfer = run.report.transfer(from, to);
        // Where the threads keep the lock of their memory from each other, evidence is lost, and the report says so.
        let is_true =
            transfer.bytes == Some(BYTES) || (transfer.bytes < Some(BYTES) && transfer.certainty == Certainty::Inferred);
        assert!(is_true, "{transfer:?}");
    }
}
