//! Rules 2 to 5: what was written from memory that a read had filled, or that maps a file; and what
//! a thread wrote after it had read as much.

use super::*;
use crate::{
    syscalls::Call,
    trace::{Ends, Input, Part},
};

/// Interface, evidence, calls, calls that returned 0, crossings and MiB of user memory.
type Figures = (Api, Evidence, Option<u64>, u64, Option<u64>, u64);

fn figures(transfer: &Transfer) -> Figures {
    let user_memory_bytes = transfer.user_memory_bytes.expect("known");
    (
        transfer.api,
        transfer.evidence,
        transfer.calls,
        transfer.zero_calls,
        transfer.crossings,
        user_memory_bytes / MIB,
    )
}

#[test]
fn what_was_written_from_memory_is_a_transfer() {
    use {Api::*, Evidence::*};
    for (calls, expected) in [
        // With the read at the end of the source.
        (
            "read in 8 1M +1, write in>out 8 1M",
            (ReadWrite, Buffer, Some(17), 1, Some(17), 2),
        ),
        (
            "mmap in 1 1M, write in=out 1 1M",
            (MmapWrite, Mapping, Some(2), 0, Some(2), 1),
        ),
        (
            "mmap in 1 1M, vmsplice in=pipe 16 1M",
            (Vmsplice, Mapping, Some(17), 0, Some(17), 0),
        ),
        (
            "io_uring:read in 8 1M, io_uring:write in>out 8 1M",
            (IoUring, Buffer, Some(16), 0, None, 2),
        ),
        (
            "read in 8 1M +1, write in~out 8 1M",
            (ReadWrite, Sequence, Some(17), 1, Some(17), 2),
        ),
        // More bytes than were read.
        (
            "read in 8 524288, write in>out 8 1M",
            (ReadWrite, Reused, Some(16), 0, Some(16), 2),
        ),
        // Other reads filled other buffers, and nobody knows whose end was found.
        (
            "read in 20 2M +1, write in>out 4 1M",
            (ReadWrite, Buffer, Some(8), 0, Some(8), 2),
        ),
        // Calls that only failed belong to the only transfer to their file.
        (
            "read in 8 1M +1, write in>out 8 1M, write out 0 0 EAGAIN*3",
            (ReadWrite, Buffer, Some(20), 1, Some(20), 2),
        ),
    ] {
        let one = only(&scene(&format!("copier: {calls}")));
        assert_eq!(figures(&one), expected);
        assert_eq!(
            (one.bytes, one.certainty),
            (Some(MIB), one.evidence.certainty())
        );
        let by_name: u64 = one.calls_by_syscall.values().sum();
        assert_eq!(Some(by_name), one.calls, "{one:?}");
    }
}

#[test]
fn without_the_reads_calls_are_left_out() {
    let mut scene = scene("cat: read in 8 1M +1, write in>out 8 1M");
    scene.trace.processes[0].threads[0].rows[1].fills = Fills::UNKNOWN;
    let transfer = only(&scene);
    let expected = (Api::ReadWrite, Evidence::Buffer, None, 0, None, 2);
    assert_eq!(figures(&transfer), expected);
    assert!(transfer.calls_by_syscall.is_empty() && transfer.total_ns.is_none());
}

#[test]
fn what_a_thread_wrote_after_it_had_read_as_much_is_probable() {
    let transfer = only(&scene("cat: read in 8 1M, write in~out 8 1M"));
    let bytes = transfer.bytes.expect("is known");
    assert_eq!(transfer.certainty.amount(bytes), "probably 1.0 MiB");
}

/// A process that wrote bytes of two files in one call, of which the row has the second.
fn scene_of_two_files() -> Scene {
    let mut scene = scene("server: read header 1 100, read body 1 4000, write body>out 1 4100");
    let thread = &mut scene.trace.processes[0].threads[0];
    let [header, _, written] = thread.rows.as_mut_slice() else {
        panic!("three rows")
    };
    written.input_bytes = 4000;
    thread.parts = vec![Part {
        call: Call::native("write"),
        from: Input::Buffer(header.ends.input.expect("reads it").file()),
        to: written.ends.output.expect("writes it"),
        bytes: 100,
        calls: 1,
        fills: Fills {
            calls: 1,
            ..Fills::NONE
        },
    }];
    scene
}

#[test]
fn a_call_that_wrote_bytes_of_two_files_is_in_both_transfers() {
    let calls: Vec<_> = found(&scene_of_two_files())
        .iter()
        .map(|one| (one.bytes, one.calls, one.total_ns))
        .collect();
    assert_eq!(
        calls,
        [(Some(4000), Some(2), None), (Some(100), Some(2), None)]
    );
}

#[test]
fn a_part_of_a_call_whose_row_has_lost_its_files_is_no_transfer() {
    let mut scene = scene_of_two_files();
    let row = scene.trace.processes[0].threads[0].rows.last_mut();
    let row = row.expect("writes");
    row.ends = Ends::default();
    row.input_bytes = 0;
    assert!(found(&scene).is_empty());
    // Another call to the file has a row.
    let another = scene.row("write body>out 1 50");
    scene.trace.processes[0].threads[0].rows.push(another);
    assert_eq!(transfers(&scene), ["body -> out read+write 50"]);
}

#[test]
fn changed_buffers_and_notifications_are_no_transfers() {
    let scene =
        scene("tool: read data 1 40, write data!out 1 40, read eventfd 1 8, write eventfd>out 1 8");
    assert!(found(&scene).is_empty());
}

#[test]
fn a_mapped_file_is_a_source_unless_it_has_the_name_of_the_program() {
    let mut scene = scene("tool: write tool=out 1 20, write codec.so.6=out 1 30");
    scene.trace.processes[0].exe = Some("/usr/bin/tool".into());
    assert_eq!(transfers(&scene), ["codec.so.6 -> out mmap+write 30"]);
}
