//! The rows of a report that a figure is of.

use std::collections::BTreeSet;

use super::{Processes, processes, why_inexact};
use crate::{
    expect::{
        ast::{Figure, Subject},
        by_file::{may_name_file_otherwise, names_descriptor},
        pattern::{EndPattern, Match},
    },
    report::{Counted, FileCalls, Process, Report, Syscall},
    syscall::{self, Fds, Spec},
};

/// Rows, and why there may be more.
pub(super) struct Chosen<'a> {
    pub(super) rows: Vec<&'a Syscall>,
    pub(super) open: Option<String>,
}

/// What there is to sum up.
pub(super) enum Rows<'a> {
    Chosen(Chosen<'a>),
    /// Nothing is known of the processes that were chosen.
    Unknown(String),
    /// Nothing: the processes that were chosen do not exist.
    Missing(String),
}

/// Whose calls a figure sums up.
pub(super) struct Names<'a> {
    /// `None`: those of all calls.
    wanted: Option<BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(subject: &'a Subject) -> Self {
        let wanted = match subject {
            Subject::Call(name) => Some(BTreeSet::from([name.as_str()])),
            Subject::Class(class) => Some(syscall::calls_of_class(class).unwrap_or_default().into_iter().collect()),
            _ => None,
        };
        Self { wanted }
    }

    /// Whether a row of this name is one of them.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.wanted
            .as_ref()
            .is_none_or(|wanted| wanted.contains(name) || (name.starts_with("ioctl(") && wanted.contains("ioctl")))
    }

    /// Those that were not counted.
    pub(super) fn uncounted(&self, counted: &Counted) -> Vec<String> {
        self.wanted.iter().flatten().filter(|name| !counted.contains(name)).map(|&name| name.to_owned()).collect()
    }

    /// Why a report that does not say what it counted may lack some of them.
    fn may_be_uncounted(&self, report: &Report) -> Option<String> {
        let has_row = |name: &str| report.totals.syscalls.iter().any(|row| row.name == name);
        let lacks =
            report.counted.is_none() && self.wanted.as_ref().is_none_or(|wanted| !wanted.iter().all(|name| has_row(name)));
        lacks.then(|| "the report does not say which calls were counted".to_owned())
    }
}

/// The rows that a figure is of.
pub(super) fn rows<'a>(figure: &Figure, names: &Names<'_>, report: &'a Report) -> Rows<'a> {
    let open = why_inexact(report).or_else(|| names.may_be_uncounted(report));
    let (processes, open) = match processes(figure, report) {
        Processes::None(why) => return Rows::Missing(why),
        Processes::Unknown(why) => return Rows::Unknown(why),
        Processes::Chosen(chosen, why) => (Some(chosen), open.or(why)),
        Processes::All => (None, open),
    };
    if figure.selectors.are_by_file() {
        let processes = processes.unwrap_or_else(|| report.processes.iter().collect());
        return Rows::Chosen(by_file(figure, names, report, &processes, open));
    }
    let all: Vec<&Syscall> = match &processes {
        None => report.totals.syscalls.iter().collect(),
        Some(processes) => processes.iter().flat_map(|process| &process.syscalls).collect(),
    };
    Rows::Chosen(Chosen { rows: all.into_iter().filter(|row| names.contains(&row.name)).collect(), open })
}

/// The same of calls on certain files.
fn by_file<'a>(
    figure: &Figure,
    names: &Names<'_>,
    report: &Report,
    processes: &[&'a Process],
    mut open: Option<String>,
) -> Chosen<'a> {
    let pattern = EndPattern { kind: figure.selectors.kind, path: figure.selectors.file.clone() };
    if report.calls_without_files > 0 {
        open.get_or_insert_with(|| format!("the files of {} calls were not kept", report.calls_without_files));
    }
    if processes.iter().any(|process| process.file_calls.is_none()) || report.processes.is_empty() {
        open.get_or_insert_with(|| "the report does not say which call used which file".to_owned());
    }
    let details = || processes.iter().filter_map(|process| process.file_calls.as_ref()).flatten();
    let knows_files = details().any(|detail| detail.from.is_some() || detail.to.is_some());
    let mut rows = Vec::new();
    for detail in details() {
        let of_names = detail.syscalls.iter().filter(|row| names.contains(&row.name));
        match pattern.matches_either(detail) {
            Match::Yes => rows.extend(of_names),
            Match::No => {}
            Match::Maybe => {
                let unsure = of_names.filter(|row| detail.has_files() || may_use_file(row, knows_files));
                let calls: u64 = unsure.map(|row| row.calls).sum();
                if calls > 0 {
                    open.get_or_insert_with(|| why_unsure(&pattern, calls));
                }
            }
        }
    }
    Chosen { rows, open }
}

/// Why it is not known whether calls used a file that is meant.
fn why_unsure(pattern: &EndPattern, calls: u64) -> String {
    match pattern.path.as_ref().filter(|glob| glob.lacks_directory()) {
        Some(glob) => format!(
            "the report does not say where its relative paths begin, so '{}' may be the file of {calls} calls",
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

/// Whether calls of which no file is known may have used one: not if their descriptor was bad, or if they need none.
fn may_use_file(row: &Syscall, knows_files: bool) -> bool {
    if !names_descriptor(&row.name) {
        return may_name_file_otherwise(&row.name);
    }
    match Spec::of(&row.name).fds {
        _ if !knows_files => true,
        // Memory without a file behind it.
        Fds::On(_) if row.name.starts_with("mmap") => false,
        _ => row.calls > row.errors,
    }
}
