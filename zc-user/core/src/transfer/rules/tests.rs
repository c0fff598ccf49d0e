//! One test for each rule: a program that does what the library does gets the reason, and an
//! unknown program that does the same does not.

use super::*;
use crate::{
    errno,
    report::{
        Attempt, Transfer,
        sample::files::{Scene, copy, read, written_after},
    },
    syscalls::data_calls,
    trace::{FileId, FileKind::*, Row, Toolchain},
    transfer::analyse,
};

const MIB: u64 = 1 << 20;
const RUST: (&str, Option<Language>) = ("copier", Some(Language::Rust));
const GO: (&str, Option<Language>) = ("server", Some(Language::Go));
const PYTHON: (&str, Option<Language>) = ("python3.11", None);
const CP: (&str, Option<Language>) = ("cp", None);

/// What a program does between two files.
#[derive(Clone)]
struct Calls {
    /// Calls that failed before, in order.
    attempts: Vec<(&'static str, i32)>,
    /// The call that copies. `None`: a loop of reads and writes.
    name: Option<&'static str>,
    /// The bytes that each asks for.
    each: u64,
}

fn reads_and_writes(each: u64) -> Calls {
    let (attempts, name) = (Vec::new(), None);
    Calls {
        attempts,
        name,
        each,
    }
}

fn copies(name: &'static str, each: u64) -> Calls {
    Calls {
        name: Some(name),
        ..reads_and_writes(each)
    }
}

impl Calls {
    fn after(mut self, name: &'static str, errno: i32) -> Self {
        self.attempts.push((name, errno));
        self
    }

    fn rows(&self, from: FileId, to: FileId) -> Vec<Row> {
        let attempt = |(order, &(name, errno)): (u64, &(&'static str, i32))| {
            copy(name, from, to, 0, 0).failed(errno, 1).at(order)
        };
        let mut rows: Vec<Row> = (1..).zip(&self.attempts).map(attempt).collect();
        match self.name {
            Some("ioctl(FICLONE)") => rows.push(copy("ioctl(FICLONE)", from, to, 1, 0).at(8)),
            Some(name) => rows.push(copy(name, from, to, 1, MIB).zero(1).each(self.each).at(8)),
            None => {
                let calls = MIB / self.each;
                let reads = read("read", from, calls, MIB).zero(1).each(self.each);
                let writes = written_after("write", from, to, calls, MIB, MIB);
                rows.extend([reads.at(8), writes.at(9)]);
            }
        }
        rows
    }
}

/// The transfer of a program that does this between files of these kinds.
fn transfer(
    (name, language): (&str, Option<Language>),
    [from, to]: [FileKind; 2],
    calls: &Calls,
) -> Transfer {
    let mut scene = Scene::new();
    let (from, to) = (scene.file(from, "in"), scene.file(to, "out"));
    let process = scene.process(name, calls.rows(from, to));
    process.toolchain = language.map(|language| Toolchain {
        language,
        version: "1.95.0".into(),
    });
    let mut found = analyse(&scene.trace).transfers;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0).transfer
}

/// Asserts that the program gets reasons that begin like this and contain those words, and that an
/// unknown program that does the same does not.
fn assert_reasons(
    program: (&str, Option<Language>),
    beginning: &str,
    cases: Vec<([FileKind; 2], Calls, &str)>,
) {
    for (kinds, calls, expected) in cases {
        let reason = transfer(program, kinds, &calls).reason;
        let reason = reason.unwrap_or_else(|| panic!("no reason, expected: {expected}"));
        let fits = reason.text.starts_with(beginning) && reason.text.contains(expected);
        assert!(fits && !reason.source.is_empty(), "{reason:?}");
        let unknown = transfer(("unknown", None), kinds, &calls).reason;
        assert!(unknown.is_none_or(|reason| !reason.text.contains(beginning)));
    }
}

#[test]
fn rusts_copy_if_other_code_could_do_the_same() {
    let buffer = || reads_and_writes(8192);
    let range = || copies("copy_file_range", 1 << 30);
    let sendfile = || copies("sendfile", 0x7fff_f000);
    let splice = || copies("splice", 0x7fff_f000);
    let no_sendfile = || buffer().after("sendfile", libc::EINVAL);
    let no_splice = || buffer().after("splice", libc::EINVAL);
    let cases = vec![
        ([Regular, UnixStream], buffer(), "file to a socket"),
        ([Regular, Tcp], buffer(), "file to a socket"),
        ([Block, Tcp], buffer(), "file to a socket"),
        ([Memfd, UnixStream], buffer(), "file to a socket"),
        ([Regular, Pipe], buffer(), "does not use splice"),
        ([Tcp, Regular], buffer(), "destination is a pipe"),
        ([Char, Regular], buffer(), "from a character device"),
        ([Block, Regular], no_sendfile(), "when sendfile fails;"),
        ([Pipe, Regular], no_splice(), "when splice fails"),
        ([Regular, Char], sendfile(), "from a file to a device"),
        ([Block, Regular], sendfile(), "from a block device"),
        ([Pipe, Regular], splice(), "splice from a pipe"),
        ([Tcp, Pipe], splice(), "from a socket into a pipe"),
    ];
    assert_reasons(RUST, "if this is std::io::copy, it ", cases);
    let cases = vec![([Regular; 2], range(), "between regular files")];
    let beginning = "if this is std::io::copy or std::fs::copy, it uses copy_file_range ";
    assert_reasons(RUST, beginning, cases);
    // It does that only if something else failed.
    for to in [Regular, Tcp] {
        assert_eq!(transfer(RUST, [Regular, to], &sendfile()).reason, None);
    }
}

#[test]
fn rusts_copy_where_nothing_else_tries_the_same() {
    let loops = reads_and_writes(8192)
        .after("copy_file_range", libc::EBADF)
        .after("sendfile", libc::EINVAL);
    let sendfile = copies("sendfile", 0x7fff_f000).after("copy_file_range", libc::EXDEV);
    let cases = vec![
        ([Regular; 2], loops, "copy_file_range and sendfile fail"),
        ([Regular; 2], sendfile, "fails; copy_file_range does not"),
    ];
    assert_reasons(RUST, "std::io::copy falls back to ", cases);
}

#[test]
fn rust_file_without_length() {
    let mut scene = Scene::new();
    let (from, to) = (scene.regular("cpuinfo"), scene.regular("out"));
    scene.trace.files[0].size_bytes = Some(0);
    let process = scene.process("copier", reads_and_writes(8192).rows(from, to));
    process.toolchain = Some(Toolchain {
        language: Language::Rust,
        version: "1.95.0".into(),
    });
    let verdict = &analyse(&scene.trace).transfers[0].transfer.verdict;
    let reason = ": if this is std::io::copy, it uses its 8 KiB buffer for files of length 0";
    assert!(verdict.contains(reason), "{verdict}");
}

#[test]
fn gos_copy() {
    let range = copies("copy_file_range", 0x7fff_f000);
    let sendfile = copies("sendfile", 0x7fff_ffff);
    let cases = vec![
        ([Regular; 2], range, "from one os.File"),
        ([Regular, Tcp], sendfile, "from an os.File to a TCP"),
        ([Tcp, Regular], copies("splice", MIB), "a pipe of its own"),
        ([Regular, Pipe], reads_and_writes(32768), "32 KiB buffer"),
    ];
    assert_reasons(GO, "if this is io.Copy, it uses ", cases);
}

#[test]
fn pythons_copy() {
    let cases = vec![([Regular; 2], copies("sendfile", 1 << 30), "the whole file")];
    assert_reasons(
        PYTHON,
        "if this is shutil.copyfile, it asks sendfile ",
        cases,
    );
}

#[test]
fn cp_of_coreutils() {
    let buffer = || reads_and_writes(131_072);
    let refused = |calls: Calls| calls.after("ioctl(FICLONE)", libc::EOPNOTSUPP);
    let range = refused(copies("copy_file_range", 0x7fff_ffff_c000_0000 / 2));
    let falls_back = buffer()
        .after("ioctl(FICLONE)", libc::EXDEV)
        .after("copy_file_range", libc::EXDEV);
    let with_holes = "if the source has holes, or with --sparse=always; the filesystem cannot";
    let cases = [
        (copies("ioctl(FICLONE)", 0), "shares blocks"),
        (range, "if the files cannot share blocks; the filesystem"),
        (falls_back, "128 KiB; copy_file_range does not work between"),
        (buffer(), "reads and writes with --reflink=never"),
        (refused(buffer()), with_holes),
        (refused(reads_and_writes(65_536)), with_holes),
    ];
    let between_files = |(calls, text)| ([Regular; 2], calls, text);
    assert_reasons(CP, "cp ", cases.map(between_files).into());
}

#[test]
fn sizes_other_than_those_of_the_library_get_no_reason() {
    for (program, to, calls) in [
        (RUST, Tcp, reads_and_writes(65536)),
        (RUST, Regular, copies("copy_file_range", MIB)),
        (GO, Pipe, reads_and_writes(8192)),
        (PYTHON, Regular, copies("sendfile", 65536)),
    ] {
        assert_eq!(transfer(program, [Regular, to], &calls).reason, None);
    }
}

#[test]
fn a_rust_program_named_cp_is_not_that_of_coreutils() {
    let calls = copies("copy_file_range", MIB).after("ioctl(FICLONE)", libc::EOPNOTSUPP);
    let program = ("cp", Some(Language::Rust));
    let reason = transfer(program, [Regular; 2], &calls).reason;
    let reason = reason.expect("knows the errno");
    assert!(!reason.text.contains("cp "), "{reason:?}");
}

#[test]
fn rules_need_a_recent_enough_compiler() {
    let program = RuleProgram::Built(Language::Rust, [1, 70]);
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
        rule.proof != Proof::OnlyIfShown && !matches!(rule.program, RuleProgram::Named(_))
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
        let call = meaning.syscall;
        assert!(data_calls().any(|spec| spec.name == call), "{meaning:?}");
        for &(errno, text) in meaning.texts {
            let exists = errnos.iter().any(|name| name == errno);
            assert!(exists || errno == Attempt::NOTHING_MOVED, "{meaning:?}");
            let found = meaning_of(call, errno);
            assert_eq!(found, Some((text, meaning.source)), "two for one errno");
            // Container runtimes let denied calls fail as if the kernel did not have them.
            let may_be_denied =
                text.starts_with(&format!("a sandbox denies {call}, or the kernel "));
            assert_eq!(errno == "ENOSYS", may_be_denied, "{meaning:?}");
        }
    }
}

#[test]
fn variants_of_a_call_mean_the_same() {
    for (variant, call, errno) in [
        ("sendfile64", "sendfile", "EINVAL"),
        ("ioctl(FICLONERANGE)", "ioctl(FICLONE)", "EXDEV"),
    ] {
        assert!(meaning_of(call, errno).is_some());
        assert_eq!(meaning_of(variant, errno), meaning_of(call, errno));
    }
    assert!(meaning_of("read", "EIO").is_none());
}
