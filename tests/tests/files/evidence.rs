//! What is stated of programs that put other bytes where a file's had been: the truth, or a lower bound of it that is said to be one.

use std::fs;

use tempfile::TempDir;
use zctrace::report::{Certainty, FileCalls, Transfer};

use super::{odd, traced};
use crate::harness::{Rows, Run, workload, zctrace};

/// How long `in` is: not a multiple of any program's buffer.
const BYTES: u64 = 3_000_001;

/// Pieces of 60,000 bytes that `in` has.
const WHOLE_PIECES: u64 = BYTES / 60_000;

/// A directory with a file `in` of [`BYTES`] that nothing else looks like.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    let bytes: Vec<u8> = (0..BYTES).map(|_| next()).collect();
    fs::write(directory.path().join("in"), bytes).expect("room for a file");
    directory
}

/// A case of `odd-files`, traced in a directory of its own, and what is stated of each pair of ends: their names, or their kinds.
#[track_caller]
fn stated(case: &str) -> Vec<(String, String, Transfer)> {
    let run = traced(&directory(), &odd(case));
    let name = |end: &zctrace::report::End| {
        let path = end.path.as_deref().and_then(|path| path.rsplit('/').next());
        path.filter(|path| !path.is_empty()).or(end.kind.as_deref()).unwrap_or_default().to_owned()
    };
    run.root().transfers.iter().map(|transfer| (name(&transfer.from), name(&transfer.to), transfer.clone())).collect()
}

/// Makes sure that these bytes are stated exactly, or that at most so many of them are inferred; and that nothing else is said to have
/// gone to any of these destinations.
#[track_caller]
fn assert_true(case: &str, truth: &[(&str, &str, u64)]) {
    let stated = stated(case);
    for (from, to, transfer) in stated.iter().filter(|(_, to, _)| truth.iter().any(|(_, destination, _)| destination == to)) {
        let line = format!("{case}: {from} -> {to}: {transfer:?}");
        let moved =
            truth.iter().find(|(source, destination, _)| source == from && destination == to).map_or(0, |(.., bytes)| *bytes);
        let bytes = transfer.bytes.expect("the calls tell");
        match transfer.certainty {
            Certainty::Exact => assert_eq!(bytes, moved, "{line}"),
            Certainty::Inferred => assert!(bytes <= moved && transfer.proven_bytes <= transfer.bytes, "{moved} moved; {line}"),
        }
    }
}

/// The same, where all must be stated, and exactly.
#[track_caller]
fn assert_exactly(case: &str, truth: &[(&str, &str, u64)]) {
    let mut exact: Vec<_> = stated(case)
        .into_iter()
        .filter(|(_, to, transfer)| transfer.certainty == Certainty::Exact && to.starts_with("out"))
        .map(|(from, to, transfer)| (from, to, transfer.bytes.expect("the calls tell")))
        .collect();
    exact.sort_unstable();
    let truth: Vec<_> = truth.iter().map(|(from, to, bytes)| ((*from).to_owned(), (*to).to_owned(), *bytes)).collect();
    assert_eq!(exact, truth, "{case}");
}

#[test]
fn stdio_writes_a_part_from_its_own_buffer() {
    assert_true("stdio-after-a-header", &[("in", "out", BYTES - 246)]);
}

#[test]
fn another_thread_fills_the_buffer() {
    assert_true("filled-by-another-thread", &[("in", "out", BYTES)]);
    assert_exactly("filled-by-another-thread", &[("in", "out", BYTES)]);
}

#[test]
fn messages_fill_the_buffer() {
    assert_true("refilled-by-messages", &[("unix-dgram", "out", WHOLE_PIECES * 60_000)]);
}

#[test]
fn zeroes_that_are_sent_are_not_what_was_read() {
    // As many bytes are read from `in` as are sent, but from a buffer to which nothing was ever read.
    assert_true("refilled-by-messages", &[("nothing", "unix-dgram", 0)]);
}

#[test]
fn random_bytes_fill_the_buffer() {
    assert_true("refilled-with-random", &[("nothing", "out", 0)]);
}

#[test]
fn a_ring_fills_the_buffer() {
    assert_true("refilled-by-a-ring", &[("in", "out", BYTES)]);
    assert_exactly("refilled-by-a-ring", &[("in", "out", BYTES)]);
}

#[test]
fn a_pipe_is_drained_and_filled_with_something_else() {
    assert_true("drained-pipe", &[("nothing", "out", 0), ("pipe", "out", BYTES / 50_000 * 50_000)]);
}

#[test]
fn buffers_on_the_stacks_of_two_threads_overlap() {
    assert_true("stack-buffers", &[("in", "out0", BYTES), ("in", "out1", BYTES)]);
}

#[test]
fn what_is_only_looked_at_has_not_moved() {
    // How much of it is proven depends on how often the two threads are in the kernel at the same moment.
    assert_true("peeked", &[("in", "unix-stream", BYTES), ("unix-stream", "out", BYTES)]);
    let run = traced(&directory(), &odd("peeked"));
    assert_eq!(run.totals().row("recvfrom").bytes, Some(BYTES));
}

#[test]
fn a_bit_that_is_changed_now_and_then_is_noticed() {
    assert_exactly("one-bit-changed", &[]);
    assert_true("one-bit-changed", &[("in", "out", WHOLE_PIECES * 60_000)]);
}

#[test]
fn what_is_written_again_from_a_copy_is_not_forgotten() {
    assert_exactly("written-again-from-a-copy", &[]);
    assert_true("written-again-from-a-copy", &[("in", "out", 2 * BYTES)]);
}

#[test]
fn what_one_call_writes_beside_proven_bytes_may_be_a_copy_of_them() {
    assert_exactly("written-twice-in-one-call", &[]);
    assert_true("written-twice-in-one-call", &[("in", "out", 2 * BYTES)]);
}

#[test]
fn what_a_program_puts_in_place_of_a_file_s_bytes_is_not_counted() {
    assert_exactly("a-part-replaced", &[]);
    assert_true("a-part-replaced", &[("in", "out", WHOLE_PIECES * 60_000 - WHOLE_PIECES.div_ceil(5) * 246)]);
}

#[test]
fn a_buffer_that_is_used_for_messages_gives_no_transfer() {
    assert_true("used-for-messages", &[("nothing", "out", 0)]);
}

#[test]
fn memory_that_is_lent_to_a_pipe_has_its_source() {
    assert_true("lent-after-a-read", &[("in", "out", BYTES)]);
    assert_exactly("lent-after-a-read", &[("in", "out", BYTES)]);
}

#[test]
fn buffers_that_lie_side_by_side_are_told_apart() {
    assert_true("buffers-side-by-side", &[("in", "out", BYTES)]);
    assert_exactly("buffers-side-by-side", &[("in", "out", BYTES)]);
}

#[test]
fn a_call_that_a_signal_ends_counts_though_seccomp_traps_one_in_the_handler() {
    for set in ["all", "ppoll"] {
        let run = zctrace().ebpf().by_thread().syscalls(set).run(&workload("trapped-in-handler"));
        let stated = run.stated();
        run.assert_exact();
        let (wait, expected) = (thread_row(&run, "zc-paused", "ppoll"), &stated.calls["ppoll"]);
        assert_eq!((wait.calls, &wait.errnos), (expected.calls, &expected.errnos), "{set}");
    }
}

#[test]
fn a_call_that_a_signal_ends_keeps_its_file_though_seccomp_denies_one_in_the_handler() {
    for set in ["all", "read"] {
        let run = zctrace().ebpf().by_thread().option("--file-calls").syscalls(set).run(&workload("denied-in-handler"));
        let stated = run.stated();
        let (read, expected) = (thread_row(&run, "zc-reading", "read"), &stated.calls["read"]);
        assert_eq!((read.calls, &read.errnos), (expected.calls, &expected.errnos), "{set}");
        let from_pipe = |calls: &&FileCalls| calls.from.as_ref().is_some_and(|end| end.kind.as_deref() == Some("pipe"));
        let found = run.root().file_calls.as_deref().expect("was asked for").iter().filter(from_pipe);
        let reads: u64 = found.flat_map(|calls| &calls.syscalls).filter(|row| row.name == "read").map(|row| row.calls).sum();
        assert_eq!(reads, expected.calls, "{set}");
    }
}

fn thread_row(run: &Run, thread: &str, name: &str) -> zc_tests::Figure {
    let threads: Vec<_> = run.threads().filter(|one| one.comm.as_deref() == Some(thread)).collect();
    assert_eq!(threads.len(), 1, "threads called {thread}");
    Rows::new(thread, &threads[0].syscalls).row(name)
}
