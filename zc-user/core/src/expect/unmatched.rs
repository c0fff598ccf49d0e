//! Patterns that match nothing: an expectation such as `read[file="in.dta"].calls == 0` may hold
//! only because of a typing error.

use std::collections::BTreeSet;

use super::{
    ast::{FigureExpr, FigureSubject, Selectors},
    by_caller::stacks_of,
    function::{FunctionPattern, spellings},
    paths::{calls_on_paths, matches},
    pattern::{EndPattern, Glob, Match},
};
use crate::{
    report::{End, Report},
    words::nearest,
};

/// The patterns of a figure that match no file, path or function of the report, each as a sentence
/// with the nearest one.
pub(super) fn unmatched(figure: &FigureExpr, report: &Report) -> Vec<String> {
    let Selectors {
        file, path, caller, ..
    } = &figure.selectors;
    let mut globs: Vec<&Glob> = file.iter().collect();
    if let FigureSubject::Transfer(from, to) = &figure.subject {
        globs.extend([from, to].into_iter().filter_map(|end| end.path.as_ref()));
    }
    let files = globs.into_iter().filter_map(|glob| no_file(glob, report));
    let paths = path.iter().filter_map(|glob| no_path(figure, glob, report));
    let functions = caller.iter().filter_map(|one| no_function(one, report));
    files.chain(paths).chain(functions).collect()
}

fn no_file(glob: &Glob, report: &Report) -> Option<String> {
    let pattern = EndPattern {
        kind: None,
        path: Some(glob.clone()),
    };
    if ends(report).any(|end| pattern.matches(end) != Match::No) {
        return None;
    }
    let names = ends(report).flat_map(End::names);
    let names = names.map(|name| glob.compared(name));
    Some(sentence(glob.text(), "file that was seen", names))
}

fn no_path(figure: &FigureExpr, glob: &Glob, report: &Report) -> Option<String> {
    let mut known = calls_on_paths(figure, report)?;
    known.retain(|one| one.path.is_some());
    if known.iter().any(|one| matches(glob, one) != Match::No) {
        return None;
    }
    let paths = known.iter().filter_map(|one| one.path.as_deref());
    let paths = paths.map(|path| glob.compared(path));
    Some(sentence(glob.text(), "path that was recorded", paths))
}

fn no_function(pattern: &FunctionPattern, report: &Report) -> Option<String> {
    let stacks = stacks_of(report).ok()?;
    let frames = || stacks.iter().flat_map(|stack| &stack.frames);
    if frames().any(|frame| pattern.may_match(frame)) {
        return None;
    }
    let functions = frames().filter_map(|frame| frame.function.as_deref());
    let spelled: BTreeSet<String> = functions.flat_map(spellings).collect();
    let names = spelled.iter().map(|name| pattern.compared(name));
    let what = "function of a sampled stack";
    Some(sentence(pattern.text(), what, names))
}

fn sentence<'a>(pattern: &str, what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let nearest = match nearest(pattern, names) {
        Some(name) => format!("; the nearest is \"{name}\""),
        None => String::new(),
    };
    format!("\"{pattern}\" matches no {what}{nearest}")
}

/// Every file that the report names.
fn ends(report: &Report) -> impl Iterator<Item = &End> {
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
