//! Sums rows: to one entry for each call, to the calls of a process on each file, and to everything
//! that was done with a file.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    callers::Callers,
    model::{Bucket, FileCalls, FileTotals, Syscall},
    sort::SortKey,
};
use crate::{
    counts::{Counts, Times, add_times},
    ends::EndTable,
    errno,
    histogram::Histogram,
    syscalls::{Call, Spec},
    trace::{FileId, Process, Row, SampledStack, Thread, Trace},
    transfer::{Role, files_named_by},
    units::sum_all,
};

/// Sums rows to one entry for each call, without histograms. Rows are also told apart by thread and
/// files. With the `stacks` of the trace, the entries say who made the calls.
pub(super) fn fold_rows<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
) -> Vec<Syscall> {
    sum_rows_by_call(rows, sort, stacks, |_| Vec::new())
}

/// The same with histograms. Only the totals of a report have them: for each process they would
/// take more room than all else.
pub(super) fn fold_totals<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
) -> Vec<Syscall> {
    sum_rows_by_call(rows, sort, stacks, Bucket::all_of)
}

/// Sums rows; `buckets` makes the intervals of each call's histogram.
fn sum_rows_by_call<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    stacks: Option<&[SampledStack]>,
    buckets: fn(&Histogram) -> Vec<Bucket>,
) -> Vec<Syscall> {
    let mut by_call: BTreeMap<&Call, Vec<&Row>> = BTreeMap::new();
    for row in rows.filter(|row| row.calls > 0 || row.unfinished > 0) {
        by_call.entry(&row.call).or_default().push(row);
    }
    let mut syscalls = Vec::new();
    for (call, rows) in by_call {
        let mut sum = sum_of_call(call, &rows, buckets);
        if let Some(stacks) = stacks {
            sum.callers = Callers::of_rows(rows.into_iter(), stacks);
        }
        syscalls.push(sum);
    }
    sort.sort(&mut syscalls);
    syscalls
}

/// The sums of one call over these rows.
fn sum_of_call(call: &Call, rows: &[&Row], buckets: fn(&Histogram) -> Vec<Bucket>) -> Syscall {
    let (counts, times) = sum_rows(rows);
    let mut sum = Syscall {
        name: call.name.clone().into_owned(),
        abi: call.abi.name().to_owned(),
        ..Syscall::default()
    };
    if let Some(times) = &times {
        sum.min_ns = Some(times.min_ns);
        sum.max_ns = Some(times.max_ns);
        // A call that was counted without its entry has no time. Mean and percentiles are those of the
        // timed calls.
        sum.mean_ns = counts
            .total_ns
            .and_then(|ns| ns.checked_div(times.histogram.count()));
        sum.p50_ns = times.percentile_ns(50);
        sum.p90_ns = times.percentile_ns(90);
        sum.p99_ns = times.percentile_ns(99);
        sum.histogram = buckets(&times.histogram);
    }
    sum.counts = counts.with_named_errnos();
    sum
}

/// The figures of these rows. Without times if none was timed, or if they are unknown for calls of
/// one row.
fn sum_rows(rows: &[&Row]) -> (Counts<u32>, Option<Times>) {
    let (mut counts, mut times) = (Counts::default(), None);
    for row in rows {
        counts += &row.counts;
        let of_row = row.times.as_ref();
        let known = of_row.filter(|times| times.histogram.count() > 0);
        add_times(&mut times, known);
    }
    if rows.iter().any(|row| row.calls > 0 && row.times.is_none()) {
        times = None;
    }
    counts.total_ns = times.as_ref().and(counts.total_ns);
    (counts, times)
}

/// The totals of every file that rows name, those with the most bytes first.
pub(super) fn file_totals(trace: &Trace) -> Vec<FileTotals> {
    let ends = EndTable::new(trace);
    let counted = trace.counted.as_ref();
    let [reads, writes] = [Spec::may_read, Spec::may_write]
        .map(|moves| counted.is_none_or(|counted| counted.contains_any(moves)));
    let mut by_file: BTreeMap<FileId, FileTotals> = BTreeMap::new();
    let mut count = |file: Option<FileId>, row: &Row, add: fn(&mut FileTotals, &Row)| {
        let Some(file) = file else { return };
        let totals = by_file.entry(file).or_insert_with(|| FileTotals {
            file: ends.find_end(file),
            reads: 0,
            writes: 0,
            other_calls: 0,
            maps: 0,
            writable_maps: 0,
            bytes_read: reads.then_some(0),
            bytes_written: writes.then_some(0),
            errors: 0,
            errnos: BTreeMap::new(),
            total_ns: Some(0),
        });
        totals.errors += row.errors;
        for (errno, calls) in &row.errnos {
            *totals.errnos.entry(errno::name(*errno)).or_default() += calls;
        }
        totals.total_ns = sum_all([totals.total_ns, row.total_ns]);
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
    totals.other_calls += row.calls - row.errors;
    if let Role::Maps(_) = Role::of_row(row) {
        let maps = row.calls - row.errors;
        totals.maps += maps;
        totals.writable_maps += if row.ends.output.is_some() { maps } else { 0 };
    }
}

fn add_reads(totals: &mut FileTotals, row: &Row) {
    totals.reads += row.calls - row.errors;
    totals.bytes_read = sum_all([totals.bytes_read, bytes_moved(row)]);
}

fn add_writes(totals: &mut FileTotals, row: &Row) {
    totals.writes += row.calls - row.errors;
    totals.bytes_written = sum_all([totals.bytes_written, bytes_moved(row)]);
}

/// Bytes that the calls moved. If all failed that is 0, even for a call whose result does not tell.
fn bytes_moved(row: &Row) -> Option<u64> {
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
    let mut calls = Vec::new();
    for ((from, to), rows) in by_files {
        let syscalls = fold_rows(rows.into_iter(), sort, None);
        if !syscalls.is_empty() {
            let (from, to) = (
                from.map(|from| ends.find_end(from)),
                to.map(|to| ends.find_end(to)),
            );
            calls.push(FileCalls { from, to, syscalls });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden, known_text},
        report::{Files, Options, Report, sample::files::Scene},
        units::UNKNOWN,
    };

    fn with_files() -> Options {
        Options {
            files: Files::Listed,
            file_calls: Files::Listed,
            ..Options::default()
        }
    }

    #[test]
    fn rows_are_summed_as_the_golden_file_says() {
        check_golden("report/tests/sums.txt", GoldenCase::Lines, |case| {
            let report = Report::from_trace(&Scene::read(case).trace, &with_files());
            describe_report(&report).join("\n")
        });
    }

    /// The calls, the files, the calls by file, and what the report lacks.
    fn describe_report(report: &Report) -> Vec<String> {
        let mut lines: Vec<String> = report.totals.syscalls.iter().map(call_line).collect();
        for one in &report.files {
            let name = one.file.name().unwrap_or(UNKNOWN);
            let [read, written] = [one.bytes_read, one.bytes_written].map(known_text);
            let calls = [one.reads, one.writes, one.other_calls, one.errors];
            lines.push(format!("{name}: {calls:?}, {read} read, {written} written"));
        }
        let processes = report.processes.iter();
        for one in processes.flat_map(|process| process.file_calls.iter().flatten()) {
            let ends = [&one.from, &one.to].map(|end| end.as_ref()?.path.as_deref());
            let [from, to] = ends.map(Option::unwrap_or_default);
            let calls = one.syscalls.iter();
            let calls = calls.map(|call| format!("{} {}", call.name, call.calls));
            let calls: Vec<String> = calls.collect();
            lines.push(format!("{from} -> {to}: {}", calls.join(", ")));
        }
        if let Some(loading) = report.totals.loading.filter(|loading| loading.calls > 0) {
            lines.push(format!("{} calls load programs", loading.calls));
        }
        let exact = if report.exact { "exact" } else { "lower bound" };
        lines.push(format!("{exact}, losses {:?}", report.losses));
        lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    /// The figures of a call, and at the end its histogram.
    fn call_line(one: &Syscall) -> String {
        let (name, calls, unfinished) = (&one.name, one.calls, one.unfinished);
        let (errors, errnos) = (one.errors, &one.errnos);
        let [bytes, total, mean] = [one.bytes, one.total_ns, one.mean_ns].map(known_text);
        let [min, max, p50] = [one.min_ns, one.max_ns, one.p50_ns].map(known_text);
        let bucket = |one: &Bucket| {
            format!(
                " {}..{}: {}",
                one.from_ns,
                known_text(one.below_ns),
                one.calls
            )
        };
        let histogram: String = one.histogram.iter().map(bucket).collect();
        format!(
            "{name} {calls} ({unfinished} unfinished), errors {errors} {errnos:?}, bytes {bytes}; \
             ns {total}, mean {mean}, {min} to {max}, p50 {p50},{histogram}"
        )
    }

    #[test]
    fn only_the_totals_have_histograms() {
        let trace = crate::report::sample::make(3);
        let report = Report::from_trace(&trace, &with_files());
        let has_histogram = |call: &Syscall| !call.histogram.is_empty();
        assert!(report.totals.syscalls.iter().all(has_histogram));
        let processes = report.processes.iter().flat_map(|one| &one.syscalls);
        let programs = report.programs.iter().flat_map(|one| &one.syscalls);
        assert!(!processes.chain(programs).any(has_histogram));
    }
}
