//! Rule 8: chains over several processes.

use super::*;
use crate::trace::{FileKind, Loss};

#[test]
fn a_pipeline_is_one_transfer_over_its_processes() {
    let scene = scene(
        "cat: read in 8 1M +1, write in>pipe1 8 1M; tac: read pipe1 8 1M +1, \
         write pipe1>pipe2 8 1M; dd: read pipe2 8 1M +1, write pipe2~out 8 1M",
    );
    assert_eq!(across(&scene), ["in -> out read+write 1048576"]);
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

#[test]
fn two_steps_are_joined_if_one_of_them_has_everything() {
    let cases: [(&str, &str, &[&str]); 7] = [
        (
            "one put in everything, and the other took some of it on",
            "cat: read a 8 9000, write a>pipe 8 9000; grep: read pipe 9 9000, write pipe>b 4 4000",
            &["a -> b read+write 4000"],
        ),
        (
            "one put in everything, and two took it on",
            "cat: read a 8 9000, write a>pipe 8 9000; x: read pipe 8 6000, write pipe>b 8 6000; \
             y: read pipe 8 3000, write pipe>c 8 3000",
            &["a -> b read+write 6000", "a -> c read+write 3000"],
        ),
        (
            "two put something in, and one took everything on",
            "cat: read a 8 6000, write a>pipe 8 6000; cat: read b 8 3000, write b>pipe 8 3000; \
             dd: read pipe 8 9000, write pipe>c 8 9000",
            &["a -> c read+write 6000", "b -> c read+write 3000"],
        ),
        (
            "a program generated some of it, and another took everything on",
            "server: read a 8 6000, write a>pipe 8 6000, write pipe 1 100; \
             client: read pipe 8 6100, write pipe>b 8 6100",
            &["a -> b read+write 6000"],
        ),
        (
            "a program generated some of it, and another took some on",
            "server: read a 8 6000, write a>pipe 8 6000, write pipe 1 100; \
             client: read pipe 8 6100, write pipe>b 8 6000",
            &[],
        ),
        (
            "tee left the bytes in the pipe",
            "cat: read a 8 4000, write a>pipe 8 4000; tee: tee pipe->pipe2 1 4000; \
             dd: read pipe 8 4000, write pipe>b 8 4000",
            &["a -> b read+write 4000"],
        ),
        (
            "a process does not follow itself",
            "program: read a 8 4000, write a>pipe 8 4000, write pipe 1 1, read pipe 8 4001, \
             write pipe>b 8 4001",
            &[],
        ),
    ];
    for (what, processes, expected) in cases {
        assert_eq!(across(&scene(processes)), expected, "{what}");
    }
}

/// `cat first second | program`: it writes the first half of what comes twice, and drops the
/// second; or it writes more than it took.
#[test]
fn a_step_that_wrote_some_bytes_twice_did_not_take_everything_on() {
    let cat = "cat: read a 8 4000, write a>pipe 8 4000";
    for (reads, processes) in [
        (1, cat.to_owned()),
        (2, format!("{cat}; cat: read b 8 4000, write b>pipe 8 4000")),
    ] {
        let taken = reads * 4000;
        let program = format!("program: read pipe {reads} {taken}, write pipe>out 2 8000");
        let mut scene = scene(&format!("{processes}; {program}"));
        let program = scene.trace.processes.last_mut().expect("is there");
        program.threads[0].rows[1].fills.calls = 1;
        assert!(across(&scene).is_empty());
    }
}

#[test]
fn figures_of_a_step_that_moved_other_bytes_are_left_out() {
    let found = found(&scene(
        "cat: read a 8 9000, write a>pipe 8 9000; grep: read pipe 9 9000, write pipe>b 4 4000",
    ));
    let chain = found.iter().find(|one| one.crosses_processes());
    let chain = chain.expect("there is one");
    assert_eq!((chain.calls, chain.total_ns), (None, None));
    assert!(chain.calls_by_syscall.is_empty(), "{chain:?}");
}

#[test]
fn only_what_was_seen_completely_joins_two_steps() {
    let pipeline = "cat: read in 8 1M, write in>pipe 8 1M; dd: read pipe 8 1M, write pipe>out 8 1M";
    let with = |more: &str| across(&scene(&format!("{pipeline}{more}"))).len();
    assert_eq!(with(""), 1);
    // Memory is no pipe.
    assert_eq!(with("; debugger: process_vm_readv - 1 100"), 1);
    assert_eq!(with("; other: write pipe 0 0 cut"), 0);
    assert_eq!(with("; other: read pipe 1 5"), 0);
    let broken: [fn(&mut Scene, FileId); 6] = [
        |scene, pipe| scene.trace.files[pipe.0 as usize].path = Some("/work/fifo".into()),
        |scene, pipe| scene.trace.inherited = Some([scene.open_before(pipe)].into()),
        |scene, _| scene.trace.inherited = None,
        |scene, _| scene.trace.losses = [(Loss::LostEvents, 1)].into(),
        |scene, _| scene.trace.calls_without_files = 1,
        |scene, _| scene.trace.counted = None,
    ];
    for edit in broken {
        let mut scene = scene(pipeline);
        edit(&mut scene, FileId(1));
        assert!(across(&scene).is_empty());
    }
}

#[test]
fn both_ends_of_a_connection_are_found() {
    let mut scene = Scene::new();
    let server = "read in 8 1M, write in>server 8 1M";
    let client = "read client 8 1M, write client>out 8 1M";
    for ends in [
        scene.socketpair(),
        scene.connection("127.0.0.1:1000", "[::ffff:127.0.0.1]:80"),
    ] {
        scene.name("server", ends[0]);
        scene.name("client", ends[1]);
        scene.trace.processes.clear();
        scene.run(&format!("server: {server}; client: {client}"));
        assert_eq!(across(&scene), ["in -> out read+write 1048576"]);
        scene.trace.processes.clear();
        scene.run(&format!("both: {server}, {client}"));
        assert!(across(&scene).is_empty(), "no process follows itself");
    }
}

#[test]
fn anybody_may_send_to_a_named_datagram_socket() {
    let mut scene = Scene::new();
    for (name, end) in ["server", "client"].into_iter().zip(scene.socketpair()) {
        scene.name(name, end);
    }
    scene.run(
        "server: read in 8 1M, write in>server 8 1M; client: read client 8 1M, write client>out 8 1M",
    );
    for (kind, chains) in [(FileKind::UnixStream, 1), (FileKind::UnixDatagram, 0)] {
        for file in &mut scene.trace.files[..2] {
            (file.kind, file.path) = (Some(kind), Some("/run/server".into()));
        }
        assert_eq!(across(&scene).len(), chains, "{kind:?}");
    }
}
