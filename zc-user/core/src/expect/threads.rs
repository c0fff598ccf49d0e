//! Calls of threads with a name.

use super::{
    facts::{self, largest_lines, why_not_listed},
    names::CallSet,
    pattern::Glob,
};
use crate::{
    report::{Process, Report, Syscall, Thread},
    text::plural,
};

/// The rows of these calls in threads of that name, in these processes, and why there may be more.
pub(super) fn rows_in_threads<'a>(
    glob: &Glob,
    names: &CallSet,
    processes: &[&'a Process],
    report: &Report,
) -> (Vec<&'a Syscall>, Option<String>) {
    let are_undivided = !processes.iter().all(|process| is_divided(process));
    let (mut rows, mut nameless) = (Vec::new(), 0);
    for thread in listed_threads(processes) {
        let mut of_thread = names.rows_among(&thread.syscalls);
        match &thread.comm {
            Some(name) if glob.matches(name) => rows.extend(of_thread),
            Some(_) => {}
            None => nameless += u64::from(of_thread.next().is_some()),
        }
    }
    let nameless_threads = plural(nameless, "thread", "threads");
    let why_nameless = format!("the names of {nameless_threads} with such calls are not known");
    let why_undivided = "the report does not tell threads apart: --by thread does".to_owned();
    let open = why_not_listed(report)
        .or(are_undivided.then_some(why_undivided))
        .or((nameless > 0).then_some(why_nameless));
    (rows, open)
}

/// A line for each of these rows, those with the most calls first.
pub(super) fn facts_of_threads(
    glob: &Glob,
    names: &CallSet,
    processes: &[&Process],
) -> Vec<String> {
    let mut lines = Vec::new();
    for thread in listed_threads(processes) {
        let Some(name) = thread.comm.as_deref().filter(|name| glob.matches(name)) else {
            continue;
        };
        for row in names.rows_among(&thread.syscalls) {
            let line = format!("{name} ({}): {}", thread.tid, facts::call_line(row, ""));
            lines.push((row.calls, line));
        }
    }
    largest_lines(lines)
}

fn listed_threads<'a>(processes: &[&'a Process]) -> impl Iterator<Item = &'a Thread> {
    processes.iter().flat_map(|process| &process.by_thread)
}

fn is_divided(process: &Process) -> bool {
    process.by_thread.len() as u64 == process.threads
}

/// The known names of all threads. `None`: the report does not tell threads apart.
pub(super) fn thread_names(report: &Report) -> Option<Vec<&str>> {
    let is_known = why_not_listed(report).is_none() && report.processes.iter().all(is_divided);
    let threads = report.processes.iter().flat_map(|one| &one.by_thread);
    let names = threads.filter_map(|thread| thread.comm.as_deref());
    is_known.then(|| names.collect())
}
