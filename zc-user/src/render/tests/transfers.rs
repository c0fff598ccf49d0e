//! The section of transfers and the table of files.

use super::*;
use crate::{
    report::{
        Certainty, Files,
        sample::files::{
            Scene, copy, map, read, write, written_after, written_changed, written_from,
        },
    },
    trace::{FileId, FileKind, Language, Row, Toolchain},
};

const GIB: u64 = 1 << 30;

/// `std::io::copy` to a socket, beside the reads and writes that every program does.
pub(super) fn std_io_copy() -> Trace {
    let mut scene = Scene::new();
    let [libc, from, stdout] = ["libc.so.6", "in", "log"].map(|name| scene.regular(name));
    let socket = scene.file(FileKind::UnixStream, "run/sink.sock");
    let rows = vec![
        read("read", libc, 0, 832).took(&[600]),
        read("read", from, 131_071, GIB)
            .zero(1)
            .took(&[457_333_000])
            .each(8192),
        written_after("sendto", from, socket, 131_071, GIB, GIB)
            .failed(libc::EAGAIN, 12)
            .took(&[268_689_000]),
        write("write", stdout, 0, 23).took(&[4000]),
    ];
    let process = scene.process("copier", rows);
    process.toolchain = Some(Toolchain {
        language: Language::Rust,
        version: "1.95.0".into(),
    });
    scene.trace
}

/// A pipeline, a reflink with its fallback, and a server.
pub(super) fn several() -> Trace {
    let mut scene = Scene::new();
    let [from, to, copied, mapped] = [
        "data/in",
        "data/out",
        "copied",
        "a file with a rather long name in it.iso",
    ]
    .map(|name| scene.regular(name));
    let (pipe, socket) = (
        scene.pipe(),
        scene.connection("10.0.0.1:5000", "10.0.0.2:80")[0],
    );
    scene.process(
        "cat",
        vec![
            read("read", from, 8, GIB),
            written_after("write", from, pipe, 8, GIB, GIB),
        ],
    );
    scene.process(
        "dd",
        vec![
            read("read", pipe, 16, GIB),
            written_after("write", pipe, to, 16, GIB, GIB),
        ],
    );
    let rows = vec![
        copy("ioctl(FICLONE)", from, copied, 0, 0)
            .failed(libc::EOPNOTSUPP, 1)
            .at(1),
        copy("copy_file_range", from, copied, 1, 1 << 20)
            .zero(1)
            .at(2),
    ];
    scene.process("cp", rows);
    let rows = vec![
        map(mapped, 3 << 20),
        written_from("sendto", mapped, socket, 3, 3 << 20),
        read("read", to, 5, 1 << 22),
    ];
    scene.process("server", rows);
    scene.trace
}

/// A copy of many files.
pub(super) fn many(files: u64) -> Trace {
    let mut scene = Scene::new();
    let rows = (0..files).flat_map(|index| {
        let (from, to) = (
            scene.regular(&format!("src/file-{index}")),
            scene.regular(&format!("dst/file-{index}")),
        );
        let bytes = 4096 + index % 5000;
        [
            copy("ioctl(FICLONE)", from, to, 0, 0)
                .failed(libc::EOPNOTSUPP, 1)
                .at(3 * index),
            copy("copy_file_range", from, to, 1, bytes)
                .zero(1)
                .at(3 * index + 1),
        ]
    });
    let rows = rows.collect();
    scene.process("cp", rows);
    scene.trace
}

/// Twenty processes that each copy a file, all of another name.
pub(super) fn many_sizes() -> Trace {
    let mut scene = Scene::new();
    for index in 0..20 {
        let name: &'static str = &"abcdefghijklmnopqrst"[index..=index];
        let [from, to] = ["src", "dst"].map(|folder| scene.regular(&format!("{folder}/{name}")));
        let bytes = (1 << 20) + index as u64;
        scene.process(name, vec![copy("copy_file_range", from, to, 1, bytes)]);
    }
    scene.trace
}

pub(super) fn with_files(trace: &Trace) -> Report {
    Report::from_trace(
        trace,
        &report::Options {
            files: Files::Listed,
            ..report::Options::default()
        },
    )
}

/// A server that sends a file to many clients.
fn server(clients: u64) -> Trace {
    let mut scene = Scene::new();
    let file = scene.regular("in.dat");
    let rows = (0..clients).map(|client| {
        let socket = scene.connection("10.0.0.1:80", &format!("10.0.0.2:{}", 5000 + client))[0];
        copy("sendfile", file, socket, 16, 1 << 20).took(&[1000])
    });
    let rows = rows.collect();
    scene.process("server", rows);
    scene.trace
}

/// The report on a server of 300 clients, of whose transfers 12 are inferred.
fn partly_inferred() -> Report {
    let mut report = report(&server(300));
    for transfer in report.transfers.iter_mut().take(12) {
        transfer.certainty = Certainty::Inferred;
    }
    report
}

#[test]
fn transfers_are_shown_by_themselves_or_in_groups() {
    let by_total = Report::from_trace(&several(), &by_detail(Detail::Total));
    let without_bytes = {
        let mut report = partly_inferred();
        let transfers = report.transfers.iter_mut();
        transfers.for_each(|transfer| transfer.bytes = None);
        report
    };
    let mut partly_known = std_io_copy();
    partly_known.calls_without_files = 77;
    let plain = Options::default();
    let cases = [
        ("one", table(&std_io_copy(), Some(40))),
        ("sums", shown(&by_total, &plain)),
        ("ten thousand copies", table(&many(10_000), Some(100))),
        ("a server", table(&server(300), Some(80))),
        // A group is as sure as its least sure member, and without any bytes there is no sum.
        ("partly inferred", shown(&partly_inferred(), &plain)),
        ("without bytes", shown(&without_bytes, &plain)),
        ("many shapes", table(&many_sizes(), Some(80))),
        ("partly known", table(&partly_known, None)),
    ];
    assert_beginnings("transfers", &cases);
    let files = shown(&with_files(&many(3000)), &at_width(100));
    assert_has(&files, &["\n  and 5980 more files with "]);
    assert!(files.lines().count() < 100);
    let narrow = shown(&with_files(&several()), &at_width(40));
    assert_has(&narrow, &["\nFILES, 6\n", "…in it.iso      0 B      0 B"]);
    let single = "\n  in.dat (regular, ext4) -> 10.0.0.2:";
    let few = table(&server(3), Some(80));
    assert_eq!(few.matches(single).count(), 3, "{few}");
    let all = shown(&report(&server(5)), &everything_shown());
    assert_eq!(all.matches(single).count(), 5, "{all}");
}

/// Makes the rows of a process that uses three files.
type RowsOfProcess = fn([FileId; 3]) -> Vec<Row>;

/// What is said of the rest of processes with these rows between `in`, `out` and a third file.
fn rest(processes: &[RowsOfProcess], edit: fn(&mut Trace)) -> String {
    let mut scene = Scene::new();
    let files = ["in", "out", "more"].map(|name| scene.regular(name));
    for rows in processes {
        scene.process("gzip", rows(files));
    }
    edit(&mut scene.trace);
    let text = table(&scene.trace, None);
    let (_, section) = text.split_once("TRANSFERS").expect("has the section");
    let section = section.split("\n\n").next().unwrap_or_default();
    section
        .lines()
        .skip(1)
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("\n")
}

const MIB: u64 = 1 << 20;

fn gzip([from, to, _]: [FileId; 3]) -> Vec<Row> {
    vec![read("read", from, 3, 3 * MIB), write("write", to, 2, MIB)]
}

#[test]
fn what_is_in_no_transfer_is_said_for_each_process() {
    let changes: RowsOfProcess = |[from, to, _]| {
        vec![
            read("read", from, 3, MIB),
            written_changed("write", from, to, 3, MIB, MIB),
        ]
    };
    let writes: RowsOfProcess = |[a, b, c]| {
        vec![
            write("write", a, 1, 2 * MIB),
            write("write", b, 1, MIB),
            write("write", c, 1, MIB / 2),
        ]
    };
    let kept = "read 3.0 MiB of in (regular, ext4); wrote 1.0 MiB to out (regular, ext4)";
    let one = format!("{kept} from its own memory");
    let changed_text = "read 1.0 MiB of in (regular, ext4); wrote 1.0 MiB to out (regular, ext4) from its own memory, \
                   1.0 MiB of it changed in the buffer of in (regular, ext4)";
    let several = "wrote 2.0 MiB to in (regular, ext4) and 1.5 MiB to 2 others from its own memory";
    for (processes, expected) in [
        (&[gzip as RowsOfProcess][..], one.as_str()),
        (
            &[gzip, gzip],
            &format!("gzip (1234): {one}\ngzip (1235): {one}"),
        ),
        (&[changes], changed_text),
        (&[writes], several),
    ] {
        let expected = format!("not in transfers:\n{expected}");
        assert_eq!(rest(processes, |_| {}), expected);
    }
    let by_strace = |trace: &mut Trace| (trace.backend, trace.sees_memory) = ("strace", false);
    let unseen = format!("in no transfer that strace shows:\n{kept}");
    assert_eq!(rest(&[gzip], by_strace), unseen);
}

#[test]
fn messages_and_what_a_program_reads_for_itself_are_not_mentioned() {
    let quiet: [fn([FileId; 3]) -> Vec<Row>; 4] = [
        |[_, to, _]| vec![write("write", to, 1, 4095)],
        |[from, ..]| vec![read("read", from, 1, 65_535)],
        |[from, to, _]| {
            vec![
                copy("sendfile", from, to, 1, MIB),
                write("write", to, 1, 5000),
            ]
        },
        |[from, to, more]| {
            vec![
                copy("sendfile", from, to, 1, MIB),
                read("read", more, 1, MIB / 4),
            ]
        },
    ];
    for rows in quiet {
        let found = rest(
            &[rows, |[from, to, _]| vec![copy("sendfile", from, to, 1, 1)]],
            |_| {},
        );
        assert!(!found.contains("not in transfers"), "{found}");
    }
}
