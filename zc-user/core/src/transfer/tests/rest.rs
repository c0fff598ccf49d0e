//! Rule 9: what is in no transfer.

use super::*;

/// The report on a process with these rows.
fn report(rows: RowsOfCopy) -> Report {
    Report::from_trace(&scene_of("program", rows).trace, &Options::default())
}

#[test]
fn what_is_in_no_transfer_is_the_programs_own() {
    // In transfers, and from its own memory, in bytes and calls.
    let cases: [(RowsOfCopy, [u64; 4]); 5] = [
        (|_, to| vec![write("write", to, 3, 300)], [0, 300, 0, 3]),
        (cat, [MIB, 0, 8, 0]),
        (
            |from, to| {
                let mut rows = cat(from, to);
                rows.push(write("write", to, 2, 50));
                rows.push(copy("sendfile", from, to, 1, 7));
                rows
            },
            [MIB + 7, 50, 9, 2],
        ),
        (
            |from, to| {
                vec![
                    read("read", from, 2, 300),
                    written_changed("write", from, to, 2, 300, 300),
                ]
            },
            [0, 300, 0, 2],
        ),
        // A header before the body.
        (
            |from, to| {
                vec![
                    read("read", from, 2, 4000),
                    written_held("writev", from, to, 2, 4200, 4000),
                ]
            },
            [4000, 200, 2, 0],
        ),
    ];
    for (rows, expected) in cases {
        let report = report(rows);
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
}

#[test]
fn what_was_changed_is_said_by_the_file_of_the_buffer() {
    let report = report(|from, to| {
        vec![
            read("read", from, 3, MIB),
            written_changed("write", from, to, 3, MIB, MIB),
        ]
    });
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
    let cases: [(RowsOfCopy, Option<u64>); 4] = [
        (|from, _| vec![read("read", from, 3, 300)], Some(300)),
        (cat, Some(0)),
        (
            |from, to| {
                vec![
                    read("read", from, 3, 300),
                    written_held("write", from, to, 1, 100, 100),
                ]
            },
            Some(200),
        ),
        // Some bytes were written several times.
        (
            |from, to| {
                vec![
                    read("read", from, 3, 300),
                    written_held("write", from, to, 2, 400, 400),
                ]
            },
            None,
        ),
    ];
    for (rows, kept) in cases {
        assert_eq!(report(rows).processes[0].sources[0].kept_bytes, kept);
    }
}

#[test]
fn a_reflink_writes_nothing() {
    let report = report(|from, to| vec![copy("ioctl(FICLONE)", from, to, 1, 0)]);
    assert!(report.processes[0].destinations.is_empty());
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
