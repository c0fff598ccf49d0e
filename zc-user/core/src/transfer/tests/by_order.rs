//! Reads and writes of one thread, with and without a backend that sees memory.

use std::rc::Rc;

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
    assert_eq!(
        transfer.verdict,
        "read + write, 128 calls of 8 KiB, perhaps changed or replaced on the way"
    );
    assert_eq!(
        (
            transfer.calls,
            transfer.crossings,
            transfer.user_memory_bytes
        ),
        (257, Some(257), Some(2 * MIB))
    );
    assert_eq!(
        (
            transfer.calls_by_syscall["read"],
            transfer.calls_by_syscall["write"]
        ),
        (129, 128)
    );
    assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
}

/// Reads from two files and then writes to two files, over and over.
fn two_in_turn(mut thread: Loop) -> Vec<(String, String, Api, Option<u64>)> {
    let mut scene = Scene::new();
    let [(first, copy_of_first), (second, copy_of_second)] =
        [("a", "A"), ("b", "B")].map(|(from, to)| (scene.regular(from), scene.regular(to)));
    for _ in 0..100 {
        thread.read_to(4096, first, 4096);
        thread.read_to(16384, second, 4096);
        thread.write_from(4096, copy_of_first, 4096);
        thread.write_from(16384, copy_of_second, 4096);
    }
    scene.trace.sees_memory = true;
    scene.process("copier", thread.rows());
    transfers(&scene)
}

#[test]
fn memory_tells_interleaved_copies_apart_and_order_does_not() {
    let copied = |from, to| one(from, to, Api::ReadWrite, 409_600);
    assert_eq!(
        two_in_turn(Loop::seen()),
        [copied("a", "A"), copied("b", "B")].concat()
    );
    assert_eq!(two_in_turn(Loop::default()), []);
}

#[test]
fn writes_from_other_memory_in_between_are_not_part_of_a_loop() {
    for mut thread in [Loop::seen(), Loop::default()] {
        let mut scene = Scene::new();
        let [from, to, progress] = ["in", "out", "progress"].map(|name| scene.regular(name));
        for _ in 0..100 {
            thread.read(from, 8192);
            thread.write_from(0, progress, 30);
            thread.write(to, 8192);
        }
        scene.process("copier", thread.rows());
        assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 819_200));
        let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
        assert!(
            verdict.starts_with("read + write, 100 calls of 8 KiB"),
            "{verdict}"
        );
    }
}

#[test]
fn a_program_that_writes_much_more_than_it_reads_copies_nothing() {
    for mut thread in [Loop::seen(), Loop::default()] {
        let mut scene = Scene::new();
        let [from, to] = ["in", "hex"].map(|name| scene.regular(name));
        for _ in 0..100 {
            thread.read(from, 4096);
            for _ in 0..4 {
                thread.write_from(0, to, 4096);
            }
        }
        scene.process("xxd", thread.rows());
        assert!(transfers(&scene).is_empty());
    }
}

/// Four copies by three threads. The threads take turns: one reads a piece, and another one may
/// write it.
fn passed_on(threads: [Loop; 3], sees_memory: bool) -> Vec<(String, String, Api, Option<u64>)> {
    let mut threads = threads;
    let mut scene = Scene::new();
    let ends: Vec<_> = (0..4)
        .map(|copy| {
            (
                scene.regular(&format!("in{copy}")),
                scene.regular(&format!("out{copy}")),
            )
        })
        .collect();
    for round in 0..60 {
        for (copy, (place, &(from, to))) in (1_u64..).map(|copy| copy << 20).zip(&ends).enumerate()
        {
            threads[(round + copy) % 3].read_to(place, from, 4096);
            threads[(round * 2 + copy * 2) % 3].write_from(place, to, 4096);
        }
    }
    scene.trace.sees_memory = sees_memory;
    scene.threads("go", threads.map(Loop::rows).into());
    let mut found = transfers(&scene);
    found.sort();
    found
}

#[test]
fn memory_shows_work_that_threads_pass_on_and_order_does_not() {
    let expected: Vec<_> = (0..4)
        .flat_map(|n| {
            one(
                &format!("in{n}"),
                &format!("out{n}"),
                Api::ReadWrite,
                60 * 4096,
            )
        })
        .collect();
    let memory = Rc::default();
    assert_eq!(
        passed_on(std::array::from_fn(|_| Loop::sharing(&memory)), true),
        expected
    );
    assert_eq!(
        passed_on(std::array::from_fn(|_| Loop::default()), false),
        []
    );
}

#[test]
fn a_transfer_states_its_evidence() {
    for (mut thread, evidence) in [
        (Loop::seen(), Evidence::Memory),
        (Loop::default(), Evidence::Order),
    ] {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        thread.read(from, 4096);
        thread.write(to, 4096);
        scene.process("copier", thread.rows());
        assert_eq!(
            analyse(&scene.trace).processes[0].transfers[0].evidence,
            Some(evidence)
        );
    }
}

#[test]
fn figures_shared_by_several_destinations_add_up() {
    let mut scene = Scene::new();
    let from = scene.regular("in");
    let mut thread = Loop::seen();
    let pieces: Vec<FileId> = (0..100)
        .map(|index| scene.regular(&index.to_string()))
        .collect();
    for chunk in pieces.chunks(10) {
        thread.read(from, 40960);
        for (index, &piece) in (0..).zip(chunk) {
            thread.write_from(Loop::BUFFER + index * 4096, piece, 4096);
        }
    }
    scene.process("split", thread.rows());
    let transfers = &analyse(&scene.trace).processes[0].transfers;
    let sum = |figure: fn(&Transfer) -> u64| transfers.iter().map(figure).sum::<u64>();
    assert_eq!(
        (transfers.len(), sum(|one| one.bytes.unwrap_or(0))),
        (100, 409_600)
    );
    assert_eq!(
        sum(|one| one.calls),
        100,
        "10 reads divided by 100 transfers round down to 0 each"
    );
    assert!(sum(|one| one.crossings.unwrap_or(0)) <= 110);
}

#[test]
fn a_message_after_the_loader_is_not_a_transfer() {
    for message in [6, 800, 900] {
        let mut scene = Scene::new();
        let (libc, stdout) = (scene.regular("libc.so.6"), scene.regular("tty"));
        let mut thread = Loop::default();
        thread.read(libc, 832);
        thread.write(stdout, message);
        scene.process("hello", thread.rows());
        let analysis = analyse(&scene.trace);
        assert!(
            analysis.processes[0].transfers.is_empty(),
            "{message}: {analysis:?}"
        );
        let unattributed = &analysis.processes[0].unattributed;
        assert_eq!(
            (unattributed.read[0].bytes, unattributed.written[0].bytes),
            (Some(832), Some(message))
        );
    }
}

#[test]
fn a_search_is_not_a_transfer() {
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
fn answers_are_not_transfers_but_an_echo_that_memory_shows_is() {
    let answers = |mut thread: Loop, answer, place| {
        let mut scene = Scene::new();
        let socket = scene.file(Tcp, "sock");
        for _ in 0..100 {
            thread.read(socket, 100);
            thread.write_from(place, socket, answer);
        }
        scene.process("server", thread.rows());
        transfers(&scene)
    };
    let echo = |bytes| one("sock", "sock", Api::ReadWrite, bytes);
    for (answer, echoed) in [(5000, 10_000), (101, 10_000), (99, 9_900), (100, 10_000)] {
        assert_eq!(answers(Loop::seen(), answer, Loop::BUFFER), echo(echoed));
        assert_eq!(answers(Loop::seen(), answer, 0), [], "from other memory");
        assert_eq!(
            answers(Loop::default(), answer, 0),
            [],
            "if memory is unseen, an answer may be as long as the question"
        );
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
    // All but the first page: a single write that is longer than what was read is no evidence.
    assert_eq!(
        transfers(&scene),
        one("page.html", "sock", Api::ReadWrite, 99_000)
    );
}

#[test]
fn an_eventfd_is_not_an_end() {
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
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, 20 * 4096)
    );
}

#[test]
fn writes_from_a_mapping_have_an_api_of_their_own() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    scene.process(
        "copier",
        vec![map(from, MIB), written_from("sendto", from, to, 4, MIB)],
    );
    assert_eq!(transfers(&scene), one("in", "sock", Api::MmapWrite, MIB));
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!((transfer.user_memory_bytes, transfer.calls), (Some(MIB), 5));
    assert_eq!(transfer.verdict, "mmap + write, 4 calls of 256 KiB");
}

#[test]
fn constants_of_the_program_are_not_a_transfer_but_mapped_data_is() {
    let mut scene = Scene::new();
    let (program, library, data) = (
        scene.regular("hello"),
        scene.regular("libc.so.6"),
        scene.regular("messages"),
    );
    let to = scene.regular("out");
    let rows = vec![
        written_from("write", program, to, 100, MIB),
        written_from("write", library, to, 100, MIB),
        written_from("write", data, to, 1, 23),
    ];
    scene.process("hello", rows);
    assert_eq!(
        transfers(&scene),
        one("messages", "out", Api::MmapWrite, 23)
    );
}

#[test]
fn the_last_piece_may_be_shorter() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let rows = vec![
        read("read", from, 733, 3_000_000).zero(1).each(4096),
        written_after("write", from, to, 733, 3_000_000, 3_000_000),
    ];
    scene.process("dd", rows);
    let verdict = &analyse(&scene.trace).processes[0].transfers[0].verdict;
    assert!(
        verdict.starts_with("read + write, 733 calls of 4 KiB, "),
        "{verdict}"
    );
}

#[test]
fn bytes_of_the_program_itself_are_not_part_of_a_loop() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out.tar"));
    let rows = vec![
        read("read", from, 100, 1_000_000),
        written_after("write", from, to, 100, 1_024_000, 1_000_000),
    ];
    scene.process("tar", rows);
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(transfer.bytes, Some(1_000_000));
    assert_eq!(
        transfer.verdict,
        "read + write, 100 calls of 9.8 KiB, perhaps changed or replaced on the way"
    );
    assert_eq!(transfer.hint, None);
}

#[test]
fn a_write_that_begins_with_other_bytes_does_not_complete_a_loop() {
    let mut scene = Scene::new();
    let [from, to, other] = ["in", "out", "other"].map(|name| scene.regular(name));
    let of = |first_bytes: &[u8], row: Row| Row {
        first_bytes: FirstBytes::of(first_bytes),
        moved_order: Some(1),
        ..row
    };
    // The program's own 1000 bytes make up for the 1000 that went to `other`, which are too few to
    // be shown.
    let rows = |own: &[u8]| {
        vec![
            of(b"read first", read("read", from, 40, 40_000)),
            of(own, write("write", to, 1, 1000)),
            of(
                b"read first",
                written_after("sendto", from, to, 39, 39_000, 39_000),
            ),
            of(
                b"read later",
                written_after("sendto", from, other, 1, 1000, 1000),
            ),
        ]
    };
    scene.process("copier", rows(b"its own"));
    let copied = |bytes| one("in", "out", Api::ReadWrite, bytes);
    assert_eq!(transfers(&scene), copied(39_000));

    // Without the first bytes, that write looks like the last piece.
    scene.trace.processes[0].threads[0].rows = rows(b"");
    assert_eq!(transfers(&scene), copied(40_000));
}

/// `ar` reads the first block to look at it, then the whole file, and writes a header, too.
#[test]
fn no_more_is_inferred_than_the_source_has() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("archive"));
    scene.trace.files[0].size_bytes = Some(12 * 4096);
    let mut thread = Loop::default();
    thread.read(from, 4096);
    for _ in 0..12 {
        thread.read(from, 4096);
        thread.write(to, 4096);
    }
    thread.write(to, 4096);
    scene.process("ar", thread.rows());
    assert_eq!(
        transfers(&scene),
        one("in", "archive", Api::ReadWrite, 12 * 4096)
    );
    let analysis = analyse(&scene.trace);
    assert_eq!(
        analysis.processes[0].unattributed.written[0].bytes,
        Some(4096)
    );
}

/// One `read` and one `write` of 100 bytes are as long as each other by chance more often than not.
#[test]
fn few_small_calls_are_a_loop_only_if_they_begin_with_the_same_bytes() {
    let copied = |read_head: &[u8], written_head: &[u8]| {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let of = |first_bytes: &[u8], row: Row| Row {
            first_bytes: FirstBytes::of(first_bytes),
            ..row
        };
        let rows = [
            of(read_head, read("read", from, 1, 100)),
            of(written_head, written_after("write", from, to, 1, 100, 100)),
        ];
        scene.process("copier", rows.into());
        transfers(&scene)
    };
    assert_eq!(
        copied(b"the same text", b"the same text"),
        one("in", "out", Api::ReadWrite, 100)
    );
    assert_eq!(copied(b"the same text", b"another text"), []);
    assert_eq!(copied(&[0; 16], &[0; 16]), [], "zeroes are everywhere");
    assert_eq!(copied(b"", b""), [], "nothing is known of either");
}

#[test]
fn vectors_are_no_loop_because_their_elements_may_be_anywhere() {
    let first_bytes = FirstBytes::of(b"the same text");
    for (reads, writes, calls) in [
        ("readv", "write", 1),
        ("read", "writev", 1),
        ("recvmsg", "write", 40),
        ("read", "writev", 40),
    ] {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        // Other bytes are written as well, so that the totals differ.
        let rows = [
            read(reads, from, calls, 60_000),
            written_after(writes, from, to, calls, 60_000, 60_000),
            write("sendto", to, 1, 100),
        ];
        scene.process("copier", rows.map(|row| Row { first_bytes, ..row }).into());
        assert_eq!(transfers(&scene), []);
    }
}

#[test]
fn bytes_of_another_process_are_subtracted() {
    let mut scene = Scene::new();
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    let rows = vec![
        read("read", from, 2, 8192).at(1),
        peek(3000).at(2),
        written_after("write", from, to, 2, 8192, 8192).at(3),
    ];
    scene.process("copier", rows);
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, 8192 - 3000)
    );
}
