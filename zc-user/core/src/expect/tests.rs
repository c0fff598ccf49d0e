//! Tests of the whole language: every form that holds and that fails, with its message, and every
//! mistake.

mod properties;
mod three_values;

use std::fmt::Write as _;

use super::*;
use crate::{
    report::{
        Files, Options,
        sample::files::{Scene, copy, map, read, write, written_held},
    },
    trace::{Exit, FileKind, Trace},
};

/// A copier and the shell that started it. It copies `in.dat` by `sendfile` to a Unix socket after
/// `copy_file_range` failed, and `log` by a loop to a pipe. The source of the datagram that it
/// sends is unknown.
pub(super) fn scene() -> Trace {
    let mut scene = Scene::new();
    let [source, library, log] =
        ["in.dat", "libc.so.6", "data/log"].map(|name| scene.regular(name));
    let socket = scene.file(FileKind::UnixStream, "s.sock");
    let pipe = scene.pipe();
    let datagrams = scene.file(FileKind::Udp, "datagrams");
    scene.process(
        "sh",
        vec![read("read", library, 2, 832), map(library, 4096)],
    );
    let copier = vec![
        copy("copy_file_range", source, socket, 0, 0)
            .at(1)
            .failed(libc::EXDEV, 1),
        copy("sendfile", source, socket, 0, 1 << 20)
            .at(2)
            .each(1 << 20)
            .took(&[2000, 3000, 1_500_000])
            .failed(libc::EAGAIN, 2),
        read("read", log, 16, 1 << 16).at(3).each(4096).zero(1),
        written_held("write", log, pipe, 16, 1 << 16, 1 << 16)
            .at(4)
            .each(4096),
        write("sendto", datagrams, 1, 100).at(5),
    ];
    scene.process("copier", copier);
    scene.trace.exit = Some(Exit::Code(3));
    scene.trace.counted = Some("%data,%network".parse().expect("a selection"));
    scene.trace
}

/// The report of a trace, with calls by file.
pub(super) fn report_of(trace: &Trace) -> Report {
    Report::from_trace(
        trace,
        &Options {
            file_calls: Files::Listed,
            ..Options::default()
        },
    )
}

/// Pairs of expectations: one that holds, and a similar one that fails.
pub(super) const FORMS: &str = r#"
    copy_file_range.calls >= 1                        |  copy_file_range.calls > 1
    splice.calls == 0                                 |  write.calls == 0
    read.avg_size >= 3KiB                             |  read.avg_size >= 64KiB
    sendfile.avg_size > 300KiB                        |  splice.avg_size > 1KiB
    sendfile.errors.EAGAIN == 2                       |  sendfile.errors.EAGAIN == 0
    sendfile.errors == 2                              |  copy_file_range.errors == 0
    sendfile.errors.EWOULDBLOCK in 1..3               |  sendfile.errors.EPIPE != 0
    syscalls.calls < 500                              |  syscalls.calls < 5
    %data.calls == 43                                 |  %data.calls != 43
    syscalls.errors <= 3                              |  syscalls.errors < 3
    read.unfinished == 0                              |  read.unfinished > 0
    write.bytes == 64KiB                              |  write.bytes == 64KB
    read.requested_bytes > 1                          |  write.requested_bytes == 0
    sendfile.p99 < 2ms                                |  sendfile.p99 < 10us
    sendfile.p50 > 1us                                |  sendfile.p90 <= 1us
    sendfile.max < 2ms                                |  sendfile.max < 1ms
    sendfile.min >= 2us                               |  sendfile.min > 2us
    sendfile.total < 1s                               |  sendfile.total in 1s..2s
    splice.total == 0                                 |  splice.p99 < 10us
    faults.major == 2                                 |  faults.major == 0
    faults[process="copier"].minor > 0                |  faults[process="copier"].minor == 0
    switches.involuntary <= 20                        |  switches.involuntary < 20
    switches.voluntary > 100                          |  switches[process="copier"].voluntary > 240
    time.wall < 2s                                    |  time.wall < 1s
    time.user < 1s                                    |  time.user == 0
    time.system < 1s                                  |  time.system < 1ms
    exit.code == 3                                    |  exit.code == 0
    exit.code in 0..=3                                |  exit.code in 0..3
    exit.signal == none                               |  exit.signal == SIGKILL
    exit.signal != SIGSEGV                            |  exit.code == none
    processes.count == 2                              |  processes.count == 1
    processes[process="cp"].count == 0                |  processes[process="copier"].count == 0
    processes.threads in 2..=2                        |  processes.threads >= 3
    transfer("*.dat" -> unix).api == sendfile         |  transfer("*.dat" -> unix).api == splice
    transfer(* -> pipe).api == read+write             |  transfer(* -> pipe).api != read+write
    transfer(* -> *).bytes >= 1MiB                    |  transfer(* -> *).bytes >= 1GiB
    transfer(regular:"data/*" -> pipe).calls == 33    |  transfer(regular:"data/*" -> pipe).calls < 33
    transfer(* -> tcp).count == 0                     |  transfer(* -> tcp).api == sendfile
    transfer(* -> unix).avg_size > 1KiB               |  transfer(* -> unix).avg_size < 1KiB
    transfer(* -> unix).attempts.EXDEV == 1           |  transfer(* -> unix).attempts.EXDEV == 0
    transfer(* -> unix).attempts < 2                  |  transfer(* -> unix).attempts < 1
    transfer(* -> unix).user_memory == 0              |  transfer(* -> pipe).user_memory == 0
    transfer(* -> unix).crossings < 10                |  transfer(* -> pipe).crossings < 10
    transfer(* -> unix).total < 1s                    |  transfer(* -> unix).total < 1us
    transfer(* -> unix)[process="copier"].count == 1  |  transfer(* -> unix)[process="sh"].count == 1
    read[process="copier"].calls == 17                |  read[process="copier"].calls == 19
    read[process="/usr/bin/*"].calls == 19            |  read[process="cp"].calls == 0
    read[file="in.dat"].calls == 0                    |  read[file="log"].calls == 0
    read[file="libc*"].calls == 2                     |  read[file="data/*"].calls <= 16
    write[kind=pipe].calls == 16                      |  write[kind=pipe].calls == 0
    syscalls[kind=socket, process="copier"].errors.EXDEV == 1  |  syscalls[kind=unix].bytes == 0
    %network[file="datagrams"].calls == 1             |  sendfile[file="s.sock"].calls == 0
    write.calls == 0 or exit.code == 3                |  write.calls == 0 or exit.code == 0
    write.calls > 0 and exit.code == 3                |  write.calls > 0 and exit.code == 0
    not write.calls == 0                              |  not write.calls > 0
    not (write.calls == 0 or splice.calls > 0)        |  not (write.calls > 0 and splice.calls == 0)
    not splice.calls > 0                              |  not splice.avg_size < 1KiB
    ioctl(FICLONE).calls == 0                         |  ioctl(FICLONE).calls == 1
"#;

/// The pairs of [`FORMS`].
pub(super) fn forms() -> impl Iterator<Item = [&'static str; 2]> {
    let pairs = FORMS.lines().filter_map(|line| line.split_once('|'));
    pairs.map(|(holds, fails)| [holds.trim(), fails.trim()])
}

/// Asserts what a table says of a report: on each line a verdict and an expectation, and behind
/// ` (` a part of what is said about it.
#[track_caller]
pub(super) fn assert_verdicts(report: &Report, table: &str) {
    assert_verdicts_with(report, Inferred::Inconclusive, table);
}

/// The same with inferred transfers accepted or not.
#[track_caller]
pub(super) fn assert_verdicts_with(report: &Report, inferred: Inferred, table: &str) {
    let lines = table.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let (verdict, rest) = line.split_once(' ').expect("a verdict and an expectation");
        let (text, said) = rest.rsplit_once("  (").unwrap_or((rest, ""));
        let expectation: Expectation = text.trim().parse().unwrap_or_else(|e| panic!("{e}"));
        let outcome = expectation
            .evaluate_with(report, inferred)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.verdict.name(), verdict, "{outcome}");
        assert!(outcome.to_string().contains(said), "{said:?}: {outcome}");
    }
}

#[test]
fn every_form_can_hold_and_fail() {
    let report = report_of(&scene());
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for [holds, fails] in forms() {
        wrong.extend(report.expect(holds).err());
        match report.expect(fails) {
            Err(error @ ExpectError::Fails(_)) => {
                writeln!(text, "{error}\n").expect("memory takes it");
            }
            other => panic!("{fails}: {other:?}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    insta::assert_snapshot!("failing", text);
}

#[test]
fn the_debug_form_of_an_error_is_its_message() {
    let report = report_of(&scene());
    let error = report.expect("write.calls == 0").expect_err("it writes");
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn every_comparison_has_a_finding() {
    let expectation: Expectation = "write.calls == 0 or not read.calls == 0"
        .parse()
        .expect("an expectation");
    let outcome = expectation
        .evaluate(&report_of(&scene()))
        .expect("was counted");
    let found: Vec<_> = outcome
        .findings
        .iter()
        .map(|finding| (finding.comparison.as_str(), finding.verdict))
        .collect();
    assert_eq!(
        found,
        [
            ("write.calls == 0", Verdict::Fails),
            ("not read.calls == 0", Verdict::Holds)
        ]
    );
}

#[test]
fn an_expectation_says_what_a_run_must_count_and_list() {
    let parsed = |text: &str| text.parse::<Expectation>().expect("an expectation");
    let calls =
        parsed("fsync.calls == 0 and not (%signal.calls > 1 or ioctl(FICLONE).calls == 0)").calls();
    assert!(
        ["fsync", "kill", "ioctl(FICLONE)"]
            .iter()
            .all(|name| calls.contains(name)),
        "{calls:?}"
    );
    assert!(parsed("time.wall < 1s or read[kind=pipe].calls == 0").needs_file_calls());
    assert!(!parsed("read[process=\"cp\"].calls == 0").needs_file_calls());
    for quiet in [
        "time.wall < 1s",
        "not read.p99 > 1us",
        "exit.code == 0 or switches.voluntary < 5",
    ] {
        assert!(parsed(quiet).depends_on_load(), "{quiet}");
    }
    assert!(!parsed("read.calls == 0 and faults.major == 0").depends_on_load());
    assert_eq!(
        parsed("exit.calls == 0 and time.wall < 1s")
            .calls()
            .into_iter()
            .collect::<Vec<_>>(),
        ["exit"]
    );
}

/// Mistakes, one on each line.
const MISTAKES: &str = r#"
raed.calls == 0
qqqqqqqqq.calls == 0
sendfile64.calls == 0
mmap2.calls == 0
socketcall.calls == 0
pread.calls == 0
write.cals == 0
write.api == sendfile
write
write.
write == 0
write.calls
write.calls = 0
write.calls == 
write.calls == many
write.calls == 1.5
write.calls == 2s
write.bytes < 2s
write.bytes < 2K
write.bytes < 1.0001KiB
write.total < 2
write.total < 64KiB
write.total < 2 weeks
write.bytes < 99999999999999999999999999999999999999999
write.errors.EAGIAN == 0
write.errors."EAGAIN" == 0
write.calls.EAGAIN == 0
%netwrok.calls == 0
%qqqqqqqqqqqq.calls == 0
write[proces="cp"].calls == 0
write[pid=1].calls == 0
write[process=="cp"].calls == 0
write[process].calls == 0
write[process="cp", process="mv"].calls == 0
write[process="cp".calls == 0
write[file="a***"].calls == 0
write[file=""].calls == 0
write[kind=pip].calls == 0
exit[process="cp"].code == 0
time[process="cp"].wall < 1s
faults[file="in"].major == 0
openat[file="in"].calls == 0
unlinkat[process="rm", kind=regular].calls == 0
read[path="x"].errors == 0
openat[path="x"].total == 0
openat[path="x", process="cp"].errors == 0
%file[file="in"].calls == 0
munmap[file="in"].calls == 0
read[caller=""].calls == 0
read[caller="a::b***"].calls == 0
read[caller="a:b"].calls == 0
read[caller="a::b<u8>"].calls == 0
read[caller=3].calls == 0
read[caller="a::b"].bytes == 0
read[caller="a::b", file="in"].calls == 0
faults[caller="a::b"].major == 0
transfer(* -> *)[caller="a::b"].via == "std::io::copy"
transfer(* -> *).via == std::io::copy
transfer(* -> *).via == ""
transfer(* -> *).via == 3
transfer(* -> *).via > "std::io::copy"
transfer(* -> *).via in 1..2
faults.medium == 0
transfer.api == sendfile
transfer(*).api == sendfile
transfer(* -> unx).api == sendfile
transfer(* -> in.dat).api == sendfile
transfer(* -> *).api == sendflie
transfer(* -> *).api > sendfile
transfer(* -> *).api in 1..2
transfer(* -> *).api == 3
exit.signal == SIGKIL
exit.signal > 3
exit.code == 3s
exit.code == 1000
exit.signal == 999
ioctl(TCGETS).calls == 0
read.calls in 5
read.calls in 5..3
read.calls in 5..5
read.calls == 1..2
0 == read.calls
1 < read.calls < 3
read.calls < 3 < 5
read.calls -> 3
read.calls == 0 && write.calls == 0
read.calls == 0 AND write.calls == 0
read.calls == 0 || write.calls == 0
!read.calls == 0
read.calls == 0 and
(read.calls == 0
read.calls == 0)
read.calls == 0 write.calls == 0
read[file="in].calls == 0
read[file="\n"].calls == 0
ré.calls == 0
read.calls == 0; write.calls == 0
"#;

#[test]
fn every_mistake_has_a_message_and_a_place() {
    let mut text = String::new();
    for mistake in MISTAKES.lines() {
        let error = mistake.parse::<Expectation>().expect_err(mistake);
        assert_eq!(error.message().lines().count(), 1, "{error}");
        writeln!(text, "{error}\n").expect("memory takes it");
    }
    insta::assert_snapshot!("mistakes", text);
}

#[test]
fn an_expectation_nested_too_deeply_is_refused() {
    for deep in ["(".repeat(100_000), "not ".repeat(100_000)] {
        assert_eq!(
            deep.parse::<Expectation>().expect_err("too deep").message(),
            "nested too deeply"
        );
    }
}

#[test]
fn a_call_that_was_not_counted_is_an_error_instead_of_0() {
    let report = report_of(&scene());
    let error = report
        .expect("exit.code == 3 and fsync.calls == 0")
        .expect_err("not counted");
    assert!(matches!(error, ExpectError::NotCounted(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "fsync was not counted in this run, so nothing is known about it: select it with --syscalls\n  \
         exit.code == 3 and fsync.calls == 0\n                     ^"
    );
    let error = report
        .expect("%signal.calls == 0")
        .expect_err("not counted")
        .to_string();
    assert!(
        error.starts_with("kill, ") && error.contains(" more were not counted"),
        "{error}"
    );
}
