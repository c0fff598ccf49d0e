//! Results for a person.

use super::problems;
use crate::{
    check::{CheckResult, DifferenceState, Repeatability, Results, Status},
    render::{
        Options,
        page::{Page, Piece, Style, words},
        text::escape,
        units,
    },
};

/// The page: a line for each check, and below it what is wrong with it.
pub(super) fn render(results: &Results, options: &Options) -> String {
    let mut page = Page::new(options);
    for check in &results.checks {
        write_check(&mut page, check);
    }
    if !results.checks.is_empty() {
        page.gap();
    }
    let style = if results.exit_status() == 0 && results.interrupted.is_none() { Style::Good } else { Style::Bad };
    page.flow(0, &words(&results.summary(), style));
    page.finish()
}

/// A word of the same width for each status, and its colour.
const fn mark(status: Status) -> (&'static str, Style) {
    match status {
        Status::Passed => ("ok    ", Style::Good),
        Status::Failed => ("FAILED", Style::Bad),
        Status::CouldNotRun => ("ERROR ", Style::Bad),
        Status::Inconclusive => ("?     ", Style::Warning),
    }
}

fn write_check(page: &mut Page, check: &CheckResult) {
    let (mark, style) = mark(check.status);
    let runs = if check.runs > 1 { format!("{} runs, ", check.runs) } else { String::new() };
    let time = format!("({runs}{})", units::seconds(check.duration_ns));
    let pieces = [(mark.to_owned(), style), (escape(&check.name), Style::Plain), (time, Style::Faint)];
    page.flow(0, &pieces.map(|(text, style)| Piece::new(text, style)));
    for problem in problems::of(check) {
        page.wrap(2, style, &problem.title);
        for line in problem.lines {
            let indent = 4 + line.len() - line.trim_start().len();
            page.wrap(indent, Style::Plain, line.trim_start());
        }
    }
    write_tolerated(page, check);
    if let Some(figures) = &check.figures {
        write_figures(page, figures);
    }
    if check.status != Status::Passed {
        if !check.stderr.is_empty() {
            page.flow(2, &words("last lines of stderr:", Style::Faint));
            problems::stderr(check).for_each(|line| page.wrap(4, Style::Faint, &line));
        }
        page.whole(2, Style::Faint, "the whole report:", &check.show);
    }
}

fn write_tolerated(page: &mut Page, check: &CheckResult) {
    let tolerated: Vec<&str> = check
        .differences
        .iter()
        .filter(|difference| difference.state == DifferenceState::Tolerated)
        .map(|difference| difference.metric.as_str())
        .collect();
    if !tolerated.is_empty() {
        page.flow(2, &words(&format!("within their tolerance: {}", tolerated.join(", ")), Style::Faint));
    }
}

fn write_figures(page: &mut Page, figures: &Repeatability) {
    let range = |name: &str, min: u64, max: u64| match name.strip_prefix("time.") {
        Some(_) => format!("{name} {}..{}", units::seconds(min), units::seconds(max)),
        None => format!("{name} {min}..{max}"),
    };
    let varying: Vec<String> = figures.varying.iter().map(|figure| range(&figure.name, figure.min, figure.max)).collect();
    let one = |name: &str, figure: u64| match name.strip_prefix("time.") {
        Some(_) => format!("{name} {}", units::seconds(figure)),
        None => format!("{name} {figure}"),
    };
    let same: Vec<String> = figures.same.iter().map(|(name, &figure)| one(name, figure)).collect();
    let bound = if figures.exact { "" } else { " (others are lower bounds)" };
    page.flow(2, &words(&format!("the same in all {} runs{bound}: {}", figures.runs, same.join(", ")), Style::Faint));
    if !varying.is_empty() {
        page.flow(2, &words(&format!("varying: {}", varying.join(", ")), Style::Faint));
    }
}
