//! Chains over several processes.

use super::*;
use crate::{
    report::{Certainty, sample::files::written_held},
    trace::{FileKind, Row},
};

fn across(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
    analyse(&scene.trace).across.iter().map(short).collect()
}

fn cat(from: FileId, to: FileId) -> Vec<Row> {
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

/// A process that read from a file, and wrote so many of these bytes from where they lay.
fn held(from: FileId, to: FileId, read_bytes: u64, written_bytes: u64) -> Vec<Row> {
    vec![read("read", from, 8, read_bytes).zero(1), written_held("write", from, to, 8, written_bytes, written_bytes)]
}

/// The transfers across processes: from, to, bytes, those of them that are proven.
fn proven_across(scene: &Scene) -> Vec<(String, String, Option<u64>, Option<u64>, Certainty)> {
    let across = analyse(&scene.trace).across;
    let name = |end: &crate::report::End| end.path.clone().expect("a name").rsplit('/').next().expect("a part").to_owned();
    let told = |one: &Transfer| (name(&one.from), name(&one.to), one.bytes, one.proven_bytes, one.certainty);
    let mut told: Vec<_> = across.iter().map(told).collect();
    told.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    told
}

#[test]
fn sources_of_one_destination_are_exact_if_it_took_all() {
    let mut scene = Scene::new();
    let (a, b, pipe, to) = (scene.regular("a"), scene.regular("b"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(a, pipe, MIB, MIB));
    scene.process("cat", held(b, pipe, 100, 100));
    scene.process("dd", held(pipe, to, MIB + 100, MIB + 100));
    let exact = |from: &str, bytes| (from.to_owned(), "out".to_owned(), Some(bytes), Some(bytes), Certainty::Exact);
    assert_eq!(proven_across(&scene), [exact("a", MIB), exact("b", 100)]);
}

#[test]
fn destinations_of_one_source_are_exact() {
    let mut scene = Scene::new();
    let (from, pipe) = (scene.regular("in"), scene.pipe());
    let [c, d] = ["c", "d"].map(|name| scene.regular(name));
    scene.process("cat", held(from, pipe, MIB, MIB));
    scene.process("head", held(pipe, c, 1000, 600));
    scene.process("cat", held(pipe, d, MIB - 1000, MIB - 1000));
    let exact = |to: &str, bytes| ("in".to_owned(), to.to_owned(), Some(bytes), Some(bytes), Certainty::Exact);
    assert_eq!(proven_across(&scene), [exact("c", 600), exact("d", MIB - 1000)]);
}

#[test]
fn a_header_before_the_file_makes_it_a_lower_bound() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let [server, client] = scene.connection("127.0.0.1:80", "127.0.0.1:5000");
    scene.process("server", vec![write("write", server, 1, 200), copy("sendfile", from, server, 1, MIB)]);
    scene.process("client", held(client, to, MIB + 200, MIB));
    let told = proven_across(&scene);
    assert_eq!(told, [("in".to_owned(), "out".to_owned(), Some(MIB - 200), Some(MIB - 200), Certainty::Inferred)]);
    // Of bytes that may come from elsewhere, nothing is said.
    scene.process("other", vec![write("write", server, 1, 2 * MIB), read("read", client, 1, 2 * MIB)]);
    assert!(proven_across(&scene).is_empty());
}

#[test]
fn what_others_wrote_or_read_unseen_makes_it_none() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    for rows in [vec![read("read", pipe, 1, 5)], vec![read("recvmmsg", pipe, 1, 0)]] {
        scene.trace.processes.clear();
        scene.process("cat", cat(from, pipe));
        scene.process("cat", cat(pipe, to));
        scene.process("other", rows);
        assert!(across(&scene).is_empty());
    }
    // A pipe with a name is open to everybody.
    let fifo = scene.file(FileKind::Pipe, "fifo");
    scene.trace.processes.clear();
    scene.process("cat", cat(from, fifo));
    scene.process("cat", cat(fifo, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    scene.process("other", vec![write("write", fifo, 1, 5), read("read", fifo, 1, 5)]);
    assert!(across(&scene).is_empty());
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
