//! Lists of things: programs, files, and the paths of failed calls.

use super::{
    calls::program_name,
    page::Options,
    part::{DocumentPart, more, split, sum_of_calls},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
    transfers::{end_kind, end_label},
};
use crate::{
    report::{FailedPath, FileTotals, OtherCalls, Program, Report, Syscall, Usage},
    units::{self, UNKNOWN, sum_all},
};

/// How many programs are shown without `--all`.
const MOST_PROGRAMS: usize = 6;
/// How many files, or paths, are shown without `--all`.
const MOST_FILES: usize = 20;
/// A longer name of a program is shortened.
const LONGEST_NAME: usize = 20;

const OF_PROGRAMS: [(&str, u8); 7] = [
    ("program", STAYS),
    ("processes", STAYS),
    ("calls", STAYS),
    ("errors", 4),
    ("in calls", 3),
    ("CPU", 2),
    ("% CPU", 1),
];
const OF_FILES: [(&str, u8); 7] = [
    ("file", STAYS),
    ("read", STAYS),
    ("written", STAYS),
    ("reads", 4),
    ("writes", 3),
    ("time", 2),
    ("kind", 1),
];
const OF_PATHS: [(&str, u8); 4] = [
    ("path", STAYS),
    ("calls", STAYS),
    ("error", STAYS),
    ("call", STAYS),
];

/// The programs, if there are several processes: many processes as a few lines, the program with
/// the most CPU time first.
pub(super) fn programs(report: &Report, options: &Options) -> Option<DocumentPart> {
    let programs = &report.programs;
    let all_ns = sum_all(programs.iter().map(|program| program.usage.cpu_ns()));
    let (shown, hidden) = split(programs, MOST_PROGRAMS, options);
    let row = |program: &Program| {
        let name = text::shorten(&program_name(program), LONGEST_NAME).into_owned();
        let others = program.other_calls;
        let figures = figures(&program.syscalls, others, &program.usage, all_ns);
        let cells = [name, program.processes.to_string()].into_iter();
        cells.chain(figures).collect()
    };
    let processes = plural(report.totals.processes, "process", "processes");
    (!programs.is_empty()).then(|| {
        DocumentPart::listing(
            &format!("PROGRAMS, {} in {processes}", programs.len()),
            ShownTable::new(OF_PROGRAMS, shown.iter().map(row)),
            hidden_programs(hidden),
        )
    })
}

/// `and 3 more programs with 17 processes, 200 calls: --all shows them`; `None` if there are no more.
fn hidden_programs(hidden: &[Program]) -> Option<String> {
    let processes = hidden.iter().map(|program| program.processes).sum();
    let calls = |program: &Program| {
        let others = program.other_calls.map_or(0, |others| others.calls);
        sum_of_calls(&program.syscalls) + others
    };
    let processes = plural(processes, "process", "processes");
    let calls = plural(hidden.iter().map(calls).sum(), "call", "calls");
    let figures = format!("{processes}, {calls}");
    more(hidden, ["program", "programs"], &figures)
}

/// Calls, errors, time in calls, CPU time and its share of `all_ns`. The calls without rows are
/// among them, if they were counted.
fn figures(
    syscalls: &[Syscall],
    others: Option<OtherCalls>,
    usage: &Usage,
    all_ns: Option<u64>,
) -> [String; 5] {
    let with_rows = syscalls
        .iter()
        .map(|call| (call.calls, call.errors, call.total_ns));
    let others = others.map(|others| (others.calls, others.errors, others.total_ns));
    let all = || with_rows.clone().chain(others);
    let calls: u64 = all().map(|(calls, ..)| calls).sum();
    let errors: u64 = all().map(|(_, errors, _)| errors).sum();
    let returned = all().filter(|(calls, ..)| *calls > 0);
    let in_calls = sum_all(returned.map(|(.., total_ns)| total_ns));
    let cpu_ns = usage.cpu_ns();
    let share = cpu_ns
        .zip(all_ns)
        .map(|(part, whole)| units::share(part, whole));
    [
        calls.to_string(),
        errors.to_string(),
        known(in_calls, units::duration),
        known(cpu_ns, units::duration),
        share.unwrap_or_else(|| UNKNOWN.to_owned()),
    ]
}

/// The calls and bytes of each file, with `--files`.
pub(super) fn files(report: &Report, options: &Options) -> Option<DocumentPart> {
    let (shown, hidden) = split(&report.files, MOST_FILES, options);
    let row = |file: &FileTotals| {
        vec![
            end_label(&file.file),
            bytes_or_mapped(file.bytes_read, file.maps),
            bytes_or_mapped(file.bytes_written, file.writable_maps),
            file.reads.to_string(),
            file.writes.to_string(),
            known(file.total_ns, units::duration),
            text::escape(end_kind(&file.file)),
        ]
    };
    (!shown.is_empty()).then(|| {
        DocumentPart::listing(
            &format!("FILES, {}", report.files.len()),
            ShownTable::new(OF_FILES, shown.iter().map(row)),
            hidden_files(hidden),
        )
    })
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
    .map(|sum| known(sum, units::bytes));
    let figures = format!("{read} read, {written} written");
    more(hidden, ["file", "files"], &figures)
}

/// The failed calls by path, with `--files` or `--all`.
pub(super) fn failed_paths(report: &Report, options: &Options) -> Option<DocumentPart> {
    let failed = report.totals.failed_paths.as_deref().unwrap_or_default();
    if failed.is_empty() || (report.files.is_empty() && !options.all) {
        return None;
    }
    let (shown, hidden) = split(failed, MOST_FILES, options);
    let calls = hidden.iter().map(|failed| failed.calls).sum();
    Some(DocumentPart::listing(
        &format!("FAILED PATHS, {}", failed.len()),
        ShownTable::new(OF_PATHS, shown.iter().map(row_of_failed)),
        more(hidden, ["path", "paths"], &plural(calls, "call", "calls")),
    ))
}

fn row_of_failed(failed: &FailedPath) -> Vec<String> {
    let paths = failed.path.iter().chain(&failed.second_path);
    let paths = text::paths(paths.map(String::as_str), failed.path_cut);
    vec![
        known(failed.path.as_ref(), |_| paths),
        failed.calls.to_string(),
        text::escape(&failed.errno),
        text::escape(&failed.syscall),
    ]
}
