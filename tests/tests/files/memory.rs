//! Writes are paired with reads by the memory that both use, whatever was there before.

use zctrace::report::{Api, Certainty, DestinationTotals, Evidence, FileCalls, Transfer};

use super::{BYTES, odd, traced, traced_odd};
use crate::harness::{Rows, Run, TestDir, Transfers as _, workload, zctrace};

/// The length of `in`, which is not a multiple of any program's buffer.
const LONG_BYTES: u64 = 3_000_001;

/// How many whole pieces of 60,000 bytes `in` has.
const WHOLE_PIECES: u64 = LONG_BYTES / 60_000;

/// A directory with a file `in` of [`LONG_BYTES`] random bytes.
fn long_input() -> TestDir {
    TestDir::with("in", random(LONG_BYTES))
}

/// So many random bytes, always the same.
fn random(bytes: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..bytes).map(|_| next()).collect()
}

/// Traces a case of `odd-files` in a directory of its own: its transfers, each with the names or
/// kinds of its ends.
#[track_caller]
fn stated(case: &str) -> Vec<(String, String, Transfer)> {
    let run = traced(&long_input(), &odd(case));
    let name = |end: &zctrace::report::End| {
        let path = end.path.as_deref().and_then(|path| path.rsplit('/').next());
        path.filter(|path| !path.is_empty())
            .or(end.kind.as_deref())
            .unwrap_or_default()
            .to_owned()
    };
    run.root_transfers()
        .into_iter()
        .map(|transfer| (name(&transfer.from), name(&transfer.to), transfer.clone()))
        .collect()
}

/// Makes sure that these are all transfers to files `out...`, and that they were observed.
#[track_caller]
fn assert_observed(case: &str, truth: &[(&str, &str, u64)]) {
    let mut observed: Vec<_> = stated(case)
        .into_iter()
        .filter(|(_, to, _)| to.starts_with("out"))
        .map(|(from, to, transfer)| {
            assert_eq!(transfer.certainty, Certainty::Observed, "{transfer:?}");
            (from, to, transfer.bytes.expect("the calls tell"))
        })
        .collect();
    observed.sort_unstable();
    let truth: Vec<_> = truth
        .iter()
        .map(|(from, to, bytes)| ((*from).to_owned(), (*to).to_owned(), *bytes))
        .collect();
    assert_eq!(observed, truth, "{case}");
}

#[test]
fn a_buffer_filled_by_another_thread_has_its_source() {
    assert_observed("filled-by-another-thread", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_buffer_refilled_by_messages_is_not_the_file_that_was_there_before() {
    // `recvmmsg` does not say how many bytes it received.
    assert_observed("refilled-by-messages", &[]);
}

#[test]
fn a_buffer_refilled_with_random_bytes_has_no_source() {
    assert_observed("refilled-with-random", &[]);
}

#[test]
fn a_buffer_filled_by_io_uring_has_its_source() {
    assert_observed("refilled-by-a-ring", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn adjacent_buffers_are_told_apart() {
    assert_observed("buffers-side-by-side", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_buffer_used_for_messages_was_changed() {
    let run = traced(&long_input(), &odd("used-for-messages"));
    let to_out = destination(&run, "out");
    let changed: Vec<_> = to_out
        .changed
        .iter()
        .map(|changed| (changed.from.path.as_deref(), changed.bytes))
        .collect();
    let written = WHOLE_PIECES * 59_999;
    assert_eq!(changed, [(Some("in"), written)]);
    assert_eq!(
        (to_out.transferred_bytes, to_out.own_memory_bytes),
        (0, Some(written))
    );
}

#[test]
fn a_copy_within_memory_is_inferred_from_the_sums() {
    let stated = stated("copied-by-another-buffer");
    let [(from, to, transfer)] = stated.as_slice() else {
        panic!("{stated:?}")
    };
    assert_eq!((from.as_str(), to.as_str()), ("in", "out"));
    assert_eq!(
        (transfer.evidence, transfer.certainty, transfer.bytes),
        (Evidence::Totals, Certainty::Inferred, Some(LONG_BYTES))
    );
}

#[test]
fn memory_given_to_a_pipe_by_vmsplice_has_its_source() {
    let stated = stated("lent-after-a-read");
    let [(from, to, transfer)] = stated.as_slice() else {
        panic!("{stated:?}")
    };
    assert_eq!((from.as_str(), to.as_str()), ("in", "out"));
    assert_eq!(
        (transfer.api, transfer.evidence, transfer.bytes),
        (Api::Vmsplice, Evidence::Buffer, Some(LONG_BYTES))
    );
}

#[test]
fn a_drained_and_refilled_pipe_is_an_end() {
    let moved = LONG_BYTES / 50_000 * 50_000;
    assert_observed("drained-pipe", &[("pipe", "out", moved)]);
}

#[test]
fn peeked_bytes_have_not_moved() {
    let run = traced(&long_input(), &odd("peeked"));
    assert_eq!(run.totals().row("recvfrom").bytes, Some(LONG_BYTES));
    assert_observed("peeked", &[("unix-stream", "out", LONG_BYTES)]);
}

#[test]
fn a_private_mapping_is_its_file() {
    let run = traced(&long_input(), &odd("mapped-by-a-child"));
    let [transfer] = run.report.transfers.as_slice() else {
        panic!("{:?}", run.report.transfers)
    };
    assert_eq!(
        (transfer.api, transfer.certainty, transfer.bytes),
        (Api::MmapWrite, Certainty::Observed, Some(65_536))
    );
}

#[test]
fn bytes_that_were_read_into_a_mapping_come_from_where_they_were_read() {
    assert_observed("mapping-read-into", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_mapping_ends_where_its_file_ends_now() {
    assert_observed("mapping-shortened", &[("mapped", "out", 8192 + 4100)]);
}

#[test]
fn bytes_of_several_files_for_which_there_is_no_room_are_said_to_be_missing() {
    // Ten files in a buffer that is written ten times: 90 pairs of files beside the rows, of which
    // there are fewer.
    let missing = |rows: u32| {
        let dir = long_input();
        let tracer = zctrace()
            .ebpf()
            .dir(dir.path())
            .option(format!("--max-rows={rows}"));
        let report = tracer.run(&odd("several-to-several")).report;
        assert!(report.exact, "every call is counted");
        let missing = report.losses.get("calls_without_files");
        missing.copied().unwrap_or(0)
    };
    assert_eq!(missing(1000), 0);
    let missing = missing(80);
    assert!((1..=90).contains(&missing), "{missing}");
}

/// What the first process wrote to a file.
#[track_caller]
fn destination<'a>(run: &'a Run, name: &str) -> &'a DestinationTotals {
    let is_meant = |one: &&DestinationTotals| {
        one.file.as_ref().and_then(|file| file.path.as_deref()) == Some(name)
    };
    let mut found = run.root().destinations.iter().filter(is_meant);
    found.next().expect("it was written")
}

#[test]
fn an_interrupted_call_counts_even_if_seccomp_traps_one_in_the_handler() {
    for set in ["all", "ppoll"] {
        let run = zctrace()
            .ebpf()
            .by_thread()
            .syscalls(set)
            .run(&workload("trapped-in-handler"));
        let stated = run.stated();
        run.assert_exact();
        let (wait, expected) = (
            thread_row(&run, "zc-paused", "ppoll"),
            &stated.calls["ppoll"],
        );
        assert_eq!(
            (wait.calls, &wait.errnos),
            (expected.calls, &expected.errnos),
            "{set}"
        );
    }
}

#[test]
fn an_interrupted_call_keeps_its_file_even_if_seccomp_denies_one_in_the_handler() {
    for set in ["all", "read"] {
        let run = zctrace()
            .ebpf()
            .by_thread()
            .option("--file-calls")
            .syscalls(set)
            .run(&workload("denied-in-handler"));
        let stated = run.stated();
        let (read, expected) = (
            thread_row(&run, "zc-reading", "read"),
            &stated.calls["read"],
        );
        assert_eq!(
            (read.calls, &read.errnos),
            (expected.calls, &expected.errnos),
            "{set}"
        );
        let from_pipe = |calls: &&FileCalls| {
            calls
                .from
                .as_ref()
                .is_some_and(|end| end.kind.as_deref() == Some("pipe"))
        };
        let found = run
            .root()
            .file_calls
            .as_deref()
            .expect("was asked for")
            .iter()
            .filter(from_pipe);
        let reads: u64 = found
            .flat_map(|calls| &calls.syscalls)
            .filter(|row| row.name == "read")
            .map(|row| row.calls)
            .sum();
        assert_eq!(reads, expected.calls, "{set}");
    }
}

fn thread_row(run: &Run, thread: &str, name: &str) -> zc_tests::Figure {
    let threads: Vec<_> = run
        .threads()
        .filter(|one| one.comm.as_deref() == Some(thread))
        .collect();
    assert_eq!(threads.len(), 1, "threads called {thread}");
    Rows::new(thread, &threads[0].syscalls).row(name)
}

/// The ends of all transfers of the first process.
fn ends(run: &Run) -> Vec<[Option<&str>; 2]> {
    let mut ends: Vec<_> = run
        .root_transfers()
        .into_iter()
        .map(|one| [one.from.path.as_deref(), one.to.path.as_deref()])
        .collect();
    ends.sort_unstable();
    ends
}

/// The same without the copy to `in2`, which the program makes first.
fn copied(run: &Run) -> Vec<[Option<&str>; 2]> {
    ends(run)
        .into_iter()
        .filter(|ends| ends != &[Some("in"), Some("in2")])
        .collect()
}

#[test]
fn two_interleaved_copies_are_told_apart() {
    let run = traced_odd("in-turn");
    assert_eq!(
        copied(&run),
        [[Some("in"), Some("out")], [Some("in2"), Some("out2")]]
    );
    for (from, to) in [("in", "out"), ("in2", "out2")] {
        let transfer = run.report.transfer(from, to);
        assert_eq!(
            (transfer.api, transfer.bytes, transfer.evidence),
            (Api::ReadWrite, Some(BYTES), Evidence::Buffer)
        );
        assert_eq!(transfer.calls, Some(2 * BYTES.div_ceil(1000) + 1));
    }
}

#[test]
fn a_header_and_several_buffers_do_not_hide_the_source() {
    let run = traced_odd("vectors");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.bytes, transfer.evidence),
        (Some(BYTES), Evidence::Buffer)
    );
    let headers = BYTES.div_ceil(2000) * 10;
    let to_out = destination(&run, "out");
    assert_eq!(to_out.own_memory_bytes, Some(headers));
}

#[test]
fn buffers_passed_between_threads_keep_their_source() {
    let run = traced_odd("passed-on");
    assert_eq!(
        copied(&run),
        [[Some("in"), Some("out")], [Some("in2"), Some("out2")]]
    );
    for (from, to) in [("in", "out"), ("in2", "out2")] {
        assert_eq!(run.report.transfer(from, to).bytes, Some(BYTES));
    }
}
