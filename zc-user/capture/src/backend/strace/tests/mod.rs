//! Tests of the whole parser with real, made-up and damaged logs.

mod files;
mod golden;
mod mutations;
mod properties;
mod rules;

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Collector, Log, read_log, read_logs, tid_of_file};
use crate::{
    backend::Until,
    syscall::Selection,
    trace::{Loss, Row, Trace},
};

/// The directory of the real logs.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/strace")
}

/// The real logs, in the order of their names: files, and directories of the files of `-ff`.
fn logs() -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus()).expect("the corpus is there").map(|entry| entry.expect("can be listed").path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log" || extension == "ff");
    let mut logs: Vec<PathBuf> = entries.filter(is_log).collect();
    logs.sort();
    assert!(logs.len() > 30, "the corpus is complete");
    logs
}

/// The files of a log, with their thread ids.
fn files(log: &Path) -> Vec<Log<&'static [u8]>> {
    let open = |path: &Path, tid| Log { reader: &*fs::read(path).expect("can be read").leak(), tid };
    if log.is_file() {
        return vec![open(log, None)];
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(log).expect("can be listed").map(|entry| entry.expect("can be listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| open(path, tid_of_file(&path.to_string_lossy()))).collect()
}

/// Reads a log; also returns the lines that were not understood.
fn read(log: &Path) -> (Trace, Vec<String>) {
    let mut unparsed = Vec::new();
    let trace = read_logs(files(log), &Selection::All, &mut |line| unparsed.push(line.to_owned())).expect("memory can be read");
    (trace, unparsed)
}

/// Reads a made-up log.
fn read_text(text: &str) -> Trace {
    read_until(text, Until::AllEnd)
}

fn read_until(text: &str, until: Until) -> Trace {
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, until, &mut ignore);
    read_log(Log { reader: text.as_bytes(), tid: None }, &mut collector).expect("memory can be read");
    collector.finish()
}

/// All rows of a trace.
fn rows(trace: &Trace) -> impl Iterator<Item = &Row> {
    trace.processes.iter().flat_map(|process| &process.threads).flat_map(|thread| &thread.rows)
}

/// The only row of this call.
fn row<'a>(trace: &'a Trace, name: &str) -> &'a Row {
    let mut named = rows(trace).filter(|row| row.call.name == name);
    let row = named.next().unwrap_or_else(|| panic!("no row of {name} in {trace:?}"));
    assert!(named.next().is_none(), "one row of {name}");
    row
}

/// How many of this loss there are.
fn lost(trace: &Trace, loss: Loss) -> u64 {
    trace.losses.get(&loss).copied().unwrap_or(0)
}
