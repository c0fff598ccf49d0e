//! Rule 7: into a pipe and out of it in one process.

use super::*;

/// A process that copies from `in` through a pipe to `out`.
fn through_pipe(rows: impl Fn(FileId, FileId, FileId) -> Vec<Row>) -> (Scene, FileId) {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("copier", rows(from, pipe, to));
    (scene, pipe)
}

fn spliced(from: FileId, pipe: FileId, to: FileId) -> Vec<Row> {
    vec![
        copy("splice", from, pipe, 16, MIB).zero(1),
        copy("splice", pipe, to, 16, MIB),
    ]
}

/// The steps of [`spliced`], each by itself.
fn steps() -> Vec<Short> {
    let into = one("in", "pipe", Api::Splice, MIB);
    [into, one("pipe", "out", Api::Splice, MIB)].concat()
}

#[test]
fn into_a_pipe_and_out_of_it_is_one_transfer() {
    let transfer = only(&through_pipe(spliced).0);
    assert_eq!(vec![short(&transfer)], one("in", "out", Api::Splice, MIB));
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
    let figures = |(scene, _)| {
        let transfer = only(&scene);
        (transfer.api, transfer.evidence, transfer.user_memory_bytes)
    };
    let lent = |from, pipe, to| {
        vec![
            map(from, MIB),
            written_from("vmsplice", from, pipe, 4, MIB),
            copy("splice", pipe, to, 4, MIB),
        ]
    };
    assert_eq!(
        figures(through_pipe(lent)),
        (Api::Vmsplice, Evidence::Mapping, Some(0))
    );
    let read = |from, pipe, to| {
        let mut rows = cat(pipe, to);
        rows.push(copy("splice", from, pipe, 4, MIB));
        rows
    };
    assert_eq!(
        figures(through_pipe(read)),
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
        let (mut scene, pipe) = through_pipe(spliced);
        let other = scene.regular("other");
        scene.trace.processes[0].threads[0]
            .rows
            .push(more(pipe, other));
        let found = transfers(&scene);
        assert!(steps().iter().all(|step| found.contains(step)), "{found:?}");
    }
}

#[test]
fn bytes_that_stayed_in_the_pipe_keep_the_steps_apart() {
    let (scene, _) = through_pipe(|from, pipe, to| {
        vec![
            copy("splice", from, pipe, 2, 100),
            copy("splice", pipe, to, 1, 60),
        ]
    });
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
        let (mut scene, pipe) = through_pipe(|from, pipe, to| {
            let failed = copy("copy_file_range", from, to, 0, 0).failed(libc::EXDEV, 1);
            let mut rows = spliced(from, pipe, to).into_iter().map(|row| row.at(2));
            let mut rows: Vec<Row> = rows.by_ref().collect();
            rows.push(failed.at(1));
            rows
        });
        let whole = only(&scene).attempts;
        assert_eq!(whole.len(), 1);
        scene.process("parent", vec![other(pipe)]);
        assert_eq!(transfers(&scene), steps());
        assert!(across(&scene).is_empty());
        assert_eq!(found(&scene)[0].attempts, whole);
    }
}

#[test]
fn a_pipe_that_others_may_use_is_an_end() {
    let edits: [fn(&mut Scene, FileId); 3] = [
        |scene, pipe| scene.trace.files[pipe.0 as usize].path = Some("/work/fifo".into()),
        |scene, pipe| scene.trace.inherited = Some([scene.open_before(pipe)].into()),
        |scene, _| scene.trace.inherited = None,
    ];
    for edit in edits {
        let (mut scene, pipe) = through_pipe(spliced);
        edit(&mut scene, pipe);
        assert_eq!(transfers(&scene).len(), 2);
    }
}
