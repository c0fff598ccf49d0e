//! The section of transfers and the table of files.

use super::*;
use crate::{
    report::{
        Files,
        sample::files::{Scene, copy, map, read, write, written_after, written_from},
    },
    trace::{FileKind, Language, Toolchain},
};

const GIB: u64 = 1 << 30;

/// `std::io::copy` to a socket, beside the reads and writes that every program does.
fn std_io_copy() -> Trace {
    let mut scene = Scene::new();
    let [libc, from, stdout] = ["libc.so.6", "in", "log"].map(|name| scene.regular(name));
    let socket = scene.file(FileKind::UnixStream, "run/sink.sock");
    let rows = vec![
        read("read", libc, 0, 832).took(&[600]),
        read("read", from, 131_071, GIB).zero(1).took(&[457_333_000]).each(8192),
        written_after("sendto", from, socket, 131_071, GIB, GIB).failed(libc::EAGAIN, 12).took(&[268_689_000]),
        write("write", stdout, 0, 23).took(&[4000]),
    ];
    let process = scene.process("copier", rows);
    process.toolchain = Some(Toolchain { language: Language::Rust, version: "1.95.0".into() });
    scene.trace
}

/// A pipeline, a reflink with its fallback, and a server.
pub(super) fn several() -> Trace {
    let mut scene = Scene::new();
    let [from, to, copied, mapped] =
        ["data/in", "data/out", "copied", "a file with a rather long name in it.iso"].map(|name| scene.regular(name));
    let (pipe, socket) = (scene.pipe(), scene.connection("10.0.0.1:5000", "10.0.0.2:80")[0]);
    scene.process("cat", vec![read("read", from, 8, GIB), written_after("write", from, pipe, 8, GIB, GIB)]);
    scene.process("dd", vec![read("read", pipe, 16, GIB), written_after("write", pipe, to, 16, GIB, GIB)]);
    let rows = vec![
        copy("ioctl(FICLONE)", from, copied, 0, 0).failed(libc::EOPNOTSUPP, 1).at(1),
        copy("copy_file_range", from, copied, 1, 1 << 20).zero(1).at(2),
    ];
    scene.process("cp", rows);
    let rows = vec![map(mapped, 3 << 20), written_from("sendto", mapped, socket, 3, 3 << 20), read("read", to, 5, 1 << 22)];
    scene.process("server", rows);
    scene.trace
}

/// A copy of many files.
fn many(files: u64) -> Trace {
    let mut scene = Scene::new();
    let rows = (0..files).flat_map(|index| {
        let (from, to) = (scene.regular(&format!("src/file-{index}")), scene.regular(&format!("dst/file-{index}")));
        let bytes = 4096 + index % 5000;
        [
            copy("ioctl(FICLONE)", from, to, 0, 0).failed(libc::EOPNOTSUPP, 1).at(3 * index),
            copy("copy_file_range", from, to, 1, bytes).zero(1).at(3 * index + 1),
        ]
    });
    let rows = rows.collect();
    scene.process("cp", rows);
    scene.trace
}

pub(super) fn with_files(trace: &Trace) -> Report {
    Report::from_trace(trace, &report::Options { files: Files::Listed, ..report::Options::default() })
}

#[test]
fn the_verdict_comes_before_the_tables() {
    for width in [100, 40] {
        let text = table(&std_io_copy(), Some(width));
        assert_fits(&text, width);
        assert_snapshot(&format!("transfer-{width}"), &text);
    }
}

#[test]
fn transfers_of_several_processes_name_them() {
    let text = table(&several(), Some(100));
    assert_fits(&text, 100);
    assert_snapshot("transfers", &text);
}

#[test]
fn of_many_transfers_the_largest_are_shown() {
    let trace = many(10_000);
    let text = table(&trace, Some(100));
    assert!(text.lines().count() < 60, "{} lines", text.lines().count());
    assert!(text.contains("\n  and 9990 more with "), "{text}");
    assert_snapshot("transfers-many", &text);
    let options = Options { all_transfers: true, ..Options::default() };
    assert!(render(&report(&trace), Format::Table, &options).lines().count() > 30_000);
}

#[test]
fn files_are_listed_on_request() {
    for (name, width) in [("files", 100), ("files-40", 40)] {
        let text = render(&with_files(&several()), Format::Table, &Options { width: Some(width), ..Options::default() });
        assert_fits(&text, width);
        assert_snapshot(name, text.split_once("\nFILES").expect("lists files").1);
    }
    let text = render(&with_files(&many(3000)), Format::Table, &Options { width: Some(100), ..Options::default() });
    assert!(text.contains("\n  and 5980 more files with "), "{text}");
    assert!(text.lines().count() < 100, "{} lines", text.lines().count());
}

/// The line about unattributed bytes if these processes write these numbers of KiB to these files.
fn unattributed(processes: &[&[(&str, u64)]]) -> String {
    let mut scene = Scene::new();
    let mut files = BTreeMap::new();
    let other = scene.regular("other");
    for writes in processes {
        let rows = writes.iter().map(|&(name, kib)| {
            let to = *files.entry(name).or_insert_with(|| scene.regular(name));
            write("write", to, 1, kib << 10)
        });
        let mut rows: Vec<_> = rows.collect();
        // Without a read, the process would have written its own bytes.
        rows.push(read("read", other, 1, 5));
        scene.process("tar", rows);
    }
    let text = table(&scene.trace, None);
    let line = text.lines().find(|line| line.contains("unattributed: ")).unwrap_or_else(|| panic!("{text}"));
    line.trim().to_owned()
}

#[test]
fn most_of_the_unattributed_bytes_means_more_than_half() {
    let most = "unattributed: 300.0 KiB written, most of it to a (regular, ext4)";
    assert_eq!(unattributed(&[&[("a", 200), ("b", 100)]]), most);
    assert_eq!(unattributed(&[&[("a", 300)]]), most);
    // By several processes, none of which wrote most of it.
    assert_eq!(unattributed(&[&[("a", 90), ("b", 100)], &[("a", 110)]]), most);
    let of_ten: Vec<(&str, u64)> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| (name, 1024)).to_vec();
    let part = "unattributed: 10.0 MiB written, 1.0 MiB of it to a (regular, ext4), at most as much to each of 9 others";
    assert_eq!(unattributed(&[&of_ten]), part);
    assert_eq!(
        unattributed(&[&[("a", 100), ("b", 100)]]),
        "unattributed: 200.0 KiB written, 100.0 KiB of it to a (regular, ext4), at most as much to the other"
    );
}

#[test]
fn a_note_says_that_the_files_of_some_calls_were_not_kept() {
    let mut trace = std_io_copy();
    trace.calls_without_files = 77;
    let text = table(&trace, None);
    assert!(text.contains("note: There was no room for the files of 77 calls"), "{text}");
    assert!(text.contains("TRANSFERS, 1, a lower bound\n"), "{text}");
}

#[test]
fn transfers_and_files_fit_every_width() {
    for trace in [std_io_copy(), several(), many(30)] {
        let report = with_files(&trace);
        for width in 40..160 {
            assert_fits(&render(&report, Format::Table, &Options { width: Some(width), ..Options::default() }), width);
        }
        for width in 0..40 {
            render(&report, Format::Table, &Options { width: Some(width), ..Options::default() });
        }
    }
}

#[test]
fn hostile_paths_cannot_drive_the_terminal() {
    let mut trace = several();
    for file in &mut trace.files {
        file.path = file.path.as_ref().map(|path| format!("{path}\x1b[2J\n\u{202e}"));
    }
    let text = render(&with_files(&trace), Format::Table, &Options { width: Some(80), ..Options::default() });
    assert!(text.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')), "{text}");
}

#[test]
fn transfers_survive_json() {
    let report = with_files(&several());
    let json = render(&report, Format::Json, &Options::default());
    assert_eq!(serde_json::from_str::<Report>(&json).expect("parses"), report);
    let one = &report.processes[2].transfers[0];
    assert_snapshot("transfer-json", &super::json(one));
}
