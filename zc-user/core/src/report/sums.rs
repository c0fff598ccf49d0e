//! Sums rows: to one entry for each call, to the calls of a process on each file, and to everything
//! that was done with a file.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    callers::Callers,
    model::{Bucket, FileCalls, FileTotals, Syscall},
    sort::SortKey,
};
use crate::{
    errno,
    histogram::Histogram,
    syscalls::Call,
    trace::{FileId, Input, Process, Row, SampledStack, Thread, Times, Trace, sum_known},
    transfer::{EndTable, Role},
};

/// Sums rows to one entry for each call, without histograms. Rows are also told apart by thread and
/// files. With the `stacks` of the trace, the entries say who made the calls.
pub(super) fn fold_rows<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
) -> Vec<Syscall> {
    fold(rows, sort, stacks, |_| Vec::new())
}

/// The same with histograms. Only the totals of a report have them: for each process they would
/// take more room than all else.
pub(super) fn fold_totals<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
) -> Vec<Syscall> {
    fold(rows, sort, stacks, Bucket::all_of)
}

/// Sums rows; `buckets` makes the intervals of each call's histogram.
fn fold<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
    buckets: fn(&Histogram) -> Vec<Bucket>,
) -> Vec<Syscall> {
    let mut by_call: BTreeMap<&Call, Vec<&Row>> = BTreeMap::new();
    for row in rows.filter(|row| row.calls > 0 || row.unfinished > 0) {
        by_call.entry(&row.call).or_default().push(row);
    }
    let sum = |(call, rows): (&Call, Vec<&Row>)| Syscall {
        callers: stacks.and_then(|stacks| Callers::of_rows(rows.iter().copied(), stacks)),
        ..sum_of_call(call, &rows, buckets)
    };
    let mut syscalls: Vec<Syscall> = by_call.into_iter().map(sum).collect();
    sort.sort(&mut syscalls);
    syscalls
}

/// The sums of one call over these rows.
fn sum_of_call(call: &Call, rows: &[&Row], buckets: fn(&Histogram) -> Vec<Bucket>) -> Syscall {
    let mut errnos = BTreeMap::new();
    for (&errno, count) in rows.iter().flat_map(|row| &row.errnos) {
        *errnos.entry(errno::name(errno)).or_default() += count;
    }
    let times = sum_of_times(rows);
    let times = times.as_ref();
    let total_ns = times
        .map(|times| times.total_ns)
        .filter(|&ns| ns != u64::MAX);
    let percentile = |percent| {
        let times = times?;
        let middle = times.histogram.percentile(percent)?;
        // The middle of a bucket may lie outside of the range that was measured.
        Some(middle.clamp(times.min_ns, times.max_ns.max(times.min_ns)))
    };
    // A call that was counted without its entry has no time. Mean and percentiles are those of the
    // timed calls.
    let mean_of = |times: &Times| Some(total_ns? / times.histogram.count());
    Syscall {
        name: call.name.clone().into_owned(),
        abi: call.abi.name().to_owned(),
        calls: rows.iter().map(|row| row.calls).sum(),
        errors: rows.iter().map(|row| row.errors).sum(),
        errnos,
        unfinished: rows.iter().map(|row| row.unfinished).sum(),
        bytes: sum_of_bytes(rows, |row| row.bytes),
        requested_bytes: sum_of_bytes(rows, |row| row.requested_bytes),
        total_ns,
        min_ns: times.map(|times| times.min_ns),
        max_ns: times.map(|times| times.max_ns),
        mean_ns: times.and_then(mean_of),
        p50_ns: percentile(50),
        p90_ns: percentile(90),
        p99_ns: percentile(99),
        histogram: times.map_or_else(Vec::new, |times| buckets(&times.histogram)),
        callers: None,
    }
}

/// A sum of bytes. An unknown number makes it unknown, unless no call of its row returned; so does
/// an overflow: programs ask `copy_file_range` for nearly 2^63 bytes at a time.
fn sum_of_bytes(rows: &[&Row], bytes: fn(&Row) -> Option<u64>) -> Option<u64> {
    rows.iter()
        .filter(|row| row.calls > 0 || bytes(row).is_some())
        .map(|row| bytes(row))
        .reduce(sum_known)
        .flatten()
}

/// The times of all calls that were timed. `None`: there are none, or they are unknown for calls of
/// one row.
fn sum_of_times(rows: &[&Row]) -> Option<Times> {
    if rows.iter().any(|row| row.calls > 0 && row.times.is_none()) {
        return None;
    }
    let times = rows.iter().filter_map(|row| row.times.as_ref());
    times
        .filter(|times| times.histogram.count() > 0)
        .cloned()
        .reduce(|mut sum, more| {
            sum.add(&more);
            sum
        })
}

/// The totals of every file that rows name, those with the most bytes first.
pub(super) fn totals(trace: &Trace) -> Vec<FileTotals> {
    let ends = EndTable::new(trace);
    let mut by_file: BTreeMap<FileId, FileTotals> = BTreeMap::new();
    let mut count = |file: Option<FileId>, row: &Row, add: fn(&mut FileTotals, &Row)| {
        let Some(file) = file else { return };
        let totals = by_file.entry(file).or_insert_with(|| FileTotals {
            file: ends.end(file),
            reads: 0,
            writes: 0,
            other_calls: 0,
            maps: 0,
            writable_maps: 0,
            bytes_read: Some(0),
            bytes_written: Some(0),
            errors: 0,
            total_ns: Some(0),
        });
        totals.errors += row.errors;
        let total_ns = row.times.as_ref().map(|times| times.total_ns);
        totals.total_ns = sum_known(totals.total_ns, total_ns);
        add(totals, row);
    };
    let threads = trace.all_processes().flat_map(|process| &process.threads);
    let rows = threads.flat_map(Thread::all_rows);
    for row in rows.filter(|row| row.calls > 0) {
        let (from, to) = files_named_by(row);
        if let Role::Maps(_) | Role::Other = Role::of_row(row) {
            count(from.or(to), row, add_other_calls);
        } else {
            count(from, row, add_reads);
            count(to, row, add_writes);
        }
    }
    let mut files: Vec<FileTotals> = by_file.into_values().collect();
    let weight = |one: &FileTotals| {
        let [read, written] = [one.bytes_read, one.bytes_written].map(Option::unwrap_or_default);
        // Of what was stored there nobody knows how much it is.
        Reverse((one.writable_maps > 0, read.saturating_add(written)))
    };
    files.sort_by_key(weight);
    files
}

fn add_other_calls(totals: &mut FileTotals, row: &Row) {
    totals.other_calls += row.calls;
    if let Role::Maps(_) = Role::of_row(row) {
        let maps = row.calls - row.errors;
        totals.maps += maps;
        totals.writable_maps += if row.ends.output.is_some() { maps } else { 0 };
    }
}

fn add_reads(totals: &mut FileTotals, row: &Row) {
    totals.reads += row.calls;
    totals.bytes_read = sum_known(totals.bytes_read, moved(row));
}

fn add_writes(totals: &mut FileTotals, row: &Row) {
    totals.writes += row.calls;
    totals.bytes_written = sum_known(totals.bytes_written, moved(row));
}

/// Bytes that the calls moved. If all failed that is 0, even for a call whose result does not tell.
fn moved(row: &Row) -> Option<u64> {
    if row.calls == row.errors {
        Some(0)
    } else {
        row.bytes
    }
}

/// The calls of a process by file. Each call is in one place.
pub(super) fn calls_by_file(
    process: &Process,
    ends: &EndTable<'_>,
    sort: SortKey,
) -> Vec<FileCalls> {
    let mut by_files: BTreeMap<(Option<FileId>, Option<FileId>), Vec<&Row>> = BTreeMap::new();
    for row in process.rows() {
        by_files.entry(files_named_by(row)).or_default().push(row);
    }
    let calls = by_files.into_iter().map(|((from, to), rows)| FileCalls {
        from: from.map(|file| ends.end(file)),
        to: to.map(|file| ends.end(file)),
        syscalls: fold_rows(rows.into_iter(), sort, None),
    });
    calls.filter(|calls| !calls.syscalls.is_empty()).collect()
}

/// The files that a call names itself; not the file that was read before a write.
fn files_named_by(row: &Row) -> (Option<FileId>, Option<FileId>) {
    match Role::of_row(row) {
        Role::Copies(from, to) => (Some(from), Some(to)),
        Role::Reads(from) => (from, None),
        Role::Writes(to) => (None, to),
        Role::Maps(file) => (Some(file), None),
        Role::Other => (row.ends.input.map(Input::file), row.ends.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        End, Files, Options, Report,
        sample::{files::scene, row},
    };

    #[test]
    fn a_copying_call_counts_for_both_files() {
        let scene = scene(
            "copier: sendfile in->out 2 100 EAGAIN*1, read in 1 10, mmap in 1 4096, \
             write out 3 7, recvmmsg tcp 1 0",
        );
        let calls = |one: &FileTotals| [one.reads, one.writes, one.other_calls, one.errors];
        let figures: Vec<_> = totals(&scene.trace)
            .iter()
            .map(|one| (calls(one), one.bytes_read, one.bytes_written))
            .collect();
        let expected = [
            ([4, 0, 1, 1], Some(110), Some(0)),
            ([0, 6, 0, 1], Some(0), Some(107)),
            // The call does not tell how many bytes it moved.
            ([1, 0, 0, 0], None, Some(0)),
        ];
        assert_eq!(figures, expected);
    }

    #[test]
    fn calls_are_listed_with_the_files_that_they_name() {
        let scene = scene(
            "copier: read in 3 20 EINTR*1, write in~out 2 20, sendfile in->out 4 100, \
             mmap in 1 4096",
        );
        let options = Options {
            file_calls: Files::Listed,
            ..Options::default()
        };
        let report = Report::from_trace(&scene.trace, &options);
        let path = |end: &Option<End>| end.clone().and_then(|end| end.path).unwrap_or_default();
        let mut found = Vec::new();
        for one in report.processes[0].file_calls.iter().flatten() {
            for call in &one.syscalls {
                let (from, to) = (path(&one.from), path(&one.to));
                found.push(format!("{from} {to} {} {}", call.name, call.calls));
            }
        }
        let expected = [
            " out write 2",
            "in  read 4",
            "in  mmap 1",
            "in out sendfile 4",
        ];
        assert_eq!(found, expected);
        let plain = scene.report();
        assert_eq!(plain.processes[0].file_calls, None);
    }

    /// The entry of the report for these rows.
    fn sum(rows: &[Row]) -> Syscall {
        let rows: Vec<&Row> = rows.iter().collect();
        sum_of_call(&rows[0].call, &rows, Bucket::all_of)
    }

    #[test]
    fn known_figures_add_up_and_one_unknown_makes_the_sum_unknown() {
        let read = || row("read");
        // Calls, bytes, and times: total, shortest, longest, mean, median.
        for (rows, expected) in [
            (
                vec![
                    read().bytes(10).took(&[100, 300]),
                    read().bytes(5).took(&[50]),
                ],
                "3 15 450 50 300 150 99",
            ),
            (
                vec![read().bytes(10).took(&[100]), read().called(1)],
                "2 - - - - - -",
            ),
            // A call that never returned makes no sum unknown.
            (
                vec![read().unfinished(2), read().bytes(10).took(&[100])],
                "1 10 100 100 100 100 100",
            ),
            // Mean and percentiles are those of the timed calls.
            (
                vec![read().bytes(1).took(&[100, 200]).called(5)],
                "5 1 300 100 200 150 100",
            ),
            (vec![read().bytes(1).took(&[]).called(5)], "5 1 - - - - -"),
            // The empty minimum of a row without times does not replace that of another row.
            (
                vec![read().took(&[]).called(5), read().took(&[70])],
                "6 - 70 70 70 70 70",
            ),
            // The middle of the bucket is 1087.
            (
                vec![read().took(&[1100, 1200])],
                "2 - 2300 1100 1200 1150 1100",
            ),
            (
                vec![read().bytes(u64::MAX).called(1), read().bytes(1).called(1)],
                "2 - - - - - -",
            ),
            // Their sum does not fit; the shortest and the longest are known.
            (
                vec![read().took(&[u64::MAX - 1]), read().took(&[5])],
                "2 - - 5 18446744073709551614 - 5",
            ),
        ] {
            let line = sum(&rows);
            let figures = [
                Some(line.calls),
                line.bytes,
                line.total_ns,
                line.min_ns,
                line.max_ns,
                line.mean_ns,
                line.p50_ns,
            ];
            let shown = |figure: Option<u64>| figure.map_or("-".to_owned(), |one| one.to_string());
            assert_eq!(figures.map(shown).join(" "), expected);
        }
        assert_eq!(sum(&[row("read").unfinished(2)]).unfinished, 2);
    }

    #[test]
    fn the_histogram_has_every_timed_call_once() {
        let line = sum(&[
            row("read").took(&[100, 3, 101]).called(5),
            row("read").took(&[u64::MAX / 4]),
        ]);
        let buckets: Vec<_> = line
            .histogram
            .iter()
            .map(|bucket| (bucket.from_ns, bucket.below_ns, bucket.calls))
            .collect();
        assert_eq!(
            buckets,
            [(3, Some(4), 1), (96, Some(104), 2), (15 << 40, None, 1)]
        );
        assert_eq!(line.calls, 6);
    }

    #[test]
    fn only_the_totals_have_histograms() {
        let trace = crate::report::sample::make(3);
        let options = Options {
            file_calls: Files::Listed,
            ..Options::default()
        };
        let report = Report::from_trace(&trace, &options);
        let has_histogram = |call: &Syscall| !call.histogram.is_empty();
        assert!(report.totals.syscalls.iter().all(has_histogram));
        let processes = report.processes.iter().flat_map(|one| &one.syscalls);
        let programs = report.programs.iter().flat_map(|one| &one.syscalls);
        assert!(!processes.chain(programs).any(has_histogram));
    }

    #[test]
    fn errnos_get_their_names() {
        let line = sum(&[
            row("read").failed(libc::EAGAIN, 2),
            row("read").failed(libc::EAGAIN, 1).failed(512, 4),
        ]);
        assert_eq!((line.calls, line.errors), (7, 7));
        assert_eq!(
            line.errnos,
            BTreeMap::from([("EAGAIN".to_owned(), 3), ("ERESTARTSYS".to_owned(), 4)])
        );
    }
}
