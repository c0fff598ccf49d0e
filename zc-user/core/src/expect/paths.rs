//! Figures of calls by the path that they were given. The paths of failed calls are known, those of
//! others only if they were recorded.

use crate::{
    expect::{
        ast::Figure,
        facts::{MeasuredFigure, plural, shorten, why_inexact},
        known::KnownFigure,
        names::CallNames,
        pattern::{Glob, Match, quote},
    },
    figures::{list::FigureField, reading::rows_of_other_calls},
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
    /// [`FigureField::Calls`] those that succeeded. `None`: it has no paths.
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
        let succeeded = succeeded.map(|one| Self {
            syscall: &one.syscall,
            errno: None,
            path: one.path.as_deref(),
            base: one.base,
            is_cut: one.path_cut,
            calls: one.calls,
        });
        let counts_successes = figure.field == FigureField::Calls;
        Some(
            failed
                .chain(succeeded.filter(|_| counts_successes))
                .collect(),
        )
    }
}

/// Reads a figure that chooses calls by this path.
pub(super) fn measure(
    figure: &Figure,
    names: &CallNames,
    glob: &Glob,
    report: &Report,
) -> MeasuredFigure {
    let Some(mut meant) = OnPath::all_of(figure, report) else {
        return MeasuredFigure::unknown("the report does not have the paths of failed calls");
    };
    let errno = figure.errno.as_deref();
    meant.retain(|one| names.contains(one.syscall) && (errno.is_none() || errno == one.errno));
    let matching = |wanted: Match| meant.iter().filter(move |one| matches(glob, one) == wanted);
    let (sure, unsure) = (sum(matching(Match::Yes)), sum(matching(Match::Maybe)));
    let is_of_errors = figure.field != FigureField::Calls;
    // Those whose paths are not in the report.
    let more = if is_of_errors {
        Some(0)
    } else {
        returned(names, report).and_then(|calls| calls.checked_sub(sum(meant.iter())))
    };
    let are_cut_off = !report.totals.failed_paths_complete;
    let open = why_inexact(report)
        .or_else(|| are_cut_off.then(|| "the paths of some calls were not kept".to_owned()))
        .or_else(|| names.may_be_uncounted(report));
    let high = more.and_then(|more| sure.checked_add(unsure)?.checked_add(more));
    let high = high.filter(|_| open.is_none());
    let has_successes = is_of_errors || report.totals.succeeded_paths.is_some();
    let reason = open.or_else(|| match more {
        Some(0) if unsure == 0 => None,
        Some(0) => Some(format!(
            "{} gave an unknown path or one that may be this one, such as a relative path",
            plural(unsure, "call")
        )),
        _ if !has_successes => Some(
            "the paths of calls that succeed are not recorded; errors counts those that failed"
                .to_owned(),
        ),
        _ => Some("the paths of calls that a signal interrupted are not recorded".to_owned()),
    });
    let lines = matching(Match::Yes).chain(matching(Match::Maybe));
    MeasuredFigure {
        known: KnownFigure::Between(sure.into(), high.map(Into::into)),
        reason,
        facts: shorten(lines.map(line).collect()),
    }
}

/// How many of these calls that take a path returned; `None`: unknown.
fn returned(names: &CallNames, report: &Report) -> Option<u64> {
    let totals = &report.totals;
    let is_meant =
        |row: &&Syscall| names.contains(&row.name) && Spec::named(&row.name).path.is_some();
    let others: Vec<Syscall> = rows_of_other_calls(totals).collect();
    let rows = totals.syscalls.iter().chain(&others).filter(is_meant);
    let is_counted = |name| {
        let counted = report.counted.as_ref();
        counted.is_some_and(|counted| counted.contains(name))
    };
    let mut of_paths = known_calls().filter(|spec| spec.path.is_some());
    let are_known = totals.other_syscalls.is_some()
        || of_paths.all(|spec| !names.contains(spec.name) || is_counted(spec.name));
    are_known.then(|| rows.map(|row| row.calls).sum())
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

/// `openat "/etc/app.conf": 3 calls failed (ENOENT)`.
fn line(one: &OnPath<'_>) -> String {
    let path = one
        .path
        .map_or_else(|| "of an unknown path".to_owned(), quote);
    let cut = if one.is_cut { "..." } else { "" };
    let calls = plural(one.calls, "call");
    let how = one.errno.map_or_else(
        || "succeeded".to_owned(),
        |errno| format!("failed ({errno})"),
    );
    format!("{} {path}{cut}: {calls} {how}", one.syscall)
}

#[cfg(test)]
mod tests {
    use crate::{
        expect::{Expectation, tests::assert_verdicts},
        report::{
            Options, Report,
            sample::files::{Scene, read},
        },
        syscalls::{Call, Selection},
        trace::{FailedPath, FailedPaths, GivenPath, Loss, OtherCalls, Trace},
    };

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
        for (call, errno, path) in [
            ("openat", 2, "/etc/app.conf"),
            ("openat", 2, "/etc/app.d/one"),
            ("openat", 13, "/etc/app.d/one"),
            ("openat", 2, "data/x"),
            ("openat", 2, "/usr/../etc/y"),
            ("stat", 2, "/srv"),
            ("stat", 2, "/srv"),
        ] {
            paths.add(failed(call, errno, Some(path)));
        }
        trace.failed_paths = Some(paths);
        trace.counted = Some(Selection::default());
        trace.other_calls = Some([].into());
        add_calls(&mut trace, "openat", [7, 5]);
        add_calls(&mut trace, "stat", [2, 2]);
        trace
    }

    fn add_calls(trace: &mut Trace, name: &'static str, [calls, errors]: [u64; 2]) {
        let sums = OtherCalls {
            calls,
            errors,
            ..OtherCalls::NONE
        };
        let all = trace.other_calls.get_or_insert_default();
        all.insert(Call::native(name), sums);
    }

    fn add_path(trace: &mut Trace, call: &'static str, errno: u32, path: Option<&str>) {
        let paths = trace.failed_paths.get_or_insert_default();
        paths.add(failed(call, errno, path));
    }

    /// The same trace with the paths of the calls that succeeded: 2 `openat`.
    fn with_successes() -> Trace {
        let mut trace = trace();
        trace.failed_paths.get_or_insert_default().has_successes = true;
        add_path(&mut trace, "openat", 0, Some("/etc/hosts"));
        add_path(&mut trace, "openat", 0, Some("/lib/libc.so.6"));
        trace
    }

    #[track_caller]
    fn assert_of(trace: &Trace, table: &str) {
        assert_verdicts(&Report::from_trace(trace, &Options::default()), table);
    }

    #[test]
    fn errors_are_known_by_path_and_calls_only_bounded() {
        assert_of(
            &trace(),
            r#"
                holds         openat[path="/etc/app.d/*"].errors == 2
                holds         openat[path="/etc/app.d/*"].errors.EACCES == 1
                fails         openat[path="/etc/app.d/*"].errors == 0
                holds         openat[path="*.conf"].errors == 1
                holds         %file[path="/srv"].errors == 2
                holds         syscalls[path="/no/z"].errors == 0
                holds         openat[path="data/x"].errors == 1
                // The relative path may start anywhere, and `..` may follow a symbolic link.
                inconclusive  openat[path="/work/data/x"].errors == 0
                inconclusive  openat[path="/etc/y"].errors == 0
                inconclusive  openat[path="/no/**"].errors == 0
                holds         openat[path="/etc/y"].errors <= 1
                holds         openat[path="/work/data/z"].errors == 0
                // The paths of those that succeed are unknown.
                fails         openat[path="/etc/app.d/*"].calls == 0
                inconclusive  openat[path="/no/z"].calls == 0          (succeed are not recorded
                holds         openat[path="/no/z"].calls <= 2
                holds         stat[path="/srv"].calls == 2
                holds         unlink[path="x"].calls == 0
            "#,
        );
        let mut unknown = trace();
        add_path(&mut unknown, "openat", 14, None);
        assert_of(
            &unknown,
            r#"
                inconclusive  openat[path="/no"].errors == 0           (1 call gave an unknown path
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
        assert_of(
            &trace,
            r#"
                holds         openat[path="/work/data/x"].errors == 1
                holds         openat[path="/work/**"].errors == 1
                holds         openat[path="/etc/app.d/**"].errors == 2
                holds         openat[path="../work/data/x"].errors == 1
            "#,
        );
        let mut below = failed("openat", 2, Some("data/x"));
        below.path.as_mut().expect("given").is_below_descriptor = true;
        trace.failed_paths.get_or_insert_default().add(below);
        assert_of(
            &trace,
            r#"inconclusive  openat[path="/work/data/x"].errors == 1"#,
        );
    }

    #[test]
    fn calls_are_known_by_path_if_those_that_succeeded_are_recorded() {
        assert_of(
            &with_successes(),
            r#"
                holds         openat[path="/etc/hosts"].calls == 1
                fails         openat[path="/etc/hosts"].calls == 0     (openat "/etc/hosts": 1 call succeeded
                holds         openat[path="/etc/hosts"].errors == 0
                holds         openat[path="/no/z"].calls == 0
                holds         openat[path="/lib/libc.so.6"].calls == 1
                holds         syscalls[path="/srv"].calls == 2
                // A relative path, and one with `..`.
                inconclusive  openat[path="/no/**"].calls == 0
                holds         openat[path="/no/**"].calls <= 2
            "#,
        );
    }

    #[test]
    fn calls_whose_paths_are_missing_make_the_number_a_range() {
        let mut unknown = with_successes();
        add_path(&mut unknown, "execve", 0, None);
        add_calls(&mut unknown, "execve", [1, 0]);
        assert_of(
            &unknown,
            r#"
                inconclusive  execve[path="/no/z"].calls == 0
                holds         openat[path="/no/z"].calls == 0
            "#,
        );
        let mut interrupted = with_successes();
        add_calls(&mut interrupted, "openat", [8, 6]);
        assert_of(
            &interrupted,
            r#"inconclusive  openat[path="/no/z"].calls == 0  (signal"#,
        );
        let mut full = with_successes();
        full.failed_paths.get_or_insert_default().left_out = 1;
        let mut uncounted = with_successes();
        uncounted.other_calls = None;
        let mut lossy = with_successes();
        lossy.losses.insert(Loss::MissedProbes, 1);
        let incomplete = r#"
            inconclusive  openat[path="/no/z"].errors == 0
            holds         openat[path="/etc/**"].errors >= 2
        "#;
        for trace in [&full, &lossy] {
            assert_of(trace, incomplete);
        }
        for trace in [full, lossy, uncounted] {
            assert_of(
                &trace,
                r#"
                    inconclusive  syscalls[path="/no/z"].calls == 0
                    fails         syscalls[path="/etc/hosts"].calls == 0
                "#,
            );
        }
        let mut none = trace();
        none.failed_paths = None;
        assert_of(&none, r#"inconclusive  openat[path="/no/z"].errors == 0"#);
    }

    #[test]
    fn only_calls_by_path_need_the_paths_of_calls_that_succeed() {
        for (text, needed) in [
            (
                r#"read.calls == 1 or not openat[path="/etc/**"].calls > 0"#,
                true,
            ),
            (
                r#"openat[path="/etc/**"].errors == 0 and openat.calls == 0"#,
                false,
            ),
        ] {
            let expectation: Expectation = text.parse().expect(text);
            assert_eq!(expectation.needs_succeeded_paths(), needed, "{text}");
        }
    }
}
