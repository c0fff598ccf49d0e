//! Rule 7: into a pipe and out of it in one process.

use super::*;

/// A process that copies through a pipe.
const SPLICED: &str = "copier: splice in->pipe 16 1M +1, splice pipe->out 16 1M";
/// Its steps, each by itself.
const STEPS: [&str; 2] = ["in -> pipe splice 1048576", "pipe -> out splice 1048576"];

#[test]
fn into_a_pipe_and_out_of_it_is_one_transfer() {
    let transfer = only(&scene(SPLICED));
    assert_eq!(short(&transfer), "in -> out splice 1048576");
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
    for (calls, expected) in [
        (
            "mmap in 1 1M, vmsplice in=pipe 4 1M, splice pipe->out 4 1M",
            (Api::Vmsplice, Evidence::Mapping, Some(0)),
        ),
        (
            "splice in->pipe 4 1M, read pipe 8 1M +1, write pipe>out 8 1M",
            (Api::ReadWrite, Evidence::Buffer, Some(2 * MIB)),
        ),
    ] {
        let one = only(&scene(&format!("copier: {calls}")));
        assert_eq!((one.api, one.evidence, one.user_memory_bytes), expected);
    }
}

#[test]
fn if_anything_else_went_in_or_came_out_the_steps_stand_by_themselves() {
    for more in [
        ", write pipe 1 5",
        ", read pipe 1 5",
        ", splice other->pipe 1 5",
        ", splice pipe->other 1 5",
        ", write pipe 0 0 cut",
        // Another process had put some in before, or takes some out.
        "; parent: write pipe 1 8",
        "; parent: read pipe 1 8",
    ] {
        let scene = scene(&format!("{SPLICED}{more}"));
        let found = transfers(&scene);
        let has = |step: &&str| found.iter().any(|one| one == step);
        assert!(STEPS.iter().all(has), "{more}: {found:?}");
        assert!(across(&scene).is_empty());
    }
    // Something stayed in the pipe.
    let found = transfers(&scene(
        "copier: splice in->pipe 2 100, splice pipe->out 1 60",
    ));
    assert_eq!(found, ["in -> pipe splice 100", "pipe -> out splice 60"]);
}

#[test]
fn attempts_stay_with_the_first_step() {
    let calls = "copier: splice in->pipe 1 1M @2, splice pipe->out 1 1M @3, \
                 copy_file_range in->out 0 0 EXDEV*1 @1";
    let whole = only(&scene(calls)).attempts;
    assert_eq!(whole.len(), 1);
    let apart = scene(&format!("{calls}; parent: write pipe 1 8"));
    assert_eq!(transfers(&apart), STEPS);
    assert_eq!(found(&apart)[0].attempts, whole);
}

#[test]
fn a_pipe_that_others_may_use_is_an_end() {
    let edits: [fn(&mut Scene, FileId); 3] = [
        |scene, pipe| scene.trace.files[pipe.0 as usize].path = Some("/work/fifo".into()),
        |scene, pipe| scene.trace.inherited = Some([scene.open_before(pipe)].into()),
        |scene, _| scene.trace.inherited = None,
    ];
    for edit in edits {
        let mut scene = scene(SPLICED);
        edit(&mut scene, FileId(1));
        assert_eq!(transfers(&scene).len(), 2);
    }
}
