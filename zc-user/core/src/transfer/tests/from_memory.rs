//! Rules 2 to 5: what was written from memory that a read had filled, or that maps a file; and what
//! a thread wrote after it had read as much.

use super::*;
use crate::{
    syscalls::Call,
    trace::{Input, Part},
};

/// Interface, evidence, bytes, calls, calls that returned 0, crossings and bytes of user memory.
type Figures = (Api, Evidence, u64, Option<u64>, u64, Option<u64>, u64);

#[test]
fn what_was_written_from_memory_is_a_transfer() {
    let cases: [(RowsOfCopy, Figures); 8] = [
        // With the read at the end of the source.
        (
            cat,
            (
                Api::ReadWrite,
                Evidence::Buffer,
                MIB,
                Some(17),
                1,
                Some(17),
                2 * MIB,
            ),
        ),
        (
            |from, to| vec![map(from, MIB), written_from("write", from, to, 1, MIB)],
            (
                Api::MmapWrite,
                Evidence::Mapping,
                MIB,
                Some(2),
                0,
                Some(2),
                MIB,
            ),
        ),
        (
            |from, to| vec![map(from, MIB), written_from("vmsplice", from, to, 16, MIB)],
            (
                Api::Vmsplice,
                Evidence::Mapping,
                MIB,
                Some(17),
                0,
                Some(17),
                0,
            ),
        ),
        (
            |from, to| {
                vec![
                    read("io_uring:read", from, 8, MIB),
                    written_held("io_uring:write", from, to, 8, MIB, MIB),
                ]
            },
            (
                Api::IoUring,
                Evidence::Buffer,
                MIB,
                Some(16),
                0,
                None,
                2 * MIB,
            ),
        ),
        (
            |from, to| {
                vec![
                    read("read", from, 8, MIB).zero(1),
                    written_after("write", from, to, 8, MIB, MIB),
                ]
            },
            (
                Api::ReadWrite,
                Evidence::Sequence,
                MIB,
                Some(17),
                1,
                Some(17),
                2 * MIB,
            ),
        ),
        (
            |from, to| {
                let mut rows = cat(from, to);
                rows[1].fills = Fills::UNKNOWN;
                rows
            },
            (
                Api::ReadWrite,
                Evidence::Buffer,
                MIB,
                None,
                0,
                None,
                2 * MIB,
            ),
        ),
        // Other reads filled other buffers, and nobody knows whose end was found.
        (
            |from, to| {
                vec![
                    read("read", from, 20, 2 * MIB).zero(1),
                    written_held("write", from, to, 4, MIB, MIB),
                ]
            },
            (
                Api::ReadWrite,
                Evidence::Buffer,
                MIB,
                Some(8),
                0,
                Some(8),
                2 * MIB,
            ),
        ),
        // Calls that only failed belong to the only transfer to their file.
        (
            |from, to| {
                let mut rows = cat(from, to);
                rows.push(write("write", to, 0, 0).failed(libc::EAGAIN, 3));
                rows
            },
            (
                Api::ReadWrite,
                Evidence::Buffer,
                MIB,
                Some(20),
                1,
                Some(20),
                2 * MIB,
            ),
        ),
    ];
    for (rows, expected) in cases {
        let one = only(&scene_of("copier", rows));
        let user_memory_bytes = one.user_memory_bytes.expect("known");
        let bytes = one.bytes.expect("known");
        let found = (
            one.api,
            one.evidence,
            bytes,
            one.calls,
            one.zero_calls,
            one.crossings,
            user_memory_bytes,
        );
        assert_eq!(found, expected);
        assert_eq!(one.certainty, one.evidence.certainty());
        let by_name: u64 = one.calls_by_syscall.values().sum();
        assert_eq!(by_name, one.calls.unwrap_or(0), "{one:?}");
    }
}

#[test]
fn what_a_thread_wrote_after_it_had_read_as_much_is_probable() {
    let transfer = only(&scene_of("cat", |from, to| {
        vec![
            read("read", from, 8, MIB),
            written_after("write", from, to, 8, MIB, MIB),
        ]
    }));
    assert_eq!(transfer.amount().as_deref(), Some("probably 1.0 MiB"));
}

#[test]
fn a_call_that_wrote_bytes_of_two_files_is_in_both_transfers() {
    let mut scene = Scene::new();
    let [header, body, to] = ["header", "body", "out"].map(|name| scene.regular(name));
    let mut written = written_held("write", body, to, 1, 4100, 4000);
    written.fills.calls = 1;
    let rows = vec![
        read("read", header, 1, 100),
        read("read", body, 1, 4000),
        written,
    ];
    scene.process("server", rows).threads[0].parts = vec![Part {
        call: Call::native("write"),
        from: Input::Buffer(header),
        to,
        bytes: 100,
        calls: 1,
        fills: Fills {
            calls: 1,
            ..Fills::NONE
        },
    }];
    let calls: Vec<_> = found(&scene)
        .iter()
        .map(|one| (one.bytes, one.calls, one.total_ns))
        .collect();
    assert_eq!(
        calls,
        [(Some(4000), Some(2), None), (Some(100), Some(2), None)]
    );
}

#[test]
fn constants_of_the_program_changed_buffers_and_notifications_are_no_transfers() {
    let mut scene = Scene::new();
    let [program, library, to] = ["tool", "libc.so.6", "out"].map(|name| scene.regular(name));
    let event = scene.file(Eventfd, "event");
    let rows = vec![
        written_from("write", program, to, 1, 20),
        written_from("write", library, to, 1, 30),
        read("read", library, 1, 40),
        written_changed("write", library, to, 1, 40, 40),
        read("read", event, 1, 8),
        written_held("write", event, to, 1, 8, 8),
    ];
    scene.process("tool", rows);
    assert!(found(&scene).is_empty());
}
