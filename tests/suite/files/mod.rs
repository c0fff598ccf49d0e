//! What reports under eBPF say about files: which file it was, and which bytes went from where to
//! where.

mod buffers;
mod capacity;
mod identity;
mod memory;
mod rings;

use zctrace::report::{FileTotals, Report};

use crate::harness::{Program, Run, TestDir, program, zctrace};

/// Several times the size of any program's buffer, and not a multiple of it.
pub const BYTES: u64 = 300_001;

/// A directory with a file `in` of [`BYTES`].
pub fn input() -> TestDir {
    TestDir::with_input(300_001)
}

/// A case of the program `odd-files`.
fn odd(case: &str) -> Program {
    program(env!("CARGO_BIN_EXE_odd-files")).arg(case)
}

/// Traces the program in this directory, with every file in the report. The report must be exact.
#[track_caller]
fn traced(directory: &TestDir, program: &Program) -> Run {
    let run = zctrace()
        .option("--files")
        .dir(directory.path())
        .run(program);
    run.finished.successful();
    run.assert_exact();
    run
}

/// The same for a case of `odd-files` in a directory of its own.
#[track_caller]
fn traced_odd(case: &str) -> Run {
    traced(&input(), &odd(case))
}

/// The files with this path, or of this kind if they have none.
fn files<'a>(report: &'a Report, name: &str) -> Vec<&'a FileTotals> {
    let is = |totals: &&FileTotals| match &totals.file.path {
        Some(path) => path == name,
        None => totals.file.kind.as_deref() == Some(name),
    };
    report.files.iter().filter(is).collect()
}

/// The only file with this path or of this kind.
#[track_caller]
fn file<'a>(report: &'a Report, name: &str) -> &'a FileTotals {
    let found = files(report, name);
    let paths: Vec<_> = report
        .files
        .iter()
        .map(|totals| (&totals.file.kind, &totals.file.path))
        .collect();
    assert_eq!(found.len(), 1, "files {name}, of {paths:?}");
    found[0]
}

/// How many calls and bytes were written to the only file of this name.
#[track_caller]
fn written(report: &Report, name: &str) -> (u64, Option<u64>) {
    let file = file(report, name);
    (file.writes, file.bytes_written)
}
