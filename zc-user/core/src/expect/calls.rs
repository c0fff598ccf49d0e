//! Figures of calls: sums over the rows of a report that are chosen by name, process and file.

use zc_ebpf::bucket_of;

use crate::{
    expect::{
        ast::{FigureExpr, FigureSubject, Selectors},
        by_caller,
        facts::{
            ChosenProcesses, MeasuredFigure, facts_of_calls, partial_sum, why_inexact,
            why_not_listed, why_without_files,
        },
        known::{Amount, KnownFigure},
        names::CallSet,
        paths,
        pattern::{EndPattern, Match},
        sizes, spans, threads,
    },
    figures::list::{FigureField, of_row},
    histogram::bucket_range,
    report::{FileCalls, Process, Report, Syscall},
    syscalls::{Fds, Spec},
};

/// The calls that a figure needs and that the run did not count. The sums over the whole run may
/// have them without rows.
pub(super) fn uncounted_calls(figure: &FigureExpr, report: &Report) -> Vec<String> {
    let FigureSubject::Calls(names) = &figure.subject else {
        return Vec::new();
    };
    let has_sums =
        figure.selectors == Selectors::default() && report.totals.other_syscalls.is_some();
    let Some(counted) = report.counted.as_ref().filter(|_| !has_sums) else {
        return Vec::new();
    };
    if figure.selectors.path.is_some() {
        return Vec::new();
    }
    let uncounted = names.iter().filter(|name| !counted.contains(name));
    uncounted.map(str::to_owned).collect()
}

/// Reads a figure of calls.
pub(super) fn measure_calls(
    figure: &FigureExpr,
    names: &CallSet,
    report: &Report,
) -> MeasuredFigure {
    if let Some(glob) = &figure.selectors.path {
        return paths::measure_paths(figure, names, glob, report);
    }
    if let Some(pattern) = &figure.selectors.caller {
        return by_caller::measure_callers(figure, pattern, names, report);
    }
    if let Some(span) = &figure.selectors.span {
        return spans::measure_spans(span, names, report);
    }
    let is_of_run = figure.selectors == Selectors::default();
    let others: Vec<Syscall> = report.totals.rows_of_others().collect();
    let mut chosen = chosen_rows(figure, names, report);
    if is_of_run && *names != CallSet::ALL {
        chosen.rows.extend(names.rows_among(&others));
    }
    let known = chosen.measure_field(figure.field, figure.errno.as_deref());
    let reason = chosen.open.filter(|_| !known.is_exact());
    MeasuredFigure {
        reason: reason.or(why_unknown(&known, figure.field)),
        known,
        facts: match &figure.selectors.thread {
            Some(glob) => {
                let chosen = ChosenProcesses::of_figure(figure, report);
                threads::facts_of_threads(glob, names, &chosen.processes)
            }
            None => facts_of_calls(figure, names, report),
        },
    }
}

/// Rows to sum up.
struct ChosenRows<'a> {
    rows: Vec<&'a Syscall>,
    /// Why there may be more.
    open: Option<String>,
}

impl ChosenRows<'_> {
    fn measure_field(&self, field: FigureField, errno: Option<&str>) -> KnownFigure {
        use FigureField::{Avg, AvgSize, Bytes, Max, Min, P50, P90, P99, Total};
        if let Some(errno) = errno {
            return self.sum_errors(errno);
        }
        match field {
            AvgSize => {
                let succeeded = self.returned_rows().map(|row| row.calls - row.errors).sum();
                self.mean_field(Bytes, succeeded, "no call to average")
            }
            Avg => {
                let calls = self.returned_rows().map(|row| row.calls).sum();
                self.mean_field(Total, calls, NO_TIME)
            }
            Min | Max | P50 | P90 | P99 => self.time_bounds(field),
            field if field.is_of_sizes() && self.open.is_some() => KnownFigure::Unknown,
            field if field.is_of_sizes() => sizes::measure_sizes(field, self.returned_rows()),
            field => self.sum_field(field),
        }
    }

    fn returned_rows(&self) -> impl Iterator<Item = &Syscall> {
        self.rows.iter().copied().filter(|row| row.calls > 0)
    }

    /// A sum of parts that may be unknown.
    fn sum_field(&self, field: FigureField) -> KnownFigure {
        let is_count = matches!(
            field,
            FigureField::Calls | FigureField::Errors | FigureField::Unfinished
        );
        let rows = self.rows.iter().filter(|row| is_count || row.calls > 0);
        let (low, all_known) = partial_sum(rows.map(|row| of_row(field, row)));
        KnownFigure::at_least(low, all_known && self.open.is_none())
    }

    /// Errors with this errno. An error without an errno may be one of them.
    fn sum_errors(&self, errno: &str) -> KnownFigure {
        let (mut low, mut nameless) = (0, 0);
        for row in &self.rows {
            low += row.errnos.get(errno).copied().unwrap_or(0);
            nameless += row.errors.saturating_sub(row.errnos.values().sum());
        }
        let high = self
            .open
            .is_none()
            .then_some(low.saturating_add(nameless).into());
        KnownFigure::Between(low.into(), high)
    }

    /// A sum divided by a count of calls.
    fn mean_field(&self, sum: FigureField, count: u64, if_none: &str) -> KnownFigure {
        if self.open.is_some() {
            return KnownFigure::Unknown;
        }
        let (sum, all_known) = partial_sum(self.returned_rows().map(|row| of_row(sum, row)));
        match Amount::mean_amount(sum, count) {
            None => KnownFigure::Missing(if_none.to_owned()),
            Some(mean) if all_known => KnownFigure::exactly(mean),
            Some(_) => KnownFigure::Unknown,
        }
    }

    /// The shortest time, the longest one, or a percentile: that of several rows together lies
    /// between those of the rows. Rows whose times are unknown may have a shorter or a longer one.
    fn time_bounds(&self, field: FigureField) -> KnownFigure {
        let ranges = self.returned_rows().map(|row| time_range(row, field));
        let ranges: Vec<Option<(u64, u64)>> = ranges.collect();
        let is_all = self.open.is_none() && ranges.iter().all(Option::is_some);
        let (lows, highs): (Vec<u64>, Vec<u64>) = ranges.iter().flatten().copied().unzip();
        match (lows.into_iter().min(), highs.into_iter().max()) {
            (Some(least), _) if field == FigureField::Min => {
                let low = if is_all { least } else { 0 };
                KnownFigure::Between(low.into(), Some(least.into()))
            }
            (_, Some(most)) if field == FigureField::Max => KnownFigure::at_least(most, is_all),
            (Some(least), Some(most)) if is_all => {
                KnownFigure::Between(least.into(), Some(most.into()))
            }
            _ if self.open.is_some() || !ranges.is_empty() => KnownFigure::Unknown,
            _ => KnownFigure::Missing(NO_TIME.to_owned()),
        }
    }
}

const NO_TIME: &str = "no call was timed";

/// The range in which such a time of a row lies; `None`: unknown. Of a percentile, the report has
/// the middle of its bucket.
fn time_range(row: &Syscall, field: FigureField) -> Option<(u64, u64)> {
    let middle = match field {
        FigureField::Min => return Some((row.min_ns?, row.min_ns?)),
        FigureField::Max => return Some((row.max_ns?, row.max_ns?)),
        FigureField::P50 => row.p50_ns,
        FigureField::P90 => row.p90_ns,
        _ => row.p99_ns,
    }?;
    let (low, width) = bucket_range(bucket_of(middle));
    let high = (low + (width - 1)).min(row.max_ns.unwrap_or(u64::MAX));
    let low = low.max(row.min_ns.unwrap_or(0));
    Some((low.min(middle), high.max(middle)))
}

/// Why the rows do not tell exactly.
fn why_unknown(known: &KnownFigure, field: FigureField) -> Option<String> {
    let is_percentile = matches!(
        field,
        FigureField::P50 | FigureField::P90 | FigureField::P99
    );
    let why = match known {
        _ if known.is_exact() => return None,
        _ if field.is_of_sizes() => sizes::why_unknown(known),
        KnownFigure::Between(_, Some(_)) if is_percentile => {
            "percentiles are known to within 6.25 %"
        }
        KnownFigure::Between(_, Some(_)) => {
            "for several kinds of calls together, only this range is known"
        }
        _ => "these calls do not report it, or the backend does not know it",
    };
    Some(why.to_owned())
}

/// The rows that a figure sums up.
fn chosen_rows<'a>(figure: &FigureExpr, names: &CallSet, report: &'a Report) -> ChosenRows<'a> {
    let chosen = ChosenProcesses::of_figure(figure, report);
    let open = why_inexact(report)
        .or(names.may_be_uncounted(report))
        .or(chosen.open);
    if let Some(glob) = &figure.selectors.thread {
        let (rows, more) = threads::rows_in_threads(glob, names, &chosen.processes, report);
        let open = open.or(more);
        return ChosenRows { rows, open };
    }
    if figure.selectors.are_by_file() {
        return by_file(figure, names, report, &chosen.processes, open);
    }
    let rows = if chosen.are_by_name {
        let processes = chosen.processes.iter();
        let rows = processes.flat_map(|process| &process.syscalls);
        names.rows_among(rows).collect()
    } else {
        names.rows_among(&report.totals.syscalls).collect()
    };
    ChosenRows { rows, open }
}

/// The same for calls on certain files.
fn by_file<'a>(
    figure: &FigureExpr,
    names: &CallSet,
    report: &Report,
    processes: &[&'a Process],
    open: Option<String>,
) -> ChosenRows<'a> {
    let pattern = figure.selectors.file_pattern();
    let lacks_files = why_not_listed(report).is_some()
        || processes.iter().any(|process| process.file_calls.is_none());
    let why_lacking = "the report does not say which call used which file".to_owned();
    let mut open = open
        .or(why_without_files(report))
        .or(lacks_files.then_some(why_lacking));
    let details = processes
        .iter()
        .flat_map(|one| one.file_calls.iter().flatten());
    let knows_files = details.clone().any(has_files);
    let mut rows = Vec::new();
    for detail in details {
        let of_names = names.rows_among(&detail.syscalls);
        match pattern.matches_either(detail) {
            Match::Yes => rows.extend(of_names),
            Match::No => {}
            Match::Maybe => {
                let unsure =
                    of_names.filter(|row| has_files(detail) || may_use_file(row, knows_files));
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
    let calls = crate::text::plural(calls, "call", "calls");
    match pattern.path.as_ref().filter(|glob| glob.lacks_directory()) {
        Some(glob) => format!(
            "the report does not say where its relative paths start, so '{}' may be the file of {calls}",
            glob.text()
        ),
        None => format!("the files of {calls} are not known"),
    }
}

fn has_files(calls: &FileCalls) -> bool {
    calls.from.is_some() || calls.to.is_some()
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
        Fds::Maps(_) => false,
        _ => row.calls > row.errors,
    }
}
