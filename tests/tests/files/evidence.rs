//! Writes are paired with reads by the memory that both use. If a program puts other bytes where a
//! file's bytes had been, the report states the truth, or a lower bound that is marked as one.

use zctrace::report::{Api, Certainty, Evidence, FileCalls, Transfer};

use super::{BYTES, directory, odd, traced, traced_odd};
use crate::harness::{Rows, Run, TestDir, Transfers as _, shell, workload, zctrace};

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

/// Makes sure that the transfers to these destinations are true: exact ones have these bytes,
/// inferred ones have at most these, and there are none from other sources.
#[track_caller]
fn assert_true(case: &str, truth: &[(&str, &str, u64)]) {
    let stated = stated(case);
    for (from, to, transfer) in stated
        .iter()
        .filter(|(_, to, _)| truth.iter().any(|(_, destination, _)| destination == to))
    {
        let line = format!("{case}: {from} -> {to}: {transfer:?}");
        let moved = truth
            .iter()
            .find(|(source, destination, _)| source == from && destination == to)
            .map_or(0, |(.., bytes)| *bytes);
        let bytes = transfer.bytes.expect("the calls tell");
        match transfer.certainty {
            Certainty::Exact => assert_eq!(bytes, moved, "{line}"),
            Certainty::Inferred => assert!(
                bytes <= moved && transfer.proven_bytes <= transfer.bytes,
                "{moved} moved; {line}"
            ),
        }
    }
}

/// How many bytes of `in` a case of `odd-files` is said to have moved for sure.
fn proven_of_input(case: &str) -> u64 {
    stated(case)
        .iter()
        .filter(|(from, ..)| from == "in")
        .filter_map(|(.., transfer)| transfer.proven_bytes)
        .sum()
}

/// Makes sure that these are all exact transfers to files `out...`.
#[track_caller]
fn assert_exactly(case: &str, truth: &[(&str, &str, u64)]) {
    let mut exact: Vec<_> = stated(case)
        .into_iter()
        .filter(|(_, to, transfer)| transfer.certainty == Certainty::Exact && to.starts_with("out"))
        .map(|(from, to, transfer)| (from, to, transfer.bytes.expect("the calls tell")))
        .collect();
    exact.sort_unstable();
    let truth: Vec<_> = truth
        .iter()
        .map(|(from, to, bytes)| ((*from).to_owned(), (*to).to_owned(), *bytes))
        .collect();
    assert_eq!(exact, truth, "{case}");
}

#[test]
fn a_copy_through_stdio_is_not_overstated() {
    assert_true("stdio-after-a-header", &[("in", "out", LONG_BYTES - 246)]);
}

#[test]
fn a_buffer_filled_by_another_thread_has_its_source() {
    assert_true("filled-by-another-thread", &[("in", "out", LONG_BYTES)]);
    assert_exactly("filled-by-another-thread", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_buffer_refilled_by_messages_is_not_overstated() {
    assert_true(
        "refilled-by-messages",
        &[("unix-dgram", "out", WHOLE_PIECES * 60_000)],
    );
}

#[test]
fn sent_zeroes_do_not_come_from_the_file_that_was_read() {
    // As many bytes are read from `in` as are sent, but those that are sent come from a buffer that
    // no read ever filled.
    assert_true("refilled-by-messages", &[("nothing", "unix-dgram", 0)]);
}

#[test]
fn a_buffer_refilled_with_random_bytes_has_no_source() {
    assert_true("refilled-with-random", &[("nothing", "out", 0)]);
}

#[test]
fn a_text_that_begins_like_the_file_whose_buffer_it_uses_has_no_source() {
    assert_true("summary-begins-alike", &[("nothing", "out", 0)]);
}

#[test]
fn a_field_changed_in_each_record_of_a_buffer_makes_the_transfer_inferred() {
    assert_exactly("records-changed", &[]);
}

#[test]
fn a_byte_changed_in_a_buffer_that_several_reads_filled_makes_the_transfer_inferred() {
    assert_exactly("filled-in-parts-and-changed", &[]);
}

#[test]
fn what_another_read_left_of_a_buffer_is_not_proven_where_it_may_have_changed() {
    assert_exactly("header-read-over", &[]);
    let proven = proven_of_input("header-read-over");
    assert!(proven <= 10 * (8000 - 64 - 40), "{proven}");
}

#[test]
fn bytes_that_were_dropped_are_in_no_chain_although_others_were_written_twice() {
    let bytes = random(24 * 4096);
    let directory = TestDir::with("first", &bytes[..12 * 4096]);
    directory.write("second", &bytes[12 * 4096..]);
    let script = format!(
        "cat first second | {} half-dropped-half-doubled",
        env!("CARGO_BIN_EXE_odd-files")
    );
    let run = traced(&directory, &shell(&script));
    let arrived = |one: &&Transfer| {
        one.from.path.as_deref() == Some("second") && one.to.path.as_deref() == Some("out")
    };
    let arrived: Vec<_> = run.report.transfers.iter().filter(arrived).collect();
    assert!(arrived.is_empty(), "{arrived:?}");
}

#[test]
fn memory_lent_to_a_socket_proves_nothing() {
    assert_true("lent-to-a-socket-and-changed", &[("in", "tcp", 60_000)]);
    assert_eq!(proven_of_input("lent-to-a-socket-and-changed"), 0);
}

#[test]
fn a_child_that_reads_nothing_may_write_a_private_mapping_that_it_did_not_change() {
    let run = traced(&long_input(), &odd("mapped-by-a-child"));
    let [transfer] = run.report.transfers.as_slice() else {
        panic!("{:?}", run.report.transfers)
    };
    assert_eq!(
        (transfer.api, transfer.certainty, transfer.bytes),
        (Api::MmapWrite, Certainty::Exact, Some(65_536))
    );
}

#[test]
fn a_private_mapping_that_was_changed_is_not_its_file() {
    assert_true("mapping-changed", &[("nothing", "out", 0)]);
}

#[test]
fn bytes_that_were_read_into_a_mapping_come_from_where_they_were_read() {
    assert_exactly("mapping-read-into", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_mapping_ends_where_its_file_ends_now() {
    assert_true("mapping-shortened", &[("mapped", "out", 8192 + 4100)]);
}

#[test]
fn a_buffer_filled_by_io_uring_has_its_source() {
    assert_true("refilled-by-a-ring", &[("in", "out", LONG_BYTES)]);
    assert_exactly("refilled-by-a-ring", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn a_drained_and_refilled_pipe_is_not_overstated() {
    assert_true(
        "drained-pipe",
        &[
            ("nothing", "out", 0),
            ("pipe", "out", LONG_BYTES / 50_000 * 50_000),
        ],
    );
}

#[test]
fn overlapping_stack_buffers_of_two_threads_are_not_overstated() {
    assert_true(
        "stack-buffers",
        &[("in", "out0", LONG_BYTES), ("in", "out1", LONG_BYTES)],
    );
}

#[test]
fn peeked_bytes_have_not_moved() {
    // How much is proven depends on how often the two threads are in the kernel at the same moment.
    assert_true(
        "peeked",
        &[
            ("in", "unix-stream", LONG_BYTES),
            ("unix-stream", "out", LONG_BYTES),
        ],
    );
    let run = traced(&long_input(), &odd("peeked"));
    assert_eq!(run.totals().row("recvfrom").bytes, Some(LONG_BYTES));
}

#[test]
fn bytes_that_were_peeked_at_may_have_been_written_before_they_were_received() {
    assert_exactly("peeked-and-written", &[]);
    assert_true("peeked-and-written", &[("unix-stream", "out", 200)]);
}

#[test]
fn a_bit_that_changes_sometimes_makes_the_transfer_inferred() {
    assert_exactly("one-bit-changed", &[]);
    assert_true("one-bit-changed", &[("in", "out", WHOLE_PIECES * 60_000)]);
}

#[test]
fn bytes_written_again_from_a_copy_make_the_transfer_inferred() {
    assert_exactly("written-again-from-a-copy", &[]);
    assert_true(
        "written-again-from-a-copy",
        &[("in", "out", 2 * LONG_BYTES)],
    );
}

#[test]
fn proven_bytes_written_beside_a_copy_make_the_transfer_inferred() {
    assert_exactly("written-twice-in-one-call", &[]);
    assert_true(
        "written-twice-in-one-call",
        &[("in", "out", 2 * LONG_BYTES)],
    );
}

#[test]
fn bytes_that_replace_a_part_of_the_buffer_are_not_counted() {
    assert_exactly("a-part-replaced", &[]);
    assert_true(
        "a-part-replaced",
        &[(
            "in",
            "out",
            WHOLE_PIECES * 60_000 - WHOLE_PIECES.div_ceil(5) * 246,
        )],
    );
}

/// In how many pieces `long-loop-...` does something else: in every 25th after the first 2,000, up
/// to the last one, which has one byte.
const DISTURBED_PIECES: u64 = (LONG_BYTES / 500 - 2000) / 25 + 1;

/// How many bytes it copies as they are if it changes these pieces.
const UNTOUCHED_BYTES: u64 = LONG_BYTES - (DISTURBED_PIECES - 1) * 500 - 1;

#[test]
fn a_long_loop_is_exact_whatever_happens_in_between() {
    // With every third disturbance from the second one on, 500 zeroes are written to another file.
    let zeroes = DISTURBED_PIECES.div_ceil(3) * 500;
    assert_exactly(
        "long-loop-disturbed",
        &[("in", "out", LONG_BYTES), ("zero", "out2", zeroes)],
    );
}

#[test]
fn pieces_of_a_long_loop_that_are_refilled_or_replaced_are_not_proven() {
    for case in ["long-loop-refilled", "long-loop-replaced"] {
        let (_, _, transfer) = stated(case)
            .into_iter()
            .find(|(from, to, _)| from == "in" && to == "out")
            .expect("it is stated");
        assert_eq!(
            transfer.certainty,
            Certainty::Inferred,
            "{case}: {transfer:?}"
        );
        assert!(
            transfer.proven_bytes <= Some(UNTOUCHED_BYTES),
            "{case}: {transfer:?}"
        );
    }
}

#[test]
fn a_buffer_used_for_messages_has_no_transfer() {
    assert_true("used-for-messages", &[("nothing", "out", 0)]);
}

#[test]
fn memory_given_to_a_pipe_by_vmsplice_has_its_source() {
    // Inferred: the program may change the memory until the pipe is read.
    assert_true("lent-after-a-read", &[("in", "out", LONG_BYTES)]);
}

#[test]
fn bytes_of_several_files_for_which_there_is_no_room_are_said_to_be_missing() {
    // Ten files in a buffer that is written ten times: 90 pairs of files beside the rows, of which
    // there are fewer.
    let lossy = |rows: u32| {
        let dir = long_input();
        let tracer = zctrace()
            .ebpf()
            .dir(dir.path())
            .option(format!("--max-rows={rows}"));
        let report = tracer.run(&odd("several-to-several")).report;
        assert!(report.exact, "every call is counted");
        (
            report.transfers_exact,
            report
                .losses
                .get("calls_without_files")
                .copied()
                .unwrap_or(0),
        )
    };
    assert_eq!(lossy(1000).1, 0);
    let (transfers_exact, missing) = lossy(80);
    assert!(!transfers_exact && (1..=90).contains(&missing), "{missing}");
}

#[test]
fn adjacent_buffers_are_told_apart() {
    assert_true("buffers-side-by-side", &[("in", "out", LONG_BYTES)]);
    assert_exactly("buffers-side-by-side", &[("in", "out", LONG_BYTES)]);
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
            (Api::ReadWrite, Some(BYTES), Some(Evidence::Memory))
        );
        assert_eq!(transfer.calls, 2 * BYTES.div_ceil(1000) + 1);
    }
}

#[test]
fn strace_states_no_transfer_of_interleaved_copies() {
    for case in ["in-turn", "passed-on"] {
        let run = zctrace()
            .option("--backend=strace")
            .dir(directory().path())
            .run(&odd(case));
        run.finished.successful();
        assert!(copied(&run).is_empty(), "{case}: {:?}", copied(&run));
    }
}

#[test]
fn a_header_and_several_buffers_do_not_hide_the_source() {
    let run = traced_odd("vectors");
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.bytes, transfer.evidence),
        (Some(BYTES), Some(Evidence::Memory))
    );
    let headers = BYTES.div_ceil(2000) * 10;
    let unattributed = &run.root().unattributed.written;
    let to_out = unattributed.iter().find(|share| {
        share
            .file
            .as_ref()
            .is_some_and(|file| file.path.as_deref() == Some("out"))
    });
    assert_eq!(to_out.and_then(|share| share.bytes), Some(headers));
}

#[test]
fn a_program_that_writes_as_many_other_bytes_as_it_reads_has_no_transfer() {
    for case in ["replaced-bytes", "changed-by-another-buffer"] {
        let stated = stated(case);
        assert!(
            stated.iter().all(|(_, to, _)| to != "out"),
            "{case}: {stated:?}"
        );
    }
}

/// Asserts that this case copies so many bytes to `out`, and that nearly all of them are inferred.
#[track_caller]
fn assert_inferred(case: &str, copied: u64) {
    let stated = stated(case);
    let [(from, _, transfer)] = stated
        .iter()
        .filter(|(_, to, _)| to == "out")
        .collect::<Vec<_>>()[..]
    else {
        panic!("{stated:?}")
    };
    assert_eq!(
        (from.as_str(), transfer.certainty, transfer.hint.as_deref()),
        ("in", Certainty::Inferred, None)
    );
    assert!(
        (copied * 9 / 10..=copied).contains(&transfer.bytes.expect("the calls tell")),
        "{transfer:?}"
    );
}

#[test]
fn bytes_copied_by_another_buffer_are_inferred_even_if_the_first_ones_are_left_out() {
    assert_inferred("copied-by-another-buffer", LONG_BYTES - 246);
}

#[test]
fn bytes_copied_by_another_buffer_that_overlaps_the_first_one_are_inferred() {
    assert_inferred("overlapping-buffers", LONG_BYTES);
}

#[test]
fn buffers_passed_between_threads_keep_their_source() {
    let run = traced_odd("passed-on");
    assert_eq!(
        copied(&run),
        [[Some("in"), Some("out")], [Some("in2"), Some("out2")]]
    );
    for (from, to) in [("in", "out"), ("in2", "out2")] {
        let transfer = run.report.transfer(from, to);
        // If one thread holds the lock of the memory while the other needs it, evidence is lost and
        // the transfer is inferred.
        let is_true = transfer.bytes == Some(BYTES)
            || (transfer.bytes < Some(BYTES) && transfer.certainty == Certainty::Inferred);
        assert!(is_true, "{transfer:?}");
    }
}
