//! Rules 2 to 5: what was written from memory that a read had filled, or that maps a file; and what
//! a thread wrote after it had read as much.

use std::{cell::RefCell, rc::Rc};

use super::*;
use crate::report::sample::files::Memory;

#[test]
fn what_was_written_from_a_buffer_is_a_transfer() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process("cat", cat(from, to));
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, MIB));
    let transfer = only(&scene);
    assert_eq!(
        (transfer.evidence, transfer.certainty),
        (Evidence::Buffer, Certainty::Observed)
    );
    assert_eq!(transfer.verdict, "read + write, 8 calls of 128 KiB");
    assert_eq!(
        (transfer.calls, transfer.crossings, transfer.zero_calls),
        (Some(17), Some(17), 1),
        "with the read at the end of the source"
    );
    assert_eq!(transfer.user_memory_bytes, Some(2 * MIB));
    assert_eq!(transfer.calls_by_syscall["read"], 9);
}

#[test]
fn more_bytes_than_were_read_are_only_probably_from_there() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 1, 4000),
        written_held("write", from, to, 3, 12_000, 12_000),
    ];
    scene.process("again", rows);
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 12_000));
    let transfer = only(&scene);
    assert_eq!(
        (transfer.evidence, transfer.certainty),
        (Evidence::Reused, Certainty::Inferred)
    );
    assert!(
        transfer.verdict.contains("more bytes than it read"),
        "{}",
        transfer.verdict
    );
}

#[test]
fn the_buffer_may_be_another_threads() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let memory = Rc::new(RefCell::new(Memory::default()));
    let (mut reader, mut writer) = (Loop::sharing(&memory), Loop::sharing(&memory));
    for _ in 0..3 {
        reader.read(from, 4096);
        writer.write(to, 4096);
    }
    scene.threads("copier", vec![reader.rows(), writer.rows()]);
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 12_288));
    assert_eq!(only(&scene).calls, Some(6));
}

#[test]
fn a_call_that_wrote_bytes_of_two_files_is_in_both_transfers() {
    let mut scene = Scene::new();
    let [header, body, to] = ["header", "body", "out"].map(|name| scene.regular(name));
    let mut thread = Loop::seen();
    thread.read_to(0, header, 100);
    thread.read_to(100, body, 4000);
    thread.write_from(0, to, 4100);
    scene.looping("server", thread);
    let found = within(&scene);
    let calls: Vec<_> = found
        .iter()
        .map(|one| (one.bytes, one.calls, one.total_ns))
        .collect();
    assert_eq!(
        calls,
        [(Some(4000), Some(2), None), (Some(100), Some(2), None)]
    );
}

#[test]
fn the_rest_of_a_call_is_the_programs_own() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 2, 4000),
        written_held("writev", from, to, 2, 4200, 4000),
    ];
    scene.process("server", rows);
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 4000));
    let report = Report::from_trace(&scene.trace, &Options::default());
    let destination = &report.processes[0].destinations[0];
    assert_eq!(
        (destination.own_memory_bytes, destination.own_memory_calls),
        (Some(200), 0)
    );
}

#[test]
fn what_was_changed_in_the_buffer_is_no_transfer() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 3, MIB),
        written_changed("write", from, to, 3, MIB, MIB),
    ];
    scene.process("tr", rows);
    assert!(found(&scene).is_empty());
    let report = Report::from_trace(&scene.trace, &Options::default());
    let [destination] = report.processes[0].destinations.as_slice() else {
        panic!("{report:?}")
    };
    let [changed] = destination.changed.as_slice() else {
        panic!("{destination:?}")
    };
    assert_eq!(
        (changed.from.path.as_deref(), changed.bytes, changed.calls),
        (Some("in"), MIB, 3)
    );
}

#[test]
fn reads_count_with_every_destination_that_their_bytes_went_to() {
    let mut scene = Scene::new();
    let [from, first, second] = ["in", "a", "b"].map(|name| scene.regular(name));
    let mut thread = Loop::seen();
    for _ in 0..4 {
        thread.read(from, 4096);
        thread.write(first, 4096);
        thread.write(second, 4096);
    }
    thread.read(from, 0);
    scene.looping("tee", thread);
    let calls: Vec<_> = within(&scene).iter().map(|one| one.calls).collect();
    assert_eq!(calls, [Some(9), Some(9)]);
}

#[test]
fn two_loops_over_one_source_have_their_own_reads() {
    let mut scene = Scene::new();
    let [from, first, second] = ["in", "a", "b"].map(|name| scene.regular(name));
    let mut thread = Loop::seen();
    for _ in 0..4 {
        thread.read(from, 4096);
        thread.write(first, 4096);
    }
    for _ in 0..16 {
        thread.read(from, 512);
        thread.write(second, 512);
    }
    thread.read(from, 0);
    scene.looping("program", thread);
    let found: Vec<_> = within(&scene)
        .iter()
        .map(|one| (one.bytes, one.calls, one.zero_calls))
        .collect();
    assert_eq!(
        found,
        [(Some(16_384), Some(8), 0), (Some(8192), Some(32), 0)],
        "nobody knows whose end was found"
    );
}

#[test]
fn without_the_fills_calls_are_left_out() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let mut rows = cat(from, to);
    rows[1].fills = Fills::UNKNOWN;
    scene.process("cat", rows);
    let transfer = only(&scene);
    assert_eq!(
        (transfer.bytes, transfer.calls, transfer.crossings),
        (Some(MIB), None, None)
    );
    assert!(transfer.calls_by_syscall.is_empty() && transfer.total_ns.is_none());
}

#[test]
fn failed_writes_belong_to_the_only_transfer_to_their_file() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    let mut rows = cat(from, to);
    rows.push(write("write", to, 0, 0).failed(libc::EAGAIN, 3));
    scene.process("server", rows);
    let transfer = only(&scene);
    assert_eq!((transfer.calls, transfer.retries["EAGAIN"]), (Some(20), 3));
    assert_eq!(
        transfer.verdict,
        "read + write, 8 calls of 128 KiB, 3 calls retried (EAGAIN)"
    );
}

#[test]
fn what_was_written_from_a_mapping_is_a_transfer() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![map(from, MIB), written_from("write", from, to, 1, MIB)];
    scene.process("copier", rows);
    assert_eq!(transfers(&scene), one("in", "out", Api::MmapWrite, MIB));
    let transfer = only(&scene);
    assert_eq!(
        (transfer.evidence, transfer.certainty),
        (Evidence::Mapping, Certainty::Observed)
    );
    assert_eq!(
        (transfer.calls, transfer.user_memory_bytes),
        (Some(2), Some(MIB))
    );
}

#[test]
fn constants_of_the_program_are_its_own() {
    let mut scene = Scene::new();
    let [program, library, to] = ["tool", "libc.so.6", "out"].map(|name| scene.regular(name));
    let rows = vec![
        written_from("write", program, to, 1, 20),
        written_from("write", library, to, 1, 30),
    ];
    scene.process("tool", rows);
    assert!(found(&scene).is_empty());
}

#[test]
fn what_is_lent_to_a_pipe_has_an_interface_of_its_own() {
    let mut scene = Scene::new();
    let (from, pipe) = (scene.regular("in"), scene.pipe());
    scene.process(
        "copier",
        vec![
            map(from, MIB),
            written_from("vmsplice", from, pipe, 16, MIB),
        ],
    );
    assert_eq!(transfers(&scene), one("in", "pipe", Api::Vmsplice, MIB));
    assert_eq!(only(&scene).user_memory_bytes, Some(0));
}

#[test]
fn operations_of_io_uring_are_an_interface_of_their_own() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process("copier", vec![]).threads[0].ring_rows = vec![
        read("io_uring:read", from, 8, MIB),
        written_held("io_uring:write", from, to, 8, MIB, MIB),
    ];
    let transfer = only(&scene);
    assert_eq!(
        (
            transfer.api,
            transfer.bytes,
            transfer.calls,
            transfer.crossings
        ),
        (Api::IoUring, Some(MIB), Some(16), None)
    );
}

#[test]
fn what_a_thread_wrote_after_it_had_read_as_much_is_inferred() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    scene.process(
        "cat",
        vec![
            read("read", from, 8, MIB).zero(1),
            written_after("write", from, to, 8, MIB, MIB),
        ],
    );
    let transfer = only(&scene);
    assert_eq!(
        (transfer.evidence, transfer.certainty, transfer.calls),
        (Evidence::Sequence, Certainty::Inferred, Some(17))
    );
    assert_eq!(transfer.amount().as_deref(), Some("probably 1.0 MiB"));
}

#[test]
fn files_that_only_notify_are_no_ends() {
    let mut scene = Scene::new();
    let (from, to) = (scene.file(Eventfd, "event"), scene.regular("out"));
    scene.process(
        "program",
        vec![
            read("read", from, 1, 8),
            written_held("write", from, to, 1, 8, 8),
        ],
    );
    assert!(found(&scene).is_empty());
}
