//! Rule 8: chains over several processes.

use super::*;
use crate::trace::Loss;

#[test]
fn a_pipeline_is_one_transfer_over_its_processes() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let (first, second) = (scene.pipe(), scene.pipe());
    scene.process("cat", cat(from, first));
    scene.process("tac", cat(first, second));
    let rows = vec![
        read("read", second, 8, MIB).zero(1),
        written_after("write", second, to, 8, MIB, MIB),
    ];
    scene.process("dd", rows);
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    let all = found(&scene);
    let (transfer, steps) = all.split_first().expect("there are some");
    assert_eq!(transfer.pids, [1234, 1235, 1236]);
    assert_eq!(
        (transfer.calls, transfer.user_memory_bytes),
        (Some(51), Some(6 * MIB))
    );
    // It is as sure as its weakest step.
    assert_eq!(
        (transfer.evidence, transfer.certainty),
        (Evidence::Sequence, Certainty::Inferred)
    );
    let hops = transfer.hops.iter().map(|hop| (hop.pid, hop.evidence));
    let expected = [
        (1234, Evidence::Buffer),
        (1235, Evidence::Buffer),
        (1236, Evidence::Sequence),
    ];
    assert!(hops.eq(expected), "{transfer:?}");
    assert_eq!(
        transfer.verdict,
        "through 3 processes: cat: read + write, 8 calls of 128 KiB; \
         tac: read + write, 8 calls of 128 KiB; dd: read + write, 8 calls of 128 KiB"
    );
    assert!(steps.iter().all(|step| step.part_of == [0]), "{steps:?}");
}

/// The files `a`, `b`, `out` and `other`, and a pipe.
type EndsOfPipeline = [FileId; 5];

/// The chains, as source, destination and bytes, if these processes run.
fn chains(processes: fn(EndsOfPipeline) -> Vec<Vec<Row>>) -> Vec<(String, String, u64)> {
    let mut scene = Scene::new();
    let [a, b, out, other] = ["a", "b", "out", "other"].map(|name| scene.regular(name));
    let pipe = scene.pipe();
    for rows in processes([a, b, out, other, pipe]) {
        scene.process("program", rows);
    }
    let chains = across(&scene).into_iter();
    let figures = |(from, to, _, bytes): Short| (from, to, bytes.expect("known"));
    chains.map(figures).collect()
}

/// Rows with one more.
fn with(mut rows: Vec<Row>, more: Row) -> Vec<Row> {
    rows.push(more);
    rows
}

/// Writes of `bytes` in two calls, from the buffer that one read had filled.
fn written_twice(from: FileId, to: FileId, bytes: u64) -> Row {
    let mut row = written_held("write", from, to, 2, bytes, bytes);
    row.fills.calls = 1;
    row
}

#[test]
fn two_steps_are_joined_if_one_of_them_has_everything() {
    type Case = (
        &'static str,
        fn(EndsOfPipeline) -> Vec<Vec<Row>>,
        &'static [(&'static str, &'static str, u64)],
    );
    let cases: [Case; 9] = [
        (
            "one put in everything, and the other took some of it on",
            |[a, _, out, _, pipe]| {
                let some = written_held("write", pipe, out, 4, 4000, 4000);
                vec![held(a, pipe, 9000), vec![read("read", pipe, 9, 9000), some]]
            },
            &[("a", "out", 4000)],
        ),
        (
            "one put in everything, and two took it on",
            |[a, _, out, other, pipe]| {
                vec![
                    held(a, pipe, 9000),
                    held(pipe, out, 6000),
                    held(pipe, other, 3000),
                ]
            },
            &[("a", "out", 6000), ("a", "other", 3000)],
        ),
        (
            "two put something in, and one took everything on",
            |[a, b, out, _, pipe]| {
                vec![
                    held(a, pipe, 6000),
                    held(b, pipe, 3000),
                    held(pipe, out, 9000),
                ]
            },
            &[("a", "out", 6000), ("b", "out", 3000)],
        ),
        (
            "a program generated some of it, and another took everything on",
            |[a, _, out, _, pipe]| {
                let generated = write("write", pipe, 1, 100);
                vec![with(held(a, pipe, 6000), generated), held(pipe, out, 6100)]
            },
            &[("a", "out", 6000)],
        ),
        (
            "a program generated some of it, and another took some on",
            |[a, _, out, _, pipe]| {
                let generated = write("write", pipe, 1, 100);
                let some = written_held("write", pipe, out, 8, 6000, 6000);
                vec![
                    with(held(a, pipe, 6000), generated),
                    vec![read("read", pipe, 8, 6100), some],
                ]
            },
            &[],
        ),
        (
            "one wrote the first half of what came twice, and dropped the second",
            |[a, b, out, _, pipe]| {
                let twice = written_twice(pipe, out, 8000);
                vec![
                    held(a, pipe, 4000),
                    held(b, pipe, 4000),
                    vec![read("read", pipe, 2, 8000), twice],
                ]
            },
            &[],
        ),
        (
            "one wrote more than it took",
            |[a, _, out, _, pipe]| {
                let twice = written_twice(pipe, out, 8000);
                vec![
                    held(a, pipe, 4000),
                    vec![read("read", pipe, 1, 4000), twice],
                ]
            },
            &[],
        ),
        (
            "tee left the bytes in the pipe",
            |[a, _, out, other, pipe]| {
                vec![
                    held(a, pipe, 4000),
                    vec![copy("tee", pipe, other, 1, 4000)],
                    held(pipe, out, 4000),
                ]
            },
            &[("a", "out", 4000)],
        ),
        (
            "a process does not follow itself",
            |[a, _, out, _, pipe]| {
                let mut rows = with(held(a, pipe, 4000), write("write", pipe, 1, 1));
                rows.extend(held(pipe, out, 4001));
                vec![rows]
            },
            &[],
        ),
    ];
    for (what, processes, expected) in cases {
        let found = chains(processes);
        let found = found
            .iter()
            .map(|(from, to, bytes)| (from.as_str(), to.as_str(), *bytes));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{what}");
    }
}

#[test]
fn figures_of_a_step_that_moved_other_bytes_are_left_out() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(from, pipe, 9000));
    let some = written_held("write", pipe, to, 4, 4000, 4000);
    scene.process("grep", vec![read("read", pipe, 9, 9000), some]);
    let found = found(&scene);
    let chain = found.iter().find(|one| one.crosses_processes());
    let chain = chain.expect("there is one");
    assert_eq!((chain.calls, chain.total_ns), (None, None));
    assert!(chain.calls_by_syscall.is_empty(), "{chain:?}");
}

/// A pipeline through this pipe.
fn pipeline(edit: impl FnOnce(&mut Scene, FileId)) -> Vec<Short> {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", cat(from, pipe));
    scene.process("dd", cat(pipe, to));
    edit(&mut scene, pipe);
    across(&scene)
}

#[test]
fn only_what_was_seen_completely_joins_two_steps() {
    assert_eq!(pipeline(|_, _| {}).len(), 1);
    let peeks = |scene: &mut Scene, _| {
        scene.process("debugger", vec![peek(100)]);
    };
    assert_eq!(pipeline(peeks).len(), 1, "memory is no pipe");
    let broken: [fn(&mut Scene, FileId); 8] = [
        |scene, pipe| scene.trace.files[pipe.0 as usize].path = Some("/work/fifo".into()),
        |scene, pipe| scene.trace.inherited = Some([scene.open_before(pipe)].into()),
        |scene, _| scene.trace.inherited = None,
        |scene, _| scene.trace.losses = [(Loss::LostEvents, 1)].into(),
        |scene, _| scene.trace.calls_without_files = 1,
        |scene, _| scene.trace.counted = None,
        |scene, pipe| {
            scene.process("other", vec![write("write", pipe, 0, 0).unfinished(1)]);
        },
        |scene, pipe| {
            scene.process("other", vec![read("read", pipe, 1, 5)]);
        },
    ];
    for edit in broken {
        assert!(pipeline(edit).is_empty());
    }
}

#[test]
fn both_ends_of_a_connection_are_found() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    for ends in [
        scene.socketpair(),
        scene.connection("127.0.0.1:1000", "[::ffff:127.0.0.1]:80"),
    ] {
        scene.trace.processes.clear();
        scene.process("server", cat(from, ends[0]));
        scene.process("client", cat(ends[1], to));
        assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
        scene.trace.processes.clear();
        scene.process("both", [cat(from, ends[0]), cat(ends[1], to)].concat());
        assert!(across(&scene).is_empty(), "no process follows itself");
    }
}
