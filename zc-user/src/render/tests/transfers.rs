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
    for (index, name) in [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t",
    ]
    .iter()
    .enumerate()
    {
        let (from, to) = (
            scene.regular(&format!("src/{name}")),
            scene.regular(&format!("dst/{name}")),
        );
        scene.process(
            name,
            vec![copy(
                "copy_file_range",
                from,
                to,
                1,
                (1 << 20) + index as u64,
            )],
        );
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

#[test]
fn the_verdict_comes_before_the_tables() {
    for width in [100, 40] {
        let text = table(&std_io_copy(), Some(width));
        assert_fits(&text, width);
        let (before, after) = text.split_once("\nTRANSFERS, 1\n").expect("one transfer");
        assert!(
            !before.contains("syscall") && after.contains("syscall"),
            "{text}"
        );
        assert_has(
            after,
            &[
                "  in (regular, ext4) -> run/sink.sock",
                "    read + write, 131072 calls of",
            ],
        );
    }
}

#[test]
fn transfers_of_several_processes_name_them() {
    let text = table(&several(), Some(100));
    assert_fits(&text, 100);
    let parts = [
        "\n  data/in (regular, ext4) -> data/out (regular, ext4): ",
        "\n    by way of pipe\n",
        "\n    hint for cat (1234): splice ",
        "\n    hint for dd (1235): splice ",
        "-> 10.0.0.2:80 (tcp): 3.0 MiB by server\n    (1237)\n    mmap + write, 3 calls of 1 MiB\n",
        "\n  data/in (regular, ext4) -> copied (regular, ext4): 1.0 MiB by cp (1236)\n",
        "\n    tried first: ioctl(FICLONE), EOPNOTSUPP: the filesystem cannot share blocks between files\n",
        "\n    why: cp uses copy_file_range if the files cannot share blocks\n",
    ];
    assert_has(&text, &parts);
}

#[test]
fn sums_over_all_processes_keep_the_transfers() {
    let options = by_detail(Detail::Total);
    let text = shown(
        &Report::from_trace(&several(), &options),
        &Options::default(),
    );
    assert!(
        text.contains("\nTRANSFERS, 3\n")
            && text.contains("copied (regular, ext4): 1.0 MiB by process "),
        "{text}"
    );
}

#[test]
fn transfers_of_the_same_shape_are_shown_as_one() {
    let trace = many(10_000);
    let text = table(&trace, Some(100));
    assert!(text.lines().count() < 30, "{} lines", text.lines().count());
    let parts = [
        "\nTRANSFERS, 10000\n  10000 files in src/ -> 10000 files in dst/: 62.9 MiB\n",
        "\n    10000 transfers of 4.0 KiB to 8.9 KiB: copy_file_range, 20000 calls, ",
        "\n    30000 crossings into the kernel, nothing through user memory\n",
    ];
    assert_has(&text, &parts);
    let options = all_transfers();
    assert!(shown(&report(&trace), &options).lines().count() > 30_000);
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

#[test]
fn a_group_names_its_common_end_and_its_sum() {
    let text = table(&server(300), Some(80));
    assert!(
        text.contains("\n  in.dat (regular, ext4) -> 300 tcp connections: 300.0 MiB\n"),
        "{text}"
    );
    assert!(
        text.contains("\n    300 transfers of 1.0 MiB each: sendfile, 5100 calls"),
        "{text}"
    );
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_group_is_as_sure_as_its_least_sure_member() {
    let mut report = report(&server(300));
    for transfer in report.transfers.iter_mut().take(12) {
        transfer.certainty = Certainty::Inferred;
    }
    let text = render(&report, Format::Table, &Options::default());
    let sum = "300 tcp connections: probably 300.0 MiB, 12 of 300 inferred\n";
    assert!(text.contains(sum), "{text}");
    // Without any bytes there is no sum.
    report
        .transfers
        .iter_mut()
        .for_each(|transfer| transfer.bytes = None);
    let text = shown(&report, &Options::default());
    assert!(
        text.contains("300 tcp connections: -, 12 of 300 inferred"),
        "{text}"
    );
}

#[test]
fn a_few_transfers_of_one_shape_are_shown_each() {
    let text = table(&server(3), Some(80));
    assert_eq!(
        text.matches("\n  in.dat (regular, ext4) -> 10.0.0.2:")
            .count(),
        3,
        "{text}"
    );
    let all = shown(&report(&server(5)), &all_transfers());
    assert_eq!(
        all.matches("\n  in.dat (regular, ext4) -> 10.0.0.2:")
            .count(),
        5,
        "{all}"
    );
}

#[test]
fn different_shapes_that_are_too_many_are_summed() {
    let mut scene = Scene::new();
    for index in 0..24 {
        let [from, to] = ["in", "out"].map(|name| scene.regular(&format!("{name}-{index}")));
        scene.process(
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"][index % 12],
            vec![copy("sendfile", from, to, 1, 1 << 20)],
        );
    }
    let text = table(&scene.trace, Some(80));
    assert!(
        text.contains("\n  and 14 more with 14.0 MiB: 14 by sendfile (regular -> regular);"),
        "{text}"
    );
}

#[test]
fn files_are_listed_on_request() {
    let rows = [
        (
            100,
            "\n  data/out                                  4.0 MiB  1.0 GiB      5      16     -  regular\n",
        ),
        (40, "\n  …me in it.iso      0 B      0 B      0\n"),
    ];
    for (width, row) in rows {
        let text = shown(&with_files(&several()), &at_width(width));
        assert_fits(&text, width);
        assert_has(&text, &["\nFILES, 6\n", row]);
    }
    let text = shown(&with_files(&many(3000)), &at_width(100));
    assert!(text.contains("\n  and 5980 more files with "), "{text}");
    assert!(text.lines().count() < 100, "{} lines", text.lines().count());
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
    let one = "read 3.0 MiB of in (regular, ext4); wrote 1.0 MiB to out (regular, ext4) from its own memory";
    assert_eq!(rest(&[gzip], |_| {}), format!("not in transfers:\n{one}"));
    assert_eq!(
        rest(&[gzip, gzip], |_| {}),
        format!("not in transfers:\ngzip (1234): {one}\ngzip (1235): {one}")
    );
    let unseen = "in no transfer that strace shows:\n\
                  read 3.0 MiB of in (regular, ext4); wrote 1.0 MiB to out (regular, ext4)";
    let by_strace = |trace: &mut Trace| (trace.backend, trace.sees_memory) = ("strace", false);
    assert_eq!(rest(&[gzip], by_strace), unseen);
}

#[test]
fn what_was_changed_in_a_buffer_is_said() {
    let changes = |[from, to, _]: [FileId; 3]| {
        vec![
            read("read", from, 3, MIB),
            written_changed("write", from, to, 3, MIB, MIB),
        ]
    };
    assert_eq!(
        rest(&[changes], |_| {}),
        "not in transfers:\nread 1.0 MiB of in (regular, ext4); wrote 1.0 MiB to out (regular, ext4) from its own memory, \
         1.0 MiB of it changed in the buffer of in (regular, ext4)"
    );
}

#[test]
fn several_files_are_named_by_the_largest() {
    let writes = |[a, b, c]: [FileId; 3]| {
        vec![
            write("write", a, 1, 2 * MIB),
            write("write", b, 1, MIB),
            write("write", c, 1, MIB / 2),
        ]
    };
    assert_eq!(
        rest(&[writes], |_| {}),
        "not in transfers:\nwrote 2.0 MiB to in (regular, ext4) and 1.5 MiB to 2 others from its own memory"
    );
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

#[test]
fn a_note_says_that_the_files_of_some_calls_were_not_kept() {
    let mut trace = std_io_copy();
    trace.calls_without_files = 77;
    let text = table(&trace, None);
    assert!(
        text.contains("note: There was no room for the files of 77 calls"),
        "{text}"
    );
    assert!(text.contains("TRANSFERS, 1, a lower bound\n"), "{text}");
}

#[test]
fn hostile_paths_cannot_drive_the_terminal() {
    let mut trace = several();
    for file in &mut trace.files {
        file.path = file
            .path
            .as_ref()
            .map(|path| format!("{path}\x1b[2J\n\u{202e}"));
    }
    let text = shown(&with_files(&trace), &at_width(80));
    assert!(
        text.chars()
            .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')),
        "{text}"
    );
}

#[test]
fn transfers_survive_json() {
    let report = with_files(&several());
    let json = render(&report, Format::Json, &Options::default());
    assert_eq!(Report::from_json(&json).expect("is read"), report);
}
