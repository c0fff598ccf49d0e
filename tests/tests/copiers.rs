//! The copiers: what they copied before a signal ended them is in the report. Which calls each case
//! makes, and how many bytes these move, is checked by `tests/zctrace.toml`.

use std::fs;

use rustix::process::Signal;
use zc_tests::Peer;

use crate::harness::{
    Program, TestDir, c, child_of, io_of, program, untraced, wait_until, zctrace,
};

/// The copier in Rust.
pub fn in_rust() -> Program {
    program(env!("CARGO_BIN_EXE_copier"))
}

/// The copier in C.
pub fn in_c() -> Program {
    c("copier-c")
}

/// A copy.
pub fn copy(copier: &Program, case: &str, from: &str, to: &str) -> Program {
    copier.clone().args(&[case, "--from", from, "--to", to])
}

/// The other side of a socket: `copier sink ADDRESS`, once it listens.
pub fn sink(address: &str) -> Peer {
    Peer::start(&["sink", address]).expect("it listens")
}

/// The names of the cases that a program lists.
pub fn cases(program: &Program) -> Vec<String> {
    let list = untraced(&program.clone().arg("--list")).finish();
    let first = |line: &str| Some(line.split_ascii_whitespace().next()?.to_owned());
    list.successful().lines().filter_map(first).collect()
}

#[test]
fn a_signal_to_zctrace_ends_the_copier_and_its_sink() {
    let dir = TestDir::new();
    let sink = sink(&format!("unix:{}", dir.word("socket")));
    let copying = copy(&in_rust(), "read-write", "/dev/zero", &sink.address);
    let (tracing, report) = zctrace().start(&copying);
    // zctrace has other children before.
    let id = tracing.pid().as_raw_pid();
    let children = format!("/proc/{id}/task/{id}/children");
    wait_until("the copier is there", || {
        let child = fs::read_to_string(&children).unwrap_or_default();
        let comm = fs::read_to_string(format!("/proc/{}/comm", child.trim()));
        comm.is_ok_and(|comm| comm == "copier\n")
    });
    let copier = child_of(tracing.pid());
    // More than its buffer and a socket hold, so that bytes have arrived.
    wait_until("bytes arrive", || io_of(copier, "rchar") > 2 << 20);
    tracing.signal(Signal::TERM);
    tracing.wait();
    let line = sink.finish().expect("it succeeds");
    let received = line.strip_prefix("received ");
    let received = received.and_then(|rest| rest.strip_suffix(" bytes\n"));
    let received: u64 = received.and_then(|bytes| bytes.parse().ok()).expect(&line);
    let run = report.read(&tracing.stderr());
    let mut rows = run.totals.syscalls.iter();
    let sendto = rows.find(|row| row.name == "sendto").expect("it sent");
    // A call that the signal cut off never returned, so the bytes that it moved are in no figure.
    let cut_off = received - sendto.bytes.expect("known");
    let most = 8192 * sendto.unfinished;
    assert!(cut_off <= most, "received {received}, sent {sendto:?}");
}
