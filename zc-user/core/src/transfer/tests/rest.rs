//! Rule 9: what is in no transfer.

use super::*;
use crate::report::Report;

/// The report on a process that made these calls.
fn report(calls: &str) -> Report {
    scene(&format!("program: {calls}")).report()
}

#[test]
fn what_is_in_no_transfer_is_the_programs_own() {
    // In transfers, and from its own memory, in bytes and calls.
    for (calls, expected) in [
        ("write out 3 300", [0, 300, 0, 3]),
        ("read in 8 1M, write in>out 8 1M", [MIB, 0, 8, 0]),
        (
            "read in 8 1M, write in>out 8 1M, write out 2 50, sendfile in->out 1 7",
            [MIB + 7, 50, 9, 2],
        ),
        ("read in 2 300, write in!out 2 300", [0, 300, 0, 2]),
    ] {
        let report = report(calls);
        let [one] = report.processes[0].destinations.as_slice() else {
            panic!("{report:?}")
        };
        let found = [
            one.transferred_bytes,
            one.own_memory_bytes.expect("calls tell"),
            one.transferred_calls,
            one.own_memory_calls,
        ];
        assert_eq!(found, expected);
    }
    let reflink = report("ioctl(FICLONE) in->out 1 0");
    assert!(reflink.processes[0].destinations.is_empty());
}

#[test]
fn a_header_before_a_body_is_the_programs_own() {
    let mut scene = scene("server: read in 2 4000, writev in>out 2 4200");
    scene.trace.processes[0].threads[0].rows[1].input_bytes = 4000;
    let report = scene.report();
    let one = &report.processes[0].destinations[0];
    assert_eq!(
        (
            one.transferred_bytes,
            one.own_memory_bytes,
            one.own_memory_calls
        ),
        (4000, Some(200), 0)
    );
}

#[test]
fn what_was_changed_is_said_by_the_file_of_the_buffer() {
    let report = report("read in 3 1M, write in!out 3 1M");
    let [changed] = report.processes[0].destinations[0].changed.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(
        (changed.from.path.as_deref(), changed.bytes, changed.calls),
        (Some("in"), MIB, 3)
    );
}

#[test]
fn what_was_read_and_is_in_no_transfer_was_kept() {
    for (calls, kept) in [
        ("read in 3 300", Some(300)),
        ("read in 8 1M, write in>out 8 1M", Some(0)),
        ("read in 3 300, write in>out 1 100", Some(200)),
        // Some bytes were written several times.
        ("read in 3 300, write in>a 1 200, write in>b 1 200", None),
    ] {
        assert_eq!(report(calls).processes[0].sources[0].kept_bytes, kept);
    }
}

#[test]
fn it_is_known_whether_memory_was_seen() {
    let mut trace = crate::report::sample::copier();
    assert!(sees_memory(&trace));
    trace.counted = Some("write".parse().expect("a call"));
    assert!(!sees_memory(&trace), "reads were not counted");
    trace.counted = None;
    assert!(!sees_memory(&trace), "nobody knows");
}
