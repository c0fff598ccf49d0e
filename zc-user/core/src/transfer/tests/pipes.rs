//! Rule 7: into a pipe and out of it in one process.

use super::*;
use crate::trace::FileKind::Pipe;

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
    let transfer = only(&scene);
    assert_eq!(
        (transfer.calls, transfer.verdict.as_str()),
        (Some(33), "splice, 16 calls of 64 KiB")
    );
    let hops: Vec<_> = transfer.hops.iter().map(|hop| hop.bytes).collect();
    assert_eq!(hops, [Some(MIB), Some(MIB)]);
    assert_eq!(transfer.user_memory_bytes, Some(0));
}

#[test]
fn it_has_the_interface_that_costs_more_and_the_weaker_evidence() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let mut rows = vec![map(from, MIB), written_from("vmsplice", from, pipe, 4, MIB)];
    rows.push(copy("splice", pipe, to, 4, MIB));
    scene.process("copier", rows);
    let transfer = only(&scene);
    assert_eq!(
        (transfer.api, transfer.evidence),
        (Api::Vmsplice, Evidence::Mapping)
    );
    scene.trace.processes.clear();
    let mut rows = vec![copy("splice", from, pipe, 4, MIB)];
    rows.extend(cat(pipe, to));
    scene.process("copier", rows);
    let transfer = only(&scene);
    assert_eq!(
        (transfer.api, transfer.evidence, transfer.user_memory_bytes),
        (Api::ReadWrite, Evidence::Buffer, Some(2 * MIB))
    );
}

#[test]
fn if_anything_else_went_in_or_came_out_the_steps_stand_by_themselves() {
    let others: [fn(FileId, FileId) -> Row; 5] = [
        |pipe, _| write("write", pipe, 1, 5),
        |pipe, _| read("read", pipe, 1, 5),
        |pipe, other| copy("splice", other, pipe, 1, 5),
        |pipe, other| copy("splice", pipe, other, 1, 5),
        |pipe, _| write("write", pipe, 0, 0).unfinished(1),
    ];
    for more in others {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        let other = scene.regular("other");
        let rows = vec![
            copy("splice", from, pipe, 1, 100),
            copy("splice", pipe, to, 1, 100),
            more(pipe, other),
        ];
        scene.process("copier", rows);
        let found = transfers(&scene);
        let steps = [
            one("in", "pipe", Api::Splice, 100),
            one("pipe", "out", Api::Splice, 100),
        ]
        .concat();
        assert!(steps.iter().all(|step| found.contains(step)), "{found:?}");
    }
}

#[test]
fn bytes_that_stayed_in_the_pipe_keep_the_steps_apart() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let rows = vec![
        copy("splice", from, pipe, 2, 100),
        copy("splice", pipe, to, 1, 60),
    ];
    scene.process("copier", rows);
    let expected = [
        one("in", "pipe", Api::Splice, 100),
        one("pipe", "out", Api::Splice, 60),
    ];
    assert_eq!(transfers(&scene), expected.concat());
}

/// A process splices as many bytes out of a pipe as it had put in, but not the same ones: another
/// process had put some in before, or it takes some out.
#[test]
fn a_pipe_that_another_process_uses_is_an_end() {
    let others: [fn(FileId) -> Row; 2] = [
        |pipe| write("write", pipe, 1, 8),
        |pipe| read("read", pipe, 1, 8),
    ];
    for other in others {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        let rows = vec![
            copy("splice", from, pipe, 0, 0)
                .failed(libc::EINVAL, 1)
                .at(1),
            copy("copy_file_range", from, to, 0, 0)
                .failed(libc::EXDEV, 1)
                .at(2),
            copy("splice", from, pipe, 1, 100).at(3),
            copy("splice", pipe, to, 1, 100).at(4),
        ];
        scene.process("copier", rows);
        assert_eq!(transfers(&scene), one("in", "out", Api::Splice, 100));
        let whole = only(&scene).attempts;
        scene.process("parent", vec![other(pipe)]);
        let expected = [
            one("in", "pipe", Api::Splice, 100),
            one("pipe", "out", Api::Splice, 100),
        ];
        assert_eq!(transfers(&scene), expected.concat());
        assert!(across(&scene).is_empty());
        assert_eq!(within(&scene)[0].attempts, whole);
    }
}

#[test]
fn a_pipe_that_others_may_use_is_an_end() {
    let rows = |from, pipe, to| {
        vec![
            copy("splice", from, pipe, 1, 100),
            copy("splice", pipe, to, 1, 100),
        ]
    };
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let named = scene.file(Pipe, "fifo");
    scene.process("copier", rows(from, named, to));
    assert_eq!(transfers(&scene).len(), 2);

    let inherited = scene.pipe();
    scene.trace.processes.clear();
    scene.process("copier", rows(from, inherited, to));
    assert_eq!(transfers(&scene).len(), 1);
    let before = scene.open_before(inherited);
    scene.trace.inherited = Some([before].into());
    assert_eq!(transfers(&scene).len(), 2);
    scene.trace.inherited = None;
    assert_eq!(transfers(&scene).len(), 2);
}

#[test]
fn a_failed_splice_through_a_pipe_is_an_attempt() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let mut rows = cat(from, to);
    for row in &mut rows {
        row.order = Some(5);
    }
    rows.push(
        copy("splice", from, pipe, 0, 0)
            .failed(libc::EINVAL, 1)
            .at(1),
    );
    scene.process("copier", rows);
    let transfer = only(&scene);
    assert_eq!(transfer.attempts.len(), 1);
    assert_eq!(transfer.attempts[0].syscall, "splice");
}
