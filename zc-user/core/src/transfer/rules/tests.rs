//! One test for each rule: a program that does what the library does gets the reason, and an
//! unknown program that does the same does not.

use super::*;
use crate::{
    errno,
    report::{Attempt, Transfer, sample::files::Scene},
    syscalls::data_calls,
    trace::Toolchain,
    transfer::analyse,
};

const MIB: u64 = 1 << 20;
const RUST: (&str, Option<Language>) = ("copier", Some(Language::Rust));
const GO: (&str, Option<Language>) = ("server", Some(Language::Go));
const PYTHON: (&str, Option<Language>) = ("python3.11", None);
const CP: (&str, Option<Language>) = ("cp", None);
/// What `sendfile` and `splice` are asked for by Rust.
const MOST: u64 = 0x7fff_f000;

/// The calls of a program between two files, for [`Scene::run`]. `what` it does: `splice EINVAL,
/// read+write 8192`, the calls that failed before, then the call that moves the bytes, or the loop,
/// and the bytes that it asks for.
fn calls([from, to]: [&str; 2], what: &str) -> String {
    let call = |(order, step): (u64, &str)| {
        let (call, rest) = step.split_once(' ').expect("CALL ERRNO or CALL BYTES");
        match rest.parse::<u64>() {
            Err(_) => format!("{call} {from}->{to} 0 0 {rest}*1 @{order}"),
            Ok(each) if call == "read+write" => {
                let calls = MIB / each;
                let read = format!("read {from} {calls} 1M +1 /{each} @{order}");
                format!("{read}, write {from}~{to} {calls} 1M @{order}")
            }
            Ok(each) => format!("{call} {from}->{to} 1 1M +1 /{each} @{order}"),
        }
    };
    let steps = (1..).zip(what.split(", ")).map(call);
    steps.collect::<Vec<_>>().join(", ")
}

/// The transfer of a program that does this between these files.
fn transfer_in(
    mut scene: Scene,
    (name, language): (&str, Option<Language>),
    ends: [&str; 2],
    what: &str,
) -> Transfer {
    let process = scene.run(&format!("{name}: {}", calls(ends, what)));
    process.toolchain = language.map(|language| Toolchain {
        language,
        version: "1.95.0".into(),
    });
    let mut found = analyse(&scene.trace).transfers;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn transfer(program: (&str, Option<Language>), ends: [&str; 2], what: &str) -> Transfer {
    transfer_in(Scene::new(), program, ends, what)
}

/// Asserts that the program gets reasons that begin like this and contain those words, and that an
/// unknown program that does the same does not.
fn assert_reasons(
    program: (&str, Option<Language>),
    beginning: &str,
    cases: &[([&str; 2], &str, &str)],
) {
    for &(ends, what, expected) in cases {
        let reason = transfer(program, ends, what).reason;
        let reason = reason.unwrap_or_else(|| panic!("no reason, expected: {expected}"));
        let fits = reason.text.starts_with(beginning) && reason.text.contains(expected);
        assert!(fits && !reason.source.is_empty(), "{reason:?}");
        let unknown = transfer(("unknown", None), ends, what).reason;
        assert!(unknown.is_none_or(|reason| !reason.text.contains(beginning)));
    }
}

const FILES: [&str; 2] = ["in", "out"];

#[test]
fn rusts_copy_if_other_code_could_do_the_same() {
    let buffer = "read+write 8192";
    let sendfile = &format!("sendfile {MOST}");
    let splice = &format!("splice {MOST}");
    let no_sendfile = "sendfile EINVAL, read+write 8192";
    let no_splice = "splice EINVAL, read+write 8192";
    let cases = [
        (["in", "unix-stream"], buffer, "file to a socket"),
        (["in", "tcp"], buffer, "file to a socket"),
        (["block", "tcp"], buffer, "file to a socket"),
        (["memfd", "unix-stream"], buffer, "file to a socket"),
        (["in", "pipe"], buffer, "does not use splice"),
        (["tcp", "out"], buffer, "destination is a pipe"),
        (["char", "out"], buffer, "from a character device"),
        (["block", "out"], no_sendfile, "when sendfile fails;"),
        (["pipe", "out"], no_splice, "when splice fails"),
        (["in", "char"], sendfile, "from a file to a device"),
        (["block", "out"], sendfile, "from a block device"),
        (["pipe", "out"], splice, "splice from a pipe"),
        (["tcp", "pipe"], splice, "from a socket into a pipe"),
    ];
    assert_reasons(RUST, "if this is std::io::copy, it ", &cases);
    let cases = [(FILES, "copy_file_range 1073741824", "between regular files")];
    let beginning = "if this is std::io::copy or std::fs::copy, it uses copy_file_range ";
    assert_reasons(RUST, beginning, &cases);
    // It does that only if something else failed.
    for to in ["out", "tcp"] {
        assert_eq!(transfer(RUST, ["in", to], sendfile).reason, None);
    }
    let mut scene = Scene::new();
    scene.named("cpuinfo");
    scene.trace.files[0].size_bytes = Some(0);
    let verdict = transfer_in(scene, RUST, ["cpuinfo", "out"], buffer).verdict;
    let reason = ": if this is std::io::copy, it uses its 8 KiB buffer for files of length 0";
    assert!(verdict.contains(reason), "{verdict}");
}

#[test]
fn rusts_copy_where_nothing_else_tries_the_same() {
    let sendfile = &format!("copy_file_range EXDEV, sendfile {MOST}");
    let loops = "copy_file_range EBADF, sendfile EINVAL, read+write 8192";
    let cases = [
        (FILES, loops, "copy_file_range and sendfile fail"),
        (FILES, sendfile, "fails; copy_file_range does not"),
    ];
    assert_reasons(RUST, "std::io::copy falls back to ", &cases);
}

#[test]
fn gos_and_pythons_copies() {
    let range = &format!("copy_file_range {MOST}");
    let cases = [
        (FILES, range.as_str(), "from one os.File"),
        (
            ["in", "tcp"],
            "sendfile 2147483647",
            "from an os.File to a TCP",
        ),
        (["tcp", "out"], "splice 1048576", "a pipe of its own"),
        (["in", "pipe"], "read+write 32768", "32 KiB buffer"),
    ];
    assert_reasons(GO, "if this is io.Copy, it uses ", &cases);
    let cases = [(FILES, "sendfile 1073741824", "the whole file")];
    let beginning = "if this is shutil.copyfile, it asks sendfile ";
    assert_reasons(PYTHON, beginning, &cases);
}

#[test]
fn cp_of_coreutils() {
    let with_holes = "if the source has holes, or with --sparse=always; the filesystem cannot";
    let cases = [
        ("ioctl(FICLONE) 0", "shares blocks"),
        (
            "ioctl(FICLONE) EOPNOTSUPP, copy_file_range 4611686009837453312",
            "if the files cannot share blocks; the filesystem",
        ),
        (
            "ioctl(FICLONE) EXDEV, copy_file_range EXDEV, read+write 131072",
            "128 KiB; copy_file_range does not work between",
        ),
        ("read+write 131072", "reads and writes with --reflink=never"),
        ("ioctl(FICLONE) EOPNOTSUPP, read+write 131072", with_holes),
        ("ioctl(FICLONE) EOPNOTSUPP, read+write 65536", with_holes),
    ];
    assert_reasons(CP, "cp ", &cases.map(|(what, text)| (FILES, what, text)));
    // The same code copies for others, which have no option for it.
    let fallback = "ioctl(FICLONE) EXDEV, copy_file_range EXDEV, read+write 131072";
    for name in ["mv", "install"] {
        let cases = [(FILES, fallback, "128 KiB; copy_file_range does not work")];
        assert_reasons((name, None), &format!("{name} falls back "), &cases);
        assert_eq!(
            transfer((name, None), FILES, "read+write 131072").reason,
            None
        );
    }
}

#[test]
fn sizes_other_than_those_of_the_library_get_no_reason() {
    for (program, to, what) in [
        (RUST, "tcp", "read+write 65536"),
        (RUST, "out", "copy_file_range 1048576"),
        (GO, "pipe", "read+write 8192"),
        (PYTHON, "out", "sendfile 65536"),
    ] {
        assert_eq!(transfer(program, ["in", to], what).reason, None);
    }
}

#[test]
fn a_rust_program_named_cp_is_not_that_of_coreutils() {
    let what = "ioctl(FICLONE) EOPNOTSUPP, copy_file_range 1048576";
    let reason = transfer(("cp", Some(Language::Rust)), FILES, what).reason;
    let reason = reason.expect("knows the errno");
    assert!(!reason.text.contains("cp "), "{reason:?}");
}

#[test]
fn rules_need_a_recent_enough_compiler() {
    let program = RuleProgram::Built(Language::Rust, [1, 70]);
    let matches = |version: &str| {
        program.matches(&Process {
            toolchain: Some(Toolchain {
                language: Language::Rust,
                version: version.into(),
            }),
            ..Process::default()
        })
    };
    assert!(["1.70.0", "1.95.0-nightly", "2.0"].into_iter().all(matches));
    assert!(!["1.69.9", ""].into_iter().any(matches));
    assert!(!program.matches(&Process::default()));
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
            rule.clause(&Process::default()).starts_with("if this is "),
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
        let is_of_program = matches!(rule.program, RuleProgram::Named(_));
        assert!(
            !rule.text.ends_with('.') && rule.library.is_empty() == is_of_program,
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
