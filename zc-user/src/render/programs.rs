//! The list of programs.

use super::{
    calls::program_name,
    page::Options,
    part::{DocumentPart, more, split},
    table::{STAYS, ShownTable},
    text::{self, known, plural},
};
use crate::{
    report::{Activity, Detail, Program, Report},
    units::{self, UNKNOWN, sum_all},
};

/// How many programs are shown without `--all`.
const MAX_PROGRAMS: usize = 6;
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

/// The programs, if there are several: many processes as a few lines, the program with
/// the most CPU time first.
pub(super) fn part(report: &Report, options: &Options) -> Option<DocumentPart> {
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
    let is_shown = programs.len() > 1 && options.by != Some(Detail::Total);
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
        hidden.iter().map(|program| program.sum_calls().calls).sum(),
        "call",
        "calls",
    );
    let figures = format!("{execs}, {calls}");
    more(hidden, ["program", "programs"], &figures)
}

/// Calls, errors, time in calls, CPU time, its share of `all_ns`, and the time of waits for a CPU. The calls without rows are
/// among them, if they were counted.
fn figures(of: &Activity, all_ns: Option<u64>) -> [String; 6] {
    let all = of.sum_calls();
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
