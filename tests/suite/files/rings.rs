//! Operations of `io_uring` are counted for the program that submitted them, and their transfers
//! are found.

use zctrace::report::{Api, Evidence, Process, Syscall};

use super::{BYTES, file, input, odd, traced, traced_odd, written};
use crate::{
    copiers::{copy, in_rust},
    harness::{Run, Transfers as _, zctrace},
};

/// The operations of a process: name, completions, bytes.
fn operations(process: &Process) -> Vec<(&str, u64, Option<u64>)> {
    let mut operations: Vec<_> = process
        .io_uring
        .iter()
        .map(|row| (row.name.as_str(), row.calls, row.bytes))
        .collect();
    operations.sort_unstable();
    operations
}

/// How many reads of 64 KiB the file takes, with the last one, which finds the end. A write follows
/// each of the others.
const READS: u64 = BYTES.div_ceil(65536) + 1;

#[track_caller]
fn assert_read_and_written(run: &Run) {
    let [read, write] = operations(run.root())[..] else {
        panic!("two operations, not {:?}", run.root().io_uring)
    };
    assert_eq!(read, ("io_uring:read", READS, Some(BYTES)));
    assert_eq!(write, ("io_uring:write", READS - 1, Some(BYTES)));
    let has_no_times =
        |row: &Syscall| row.total_ns.is_none() && row.min_ns.is_none() && row.p99_ns.is_none();
    assert!(
        run.root().io_uring.iter().all(has_no_times),
        "{:?}",
        run.root().io_uring
    );
}

#[test]
fn the_table_has_a_line_of_operations() {
    let finished = zctrace()
        .dir(input().path())
        .show(&copy(&in_rust(), "io-uring", "in", "out"));
    let line = finished
        .stderr
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("io_uring: "))
        .expect("a line");
    let expected = format!("{READS} read of ");
    assert!(
        line.contains(&expected) && line.contains(" write of ") && !line.contains("io_uring:"),
        "{line}"
    );
}

#[test]
fn a_copy_by_io_uring_is_a_transfer_whichever_kernel_thread_runs_the_operations() {
    let copies = ["ring-polled", "ring-of-a-thread"].map(odd);
    for program in [&[copy(&in_rust(), "io-uring", "in", "out")], &copies[..]].concat() {
        let run = traced(&input(), &program);
        assert_read_and_written(&run);
        let transfer = run.report.transfer("in", "out");
        assert_eq!(
            (transfer.api, transfer.bytes, transfer.calls),
            (Api::IoUring, Some(BYTES), Some(2 * READS - 1)),
            "{program:?}"
        );
        assert_eq!(
            (
                transfer.crossings,
                transfer.user_memory_bytes,
                transfer.total_ns
            ),
            (None, Some(2 * BYTES), None)
        );
    }
}

#[test]
fn registered_files_are_recognized_and_of_registered_memory_only_sums_tell() {
    let run = traced_odd("ring-fixed");
    let expected = [
        ("io_uring:read_fixed", READS, Some(BYTES)),
        ("io_uring:write_fixed", READS - 1, Some(BYTES)),
    ];
    assert_eq!(operations(run.root()), expected);
    let transfer = run.report.transfer("in", "out");
    assert_eq!(
        (transfer.api, transfer.bytes, transfer.calls),
        (Api::IoUring, Some(BYTES), Some(2 * READS - 1))
    );
    assert_eq!(transfer.evidence, Evidence::Totals);
    assert_eq!(transfer.user_memory_bytes, Some(2 * BYTES));
}

#[test]
fn a_failed_operation_has_its_errno() {
    let directory = input();
    let run =
        zctrace()
            .dir(directory.path())
            .run(&copy(&in_rust(), "io-uring", "/proc/self/mem", "out"));
    assert_eq!(run.finished.code, Some(1), "{}", run.finished.stderr);
    let [read] = run.root().io_uring.as_slice() else {
        panic!("one row, not {:?}", run.root().io_uring)
    };
    assert_eq!(
        (read.name.as_str(), read.calls, read.errors, read.bytes),
        ("io_uring:read", 1, 1, Some(0))
    );
    assert_eq!(read.errnos.values().sum::<u64>(), 1, "{:?}", read.errnos);
}

#[test]
fn a_success_without_a_completion_is_a_loss() {
    let run = zctrace()
        .option("--files")
        .dir(input().path())
        .run(&odd("ring-silent"));
    run.finished.successful();
    assert_eq!(
        run.report
            .losses
            .iter()
            .map(|(name, count)| (name.as_str(), *count))
            .collect::<Vec<_>>(),
        [("silent_operations", 1)]
    );
    assert_eq!(written(&run.report, "silent"), (1, Some(80)));
}

#[test]
fn completions_of_multishot_operations_are_counted_as_unknown() {
    let run = traced_odd("ring-multishot");
    // When the program ends, the operation may also be reported as cancelled.
    assert!(
        operations(run.root()).contains(&("io_uring:unknown", 3, None)),
        "{:?}",
        run.root().io_uring
    );
    run.assert_noted("the bytes of 3 io_uring completions are unknown");
    assert_eq!(
        file(&run.report, "anon_inode:[eventfd]").bytes_written,
        Some(24)
    );
}

#[test]
fn an_opcode_that_the_kernel_does_not_know_is_not_a_nop() {
    let run = traced_odd("ring-unknown-opcode");
    assert_eq!(
        operations(run.root()),
        [("io_uring:invalid", 1, None), ("io_uring:nop", 2, None)]
    );
    let invalid = run
        .root()
        .io_uring
        .iter()
        .find(|row| row.name == "io_uring:invalid")
        .expect("just seen");
    assert_eq!(invalid.errnos.get("EINVAL"), Some(&1));
}

#[test]
fn without_io_uring_enter_in_the_selection_no_operations_are_counted() {
    let directory = input();
    let run = zctrace()
        .syscalls("read,write")
        .dir(directory.path())
        .run(&copy(&in_rust(), "io-uring", "in", "out"));
    run.assert_exact();
    assert!(run.root().io_uring.is_empty(), "{:?}", run.root().io_uring);
}

#[test]
fn operations_that_strace_does_not_see_are_not_a_difference_for_verify() {
    let directory = input();
    let copy = copy(&in_rust(), "io-uring", "in", "out");
    let run = zctrace().backend("strace").dir(directory.path()).run(&copy);
    let enter = run.totals().row("io_uring_enter");
    assert!(enter.calls >= READS && enter.bytes.is_none(), "{enter:?}");
    assert!(
        run.root().io_uring.is_empty() && run.root().transfers.is_empty(),
        "{:?}",
        run.root().transfers
    );
    let verified = zctrace()
        .option("--verify")
        .dir(directory.path())
        .show(&copy);
    assert_eq!(
        verified.code,
        Some(0),
        "{}{}",
        verified.text(),
        verified.stderr
    );
}
