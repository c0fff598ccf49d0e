//! Reads and writes of one thread.

use super::*;

#[test]
fn a_loop_that_balances_is_a_transfer() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    let mut thread = Loop::default();
    for _ in 0..128 {
        thread.read(from, 8192);
        thread.write(to, 8192);
    }
    thread.read(from, 0);
    scene.process("copier", thread.rows());
    assert_eq!(transfers(&scene), one("in", "sock", Api::ReadWrite, MIB));
    let analysis = analyse(&scene.trace);
    let transfer = &analysis.processes[0].transfers[0];
    assert_eq!(transfer.verdict, "read + write, 128 calls of 8 KiB");
    assert_eq!((transfer.calls, transfer.crossings, transfer.user_memory_bytes), (257, 257, Some(2 * MIB)));
    assert_eq!((transfer.calls_by_syscall["read"], transfer.calls_by_syscall["write"]), (129, 128));
    assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
}

#[test]
fn a_message_after_the_loader_is_none() {
    for message in [6, 800, 900] {
        let mut scene = Scene::new();
        let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
        let mut thread = Loop::default();
        thread.read(libc, 832);
        thread.write(stdout, message);
        scene.process("hello", thread.rows());
        let analysis = analyse(&scene.trace);
        assert!(analysis.processes[0].transfers.is_empty(), "{message}: {analysis:?}");
        let unattributed = &analysis.processes[0].unattributed;
        assert_eq!((unattributed.read[0].bytes, unattributed.written[0].bytes), (Some(832), Some(message)));
    }
}

#[test]
fn a_search_is_none() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("log"), scene.regular("found"));
    let mut thread = Loop::default();
    for _ in 0..64 {
        thread.read(from, 32768);
        thread.write(to, 900);
    }
    scene.process("grep", thread.rows());
    assert!(transfers(&scene).is_empty());
}

#[test]
fn a_server_that_answers_is_none_but_an_echo_is() {
    for (answer, found) in [(5000, 0), (101, 0), (99, 0), (100, 1)] {
        let mut scene = Scene::new();
        let socket = scene.file(Tcp, "sock");
        let mut thread = Loop::default();
        for _ in 0..100 {
            thread.read(socket, 100);
            thread.write(socket, answer);
        }
        scene.process("server", thread.rows());
        assert_eq!(transfers(&scene).len(), found, "{answer}");
    }
}

#[test]
fn a_server_with_headers_is_credited_with_what_it_read() {
    let mut scene = Scene::new();
    let (page, socket) = (scene.regular("page.html"), scene.file(Tcp, "sock"));
    let mut thread = Loop::default();
    for _ in 0..100 {
        thread.read(socket, 80);
        thread.read(page, 1000);
        thread.write(socket, 1200);
    }
    scene.process("server", thread.rows());
    assert_eq!(transfers(&scene), one("page.html", "sock", Api::ReadWrite, 100_000));
    let unattributed = &analyse(&scene.trace).processes[0].unattributed;
    assert_eq!((unattributed.read[0].bytes, unattributed.written[0].bytes), (Some(8000), Some(20_000)));
}

#[test]
fn what_wakes_is_no_end() {
    let mut scene = Scene::new();
    let [first, second] = [scene.file(Eventfd, "a"), scene.file(Eventfd, "b")];
    let mut thread = Loop::default();
    for _ in 0..100 {
        thread.read(first, 8);
        thread.write(second, 8);
    }
    scene.process("tokio", thread.rows());
    assert!(transfers(&scene).is_empty());
}

#[test]
fn threads_of_a_process_add_up() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let thread = || {
        let mut thread = Loop::default();
        for _ in 0..10 {
            thread.read(from, 4096);
            thread.write(to, 4096);
        }
        thread.rows()
    };
    scene.threads("copier", vec![thread(), thread()]);
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 20 * 4096));
}

#[test]
fn writes_out_of_a_mapping_are_a_transfer_of_their_own_kind() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    scene.process("copier", vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)]);
    assert_eq!(transfers(&scene), one("in", "sock", Api::MmapWrite, MIB));
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!((transfer.user_memory_bytes, transfer.calls), (Some(MIB), 5));
    assert_eq!(transfer.verdict, "mmap + write, 4 calls of 256 KiB");
}

#[test]
fn constants_of_the_program_are_no_transfer() {
    let mut scene = Scene::new();
    let (program, library, data) = (scene.regular("hello"), scene.regular("libc.so.6"), scene.regular("messages"));
    let to = scene.regular("out");
    let rows = vec![
        written_from("write", program, to, 100, MIB),
        written_from("write", library, to, 100, MIB),
        written_from("write", data, to, 1, 23),
    ];
    scene.process("hello", rows);
    assert!(transfers(&scene).is_empty());
}

#[test]
fn the_last_piece_may_be_shorter() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let rows =
        vec![read("read", from, 733, 3_000_000).zero(1).each(4096), written_after("write", from, to, 733, 3_000_000, 3_000_000)];
    scene.process("dd", rows);
    assert_eq!(analyse(&scene.trace).processes[0].transfers[0].verdict, "read + write, 733 calls of 4 KiB");
}

#[test]
fn bytes_of_the_program_s_own_are_no_part_of_it_but_told() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out.tar"));
    let rows = vec![read("read", from, 100, 1_000_000), written_after("write", from, to, 100, 1_024_000, 1_000_000)];
    scene.process("tar", rows);
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(transfer.bytes, Some(1_000_000));
    assert_eq!(transfer.verdict, "read + write, 100 calls of 9.8 KiB, with 23.4 KiB of other bytes");
    assert_eq!(transfer.hint, None);
}
