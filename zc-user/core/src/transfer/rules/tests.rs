//! One test for each rule: a program that does what the library does gets the reason, and an
//! unknown program that does the same does not.

use super::*;
use crate::{
    errno,
    report::{
        Attempt, Transfer,
        sample::files::{Scene, copy, read, written_after},
    },
    syscall::TABLE,
    trace::{FileId, FileKind::*, Row, Toolchain},
    transfer::analyse,
};

const MIB: u64 = 1 << 20;
const RUST: (&str, Option<Language>) = ("copier", Some(Language::Rust));
const GO: (&str, Option<Language>) = ("server", Some(Language::Go));
const PYTHON: (&str, Option<Language>) = ("python3.11", None);
const CP: (&str, Option<Language>) = ("cp", None);

/// A loop that asks for `each` bytes at a time, after these attempts.
fn reads_and_writes(each: u64) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| {
        let calls = MIB / each;
        vec![
            read("read", from, calls, MIB).zero(1).each(each).at(8),
            written_after("write", from, to, calls, MIB, MIB).at(9),
        ]
    }
}

/// Calls that name both ends and ask for `each` bytes.
fn copies(name: &'static str, each: u64) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| vec![copy(name, from, to, 1, MIB).zero(1).each(each).at(8)]
}

/// The same after a call that failed.
fn after(
    name: &'static str,
    errno: i32,
    rows: impl Fn(FileId, FileId) -> Vec<Row>,
) -> impl Fn(FileId, FileId) -> Vec<Row> {
    move |from, to| {
        std::iter::once(copy(name, from, to, 0, 0).failed(errno, 1).at(1))
            .chain(rows(from, to))
            .collect()
    }
}

/// The transfer of a program with these rows between files of these kinds.
fn transfer(
    (name, language): (&str, Option<Language>),
    from: FileKind,
    to: FileKind,
    rows: impl Fn(FileId, FileId) -> Vec<Row>,
) -> Transfer {
    let mut scene = Scene::new();
    let (from, to) = (scene.file(from, "in"), scene.file(to, "out"));
    let process = scene.process(name, rows(from, to));
    process.toolchain = language.map(|language| Toolchain {
        language,
        version: "1.95.0".into(),
    });
    let mut found = analyse(&scene.trace).transfers;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0).transfer
}

/// Asserts that the program gets this reason, and that an unknown program with the same rows does
/// not.
fn assert_reason(
    program: (&str, Option<Language>),
    from: FileKind,
    to: FileKind,
    rows: impl Fn(FileId, FileId) -> Vec<Row>,
    expected: &str,
) {
    let reason = transfer(program, from, to, &rows)
        .reason
        .unwrap_or_else(|| panic!("no reason, expected: {expected}"));
    assert!(reason.text.starts_with(expected), "{reason:?}");
    assert!(!reason.source.is_empty());
    let unknown = transfer(("unknown", None), from, to, &rows).reason;
    assert!(unknown.is_none_or(|reason| !reason.text.contains(expected)));
}

#[test]
fn rust_file_to_socket() {
    for (from, to) in [
        (Regular, UnixStream),
        (Regular, Tcp),
        (Block, Tcp),
        (Memfd, UnixStream),
    ] {
        let expected =
            "if this is std::io::copy, it does not use sendfile or splice from a file to a socket";
        assert_reason(RUST, from, to, reads_and_writes(8192), expected);
    }
}

#[test]
fn rust_file_to_pipe() {
    assert_reason(
        RUST,
        Regular,
        Pipe,
        reads_and_writes(8192),
        "if this is std::io::copy, it does not use splice from a file to a pipe",
    );
}

#[test]
fn rust_file_without_length() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("cpuinfo"), scene.regular("out"));
    scene.trace.files[0].size_bytes = Some(0);
    let process = scene.process("copier", reads_and_writes(8192)(from, to));
    process.toolchain = Some(Toolchain {
        language: Language::Rust,
        version: "1.95.0".into(),
    });
    let verdict = &analyse(&scene.trace).transfers[0].transfer.verdict;
    assert!(
        verdict
            .contains(": if this is std::io::copy, it uses its 8 KiB buffer for files of length 0"),
        "{verdict}"
    );
}

#[test]
fn rust_from_a_socket() {
    assert_reason(
        RUST,
        Tcp,
        Regular,
        reads_and_writes(8192),
        "if this is std::io::copy, it uses splice from a socket only if the destination is a pipe",
    );
}

#[test]
fn rust_from_a_character_device() {
    assert_reason(
        RUST,
        Char,
        Regular,
        reads_and_writes(8192),
        "if this is std::io::copy, it uses its 8 KiB buffer to read from a character",
    );
}

#[test]
fn rust_where_sendfile_or_splice_fails() {
    let rows = after(
        "copy_file_range",
        libc::EBADF,
        after("sendfile", libc::EINVAL, reads_and_writes(8192)),
    );
    assert_reason(
        RUST,
        Regular,
        Regular,
        rows,
        "std::io::copy falls back to its 8 KiB buffer when copy_file_range and sendfile fail",
    );
    let rows = after("sendfile", libc::EINVAL, reads_and_writes(8192));
    assert_reason(
        RUST,
        Block,
        Regular,
        rows,
        "if this is std::io::copy, it falls back to its 8 KiB buffer when sendfile fails;",
    );
    let rows = after("splice", libc::EINVAL, reads_and_writes(8192));
    assert_reason(
        RUST,
        Pipe,
        Regular,
        rows,
        "if this is std::io::copy, it falls back to its 8 KiB buffer when splice fails",
    );
}

#[test]
fn rust_file_to_file() {
    let expected =
        "if this is std::io::copy or std::fs::copy, it uses copy_file_range between regular files";
    assert_reason(
        RUST,
        Regular,
        Regular,
        copies("copy_file_range", 1 << 30),
        expected,
    );
}

#[test]
fn rust_where_copy_file_range_fails() {
    let rows = after(
        "copy_file_range",
        libc::EXDEV,
        copies("sendfile", 0x7fff_f000),
    );
    let expected = "std::io::copy falls back to sendfile when copy_file_range fails; copy_file_range does not work between these";
    assert_reason(RUST, Regular, Regular, rows, expected);
}

#[test]
fn rust_file_to_device() {
    assert_reason(
        RUST,
        Regular,
        Char,
        copies("sendfile", 0x7fff_f000),
        "if this is std::io::copy, it uses sendfile from a file to a device",
    );
    assert_reason(
        RUST,
        Block,
        Regular,
        copies("sendfile", 0x7fff_f000),
        "if this is std::io::copy, it uses sendfile from a block device to",
    );
    // std::io::copy does not do that unless something else failed.
    assert_eq!(
        transfer(RUST, Regular, Regular, copies("sendfile", 0x7fff_f000)).reason,
        None
    );
    assert_eq!(
        transfer(RUST, Regular, Tcp, copies("sendfile", 0x7fff_f000)).reason,
        None
    );
}

#[test]
fn rust_from_a_pipe_and_into_one() {
    assert_reason(
        RUST,
        Pipe,
        Regular,
        copies("splice", 0x7fff_f000),
        "if this is std::io::copy, it uses splice from a pipe",
    );
    assert_reason(
        RUST,
        Tcp,
        Pipe,
        copies("splice", 0x7fff_f000),
        "if this is std::io::copy, it uses splice from a socket into a pipe",
    );
}

#[test]
fn go_file_to_file() {
    assert_reason(
        GO,
        Regular,
        Regular,
        copies("copy_file_range", 0x7fff_f000),
        "if this is io.Copy, it uses copy_file_range from one os.File",
    );
}

#[test]
fn go_file_to_connection() {
    assert_reason(
        GO,
        Regular,
        Tcp,
        copies("sendfile", 0x7fff_ffff),
        "if this is io.Copy, it uses sendfile from an os.File to a TCP",
    );
}

#[test]
fn go_between_connections() {
    assert_reason(
        GO,
        Tcp,
        Regular,
        copies("splice", MIB),
        "if this is io.Copy, it uses splice, through a pipe of its own, from a TCP",
    );
}

#[test]
fn go_in_general() {
    assert_reason(
        GO,
        Regular,
        Pipe,
        reads_and_writes(32768),
        "if this is io.Copy, it uses its 32 KiB buffer when neither",
    );
}

#[test]
fn python_copies_with_sendfile() {
    assert_reason(
        PYTHON,
        Regular,
        Regular,
        copies("sendfile", 1 << 30),
        "if this is shutil.copyfile, it asks sendfile for the whole file",
    );
}

#[test]
fn cp_shares_blocks_or_copies_ranges_or_reads_and_writes() {
    let reflink = |from, to| vec![copy("ioctl(FICLONE)", from, to, 1, 0).at(1)];
    assert_reason(
        CP,
        Regular,
        Regular,
        reflink,
        "cp shares blocks if the filesystem can",
    );
    let range = || copies("copy_file_range", 0x7fff_ffff_c000_0000 / 2);
    let expected = "cp uses copy_file_range if the files cannot share blocks; the filesystem cannot share blocks";
    assert_reason(
        CP,
        Regular,
        Regular,
        after("ioctl(FICLONE)", libc::EOPNOTSUPP, range()),
        expected,
    );
    let rows = after(
        "ioctl(FICLONE)",
        libc::EXDEV,
        after("copy_file_range", libc::EXDEV, reads_and_writes(131_072)),
    );
    assert_reason(
        CP,
        Regular,
        Regular,
        rows,
        "cp falls back to reads and writes of at least 128 KiB; copy_file_range does not work between",
    );
}

#[test]
fn cp_reads_and_writes_with_reflink_never() {
    assert_reason(
        CP,
        Regular,
        Regular,
        reads_and_writes(131_072),
        "cp reads and writes with --reflink=never, and",
    );
}

#[test]
fn cp_reads_and_writes_a_source_with_holes() {
    let expected = "cp reads and writes if the source has holes, or with --sparse=always; the filesystem cannot share blocks";
    for each in [131_072, 65_536] {
        let rows = after("ioctl(FICLONE)", libc::EOPNOTSUPP, reads_and_writes(each));
        assert_reason(CP, Regular, Regular, rows, expected);
    }
}

#[test]
fn sizes_other_than_those_of_the_library_get_no_reason() {
    assert_eq!(
        transfer(RUST, Regular, Tcp, reads_and_writes(65536)).reason,
        None
    );
    assert_eq!(
        transfer(RUST, Regular, Regular, copies("copy_file_range", MIB)).reason,
        None
    );
    assert_eq!(
        transfer(GO, Regular, Pipe, reads_and_writes(8192)).reason,
        None
    );
    assert_eq!(
        transfer(PYTHON, Regular, Regular, copies("sendfile", 65536)).reason,
        None
    );
}

#[test]
fn a_rust_program_named_cp_is_not_that_of_coreutils() {
    let rows = after(
        "ioctl(FICLONE)",
        libc::EOPNOTSUPP,
        copies("copy_file_range", MIB),
    );
    let reason = transfer(("cp", Some(Language::Rust)), Regular, Regular, rows)
        .reason
        .expect("knows the errno");
    assert!(!reason.text.contains("cp "), "{reason:?}");
}

#[test]
fn rules_need_a_recent_enough_compiler() {
    let program = Program::Built(Language::Rust, [1, 70]);
    let built = |version: &str| Process {
        toolchain: Some(Toolchain {
            language: Language::Rust,
            version: version.into(),
        }),
        ..Process::default()
    };
    assert!(
        program.matches(&built("1.70.0"))
            && program.matches(&built("1.95.0-nightly"))
            && program.matches(&built("2.0"))
    );
    assert!(
        !program.matches(&built("1.69.9"))
            && !program.matches(&built(""))
            && !program.matches(&Process::default())
    );
}

/// Other code in the same language may ask for the same sizes: 8 KiB, 32 KiB, the length of the
/// file, the most that the kernel moves at once. It must not be taken for the library.
#[test]
fn only_attempts_together_with_sizes_tell_a_library_from_other_code() {
    for rule in RULES.iter().filter(|rule| {
        rule.proof != Proof::OnlyIfShown && !matches!(rule.program, Program::Named(_))
    }) {
        let told_apart =
            rule.after.contains(&"copy_file_range") && matches!(rule.asked, Asked::Exactly(_));
        assert_eq!(rule.proof == Proof::Sure, told_apart, "{rule:?}");
        assert_eq!(
            rule.clause().starts_with("if this is "),
            !told_apart,
            "{rule:?}"
        );
    }
}

#[test]
fn every_rule_names_its_source() {
    for rule in RULES {
        assert!(
            rule.source.contains('/') && rule.source.contains(", ") && !rule.source.contains("://"),
            "{rule:?}"
        );
        assert!(
            !rule.text.ends_with('.') && !rule.library.is_empty(),
            "{rule:?}"
        );
    }
}

#[test]
fn every_meaning_has_an_existing_call_and_errno() {
    let errnos: Vec<String> = (1..=133).map(errno::name).collect();
    for meaning in MEANINGS {
        assert!(
            TABLE.iter().any(|spec| spec.name == meaning.syscall),
            "{meaning:?}"
        );
        assert!(
            meaning.errno == Attempt::NOTHING_MOVED
                || errnos.iter().any(|name| name == meaning.errno),
            "{meaning:?}"
        );
        let found = meaning_of(meaning.syscall, meaning.errno).expect("is found");
        assert_eq!(found.text, meaning.text, "two for one errno");
    }
}

/// Container runtimes let denied calls fail as if the kernel did not have them.
#[test]
fn enosys_may_come_from_a_sandbox() {
    let missing: Vec<_> = MEANINGS
        .iter()
        .filter(|meaning| meaning.errno == "ENOSYS")
        .collect();
    assert_eq!(missing.len(), 3);
    for meaning in missing {
        assert!(
            meaning.text.starts_with(&format!(
                "a sandbox denies {}, or the kernel ",
                meaning.syscall
            )),
            "{meaning:?}"
        );
    }
}

#[test]
fn variants_of_a_call_mean_the_same() {
    assert_eq!(
        meaning_of("sendfile64", "EINVAL").map(|meaning| meaning.syscall),
        Some("sendfile")
    );
    assert_eq!(
        meaning_of("ioctl(FICLONERANGE)", "EXDEV").map(|meaning| meaning.syscall),
        Some("ioctl(FICLONE)")
    );
    assert!(meaning_of("read", "EIO").is_none());
}
