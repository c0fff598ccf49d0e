//! What is attributed of each file, and when all transfers are exact.

use super::*;
use crate::transfer::hidden::{BRINGING, POKING};
use crate::{
    report::{
        DestinationTotals, SourceTotals,
        sample::{files::written_held, row},
    },
    syscall::Call,
    trace::{Ends, Loss, OtherCalls, Row},
};

fn copier() -> (Scene, FileId, FileId) {
    let mut scene = Scene::new();
    scene.trace.sees_memory = true;
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    (scene, from, to)
}

fn destination(scene: &Scene) -> DestinationTotals {
    analyse(&scene.trace)
        .processes
        .swap_remove(0)
        .destinations
        .swap_remove(0)
}

/// Written, attributed, proven and unattributed bytes; written, attributed and unattributed calls.
fn figures(one: &DestinationTotals) -> ([u64; 4], [u64; 3]) {
    let bytes = [
        one.written_bytes.expect("is known"),
        one.attributed_bytes,
        one.proven_bytes,
        one.unattributed_bytes.expect("is known"),
    ];
    (
        bytes,
        [
            one.written_calls,
            one.attributed_calls,
            one.unattributed_calls,
        ],
    )
}

#[test]
fn written_is_attributed_plus_unattributed() {
    let (mut scene, from, to) = copier();
    let rows = vec![
        read("read", from, 10, 10_000),
        written_held("write", from, to, 10, 10_500, 10_000)
            .failed(libc::EAGAIN, 3)
            .zero(1),
        write("write", to, 2, 400),
    ];
    scene.process("copier", rows);
    assert_eq!(
        figures(&destination(&scene)),
        ([10_900, 10_000, 10_000, 900], [12, 10, 2])
    );
    let share = &analyse(&scene.trace).processes[0].unattributed.written[0];
    assert_eq!(
        (share.bytes, share.calls, share.partly_attributed_calls),
        (Some(900), 2, 10)
    );
}

#[test]
fn unattributed_bytes_may_be_in_calls_of_a_transfer() {
    let (mut scene, from, to) = copier();
    scene.process(
        "copier",
        vec![
            read("read", from, 10, 10_000),
            written_held("write", from, to, 10, 10_500, 10_000),
        ],
    );
    let share = &analyse(&scene.trace).processes[0].unattributed.written[0];
    assert_eq!(
        (share.bytes, share.calls, share.partly_attributed_calls),
        (Some(500), 0, 10)
    );
}

#[test]
fn a_source_shows_how_much_of_it_was_written_on() {
    let (mut scene, from, to) = copier();
    let other = scene.regular("other");
    let rows = vec![
        read("read", from, 10, 10_000),
        written_held("write", from, to, 8, 8_000, 8_000),
    ];
    scene.process("copier", rows);
    let source = |scene: &Scene| {
        analyse(&scene.trace)
            .processes
            .swap_remove(0)
            .sources
            .swap_remove(0)
    };
    let figures = |source: SourceTotals| {
        (
            source.read_bytes,
            source.read_calls,
            source.written_on_bytes,
        )
    };
    assert_eq!(figures(source(&scene)), (Some(10_000), 10, Some(8_000)));
    // They are written a second time, but more than was read cannot have been written on.
    let twice = written_held("write", from, other, 8, 8_000, 8_000);
    scene.trace.processes[0].threads[0].rows.push(twice);
    assert_eq!(figures(source(&scene)), (Some(10_000), 10, Some(10_000)));
}

/// Whether all transfers of a process with these rows are exact.
fn is_exact(rows: impl Fn(FileId, FileId) -> Vec<Row>) -> bool {
    let (mut scene, from, to) = copier();
    scene.process("copier", rows(from, to));
    analyse(&scene.trace).is_exact
}

#[test]
fn all_transfers_are_exact_if_every_byte_is_proven_or_comes_from_memory() {
    let held = |from, to, held| {
        vec![
            read("read", from, 8, MIB),
            written_held("write", from, to, 8, MIB, held),
        ]
    };
    assert!(is_exact(|_, _| vec![]));
    assert!(is_exact(|from, to| vec![copy(
        "sendfile", from, to, 1, MIB
    )]));
    assert!(is_exact(|from, to| held(from, to, MIB)));
    assert!(is_exact(|from, to| vec![
        map(from, MIB),
        written_from("write", from, to, 1, MIB)
    ]));
    assert!(
        is_exact(|_, to| vec![write("write", to, 1, 23)]),
        "a process that read nothing writes its own bytes"
    );
    assert!(
        !is_exact(|from, to| held(from, to, MIB - 1)),
        "one byte has an unknown source"
    );
    assert!(!is_exact(|from, to| vec![
        read("read", from, 1, 23),
        write("write", to, 1, 23)
    ]));
    assert!(
        !is_exact(|from, to| vec![map(from, 23), write("write", to, 1, 23)]),
        "it may be from the mapping"
    );
    assert!(!is_exact(|from, to| vec![
        read("read", from, 8, MIB),
        written_after("write", from, to, 8, MIB, MIB)
    ]));
    assert!(
        !is_exact(|_, to| vec![write("sendmmsg", to, 1, 0)]),
        "the number of bytes is unknown"
    );
}

#[test]
fn reads_of_the_loader_are_not_a_source() {
    let exact = |bytes| {
        let (mut scene, _, to) = copier();
        let libc = scene.regular("libc.so.6");
        scene.process(
            "hello",
            vec![
                read("read", libc, 1, bytes),
                map(libc, MIB),
                write("write", to, 1, 6),
            ],
        );
        analyse(&scene.trace).is_exact
    };
    assert!(exact(832));
    assert!(!exact(MIB), "it was read as data");
}

#[test]
fn a_child_may_write_what_its_parent_read() {
    let (mut scene, from, to) = copier();
    scene.process("sh", vec![read("read", from, 1, 100)]).pid = 10;
    let child = scene.process("sh", vec![write("write", to, 1, 100)]);
    (child.pid, child.ppid) = (11, Some(10));
    assert!(!analyse(&scene.trace).is_exact);
}

#[test]
fn a_process_that_ran_before_the_trace_has_memory_from_before() {
    let (mut scene, _, to) = copier();
    scene.process("test", vec![write("write", to, 1, 100)]).exe = None;
    assert!(!analyse(&scene.trace).is_exact);
}

#[test]
fn a_loss_that_touches_transfers_makes_them_inexact() {
    let (mut scene, from, to) = copier();
    scene.process("copier", vec![copy("sendfile", from, to, 1, MIB)]);
    for loss in Loss::ALL {
        scene.trace.losses = [(loss, 1)].into();
        assert_eq!(
            analyse(&scene.trace).is_exact,
            !loss.touches_transfers(),
            "{loss:?}"
        );
    }
    scene.trace.losses.clear();
    scene.trace.calls_without_files = 1;
    assert!(!analyse(&scene.trace).is_exact);
}

/// Room for its files may be made while a process copies.
#[test]
fn a_process_some_of_whose_calls_have_no_files_has_lower_bounds() {
    for missing in ["sendfile", "read", "write"] {
        let (mut scene, from, to) = copier();
        let without_files = Row {
            ends: Ends::default(),
            ..write(missing, to, 1, 5)
        };
        scene.process(
            "copier",
            vec![copy("sendfile", from, to, 1, MIB), without_files],
        );
        scene.trace.calls_without_files = 1;
        scene.process("other", vec![copy("sendfile", from, to, 1, MIB)]);
        let figures = analyse(&scene.trace)
            .processes
            .iter()
            .map(|process| process.transfers[0].figure())
            .collect::<Vec<_>>();
        assert_eq!(figures, [Figure::AtLeast, Figure::Exact], "{missing}");
    }
}

#[test]
fn eventfds_do_not_count() {
    let (mut scene, from, to) = copier();
    let wake = scene.file(Eventfd, "eventfd");
    scene.process(
        "tokio",
        vec![
            copy("sendfile", from, to, 1, MIB),
            read("read", wake, 1, 8),
            write("write", wake, 1, 8),
        ],
    );
    assert!(analyse(&scene.trace).is_exact);
}

/// A process may get bytes of a file from one that read it, and need not read anything itself.
#[test]
fn a_process_that_received_bytes_may_write_these() {
    for name in BRINGING.iter().chain(POKING).copied() {
        let (mut scene, _, to) = copier();
        scene.process("writer", vec![write("write", to, 1, 100)]);
        assert!(analyse(&scene.trace).is_exact);
        let sums = |errors| OtherCalls {
            calls: 2,
            errors,
            ..OtherCalls::NONE
        };
        // Who made a call without a row is not known.
        for (errors, is_exact) in [(1, false), (2, true)] {
            scene.trace.other_calls = Some([(Call::native(name), sums(errors))].into());
            assert_eq!(
                (
                    analyse(&scene.trace).is_exact,
                    destination(&scene).memory_bytes == 100
                ),
                (is_exact, is_exact),
                "{name}"
            );
        }
        scene.trace.other_calls = None;
        scene.trace.uncounted = [name.to_owned()].into();
        assert!(!analyse(&scene.trace).is_exact, "{name}");
        scene.trace.uncounted.clear();
        scene.process("receiver", vec![row(name).called(1)]);
        // What was read from another process's memory makes all of the trace incomplete.
        let is_only_its_own = BRINGING.contains(&name) && name != "process_vm_readv";
        assert_eq!(
            destination(&scene).memory_bytes,
            if is_only_its_own { 100 } else { 0 },
            "{name}"
        );
        scene.trace.processes[0].threads[0]
            .rows
            .push(row(name).called(1));
        assert_eq!(destination(&scene).memory_bytes, 0, "{name}");
    }
}
