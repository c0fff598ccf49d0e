//! What a report lacks, in sentences.

use std::collections::BTreeSet;

use super::model::Report;
use crate::{
    syscalls::Fds,
    text::plural,
    trace::{FileId, FileKind, Process, Row, STRACE, Trace},
    transfer,
};

/// The notes of the backend, and why transfers are incomplete, if they are.
pub(super) fn report_notes(trace: &Trace, lacks_chains: bool) -> Vec<String> {
    let chains = lacks_chains.then_some("too many paths through pipes and connections: transfers across several processes are a lower bound; the transfers of each process are complete".to_owned());
    let without_files = trace.calls_without_files();
    let without_files = (without_files > 0).then(|| {
        let calls = plural(without_files, "call", "calls");
        let cause = if trace.backend == STRACE {
            "There were too many files."
        } else {
            "There were too many files (raise --max-files and --max-rows), or a call wrote bytes of more than 8 files."
        };
        format!("There was no room for the files of {calls}: transfers and files are lower bounds. {cause}")
    });
    let failed_paths = trace.failed_paths.as_ref();
    let incomplete = failed_paths.filter(|paths| !paths.are_complete());
    let without_paths = incomplete.map(|paths| {
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
        format!(
            "there was no room for the paths of {calls}: the list of them is a lower bound{remedy}"
        )
    });
    let rows = || trace.all_processes().flat_map(Process::rows);
    let has_aio = rows().any(|row| row.call.name == "io_submit" && row.calls > row.errors);
    let unknown = has_aio
        .then_some("the bytes that Linux AIO moved are unknown: only io_submit is counted, which does not report them".to_owned());
    trace
        .notes
        .iter()
        .cloned()
        .chain(without_files)
        .chain(without_paths)
        .chain(unknown)
        .chain(chains)
        .chain(cut_off_note(trace))
        .chain(stores_note(trace))
        .chain(trace.ended.notes())
        .collect()
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
    let rows = trace.all_processes().flat_map(Process::rows);
    let mapped =
        rows.filter(|row| matches!(row.call.spec().fds, Fds::Maps(_)) && row.calls > row.errors);
    let path = |file: FileId| {
        let file = file.in_files(&trace.files)?;
        let has_name = matches!(file.kind, Some(FileKind::Regular | FileKind::Block));
        file.path.as_deref().filter(|_| has_name)
    };
    let files = mapped.filter_map(|row| row.ends.output);
    let paths: BTreeSet<&str> = files.filter_map(path).collect();
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
    let carries_bytes = |to: FileId| {
        let kind = to.in_files(&trace.files).and_then(|file| file.kind);
        kind.is_none_or(FileKind::carries_bytes)
    };
    let is_cut_off =
        |row: &&Row| transfer::was_cut_off(row) && row.ends.output.is_none_or(carries_bytes);
    let calls: u64 = trace
        .all_processes()
        .flat_map(Process::rows)
        .filter(is_cut_off)
        .map(|row| row.unfinished)
        .sum();
    (calls > 0).then(|| {
        let were = plural(calls, "call was", "calls were");
        format!(
            "{were} cut off while writing, by the end of the process or of the trace: how many bytes moved is unknown, so what went to \
             the same files is a lower bound"
        )
    })
}
