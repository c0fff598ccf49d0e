//! What is proven and what is inferred. Neither is ever more than the truth.

use super::*;
use crate::{
    report::{
        Certainty,
        sample::{
            files::{written_changed, written_held},
            row,
        },
    },
    syscall::Call,
    trace::{Input, Language, OtherCalls, Part, Row, Toolchain},
};

/// The only transfer of the only process.
fn only(scene: &Scene) -> Transfer {
    let mut transfers = analyse(&scene.trace).processes.swap_remove(0).transfers;
    assert_eq!(transfers.len(), 1, "{transfers:?}");
    transfers.swap_remove(0)
}

/// Certainty, bytes and proven bytes of a transfer.
fn figures(transfer: &Transfer) -> (Certainty, Option<u64>, Option<u64>) {
    (transfer.certainty, transfer.bytes, transfer.proven_bytes)
}

fn exact(bytes: u64) -> (Certainty, Option<u64>, Option<u64>) {
    (Certainty::Exact, Some(bytes), Some(bytes))
}

fn inferred(bytes: u64, proven: u64) -> (Certainty, Option<u64>, Option<u64>) {
    (Certainty::Inferred, Some(bytes), Some(proven))
}

/// A scene of a backend that sees memory, with two files.
fn seen() -> (Scene, FileId, FileId) {
    let mut scene = Scene::new();
    scene.trace.sees_memory = true;
    let [from, to] = ["in", "out"].map(|name| scene.regular(name));
    (scene, from, to)
}

#[test]
fn each_evidence_has_its_certainty() {
    let (mut scene, from, to) = seen();
    scene.set_windows([from, to], [&[1], &[1]]);
    let cases: [(Vec<Row>, Evidence, Certainty); 4] = [
        (
            vec![copy("sendfile", from, to, 1, MIB)],
            Evidence::Call,
            Certainty::Exact,
        ),
        (
            vec![
                read("read", from, 8, MIB),
                written_held("write", from, to, 8, MIB, MIB),
            ],
            Evidence::Memory,
            Certainty::Exact,
        ),
        (
            vec![map(from, MIB), written_from("write", from, to, 8, MIB)],
            Evidence::Mapping,
            Certainty::Exact,
        ),
        (
            vec![
                read("read", from, 8, MIB),
                written_after("write", from, to, 8, MIB, MIB),
            ],
            Evidence::Order,
            Certainty::Inferred,
        ),
    ];
    for (rows, evidence, certainty) in cases {
        scene.trace.processes.clear();
        scene.process("copier", rows);
        let transfer = only(&scene);
        assert_eq!(
            (transfer.evidence, transfer.certainty, transfer.bytes),
            (Some(evidence), certainty, Some(MIB))
        );
    }
    scene.trace.processes.clear();
    // Equal byte counts are evidence only if the backend does not see memory.
    scene.trace.sees_memory = false;
    scene.threads(
        "copier",
        vec![
            vec![read("read", from, 16, MIB).at(1)],
            vec![write("write", to, 16, MIB).at(2)],
        ],
    );
    assert_eq!(
        (only(&scene).evidence, only(&scene).certainty),
        (Some(Evidence::Totals), Certainty::Inferred)
    );
}

/// Stdio writes some bytes from its own buffer and some directly from that of the caller.
#[test]
fn a_partly_proven_transfer_says_how_much() {
    let (mut scene, from, to) = seen();
    let (all, direct) = (2_999_754, 878_026);
    scene.set_windows([from, to], [&[1, 2], &[1, 2]]);
    let rows = vec![
        read("read", from, 215, 3_000_000).zero(1).each(14_000),
        written_held("write", from, to, 72, direct, direct),
        written_after("write", from, to, 215, all - direct, all - direct),
    ];
    scene.process("fw3", rows);
    let transfer = only(&scene);
    assert_eq!(figures(&transfer), inferred(all, direct));
    assert_eq!(
        transfer.verdict,
        "read + write, 287 calls of 10.2 KiB on average, copied in memory, perhaps changed or replaced on the way"
    );
    assert_eq!(transfer.amount().as_deref(), Some("probably 2.9 MiB"));
    assert_eq!(
        transfer.doubt().as_deref(),
        Some("857.4 KiB of it proven, the rest inferred from the order of calls")
    );
    assert_eq!(transfer.hint, None);
}

#[test]
fn a_little_more_by_order_makes_the_proven_figure_a_lower_bound() {
    let (mut scene, from, to) = seen();
    let rows = vec![
        read("read", from, 1010, 1_010_000),
        written_held("write", from, to, 1000, 1_000_000, 1_000_000),
        written_after("write", from, to, 9, 9_900, 9_900),
    ];
    scene.process("copier", rows);
    assert_eq!(
        figures(&only(&scene)),
        (Certainty::Inferred, Some(1_000_000), Some(1_000_000))
    );
    let unattributed = &analyse(&scene.trace).processes[0].unattributed;
    assert_eq!(
        (unattributed.written[0].bytes, unattributed.written[0].calls),
        (Some(9_900), 9)
    );
}

#[test]
fn memory_proves_bytes_however_few_they_are() {
    let (mut scene, from, to) = seen();
    scene.process(
        "tar",
        vec![
            read("read", from, 1, 100),
            written_held("write", from, to, 1, 10_240, 100),
        ],
    );
    assert_eq!(figures(&only(&scene)), inferred(100, 100));
    let unattributed = &analyse(&scene.trace).processes[0].unattributed;
    assert_eq!(unattributed.written[0].bytes, Some(10_140));
}

#[test]
fn a_thread_may_write_what_another_has_read() {
    let (mut scene, from, to) = seen();
    let zero = scene.regular("zero");
    // The writing thread itself reads as many zeroes.
    let writer = vec![
        read("read", zero, 45, 2_949_120),
        written_held("write", from, to, 45, 2_949_120, 2_949_120),
    ];
    scene.threads(
        "copier",
        vec![writer, vec![read("read", from, 45, 2_949_120)]],
    );
    assert_eq!(
        transfers(&scene),
        one("in", "out", Api::ReadWrite, 2_949_120)
    );
    assert_eq!(figures(&only(&scene)), exact(2_949_120));
}

#[test]
fn a_source_may_feed_several_destinations() {
    let (mut scene, from, to) = seen();
    let other = scene.regular("other");
    let mut thread = Loop::seen();
    for _ in 0..100 {
        thread.read(from, 8192);
        thread.write(to, 8192);
        thread.write(other, 8192);
    }
    scene.looping("tee", thread);
    let analysis = analyse(&scene.trace);
    let found: Vec<_> = analysis.processes[0]
        .transfers
        .iter()
        .map(figures)
        .collect();
    assert_eq!(found, [exact(819_200), exact(819_200)]);
    assert_eq!(analysis.processes[0].unattributed.written, []);
}

#[test]
fn bytes_changed_on_the_way_are_not_a_copy() {
    let (mut scene, from, to) = seen();
    let rows = |same: u64| {
        vec![
            read("read", from, 128, MIB).zero(1).each(8192),
            written_held("write", from, to, same / 8192, same, same),
            written_changed("write", from, to, 128 - same / 8192, MIB - same, MIB - same),
        ]
    };
    // One call that differs is enough: the others may differ where they were not sampled. Replaced
    // bytes do not count.
    for (same, stated, changed) in [
        (0, MIB, "changed or replaced"),
        (MIB - 8192, MIB - 8192, "perhaps changed or replaced"),
    ] {
        scene.trace.processes.clear();
        scene.process("tr", rows(same)).toolchain = Some(Toolchain {
            language: Language::Rust,
            version: "1.95.0".into(),
        });
        let transfer = only(&scene);
        assert_eq!(figures(&transfer), inferred(stated, 0));
        let each = if stated == MIB { "8 KiB" } else { "7.9 KiB" };
        assert_eq!(
            transfer.verdict,
            format!("read + write, 128 calls of {each}, {changed} on the way")
        );
        assert_eq!((transfer.reason, transfer.hint), (None, None));
    }
}

#[test]
fn a_buffer_reused_for_a_message_is_not_a_transfer() {
    let (mut scene, from, to) = seen();
    let rows = vec![
        read("read", from, 1, 4000),
        written_changed("write", from, to, 1, 60, 60),
    ];
    scene.process("program", rows);
    assert_eq!(transfers(&scene), []);
}

/// The local buffer of one function lies where that of another one was.
#[test]
fn other_bytes_in_a_reused_buffer_are_not_a_transfer() {
    let (mut scene, from, to) = seen();
    scene.process(
        "program",
        vec![
            read("read", from, 40, 800_000),
            written_changed("write", from, to, 40, 799_960, 799_960),
        ],
    );
    assert_eq!(transfers(&scene), []);
}

/// One call writes what was read twice, the second time from a copy; or it writes a header before
/// it. Nobody sees which.
#[test]
fn unknown_bytes_next_to_proven_ones_may_be_a_second_copy() {
    let (mut scene, from, to) = seen();
    let reading = || read("read", from, 1, MIB).spanning(10, 20);
    scene.process(
        "twice",
        vec![
            reading(),
            written_held("writev", from, to, 1, 2 * MIB, MIB).spanning(30, 40),
        ],
    );
    assert_eq!(figures(&only(&scene)), inferred(MIB, MIB));
    // Bytes that were written before the source was read cannot be a copy of it.
    scene.trace.processes.clear();
    let other = scene.regular("other");
    let header = written_held("write", other, to, 1, 600, 100).spanning(3, 4);
    let rows = vec![
        read("read", other, 1, 100).spanning(1, 2),
        header,
        reading(),
        written_held("write", from, to, 1, MIB, MIB).spanning(30, 40),
    ];
    scene.process("header", rows);
    let found: Vec<_> = analyse(&scene.trace).processes[0]
        .transfers
        .iter()
        .map(figures)
        .collect();
    assert_eq!(found, [exact(MIB), inferred(100, 100)]);
}

/// A forked process has the memory of its creator, and so what the creator had read.
#[test]
fn a_process_may_write_what_its_creator_read() {
    for (is_copy, reads, expected) in [
        (true, true, inferred(MIB, MIB)),
        (true, false, exact(MIB)),
        (false, false, exact(MIB)),
    ] {
        let (mut scene, from, to) = seen();
        let other = scene.regular("other");
        let source = if reads { from } else { other };
        scene.process("parent", vec![read("read", source, 1, 5000).spanning(1, 2)]);
        let parent = scene.trace.processes[0].pid;
        let rows = vec![
            write("write", to, 1, 5000).spanning(3, 4),
            read("read", from, 1, MIB).spanning(5, 6),
            written_held("write", from, to, 1, MIB, MIB).spanning(7, 8),
        ];
        let child = scene.process("child", rows);
        child.ppid = Some(parent);
        if is_copy {
            child.exe = None;
        }
        let transfers = analyse(&scene.trace).processes.swap_remove(1).transfers;
        assert_eq!(
            transfers.iter().map(figures).collect::<Vec<_>>(),
            [expected],
            "{is_copy} {reads}"
        );
    }
}

#[test]
fn bytes_read_meanwhile_are_subtracted_from_an_inferred_figure() {
    let reads = [(5, 6), (12, 13), (50, 60)];
    for ((entered, left), bytes) in reads.into_iter().zip([MIB, MIB - 5000, MIB]) {
        let mut scene = Scene::new();
        let [from, other, to] = ["in", "other", "out"].map(|name| scene.regular(name));
        let copier = || {
            [
                read("read", from, 100, MIB).spanning(10, 11),
                write("write", to, 100, MIB).spanning(30, 40),
            ]
        };
        let rows = [
            copier().to_vec(),
            vec![read("read", other, 1, 5000).spanning(entered, left)],
        ]
        .concat();
        scene.process("by totals", rows);
        assert_eq!(
            figures(&only(&scene)),
            inferred(bytes, 0),
            "by totals, read at {entered}"
        );
        scene.trace.processes.clear();
        let by_order = written_after("write", from, to, 100, MIB, MIB).spanning(30, 40);
        let [reading, _] = copier();
        scene.process(
            "by order",
            vec![
                reading,
                by_order,
                read("read", other, 1, 5000).spanning(entered, left),
            ],
        );
        assert_eq!(
            figures(&only(&scene)),
            inferred(bytes, 0),
            "by order, read at {entered}"
        );
    }
}

#[test]
fn without_a_sample_nothing_is_proven() {
    let (mut scene, from, to) = seen();
    let rows = vec![
        read("read", from, 16, MIB),
        Row {
            checked_calls: 0,
            ..written_held("write", from, to, 16, MIB, MIB)
        },
    ];
    scene.process("copier", rows);
    let transfer = only(&scene);
    assert_eq!(figures(&transfer), inferred(MIB, 0));
    assert_eq!(transfer.evidence, Some(Evidence::Memory));
}

/// A program maps a file and writes a copy of it, and then reads the file and writes it once more;
/// or the other way round.
#[test]
fn bytes_of_a_mapped_file_may_be_written_a_second_time_from_what_was_read() {
    let (mut scene, from, to) = seen();
    let own = || write("write", to, 1, MIB).spanning(20, 21);
    let rows = [
        vec![
            map(from, MIB).spanning(10, 11),
            own(),
            read("read", from, 1, MIB).spanning(30, 31),
            written_held("write", from, to, 1, MIB, MIB).spanning(40, 41),
        ],
        vec![
            read("read", from, 1, MIB).spanning(10, 11),
            own(),
            map(from, MIB).spanning(30, 31),
            written_from("write", from, to, 1, MIB).spanning(40, 41),
        ],
    ];
    for rows in rows {
        scene.trace.processes.clear();
        scene.process("twice", rows);
        assert_eq!(figures(&only(&scene)), inferred(MIB, MIB));
    }
}

/// Like the records of tar: one call writes the end of one file, a header, and the beginning of the
/// next file.
#[test]
fn calls_that_write_from_several_files_count_for_each() {
    let (mut scene, first, to) = seen();
    let second = scene.regular("second");
    let rows = vec![
        read("read", first, 2, 15_000),
        read("read", second, 1, 3_000),
        written_held("write", first, to, 2, 20_480, 15_000),
    ];
    let part = Part {
        call: Call::native("write"),
        from: Input::ByBuffer(second),
        to,
        bytes: 3_000,
        calls: 1,
        checked_calls: 1,
    };
    scene.process("tar", rows).threads[0].parts = vec![part];
    let analysis = analyse(&scene.trace);
    let [large, small] = analysis.processes[0].transfers.as_slice() else {
        panic!("{analysis:?}")
    };
    // The rest of the bytes may be copies of them, as far as anybody sees.
    assert_eq!(
        (figures(large), figures(small)),
        (inferred(15_000, 15_000), inferred(3_000, 3_000))
    );
    assert_eq!(
        (
            &small.calls_by_syscall["write"],
            small.calls,
            small.total_ns
        ),
        (&1, 2, None)
    );
    assert_eq!(
        analysis.processes[0].unattributed.written[0].bytes,
        Some(2_480)
    );
}

/// A thread reads and then writes its own bytes, while another one writes what it read.
#[test]
fn bytes_that_another_thread_wrote_are_not_inferred_again() {
    let (mut scene, from, to) = seen();
    let reader = vec![
        read("read", from, 1, 4096),
        written_after("write", from, to, 1, 4096, 4096),
    ];
    let writer = vec![
        read("read", from, 1, 4095),
        written_held("write", from, to, 1, 4096, 4096),
    ];
    scene.threads("program", vec![reader, writer]);
    assert_eq!(figures(&only(&scene)), inferred(4096, 4096));
}

#[test]
fn bytes_that_other_threads_read_and_keep_are_subtracted() {
    let mut scene = Scene::new();
    let [from, other, to] = ["in", "other", "out"].map(|name| scene.regular(name));
    let copier = || {
        vec![
            read("read", from, 100, MIB),
            written_after("write", from, to, 100, MIB, MIB),
        ]
    };
    scene.threads(
        "copier",
        vec![copier(), vec![read("read", other, 10, 1000)]],
    );
    assert_eq!(figures(&only(&scene)), inferred(MIB - 1000, 0));
    // If they read as much as was copied, nothing is known.
    scene.trace.processes.clear();
    scene.threads(
        "copier",
        vec![copier(), vec![read("read", other, 100, MIB)]],
    );
    assert_eq!(transfers(&scene), []);
    // If they read the same file, it makes no difference.
    scene.trace.processes.clear();
    scene.threads("copier", vec![copier(), copier()]);
    assert_eq!(figures(&only(&scene)), inferred(2 * MIB, 0));
}

/// A process is killed in a call: nobody knows how many bytes the call moved.
#[test]
fn a_call_that_was_cut_off_makes_what_its_file_got_a_lower_bound() {
    let (mut scene, from, to) = seen();
    let other = scene.regular("other");
    let copier = |to| {
        vec![
            read("read", from, 8, MIB),
            written_held("write", from, to, 8, MIB, MIB),
        ]
    };
    let sendfile = || vec![copy("sendfile", from, to, 8, MIB)];
    let cases = [
        (copier(to), write("write", to, 0, 0)),
        (copier(to), written_held("pwritev2", from, to, 0, 0, 0)),
        (copier(to), copy("splice", other, to, 0, 0)),
        (sendfile(), copy("sendfile", from, to, 0, 0)),
        (
            vec![map(from, MIB), written_from("write", from, to, 1, MIB)],
            write("write", to, 0, 0),
        ),
    ];
    for (rows, cut_off) in cases {
        scene.trace.processes.clear();
        scene.process("copier", [rows, vec![cut_off.unfinished(1)]].concat());
        assert_eq!(figures(&only(&scene)), inferred(MIB, MIB));
        assert!(
            only(&scene)
                .verdict
                .ends_with(", and a call that was cut off"),
            "{}",
            only(&scene).verdict
        );
        assert!(!analyse(&scene.trace).is_exact);
    }
}

/// A server is killed while it waits for a request. What such a call takes, nobody writes on.
#[test]
fn a_call_that_was_cut_off_changes_nothing_at_other_files() {
    let (mut scene, from, to) = seen();
    let (other, wake) = (scene.regular("other"), scene.file(Eventfd, "eventfd"));
    let waits = || row("accept4").unfinished(1);
    let reads = [
        read("read", from, 0, 0),
        read("recvfrom", other, 0, 0),
        write("write", wake, 0, 0),
    ];
    let waiting = reads
        .map(|row| row.unfinished(1))
        .into_iter()
        .chain([waits()])
        .collect();
    let copier = vec![
        read("read", from, 8, MIB),
        written_held("write", from, to, 8, MIB, MIB),
    ];
    scene.process("server", [copier, waiting].concat());
    assert_eq!(figures(&only(&scene)), exact(MIB));
    assert!(analyse(&scene.trace).is_exact);
    // Another file got more than is known, so not everything is exact.
    scene.trace.processes[0].threads[0]
        .rows
        .push(write("write", other, 0, 0).unfinished(1));
    assert_eq!(figures(&only(&scene)), exact(MIB));
    assert!(!analyse(&scene.trace).is_exact);
}

/// Under a debugger, or if another process writes into the buffer between read and write, the
/// memory may hold other bytes than were read.
#[test]
fn memory_that_another_process_may_have_changed_proves_nothing() {
    let (mut scene, from, to) = seen();
    let memory = scene.file(Regular, "mem");
    let memory_file = &mut scene.trace.files[memory.0 as usize];
    (memory_file.filesystem, memory_file.path) =
        (Some("proc".into()), Some("/proc/17/task/18/mem".into()));
    let copier = || {
        vec![
            read("read", from, 2, MIB),
            written_held("write", from, to, 2, MIB, MIB),
        ]
    };
    let mapped = || vec![map(from, MIB), written_from("write", from, to, 1, MIB)];
    let poking = [
        (row("process_vm_writev").called(1).bytes(6000), true),
        (row("process_vm_writev").unfinished(1), true),
        (
            row("process_vm_writev").failed(libc::EPERM, 1).bytes(0),
            false,
        ),
        (row("ptrace").called(3), true),
        (row("process_vm_readv").called(1).bytes(6000), false),
        (write("pwrite64", memory, 1, 6000), true),
        (read("pread64", memory, 1, 6000), false),
    ];
    for (poke, is_disproved) in poking {
        scene.trace.processes.clear();
        scene.process("copier", copier());
        scene.process("mapper", mapped());
        scene.process("kernel", vec![copy("sendfile", from, to, 1, MIB)]);
        let call = poke.call.name.clone();
        scene.process("other", vec![poke]);
        let analysis = analyse(&scene.trace);
        let found: Vec<_> = analysis
            .processes
            .iter()
            .flat_map(|process| &process.transfers)
            .map(figures)
            .collect();
        let by_memory = if is_disproved {
            inferred(MIB, 0)
        } else {
            exact(MIB)
        };
        assert_eq!(found, [by_memory, by_memory, exact(MIB)], "{call}");
        if is_disproved {
            assert!(
                !analysis.is_exact
                    && analysis.processes[0].transfers[0]
                        .verdict
                        .ends_with(", perhaps changed or replaced on the way")
            );
        }
    }
    // The call has no row.
    for (calls, errors, expected) in [
        (1, 0, inferred(MIB, 0)),
        (1, 1, exact(MIB)),
        (0, 0, exact(MIB)),
    ] {
        scene.trace.processes.clear();
        scene.process("copier", copier());
        let sums = OtherCalls {
            calls,
            errors,
            ..OtherCalls::NONE
        };
        scene.trace.other_calls = Some([(Call::native("ptrace"), sums)].into());
        assert_eq!(figures(&only(&scene)), expected);
    }
}
