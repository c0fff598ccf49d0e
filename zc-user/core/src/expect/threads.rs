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
pub(super) fn rows<'a>(
    glob: &Glob,
    names: &CallSet,
    processes: &[&'a Process],
    report: &Report,
) -> (Vec<&'a Syscall>, Option<String>) {
    let are_undivided = !processes.iter().all(|process| is_divided(process));
    let nameless = threads(processes).filter(|thread| thread.comm.is_none());
    let nameless = nameless.filter(|thread| calls_of_thread(thread, names).next().is_some());
    let nameless = nameless.count() as u64;
    let why_nameless = || {
        let threads = plural(nameless, "thread", "threads");
        format!("the names of {threads} with such calls are not known")
    };
    let why_undivided = "the report does not tell threads apart: --by thread does".to_owned();
    let rows = threads_named(glob, processes).flat_map(|thread| calls_of_thread(thread, names));
    let open = why_not_listed(report)
        .or_else(|| are_undivided.then_some(why_undivided))
        .or_else(|| (nameless > 0).then(why_nameless));
    (rows.collect(), open)
}

/// A line for each of these rows, those with the most calls first.
pub(super) fn facts_of_threads(
    glob: &Glob,
    names: &CallSet,
    processes: &[&Process],
) -> Vec<String> {
    let lines = threads_named(glob, processes).flat_map(|thread| {
        let name = thread.comm.as_deref().unwrap_or_default();
        calls_of_thread(thread, names).map(move |row| {
            let line = format!("{name} ({}): {}", thread.tid, facts::line(row, ""));
            (row.calls, line)
        })
    });
    largest_lines(lines.collect())
}

fn threads<'a>(processes: &[&'a Process]) -> impl Iterator<Item = &'a Thread> {
    processes.iter().flat_map(|process| &process.by_thread)
}

fn threads_named<'a>(glob: &Glob, processes: &[&'a Process]) -> impl Iterator<Item = &'a Thread> {
    threads(processes).filter(|thread| {
        let name = thread.comm.as_deref();
        name.is_some_and(|name| glob.matches(name))
    })
}

fn calls_of_thread<'a>(thread: &'a Thread, names: &CallSet) -> impl Iterator<Item = &'a Syscall> {
    let rows = thread.syscalls.iter();
    rows.filter(|row| names.contains(&row.name))
}

fn is_divided(process: &Process) -> bool {
    process.by_thread.len() as u64 == process.threads
}

/// The known names of all threads. `None`: the report does not tell threads apart.
pub(super) fn names(report: &Report) -> Option<Vec<&str>> {
    let is_known = why_not_listed(report).is_none() && report.processes.iter().all(is_divided);
    let threads = report.processes.iter().flat_map(|one| &one.by_thread);
    let names = threads.filter_map(|thread| thread.comm.as_deref());
    is_known.then(|| names.collect())
}
