//! Figures of calls by the path that they were given. The paths of failed calls are known, those of
//! others only if they were recorded.

use crate::{
    expect::{
        ast::Figure,
        calls::Names,
        facts::{Measured, plural, shorten, why_inexact},
        field::Field,
        known::Known,
        pattern::{Glob, Match, quote},
    },
    figures::reading::rows_of_other_calls,
    report::{PathBase, Report, Syscall},
    syscalls::{Spec, known_calls},
};

/// Calls of the same result on the same path.
pub(super) struct OnPath<'a> {
    syscall: &'a str,
    /// `None`: they succeeded.
    errno: Option<&'a str>,
    /// `None`: unknown.
    pub(super) path: Option<&'a str>,
    base: PathBase,
    is_cut: bool,
    calls: u64,
}

impl<'a> OnPath<'a> {
    /// The calls whose paths the report has and that a figure is about: those that failed, and for
    /// [`Field::Calls`] those that succeeded. `None`: it has no paths.
    pub(super) fn all_of(figure: &Figure, report: &'a Report) -> Option<Vec<Self>> {
        let failed = report.totals.failed_paths.as_ref()?.iter().map(|one| Self {
            syscall: &one.syscall,
            errno: Some(&one.errno),
            path: one.path.as_deref(),
            base: one.base,
            is_cut: one.path_cut,
            calls: one.calls,
        });
        let succeeded = report.totals.succeeded_paths.iter().flatten();
        let succeeded = succeeded
            .filter(|_| figure.field == Field::Calls)
            .map(|one| Self {
                syscall: &one.syscall,
                errno: None,
                path: one.path.as_deref(),
                base: one.base,
                is_cut: one.path_cut,
                calls: one.calls,
            });
        Some(failed.chain(succeeded).collect())
    }
}

/// Reads a figure that chooses calls by this path.
pub(super) fn measure(figure: &Figure, glob: &Glob, report: &Report) -> Measured {
    let Some(all) = OnPath::all_of(figure, report) else {
        return Measured::unknown("the report does not have the paths of failed calls");
    };
    let names = Names::of(&figure.subject);
    let has_errno =
        |one: &&OnPath<'_>| figure.errno.is_none() || figure.errno.as_deref() == one.errno;
    let meant: Vec<&OnPath<'_>> = all
        .iter()
        .filter(|one| names.contains(one.syscall))
        .filter(has_errno)
        .collect();
    let of = |wanted: Match| {
        meant
            .iter()
            .copied()
            .filter(move |one| matches(glob, one) == wanted)
    };
    let (sure, unsure) = (sum(of(Match::Yes)), sum(of(Match::Maybe)));
    let open = why_open(figure, report).or_else(|| names.may_be_uncounted(report));
    let more = match figure.field {
        Field::Calls => {
            returned(&names, report).and_then(|calls| calls.checked_sub(sum(meant.iter().copied())))
        }
        _ => Some(0),
    };
    let reason = match (open.clone(), more) {
        (Some(why), _) => Some(why),
        (None, Some(0)) => (unsure > 0).then(|| why_unsure(of(Match::Maybe))),
        (None, _) if report.totals.succeeded_paths.is_none() => {
            Some("the paths of calls that succeed are not recorded; errors counts those that failed".to_owned())
        }
        (None, Some(more)) => Some(format!("the paths of {more} calls are not recorded, because a signal interrupted them")),
        (None, None) => {
            Some("it is not known how many of these calls a signal interrupted; their paths are not recorded".to_owned())
        }
    };
    let high = more
        .filter(|_| open.is_none())
        .and_then(|more| sure.checked_add(unsure)?.checked_add(more));
    let facts = shorten(of(Match::Yes).chain(of(Match::Maybe)).map(line).collect());
    Measured {
        reason,
        facts,
        ..Measured::plain(Known::Between(sure.into(), high.map(Into::into)))
    }
}

/// Why calls may be missing.
fn why_open(figure: &Figure, report: &Report) -> Option<String> {
    let which = if figure.field == Field::Calls {
        "calls"
    } else {
        "failed calls"
    };
    let incomplete = || {
        (!report.totals.failed_paths_complete)
            .then(|| format!("the paths of some {which} were not kept"))
    };
    why_inexact(report).or_else(incomplete)
}

/// How many of these calls that take a path returned; `None`: unknown.
fn returned(names: &Names<'_>, report: &Report) -> Option<u64> {
    let totals = &report.totals;
    let is_meant =
        |row: &Syscall| names.contains(&row.name) && Spec::named(&row.name).path.is_some();
    let others = rows_of_other_calls(totals).filter(is_meant);
    let rows = totals.syscalls.iter().filter(|row| is_meant(row));
    let sum = rows.map(|row| row.calls).sum::<u64>() + others.map(|row| row.calls).sum::<u64>();
    let are_counted = || {
        report.counted.as_ref().is_some_and(|counted| {
            known_calls()
                .filter(|spec| spec.path.is_some() && names.contains(spec.name))
                .all(|spec| counted.contains(spec.name))
        })
    };
    (totals.other_syscalls.is_some() || are_counted()).then_some(sum)
}

fn sum<'a>(all: impl Iterator<Item = &'a OnPath<'a>>) -> u64 {
    all.map(|one| one.calls).sum()
}

/// Whether a pattern matches the path of calls.
pub(super) fn matches(glob: &Glob, one: &OnPath<'_>) -> Match {
    match one.path {
        // As the report shows files. Where `..` leads is not known: it may follow a symbolic link.
        Some(path) if one.base == PathBase::Directory && !one.is_cut && !path.contains("..") => {
            glob.matches_path(path)
        }
        Some(path) if one.is_cut => glob.matches_beginning(path),
        Some(path) => glob.matches_given(path),
        None => Match::Maybe,
    }
}

/// Why it is not known whether these calls were given such a path.
fn why_unsure<'a>(unsure: impl Iterator<Item = &'a OnPath<'a>> + Clone) -> String {
    let have_failed = unsure.clone().all(|one| one.errno.is_some());
    let which = if have_failed { "failed calls" } else { "calls" };
    let unknown = sum(unsure.clone().filter(|one| one.path.is_none()));
    let others = sum(unsure) - unknown;
    let reasons = [
        (
            unknown,
            format!("the paths of {unknown} {which} are not known"),
        ),
        (
            others,
            format!("{others} {which} gave a path that may be this one, such as a relative path"),
        ),
    ];
    let given = reasons.into_iter().filter(|(calls, _)| *calls > 0);
    given.map(|(_, why)| why).collect::<Vec<_>>().join("; ")
}

/// `openat "/etc/app.conf": 3 calls failed (ENOENT)`.
fn line(one: &OnPath<'_>) -> String {
    let path = one
        .path
        .map_or_else(|| "of an unknown path".to_owned(), quote);
    let calls = plural(one.calls, "call");
    let how = one.errno.map_or_else(
        || "succeeded".to_owned(),
        |errno| format!("failed ({errno})"),
    );
    format!(
        "{} {path}{}: {calls} {how}",
        one.syscall,
        if one.is_cut { "..." } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use crate::{
        expect::{Expectation, Outcome, Verdict, tests::cases},
        report::{
            Options, Report,
            sample::files::{Scene, read},
        },
        syscalls::{Call, Selection},
        trace::{self, FailedPath, FailedPaths, GivenPath, Loss, Trace},
    };
    use Verdict::{Fails, Inconclusive};

    fn failed(call: &'static str, errno: u32, path: Option<&str>) -> FailedPath {
        let path = path.map(|path| GivenPath {
            text: path.to_owned(),
            is_cut: false,
            is_below_descriptor: false,
        });
        FailedPath {
            call: Call::native(call),
            errno,
            path,
        }
    }

    /// A trace in which 5 of 7 `openat` and all of 2 `stat` failed.
    fn trace() -> Trace {
        let mut scene = Scene::new();
        let file = scene.regular("in");
        scene.process("cp", vec![read("read", file, 1, 10)]);
        let mut trace = scene.trace;
        let mut paths = FailedPaths {
            directory_may_change: true,
            ..FailedPaths::default()
        };
        for (errno, path) in [
            (2, "/etc/app.conf"),
            (2, "/etc/app.d/one"),
            (13, "/etc/app.d/one"),
            (2, "data/x"),
            (2, "/usr/../etc/y"),
        ] {
            paths.add(failed("openat", errno, Some(path)));
        }
        (0..2).for_each(|_| paths.add(failed("stat", 2, Some("/srv"))));
        trace.failed_paths = Some(paths);
        trace.counted = Some(Selection::default());
        let sums = |calls, errors| trace::OtherCalls {
            calls,
            errors,
            ..trace::OtherCalls::NONE
        };
        trace.other_calls = Some(
            [
                (Call::native("openat"), sums(7, 5)),
                (Call::native("stat"), sums(2, 2)),
            ]
            .into(),
        );
        trace
    }

    fn outcome(trace: &Trace, text: &str) -> Outcome {
        let report = Report::from_trace(trace, &Options::default());
        let expectation: Expectation = text.parse().unwrap_or_else(|error| panic!("{error}"));
        expectation
            .evaluate(&report)
            .expect("paths are known for all calls")
    }

    #[track_caller]
    fn assert_verdicts(trace: &Trace, table: &str) {
        for (expected, text) in cases(table) {
            assert_eq!(outcome(trace, text).verdict, expected, "{text}");
        }
    }

    #[test]
    fn errors_are_known_by_path() {
        assert_verdicts(
            &trace(),
            r#"
                holds         openat[path="/etc/app.d/*"].errors == 2
                holds         openat[path="/etc/app.d/*"].errors.EACCES == 1
                fails         openat[path="/etc/app.d/*"].errors == 0
                holds         openat[path="*.conf"].errors == 1
                holds         %file[path="/srv"].errors == 2
                holds         syscalls[path="/no/z"].errors == 0
                holds         openat[path="data/x"].errors == 1
            "#,
        );
    }

    #[test]
    fn a_path_that_may_be_meant_makes_a_figure_inconclusive() {
        assert_verdicts(
            &trace(),
            r#"
                // The relative path may start anywhere, and `..` may follow a symbolic link.
                inconclusive  openat[path="/work/data/x"].errors == 0
                inconclusive  openat[path="/etc/y"].errors == 0
                inconclusive  openat[path="/no/**"].errors == 0
                holds         openat[path="/etc/y"].errors <= 1
                holds         openat[path="/work/data/z"].errors == 0
            "#,
        );
        let mut unknown = trace();
        unknown
            .failed_paths
            .get_or_insert_default()
            .add(failed("openat", 14, None));
        assert_verdicts(
            &unknown,
            r#"
                inconclusive  openat[path="/no"].errors == 0
                holds         stat[path="/no"].errors == 0
            "#,
        );
    }

    #[test]
    fn a_relative_path_starts_in_the_directory_of_the_command_if_nothing_says_otherwise() {
        let mut trace = trace();
        trace.directory = Some("/work".to_owned());
        let failed_paths = trace.failed_paths.get_or_insert_default();
        failed_paths.directory_may_change = false;
        assert_verdicts(
            &trace,
            r#"
                holds         openat[path="/work/data/x"].errors == 1
                holds         openat[path="/work/**"].errors == 1
                holds         openat[path="/etc/app.d/**"].errors == 2
                holds         openat[path="../work/data/x"].errors == 1
            "#,
        );
        let below = FailedPath {
            path: Some(GivenPath {
                text: "data/x".to_owned(),
                is_cut: false,
                is_below_descriptor: true,
            }),
            ..failed("openat", 2, None)
        };
        trace.failed_paths.get_or_insert_default().add(below);
        assert_verdicts(
            &trace,
            r#"
                inconclusive  openat[path="/work/data/x"].errors == 1
            "#,
        );
    }

    #[test]
    fn calls_are_only_bounded_since_the_paths_of_those_that_succeed_are_unknown() {
        let said = outcome(&trace(), r#"openat[path="/etc/app.d/*"].calls == 0"#).verdict;
        assert_eq!(said, Fails);
        let found = outcome(&trace(), r#"openat[path="/no/z"].calls == 0"#);
        assert_eq!(found.verdict, Inconclusive);
        assert!(
            found.findings[0]
                .reason
                .as_ref()
                .is_some_and(|why| why.contains("succeed")),
            "{found}"
        );
        assert_verdicts(
            &trace(),
            r#"
                holds         openat[path="/no/z"].calls <= 2
                holds         stat[path="/srv"].calls == 2
                holds         unlink[path="x"].calls == 0
            "#,
        );
    }

    /// The same trace with the paths of the calls that succeeded: 2 `openat`.
    fn with_successes() -> Trace {
        let mut trace = trace();
        let paths = trace.failed_paths.get_or_insert_default();
        paths.has_successes = true;
        for path in ["/etc/hosts", "/lib/libc.so.6"] {
            paths.add(failed("openat", 0, Some(path)));
        }
        trace
    }

    #[test]
    fn calls_are_known_by_path_if_those_that_succeeded_are_recorded() {
        assert_verdicts(
            &with_successes(),
            r#"
                holds         openat[path="/etc/hosts"].calls == 1
                fails         openat[path="/etc/hosts"].calls == 0
                holds         openat[path="/etc/hosts"].errors == 0
                holds         openat[path="/no/z"].calls == 0
                holds         openat[path="/lib/libc.so.6"].calls == 1
                holds         syscalls[path="/srv"].calls == 2
                // A relative path, and one with `..`.
                inconclusive  openat[path="/no/**"].calls == 0
                holds         openat[path="/no/**"].calls <= 2
            "#,
        );
        let found =
            outcome(&with_successes(), r#"openat[path="/etc/hosts"].calls == 0"#).to_string();
        assert!(
            found.contains(r#"openat "/etc/hosts": 1 call succeeded"#),
            "{found}"
        );
    }

    #[test]
    fn calls_whose_paths_are_missing_make_the_number_a_range() {
        let mut unknown = with_successes();
        unknown
            .failed_paths
            .get_or_insert_default()
            .add(failed("execve", 0, None));
        let sums = trace::OtherCalls {
            calls: 1,
            ..trace::OtherCalls::NONE
        };
        unknown
            .other_calls
            .get_or_insert_default()
            .insert(Call::native("execve"), sums);
        assert_verdicts(
            &unknown,
            r#"
                inconclusive  execve[path="/no/z"].calls == 0
                holds         openat[path="/no/z"].calls == 0
            "#,
        );
        // A signal interrupted one.
        let mut interrupted = with_successes();
        let sums = trace::OtherCalls {
            calls: 8,
            errors: 6,
            ..trace::OtherCalls::NONE
        };
        interrupted
            .other_calls
            .get_or_insert_default()
            .insert(Call::native("openat"), sums);
        let found = outcome(&interrupted, r#"openat[path="/no/z"].calls == 0"#);
        assert_eq!(found.verdict, Inconclusive);
        assert!(
            found.findings[0]
                .reason
                .as_ref()
                .is_some_and(|why| why.contains("signal")),
            "{found}"
        );
        let mut full = with_successes();
        full.failed_paths.get_or_insert_default().left_out = 1;
        let mut uncounted = with_successes();
        uncounted.other_calls = None;
        for trace in [full, uncounted] {
            assert_verdicts(
                &trace,
                r#"
                    inconclusive  syscalls[path="/no/z"].calls == 0
                    fails         syscalls[path="/etc/hosts"].calls == 0
                "#,
            );
        }
    }

    #[test]
    fn only_calls_by_path_need_the_paths_of_calls_that_succeed() {
        let needs = |text: &str| {
            text.parse::<Expectation>()
                .expect(text)
                .needs_succeeded_paths()
        };
        assert!(needs(
            r#"read.calls == 1 or not openat[path="/etc/**"].calls > 0"#
        ));
        assert!(!needs(
            r#"openat[path="/etc/**"].errors == 0 and openat.calls == 0"#
        ));
    }

    #[test]
    fn an_incomplete_list_is_a_lower_bound() {
        let mut full = trace();
        full.failed_paths.get_or_insert_default().left_out = 1;
        let mut lossy = trace();
        lossy.losses.insert(Loss::MissedProbes, 1);
        for trace in [full, lossy] {
            assert_verdicts(
                &trace,
                r#"
                    inconclusive  openat[path="/no/z"].errors == 0
                    holds         openat[path="/etc/**"].errors >= 2
                "#,
            );
        }
        let mut none = trace();
        none.failed_paths = None;
        assert_verdicts(
            &none,
            r#"
                inconclusive  openat[path="/no/z"].errors == 0
            "#,
        );
    }

    #[test]
    fn a_path_selects_errors_and_calls_of_calls_that_take_one() {
        let wrong = |text: &str| {
            text.parse::<Expectation>()
                .expect_err(text)
                .message()
                .to_owned()
        };
        assert_eq!(
            wrong(r#"read[path="x"].errors == 0"#),
            "read takes no path; file= selects calls by the file of their descriptor"
        );
        assert_eq!(
            wrong(r#"openat[path="x"].total == 0"#),
            "openat.total is not known by path; only errors and calls are"
        );
        assert!(
            wrong(r#"openat[path="x", process="cp"].errors == 0"#)
                .starts_with("path= cannot be combined")
        );
        assert!(
            wrong(r#"openat[file="x"].errors == 0"#)
                .ends_with("path= selects its errors by the path that it was given")
        );
        let text = r#"openat[path="/etc/**"].errors.ENOENT == 0"#;
        assert_eq!(
            text.parse::<Expectation>().expect("is right").to_string(),
            text
        );
    }
}
