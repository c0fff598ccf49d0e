//! What cannot be meant, and how that is said.

use std::fmt::Write as _;

use super::{report_of, scene};
use crate::{
    expect::{ExpectError, Expectation},
    syscall::Abi,
};

const MISTAKES: &[&str] = &[
    "",
    "raed.calls == 0",
    "qqqqqqqqq.calls == 0",
    "sendfile64.calls == 0",
    "mmap2.calls == 0",
    "socketcall.calls == 0",
    "pread.calls == 0",
    "write.cals == 0",
    "write.api == sendfile",
    "write",
    "write.",
    "write == 0",
    "write.calls",
    "write.calls = 0",
    "write.calls == ",
    "write.calls == many",
    "write.calls == 1.5",
    "write.calls == 2s",
    "write.bytes < 2s",
    "write.bytes < 2K",
    "write.bytes < 1.0001KiB",
    "write.total < 2",
    "write.total < 64KiB",
    "write.total < 2 weeks",
    "write.bytes < 99999999999999999999999999999999999999999",
    "write.errors.EAGIAN == 0",
    "write.errors.\"EAGAIN\" == 0",
    "write.calls.EAGAIN == 0",
    "%netwrok.calls == 0",
    "%qqqqqqqqqqqq.calls == 0",
    "write[proces=\"cp\"].calls == 0",
    "write[pid=1].calls == 0",
    "write[process==\"cp\"].calls == 0",
    "write[process].calls == 0",
    "write[process=\"cp\", process=\"mv\"].calls == 0",
    "write[process=\"cp\".calls == 0",
    "write[file=\"a***\"].calls == 0",
    "write[file=\"\"].calls == 0",
    "write[kind=pip].calls == 0",
    "exit[process=\"cp\"].code == 0",
    "time[process=\"cp\"].wall < 1s",
    "faults[file=\"in\"].major == 0",
    "openat[file=\"in\"].calls == 0",
    "unlinkat[process=\"rm\", kind=regular].calls == 0",
    "%file[file=\"in\"].calls == 0",
    "munmap[file=\"in\"].calls == 0",
    "faults.medium == 0",
    "transfer.api == sendfile",
    "transfer(*).api == sendfile",
    "transfer(* -> unx).api == sendfile",
    "transfer(* -> in.dat).api == sendfile",
    "transfer(* -> *).api == sendflie",
    "transfer(* -> *).api > sendfile",
    "transfer(* -> *).api in 1..2",
    "transfer(* -> *).api == 3",
    "exit.signal == SIGKIL",
    "exit.signal > 3",
    "exit.code == 3s",
    "exit.code == 1000",
    "exit.signal == 999",
    "ioctl(TCGETS).calls == 0",
    "read.calls in 5",
    "read.calls in 5..3",
    "read.calls in 5..5",
    "read.calls == 1..2",
    "0 == read.calls",
    "1 < read.calls < 3",
    "read.calls < 3 < 5",
    "read.calls -> 3",
    "read.calls == 0 && write.calls == 0",
    "read.calls == 0 AND write.calls == 0",
    "read.calls == 0 || write.calls == 0",
    "!read.calls == 0",
    "read.calls == 0 and",
    "(read.calls == 0",
    "read.calls == 0)",
    "read.calls == 0 write.calls == 0",
    "read[file=\"in].calls == 0",
    "read[file=\"\\n\"].calls == 0",
    "ré.calls == 0",
    "read.calls == 0; write.calls == 0",
];

#[test]
fn every_mistake_says_what_and_where() {
    let mut text = String::new();
    for mistake in MISTAKES {
        let error = mistake.parse::<Expectation>().expect_err(mistake);
        assert_eq!(error.message().lines().count(), 1, "{error}");
        writeln!(text, "{error}\n").expect("memory takes it");
    }
    // The snapshot was made on x86_64; messages name the machine's own table of calls.
    insta::assert_snapshot!("mistakes", text.replace(Abi::NATIVE.name(), Abi::X86_64.name()));
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    for deep in ["(".repeat(100_000), "not ".repeat(100_000)] {
        assert_eq!(deep.parse::<Expectation>().expect_err("too deep").message(), "nested too deeply");
    }
}

#[test]
fn a_call_that_was_not_counted_is_an_error_and_not_0() {
    let report = report_of(&scene());
    let error = report.expect("exit.code == 3 and fsync.calls == 0").expect_err("not counted");
    assert!(matches!(error, ExpectError::NotCounted(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "fsync was not counted in this run, so nothing is known of it: have it counted (--syscalls)\n  \
         exit.code == 3 and fsync.calls == 0\n                     ^"
    );
    let error = report.expect("%signal.calls == 0").expect_err("not counted").to_string();
    assert!(error.starts_with("kill, ") && error.contains(" more were not counted"), "{error}");
}
