//! Room for few files: the counts are exact all the same, what is missing is said, and no transfer is made up.

use std::collections::BTreeSet;

use zctrace::report::{Report, Transfer};

use super::{BYTES, directory, traced};
use crate::harness::{Program, Run, shell, zctrace};

/// Two copies, of which one program's are in one process each.
fn copies() -> Program {
    shell("dd if=in of=a bs=4k status=none; dd if=a of=b bs=64k status=none; cat in > c; cp --reflink=never b d")
}

fn limited_to(files: u32) -> Run {
    let directory = directory();
    zctrace().option(format!("--max-files={files}")).option("--files").dir(directory.path()).run(&copies())
}

/// Who copied how many bytes from where to where.
fn transfers(report: &Report) -> BTreeSet<(String, String, String, Option<u64>)> {
    let name = |path: &Option<String>| path.clone().unwrap_or_default();
    let of = |transfer: &Transfer| {
        (name(&transfer.from.path), name(&transfer.to.path), transfer.api.name().to_owned(), transfer.bytes)
    };
    report.processes.iter().flat_map(|process| &process.transfers).chain(&report.transfers).map(of).collect()
}

#[test]
fn counts_are_exact_and_transfers_true_however_few_files_there_is_room_for() {
    let all = traced(&directory(), &copies());
    let known = transfers(&all.report);
    assert_eq!(known.len(), 4, "{known:?}");
    assert!(known.iter().all(|(.., bytes)| *bytes == Some(BYTES)), "{known:?}");
    let (mut fewer, mut some) = (0, 0);
    for room in 1..=16 {
        let run = limited_to(room);
        run.finished.successful();
        run.assert_exact();
        assert_eq!(run.totals().figures(), all.totals().figures(), "room for {room} files");
        let found = transfers(&run.report);
        assert!(found.is_subset(&known), "room for {room} files: {found:?}");
        assert!(run.report.files.len() <= usize::try_from(room).expect("few"), "room for {room} files");
        let is_said = run.report.notes.iter().any(|note| note.contains("not kept for want of room"));
        assert_eq!(is_said, run.report.calls_without_files > 0, "room for {room} files: {:?}", run.report.notes);
        assert!(found == known || is_said, "room for {room} files: {found:?}");
        fewer += u32::from(found.len() < known.len());
        some += u32::from(!found.is_empty());
    }
    assert!(fewer >= 3 && some >= 1, "with {fewer} of the limits a transfer is missing, with {some} there is one");
}
