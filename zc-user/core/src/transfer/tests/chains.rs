//! Rule 8: chains over several processes.

use super::*;
use crate::trace::{FileKind::Pipe, Loss};

/// A program that writes from buffers what it had read.
fn held(from: FileId, to: FileId, bytes: u64) -> Vec<Row> {
    vec![
        read("read", from, 8, bytes).zero(1),
        written_held("write", from, to, 8, bytes, bytes),
    ]
}

#[test]
fn a_pipeline_is_one_transfer_over_its_processes() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let (first, second) = (scene.pipe(), scene.pipe());
    scene.process("cat", cat(from, first));
    scene.process("tac", cat(first, second));
    scene.process("dd", cat(second, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    let transfer = found(&scene).remove(0);
    assert_eq!(transfer.pids, [1234, 1235, 1236]);
    assert_eq!(
        (
            transfer.calls,
            transfer.user_memory_bytes,
            transfer.certainty
        ),
        (Some(51), Some(6 * MIB), Certainty::Observed)
    );
    assert_eq!(
        transfer.verdict,
        "through 3 processes: cat: read + write, 8 calls of 128 KiB; \
         tac: read + write, 8 calls of 128 KiB; dd: read + write, 8 calls of 128 KiB"
    );
    let steps = within(&scene);
    assert!(steps.iter().all(|step| step.part_of == [0]), "{steps:?}");
}

#[test]
fn a_chain_is_as_sure_as_its_weakest_step() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", cat(from, pipe));
    scene.process(
        "dd",
        vec![
            read("read", pipe, 8, MIB).zero(1),
            written_after("write", pipe, to, 8, MIB, MIB),
        ],
    );
    let transfer = found(&scene).remove(0);
    assert_eq!(
        (transfer.evidence, transfer.certainty),
        (Evidence::Sequence, Certainty::Inferred)
    );
    let hops: Vec<_> = transfer
        .hops
        .iter()
        .map(|hop| (hop.pid, hop.certainty))
        .collect();
    assert_eq!(
        hops,
        [(1234, Certainty::Observed), (1235, Certainty::Inferred)]
    );
}

#[test]
fn if_one_step_put_in_everything_the_chain_has_what_the_other_took_on() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(from, pipe, 9000));
    let rows = vec![
        read("read", pipe, 9, 9000),
        written_held("write", pipe, to, 4, 4000, 4000),
    ];
    scene.process("grep", rows);
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, 4000));
    let found = found(&scene);
    let chain = found.iter().find(|one| one.crosses_processes());
    let calls = chain.map(|chain| chain.calls);
    assert_eq!(calls, Some(None), "most of cat's calls brought other bytes");
}

#[test]
fn several_programs_can_take_on_what_one_put_in() {
    let mut scene = Scene::new();
    let (from, pipe) = (scene.regular("in"), scene.pipe());
    let [a, b] = ["a", "b"].map(|name| scene.regular(name));
    scene.process("cat", held(from, pipe, 9000));
    scene.process("one", held(pipe, a, 6000));
    scene.process("two", held(pipe, b, 3000));
    let expected = [
        one("in", "a", Api::ReadWrite, 6000),
        one("in", "b", Api::ReadWrite, 3000),
    ];
    assert_eq!(across(&scene), expected.concat());
}

#[test]
fn if_one_step_took_everything_on_the_chain_has_what_each_put_in() {
    let mut scene = Scene::new();
    let [a, b, to] = ["a", "b", "out"].map(|name| scene.regular(name));
    let pipe = scene.pipe();
    scene.process("cat", held(a, pipe, 6000));
    scene.process("cat", held(b, pipe, 3000));
    scene.process("dd", held(pipe, to, 9000));
    let expected = [
        one("a", "out", Api::ReadWrite, 6000),
        one("b", "out", Api::ReadWrite, 3000),
    ];
    assert_eq!(across(&scene), expected.concat());
}

#[test]
fn what_the_program_generated_does_not_end_a_chain() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let mut rows = held(from, pipe, 6000);
    rows.push(write("write", pipe, 1, 100));
    scene.process("server", rows);
    scene.process("client", held(pipe, to, 6100));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, 6000));
}

#[test]
fn if_neither_has_everything_there_is_no_chain() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let mut rows = held(from, pipe, 6000);
    rows.push(write("write", pipe, 1, 100));
    scene.process("server", rows);
    let rows = vec![
        read("read", pipe, 8, 6100),
        written_held("write", pipe, to, 8, 6000, 6000),
    ];
    scene.process("client", rows);
    let steps = [
        one("in", "pipe", Api::ReadWrite, 6000),
        one("pipe", "out", Api::ReadWrite, 6000),
    ];
    assert_eq!(
        (across(&scene), transfers(&scene)),
        (vec![], steps.concat())
    );
}

/// `cat first second | program`, which writes the first half of what comes twice, and drops the
/// second.
#[test]
fn a_step_that_wrote_some_bytes_twice_and_others_never_took_not_everything_on() {
    let mut scene = Scene::new();
    let [first, second, to] = ["first", "second", "out"].map(|name| scene.regular(name));
    let pipe = scene.pipe();
    scene.process("cat", held(first, pipe, 4000));
    scene.process("cat", held(second, pipe, 4000));
    let mut thread = Loop::seen();
    thread.read(pipe, 4000);
    thread.write(to, 4000);
    thread.write(to, 4000);
    thread.read(pipe, 4000);
    scene.looping("program", thread);
    assert!(across(&scene).is_empty());
}

#[test]
fn a_step_that_wrote_more_than_it_took_is_in_no_chain() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(from, pipe, 4000));
    let mut thread = Loop::seen();
    thread.read(pipe, 4000);
    thread.write(to, 4000);
    thread.write(to, 4000);
    scene.looping("program", thread);
    assert!(across(&scene).is_empty());
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
    let broken: [fn(&mut Scene, FileId); 7] = [
        |scene, pipe| scene.trace.files[pipe.0 as usize].path = Some("/work/fifo".into()),
        |scene, pipe| scene.trace.inherited = Some([scene.open_before(pipe)].into()),
        |scene, _| scene.trace.inherited = None,
        |scene, _| scene.trace.losses = [(Loss::LostEvents, 1)].into(),
        |scene, _| scene.trace.calls_without_files = 1,
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
fn a_pipe_with_a_name_is_never_seen_completely() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let pipe = scene.file(Pipe, "fifo");
    scene.process("cat", cat(from, pipe));
    scene.process("dd", cat(pipe, to));
    assert!(across(&scene).is_empty());
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
    }
}

#[test]
fn tee_leaves_its_bytes_where_they_were() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let (first, second) = (scene.pipe(), scene.pipe());
    scene.process("cat", cat(from, first));
    scene.process("tee", vec![copy("tee", first, second, 1, MIB)]);
    scene.process("dd", cat(first, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
}

#[test]
fn a_process_does_not_follow_itself() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let ends = scene.socketpair();
    let rows = [cat(from, ends[0]), cat(ends[1], to)].concat();
    scene.process("program", rows);
    assert!(across(&scene).is_empty());
}
