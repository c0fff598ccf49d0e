//! Lists of things: programs, files, and the paths of failed calls.

use std::cmp::Reverse;

use super::{
    calls::program_name,
    page::Options,
    part::{DocumentPart, more, split},
    table::{ListColumn, STAYS, ShownTable},
    text::{self, known, plural},
    transfers::{end_kind, end_label},
};
use crate::{
    report::{Activity, Detail, FailedPath, FileTotals, Program, Report},
    units::{self, UNKNOWN, sum_all},
};

/// How many programs are shown without `--all`.
const MAX_PROGRAMS: usize = 6;
/// How many files, or paths, are shown without `--all`.
const MAX_FILES: usize = 20;
/// A longer name of a program is shortened.
const MAX_NAME: usize = 20;

const OF_PROGRAMS: [(&str, u8); 8] = [
    ("program", STAYS),
    ("execs", STAYS),
    ("calls", STAYS),
    ("errors", 5),
    ("in calls", 4),
    ("CPU", 3),
    ("% CPU", 2),
    ("CPU wait", 1),
];
const OF_FILES: [ListColumn<FileTotals>; 8] = [
    ("file", STAYS, label_with_flags),
    ("read", STAYS, bytes_read),
    ("written", STAYS, |file| {
        bytes_or_mapped(file.bytes_written, file.writable_maps)
    }),
    ("reads", 4, |file| {
        known(file.counted_reads(), |calls| calls.to_string())
    }),
    ("writes", 3, |file| {
        known(file.counted_writes(), |calls| calls.to_string())
    }),
    ("errors", 0, |file| file.errors.to_string()),
    ("time", 2, |file| known(file.total_ns, units::duration)),
    ("kind", 1, |file| text::escape(end_kind(&file.file))),
];
const OF_PATHS: [ListColumn<FailedPath>; 4] = [
    ("path", STAYS, path_of_failed),
    ("calls", STAYS, |failed| failed.calls.to_string()),
    ("error", STAYS, |failed| text::escape(&failed.errno)),
    ("call", STAYS, |failed| text::escape(&failed.syscall)),
];

/// The programs, if there are several processes: many processes as a few lines, the program with
/// the most CPU time first.
pub(super) fn programs(report: &Report, options: &Options) -> Option<DocumentPart> {
    let programs = &report.programs;
    let all_ns = sum_all(programs.iter().map(|program| program.usage.cpu_ns()));
    let (shown, hidden) = split(programs, MAX_PROGRAMS, options);
    let row = |program: &Program| {
        let name = text::shorten(&program_name(program), MAX_NAME).into_owned();
        let figures = figures(program, all_ns);
        let cells = [name, program.execs.to_string()].into_iter();
        cells.chain(figures).collect()
    };
    let totals = &report.totals;
    let processes = plural(totals.processes, "process", "processes");
    let is_shown = !programs.is_empty() && options.by != Some(Detail::Total);
    is_shown.then(|| {
        DocumentPart::listing(
            &format!("PROGRAMS, {} in {processes}", programs.len()),
            ShownTable::new(OF_PROGRAMS, shown.iter().map(row)),
            hidden_programs(hidden),
        )
    })
}

/// `and 3 more programs with 17 execs, 200 calls: --all shows them`; `None` if there are no more.
fn hidden_programs(hidden: &[Program]) -> Option<String> {
    let execs = hidden.iter().map(|program| program.execs).sum();
    let execs = plural(execs, "exec", "execs");
    let calls = plural(
        hidden.iter().map(|program| program.sums().calls).sum(),
        "call",
        "calls",
    );
    let figures = format!("{execs}, {calls}");
    more(hidden, ["program", "programs"], &figures)
}

/// Calls, errors, time in calls, CPU time, its share of `all_ns`, and the time of waits for a CPU. The calls without rows are
/// among them, if they were counted.
fn figures(of: &Activity, all_ns: Option<u64>) -> [String; 6] {
    let all = of.sums();
    let cpu_ns = of.usage.cpu_ns();
    let share = cpu_ns
        .zip(all_ns)
        .map(|(part, whole)| units::share(part, whole));
    [
        all.calls.to_string(),
        all.errors.to_string(),
        known(all.total_ns, units::duration),
        known(cpu_ns, units::duration),
        share.unwrap_or_else(|| UNKNOWN.to_owned()),
        known(of.usage.run_delay_ns, units::duration),
    ]
}

/// The calls and bytes of each file, with `--files`: those first that have the largest share of the
/// bytes, of the calls, or of the time in calls.
pub(super) fn files(report: &Report, options: &Options) -> Option<DocumentPart> {
    let mut files = report.files.clone();
    let figures = |file: &FileTotals| {
        let read = file.bytes_read.unwrap_or(0);
        let bytes = read.saturating_add(file.bytes_written.unwrap_or(0));
        let calls = file.reads + file.writes + file.other_calls + file.errors;
        [bytes, calls, file.total_ns.unwrap_or(0)].map(u128::from)
    };
    let all = files.iter().map(figures);
    let sums = all.fold([0; 3], |sums, more| {
        std::array::from_fn(|index| sums[index] + more[index])
    });
    let share = |file: &FileTotals| {
        let parts = figures(file).into_iter().zip(sums);
        let shares = parts.map(|(part, sum)| (part << 32).checked_div(sum).unwrap_or(0));
        shares.max()
    };
    files.sort_by_cached_key(|file| Reverse(share(file)));
    let (shown, hidden) = split(&files, MAX_FILES, options);
    (!shown.is_empty()).then(|| {
        DocumentPart::listing(
            &format!("FILES, {}", report.files.len()),
            ShownTable::of_list(&OF_FILES, shown),
            hidden_files(hidden),
        )
    })
}

/// `wal (O_DSYNC)`.
fn label_with_flags(file: &FileTotals) -> String {
    let label = end_label(&file.file);
    match file.file.open_flags.as_slice() {
        [] => label,
        flags => format!("{label} ({})", text::escape(&flags.join(", "))),
    }
}

/// The bytes that calls read. If they read a file twice or more: of how many.
fn bytes_read(file: &FileTotals) -> String {
    let read = bytes_or_mapped(file.bytes_read, file.maps);
    let is_constant = file.bytes_written == Some(0) && end_kind(&file.file) == "regular";
    let size = file.file.size.filter(|&size| is_constant && size > 0);
    let is_again = |size: &u64| file.bytes_read.is_some_and(|read| read / 2 >= *size);
    let size = size.filter(is_again).map(units::bytes);
    size.map_or_else(|| read.clone(), |size| format!("{read} of {size}"))
}

/// The bytes that calls moved; `mapped` if none did, but loads or stores may have.
fn bytes_or_mapped(bytes: Option<u64>, maps: u64) -> String {
    if bytes == Some(0) && maps > 0 {
        "mapped".to_owned()
    } else {
        known(bytes, units::bytes)
    }
}

/// `and 9980 more files with 39.0 MiB read, 0 B written: --all shows them`.
fn hidden_files(hidden: &[FileTotals]) -> Option<String> {
    let [read, written] = [
        sum_all(hidden.iter().map(|file| file.bytes_read)),
        sum_all(hidden.iter().map(|file| file.bytes_written)),
    ]
    .map(|sum| sum.map(units::bytes));
    let read = read.map(|bytes| format!("{bytes} read"));
    let written = written.map(|bytes| format!("{bytes} written"));
    let known: Vec<String> = read.into_iter().chain(written).collect();
    let figures = if known.is_empty() {
        let calls = hidden.iter().map(|file| file.other_calls + file.errors);
        plural(calls.sum(), "call", "calls")
    } else {
        known.join(", ")
    };
    more(hidden, ["file", "files"], &figures)
}

/// The failed calls by path, with `--files` or `--all`. With `--paths`, that list has them.
pub(super) fn failed_paths(report: &Report, options: &Options) -> Option<DocumentPart> {
    let failed = report.totals.failed_paths.as_deref().unwrap_or_default();
    if failed.is_empty() || report.touched.is_some() || (report.files.is_empty() && !options.all) {
        return None;
    }
    let (shown, hidden) = split(failed, MAX_FILES, options);
    let calls = hidden.iter().map(|failed| failed.calls).sum();
    Some(DocumentPart::listing(
        &format!("FAILED PATHS, {}", failed.len()),
        ShownTable::of_list(&OF_PATHS, shown),
        more(hidden, ["path", "paths"], &plural(calls, "call", "calls")),
    ))
}

fn path_of_failed(failed: &FailedPath) -> String {
    let paths = failed.path.iter().chain(&failed.second_path);
    let paths = text::paths(paths.map(String::as_str), failed.path_cut);
    known(failed.path.as_ref(), |_| paths)
}
