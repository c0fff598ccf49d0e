//! Which hints are given, and where none is given because it would not work.

use super::*;
use crate::{
    report::sample::files::{Scene, copy, map, read, written_after, written_from},
    trace::{FileId, FileIdentity, FileKind::*, Row},
    transfer::analyse,
};

const MIB: u64 = 1 << 20;

/// A copy between two files, and an attempt before it.
struct Copy {
    scene: Scene,
    before: Option<(&'static str, i32)>,
}

fn between(from: FileKind, to: FileKind) -> Copy {
    let mut scene = Scene::new();
    scene.file(from, "in");
    scene.file(to, "out");
    Copy {
        scene,
        before: None,
    }
}

impl Copy {
    fn filesystems(mut self, from: &str, to: &str) -> Self {
        for (file, name) in self.scene.trace.files.iter_mut().zip([from, to]) {
            file.filesystem = Some(name.to_owned());
        }
        self
    }

    fn devices(mut self, from: u64, to: u64) -> Self {
        for (file, device) in self.scene.trace.files.iter_mut().zip([from, to]) {
            file.identity = file
                .identity
                .map(|identity| FileIdentity { device, ..identity });
        }
        self
    }

    fn after(self, name: &'static str, errno: i32) -> Self {
        Self {
            before: Some((name, errno)),
            ..self
        }
    }

    /// The hint for a program with these rows.
    fn hint(mut self, rows: impl Fn(FileId, FileId) -> Vec<Row>) -> Option<String> {
        let (from, to) = (FileId(0), FileId(1));
        let before = self
            .before
            .map(|(name, errno)| copy(name, from, to, 0, 0).failed(errno, 1).at(1));
        self.scene
            .process("copier", before.into_iter().chain(rows(from, to)).collect());
        let found = analyse(&self.scene.trace).transfers;
        let transfers: Vec<_> = found.into_iter().map(|one| one.transfer).collect();
        assert_eq!(transfers.len(), 1, "{transfers:?}");
        transfers.into_iter().next()?.hint
    }

    #[track_caller]
    fn hints_at(self, rows: impl Fn(FileId, FileId) -> Vec<Row>, expected: &str) {
        let hint = self
            .hint(rows)
            .unwrap_or_else(|| panic!("no hint, expected {expected}"));
        assert!(hint.starts_with(expected), "{hint}");
    }
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

fn large_pieces() -> impl Fn(FileId, FileId) -> Vec<Row> {
    pieces(128 << 10, 128 << 10)
}

/// 1024 small calls that name both ends.
fn small_calls(name: &'static str) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| vec![copy(name, from, to, 1024, 4 * MIB).zero(1).each(4096).at(8)]
}

#[test]
fn every_hint_to_replace_a_loop_says_that_the_program_must_only_copy() {
    for (from, to) in [
        (Regular, Tcp),
        (Regular, Pipe),
        (Regular, Regular),
        (Block, Regular),
        (Pipe, Regular),
        (Tcp, Tcp),
    ] {
        let hint = between(from, to).hint(large_pieces()).expect("is a loop");
        assert!(
            hint.contains(", if the program neither inspects nor changes the bytes; cost: "),
            "{hint}"
        );
    }
    let mapped = |from, to| {
        vec![
            map(from, 4 * MIB),
            written_from("sendto", from, to, 4, 4 * MIB),
        ]
    };
    let hint = between(Regular, Tcp)
        .hint(mapped)
        .expect("copies through user memory");
    assert!(
        hint.contains(", if the program neither inspects nor changes the bytes; "),
        "{hint}"
    );
}

#[test]
fn each_pair_of_kinds_gets_its_hint() {
    for (from, to, expected) in [
        (Regular, UnixStream, "sendfile would avoid copying"),
        (Regular, Pipe, "splice would avoid copying"),
        (Regular, Regular, "copy_file_range would copy within"),
        (Memfd, Regular, "sendfile would copy within"),
        (Pipe, Regular, "splice would"),
        (Pipe, Tcp, "splice would"),
        (UnixStream, Pipe, "splice would"),
        (Tcp, UnixStream, "splice through a pipe"),
        (Tcp, Regular, "splice through a pipe"),
    ] {
        between(from, to).hints_at(large_pieces(), expected);
    }
}

#[test]
fn copy_file_range_is_for_one_filesystem() {
    between(Regular, Regular)
        .devices(7, 7)
        .hints_at(large_pieces(), "copy_file_range");
    between(Regular, Regular)
        .devices(7, 8)
        .filesystems("ext4", "tmpfs")
        .hints_at(large_pieces(), "sendfile");
    between(Regular, Regular)
        .devices(7, 8)
        .hints_at(large_pieces(), "sendfile");
    between(Regular, Regular)
        .after("copy_file_range", libc::EXDEV)
        .hints_at(large_pieces(), "sendfile");
}

#[test]
fn no_hint_replaces_a_loop_that_appends() {
    assert_eq!(
        between(Regular, Regular)
            .after("copy_file_range", libc::EBADF)
            .hint(large_pieces()),
        None
    );
    assert_eq!(
        between(Block, Regular)
            .after("sendfile", libc::EINVAL)
            .hint(large_pieces()),
        None
    );
    assert_eq!(
        between(Pipe, Regular)
            .after("splice", libc::EINVAL)
            .hint(large_pieces()),
        None
    );
    for (from, to) in [
        (Regular, Regular),
        (Block, Regular),
        (Pipe, Regular),
        (Tcp, Regular),
    ] {
        let hint = between(from, to)
            .hint(large_pieces())
            .expect("may not append");
        assert!(hint.contains("O_APPEND"), "{hint}");
    }
}

#[test]
fn moving_bytes_within_a_file_needs_the_loop() {
    let mut within = between(Regular, Regular);
    within.scene.trace.files[1].identity = within.scene.trace.files[0].identity;
    assert_eq!(within.hint(large_pieces()), None);
}

#[test]
fn larger_pieces_are_suggested_if_the_program_asks_for_small_ones() {
    let expected = "read + write with 128 KiB at a time could need as few as 32 pieces instead of 1024, if the program can handle that much";
    between(Regular, Regular)
        .after("copy_file_range", libc::EBADF)
        .hints_at(pieces(4096, 4096), expected);
    assert_eq!(
        between(Regular, Regular)
            .after("copy_file_range", libc::EBADF)
            .hint(pieces(4096, MIB)),
        None
    );
}

#[test]
fn messages_and_streams_get_no_hint_about_pieces() {
    // Datagrams; what a peer sends; what a terminal or a device gives.
    for (from, to) in [
        (Udp, Udp),
        (Regular, Udp),
        (Regular, UnixDatagram),
        (UnixSeqpacket, Regular),
        (UnixStream, Regular),
        (Char, Tcp),
    ] {
        assert_eq!(
            between(from, to).hint(pieces(4096, 4096)),
            None,
            "{from:?} -> {to:?}"
        );
        assert_eq!(
            between(from, to).hint(pieces(8192, MIB)),
            None,
            "{from:?} -> {to:?}"
        );
    }
}

#[test]
fn generated_files_get_no_hint() {
    for filesystem in ["proc", "sysfs", "fuse.sshfs"] {
        assert_eq!(
            between(Regular, Regular)
                .filesystems(filesystem, "ext4")
                .hint(pieces(4096, 4096)),
            None,
            "{filesystem}"
        );
    }
    let mut empty = between(Regular, Tcp);
    empty.scene.trace.files[0].size_bytes = Some(0);
    assert_eq!(empty.hint(pieces(4096, 4096)), None);
}

#[test]
fn larger_calls_that_name_both_ends_cost_nothing() {
    let expected = "sendfile with 128 KiB at a time could need as few as 32 pieces instead of 1024; cost: none";
    between(Regular, Tcp).hints_at(small_calls("sendfile"), expected);
    // A pipe holds no more.
    let expected =
        "splice with 64 KiB at a time could need as few as 64 pieces instead of 1024; cost: none";
    between(Regular, Pipe).hints_at(small_calls("splice"), expected);
    assert_eq!(between(Pipe, Regular).hint(small_calls("splice")), None);
}
