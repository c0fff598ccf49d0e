//! Calls by file: what was done with each file in all, and by each call of a process.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{End, SortKey, Syscall, fold::fold_rows};
use crate::{
    trace::{FileId, Input, Process, Row, Trace},
    transfer::{EndTable, Role},
};

/// Everything that was done with one file, for `--files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileTotals {
    /// The file.
    #[serde(flatten)]
    pub file: End,
    /// Calls that read from it.
    pub reads: u64,
    /// Calls that wrote to it.
    pub writes: u64,
    /// Calls that moved no bytes (`fstat`, `mmap`).
    pub other_calls: u64,
    /// Bytes that calls returned as read from it; `None`: unknown for some call.
    pub bytes_read: Option<u64>,
    /// Bytes that calls returned as written to it; `None`: unknown for some call.
    pub bytes_written: Option<u64>,
    /// Calls on it that failed.
    pub errors: u64,
    /// Time in calls on it, ns.
    pub total_ns: Option<u64>,
}

/// The totals of every file that rows name, those with the most bytes first.
pub(super) fn totals(trace: &Trace) -> Vec<FileTotals> {
    let ends = EndTable::new(trace);
    let mut by_file: BTreeMap<FileId, FileTotals> = BTreeMap::new();
    let mut of = |file: FileId, count: &dyn Fn(&mut FileTotals)| {
        let totals = by_file.entry(file).or_insert_with(|| FileTotals {
            file: ends.end(file),
            reads: 0,
            writes: 0,
            other_calls: 0,
            bytes_read: Some(0),
            bytes_written: Some(0),
            errors: 0,
            total_ns: Some(0),
        });
        count(totals);
    };
    let threads = trace.processes.iter().flat_map(|process| &process.threads);
    for row in threads.flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows)).filter(|row| row.calls > 0) {
        match Role::of(row) {
            Role::Copies(from, to) => {
                of(from, &|totals| read(totals, row));
                of(to, &|totals| written(totals, row));
            }
            Role::Reads(Some(file)) => of(file, &|totals| read(totals, row)),
            Role::Writes(_, Some(file)) | Role::Lends(file) => of(file, &|totals| written(totals, row)),
            Role::Reads(None) | Role::Writes(_, None) => {}
            Role::Maps(_) | Role::Other => {
                if let Some(file) = row.ends.input.map(Input::file).or(row.ends.output) {
                    of(file, &|totals| called(totals, row, |totals| &mut totals.other_calls));
                }
            }
        }
    }
    let mut files: Vec<FileTotals> = by_file.into_values().collect();
    files.sort_by_key(|totals| Reverse(totals.bytes_read.unwrap_or(0).saturating_add(totals.bytes_written.unwrap_or(0))));
    files
}

fn read(totals: &mut FileTotals, row: &Row) {
    called(totals, row, |totals| &mut totals.reads);
    totals.bytes_read = add(totals.bytes_read, moved(row));
}

fn written(totals: &mut FileTotals, row: &Row) {
    called(totals, row, |totals| &mut totals.writes);
    totals.bytes_written = add(totals.bytes_written, moved(row));
}

fn called(totals: &mut FileTotals, row: &Row, calls: fn(&mut FileTotals) -> &mut u64) {
    *calls(totals) += row.calls;
    totals.errors += row.errors;
    totals.total_ns = add(totals.total_ns, row.times.as_ref().map(|times| times.total_ns));
}

/// Bytes that the calls moved. If all failed that is 0, even for a call whose result does not tell.
fn moved(row: &Row) -> Option<u64> {
    if row.calls == row.errors { Some(0) } else { row.bytes }
}

fn add(sum: Option<u64>, figure: Option<u64>) -> Option<u64> {
    sum?.checked_add(figure?)
}

/// The calls of a process on the same files. Without a file: calls that name none, or whose files were not identified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCalls {
    /// The file that bytes came from; for calls that move none (`fstat`, `mmap`), the file that they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<End>,
    /// The file that bytes went to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<End>,
    /// The calls.
    pub syscalls: Vec<Syscall>,
}

/// The calls of a process by file. Each call is in one place.
pub(super) fn calls_by_file(process: &Process, ends: &EndTable<'_>, sort: SortKey) -> Vec<FileCalls> {
    let mut by_files: BTreeMap<(Option<FileId>, Option<FileId>), Vec<&Row>> = BTreeMap::new();
    for row in process.threads.iter().flat_map(|thread| &thread.rows) {
        by_files.entry(files_named_by(row)).or_default().push(row);
    }
    let calls = by_files.into_iter().map(|((from, to), rows)| FileCalls {
        from: from.map(|file| ends.end(file)),
        to: to.map(|file| ends.end(file)),
        syscalls: fold_rows(rows.into_iter(), sort),
    });
    calls.filter(|calls| !calls.syscalls.is_empty()).collect()
}

/// The files that a call names itself; not the file that was read before a write.
fn files_named_by(row: &Row) -> (Option<FileId>, Option<FileId>) {
    match Role::of(row) {
        Role::Copies(from, to) => (Some(from), Some(to)),
        Role::Reads(from) => (from, None),
        Role::Writes(_, to) => (None, to),
        Role::Lends(pipe) => (None, Some(pipe)),
        Role::Maps(file) => (Some(file), None),
        Role::Other => (row.ends.input.map(Input::file), row.ends.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        Files, Options, Report,
        sample::files::{Scene, copy, map, read, write, written_after},
    };

    #[test]
    fn a_copying_call_counts_for_both_files() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let rows = vec![
            copy("sendfile", from, to, 2, 100).failed(libc::EAGAIN, 1),
            read("read", from, 1, 10),
            map(from, 4096),
            write("write", to, 3, 7),
        ];
        scene.process("copier", rows);
        let files = totals(&scene.trace);
        let figures: Vec<_> = files
            .iter()
            .map(|file| (file.file.path.as_deref(), file.reads, file.writes, file.other_calls, file.errors))
            .collect();
        assert_eq!(figures, [(Some("in"), 4, 0, 1, 1), (Some("out"), 0, 6, 0, 1)]);
        let bytes: Vec<_> = files.iter().map(|file| (file.bytes_read, file.bytes_written)).collect();
        assert_eq!(bytes, [(Some(110), Some(0)), (Some(0), Some(107))]);
    }

    #[test]
    fn bytes_that_a_call_does_not_tell_are_unknown() {
        let mut scene = Scene::new();
        let socket = scene.socketpair()[0];
        scene.process("server", vec![read("recvmmsg", socket, 1, 0)]);
        assert_eq!(totals(&scene.trace)[0].bytes_read, None);
    }

    #[test]
    fn calls_are_listed_with_the_files_that_they_name() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let rows = vec![
            read("read", from, 3, 20).failed(libc::EINTR, 1),
            written_after("write", from, to, 2, 20, 20),
            copy("sendfile", from, to, 4, 100),
            map(from, 4096),
        ];
        scene.process("copier", rows);
        let options = Options { file_calls: Files::Listed, ..Options::default() };
        let report = Report::from_trace(&scene.trace, &options);
        let path = |end: &Option<End>| end.as_ref().and_then(|end| end.path.clone()).unwrap_or_default();
        let listed = report.processes[0].file_calls.as_ref().expect("was asked for");
        let found: Vec<_> = listed
            .iter()
            .flat_map(|calls| {
                calls.syscalls.iter().map(|call| (path(&calls.from), path(&calls.to), call.name.as_str(), call.calls))
            })
            .map(|(from, to, name, calls)| format!("{from} {to} {name} {calls}"))
            .collect();
        assert_eq!(found, [" out write 2", "in  read 4", "in  mmap 1", "in out sendfile 4"]);
        let plain = Report::from_trace(&scene.trace, &Options::default());
        assert_eq!(plain.processes[0].file_calls, None);
    }
}
