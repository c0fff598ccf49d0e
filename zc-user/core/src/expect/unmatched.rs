//! Patterns that match nothing: an expectation such as `read[file="in.dta"].calls == 0` may hold
//! only because of a typing error.

use std::collections::BTreeSet;

use super::{
    ast::{Figure, Selectors},
    callers::Stacks,
    field::{Field, Subject},
    function::{Crates, FunctionPattern, spellings},
    paths::{OnPath, matches},
    pattern::{EndPattern, Glob, Match, quote},
};
use crate::report::{End, Report};

/// The patterns of a figure that match no file, path or function of the report, each as a sentence
/// with the nearest one.
pub(super) fn unmatched(figure: &Figure, report: &Report) -> Vec<String> {
    let Selectors {
        file, path, caller, ..
    } = &figure.selectors;
    let mut globs: Vec<&Glob> = file.iter().collect();
    if let Subject::Transfer(from, to) = &figure.subject {
        globs.extend([from, to].into_iter().filter_map(|end| end.path.as_ref()));
    }
    let of_files = globs.into_iter().filter_map(|glob| of_files(glob, report));
    let of_paths = path
        .iter()
        .filter_map(|glob| of_paths(figure, glob, report));
    let of_functions = caller.iter().filter_map(|one| of_functions(one, report));
    of_files.chain(of_paths).chain(of_functions).collect()
}

fn of_files(glob: &Glob, report: &Report) -> Option<String> {
    let pattern = EndPattern {
        kind: None,
        path: Some(glob.clone()),
    };
    let is_unmatched = ends(report).all(|end| pattern.matches(end) == Match::No);
    let names = ends(report)
        .flat_map(|end| [&end.path, &end.peer, &end.local])
        .flatten();
    is_unmatched.then(|| {
        let nearest = nearest(names.map(String::as_str), |name| glob.distance(name));
        sentence(glob.text(), "no file that was seen", nearest)
    })
}

fn of_paths(figure: &Figure, glob: &Glob, report: &Report) -> Option<String> {
    let all = OnPath::all_of(figure, report)?;
    let mut known = all.iter().filter(|one| one.path.is_some());
    let is_unmatched = known.all(|one| matches(glob, one) == Match::No);
    let has_all = figure.field == Field::Calls && report.totals.succeeded_paths.is_some();
    let what = if has_all {
        "no path of a call"
    } else {
        "no path of a failed call"
    };
    is_unmatched.then(|| {
        let paths = all.iter().filter_map(|one| one.path);
        sentence(
            glob.text(),
            what,
            nearest(paths, |path| glob.distance(path)),
        )
    })
}

fn of_functions(pattern: &FunctionPattern, report: &Report) -> Option<String> {
    let stacks = Stacks::of(report).ok()?;
    let crates = Crates::of(stacks.iter());
    let frames = || stacks.iter().flat_map(|stack| &stack.frames);
    if frames().any(|frame| pattern.may_match(frame, &crates)) {
        return None;
    }
    let functions = frames().filter_map(|frame| frame.function.as_deref());
    let spelled: BTreeSet<String> = functions.flat_map(spellings).collect();
    let names = spelled
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty());
    let nearest = nearest(names, |name| pattern.distance(name));
    Some(sentence(
        pattern.text(),
        "no function of a sampled stack",
        nearest,
    ))
}

fn sentence(pattern: &str, what: &str, nearest: Option<&str>) -> String {
    let nearest = nearest.map(|name| format!("; the nearest is {}", quote(name)));
    format!(
        "{} matches {what}{}",
        quote(pattern),
        nearest.unwrap_or_default()
    )
}

/// The name that differs least.
fn nearest<'a>(
    names: impl Iterator<Item = &'a str>,
    distance: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    names.min_by_key(|name| (distance(name), *name))
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
