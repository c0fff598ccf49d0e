//! Patterns that match nothing: an expectation such as `read[file="in.dta"].calls == 0` may hold
//! only because of a typing error.

use std::collections::BTreeSet;

use super::{
    ast::Figure,
    callers::Stacks,
    field::{Field, Subject},
    function::{Crates, FunctionPattern, spellings},
    paths::{OnPath, matches},
    pattern::{EndPattern, Glob, Match, quote},
};
use crate::report::{End, Report};

/// The patterns of a figure that match no file and no path of the report, each as a sentence with
/// the nearest one.
pub(super) fn unmatched(figure: &Figure, report: &Report) -> Vec<String> {
    let mut unmatched = Vec::new();
    if let Some(glob) = &figure.selectors.file {
        unmatched.extend(of_files(glob, report));
    }
    if let Some(glob) = &figure.selectors.path {
        unmatched.extend(of_paths(figure, glob, report));
    }
    if let Some(pattern) = &figure.selectors.caller {
        unmatched.extend(of_functions(pattern, report));
    }
    if let Subject::Transfer(from, to) = &figure.subject {
        unmatched.extend(
            [from, to]
                .into_iter()
                .filter_map(|end| of_files(end.path.as_ref()?, report)),
        );
    }
    unmatched
}

fn of_files(glob: &Glob, report: &Report) -> Option<String> {
    let pattern = EndPattern {
        kind: None,
        path: Some(glob.clone()),
    };
    let ends = || ends(report);
    if ends().any(|end| pattern.matches(end) != Match::No) {
        return None;
    }
    let names = ends()
        .flat_map(|end| [&end.path, &end.peer, &end.local])
        .flatten();
    Some(sentence(
        glob,
        "no file that was seen",
        names.map(String::as_str),
    ))
}

fn of_paths(figure: &Figure, glob: &Glob, report: &Report) -> Option<String> {
    let all = OnPath::all_of(figure, report)?;
    let is_none = all
        .iter()
        .filter(|one| one.path.is_some())
        .all(|one| matches(glob, one) == Match::No);
    let has_all = figure.field == Field::Calls && report.totals.succeeded_paths.is_some();
    let what = if has_all {
        "no path of a call"
    } else {
        "no path of a failed call"
    };
    is_none.then(|| sentence(glob, what, all.iter().filter_map(|one| one.path)))
}

fn of_functions(pattern: &FunctionPattern, report: &Report) -> Option<String> {
    let stacks = Stacks::of(report).ok()?;
    let crates = Crates::of(stacks.iter());
    let frames = || stacks.iter().flat_map(|stack| &stack.frames);
    if frames().any(|frame| pattern.may_match(frame, &crates)) {
        return None;
    }
    let names: BTreeSet<String> = frames()
        .filter_map(|frame| frame.function.as_deref())
        .flat_map(spellings)
        .collect();
    let nearest = names
        .iter()
        .filter(|name| !name.is_empty())
        .min_by_key(|name| (pattern.distance(name), *name));
    let nearest = nearest
        .map(|name| format!("; the nearest is {}", quote(name)))
        .unwrap_or_default();
    Some(format!(
        "{} matches no function of a sampled stack{nearest}",
        quote(pattern.text())
    ))
}

/// Every file that the report names.
fn ends(report: &Report) -> impl Iterator<Item = &End> {
    let processes = || report.processes.iter();
    let by_calls = processes()
        .filter_map(|process| process.file_calls.as_ref())
        .flatten();
    let by_calls = by_calls
        .flat_map(|calls| [&calls.from, &calls.to])
        .flatten();
    let read = processes()
        .flat_map(|process| &process.sources)
        .filter_map(|source| source.file.as_ref());
    let written = processes()
        .flat_map(|process| &process.destinations)
        .filter_map(|written| written.file.as_ref());
    let moved = report
        .transfers
        .iter()
        .flat_map(|transfer| [&transfer.from, &transfer.to]);
    let listed = report.files.iter().map(|totals| &totals.file);
    by_calls
        .chain(read)
        .chain(written)
        .chain(moved)
        .chain(listed)
}

fn sentence<'a>(glob: &Glob, what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(glob, names)
        .map(|name| format!("; the nearest is {}", quote(name)))
        .unwrap_or_default();
    format!("{} matches {what}{nearest}", quote(glob.text()))
}

/// The name that differs least from the pattern, as text. A pattern without `/` is compared with
/// the last part of a path.
fn nearest<'a>(glob: &Glob, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let compared = |name: &'a str| {
        if glob.is_of_names() {
            name.rsplit('/').next().unwrap_or(name)
        } else {
            name
        }
    };
    names.min_by_key(|name| {
        (
            strsim::damerau_levenshtein(glob.text(), compared(name)),
            *name,
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        expect::{Expectation, Outcome},
        report::{
            Files, Options, Report,
            sample::files::{Scene, read, write},
        },
        syscalls::Call,
        trace::{FailedPath, FailedPaths, GivenPath},
    };

    fn report() -> Report {
        let mut scene = Scene::new();
        let [from, to] = ["in.dat", "data/out.dat"].map(|name| scene.regular(name));
        scene.process(
            "copier",
            vec![read("read", from, 2, 20), write("write", to, 2, 20)],
        );
        let mut failed = FailedPaths::default();
        let path = Some(GivenPath {
            text: "/etc/app.conf".to_owned(),
            is_cut: false,
            is_below_descriptor: false,
        });
        failed.add(FailedPath {
            call: Call::native("openat"),
            errno: 2,
            path,
        });
        scene.trace.failed_paths = Some(failed);
        Report::from_trace(
            &scene.trace,
            &Options {
                file_calls: Files::Listed,
                ..Options::default()
            },
        )
    }

    fn unmatched(expectation: &str) -> Vec<String> {
        let outcome: Outcome = expectation
            .parse::<Expectation>()
            .expect("is right")
            .evaluate(&report())
            .expect("is counted");
        outcome
            .findings
            .into_iter()
            .flat_map(|finding| finding.unmatched)
            .collect()
    }

    #[test]
    fn a_pattern_that_matches_no_file_is_said_with_the_nearest() {
        let said = unmatched(r#"read[file="*.dta"].calls == 0"#);
        assert_eq!(
            said,
            [r#""*.dta" matches no file that was seen; the nearest is "in.dat""#]
        );
        let said = unmatched(r#"transfer("in.dat" -> "data/ot.dat").count == 0"#);
        assert_eq!(
            said,
            [r#""data/ot.dat" matches no file that was seen; the nearest is "data/out.dat""#]
        );
    }

    #[test]
    fn a_pattern_that_matches_no_failed_path_is_said_with_the_nearest() {
        let said = unmatched(r#"openat[path="/etc/ap.conf"].errors == 0"#);
        assert_eq!(
            said,
            [r#""/etc/ap.conf" matches no path of a failed call; the nearest is "/etc/app.conf""#]
        );
    }

    #[test]
    fn nothing_is_said_of_a_pattern_that_matches_or_may_match() {
        for expectation in [
            r#"write[file="*.dat"].calls == 2"#,
            r#"openat[path="/etc/**"].errors == 1"#,
            "read.calls == 2",
        ] {
            assert_eq!(unmatched(expectation), [""; 0], "{expectation}");
        }
    }
}
