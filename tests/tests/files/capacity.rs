//! Many files and many processes, with room for few: counts stay exact, the report says what is
//! missing, and no transfer is invented.

use std::collections::BTreeSet;

use zctrace::report::{Api, End, Report, Transfer};

use super::{BYTES, directory, odd, traced};
use crate::harness::{Program, Run, shell, zctrace};

#[test]
fn ten_thousand_copies_by_one_process_are_reported() {
    const FILES: u64 = 10_000;
    let run = traced(&directory(), &odd("thousands").arg(FILES.to_string()));
    assert_eq!(run.report.calls_without_files, 0);
    let transfers = run.root_transfers();
    let mut copied: Vec<_> = transfers
        .iter()
        .map(|transfer| (transfer.to.path.clone(), transfer.bytes))
        .collect();
    let mut expected: Vec<_> = (0..FILES)
        .map(|number| (Some(format!("copies/{number}")), Some(number % 1000 + 1)))
        .collect();
    copied.sort();
    expected.sort();
    assert_eq!(copied.len(), expected.len());
    assert!(copied == expected, "each copy has its bytes");
    assert!(
        transfers
            .iter()
            .all(|transfer| transfer.api == Api::ReadWrite
                && transfer.from.path.as_deref() == Some("in"))
    );
}

/// Makes sure that ten thousand copies have their calls and bytes.
#[track_caller]
fn assert_ten_thousand(run: &Run) {
    run.assert_exact();
    let write = run.totals().row("write");
    assert_eq!((write.calls, write.bytes), (10_000, Some(10 * 500_500)));
}

#[test]
fn rows_that_pile_up_while_the_tracer_is_stopped_are_exact() {
    // The kernel side keeps more rows than its small table has room for.
    let script = format!(
        "kill -STOP $PPID; {} thousands 10000; kill -CONT $PPID",
        env!("CARGO_BIN_EXE_odd-files")
    );
    let directory = directory();
    let run = zctrace().dir(directory.path()).run(&shell(&script));
    assert_ten_thousand(&run);
    assert_eq!(run.report.calls_without_files, 0);
}

#[test]
fn ten_thousand_files_with_room_for_a_thousand_are_counted_exactly() {
    let directory = directory();
    let run = zctrace()
        .option("--max-files=1000")
        .option("--files")
        .dir(directory.path())
        .run(&odd("thousands").arg("10000"));
    assert_ten_thousand(&run);
    let without = run.report.calls_without_files;
    assert!(without > 9000 - 100, "{without}");
    // A number that was given up may still be named by a row, so a few files more than there is
    // room for can be known.
    assert!(run.report.files.len() <= 1010, "{}", run.report.files.len());
    let is_true = |transfer: &Transfer| {
        let number = transfer
            .to
            .path
            .as_deref()
            .and_then(|path| path.strip_prefix("copies/")?.parse::<u64>().ok());
        number.is_some_and(|number| transfer.bytes == Some(number % 1000 + 1))
    };
    assert!(
        run.root_transfers().into_iter().all(is_true),
        "{:?}",
        run.root_transfers()
    );
}

/// A script that makes two hundred copies at once and waits for all of them.
const COPIES: &str =
    "i=0; while [ $i -lt 200 ]; do dd if=in of=out.$i bs=4k status=none & i=$((i+1)); done; wait";

/// The transfers of all processes of these copies.
fn copied(run: &Run) -> Vec<&Transfer> {
    let processes = run.descendants().into_iter();
    processes
        .flat_map(|process| run.report.transfers_of(process))
        .collect()
}

#[test]
fn two_hundred_copies_at_once_are_reported() {
    let run = traced(&directory(), &shell(COPIES));
    let copied = copied(&run);
    assert_eq!(copied.len(), 200);
    let calls = BYTES.div_ceil(4096);
    for transfer in &copied {
        assert_eq!(
            (transfer.api, transfer.bytes, transfer.calls),
            (Api::ReadWrite, Some(BYTES), Some(2 * calls + 1))
        );
    }
    let names: BTreeSet<_> = copied.iter().map(|transfer| &transfer.to.path).collect();
    assert_eq!(names.len(), 200);
}

#[test]
fn two_hundred_processes_with_room_for_fewer_are_exact_or_a_lower_bound() {
    let directory = directory();
    for tasks in [2, 20, 100] {
        let run = zctrace()
            .option(format!("--max-tasks={tasks}"))
            .dir(directory.path())
            .run(&shell(COPIES));
        let written = run.totals().row("write").bytes.expect("known");
        let losses = &run.report.losses;
        assert!(written <= 200 * BYTES, "{written}");
        let is_all = written == 200 * BYTES;
        assert!(!run.report.exact || is_all, "{written} bytes");
        let is_said = losses.contains_key("unfollowed_tasks");
        assert!(tasks > 2 || is_said, "{losses:?}");
        let copied = copied(&run);
        let mut bytes = copied.iter().map(|transfer| transfer.bytes);
        assert!(bytes.all(|bytes| bytes == Some(BYTES)), "{losses:?}");
    }
}

/// Four copies in turn, each by a process of its own.
fn copies() -> Program {
    shell(
        "dd if=in of=a bs=4k status=none; dd if=a of=b bs=64k status=none; cat in > c; cp --reflink=never b d",
    )
}

fn limited_to(files: u32) -> Run {
    let directory = directory();
    zctrace()
        .option(format!("--max-files={files}"))
        .option("--files")
        .dir(directory.path())
        .run(&copies())
}

/// Source, destination, API and bytes.
type Named = (String, String, String, Option<u64>);

fn transfers(report: &Report) -> BTreeSet<Named> {
    let path = |end: &End| end.path.clone().unwrap_or_default();
    let all = report.transfers.iter();
    all.map(|one| {
        let api = one.api.name().to_owned();
        (path(&one.from), path(&one.to), api, one.bytes)
    })
    .collect()
}

#[test]
fn with_room_for_few_files_counts_are_exact_and_transfers_true() {
    let all = traced(&directory(), &copies());
    let known = transfers(&all.report);
    assert_eq!(known.len(), 4, "{known:?}");
    assert!(
        known.iter().all(|(.., bytes)| *bytes == Some(BYTES)),
        "{known:?}"
    );
    let (mut fewer, mut some) = (0, 0);
    for room in 1..=16 {
        let run = limited_to(room);
        run.finished.successful();
        run.assert_exact();
        assert_eq!(
            run.totals().figures(),
            all.totals().figures(),
            "room for {room} files"
        );
        let found = transfers(&run.report);
        // Room may be made while a copy runs. Then the first of its calls are counted without their
        // files.
        let is_true = |(from, to, api, bytes): &Named| {
            let whole = (from.clone(), to.clone(), api.clone(), Some(BYTES));
            *bytes <= Some(BYTES) && known.contains(&whole)
        };
        assert!(
            found.iter().all(is_true),
            "room for {room} files: {found:?}"
        );
        // A number that was given up may still be named by a row.
        let known_files = run.report.files.len();
        let most = usize::try_from(room).expect("few") + 10;
        assert!(
            known_files <= most,
            "{known_files} files with room for {room}"
        );
        let notes = &run.report.notes;
        let mut said = notes.iter();
        let is_noted = said.any(|note| note.contains("There was no room for the files"));
        let is_short = run.report.calls_without_files > 0;
        assert_eq!(is_noted, is_short, "room for {room} files: {notes:?}");
        let is_right = found == known || is_noted;
        assert!(is_right, "room for {room} files: {found:?}");
        fewer += u32::from(found.len() < known.len());
        some += u32::from(!found.is_empty());
    }
    assert!(
        fewer >= 3 && some >= 1,
        "with {fewer} of the limits a transfer is missing, with {some} there is one"
    );
}
