//! Logs with more files than are told apart.

use std::fmt::Write as _;

use super::{super::file_table::MAX_APART, read_text, rows};
use crate::trace::{File, Input, Row, Trace};

/// A log of a program that reads 100 bytes from each of so many files, and writes them to one.
fn log(files: usize) -> String {
    let mut log = "10 execve(\"/bin/walk\", [\"walk\"], 0x7ffd /* 1 var */) = 0\n".to_owned();
    for file in 0..files {
        let read = format!("10 read(3</d/{file}>, \"x\"..., 4096) = 100");
        let write = "10 write(1</out>, \"x\"..., 100) = 100";
        writeln!(log, "{read}\n{write}").expect("a string");
    }
    log + "10 exit_group(0) = ?\n10 +++ exited with 0 +++\n"
}

fn input<'a>(row: &Row, trace: &'a Trace) -> Option<&'a File> {
    row.ends.input.map(Input::file)?.in_files(&trace.files)
}

#[test]
fn files_beyond_the_limit_are_summed_and_no_call_or_byte_is_lost() {
    let files = 2 * MAX_APART;
    let trace = read_text(log(files));
    for call in ["read", "write"] {
        let rows = || rows(&trace).filter(|row| row.call.name == call);
        let calls: u64 = rows().map(|row| row.calls).sum();
        let bytes: u64 = rows().filter_map(|row| row.bytes).sum();
        assert_eq!((calls, bytes), (files as u64, 100 * files as u64));
    }
    let mut reads = rows(&trace).filter(|row| row.call.name == "read");
    let first = reads.next().and_then(|row| input(row, &trace));
    assert_eq!(first.and_then(|file| file.path.as_deref()), Some("/d/0"));
    // All but the first ones and the destination.
    let summed = reads.filter(|row| input(row, &trace).is_some_and(|file| file.sum.is_some()));
    let summed: u64 = summed.map(|row| row.calls).sum();
    assert_eq!(summed, (files - (MAX_APART - 1)) as u64);
    assert_eq!(trace.files.len(), MAX_APART + 1);
    assert_eq!(trace.calls_without_files(), summed);
    let note = "those after the first 65536 are summed";
    assert!(trace.notes.iter().any(|text| text.contains(note)));
}

#[test]
fn as_many_files_as_are_told_apart_keep_their_names() {
    let trace = read_text(log(MAX_APART - 1));
    assert_eq!(trace.files.len(), MAX_APART);
    assert!(trace.files.iter().all(|file| file.sum.is_none()));
    assert_eq!(trace.calls_without_files(), 0);
}
