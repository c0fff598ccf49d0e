//! Figures of calls by the path that they were given. The paths of failed calls are known, those of
//! others only if they were recorded.

use crate::{
    expect::{
        ast::FigureExpr,
        facts::{MeasuredFigure, shorten_lines, why_inexact},
        known::KnownFigure,
        names::CallSet,
        pattern::{Glob, Match},
    },
    figures::list::FigureField,
    report::{FailedPath, PathBase, Report},
    syscalls::{Spec, known_calls},
    text::plural,
};

/// The calls whose paths the report has and that a figure is about: those that failed, and for
/// [`FigureField::Calls`] those that succeeded. `None`: it has no paths.
fn calls_on_paths<'a>(
    figure: &FigureExpr,
    names: &CallSet,
    report: &'a Report,
) -> Option<Vec<&'a FailedPath>> {
    let mut meant: Vec<&FailedPath> = report.totals.failed_paths.as_ref()?.iter().collect();
    if figure.field == FigureField::Calls {
        meant.extend(report.totals.succeeded_paths.iter().flatten());
    }
    let errno = figure.errno.as_deref();
    meant
        .retain(|one| names.contains(&one.syscall) && errno.is_none_or(|errno| errno == one.errno));
    Some(meant)
}

/// Reads a figure that chooses calls by this path.
pub(super) fn measure_paths(
    figure: &FigureExpr,
    names: &CallSet,
    glob: &Glob,
    report: &Report,
) -> MeasuredFigure {
    let Some(meant) = calls_on_paths(figure, names, report) else {
        return MeasuredFigure::unknown_because(
            "the report does not have the paths of failed calls",
        );
    };
    let (mut sure, mut unsure, mut others) = (0, 0, 0);
    let (mut lines, mut unsure_lines) = (Vec::new(), Vec::new());
    for one in meant {
        match match_path(glob, one) {
            Match::Yes => {
                sure += one.calls;
                lines.push(path_line(one));
            }
            Match::Maybe => {
                unsure += one.calls;
                unsure_lines.push(path_line(one));
            }
            Match::No => others += one.calls,
        }
    }
    lines.append(&mut unsure_lines);
    let is_of_errors = figure.field != FigureField::Calls;
    // Those whose paths are not in the report.
    let more = if is_of_errors {
        Some(0)
    } else {
        returned_calls(names, report).and_then(|calls| calls.checked_sub(sure + unsure + others))
    };
    let are_cut_off = !report.totals.failed_paths_complete;
    let open = why_inexact(report)
        .or(are_cut_off.then_some("the paths of some calls were not kept".to_owned()))
        .or(names.may_be_uncounted(report));
    let high = match more {
        Some(more) if open.is_none() => (sure + unsure).checked_add(more),
        _ => None,
    };
    let has_successes = is_of_errors || report.totals.succeeded_paths.is_some();
    let reason = match more {
        _ if open.is_some() => open,
        Some(0) if unsure == 0 => None,
        Some(0) => Some(format!(
            "{} gave an unknown path or one that may be this one, such as a relative path",
            plural(unsure, "call", "calls")
        )),
        _ if !has_successes => Some(
            "the paths of calls that succeed are not recorded; errors counts those that failed"
                .to_owned(),
        ),
        _ => Some("the paths of calls that a signal interrupted are not recorded".to_owned()),
    };
    MeasuredFigure {
        known: KnownFigure::Between(sure.into(), high.map(Into::into)),
        reason,
        facts: shorten_lines(lines),
    }
}

/// How many of these calls that take a path returned; `None`: unknown.
fn returned_calls(names: &CallSet, report: &Report) -> Option<u64> {
    let totals = &report.totals;
    let is_counted = |name| {
        let counted = report.counted.as_ref();
        counted.is_some_and(|counted| counted.contains(name))
    };
    let mut known = known_calls().filter(|spec| spec.takes_path() && names.contains(spec.name));
    if totals.other_syscalls.is_none() && !known.all(|spec| is_counted(spec.name)) {
        return None;
    }
    let mut calls = 0;
    for row in totals.all_calls() {
        if names.contains(&row.name) && Spec::named(&row.name).takes_path() {
            calls += row.calls;
        }
    }
    Some(calls)
}

/// Whether a pattern matches a path of calls.
pub(super) fn match_path(glob: &Glob, one: &FailedPath) -> Match {
    if one.path.is_none() || one.path_cut {
        return Match::Maybe;
    }
    // As the report shows files. Where `..` leads is not known: it may follow a symbolic link.
    let paths = one.path.iter().chain(&one.second_path);
    let matches = paths.map(|path| match one.base {
        PathBase::Directory if !path.contains("..") => glob.matches_path(path),
        _ => glob.matches_given(path),
    });
    matches.max().unwrap_or(Match::Maybe)
}

/// `openat "/etc/app.conf": 3 calls failed (ENOENT)`.
fn path_line(one: &FailedPath) -> String {
    let paths = one.path.iter().chain(&one.second_path);
    let paths: Vec<String> = paths.map(|path| format!("\"{path}\"")).collect();
    let path = match &one.path {
        Some(_) => paths.join(" -> "),
        None => "of an unknown path".to_owned(),
    };
    let cut = if one.path_cut { "..." } else { "" };
    let calls = plural(one.calls, "call", "calls");
    let how = match one.errno.as_str() {
        "" => "succeeded".to_owned(),
        errno => format!("failed ({errno})"),
    };
    format!("{} {path}{cut}: {calls} {how}", one.syscall)
}
