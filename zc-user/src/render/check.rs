//! `zctrace check`: the results for a person, and what all formats have in common. `formats.rs` has the formats for CI.

mod formats;
#[cfg(test)]
mod tests;

use clap::ValueEnum;

use super::{
    Options, json,
    page::{Page, Piece, Style, align_columns, ruled_table, table_lines, words},
    text::escape,
    units::{self, UNKNOWN},
};
use crate::{
    check::{CheckResult, Difference, DifferenceState, Repeatability, Results, Status, is_time},
    expect::{Finding, Verdict},
};

pub use formats::{annotations, escape_workflow_commands};

/// A format of the results of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For a person.
    #[default]
    Text,
    /// All results, with a versioned schema.
    Json,
    /// `JUnit`'s XML, as GitLab and Jenkins read it.
    Junit,
    /// The Test Anything Protocol, version 14.
    Tap,
    /// Annotations of GitHub Actions; there, `text` adds them by itself.
    Github,
    /// GitHub's Markdown, for a comment or a job summary.
    Markdown,
    /// A line for each expectation.
    Csv,
}

/// The results in this format. They end in a newline.
pub fn check(results: &Results, format: CheckFormat, options: &Options) -> String {
    match format {
        CheckFormat::Text => page(results, options),
        CheckFormat::Json => json(results),
        CheckFormat::Junit => formats::junit(results),
        CheckFormat::Tap => formats::tap(results),
        CheckFormat::Github => annotations(results),
        CheckFormat::Markdown => formats::markdown(results),
        CheckFormat::Csv => formats::csv(results),
    }
}

/// The page: a line for each check, and its problems below it.
fn page(results: &Results, options: &Options) -> String {
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

/// The word for a status, padded to the same width, and its style.
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
    for problem in problems(check) {
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
            stderr_lines(check).for_each(|line| page.wrap(4, Style::Faint, &line));
        }
        page.unbroken(2, Style::Faint, "the whole report:", &check.show);
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
    let range = |name: &str, min: u64, max: u64| {
        if is_time(name) {
            format!("{name} {}..{}", units::seconds(min), units::seconds(max))
        } else {
            format!("{name} {min}..{max}")
        }
    };
    let varying: Vec<String> = figures.varying.iter().map(|figure| range(&figure.name, figure.min, figure.max)).collect();
    let one = |name: &str, figure: u64| {
        if is_time(name) { format!("{name} {}", units::seconds(figure)) } else { format!("{name} {figure}") }
    };
    let same: Vec<String> = figures.same.iter().map(|(name, &figure)| one(name, figure)).collect();
    let bound = if figures.exact { "" } else { " (others are lower bounds)" };
    page.flow(2, &words(&format!("the same in all {} runs{bound}: {}", figures.runs, same.join(", ")), Style::Faint));
    if !varying.is_empty() {
        page.flow(2, &words(&format!("varying: {}", varying.join(", ")), Style::Faint));
    }
}

/// A problem of a check, as every format shows it.
struct Problem {
    /// One line.
    title: String,
    /// What was found.
    lines: Vec<String>,
}

/// All problems of a check.
fn problems(check: &CheckResult) -> Vec<Problem> {
    let error = check.error.iter().map(|error| Problem { title: format!("could not be run: {error}"), lines: Vec::new() });
    let unmet = check.expectations.iter().filter(|result| result.outcome.verdict != Verdict::Holds).map(|result| {
        let outcome = &result.outcome;
        let run = if check.runs > 1 { format!(" (in run {} of {})", result.run, check.runs) } else { String::new() };
        let title = format!("{}: {}{run}", outcome.verdict.name(), outcome.expectation);
        Problem { title, lines: outcome.decisive().flat_map(finding_lines).collect() }
    });
    error.chain(unmet).chain(differences(check)).map(Problem::escaped).collect()
}

/// What was found, and the closest facts below it.
fn finding_lines(finding: &Finding) -> Vec<String> {
    let reason = finding.reason.iter().map(|reason| format!(" ({reason})"));
    let found = finding.found.clone() + &reason.collect::<String>();
    std::iter::once(found).chain(finding.facts.iter().map(|fact| format!("  {fact}"))).collect()
}

impl Problem {
    /// Makes names of programs and files safe to print.
    fn escaped(self) -> Self {
        Self { title: escape(&self.title), lines: self.lines.iter().map(|line| escape(line)).collect() }
    }
}

/// The last lines of stderr, safe to print.
fn stderr_lines(check: &CheckResult) -> impl Iterator<Item = String> {
    check.stderr.iter().map(|line| escape(line))
}

/// Figures that differ from the baseline by more than their tolerance, and those that are unknown.
fn differences(check: &CheckResult) -> Option<Problem> {
    let wrong: Vec<&Difference> =
        check.differences.iter().filter(|difference| difference.state != DifferenceState::Tolerated).collect();
    let beyond = wrong.iter().filter(|difference| difference.state == DifferenceState::Beyond).count();
    let title = match (beyond, wrong.len()) {
        (_, 0) => return None,
        (0, _) => "inconclusive: figures cannot be compared with the baseline".to_owned(),
        (1, _) => "1 figure differs from the baseline".to_owned(),
        _ => format!("{beyond} figures differ from the baseline"),
    };
    let mut table = ruled_table();
    table.set_header(["figure", "baseline", "now", "tolerance", ""]);
    for difference in wrong {
        table.add_row(cells(difference));
    }
    align_columns(&mut table);
    Some(Problem { title, lines: table_lines(&table) })
}

/// A row of the table of differences.
fn cells(difference: &Difference) -> [String; 5] {
    // An exit status or a signal that is absent is known to be absent.
    let without = if difference.state == DifferenceState::Beyond { "none" } else { UNKNOWN };
    let shown = |figure: Option<u64>| figure.map_or_else(|| without.to_owned(), |figure| figure.to_string());
    let unit = if is_time(&difference.metric) { " (ns)" } else { "" };
    let state = match difference.state {
        DifferenceState::Beyond => "differs",
        DifferenceState::Tolerated => "tolerated",
        DifferenceState::Unknown => "unknown",
    };
    let name = format!("{}{unit}", difference.metric);
    [name, shown(difference.baseline), shown(difference.now), difference.tolerance.clone(), state.to_owned()]
}

/// All problems as text, with the command that shows the whole report. Empty if the check passed.
fn problem_text(check: &CheckResult) -> String {
    if check.status == Status::Passed {
        return String::new();
    }
    let mut lines = Vec::new();
    for problem in problems(check) {
        lines.push(problem.title);
        lines.extend(problem.lines.into_iter().map(|line| format!("  {line}")));
    }
    if !check.stderr.is_empty() {
        lines.push("last lines of stderr:".to_owned());
        lines.extend(stderr_lines(check).map(|line| format!("  {line}")));
    }
    lines.push(format!("the whole report: {}", check.show));
    lines.join("\n")
}
