//! Chains of flows over several processes.

use super::*;
use crate::{
    report::{Certainty, sample::files::written_held},
    trace::{Ends, FileKind, Input, Row, Stream},
};

fn across(scene: &Scene) -> Vec<(String, String, Api, Option<u64>)> {
    analyse(&scene.trace).across.iter().map(short).collect()
}

fn cat(from: FileId, to: FileId) -> Vec<Row> {
    vec![
        read("read", from, 8, MIB).zero(1),
        written_after("write", from, to, 8, MIB, MIB),
    ]
}

#[test]
fn a_pipeline_is_one_transfer_over_its_processes() {
    let mut scene = Scene::new();
    let (from, first, second, to) = (
        scene.regular("in"),
        scene.pipe(),
        scene.pipe(),
        scene.regular("out"),
    );
    scene.process("cat", cat(from, first));
    scene.process("tr", cat(first, second));
    scene.process("dd", cat(second, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    let transfer = &analyse(&scene.trace).across[0];
    assert_eq!(transfer.pids, [1234, 1235, 1236]);
    assert_eq!(
        (transfer.calls, transfer.user_memory_bytes),
        (51, Some(6 * MIB))
    );
    assert_eq!(
        transfer.verdict,
        "through 3 processes, perhaps changed or replaced on the way: cat: read + write, 8 calls of 128 KiB; \
         tr: read + write, 8 calls of 128 KiB; dd: read + write, 8 calls of 128 KiB"
    );
}

#[test]
fn a_chain_is_exact_if_every_hop_is() {
    let held = |from, to| {
        vec![
            read("read", from, 8, MIB).zero(1),
            written_held("write", from, to, 8, MIB, MIB),
        ]
    };
    for (second, certainty) in [(true, Certainty::Exact), (false, Certainty::Inferred)] {
        let mut scene = Scene::new();
        let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
        scene.process("cat", held(from, pipe));
        scene.process(
            "dd",
            if second {
                held(pipe, to)
            } else {
                cat(pipe, to)
            },
        );
        let transfer = &analyse(&scene.trace).across[0];
        assert_eq!((transfer.certainty, transfer.bytes), (certainty, Some(MIB)));
        let hops: Vec<_> = transfer
            .hops
            .iter()
            .map(|hop| (hop.pid, hop.certainty))
            .collect();
        assert_eq!(hops, [(1234, Certainty::Exact), (1235, certainty)]);
    }
}

/// A server looks at a request again and again with `MSG_PEEK`, and writes what it sees each time.
#[test]
fn bytes_that_were_written_twice_do_not_prove_a_chain() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    let source = vec![
        read("read", from, 1, 4096),
        written_held("write", from, pipe, 2, MIB, 4096),
    ];
    scene.process("client", source);
    for (taken, expected) in [(0, None), (MIB, Some(4096))] {
        scene.trace.processes.truncate(1);
        scene.process(
            "server",
            vec![
                read("recvfrom", pipe, 3, taken),
                written_held("write", pipe, to, 3, 3 * MIB, 3 * MIB),
            ],
        );
        let found: Vec<_> = analyse(&scene.trace)
            .across
            .iter()
            .map(|chain| chain.bytes)
            .collect();
        assert_eq!(
            found,
            expected.map_or_else(Vec::new, |bytes| vec![Some(bytes)])
        );
    }
}

/// `cat first second | program`, which writes the first half of what comes twice, and drops the
/// second.
#[test]
fn bytes_that_were_dropped_are_in_no_chain_although_others_were_written_again() {
    let mut scene = Scene::new();
    let [first, second, to] = ["first", "second", "out"].map(|name| scene.regular(name));
    let pipe = scene.pipe();
    scene.process("cat", held(first, pipe, MIB, MIB));
    scene.process("cat", held(second, pipe, MIB, MIB));
    let written = written_held("write", pipe, to, 8, MIB, MIB);
    let again = Row {
        ends: Ends {
            input: Some(Input::ByBufferAgain(pipe)),
            ..written.ends
        },
        ..written.clone()
    };
    scene.process(
        "program",
        vec![read("read", pipe, 16, 2 * MIB).zero(1), written, again],
    );
    assert_eq!(analyse(&scene.trace).across, []);
    // If all that came is of one source, so is all that was written. No more than came can have
    // gone from end to end.
    scene.trace.processes.remove(1);
    scene.trace.processes[1].threads[0].rows[0].bytes = Some(MIB);
    let found: Vec<_> = analyse(&scene.trace)
        .across
        .iter()
        .map(|chain| (chain.bytes, chain.certainty))
        .collect();
    assert_eq!(found, [(Some(MIB), Certainty::Inferred)]);
}

#[test]
fn a_connection_joins_its_two_sockets() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    for [near, far] in [
        scene.socketpair(),
        scene.connection("127.0.0.1:5000", "127.0.0.1:80"),
    ] {
        scene.trace.processes.clear();
        scene.process("client", vec![copy("sendfile", from, near, 1, MIB)]);
        scene.process("server", cat(far, to));
        assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    }
}

/// The rows of a process that read from a file and wrote this many of these bytes from the same
/// buffer.
fn held(from: FileId, to: FileId, read_bytes: u64, written_bytes: u64) -> Vec<Row> {
    vec![
        read("read", from, 8, read_bytes).zero(1),
        written_held("write", from, to, 8, written_bytes, written_bytes),
    ]
}

/// What went from end to end.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    from: String,
    to: String,
    bytes: u64,
    proven_bytes: u64,
    is_exact: bool,
}

fn way(from: &str, to: &str, bytes: u64, is_exact: bool) -> Way {
    Way {
        from: from.into(),
        to: to.into(),
        bytes,
        proven_bytes: bytes,
        is_exact,
    }
}

fn ways(scene: &Scene) -> Vec<Way> {
    let name = |end: &End| {
        end.path
            .as_deref()
            .and_then(|path| path.rsplit('/').next())
            .expect("a name")
            .to_owned()
    };
    let told = |one: &Transfer| Way {
        from: name(&one.from),
        to: name(&one.to),
        bytes: one.bytes.expect("known"),
        proven_bytes: one.proven_bytes.expect("known"),
        is_exact: one.certainty == Certainty::Exact,
    };
    let mut ways: Vec<_> = analyse(&scene.trace).across.iter().map(told).collect();
    ways.sort();
    ways
}

#[test]
fn sources_of_one_destination_are_exact_if_it_took_all() {
    let mut scene = Scene::new();
    let (a, b, pipe, to) = (
        scene.regular("a"),
        scene.regular("b"),
        scene.pipe(),
        scene.regular("out"),
    );
    scene.process("cat", held(a, pipe, MIB, MIB));
    scene.process("cat", held(b, pipe, 100, 100));
    scene.process("dd", held(pipe, to, MIB + 100, MIB + 100));
    assert_eq!(
        ways(&scene),
        [way("a", "out", MIB, true), way("b", "out", 100, true)]
    );
}

#[test]
fn destinations_of_one_source_are_exact() {
    let mut scene = Scene::new();
    let (from, pipe) = (scene.regular("in"), scene.pipe());
    let [c, d] = ["c", "d"].map(|name| scene.regular(name));
    scene.process("cat", held(from, pipe, MIB, MIB));
    scene.process("head", held(pipe, c, 1000, 600));
    scene.process("cat", held(pipe, d, MIB - 1000, MIB - 1000));
    assert_eq!(
        ways(&scene),
        [way("in", "c", 600, true), way("in", "d", MIB - 1000, true)]
    );
}

#[test]
fn a_header_before_the_file_makes_it_a_lower_bound() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let [server, client] = scene.connection("127.0.0.1:80", "127.0.0.1:5000");
    scene.process(
        "server",
        vec![
            write("write", server, 1, 200),
            copy("sendfile", from, server, 1, MIB),
        ],
    );
    scene.process("client", held(client, to, MIB + 200, MIB));
    assert_eq!(ways(&scene), [way("in", "out", MIB - 200, false)]);
    // If all bytes may come from elsewhere, there is no chain.
    scene.process(
        "other",
        vec![
            write("write", server, 1, 2 * MIB),
            read("read", client, 1, 2 * MIB),
        ],
    );
    assert!(ways(&scene).is_empty());
}

#[test]
fn a_chain_ends_where_others_may_have_read_or_written() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    for rows in [
        vec![read("read", pipe, 1, 5)],
        vec![read("recvmmsg", pipe, 1, 0)],
    ] {
        scene.trace.processes.clear();
        scene.process("cat", cat(from, pipe));
        scene.process("cat", cat(pipe, to));
        scene.process("other", rows);
        assert!(across(&scene).is_empty());
    }
    // Anybody can open a pipe with a name, so the figures have to agree.
    let fifo = scene.file(FileKind::Pipe, "fifo");
    scene.trace.processes.clear();
    scene.process("cat", cat(from, fifo));
    scene.process("cat", cat(fifo, to));
    assert_eq!(across(&scene), one("in", "out", Api::ReadWrite, MIB));
    scene.process(
        "other",
        vec![write("write", fifo, 1, 5), read("read", fifo, 1, 5)],
    );
    assert!(across(&scene).is_empty());
}

#[test]
fn the_verdict_of_a_long_pipeline_is_shortened() {
    let mut scene = Scene::new();
    let mut from = scene.regular("in");
    for _ in 0..100 {
        let to = scene.pipe();
        scene.process("cat", cat(from, to));
        from = to;
    }
    let [transfer] = analyse(&scene.trace).across.try_into().expect("is one");
    assert_eq!(transfer.pids.len(), 100);
    let begins = "through 100 processes, perhaps changed or replaced on the way: cat: ";
    assert!(transfer.verdict.starts_with(begins) && transfer.verdict.ends_with("; and 92 more"));
}

/// The writer is killed in a call. Nobody knows how much that call put into the pipe, so nobody
/// knows whose bytes came out.
#[test]
fn a_write_that_was_cut_off_does_not_prove_a_chain() {
    let mut scene = Scene::new();
    let (from, pipe, to) = (scene.regular("in"), scene.pipe(), scene.regular("out"));
    scene.process("cat", held(from, pipe, MIB, MIB));
    scene.process("dd", held(pipe, to, MIB, MIB));
    assert_eq!(ways(&scene), [way("in", "out", MIB, true)]);
    // The reader is killed in its next read: it wrote nothing of that.
    scene.trace.processes[1].threads[0]
        .rows
        .push(read("read", pipe, 0, 0).unfinished(1));
    assert_eq!(ways(&scene), [way("in", "out", MIB, true)]);
    scene.trace.processes[0].threads[0]
        .rows
        .push(write("write", pipe, 0, 0).unfinished(1));
    assert_eq!(
        ways(&scene),
        [Way {
            proven_bytes: 0,
            ..way("in", "out", MIB, false)
        }]
    );
}

/// A shell starts the command with both ends of a pipe that already holds as many bytes as the
/// command writes and reads.
#[test]
fn a_conduit_from_outside_proves_no_chain() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let pipe = scene.pipe();
    for [near, far] in [[pipe, pipe], scene.socketpair()] {
        for inherited in [near, far] {
            scene.trace.processes.clear();
            scene.trace.inherited = Some([].into());
            scene.process("cat", held(from, near, MIB, MIB));
            scene.process("dd", held(far, to, MIB, MIB));
            assert_eq!(ways(&scene), [way("in", "out", MIB, true)]);
            scene.trace.inherited = Some([scene.open_before(inherited)].into());
            assert_eq!(ways(&scene), [], "nothing but a number speaks for it");
            for (sum, expected) in [
                (
                    1,
                    vec![Way {
                        proven_bytes: 0,
                        ..way("in", "out", MIB, false)
                    }],
                ),
                (2, vec![]),
            ] {
                scene.streams(near).written = Some(Stream {
                    bytes: MIB,
                    sum: 1,
                    ..Stream::default()
                });
                scene.streams(far).read = Some(Stream {
                    bytes: MIB,
                    sum,
                    ..Stream::default()
                });
                assert_eq!(ways(&scene), expected);
            }
            (scene.streams(near).written, scene.streams(far).read) = (None, None);
            scene.trace.inherited = None;
            assert_eq!(
                ways(&scene),
                [Way {
                    proven_bytes: 0,
                    ..way("in", "out", MIB, false)
                }],
                "nothing is known"
            );
        }
    }
}
