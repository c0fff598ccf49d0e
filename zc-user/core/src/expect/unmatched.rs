//! Selectors that match nothing: an expectation such as `read[file="in.dta"].calls == 0` would hold
//! only because of a typing error.

use std::collections::BTreeSet;

use super::{
    ast::{FigureExpr, FigureSubject, Selectors},
    by_caller::stacks_of,
    facts::why_not_listed,
    function::{FunctionPattern, spellings},
    known::Premises,
    paths::matches,
    pattern::{EndPattern, Glob, Match},
    threads,
};
use crate::{
    report::{End, FailedPath, Report},
    words::nearest,
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
    let processes = process.iter().filter_map(|glob| no_process(glob, report));
    let threads = thread.iter().filter_map(|glob| no_thread(glob, report));
    let files = figure
        .globs_of_files()
        .filter_map(|glob| match figure.subject {
            // Nothing left open is what is hoped for.
            FigureSubject::Descriptors => None,
            FigureSubject::Durable(..) => no_changed_file(glob, report),
            _ => no_file(glob, report, premises),
        });
    let functions = caller.iter().filter_map(|one| no_function(one, report));
    processes
        .chain(threads)
        .chain(files)
        .chain(functions)
        .collect()
}

/// Nothing is proven of files that nobody changed.
fn no_changed_file(glob: &Glob, report: &Report) -> Option<String> {
    let files = report.syncs.as_ref()?.files.iter();
    let changed: Vec<&str> = files
        .filter(|file| file.changed)
        .map(|file| file.path.as_str())
        .collect();
    let is_matched = changed
        .iter()
        .any(|path| glob.matches_path(path) != Match::No);
    (!is_matched).then(|| {
        let names = changed.iter().map(|path| glob.compared_part(path));
        nothing_matched(glob.text(), "file that was changed", names)
    })
}

fn no_process(glob: &Glob, report: &Report) -> Option<String> {
    let names = report.processes.iter();
    let names: BTreeSet<&str> = names
        .flat_map(|process| [&process.comm, &process.exe])
        .flatten()
        .map(String::as_str)
        .collect();
    let is_listed = why_not_listed(report).is_none();
    (is_listed && !names.iter().any(|name| glob.matches(name))).then(|| {
        let compared = names.iter().map(|name| glob.compared_part(name));
        nothing_matched(glob.text(), "process", compared)
    })
}

fn no_thread(glob: &Glob, report: &Report) -> Option<String> {
    let names = threads::names(report)?;
    let is_matched = names.iter().any(|name| glob.matches(name));
    (!is_matched).then(|| nothing_matched(glob.text(), "thread", names.into_iter()))
}

/// Files are those of the run, with the paths that it tried, and those that were there before it.
fn no_file(glob: &Glob, report: &Report, premises: &Premises) -> Option<String> {
    let pattern = EndPattern {
        kind: None,
        path: Some(glob.clone()),
    };
    let is_matched = named_ends(report).any(|end| pattern.matches(end) != Match::No)
        || given_paths(report).any(|one| matches(glob, one) != Match::No)
        || synced_paths(report).any(|path| glob.matches_path(path) != Match::No)
        || premises
            .files
            .iter()
            .any(|path| glob.matches_path(path) != Match::No);
    (!is_matched).then(|| {
        let paths = given_paths(report).filter_map(|one| one.path.as_deref());
        let names = named_ends(report)
            .flat_map(End::names)
            .chain(paths)
            .chain(synced_paths(report))
            .chain(premises.files.iter().map(String::as_str))
            .map(|name| glob.compared_part(name));
        nothing_matched(glob.text(), "file", names)
    })
}

fn no_function(pattern: &FunctionPattern, report: &Report) -> Option<String> {
    let stacks = stacks_of(report).ok()?;
    let frames = || stacks.iter().flat_map(|stack| &stack.frames);
    if frames().any(|frame| pattern.may_match(frame)) {
        return None;
    }
    let functions = frames().filter_map(|frame| frame.function.as_deref());
    let spelled: BTreeSet<String> = functions.flat_map(spellings).collect();
    let names = spelled.iter().map(|name| pattern.compared_part(name));
    let what = "function of a sampled stack";
    Some(nothing_matched(pattern.text(), what, names))
}

fn nothing_matched<'a>(pattern: &str, what: &str, names: impl Iterator<Item = &'a str>) -> String {
    /// How many names are listed if none is near.
    const MAX_LISTED: usize = 5;
    let names: BTreeSet<&str> = names.collect();
    let near = nearest(pattern, names.iter().copied());
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

/// The files that were changed or synced.
fn synced_paths(report: &Report) -> impl Iterator<Item = &str> {
    let syncs = report.syncs.iter();
    let files = syncs.flat_map(|syncs| &syncs.files);
    files.map(|file| file.path.as_str())
}

/// Every file that the report names.
fn named_ends(report: &Report) -> impl Iterator<Item = &End> {
    let of_processes = report.processes.iter().flat_map(|process| {
        let calls = process.file_calls.iter().flatten();
        let by_calls = calls.flat_map(|calls| [&calls.from, &calls.to]).flatten();
        let read = process
            .sources
            .iter()
            .filter_map(|source| source.file.as_ref());
        let written = process
            .destinations
            .iter()
            .filter_map(|one| one.file.as_ref());
        by_calls.chain(read).chain(written)
    });
    let moved = report
        .transfers
        .iter()
        .flat_map(|transfer| [&transfer.from, &transfer.to]);
    let listed = report.files.iter().map(|totals| &totals.file);
    of_processes.chain(moved).chain(listed)
}
