//! Ends that only their equal byte counts connect.

use super::*;

#[test]
fn a_loop_over_two_threads_is_found_by_its_byte_count() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    let reader = vec![read("read", from, 16, MIB).at(1)];
    scene.threads(
        "tokio",
        vec![reader, vec![write("sendto", to, 40, MIB).at(2)]],
    );
    assert_eq!(transfers(&scene), one("in", "sock", Api::ReadWrite, MIB));
    assert_eq!(
        analyse(&scene.trace).processes[0].unattributed,
        Unattributed::default()
    );
}

#[test]
fn io_uring_reads_and_writes_are_found_by_their_byte_count() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.file(Tcp, "sock"));
    scene.process("copier", vec![]).threads[0].ring_rows = vec![
        read("io_uring:read", from, 16, MIB).at(1),
        write("io_uring:send", to, 20, MIB).at(2),
    ];
    assert_eq!(transfers(&scene), one("in", "sock", Api::IoUring, MIB));
    let transfer = &analyse(&scene.trace).processes[0].transfers[0];
    assert_eq!(
        (
            transfer.calls,
            transfer.crossings,
            transfer.user_memory_bytes
        ),
        (36, None, Some(2 * MIB))
    );
    assert_eq!(
        analyse(&scene.trace).processes[0].unattributed,
        Unattributed::default()
    );
}

#[test]
fn another_count_another_order_or_a_third_file_gives_no_transfer() {
    let mut scene = Scene::new();
    let [from, other] = ["in", "other"].map(|name| scene.regular(name));
    let to = scene.regular("out");
    let cases = [
        // The read begins first but returns later: it may wait for what the other call writes.
        vec![
            read("read", from, 16, MIB).spanning(1, 3),
            write("write", to, 16, MIB).at(2),
        ],
        vec![
            read("read", from, 16, MIB).at(1),
            write("write", to, 16, MIB - MIB / 16).at(2),
        ],
        vec![
            read("read", from, 16, MIB).at(2),
            write("write", to, 16, MIB).at(1),
        ],
        vec![
            read("read", from, 16, MIB).at(1),
            read("read", other, 16, MIB).at(2),
            write("write", to, 16, MIB).at(3),
        ],
        vec![
            read("read", from, 1, 100).at(1),
            write("write", to, 1, 100).at(2),
        ],
    ];
    for rows in cases {
        scene.trace.processes.clear();
        scene.process("copier", rows);
        assert!(transfers(&scene).is_empty(), "{:?}", scene.trace.processes);
    }
}

#[test]
fn a_mapping_of_as_many_bytes_is_the_source() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    scene.process(
        "copier",
        vec![map(from, MIB).at(1), write("write", to, 1, MIB).at(2)],
    );
    assert_eq!(transfers(&scene), one("in", "out", Api::MmapWrite, MIB));

    // Two mappings whose sum is the number by chance.
    scene.trace.processes[0].threads[0].rows[0] = Row {
        calls: 2,
        ..map(from, MIB).at(1)
    };
    assert_eq!(transfers(&scene), []);
}

#[test]
fn a_loop_that_threads_take_turns_in_is_one_transfer() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    // Like tokio's blocking threads: each thread writes what the other one has read.
    let [mut first, mut second] = [Loop::default(), Loop::default()];
    second.read(from, 0);
    for _ in 0..20 {
        first.read(from, 4096);
        first.write(to, 4096);
        second.write(to, 4096);
        second.read(from, 4096);
    }
    scene.threads("tokio", vec![first.rows(), second.rows()]);
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, 40 * 4096)
    );
    let analysis = analyse(&scene.trace);
    assert_eq!(analysis.processes[0].unattributed, Unattributed::default());
    assert_eq!(analysis.processes[0].transfers[0].calls, 81);
}

#[test]
fn bytes_that_may_have_gone_elsewhere_are_subtracted() {
    let mut scene = Scene::new();
    let [from, other] = ["in", "other"].map(|name| scene.regular(name));
    let to = scene.regular("out");
    let reader = vec![
        read("read", from, 16, MIB).at(1),
        written_after("write", from, other, 4, MIB / 4, MIB / 4).at(2),
    ];
    scene.threads(
        "copier",
        vec![reader, vec![write("write", to, 16, MIB).at(3)]],
    );
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, MIB - MIB / 4)
    );
}

#[test]
fn bytes_that_may_have_come_from_elsewhere_are_subtracted() {
    let mut scene = Scene::new();
    let [from, other] = ["in", "other"].map(|name| scene.regular(name));
    let to = scene.regular("out");
    // 4096 bytes of the source went nowhere, and as many came from another file.
    let writer = vec![
        read("read", other, 4, 5000).at(0),
        written_after("write", other, to, 4, 4096, 4096).at(1),
    ];
    let reader = vec![read("read", from, 16, MIB).at(0)];
    scene.threads(
        "copier",
        vec![
            writer,
            reader,
            vec![write("write", to, 16, MIB - 4096).at(3)],
        ],
    );
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, MIB - 4096 - 5000)
    );
}

#[test]
fn a_write_of_other_bytes_is_no_part_of_a_small_total() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("in"), scene.regular("out"));
    let of = |first: &[u8], row: Row| Row {
        first_bytes: FirstBytes::of(first),
        ..row
    };
    let rows = |second: &[u8]| {
        vec![
            of(b"begins", read("read", from, 2, 20_000).at(1)),
            read("pread64", from, 0, 0).zero(1).at(4),
            of(
                b"begins",
                written_after("write", from, to, 1, 10_000, 10_000).at(2),
            ),
            of(second, write("write", to, 1, 10_000).at(3)),
        ]
    };
    scene.process("copier", rows(b"cleared"));
    assert_eq!(transfers(&scene), []);
    scene.trace.processes[0].threads[0].rows = rows(b"begins");
    assert_eq!(transfers(&scene), one("in", "out", Api::ReadWrite, 20_000));

    let vectors = [
        read("readv", from, 1, 20_000).at(1),
        write("writev", to, 1, 20_000).at(2),
    ];
    scene.trace.processes[0].threads[0].rows = vectors
        .map(|row| Row {
            first_bytes: FirstBytes::of(b"begins"),
            ..row
        })
        .into();
    assert_eq!(transfers(&scene), []);
}
