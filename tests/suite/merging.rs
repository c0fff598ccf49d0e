//! Many processes with transfers: what has ended is merged, and the sums are the same as of all
//! processes apart.

use std::collections::BTreeMap;

use zctrace::report::{Api, Certainty, End, Report, Transfer};

use crate::{
    files::{BYTES, input},
    harness::{Run, python, shell, zctrace},
};

/// So often the load runs a copy, a pipeline, a copy to a file of another name, and a program
/// without transfers.
const TIMES: u64 = 500;

const LOAD: &str = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); cp in out; \
                    cat in | dd of=/dev/null bs=64k iflag=fullblock status=none; cp in other.$i; rm other.$i; done";

/// Traces the load exactly, with these options and more, and with every process listed, too.
fn few_and_all(options: &[&str], load: &str) -> [Run; 2] {
    [&[][..], &["--all"]].map(|more| {
        let directory = input();
        let zctrace = zctrace().options(options).options(more);
        zctrace.dir(directory.path()).run_exactly(&shell(load))
    })
}

/// How many times some transfers took place, and the bytes of all.
fn sum<'a>(transfers: impl Iterator<Item = &'a Transfer>) -> [u64; 2] {
    transfers.fold([0; 2], |[count, bytes], one| {
        [count + one.transfer_count(), bytes + one.bytes.unwrap_or(0)]
    })
}

/// By interface, kinds of the ends, number of processes and certainty: transfers and bytes.
fn sums(report: &Report) -> BTreeMap<(Api, String, String, usize, Certainty), [u64; 2]> {
    let kind = |end: &End| end.kind.clone().unwrap_or_default();
    let mut alike: BTreeMap<_, Vec<&Transfer>> = BTreeMap::new();
    for one in &report.transfers {
        let (from, to) = (kind(&one.from), kind(&one.to));
        let key = (one.api, from, to, one.pids.len(), one.certainty);
        alike.entry(key).or_default().push(one);
    }
    let alike = alike.into_iter();
    alike
        .map(|(key, all)| (key, sum(all.into_iter())))
        .collect()
}

/// What was written, what of that is in transfers, and what the programs' own memory gave.
fn written(report: &Report) -> [u64; 3] {
    let merged = report.merged.iter().flat_map(|merged| &merged.destinations);
    let processes = report.processes.iter();
    let listed = processes.flat_map(|process| &process.destinations);
    listed
        .chain(merged)
        .fold([0; 3], |[written, transferred, own], one| {
            [
                written + one.written_bytes.expect("is known"),
                transferred + one.transferred_bytes,
                own + one.own_memory_bytes.expect("is known"),
            ]
        })
}

/// Makes sure that the pipelines of the load are observed transfers of all bytes across processes,
/// and that the copies of the load have so many bytes.
#[track_caller]
fn assert_moved(report: &Report, bytes: u64) {
    let ways = || {
        report
            .transfers
            .iter()
            .filter(|one| one.crosses_processes())
    };
    assert_eq!(sum(ways()), [TIMES, TIMES * BYTES]);
    let mut all = ways();
    assert!(all.all(|way| way.certainty == Certainty::Observed));
    let by_copying = report
        .transfers
        .iter()
        .filter(|one| one.api == Api::CopyFileRange);
    assert_eq!(sum(by_copying)[1], bytes);
}

#[test]
fn merged_processes_have_the_same_sums_as_all_processes_apart() {
    let [few, all] = few_and_all(&[], LOAD);
    for run in [&few, &all] {
        assert_eq!(run.report.totals.processes, 1 + 5 * TIMES);
        assert_moved(&run.report, 2 * TIMES * BYTES);
    }
    assert_eq!(sums(&few.report), sums(&all.report));
    let [calls, expected] = [&few, &all].map(|run| run.totals().row("copy_file_range"));
    assert_eq!(calls, expected);
    let bytes = 4 * TIMES * BYTES;
    assert_eq!(written(&all.report), [bytes, bytes, 0]);
    // Of the others only the sums of calls are listed, as the 500 busiest processes are.
    let listed = &few.report.transfers;
    assert_eq!(sum(listed.iter())[0], 5 * TIMES);
    let [merged, _] = sum(listed.iter().filter(|one| one.merged.is_some()));
    assert!(merged >= TIMES, "{merged} were merged");
    few.assert_noted("that had ended are summed");
    // How many are merged by the end, and which, depends on how far zctrace keeps up and how much
    // CPU time each took. So there may be no such sum here; in
    // `of_many_files_only_some_keep_their_names` of the core there is always one.
    let is_of_others = |one: &&Transfer| one.merged.as_ref().is_some_and(|sum| !sum.same_ends);
    let mut others = listed.iter().filter(is_of_others);
    let has_no_name = others.all(|one| one.to.path.is_none());
    assert!(has_no_name, "names that do not belong to all of a sum");
    assert!(listed.len() < all.report.transfers.len());
}

/// So often a copy to a file of a new name and a pipeline, and what a program writes is read by the
/// shell. After each, the shell waits until zctrace sleeps, so that the result does not depend on
/// speed: zctrace is woken when there is little room for files.
const NEW_FILES: &str = "idle() { while read -r line < /proc/$PPID/stat; do set -- ${line##*) }; [ $1 = S ] && return; done; }; \
                         i=0; while [ $i -lt 500 ]; do i=$((i+1)); cp in new.$i; idle; \
                         cat in | dd of=/dev/null bs=64k iflag=fullblock status=none; idle; x=$(expr $i + 1); idle; done";

#[test]
fn more_files_than_there_is_room_for_have_room_one_after_the_other() {
    let [few, all] = few_and_all(&["--max-files=128"], NEW_FILES);
    for report in [&few.report, &all.report] {
        let found = (report.calls_without_files, report.totals.processes);
        assert_eq!(found, (0, 1 + 4 * TIMES));
        assert_moved(report, TIMES * BYTES);
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
    let python = python(INPUTS);
    let zctrace = zctrace().option("--max-files=128");
    let report = zctrace.run_exactly(&python).report;
    assert_eq!(report.calls_without_files, 0);
    let is_from_pipe = |one: &&Transfer| one.from.kind.as_deref() == Some("pipe");
    let mut copied: Vec<_> = report.transfers.iter().filter(is_from_pipe).collect();
    copied.retain(|one| one.bytes == Some(1000 * one.transfer_count()));
    assert_eq!(sum(copied.into_iter()), [400, 400_000]);
}
