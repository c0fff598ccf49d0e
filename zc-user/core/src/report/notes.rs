//! What a report lacks, in sentences.

use std::collections::BTreeSet;

use super::model::Report;
use crate::{
    syscalls::Fds,
    text::plural,
    trace::{FileKind, Process, STRACE, Trace},
    transfer,
};

/// The notes of the backend, and why transfers are incomplete, if they are.
pub(super) fn report_notes(trace: &Trace, lacks_chains: bool) -> Vec<String> {
    let mut notes = trace.notes.clone();
    notes.extend(without_files_note(trace));
    notes.extend(without_paths_note(trace));
    let mut rows = trace.all_processes().flat_map(Process::rows);
    if rows.any(|row| row.call.name == "io_submit" && row.calls > row.errors) {
        notes.push("the bytes that Linux AIO moved are unknown: only io_submit is counted, which does not report them".to_owned());
    }
    if lacks_chains {
        notes.push("too many paths through pipes and connections: transfers across several processes are a lower bound; the transfers of each process are complete".to_owned());
    }
    notes.extend(cut_off_note(trace));
    notes.extend(stores_note(trace));
    notes.extend(trace.ended.notes());
    notes
}

fn without_files_note(trace: &Trace) -> Option<String> {
    let count = trace.calls_without_files();
    let calls = plural(count, "call", "calls");
    let cause = if trace.backend == STRACE {
        "There were too many files."
    } else {
        "There were too many files (raise --max-files and --max-rows), or a call wrote bytes of more than 8 files."
    };
    (count > 0).then_some(format!(
        "There was no room for the files of {calls}: transfers and files are lower bounds. {cause}"
    ))
}

fn without_paths_note(trace: &Trace) -> Option<String> {
    let paths = trace.failed_paths.as_ref()?;
    let [one, many] = if paths.has_successes {
        ["call", "calls"]
    } else {
        ["failed call", "failed calls"]
    };
    let calls = plural(paths.left_out + paths.summed, one, many);
    let remedy = if trace.backend == STRACE || paths.left_out == 0 {
        ""
    } else {
        "; raise --max-files"
    };
    (!paths.are_complete()).then_some(format!(
        "there was no room for the paths of {calls}: the list of them is a lower bound{remedy}"
    ))
}

/// How the note on stores ends.
const UNSEEN_STORES: &str = "mapped shared and writable: zctrace does not see stores there";

impl Report {
    /// Whether files were mapped so that stores reach them, which nobody sees.
    pub fn misses_stores(&self) -> bool {
        let mut notes = self.notes.iter();
        notes.any(|note| note.ends_with(UNSEEN_STORES))
    }
}

/// Which files were mapped so that stores reach them: nobody sees those.
fn stores_note(trace: &Trace) -> Option<String> {
    let mut paths = BTreeSet::new();
    for row in trace.all_processes().flat_map(Process::rows) {
        let is_mapped = matches!(row.call.spec().fds, Fds::Maps(_)) && row.calls > row.errors;
        let output = row.ends.output.filter(|_| is_mapped);
        let Some(file) = output.and_then(|file| file.in_files(&trace.files)) else {
            continue;
        };
        if matches!(file.kind, Some(FileKind::Regular | FileKind::Block)) {
            paths.extend(file.path.as_deref());
        }
    }
    let first = paths.first()?;
    let were = match paths.len() {
        1 => "was".to_owned(),
        many => format!("and {} more were", many - 1),
    };
    Some(format!("{first} {were} {UNSEEN_STORES}"))
}

/// Why some destinations may have more bytes than their transfers say, if a call was cut off that
/// wrote to them.
fn cut_off_note(trace: &Trace) -> Option<String> {
    let mut calls = 0;
    for row in trace.all_processes().flat_map(Process::rows) {
        let output = row.ends.output.and_then(|to| to.in_files(&trace.files));
        let kind = output.and_then(|file| file.kind);
        if transfer::was_cut_off(row) && kind.is_none_or(FileKind::carries_bytes) {
            calls += row.unfinished;
        }
    }
    let were = plural(calls, "call was", "calls were");
    (calls > 0).then_some(format!(
        "{were} cut off while writing, by the end of the process or of the trace: how many bytes moved is unknown, so what went to \
         the same files is a lower bound"
    ))
}
