//! Figures of calls: sums over the rows of a report that are chosen by name, process and file.

use zc_ebpf::bucket_of;

use crate::{
    expect::{
        ast::{Figure, Selectors},
        callers,
        facts::{self, ChosenProcesses, MeasuredFigure, sum_known, why_inexact},
        known::{Amount, KnownFigure},
        names::Names,
        paths,
        pattern::{EndPattern, Match},
    },
    figures::{
        list::{FigureField, of_row},
        reading::rows_of_other_calls,
    },
    histogram::bucket_range,
    report::{FileCalls, Process, Report, Syscall},
    syscalls::{Fds, Spec},
};

/// Reads a figure of calls. The error names the calls that were not counted.
pub(super) fn measure(figure: &Figure, report: &Report) -> Result<MeasuredFigure, Vec<String>> {
    if let Some(glob) = &figure.selectors.path {
        return Ok(paths::measure(figure, glob, report));
    }
    let names = Names::of_subject(&figure.subject);
    // Calls without rows have sums over the whole run.
    let is_of_run = figure.selectors == Selectors::default();
    let others: Vec<Syscall> = rows_of_other_calls(&report.totals)
        .filter(|_| is_of_run && names.wanted.is_some())
        .collect();
    let counted = report.counted.as_ref();
    let uncounted = counted
        .filter(|_| !is_of_run || report.totals.other_syscalls.is_none())
        .map(|counted| names.uncounted(counted))
        .unwrap_or_default();
    if !uncounted.is_empty() {
        return Err(uncounted);
    }
    if let Some(pattern) = &figure.selectors.caller {
        return Ok(callers::measure(figure, pattern, &names, report));
    }
    let mut chosen = match rows(figure, &names, report) {
        RowsToSum::Missing(why) => return Ok(MeasuredFigure::plain(KnownFigure::Missing(why))),
        RowsToSum::Unknown(why) => return Ok(MeasuredFigure::unknown(why)),
        RowsToSum::Chosen(chosen) => chosen,
    };
    let without_rows = others.iter().filter(|row| names.contains(&row.name));
    chosen.rows.extend(without_rows);
    let sum = RowSum {
        rows: &chosen.rows,
        is_open: chosen.open.is_some(),
    };
    let known = sum.figure(figure.field, figure.errno.as_deref());
    let is_limited = matches!(known, KnownFigure::Between(low, Some(high)) if low == high);
    let reason = chosen
        .open
        .filter(|_| !is_limited)
        .or_else(|| why_unknown(&known, figure.field));
    let facts = facts::facts_of_calls(figure, &names_of(&chosen.rows), report);
    Ok(MeasuredFigure {
        known,
        reason,
        facts,
    })
}

fn names_of<'a>(rows: &[&'a Syscall]) -> Vec<&'a str> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rows to sum up.
struct RowSum<'a> {
    rows: &'a [&'a Syscall],
    /// Whether there may be more.
    is_open: bool,
}

impl RowSum<'_> {
    fn figure(&self, field: FigureField, errno: Option<&str>) -> KnownFigure {
        match (field, errno) {
            (FigureField::Errors, Some(errno)) => self.errors(errno),
            (FigureField::AvgSize, _) => self.mean(
                FigureField::Bytes,
                |row| row.calls - row.errors,
                "no call to average",
            ),
            (FigureField::Avg, _) => self.mean(FigureField::Total, |row| row.calls, NO_TIME),
            (FigureField::Min, _) => self.least(),
            (FigureField::Max, _) => self.most(),
            (FigureField::P50 | FigureField::P90 | FigureField::P99, _) => self.percentile(field),
            (field, _) => self.total(field),
        }
    }

    /// Rows of calls that returned.
    fn returned(&self) -> impl Iterator<Item = &Syscall> {
        self.rows.iter().copied().filter(|row| row.calls > 0)
    }

    /// A sum of parts that may be unknown.
    fn total(&self, field: FigureField) -> KnownFigure {
        let is_count = matches!(
            field,
            FigureField::Calls | FigureField::Errors | FigureField::Unfinished
        );
        let rows = self.rows.iter().filter(|row| is_count || row.calls > 0);
        let (low, all_known) = sum_known(rows.map(|row| of_row(field, row)));
        KnownFigure::Between(low.into(), (all_known && !self.is_open).then(|| low.into()))
    }

    /// Errors with this errno. An error without an errno may be one of them.
    fn errors(&self, errno: &str) -> KnownFigure {
        let of_errno = |row: &&Syscall| row.errnos.get(errno).copied().unwrap_or(0);
        let nameless = |row: &&Syscall| row.errors.saturating_sub(row.errnos.values().sum());
        let low: u64 = self.rows.iter().map(of_errno).sum();
        let nameless: u64 = self.rows.iter().map(nameless).sum();
        KnownFigure::Between(low.into(), (!self.is_open).then(|| (low + nameless).into()))
    }

    fn mean(
        &self,
        sum: FigureField,
        count: impl Fn(&Syscall) -> u64,
        if_none: &str,
    ) -> KnownFigure {
        if self.is_open {
            return KnownFigure::Unknown;
        }
        let count: u64 = self.returned().map(count).sum();
        let (sum, all_known) = sum_known(self.returned().map(|row| of_row(sum, row)));
        match Amount::mean(sum, count) {
            None => KnownFigure::Missing(if_none.to_owned()),
            Some(mean) if all_known => KnownFigure::exactly(mean),
            Some(_) => KnownFigure::Unknown,
        }
    }

    fn most(&self) -> KnownFigure {
        let Some(low) = self.returned().filter_map(|row| row.max_ns).max() else {
            return self.no_time();
        };
        let all_known = self.returned().all(|row| row.max_ns.is_some());
        KnownFigure::Between(low.into(), (all_known && !self.is_open).then(|| low.into()))
    }

    fn least(&self) -> KnownFigure {
        let Some(high) = self.returned().filter_map(|row| row.min_ns).min() else {
            return self.no_time();
        };
        let is_all = !self.is_open && self.returned().all(|row| row.min_ns.is_some());
        KnownFigure::Between(if is_all { high } else { 0 }.into(), Some(high.into()))
    }

    /// The percentile of several rows together lies between those of the rows.
    fn percentile(&self, field: FigureField) -> KnownFigure {
        if self.is_open {
            return self.no_time();
        }
        let ranges: Option<Vec<(u64, u64)>> = self
            .returned()
            .map(|row| percentile_range(row, field))
            .collect();
        let Some(ranges) = ranges else {
            return KnownFigure::Unknown;
        };
        let low = ranges.iter().map(|(low, _)| *low).min();
        let high = ranges.iter().map(|(_, high)| *high).max();
        low.map_or_else(
            || self.no_time(),
            |low| KnownFigure::Between(low.into(), high.map(Into::into)),
        )
    }

    /// If no time is known.
    fn no_time(&self) -> KnownFigure {
        if self.is_open || self.returned().next().is_some() {
            KnownFigure::Unknown
        } else {
            KnownFigure::Missing(NO_TIME.to_owned())
        }
    }
}

/// The range of a row's percentile. The report has the middle of its bucket.
fn percentile_range(row: &Syscall, field: FigureField) -> Option<(u64, u64)> {
    let middle = match field {
        FigureField::P50 => row.p50_ns,
        FigureField::P90 => row.p90_ns,
        _ => row.p99_ns,
    }?;
    let (low, width) = bucket_range(bucket_of(middle));
    let (low, high) = (
        low.max(row.min_ns.unwrap_or(0)),
        (low + (width - 1)).min(row.max_ns.unwrap_or(u64::MAX)),
    );
    Some((low.min(middle), high.max(middle)))
}

/// Why the rows do not tell exactly.
fn why_unknown(known: &KnownFigure, field: FigureField) -> Option<String> {
    match known {
        KnownFigure::Between(low, Some(high))
            if low != high
                && matches!(
                    field,
                    FigureField::P50 | FigureField::P90 | FigureField::P99
                ) =>
        {
            Some("percentiles are known to within 6.25 %".to_owned())
        }
        KnownFigure::Between(_, None) | KnownFigure::Unknown => {
            Some("these calls do not tell, or the backend does not know".to_owned())
        }
        KnownFigure::Between(low, Some(high)) if low != high => {
            Some("no more is known about several calls together".to_owned())
        }
        _ => None,
    }
}

const NO_TIME: &str = "no call was timed";

/// Rows, and why there may be more.
struct ChosenRows<'a> {
    rows: Vec<&'a Syscall>,
    open: Option<String>,
}

/// The rows to sum up.
enum RowsToSum<'a> {
    Chosen(ChosenRows<'a>),
    /// It is not known which processes are meant.
    Unknown(String),
    /// There are no such processes.
    Missing(String),
}

/// The rows that a figure sums up.
fn rows<'a>(figure: &Figure, names: &Names<'_>, report: &'a Report) -> RowsToSum<'a> {
    let open = why_inexact(report).or_else(|| names.may_be_uncounted(report));
    let (processes, open) = match ChosenProcesses::of_figure(figure, report) {
        ChosenProcesses::None(why) => return RowsToSum::Missing(why),
        ChosenProcesses::Unknown(why) => return RowsToSum::Unknown(why),
        ChosenProcesses::Chosen(chosen, why) => (Some(chosen), open.or(why)),
        ChosenProcesses::All => (None, open),
    };
    if figure.selectors.are_by_file() {
        let processes = processes.unwrap_or_else(|| report.processes.iter().collect());
        return RowsToSum::Chosen(by_file(figure, names, report, &processes, open));
    }
    let all: Vec<&Syscall> = match &processes {
        None => report.totals.syscalls.iter().collect(),
        Some(processes) => processes
            .iter()
            .flat_map(|process| &process.syscalls)
            .collect(),
    };
    RowsToSum::Chosen(ChosenRows {
        rows: all
            .into_iter()
            .filter(|row| names.contains(&row.name))
            .collect(),
        open,
    })
}

/// The same for calls on certain files.
fn by_file<'a>(
    figure: &Figure,
    names: &Names<'_>,
    report: &Report,
    processes: &[&'a Process],
    mut open: Option<String>,
) -> ChosenRows<'a> {
    let pattern = figure.selectors.file_pattern();
    if report.calls_without_files > 0 {
        open.get_or_insert_with(|| {
            format!(
                "the files of {} calls were not kept",
                report.calls_without_files
            )
        });
    }
    if processes.iter().any(|process| process.file_calls.is_none())
        || report.processes_left_out() > 0
    {
        open.get_or_insert_with(|| "the report does not say which call used which file".to_owned());
    }
    let details = || {
        processes
            .iter()
            .filter_map(|process| process.file_calls.as_ref())
            .flatten()
    };
    let knows_files = details().any(|detail| detail.from.is_some() || detail.to.is_some());
    let mut rows = Vec::new();
    for detail in details() {
        let of_names = detail
            .syscalls
            .iter()
            .filter(|row| names.contains(&row.name));
        match pattern.matches_either(detail) {
            Match::Yes => rows.extend(of_names),
            Match::No => {}
            Match::Maybe => {
                let unsure =
                    of_names.filter(|row| detail.has_files() || may_use_file(row, knows_files));
                let calls: u64 = unsure.map(|row| row.calls).sum();
                if calls > 0 {
                    open.get_or_insert_with(|| why_unsure(&pattern, calls));
                }
            }
        }
    }
    ChosenRows { rows, open }
}

/// Why it is not known whether calls used a file that matches.
fn why_unsure(pattern: &EndPattern, calls: u64) -> String {
    match pattern.path.as_ref().filter(|glob| glob.lacks_directory()) {
        Some(glob) => format!(
            "the report does not say where its relative paths start, so '{}' may be the file of {calls} calls",
            glob.text()
        ),
        None => format!("the files of {calls} calls are not known"),
    }
}

impl FileCalls {
    fn has_files(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// Whether calls without a known file may have used one. They did not if their descriptor was
/// invalid, or if they need none.
fn may_use_file(row: &Syscall, knows_files: bool) -> bool {
    let spec = Spec::named(&row.name);
    if !spec.names_descriptor() {
        return spec.may_name_file_by_path();
    }
    match spec.fds {
        _ if !knows_files => true,
        // Anonymous memory.
        Fds::On(_) if row.name.starts_with("mmap") => false,
        _ => row.calls > row.errors,
    }
}
