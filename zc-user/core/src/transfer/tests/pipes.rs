//! Into a pipe and out of it in one process.

use super::*;
use crate::{
    report::{Certainty, Unattributed},
    trace::{FileKind::Pipe, Loss, Thread},
};

#[test]
fn into_a_pipe_and_out_of_it_is_one_transfer() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.file(Tcp, "sock"));
    let rows = vec![
        copy("splice", from, pipe, 16, MIB).zero(1),
        copy("splice", pipe, to, 16, MIB),
    ];
    scene.process("copier", rows);
    assert_eq!(transfers(&scene), one("in", "sock", Api::Splice, MIB));
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(
        (transfer.calls, transfer.verdict.as_str()),
        (33, "splice, 16 calls of 64 KiB")
    );
}

#[test]
fn splices_by_io_uring_are_joined_too() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("copier", vec![]).threads[0].ring_rows = vec![
        copy("io_uring:splice", from, pipe, 16, MIB).zero(1),
        copy("io_uring:splice", pipe, to, 16, MIB),
    ];
    assert_eq!(transfers(&scene), one("in", "out", Api::IoUring, MIB));
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(
        (
            transfer.calls,
            transfer.crossings,
            transfer.user_memory_bytes
        ),
        (33, None, Some(0))
    );
    assert_eq!(
        analyse(&scene.trace).processes[0].unattributed,
        Unattributed::default()
    );
}

#[test]
fn bytes_that_stayed_in_the_pipe_are_a_transfer_into_it() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process(
        "copier",
        vec![
            copy("splice", from, pipe, 2, 100),
            copy("splice", pipe, to, 1, 60),
        ],
    );
    let expected = [
        one("in", "out", Api::Splice, 60),
        one("in", "pipe", Api::Splice, 40),
    ]
    .concat();
    assert_eq!(transfers(&scene), expected);
    let analysis = analyse(&scene.trace);
    assert!(
        analysis.processes[0]
            .transfers
            .iter()
            .all(|transfer| transfer.certainty == Certainty::Exact)
    );
    assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
}

/// For example, the program reads what it spliced in, and writes zeroes into the pipe instead.
#[test]
fn a_pipe_that_was_also_read_and_written_is_not_joined() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let rows = vec![
        copy("splice", from, pipe, 20, MIB),
        read("read", pipe, 20, MIB),
        write("write", pipe, 20, MIB),
        copy("splice", pipe, to, 20, MIB),
    ];
    scene.process("python3", rows);
    let legs = [
        one("in", "pipe", Api::Splice, MIB),
        one("pipe", "out", Api::Splice, MIB),
    ]
    .concat();
    let mut found = transfers(&scene);
    found.sort();
    assert_eq!(found, legs);
    assert!(
        analyse(&scene.trace).processes[0]
            .transfers
            .iter()
            .all(|transfer| transfer.certainty == Certainty::Exact)
    );
}

#[test]
fn a_pipe_that_another_process_uses_is_not_joined() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process(
        "copier",
        vec![
            copy("splice", from, pipe, 1, 100),
            copy("splice", pipe, to, 1, 100),
        ],
    );
    for rows in [
        vec![write("write", pipe, 1, 5)],
        vec![read("read", pipe, 1, 5)],
    ] {
        scene.trace.processes.truncate(1);
        scene.process("other", rows);
        assert_eq!(analyse(&scene.trace).processes[0].transfers.len(), 2);
    }
}

#[test]
fn a_joined_transfer_shows_its_hops_and_is_exact_only_if_the_pipe_is_closed() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process(
        "copier",
        vec![
            copy("splice", from, pipe, 1, 100),
            copy("splice", pipe, to, 1, 100),
        ],
    );
    let certainty = |trace: &Trace| {
        let [transfer] = analyse(trace)
            .processes
            .swap_remove(0)
            .transfers
            .try_into()
            .expect("is one");
        assert_eq!(
            transfer
                .hops
                .iter()
                .map(|hop| (hop.pid, hop.bytes))
                .collect::<Vec<_>>(),
            [(1234, Some(100)); 2]
        );
        assert!(
            transfer
                .hops
                .iter()
                .all(|hop| hop.certainty == Certainty::Exact)
        );
        transfer.certainty
    };
    assert_eq!(certainty(&scene.trace), Certainty::Exact);
    let change: [fn(&mut Trace); 5] = [
        |trace| trace.files[1].path = Some("/work/fifo".into()),
        |trace| trace.calls_without_files = 1,
        |trace| trace.counted = Some("splice".parse().expect("a call")),
        |trace| trace.counted = None,
        |trace| trace.losses = [(Loss::UncountedCalls, 1)].into(),
    ];
    for change in change {
        let mut trace = scene.trace.clone();
        change(&mut trace);
        assert_eq!(certainty(&trace), Certainty::Inferred);
    }
}

#[test]
fn sources_that_took_turns_keep_their_destinations() {
    let mut scene = Scene::new();
    let pipe = scene.pipe();
    let rows = (0..3).flat_map(|index| {
        let (from, to) = (
            scene.regular(&format!("in{index}")),
            scene.regular(&format!("out{index}")),
        );
        let bytes = (index + 1) * 1000;
        [
            copy("splice", from, pipe, 1, bytes).at(index * 2),
            copy("splice", pipe, to, 1, bytes).at(index * 2 + 1),
        ]
    });
    let rows = rows.collect();
    scene.process("copier", rows);
    let found: Vec<_> = transfers(&scene)
        .into_iter()
        .map(|(from, to, _, bytes)| (from, to, bytes))
        .collect();
    let expected = [2, 1, 0].map(|index| {
        (
            format!("in{index}"),
            format!("out{index}"),
            Some((index + 1) * 1000),
        )
    });
    assert_eq!(found, expected);
    let certainties = |scene: &Scene| -> Vec<Certainty> {
        analyse(&scene.trace).processes[0]
            .transfers
            .iter()
            .map(|transfer| transfer.certainty)
            .collect()
    };
    assert_eq!(certainties(&scene), [Certainty::Exact; 3]);
    // With several calls each, the last ones count: a single thread makes one call after the other.
    scene.trace.processes[0].threads[0]
        .rows
        .iter_mut()
        .for_each(|row| row.calls = 2);
    assert_eq!(certainties(&scene), [Certainty::Exact; 3]);
    let mut threads = Scene {
        trace: scene.trace.clone(),
    };
    threads.trace.processes[0].threads.push(Thread::default());
    assert_eq!(
        certainties(&threads),
        [Certainty::Inferred; 3],
        "a call of another thread may end later"
    );
    // Bytes of the second source may have entered while some of the first were still in the pipe.
    scene.trace.processes[0].threads[0].rows[1].last_order = Some(3);
    assert_eq!(transfers(&scene).len(), 6);
}

#[test]
fn a_pipe_shared_by_several_sources_and_destinations_is_not_joined() {
    let mut scene = Scene::new();
    let pipe = scene.pipe();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| scene.regular(name));
    let rows = vec![
        copy("splice", a, pipe, 1, 10).at(1),
        copy("splice", b, pipe, 1, 20).at(2),
        copy("splice", pipe, c, 1, 15).at(3),
        copy("splice", pipe, d, 1, 15).at(4),
    ];
    scene.process("copier", rows);
    assert_eq!(transfers(&scene).len(), 4);
}

#[test]
fn lent_memory_comes_from_memory_or_the_file_that_it_maps() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let out = || copy("splice", pipe, to, 16, MIB);
    scene.process(
        "copier",
        vec![
            map(from, MIB),
            written_from("vmsplice", from, pipe, 16, MIB),
            out(),
        ],
    );
    assert_eq!(transfers(&scene), one("in", "out", Api::Vmsplice, MIB));
    // For a backend that does not see buffers: the mapping has as many bytes.
    scene.trace.processes[0].threads[0].rows =
        vec![map(from, MIB), write("vmsplice", pipe, 16, MIB), out()];
    assert_eq!(transfers(&scene), one("in", "out", Api::Vmsplice, MIB));
    scene.trace.processes[0].threads[0].rows = vec![write("vmsplice", pipe, 16, MIB), out()];
    assert_eq!(transfers(&scene), one("memory", "out", Api::Vmsplice, MIB));
}

#[test]
fn a_failed_splice_into_a_pipe_is_an_attempt() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let rows = vec![
        copy("splice", from, pipe, 0, 0)
            .failed(libc::EINVAL, 1)
            .at(1),
        read("read", from, 16, MIB).at(2),
        written_after("write", from, to, 16, MIB, MIB).at(3),
    ];
    scene.process("copier", rows);
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, MIB));
    let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
    let expected = "read + write, 16 calls of 64 KiB, perhaps changed or replaced on the way, after splice (EINVAL): ";
    assert!(verdict.starts_with(expected), "{verdict}");
}

#[test]
fn a_pipe_from_outside_may_have_held_other_bytes() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process(
        "copier",
        vec![
            copy("splice", from, pipe, 16, MIB),
            copy("splice", pipe, to, 16, MIB),
        ],
    );
    assert_eq!(transfers(&scene), one("in", "out", Api::Splice, MIB));
    scene.trace.inherited = Some([scene.open_before(pipe)].into());
    let expected = [
        one("in", "pipe", Api::Splice, MIB),
        one("pipe", "out", Api::Splice, MIB),
    ]
    .concat();
    assert_eq!(transfers(&scene), expected);
}

#[test]
fn not_every_transfer_is_exact_if_a_joined_one_is_not() {
    let mut scene = Scene::new();
    let (from, pipe, fifo, to) = (
        scene.regular("in"),
        scene.pipe(),
        scene.file(Pipe, "fifo"),
        scene.regular("out"),
    );
    for (through, is_exact) in [(pipe, true), (fifo, false)] {
        scene.trace.processes.clear();
        scene.process(
            "copier",
            vec![
                copy("splice", from, through, 16, MIB),
                copy("splice", through, to, 16, MIB),
            ],
        );
        let analysis = analyse(&scene.trace);
        let certainty = if is_exact {
            Certainty::Exact
        } else {
            Certainty::Inferred
        };
        assert_eq!(
            (
                analysis.processes[0].transfers[0].certainty,
                analysis.is_exact
            ),
            (certainty, is_exact)
        );
    }
}
