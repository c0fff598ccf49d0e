//! Reads arbitrary bytes as a log. This must not panic, and must not invent calls: there are at
//! most as many calls as lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zctrace::{
    backend::{
        Until,
        strace::{Collector, Log, read_log},
    },
    syscalls::Selection,
};

fuzz_target!(|bytes: &[u8]| {
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut ignore);
    let log = Log {
        reader: bytes,
        tid: None,
    };
    if read_log(log, &mut collector).is_err() {
        return;
    }
    let trace = collector.finish();
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    let rows = trace
        .processes
        .iter()
        .flat_map(|process| &process.threads)
        .flat_map(|thread| &thread.rows);
    let calls: u64 = rows.map(|row| row.calls).sum();
    assert!(calls <= lines, "{calls} calls in {lines} lines");
});
