//! Every form, holding and failing.

use std::fmt::Write as _;

use super::{report_of, scene};
use crate::expect::{ExpectError, Expectation, Verdict};

/// Pairs: an expectation that holds, and its like that fails.
const FORMS: &[[&str; 2]] = &[
    ["copy_file_range.calls >= 1", "copy_file_range.calls > 1"],
    ["splice.calls == 0", "write.calls == 0"],
    ["read.avg_size >= 3KiB", "read.avg_size >= 64KiB"],
    ["sendfile.avg_size > 300KiB", "splice.avg_size > 1KiB"],
    ["sendfile.errors.EAGAIN == 2", "sendfile.errors.EAGAIN == 0"],
    ["sendfile.errors == 2", "copy_file_range.errors == 0"],
    ["sendfile.errors.EWOULDBLOCK in 1..3", "sendfile.errors.EPIPE != 0"],
    ["syscalls.calls < 500", "syscalls.calls < 5"],
    ["%data.calls == 43", "%data.calls != 43"],
    ["syscalls.errors <= 3", "syscalls.errors < 3"],
    ["read.unfinished == 0", "read.unfinished > 0"],
    ["write.bytes == 64KiB", "write.bytes == 64KB"],
    ["read.requested_bytes > 1", "write.requested_bytes == 0"],
    ["sendfile.p99 < 2ms", "sendfile.p99 < 10us"],
    ["sendfile.p50 > 1us", "sendfile.p90 <= 1us"],
    ["sendfile.max < 2ms", "sendfile.max < 1ms"],
    ["sendfile.min >= 2us", "sendfile.min > 2us"],
    ["sendfile.total < 1s", "sendfile.total in 1s..2s"],
    ["splice.total == 0", "splice.p99 < 10us"],
    ["faults.major == 2", "faults.major == 0"],
    ["faults[process=\"copier\"].minor > 0", "faults[process=\"copier\"].minor == 0"],
    ["switches.involuntary <= 20", "switches.involuntary < 20"],
    ["switches.voluntary > 100", "switches[process=\"copier\"].voluntary > 240"],
    ["time.wall < 2s", "time.wall < 1s"],
    ["time.user < 1s", "time.user == 0"],
    ["time.system < 1s", "time.system < 1ms"],
    ["exit.code == 3", "exit.code == 0"],
    ["exit.code in 0..=3", "exit.code in 0..3"],
    ["exit.signal == none", "exit.signal == SIGKILL"],
    ["exit.signal != SIGSEGV", "exit.code == none"],
    ["processes.count == 2", "processes.count == 1"],
    ["processes[process=\"cp\"].count == 0", "processes[process=\"copier\"].count == 0"],
    ["processes.threads in 2..=2", "processes.threads >= 3"],
    ["transfer(\"*.dat\" -> unix).api == sendfile", "transfer(\"*.dat\" -> unix).api == splice"],
    ["transfer(* -> pipe).api == read+write", "transfer(* -> pipe).api != read+write"],
    ["transfer(* -> *).bytes >= 1MiB", "transfer(* -> *).bytes >= 1GiB"],
    ["transfer(regular:\"data/*\" -> pipe).calls == 33", "transfer(regular:\"data/*\" -> pipe).calls < 33"],
    ["transfer(* -> tcp).count == 0", "transfer(* -> tcp).api == sendfile"],
    ["transfer(* -> unix).avg_size > 1KiB", "transfer(* -> unix).avg_size < 1KiB"],
    ["transfer(* -> unix).attempts.EXDEV == 1", "transfer(* -> unix).attempts.EXDEV == 0"],
    ["transfer(* -> unix).attempts < 2", "transfer(* -> unix).attempts < 1"],
    ["transfer(* -> unix).user_memory == 0", "transfer(* -> pipe).user_memory == 0"],
    ["transfer(* -> unix).crossings < 10", "transfer(* -> pipe).crossings < 10"],
    ["transfer(* -> unix).total < 1s", "transfer(* -> unix).total < 1us"],
    ["transfer(* -> unix)[process=\"copier\"].count == 1", "transfer(* -> unix)[process=\"sh\"].count == 1"],
    ["read[process=\"copier\"].calls == 17", "read[process=\"copier\"].calls == 19"],
    ["read[process=\"/usr/bin/*\"].calls == 19", "read[process=\"cp\"].calls == 0"],
    ["read[file=\"in.dat\"].calls == 0", "read[file=\"log\"].calls == 0"],
    ["read[file=\"libc*\"].calls == 2", "read[file=\"data/*\"].calls <= 16"],
    ["write[kind=pipe].calls == 16", "write[kind=pipe].calls == 0"],
    ["syscalls[kind=socket, process=\"copier\"].errors.EXDEV == 1", "syscalls[kind=unix].bytes == 0"],
    ["%network[file=\"datagrams\"].calls == 1", "sendfile[file=\"s.sock\"].calls == 0"],
    ["write.calls == 0 or exit.code == 3", "write.calls == 0 or exit.code == 0"],
    ["write.calls > 0 and exit.code == 3", "write.calls > 0 and exit.code == 0"],
    ["not write.calls == 0", "not write.calls > 0"],
    ["not (write.calls == 0 or splice.calls > 0)", "not (write.calls > 0 and splice.calls == 0)"],
    ["not splice.calls > 0", "not splice.avg_size < 1KiB"],
    ["ioctl(FICLONE).calls == 0", "ioctl(FICLONE).calls == 1"],
];

#[test]
fn every_form_holds_and_fails() {
    let report = report_of(&scene());
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for [holds, fails] in FORMS {
        wrong.extend(report.expect(holds).err());
        match report.expect(fails) {
            Err(error @ ExpectError::Fails(_)) => writeln!(text, "{error}\n").expect("memory takes it"),
            other => panic!("{fails}: {other:?}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    insta::assert_snapshot!("failing", text);
}

#[test]
fn a_test_shows_the_same() {
    let report = report_of(&scene());
    let error = report.expect("write.calls == 0").expect_err("it writes");
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn every_comparison_has_its_finding() {
    let expectation: Expectation = "write.calls == 0 or not read.calls == 0".parse().expect("an expectation");
    let outcome = expectation.evaluate(&report_of(&scene())).expect("was counted");
    let found: Vec<_> = outcome.findings.iter().map(|finding| (finding.comparison.as_str(), finding.verdict)).collect();
    assert_eq!(found, [("write.calls == 0", Verdict::Fails), ("not read.calls == 0", Verdict::Holds)]);
}

#[test]
fn it_says_what_a_run_must_count_and_list() {
    let parsed = |text: &str| text.parse::<Expectation>().expect("an expectation");
    let calls = parsed("fsync.calls == 0 and not (%signal.calls > 1 or ioctl(FICLONE).calls == 0)").calls();
    assert!(["fsync", "kill", "ioctl(FICLONE)"].iter().all(|name| calls.contains(name)), "{calls:?}");
    assert!(parsed("time.wall < 1s or read[kind=pipe].calls == 0").needs_file_calls());
    assert!(!parsed("read[process=\"cp\"].calls == 0").needs_file_calls());
    for quiet in ["time.wall < 1s", "not read.p99 > 1us", "exit.code == 0 or switches.voluntary < 5"] {
        assert!(parsed(quiet).depends_on_load(), "{quiet}");
    }
    assert!(!parsed("read.calls == 0 and faults.major == 0").depends_on_load());
    assert_eq!(parsed("exit.calls == 0 and time.wall < 1s").calls().into_iter().collect::<Vec<_>>(), ["exit"]);
}
