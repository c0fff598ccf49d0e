//! Chains over several processes.

use super::*;
use crate::report::{Certainty, sample::files::written_held};

fn across(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
    analyse(&scene.trace).across.iter().map(short).collect()
}

fn cat(from: FileId, to: FileId) -> Vec<crate::trace::Row> {
    vec![read("read", from, 8, MIB).zero(1), written_after("write", from, to, 8, MIB, MIB)]
}

#[test]
fn a_pipeline_is_one_transfer_over_its_processes() {
    let mut scene = Scene::new();
    let (from, first, second, to) = (scene.regular("in"), scene.pipe(), scene.pipe(), scene.regular("out"));
    scene.process("cat", cat(from, first));
    scene.process("tr", cat(first, second));
    scene.process("dd", cat(second, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    let transfer = &analyse(&scene.trace).across[0];
    assert_eq!(transfer.pids, [1234, 1235, 1236]);
    assert_eq!((transfer.calls, transfer.user_memory_bytes), (51, Some(6 * MIB)));
    assert_eq!(
        transfer.verdict,
        "through 3 processes: cat: read + write, 8 calls of 128 KiB; tr: read + write, 8 calls of 128 KiB; \
         dd: read + write, 8 calls of 128 KiB"
    );
}

#[test]
fn a_way_over_several_processes_is_exact_if_all_of_it_is() {
    let held = |from, to| vec![read("read", from, 8, MIB).zero(1), written_held("write", from, to, 8, MIB, MIB)];
    for (second, certainty) in [(true, Certainty::Exact), (false, Certainty::Inferred)] {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        scene.process("cat", held(from, pipe));
        scene.process("dd", if second { held(pipe, to) } else { cat(pipe, to) });
        let transfer = &analyse(&scene.trace).across[0];
        assert_eq!((transfer.certainty, transfer.bytes), (certainty, Some(MIB)));
        let hops: Vec<_> = transfer.hops.iter().map(|hop| (hop.pid, hop.certainty)).collect();
        assert_eq!(hops, [(1234, Certainty::Exact), (1235, certainty)]);
    }
}

#[test]
fn a_connection_has_two_ends() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    for [near, far] in [scene.socketpair(), scene.connection("127.0.0.1:5000", "127.0.0.1:80")] {
        scene.trace.processes.clear();
        scene.process("client", vec![copy("sendfile", from, near, 1, MIB)]);
        scene.process("server", cat(far, to));
        assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    }
}

#[test]
fn what_others_wrote_or_read_makes_it_none() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let others = [vec![write("write", pipe, 1, 5)], vec![read("read", pipe, 1, 5)], vec![read("recvmmsg", pipe, 1, 0)]];
    for rows in others {
        scene.trace.processes.clear();
        scene.process("cat", cat(from, pipe));
        scene.process("cat", cat(pipe, to));
        scene.process("other", rows);
        assert!(across(&scene).is_empty());
    }
}

#[test]
fn a_very_long_pipeline_is_told_in_short() {
    let mut scene = Scene::new();
    let mut from = scene.regular("in");
    for _ in 0..100 {
        let to = scene.pipe();
        scene.process("cat", cat(from, to));
        from = to;
    }
    let [transfer] = analyse(&scene.trace).across.try_into().expect("is one");
    assert_eq!(transfer.pids.len(), 100);
    assert!(transfer.verdict.starts_with("through 100 processes: cat: ") && transfer.verdict.ends_with("; and 92 more"));
}
