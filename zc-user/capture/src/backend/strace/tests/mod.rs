//! Tests of the whole parser with real, made-up and damaged logs.

mod lines;
mod many_files;
mod properties;
mod rules;
mod slow_calls;
mod summary;
mod syncs;
mod touches;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use zctrace_core::golden::{self, GoldenCase};

use self::summary::summary;
use super::{Collector, Log, call_table::CallTable, read_log, read_logs, tid_of_file};
use crate::{
    backend::{Recorded, Until},
    syscalls::Selection,
    trace::{Row, Trace},
};

/// The directory of the real logs.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/strace")
}

/// The real logs, in the order of their names: files, and directories of the files of `-ff`.
fn logs() -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus())
        .expect("the corpus is there")
        .map(|entry| entry.expect("can be listed").path());
    let is_log = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "log" || extension == "ff")
    };
    let mut logs: Vec<PathBuf> = entries.filter(is_log).collect();
    logs.sort();
    assert!(logs.len() > 30, "the corpus is complete");
    logs
}

/// The files of a log, with their thread ids.
fn files(log: &Path) -> Vec<Log<&'static [u8]>> {
    let open = |path: &Path, tid| Log {
        reader: &*fs::read(path).expect("can be read").leak(),
        tid,
    };
    if log.is_file() {
        return vec![open(log, None)];
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(log)
        .expect("can be listed")
        .map(|entry| entry.expect("can be listed").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| open(path, tid_of_file(&path.to_string_lossy())))
        .collect()
}

/// Reads a log; also returns the lines that were not understood.
fn read(log: &Path) -> (Trace, Vec<String>) {
    let mut unparsed = Vec::new();
    let trace = read_logs(
        files(log),
        &Selection::All,
        Recorded::default(),
        &mut |line| {
            unparsed.push(line.to_owned());
        },
    )
    .expect("memory can be read");
    (trace, unparsed)
}

/// Reads a made-up log.
fn read_text(text: impl AsRef<[u8]>) -> Trace {
    let reader = text.as_ref();
    let mut ignore = |_: &str| {};
    let mut collector = Collector::new(&Selection::All, Until::AllEnd, &mut ignore);
    read_log(Log { reader, tid: None }, &mut collector).expect("memory can be read");
    collector.finish()
}

/// Reads a made-up log of which each line is understood, with what else is to be `recorded`.
fn read_recorded(text: &str, recorded: Recorded) -> Trace {
    let log = Log {
        reader: text.as_bytes(),
        tid: None,
    };
    let mut on_unparsed = |line: &str| panic!("not understood: {line}");
    read_logs(vec![log], &Selection::All, recorded, &mut on_unparsed).expect("memory can be read")
}

/// All rows of a trace.
fn rows(trace: &Trace) -> impl Iterator<Item = &Row> {
    let threads = trace.processes.iter().flat_map(|process| &process.threads);
    threads.flat_map(|thread| &thread.rows)
}

/// Checks that each case of a golden file of the corpus is `read` as the lines after it say.
#[track_caller]
fn check_golden(file: &str, kind: GoldenCase, read: impl Fn(&str) -> String) {
    golden::check_golden(corpus().join(file), kind, read);
}

#[test]
fn real_logs_are_read_as_the_snapshots_say() {
    for log in logs() {
        let (trace, unparsed) = read(&log);
        let name = log.file_stem().expect("has a name").to_string_lossy();
        // Beside the log.
        insta::with_settings!({ snapshot_path => corpus(), prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name.as_ref(), summary(&trace, &unparsed));
        });
    }
}

/// Calls and errors.
type Counts = BTreeMap<String, (u64, u64)>;

#[test]
fn the_sums_are_those_of_the_table_that_strace_prints() {
    let mut compared = 0;
    for log in logs().iter().filter(|log| log.is_file()) {
        let text = String::from_utf8_lossy(&fs::read(log).expect("can be read")).into_owned();
        let table = table(&text);
        if table.is_empty() {
            continue;
        }
        let mut sums = Counts::new();
        for row in rows(&read(log).0).filter(|row| row.calls > 0) {
            let name = row.call.name.split('(').next().unwrap_or_default();
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.errors);
        }
        assert_eq!(sums, table, "{}", log.display());
        compared += 1;
    }
    assert!(compared >= 3, "the corpus has tables");
}

/// The sums of the table that ends a log.
fn table(text: &str) -> Counts {
    let mut table = CallTable::default();
    for line in text.lines() {
        table.push(line.as_bytes());
    }
    let process = table.into_process(&Selection::All);
    let sums = process.rows();
    sums.map(|row| (row.call.name.to_string(), (row.calls, row.errors)))
        .collect()
}
