//! Many files and many processes, with room for few: counts stay exact, the report says what is
//! missing, and no transfer is invented.

use std::collections::BTreeSet;

use zctrace::report::{Api, End, Report, Transfer};

use super::{BYTES, input, odd, traced};
use crate::harness::{Program, Run, Zctrace, python, shell, zctrace};

/// Traces ten thousand copies by this program, which must all be counted: its report, and how many
/// of the copies it has. What it says of a copy must be true.
#[track_caller]
fn ten_thousand(zctrace: Zctrace, program: &Program) -> (Report, usize) {
    let directory = input();
    let run = zctrace.dir(directory.path()).run_exactly(program);
    let write = run.totals().row("write");
    assert_eq!((write.calls, write.bytes), (10_000, Some(10 * 500_500)));
    let mut copies = BTreeSet::new();
    for one in &run.report.transfers {
        // That into the files that are summed.
        let Some(name) = one.to.path.as_deref() else {
            continue;
        };
        let number = name
            .strip_prefix("copies/")
            .and_then(|name| name.parse().ok());
        let number: u64 = number.expect("a copy");
        let found = (one.api, one.from.path.as_deref(), one.bytes);
        assert_eq!(found, (Api::ReadWrite, Some("in"), Some(number % 1000 + 1)));
        assert!(copies.insert(number), "two transfers to {name}");
    }
    (run.report, copies.len())
}

/// The ten thousand copies by a program, and the same while the tracer is stopped.
fn running_and_stopped() -> [Program; 2] {
    let stopped = format!(
        "kill -STOP $PPID; {} thousands 10000; kill -CONT $PPID",
        env!("CARGO_BIN_EXE_odd-files")
    );
    [odd("thousands").arg("10000"), shell(&stopped)]
}

#[test]
fn ten_thousand_copies_are_reported_also_if_their_rows_pile_up_while_the_tracer_is_stopped() {
    // The kernel side keeps more rows than its small table has room for.
    for program in running_and_stopped() {
        let (report, copies) = ten_thousand(zctrace(), &program);
        assert_eq!((report.calls_without_files, copies), (0, 10_000));
    }
}

#[test]
fn ten_thousand_files_with_room_for_a_thousand_are_counted_exactly() {
    let [running, stopped] = running_and_stopped().map(|program| {
        let zctrace = zctrace().option("--max-files=1000").option("--files");
        let (report, _) = ten_thousand(zctrace, &program);
        let copies = report.files.iter().filter(|file| {
            let path = file.file.path.as_deref();
            path.is_some_and(|path| path.starts_with("copies/"))
        });
        let known: u64 = copies.map(|file| file.writes).sum();
        // If the program's libraries are summed, calls on them are among the others.
        let more = known + report.calls_without_files - 10_000;
        assert!(more < 50, "{more} calls too many");
        known
    });
    // The tracer makes room, so while it is stopped no more files than there is room for are known.
    assert!((900..=1000).contains(&stopped), "{stopped}");
    assert!(running > 0, "{running}");
}

/// Writes a byte to each of many files, and to a few others when it has done nothing for a while.
const MANY_AND_LATER: &str = "
import time
def write(names):
    for name in names:
        with open(name, 'wb', 0) as file: file.write(b'x')
write(f'first.{number}' for number in range(2000))
time.sleep(2.5)
write(f'later.{number}' for number in range(50))
";

#[test]
fn a_process_that_has_filled_the_room_for_files_gets_room_again() {
    let zctrace = zctrace().option("--max-files=512").option("--files");
    let directory = input();
    let run = zctrace
        .dir(directory.path())
        .run_exactly(&python(MANY_AND_LATER));
    let later = run.report.files.iter().filter(|file| {
        let path = file.file.path.as_deref();
        path.is_some_and(|path| path.starts_with("later.") && file.writes == 1)
    });
    assert_eq!(later.count(), 50);
    assert!(run.report.files.len() <= 600, "{}", run.report.files.len());
    assert!(run.report.calls_without_files > 0);
    let mut notes = run.report.notes.iter();
    assert!(notes.any(|note| note.contains("are summed by kind")));
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
fn two_hundred_copies_at_once_are_reported_or_a_lower_bound() {
    let directory = input();
    for (tasks, has_room) in [(2, false), (20, false), (100, false), (1000, true)] {
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
        let calls = 2 * BYTES.div_ceil(4096) + 1;
        for one in &copied {
            assert_eq!((one.api, one.bytes), (Api::ReadWrite, Some(BYTES)));
            assert!(one.calls == Some(calls) || !has_room && one.calls < Some(calls));
        }
        let names: BTreeSet<_> = copied.iter().map(|one| &one.to.path).collect();
        assert!(names.len() == 200 || !has_room, "{losses:?}");
        assert!(run.report.exact || !has_room, "{losses:?}");
    }
}

/// Four copies in turn, each by a process of its own.
fn copies() -> Program {
    shell(
        "dd if=in of=a bs=4k status=none; dd if=a of=b bs=64k status=none; cat in > c; cp --reflink=never b d",
    )
}

fn limited_to(files: u32) -> Run {
    let directory = input();
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
    let all = traced(&input(), &copies());
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
