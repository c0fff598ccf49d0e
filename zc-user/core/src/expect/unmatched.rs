//! Selectors that match nothing: an expectation such as `read[file="in.dta"].calls == 0` would hold
//! only because of a typing error.

use std::collections::BTreeSet;

use super::{
    ast::{FigureExpr, FigureSubject, Selectors},
    by_caller::stacks_of,
    facts::why_not_listed,
    function::{FunctionPattern, name_spellings},
    known::Premises,
    paths::match_path,
    pattern::{EndPattern, Glob, Match},
    threads,
};
use crate::{
    report::{End, FailedPath, Report},
    words::nearest_name,
};

/// Why selectors that match nothing decide nothing.
pub(super) const REASON: &str =
    "a name that nothing matches may be a typing error; may_match_nothing accepts it";

/// The selectors of a figure that nothing matches, each as a sentence with the nearest name.
pub(super) fn unmatched_selectors(
    figure: &FigureExpr,
    report: &Report,
    premises: &Premises,
) -> Vec<String> {
    let Selectors {
        process,
        thread,
        caller,
        ..
    } = &figure.selectors;
    let mut unmatched = Vec::new();
    if let Some(glob) = process {
        unmatched.extend(no_process(glob, report));
    }
    if let Some(glob) = thread {
        unmatched.extend(no_thread(glob, report));
    }
    for glob in figure.globs_of_files() {
        match figure.subject {
            // Nothing left open is what is hoped for.
            FigureSubject::Descriptors => {}
            FigureSubject::Durable(..) => unmatched.extend(no_changed_file(glob, report)),
            _ => unmatched.extend(no_file(glob, report, premises)),
        }
    }
    if let Some(pattern) = caller {
        unmatched.extend(no_function(pattern, report));
    }
    unmatched
}

/// Nothing is proven of files that nobody changed.
fn no_changed_file(glob: &Glob, report: &Report) -> Option<String> {
    let mut changed: Vec<&str> = Vec::new();
    for file in &report.syncs.as_ref()?.files {
        if glob.may_match_path(&file.path) && file.changed {
            return None;
        } else if file.changed {
            changed.push(glob.compared_part(&file.path));
        }
    }
    Some(nothing_matched(
        glob.text(),
        "file that was changed",
        changed,
    ))
}

fn no_process(glob: &Glob, report: &Report) -> Option<String> {
    let mut compared = Vec::new();
    for process in &report.processes {
        for name in [&process.comm, &process.exe].into_iter().flatten() {
            if glob.matches(name) {
                return None;
            }
            compared.push(glob.compared_part(name));
        }
    }
    let is_listed = why_not_listed(report).is_none();
    is_listed.then(|| nothing_matched(glob.text(), "process", compared))
}

fn no_thread(glob: &Glob, report: &Report) -> Option<String> {
    let names = threads::thread_names(report)?;
    let is_matched = names.iter().any(|name| glob.matches(name));
    (!is_matched).then(|| nothing_matched(glob.text(), "thread", names))
}

/// Files are those of the run, with the paths that it tried, and those that were there before it.
fn no_file(glob: &Glob, report: &Report, premises: &Premises) -> Option<String> {
    let pattern = EndPattern {
        kind: None,
        path: Some(glob.clone()),
    };
    let mut names = Vec::new();
    for end in named_ends(report) {
        if pattern.matches_end(end) != Match::No {
            return None;
        }
        names.extend(end.all_names());
    }
    for one in given_paths(report) {
        if match_path(glob, one) != Match::No {
            return None;
        }
        names.extend(one.path.as_deref());
    }
    let synced = report.syncs.iter().flat_map(|syncs| &syncs.files);
    for path in synced.map(|file| &file.path).chain(&premises.files) {
        if glob.may_match_path(path) {
            return None;
        }
        names.push(path);
    }
    let names = names.into_iter().map(|name| glob.compared_part(name));
    Some(nothing_matched(glob.text(), "file", names))
}

fn no_function(pattern: &FunctionPattern, report: &Report) -> Option<String> {
    let mut spelled = Vec::new();
    for frame in stacks_of(report)
        .ok()?
        .iter()
        .flat_map(|stack| &stack.frames)
    {
        if pattern.may_match(frame) {
            return None;
        }
        spelled.extend(frame.function.as_deref().map(name_spellings));
    }
    let names = spelled.iter().flatten();
    let names = names.map(|name| pattern.compared_part(name));
    let what = "function of a sampled stack";
    Some(nothing_matched(pattern.text(), what, names))
}

fn nothing_matched<'a>(
    pattern: &str,
    what: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    /// How many names are listed if none is near.
    const MAX_LISTED: usize = 5;
    let names: BTreeSet<&str> = names.into_iter().collect();
    let near = nearest_name(pattern, names.iter().copied());
    let others = match near {
        Some(name) => format!("; the nearest is \"{name}\""),
        None if (1..=MAX_LISTED).contains(&names.len()) => {
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("; there is {}", names.join(", "))
        }
        None => String::new(),
    };
    format!("\"{pattern}\" matches no {what}{others}")
}

/// The known paths that calls were given.
fn given_paths(report: &Report) -> impl Iterator<Item = &FailedPath> {
    let totals = &report.totals;
    let failed = totals.failed_paths.iter().flatten();
    let succeeded = totals.succeeded_paths.iter().flatten();
    failed.chain(succeeded).filter(|one| one.path.is_some())
}

/// Every file that the report names.
fn named_ends(report: &Report) -> impl Iterator<Item = &End> {
    let mut files: Vec<&Option<End>> = Vec::new();
    for process in &report.processes {
        for calls in process.file_calls.iter().flatten() {
            files.extend([&calls.from, &calls.to]);
        }
        files.extend(process.sources.iter().map(|one| &one.file));
        files.extend(process.destinations.iter().map(|one| &one.file));
    }
    let transfers = report.transfers.iter();
    let moved = transfers.flat_map(|transfer| [&transfer.from, &transfer.to]);
    let listed = report.files.iter().map(|totals| &totals.file);
    files.into_iter().flatten().chain(moved).chain(listed)
}
