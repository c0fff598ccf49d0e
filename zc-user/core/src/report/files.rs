//! Everything that was done with each file.

use std::{cmp::Reverse, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::End;
use crate::{
    trace::{FileId, Input, Row, Trace},
    transfer::{Ends, Role},
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
    /// Bytes that calls returned as read from it; `None`: unknown of some call.
    pub bytes_read: Option<u64>,
    /// Bytes that calls returned as written to it; `None`: unknown of some call.
    pub bytes_written: Option<u64>,
    /// Calls on it that failed.
    pub errors: u64,
    /// Time in calls on it, ns.
    pub total_ns: Option<u64>,
}

/// The totals of every file that a row names, those with the most bytes first.
pub(super) fn totals(trace: &Trace) -> Vec<FileTotals> {
    let ends = Ends::new(trace);
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

/// What the calls moved; those that failed moved nothing, also where a success would not tell.
fn moved(row: &Row) -> Option<u64> {
    if row.calls == row.errors { Some(0) } else { row.bytes }
}

fn add(sum: Option<u64>, figure: Option<u64>) -> Option<u64> {
    sum?.checked_add(figure?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::files::{Scene, copy, map, read, write};

    #[test]
    fn both_ends_of_a_call_count_it() {
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
    fn what_a_call_does_not_tell_is_unknown() {
        let mut scene = Scene::new();
        let socket = scene.socketpair()[0];
        scene.process("server", vec![read("recvmmsg", socket, 1, 0)]);
        assert_eq!(totals(&scene.trace)[0].bytes_read, None);
    }
}
