//! The report of the calls on chosen paths alone, as `strace -P` has them.
//!
//! A call is on a path if it uses a file that has this path, or was given the path. Which process
//! gave a path to a call is not recorded, so the figures are sums over all processes.

use std::{collections::BTreeMap, path::Path};

use super::{Detail, End, Files, Options, Report, model::UNMATCHED_PATH};
use crate::{
    syscalls::{Call, CallEffect, Fds, Selection},
    text::relative_to,
    trace::{Ends, FailedPath, FailedPaths, File, GivenPath, Input, Loss, Row, Trace},
    transfer,
    words::nearest_name,
};

/// Paths whose calls are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChosenPaths(Vec<ChosenPath>);

/// A path whose calls are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenPath {
    /// As it was given.
    pub given: String,
    /// What else it is called: absolute, and without symbolic links.
    pub resolved: Vec<String>,
}

impl FromIterator<ChosenPath> for ChosenPaths {
    fn from_iter<T: IntoIterator<Item = ChosenPath>>(paths: T) -> Self {
        Self(paths.into_iter().collect())
    }
}

impl ChosenPaths {
    fn all_names(&self) -> impl Iterator<Item = &Path> {
        let paths = self.0.iter();
        let names = paths.flat_map(|path| std::iter::once(&path.given).chain(&path.resolved));
        names.map(Path::new)
    }

    /// The paths that nothing in a trace has, each as a sentence with the nearest one.
    fn unmatched_paths(&self, trace: &Trace) -> Vec<String> {
        let failed = trace.failed_paths.iter();
        let calls = failed.flat_map(|paths| paths.calls.keys());
        let given: Vec<&GivenPath> = calls.flat_map(|call| call.paths.iter().flatten()).collect();
        let directory = trace.directory.as_deref();
        let files = trace.files.iter().filter_map(|file| file.path.as_deref());
        let known = files.chain(given.iter().map(|given| given.text.as_str()));
        let known: Vec<&str> = known
            .map(|path| relative_to(directory.unwrap_or_default(), path))
            .collect();
        let mut unmatched = Vec::new();
        for path in &self.0 {
            let one = Self(vec![path.clone()]);
            let mut others = given.iter();
            if trace.files.iter().any(|file| one.has_file(file))
                || others.any(|given| one.has_given(given, directory.map(Path::new)) != Some(false))
            {
                continue;
            }
            let near = match nearest_name(&path.given, known.iter().copied()) {
                Some(near) => format!("; the nearest path is {near}"),
                None => String::new(),
            };
            let given = &path.given;
            unmatched.push(format!("{UNMATCHED_PATH} {given}{near}"));
        }
        unmatched
    }

    /// Whether this is one of them.
    fn contains(&self, path: &Path) -> bool {
        self.all_names().any(|name| name == path)
    }

    fn has_file(&self, file: &File) -> bool {
        let path = file.path.as_deref();
        path.is_some_and(|path| self.contains(Path::new(path)))
    }

    fn has_end(&self, end: &End, directory: &Path) -> bool {
        let path = end.path.as_deref();
        path.is_some_and(|path| self.contains(&directory.join(path)))
    }

    /// Whether a call that got this path was on one of them. A relative one starts in `directory`, if
    /// that is known. `None`: it may be, because only its beginning is known, or not where it starts.
    fn has_given(&self, given: &GivenPath, directory: Option<&Path>) -> Option<bool> {
        let path = Path::new(&given.text);
        let directory = directory.filter(|_| !given.is_below_descriptor);
        let whole = directory.map(|directory| directory.join(path));
        let whole = whole.or_else(|| path.is_absolute().then(|| path.to_owned()));
        let may_be = |name: &Path| match &whole {
            Some(whole) if given.is_cut => {
                let [name, whole] = [name, whole].map(Path::to_string_lossy);
                name.starts_with(&*whole)
            }
            Some(_) => false,
            None if given.is_cut => true,
            // `.` and `..` have no last name.
            None => path.file_name().is_some() && path.file_name() == name.file_name(),
        };
        let is_one = |path: &Path| !given.is_cut && self.contains(path);
        // As strace does, which compares what was given.
        if (!given.is_below_descriptor && is_one(path)) || whole.as_deref().is_some_and(is_one) {
            return Some(true);
        }
        (!self.all_names().any(may_be)).then_some(false)
    }

    /// The trace without the calls that are not on these paths. The calls that were given one of them
    /// are in rows of the first thread.
    fn keep_calls(&self, trace: &mut Trace) {
        // It is not known on which paths they were.
        trace.sizes = None;
        let is_chosen: Vec<bool> = trace.files.iter().map(|file| self.has_file(file)).collect();
        let mut without_file = 0;
        for process in trace.all_processes_mut() {
            for thread in &mut process.threads {
                let unknown = thread.all_rows().filter(|row| lacks_file(row));
                without_file += unknown.map(|row| row.calls - row.errors).sum::<u64>();
                thread.rows.retain(|row| is_on_file(row, &is_chosen));
                thread.ring_rows.retain(|row| is_on_file(row, &is_chosen));
            }
        }
        trace.other_calls = None;
        let mut left_out = without_file.max(trace.calls_without_files());
        let mut paths = trace.failed_paths.take().unwrap_or_default();
        let directory = trace.directory.as_deref().map(Path::new);
        let directory = directory.filter(|_| !paths.directory_may_change);
        let counted = trace.counted.as_ref();
        left_out += paths.left_out + self.keep_paths(&mut paths, directory, counted);
        let rows = rows_of_paths(&paths, counted);
        let mut processes = trace.all_processes_mut();
        let first = processes.find_map(|one| one.threads.first_mut());
        if let Some(first) = first {
            first.rows.extend(rows);
        }
        drop(processes);
        trace.failed_paths = Some(paths);
        if left_out > 0 {
            *trace.losses.entry(Loss::UnknownPaths).or_default() += left_out;
        }
    }

    /// Removes the calls that were given other paths. Returns of how many counted ones that is not
    /// known.
    fn keep_paths(
        &self,
        paths: &mut FailedPaths,
        directory: Option<&Path>,
        counted: Option<&Selection>,
    ) -> u64 {
        let mut unknown = 0;
        paths.calls.retain(|call, sums| {
            // The path of an exec that succeeded is gone with the memory of its caller.
            if call.errno == 0 && call.call.spec().effect == CallEffect::Executes {
                return false;
            }
            let given = call.paths.iter().flatten();
            let found: Vec<_> = given.map(|path| self.has_given(path, directory)).collect();
            let is_chosen = found.contains(&Some(true));
            let is_unread = found.is_empty() && call.call.spec().path.is_some();
            let is_counted = counted.is_none_or(|counted| counted.contains(&call.call.name));
            if is_counted && !is_chosen && (is_unread || found.contains(&None)) {
                unknown += sums.calls;
            }
            is_chosen
        });
        unknown
    }
}

/// Whether the calls of a row name one of the chosen files, and no path.
fn is_on_file(row: &Row, is_chosen: &[bool]) -> bool {
    let input = match row.ends.input {
        Some(Input::Named(file)) => Some(file),
        _ => None,
    };
    let mut files = input.into_iter().chain(row.ends.output);
    row.call.spec().path.is_none()
        && files.any(|file| is_chosen.get(file.0 as usize) == Some(&true))
}

/// Whether the calls of a row had a descriptor, but it is not known of which file. A mapping may have
/// none.
fn lacks_file(row: &Row) -> bool {
    let has_descriptor = !matches!(row.call.spec().fds, Fds::None | Fds::Maps(_));
    has_descriptor && row.calls > row.errors && row.files().next().is_none()
}

/// The counted calls that were given a path, as rows. Their bytes and times by path are not known.
fn rows_of_paths(paths: &FailedPaths, counted: Option<&Selection>) -> Vec<Row> {
    let mut rows: BTreeMap<&Call, Row> = BTreeMap::new();
    for (FailedPath { call, errno, .. }, sums) in &paths.calls {
        if counted.is_some_and(|counted| !counted.contains(&call.name)) {
            continue;
        }
        let row = rows.entry(call);
        let row = row.or_insert_with(|| Row::unmeasured(call.clone(), Ends::default()));
        row.calls += sums.calls;
        if *errno > 0 {
            row.errors += sums.calls;
            *row.errnos.entry(*errno).or_default() += sums.calls;
        }
    }
    rows.into_values().collect()
}

impl Report {
    /// Derives the report of the calls on these paths, and of the transfers from them or to them, as
    /// sums over all processes.
    pub fn on_paths(trace: &Trace, options: &Options, paths: &ChosenPaths) -> Self {
        let options = Options {
            detail: Detail::Total,
            file_calls: Files::Omitted,
            ..*options
        };
        // Which bytes were copied shows in calls on all files.
        let analysis = transfer::analyse_trace(trace);
        let mut kept = trace.clone();
        paths.keep_calls(&mut kept);
        let mut report = Self::from_analysis(&kept, analysis, options);
        report.paths = paths.0.iter().map(|path| path.given.clone()).collect();
        report.notes.extend(paths.unmatched_paths(trace));
        report.merged = None;
        report.keep_transfers(paths);
        report
    }

    /// Removes the transfers between other paths.
    fn keep_transfers(&mut self, paths: &ChosenPaths) {
        let directory = self.directory.clone().unwrap_or_default();
        let is_kept = |end: &End| paths.has_end(end, Path::new(&directory));
        let mut places = BTreeMap::new();
        let all = std::mem::take(&mut self.transfers).into_iter().enumerate();
        for (place, transfer) in all {
            if is_kept(&transfer.from) || is_kept(&transfer.to) {
                places.insert(place, self.transfers.len());
                self.transfers.push(transfer);
            }
        }
        for transfer in &mut self.transfers {
            let ways = transfer.part_of.iter();
            transfer.part_of = ways.filter_map(|way| places.get(way).copied()).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        golden::{GoldenCase, check_golden},
        report::sample::files::Scene,
    };

    #[test]
    fn what_concerns_paths_is_kept_as_the_golden_file_says() {
        check_golden("report/tests/on_paths.txt", GoldenCase::Lines, |case| {
            let (given, scene) = case.split_once('\n').expect("begins with paths");
            let path = |given: &str| ChosenPath {
                given: given.to_owned(),
                resolved: vec![format!("/work/{given}")],
            };
            let paths = given.split(' ').skip(1).map(path).collect();
            let report = Report::on_paths(&Scene::read(scene).trace, &Options::default(), &paths);
            let mut lines = Vec::new();
            for call in &report.totals.syscalls {
                let (name, calls, errors) = (&call.name, call.calls, call.errors);
                lines.push(format!("{name} {calls}, {errors} failed"));
            }
            lines.sort_unstable();
            for one in &report.transfers {
                lines.push(format!("to {}", one.to.name().unwrap_or("?")));
            }
            let bound = report.bound();
            let said = report.notes.into_iter();
            lines.extend(said.filter(|note| note.starts_with("nothing in")));
            lines.push(format!("{bound}, losses {:?}", report.losses));
            lines.join("\n")
        });
    }
}
