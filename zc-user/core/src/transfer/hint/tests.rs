//! Which hints are given, and where none is given because it would not work.

use super::*;
use crate::{
    report::sample::files::{Scene, copy, map, read, written_after, written_from},
    trace::{FileId, FileIdentity, FileKind::*, Row},
    transfer::analyse,
};

const MIB: u64 = 1 << 20;

/// A copy between two files, and an attempt before it.
struct HintedCopy {
    scene: Scene,
    before: Option<(&'static str, i32)>,
}

fn between(from: FileKind, to: FileKind) -> HintedCopy {
    let mut scene = Scene::new();
    scene.file(from, "in");
    scene.file(to, "out");
    HintedCopy {
        scene,
        before: None,
    }
}

impl HintedCopy {
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
        let hint = between(from, to).hint(large_pieces()).expect("is a loop");
        let condition = ", if the program neither inspects nor changes the bytes; cost: ";
        assert!(
            hint.starts_with(expected) && hint.contains(condition),
            "{hint}"
        );
        // It may have been opened to append.
        let is_stored = matches!(to, Regular | Block | Memfd);
        assert_eq!(hint.contains("O_APPEND"), is_stored, "{hint}");
    }
    let mapped = |from, to| {
        let written = written_from("sendto", from, to, 4, 4 * MIB);
        vec![map(from, 4 * MIB), written]
    };
    between(Regular, Tcp).hints_at(mapped, "sendfile would avoid copying");
}

#[test]
fn copy_file_range_is_for_one_filesystem() {
    let files = || between(Regular, Regular);
    let across = || files().devices(7, 8);
    for (copy, expected) in [
        (files().devices(7, 7), "copy_file_range"),
        (across().filesystems("ext4", "tmpfs"), "sendfile"),
        (across(), "sendfile"),
        (files().after("copy_file_range", libc::EXDEV), "sendfile"),
    ] {
        copy.hints_at(large_pieces(), expected);
    }
}

#[test]
fn no_hint_replaces_a_loop_that_needs_its_memory() {
    let mut within_one_file = between(Regular, Regular);
    within_one_file.scene.trace.files[1].identity = within_one_file.scene.trace.files[0].identity;
    for copy in [
        within_one_file,
        // The destination was opened to append.
        between(Regular, Regular).after("copy_file_range", libc::EBADF),
        between(Block, Regular).after("sendfile", libc::EINVAL),
        between(Pipe, Regular).after("splice", libc::EINVAL),
    ] {
        assert_eq!(copy.hint(large_pieces()), None);
    }
}

#[test]
fn larger_pieces_are_suggested_if_the_program_asks_for_small_ones() {
    let appending = || between(Regular, Regular).after("copy_file_range", libc::EBADF);
    let expected = "read + write with 128 KiB at a time could need as few as 32 pieces instead of 1024, if the program can handle that much";
    appending().hints_at(pieces(4096, 4096), expected);
    assert_eq!(appending().hint(pieces(4096, MIB)), None);
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
        for (moved, asked) in [(4096, 4096), (8192, MIB)] {
            let hint = between(from, to).hint(pieces(moved, asked));
            assert_eq!(hint, None, "{from:?} -> {to:?}");
        }
    }
}

#[test]
fn generated_files_get_no_hint() {
    let mut empty = between(Regular, Tcp);
    empty.scene.trace.files[0].size_bytes = Some(0);
    let generated = ["proc", "sysfs", "fuse.sshfs"];
    let generated = generated.map(|name| between(Regular, Regular).filesystems(name, "ext4"));
    for copy in generated.into_iter().chain([empty]) {
        assert_eq!(copy.hint(pieces(4096, 4096)), None);
    }
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
