//! Many processes with transfers: what has ended is merged, and the sums are the same as of all
//! processes apart.

use std::collections::BTreeMap;

use zctrace::report::{Api, Certainty, Report, Transfer};

use crate::harness::{Run, TestDir, program, shell, zctrace};

const BYTES: u64 = 300_001;

/// So often the load runs a copy, a pipeline, a copy to a file of another name, and a program
/// without transfers.
const TIMES: u64 = 500;

const LOAD: &str = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); cp in out; \
                    cat in | dd of=/dev/null bs=64k iflag=fullblock status=none; cp in other.$i; rm other.$i; done";

fn run(options: &[&str], load: &str) -> Run {
    let directory = TestDir::new();
    let bytes: Vec<u8> = (0..BYTES).map(|index| (index * 7 % 251) as u8).collect();
    directory.write("in", bytes);
    zctrace()
        .options(options)
        .dir(directory.path())
        .run(&shell(load))
}

/// By interface, kinds of the ends, number of processes and certainty: transfers and bytes.
fn sums(report: &Report) -> BTreeMap<(Api, String, String, usize, Certainty), [u64; 2]> {
    let mut sums = BTreeMap::new();
    let kind = |end: &zctrace::report::End| end.kind.clone().unwrap_or_default();
    for one in &report.transfers {
        let sum: &mut [u64; 2] = sums
            .entry((
                one.api,
                kind(&one.from),
                kind(&one.to),
                one.pids.len(),
                one.certainty,
            ))
            .or_default();
        let figures = [one.count(), one.bytes.unwrap_or(0)];
        sum.iter_mut()
            .zip(figures)
            .for_each(|(sum, figure)| *sum += figure);
    }
    sums
}

/// What was written, what of that is in transfers, and what the programs' own memory gave.
fn written(report: &Report) -> [u64; 3] {
    let merged = report.merged.iter().flat_map(|merged| &merged.destinations);
    let all = report
        .processes
        .iter()
        .flat_map(|process| &process.destinations)
        .chain(merged);
    all.fold([0; 3], |[written, transferred, own], one| {
        [
            written + one.written_bytes.expect("is known"),
            transferred + one.transferred_bytes,
            own + one.own_memory_bytes.expect("is known"),
        ]
    })
}

#[test]
fn merged_processes_have_the_same_sums_as_all_processes_apart() {
    let [few, all] = [run(&[], LOAD), run(&["--all"], LOAD)];
    for run in [&few, &all] {
        run.assert_exact();
        assert_eq!(run.report.totals.processes, 1 + 5 * TIMES);
        let ways: Vec<&Transfer> = run
            .report
            .transfers
            .iter()
            .filter(|one| one.crosses_processes())
            .collect();
        let way = |figure: fn(&Transfer) -> u64| ways.iter().map(|way| figure(way)).sum::<u64>();
        assert_eq!(
            (way(Transfer::count), way(|way| way.bytes.unwrap_or(0))),
            (TIMES, TIMES * BYTES)
        );
        assert!(
            ways.iter().all(|way| way.certainty == Certainty::Observed),
            "{ways:?}"
        );
        let copied = run
            .report
            .transfers
            .iter()
            .filter(|one| one.api == Api::CopyFileRange);
        assert_eq!(
            copied.map(|one| one.bytes.expect("is known")).sum::<u64>(),
            2 * TIMES * BYTES
        );
    }
    assert_eq!(sums(&few.report), sums(&all.report));
    let calls = |run: &Run, name: &str| run.totals().row(name);
    assert_eq!(
        calls(&few, "copy_file_range"),
        calls(&all, "copy_file_range")
    );
    assert_eq!(
        written(&all.report),
        [4 * TIMES * BYTES, 4 * TIMES * BYTES, 0]
    );
    // Of the others only the sums of calls are listed, as the 500 busiest processes are.
    let listed: u64 = few.report.transfers.iter().map(Transfer::count).sum();
    assert_eq!(listed, 5 * TIMES);
    let merged: u64 = few
        .report
        .transfers
        .iter()
        .filter(|one| one.merged.is_some())
        .map(Transfer::count)
        .sum();
    assert!(merged >= TIMES, "{merged} of {listed} were merged");
    assert!(
        few.report
            .notes
            .iter()
            .any(|note| note.contains("shown as sums over those that are alike")),
        "{:?}",
        few.report.notes
    );
    // How many are merged by the end, and which, depends on how far zctrace keeps up and how much
    // CPU time each took. So there may be no such sum here; in
    // `of_many_files_only_some_keep_their_names` of the core there is always one.
    let mut others = few
        .report
        .transfers
        .iter()
        .filter(|one| one.merged.as_ref().is_some_and(|merged| !merged.same_ends));
    assert!(
        others.all(|one| one.to.path.is_none()),
        "names that do not belong to all of a sum"
    );
    assert!(
        few.report.transfers.len() < all.report.transfers.len(),
        "{}",
        few.report.transfers.len()
    );
}

/// So often a copy to a file of a new name and a pipeline, and what a program writes is read by the
/// shell. After each, the shell waits until zctrace sleeps, so that the result does not depend on
/// speed: zctrace is woken when there is little room for files.
const NEW_FILES: &str = "idle() { while read -r line < /proc/$PPID/stat; do set -- ${line##*) }; [ $1 = S ] && return; done; }; \
                         i=0; while [ $i -lt 500 ]; do i=$((i+1)); cp in new.$i; idle; \
                         cat in | dd of=/dev/null bs=64k iflag=fullblock status=none; idle; x=$(expr $i + 1); idle; done";

#[test]
fn more_files_than_there_is_room_for_have_room_one_after_the_other() {
    let [few, all] = [
        ["--max-files=128"].as_slice(),
        &["--max-files=128", "--all"],
    ]
    .map(|options| run(options, NEW_FILES));
    for run in [&few, &all] {
        run.assert_exact();
        assert_eq!(
            (run.report.calls_without_files, run.report.totals.processes),
            (0, 1 + 4 * TIMES)
        );
        let copied = run
            .report
            .transfers
            .iter()
            .filter(|one| one.api == Api::CopyFileRange);
        assert_eq!(
            copied.map(|one| one.bytes.expect("is known")).sum::<u64>(),
            TIMES * BYTES
        );
        let ways: Vec<&Transfer> = run
            .report
            .transfers
            .iter()
            .filter(|one| one.crosses_processes())
            .collect();
        assert!(
            ways.iter().all(|way| way.certainty == Certainty::Observed),
            "{ways:?}"
        );
        let bytes: u64 = ways.iter().map(|way| way.bytes.expect("is known")).sum();
        assert_eq!(
            (ways.iter().map(|way| way.count()).sum::<u64>(), bytes),
            (TIMES, TIMES * BYTES)
        );
    }
    assert_eq!(sums(&few.report), sums(&all.report));
    // `expr` wrote the numbers from 2 to 501.
    let of_expr = 8 * 2 + 90 * 3 + 402 * 4;
    let copied = 3 * TIMES * BYTES;
    assert_eq!(written(&all.report), [copied + of_expr, copied, of_expr]);
}

/// A program that lives long writes to the input of many others, which read it to the end. It waits
/// as above.
const INPUTS: &str = r#"
import os, subprocess
def idle():
    while open(f"/proc/{os.getppid()}/stat").read().rsplit(")", 1)[1].split()[0] != "S": pass
for _ in range(400):
    subprocess.run(["cat"], input=b"x" * 1000, stdout=subprocess.DEVNULL)
    idle()
"#;

#[test]
fn pipes_that_others_have_read_to_the_end_leave_room_while_their_writer_lives() {
    let python = program("/usr/bin/python3").args(&["-I", "-S", "-c", INPUTS]);
    for (options, sums_pipes) in [
        (["--max-files=128"].as_slice(), true),
        (&["--max-files=128", "--all"], false),
    ] {
        let run = zctrace().options(options).run(&python);
        run.assert_exact();
        assert_eq!(run.report.calls_without_files, 0);
        let copied = run
            .report
            .transfers
            .iter()
            .filter(|one| one.bytes == Some(1000 * one.count()));
        assert_eq!(copied.map(Transfer::count).sum::<u64>(), 400);
        let notes = &run.report.notes;
        assert_eq!(
            notes.iter().any(|note| note.contains("shown as one pipe")),
            sums_pipes,
            "{notes:?}"
        );
    }
}
