//! Which hints are given, and where none is given because it would not work.

use super::*;
use crate::{
    report::sample::files::{Scene, copy, map, read, written_after, written_from},
    trace::{FileId, FileKind::*, Row},
    transfer::analyse,
};

const MIB: u64 = 1 << 20;

/// The hint for a program that does this between two files of these kinds. `edit` changes the
/// scene, in which they are the first files.
fn hint_if(
    kinds: [FileKind; 2],
    edit: impl FnOnce(&mut Scene),
    rows: impl FnOnce(FileId, FileId) -> Vec<Row>,
) -> Option<String> {
    let mut scene = Scene::new();
    let [from, to] =
        [(kinds[0], "in"), (kinds[1], "out")].map(|(kind, name)| scene.file(kind, name));
    edit(&mut scene);
    scene.process("copier", rows(from, to));
    let found = analyse(&scene.trace).transfers;
    let [one] = found.as_slice() else {
        panic!("{found:?}")
    };
    one.transfer.hint.clone()
}

fn hint_between(kinds: [FileKind; 2], rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Option<String> {
    hint_if(kinds, |_| {}, rows)
}

/// A loop in pieces of `moved` bytes each, by a program that asks for `asked`.
fn pieces(moved: u64, asked: u64) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| {
        let calls = 4 * MIB / moved;
        let writes = written_after("write", from, to, calls, 4 * MIB, 4 * MIB).at(9);
        vec![
            read("read", from, calls, 4 * MIB).zero(1).each(asked).at(8),
            writes,
        ]
    }
}

fn large_pieces(from: FileId, to: FileId) -> Vec<Row> {
    pieces(128 << 10, 128 << 10)(from, to)
}

/// The same after a call that failed.
fn after(
    name: &'static str,
    errno: i32,
    rows: impl Fn(FileId, FileId) -> Vec<Row>,
) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| {
        let mut rows = rows(from, to);
        rows.push(copy(name, from, to, 0, 0).failed(errno, 1).at(1));
        rows
    }
}

#[test]
fn each_pair_of_kinds_gets_its_hint_if_the_program_only_copies() {
    for (from, to, expected) in [
        (Regular, UnixStream, "sendfile would avoid copying"),
        (Regular, Tcp, "sendfile would avoid copying"),
        (Regular, Pipe, "splice would avoid copying"),
        (Regular, Regular, "copy_file_range would copy within"),
        (Block, Regular, "sendfile would copy within"),
        (Memfd, Regular, "sendfile would copy within"),
        (Pipe, Regular, "splice would"),
        (Pipe, Tcp, "splice would"),
        (UnixStream, Pipe, "splice would"),
        (Tcp, Tcp, "splice through a pipe"),
        (Tcp, UnixStream, "splice through a pipe"),
        (Tcp, Regular, "splice through a pipe"),
    ] {
        let hint = hint_between([from, to], large_pieces).expect("is a loop");
        let condition = ", if the program neither inspects nor changes the bytes; cost: ";
        let fits = hint.starts_with(expected) && hint.contains(condition);
        assert!(fits, "{hint}");
        // It may have been opened to append.
        let is_stored = matches!(to, Regular | Block | Memfd);
        assert_eq!(hint.contains("O_APPEND"), is_stored, "{hint}");
    }
    let mapped = |from, to| {
        let written = written_from("sendto", from, to, 4, 4 * MIB);
        vec![map(from, 4 * MIB), written]
    };
    let hint = hint_between([Regular, Tcp], mapped).expect("is a loop");
    assert!(hint.starts_with("sendfile would avoid copying"), "{hint}");
}

#[test]
fn copy_file_range_is_for_one_filesystem() {
    let on_another = |scene: &mut Scene| {
        let identity = scene.trace.files[1].identity.as_mut();
        identity.expect("has one").device = 8;
    };
    let hint = hint_if([Regular; 2], on_another, large_pieces).expect("is a loop");
    assert!(hint.starts_with("sendfile"), "{hint}");
    let refused = after("copy_file_range", libc::EXDEV, large_pieces);
    let hint = hint_between([Regular; 2], refused).expect("is a loop");
    assert!(hint.starts_with("sendfile"), "{hint}");
}

#[test]
fn no_hint_replaces_a_loop_that_needs_its_memory() {
    let same_file = |scene: &mut Scene| {
        let files = &mut scene.trace.files;
        files[1].identity = files[0].identity;
    };
    assert_eq!(hint_if([Regular; 2], same_file, large_pieces), None);
    // The destination was opened to append.
    for (kinds, call, errno) in [
        ([Regular, Regular], "copy_file_range", libc::EBADF),
        ([Block, Regular], "sendfile", libc::EINVAL),
        ([Pipe, Regular], "splice", libc::EINVAL),
    ] {
        let refused = after(call, errno, large_pieces);
        assert_eq!(hint_between(kinds, refused), None);
    }
}

#[test]
fn larger_pieces_are_suggested_if_the_program_asks_for_small_ones() {
    let appending = |rows| after("copy_file_range", libc::EBADF, rows);
    let hint = hint_between([Regular; 2], appending(pieces(4096, 4096)));
    let expected = "read + write with 128 KiB at a time could need as few as 32 pieces instead of 1024, if the program can handle that much";
    assert!(hint.is_some_and(|hint| hint.starts_with(expected)));
    let asks_for_more = appending(pieces(4096, MIB));
    assert_eq!(hint_between([Regular; 2], asks_for_more), None);
    let small = |name| move |from, to| vec![copy(name, from, to, 1024, 4 * MIB).zero(1).each(4096)];
    for (kinds, name, expected) in [
        (
            [Regular, Tcp],
            "sendfile",
            Some("128 KiB at a time could need as few as 32"),
        ),
        // A pipe holds no more.
        (
            [Regular, Pipe],
            "splice",
            Some("64 KiB at a time could need as few as 64"),
        ),
        ([Pipe, Regular], "splice", None),
    ] {
        let expected =
            expected.map(|text| format!("{name} with {text} pieces instead of 1024; cost: none"));
        assert_eq!(hint_between(kinds, small(name)), expected);
    }
}

#[test]
fn messages_streams_and_generated_files_get_no_hint() {
    // Datagrams; what a peer sends; what a terminal or a device gives.
    for kinds in [
        [Udp, Udp],
        [Regular, Udp],
        [Regular, UnixDatagram],
        [UnixSeqpacket, Regular],
        [UnixStream, Regular],
        [Char, Tcp],
    ] {
        for (moved, asked) in [(4096, 4096), (8192, MIB)] {
            let hint = hint_between(kinds, pieces(moved, asked));
            assert_eq!(hint, None, "{kinds:?}");
        }
    }
    let edits: [fn(&mut Scene); 4] = [
        |scene| scene.trace.files[0].size_bytes = Some(0),
        |scene| scene.trace.files[0].filesystem = Some("proc".to_owned()),
        |scene| scene.trace.files[0].filesystem = Some("sysfs".to_owned()),
        |scene| scene.trace.files[0].filesystem = Some("fuse.sshfs".to_owned()),
    ];
    for edit in edits {
        assert_eq!(hint_if([Regular; 2], edit, pieces(4096, 4096)), None);
    }
}
