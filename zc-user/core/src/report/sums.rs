//! Sums rows: to one entry for each call, to the calls of a process on each file, and to everything
//! that was done with a file.

use crate::trace::sum_known;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use super::{
    callers::Callers,
    model::{Bucket, FileCalls, FileTotals, SortKey, Syscall},
};
use crate::{
    errno,
    histogram::Histogram,
    syscalls::Call,
    trace::{FileId, Input, Process, Row, Stack, Times, Trace},
    transfer::{EndTable, Role},
};

/// Adds to the entries of these rows who made the calls, as far as that was sampled.
pub(super) fn add_callers<'a>(
    syscalls: &mut [Syscall],
    rows: impl Iterator<Item = &'a Row>,
    stacks: Option<&[Stack]>,
) {
    let Some(stacks) = stacks else { return };
    let mut by_call: HashMap<(&str, &str), Vec<&Row>> = HashMap::new();
    for row in rows.filter(|row| !row.callers.is_empty()) {
        by_call
            .entry((&row.call.name, row.call.abi.name()))
            .or_default()
            .push(row);
    }
    for syscall in syscalls {
        let rows = by_call.remove(&(syscall.name.as_str(), syscall.abi.as_str()));
        syscall.callers = rows.and_then(|rows| Callers::of_rows(rows.into_iter(), stacks));
    }
}

/// Sums rows to one entry for each call, without histograms. Rows are also told apart by thread and
/// files.
pub(super) fn fold_rows<'a>(rows: impl Iterator<Item = &'a Row>, sort: SortKey) -> Vec<Syscall> {
    fold(rows, sort, |_| Vec::new())
}

/// The same with histograms. Only the totals of a report have them: for each process they would
/// take more room than all else.
pub(super) fn fold_totals<'a>(rows: impl Iterator<Item = &'a Row>, sort: SortKey) -> Vec<Syscall> {
    fold(rows, sort, Bucket::all_of)
}

/// Sums rows; `buckets` makes the intervals of each call's histogram.
fn fold<'a>(
    rows: impl Iterator<Item = &'a Row>,
    sort: SortKey,
    buckets: fn(&Histogram) -> Vec<Bucket>,
) -> Vec<Syscall> {
    let mut sums: BTreeMap<&Call, CallSums> = BTreeMap::new();
    for row in rows.filter(|row| row.calls > 0 || row.unfinished > 0) {
        sums.entry(&row.call).or_default().add(row);
    }
    let mut syscalls: Vec<Syscall> = sums
        .into_iter()
        .map(|(call, sums)| sums.finish(call, buckets))
        .collect();
    sort.sort(&mut syscalls);
    syscalls
}

/// The sums of one call over any number of rows.
#[derive(Debug, Default)]
struct CallSums {
    calls: u64,
    errors: u64,
    errnos: BTreeMap<u32, u64>,
    unfinished: u64,
    bytes: PartialSum<u64>,
    requested_bytes: PartialSum<u64>,
    times: PartialSum<Times>,
}

impl CallSums {
    /// Adds a row of the same call.
    fn add(&mut self, row: &Row) {
        self.calls += row.calls;
        self.errors += row.errors;
        for (&errno, count) in &row.errnos {
            *self.errnos.entry(errno).or_default() += count;
        }
        self.unfinished += row.unfinished;
        let returned = row.calls > 0;
        // Programs ask `copy_file_range` for nearly 2^63 bytes at a time, so that their sum may
        // overflow.
        let add_numbers =
            |sum: &mut u64, number: &u64| sum.checked_add(*number).map(|total| *sum = total);
        self.bytes.add(row.bytes.as_ref(), returned, add_numbers);
        self.requested_bytes
            .add(row.requested_bytes.as_ref(), returned, add_numbers);
        self.times.add(row.times.as_ref(), returned, add_times);
    }

    /// The entry of the report.
    fn finish(self, call: &Call, buckets: fn(&Histogram) -> Vec<Bucket>) -> Syscall {
        // A call that was counted without its entry has no time. Mean and percentiles are those of
        // the timed calls.
        let times = self
            .times
            .known()
            .filter(|times| times.histogram.count() > 0);
        let times = times.as_ref();
        let total_ns = times
            .map(|times| times.total_ns)
            .filter(|&ns| ns != u64::MAX);
        let percentile = |percent| {
            let times = times?;
            // The middle of a bucket may lie outside of the range that was measured.
            Some(
                times
                    .histogram
                    .percentile(percent)?
                    .clamp(times.min_ns, times.max_ns.max(times.min_ns)),
            )
        };
        Syscall {
            name: call.name.clone().into_owned(),
            abi: call.abi.name().to_owned(),
            calls: self.calls,
            errors: self.errors,
            errnos: self
                .errnos
                .into_iter()
                .map(|(errno, count)| (errno::name(errno), count))
                .collect(),
            unfinished: self.unfinished,
            bytes: self.bytes.known(),
            requested_bytes: self.requested_bytes.known(),
            total_ns,
            min_ns: times.map(|times| times.min_ns),
            max_ns: times.map(|times| times.max_ns),
            mean_ns: times
                .zip(total_ns)
                .map(|(times, total_ns)| total_ns / times.histogram.count()),
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
            histogram: times
                .map(|times| buckets(&times.histogram))
                .unwrap_or_default(),
            callers: None,
        }
    }
}

/// A sum of values of which some may be unknown.
#[derive(Debug, Default)]
enum PartialSum<T> {
    /// Nothing was added.
    #[default]
    Empty,
    Known(T),
    /// An unknown value was added, or the sum overflowed.
    Unknown,
}

impl<T: Clone> PartialSum<T> {
    /// Adds a value. An unknown one (`None`) makes the sum unknown only if a call `returned`: no
    /// call is known to have moved nothing.
    fn add(&mut self, figure: Option<&T>, returned: bool, add: fn(&mut T, &T) -> Option<()>) {
        match (&mut *self, figure) {
            (Self::Unknown, _) => {}
            (Self::Empty, Some(figure)) => *self = Self::Known(figure.clone()),
            (Self::Known(sum), Some(figure)) => {
                if add(sum, figure).is_none() {
                    *self = Self::Unknown;
                }
            }
            (_, None) if returned => *self = Self::Unknown,
            (_, None) => {}
        }
    }

    fn known(self) -> Option<T> {
        match self {
            Self::Known(sum) => Some(sum),
            Self::Empty | Self::Unknown => None,
        }
    }
}

fn add_times(sum: &mut Times, times: &Times) -> Option<()> {
    if times.histogram.count() == 0 {
        return Some(());
    }
    if times.total_ns == u64::MAX {
        return None;
    }
    if sum.histogram.count() == 0 {
        *sum = times.clone();
        return Some(());
    }
    sum.total_ns = sum.total_ns.checked_add(times.total_ns)?;
    sum.min_ns = sum.min_ns.min(times.min_ns);
    sum.max_ns = sum.max_ns.max(times.max_ns);
    sum.histogram.merge(&times.histogram);
    Some(())
}

/// The totals of every file that rows name, those with the most bytes first.
pub(super) fn totals(trace: &Trace) -> Vec<FileTotals> {
    let ends = EndTable::new(trace);
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
    let threads = trace.all_processes().flat_map(|process| &process.threads);
    for row in threads
        .flat_map(|thread| thread.rows.iter().chain(&thread.ring_rows))
        .filter(|row| row.calls > 0)
    {
        match Role::of_row(row) {
            Role::Copies(from, to) => {
                of(from, &|totals| read(totals, row));
                of(to, &|totals| written(totals, row));
            }
            Role::Reads(Some(file)) => of(file, &|totals| read(totals, row)),
            Role::Writes(Some(file)) => of(file, &|totals| written(totals, row)),
            Role::Reads(None) | Role::Writes(None) => {}
            Role::Maps(_) | Role::Other => {
                if let Some(file) = row.ends.input.map(Input::file).or(row.ends.output) {
                    of(file, &|totals| {
                        called(totals, row, |totals| &mut totals.other_calls);
                    });
                }
            }
        }
    }
    let mut files: Vec<FileTotals> = by_file.into_values().collect();
    files.sort_by_key(|totals| {
        Reverse(
            totals
                .bytes_read
                .unwrap_or(0)
                .saturating_add(totals.bytes_written.unwrap_or(0)),
        )
    });
    files
}

fn read(totals: &mut FileTotals, row: &Row) {
    called(totals, row, |totals| &mut totals.reads);
    totals.bytes_read = sum_known(totals.bytes_read, moved(row));
}

fn written(totals: &mut FileTotals, row: &Row) {
    called(totals, row, |totals| &mut totals.writes);
    totals.bytes_written = sum_known(totals.bytes_written, moved(row));
}

fn called(totals: &mut FileTotals, row: &Row, calls: fn(&mut FileTotals) -> &mut u64) {
    *calls(totals) += row.calls;
    totals.errors += row.errors;
    totals.total_ns = sum_known(
        totals.total_ns,
        row.times.as_ref().map(|times| times.total_ns),
    );
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
    for row in process.threads.iter().flat_map(|thread| &thread.rows) {
        by_files.entry(files_named_by(row)).or_default().push(row);
    }
    let calls = by_files.into_iter().map(|((from, to), rows)| FileCalls {
        from: from.map(|file| ends.end(file)),
        to: to.map(|file| ends.end(file)),
        syscalls: fold_rows(rows.into_iter(), sort),
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
        sample::{
            files::{Scene, copy, map, read, write, written_after},
            row,
        },
    };

    #[test]
    fn a_copying_call_counts_for_both_files() {
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
            .map(|file| {
                (
                    file.file.path.as_deref(),
                    file.reads,
                    file.writes,
                    file.other_calls,
                    file.errors,
                )
            })
            .collect();
        assert_eq!(
            figures,
            [(Some("in"), 4, 0, 1, 1), (Some("out"), 0, 6, 0, 1)]
        );
        let bytes: Vec<_> = files
            .iter()
            .map(|file| (file.bytes_read, file.bytes_written))
            .collect();
        assert_eq!(bytes, [(Some(110), Some(0)), (Some(0), Some(107))]);
    }

    #[test]
    fn bytes_that_a_call_does_not_tell_are_unknown() {
        let mut scene = Scene::new();
        let socket = scene.socketpair()[0];
        scene.process("server", vec![read("recvmmsg", socket, 1, 0)]);
        assert_eq!(totals(&scene.trace)[0].bytes_read, None);
    }

    #[test]
    fn calls_are_listed_with_the_files_that_they_name() {
        let mut scene = Scene::new();
        let [from, to] = ["in", "out"].map(|name| scene.regular(name));
        let rows = vec![
            read("read", from, 3, 20).failed(libc::EINTR, 1),
            written_after("write", from, to, 2, 20, 20),
            copy("sendfile", from, to, 4, 100),
            map(from, 4096),
        ];
        scene.process("copier", rows);
        let options = Options {
            file_calls: Files::Listed,
            ..Options::default()
        };
        let report = Report::from_trace(&scene.trace, &options);
        let path = |end: &Option<End>| {
            end.as_ref()
                .and_then(|end| end.path.clone())
                .unwrap_or_default()
        };
        let listed = report.processes[0]
            .file_calls
            .as_ref()
            .expect("was asked for");
        let found: Vec<_> = listed
            .iter()
            .flat_map(|calls| {
                calls.syscalls.iter().map(|call| {
                    (
                        path(&calls.from),
                        path(&calls.to),
                        call.name.as_str(),
                        call.calls,
                    )
                })
            })
            .map(|(from, to, name, calls)| format!("{from} {to} {name} {calls}"))
            .collect();
        assert_eq!(
            found,
            [
                " out write 2",
                "in  read 4",
                "in  mmap 1",
                "in out sendfile 4"
            ]
        );
        let plain = Report::from_trace(&scene.trace, &Options::default());
        assert_eq!(plain.processes[0].file_calls, None);
    }

    /// The entry of the report for these rows.
    fn sum(rows: &[Row]) -> Syscall {
        let mut sums = CallSums::default();
        for row in rows {
            sums.add(row);
        }
        sums.finish(&rows[0].call, Bucket::all_of)
    }

    #[test]
    fn known_figures_add_up() {
        let line = sum(&[
            row("read").bytes(10).took(&[100, 300]),
            row("read").bytes(5).took(&[50]),
        ]);
        assert_eq!((line.calls, line.bytes), (3, Some(15)));
        assert_eq!(
            (line.total_ns, line.min_ns, line.max_ns, line.mean_ns),
            (Some(450), Some(50), Some(300), Some(150))
        );
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
        assert_eq!(
            (line.calls, sum(&[row("read").called(3)]).histogram),
            (6, Vec::new())
        );
    }

    #[test]
    fn only_the_totals_have_histograms() {
        let trace = crate::report::sample::make(3);
        let report = Report::from_trace(
            &trace,
            &Options {
                file_calls: Files::Listed,
                ..Options::default()
            },
        );
        assert!(
            report
                .totals
                .syscalls
                .iter()
                .all(|call| !call.histogram.is_empty())
        );
        let of_processes = report
            .processes
            .iter()
            .flat_map(|process| &process.syscalls);
        let parts =
            of_processes.chain(report.programs.iter().flat_map(|program| &program.syscalls));
        assert!(parts.clone().count() > 2 && parts.clone().all(|call| call.histogram.is_empty()));
    }

    #[test]
    fn one_unknown_figure_makes_the_sum_unknown() {
        let line = sum(&[row("read").bytes(10).took(&[100]), row("read").called(1)]);
        assert_eq!(
            (line.calls, line.bytes, line.total_ns, line.p99_ns),
            (2, None, None, None)
        );
    }

    #[test]
    fn a_call_that_never_returned_makes_no_sum_unknown() {
        let line = sum(&[
            row("read").unfinished(1),
            row("read").bytes(10).took(&[100]),
            row("read").unfinished(1),
        ]);
        assert_eq!(
            (line.calls, line.unfinished, line.bytes, line.total_ns),
            (1, 2, Some(10), Some(100))
        );
    }

    #[test]
    fn mean_and_percentiles_are_those_of_the_timed_calls() {
        let line = sum(&[row("read").bytes(1).took(&[100, 200]).called(5)]);
        assert_eq!(
            (line.calls, line.total_ns, line.mean_ns),
            (5, Some(300), Some(150))
        );
    }

    #[test]
    fn without_a_timed_call_there_is_no_time() {
        let line = sum(&[row("read").bytes(1).took(&[]).called(5)]);
        assert_eq!(
            (line.total_ns, line.min_ns, line.mean_ns, line.p50_ns),
            (None, None, None, None)
        );
        // And its empty minimum does not replace that of another row.
        let line = sum(&[
            row("read").took(&[]).called(5),
            row("read").took(&[70]),
            row("read").took(&[]).called(1),
        ]);
        assert_eq!(
            (line.total_ns, line.min_ns, line.max_ns),
            (Some(70), Some(70), Some(70))
        );
    }

    #[test]
    fn percentiles_lie_between_minimum_and_maximum() {
        // The buckets' middles of these are 1087 and 1215.
        let line = sum(&[row("read").took(&[1100, 1200])]);
        assert_eq!((line.p50_ns, line.p99_ns), (Some(1100), Some(1200)));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_unknown() {
        let huge = || row("copy_file_range").requested(i64::MAX as u64).called(1);
        assert_eq!(sum(&[huge(), huge(), huge()]).requested_bytes, None);
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
