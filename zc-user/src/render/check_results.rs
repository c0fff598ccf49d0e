//! `zctrace check`: the results for a person, and in the formats for CI: `JUnit`'s XML, annotations
//! of GitHub Actions, Markdown.

use std::time::Duration;

use clap::ValueEnum;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{
    diff_page::table_of_figures,
    markdown::{self, escape_markdown, fence_of},
    page::{INDENT, Options, Page, Piece, Style},
    table::{ListColumn, STAYS, ShownTable},
    text::{command_line, escape, json},
};
use crate::{
    check::{
        CheckResult, ControlResult, Difference, DifferenceState, Repeatability, Results, Status,
        Varying, is_time,
    },
    expect::{Finding, Verdict},
    units,
};

#[cfg(test)]
mod format_tests;

/// A format of the results of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// Text.
    #[default]
    Text,
    /// All results, with a versioned schema.
    Json,
    /// JUnit XML, for GitLab and Jenkins.
    Junit,
    /// Annotations for GitHub Actions, which `text` also writes there.
    Github,
    /// GitHub Markdown, for a comment or a job summary.
    Markdown,
}

/// The results in this format. They end in a newline.
pub fn check(results: &Results, format: CheckFormat, options: &Options) -> String {
    match format {
        CheckFormat::Text => page(results, options),
        CheckFormat::Json => json(results),
        CheckFormat::Junit => junit(results),
        CheckFormat::Github => annotations(results),
        CheckFormat::Markdown => in_markdown(results),
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
    let style = if results.exit_status() == 0 && results.interrupted.is_none() {
        Style::Good
    } else {
        Style::Bad
    };
    page.say(0, style, &results.summary_line());
    page.finish()
}

/// What marks a status: a word, padded to the same width, with its style, and a coloured symbol.
const fn mark(status: Status) -> (&'static str, Style, &'static str) {
    match status {
        Status::Passed => ("ok    ", Style::Good, "✅"),
        Status::Failed => ("FAILED", Style::Bad, "❌"),
        Status::NoResult => ("ERROR ", Style::Bad, "💥"),
        Status::Inconclusive => ("?     ", Style::Warning, "❔"),
    }
}

fn write_check(page: &mut Page, check: &CheckResult) {
    let (mark, style, _) = mark(check.status);
    let runs = if check.runs > 1 {
        format!("{} runs, ", check.runs)
    } else {
        String::new()
    };
    let time = format!("({runs}{})", units::duration(check.duration_ns));
    let pieces = [
        (mark.to_owned(), style),
        (escape(&check.name), Style::Plain),
        (time, Style::Faint),
    ];
    page.flow(0, &pieces.map(|(text, style)| Piece::new(text, style)));
    for note in notes(check) {
        page.say(INDENT, Style::Faint, &note);
    }
    for detail in details(check) {
        page.wrap(INDENT + detail.indent, detail.style, &detail.text);
    }
    if check.status != Status::Passed {
        page.unbroken(INDENT, Style::Faint, &whole_report(check));
    }
}

/// What is said of a check beside its problems, in one line each.
fn notes(check: &CheckResult) -> Vec<String> {
    let mut notes = Vec::new();
    let tolerated = check.differences.iter();
    let tolerated: Vec<&str> = tolerated
        .filter(|difference| difference.state == DifferenceState::Tolerated)
        .map(|difference| difference.metric.as_str())
        .collect();
    if !tolerated.is_empty() {
        notes.push(format!("within their tolerance: {}", tolerated.join(", ")));
    }
    notes.extend(check.fallback.as_deref().map(escape));
    let figures = check.figures.iter().filter(|figures| figures.runs > 1);
    notes.extend(figures.flat_map(repeated_figures));
    let controls = check.control.iter();
    let as_it_must = controls.filter(|control| control.status == Status::Passed);
    notes.extend(as_it_must.map(|control| {
        let command = escape(&command_line(&control.command));
        format!("an expectation fails for the control command, as it must: {command}")
    }));
    notes
}

/// The figures that were the same in all runs, and those that varied.
fn repeated_figures(figures: &Repeatability) -> Vec<String> {
    /// Limit for the figures that are named; JSON has all.
    const MAX_NAMED: usize = 12;
    let show = |name: &str, figure: u64| {
        if is_time(name) {
            units::duration(figure)
        } else {
            figure.to_string()
        }
    };
    // That a call never failed says little.
    let told = figures
        .same
        .iter()
        .filter(|(name, figure)| **figure > 0 || !name.ends_with(".errors"));
    let mut same: Vec<String> = told
        .map(|(name, &figure)| format!("{name} {}", show(name, figure)))
        .collect();
    let more = same.len().saturating_sub(MAX_NAMED);
    same.truncate(MAX_NAMED);
    same.extend((more > 0).then(|| format!("and {more} more")));
    let bound = if figures.exact {
        ""
    } else {
        " (others are lower bounds)"
    };
    let (runs, same) = (figures.runs, same.join(", "));
    let mut lines = vec![format!("the same in all {runs} runs{bound}: {same}")];
    let varying: Vec<String> = figures
        .varying
        .iter()
        .map(|Varying { name, min, max }| {
            format!("{name} {}..{}", show(name, *min), show(name, *max))
        })
        .collect();
    lines.extend((!varying.is_empty()).then(|| format!("varying: {}", varying.join(", "))));
    lines
}

/// A line about what is wrong with a check, as every format shows it.
struct DetailLine {
    indent: usize,
    style: Style,
    text: String,
}

impl DetailLine {
    /// A line without control characters.
    fn new(indent: usize, style: Style, text: &str) -> Self {
        let line = text.trim_start();
        Self {
            indent: indent + text.len() - line.len(),
            style,
            text: escape(line),
        }
    }
}

/// All problems of a check: a title each, and what was found.
fn problems(check: &CheckResult) -> Vec<DetailLine> {
    let (_, style, _) = mark(check.status);
    let mut problems = Vec::new();
    let mut add = |title: &str, found: &[String]| {
        problems.push(DetailLine::new(0, style, title));
        let found = found.iter();
        problems.extend(found.map(|line| DetailLine::new(INDENT, Style::Plain, line)));
    };
    if let Some(error) = &check.error {
        add(&format!("without a result: {error}"), &[]);
    }
    for result in &check.expectations {
        let outcome = &result.outcome;
        if outcome.verdict == Verdict::Holds {
            continue;
        }
        let run = if check.runs > 1 {
            format!(" (in run {} of {})", result.run, check.runs)
        } else {
            String::new()
        };
        let title = format!("{}: {}{run}", outcome.verdict.name(), outcome.expectation);
        let found: Vec<String> = outcome
            .decisive_findings()
            .flat_map(finding_lines)
            .collect();
        add(&title, &found);
    }
    if let Some((title, found)) = check.control.as_ref().and_then(control_problem) {
        add(&title, &found);
    }
    if let Some((title, table)) = differences(check) {
        add(&title, &table);
    }
    problems
}

/// Why the control command of a check does not show that it can fail: a title, and what was found.
fn control_problem(control: &ControlResult) -> Option<(String, Vec<String>)> {
    let command = command_line(&control.command);
    let title = match control.status {
        Status::Passed => return None,
        Status::Failed => format!(
            "this check cannot fail: its expectations hold for the control command as well: {command}"
        ),
        Status::NoResult => format!(
            "the control command has no result: {command}: {}",
            control.error.as_deref().unwrap_or_default()
        ),
        Status::Inconclusive => {
            format!("inconclusive: no expectation fails for the control command: {command}")
        }
    };
    let outcomes = control.expectations.iter().map(|result| &result.outcome);
    let unknown = outcomes.filter(|outcome| outcome.verdict == Verdict::Inconclusive);
    let found = unknown.flat_map(|outcome| outcome.decisive_findings().flat_map(finding_lines));
    Some((title, found.collect()))
}

/// All problems of a check, why it is expected, and the end of its stderr.
fn details(check: &CheckResult) -> Vec<DetailLine> {
    let mut details = problems(check);
    let why = check
        .why
        .as_ref()
        .filter(|_| check.status != Status::Passed);
    details.extend(why.map(|why| DetailLine::new(0, Style::Plain, &format!("why: {why}"))));
    if check.status != Status::Passed && !check.stderr.is_empty() {
        let title = "last lines of stderr:";
        details.push(DetailLine::new(0, Style::Faint, title));
        let lines = check.stderr.iter();
        details.extend(lines.map(|line| DetailLine::new(INDENT, Style::Faint, line)));
    }
    details
}

/// The command that shows the whole report.
fn whole_report(check: &CheckResult) -> String {
    format!("the whole report: {}", check.show)
}

/// What was found, and the closest facts below it.
fn finding_lines(finding: &Finding) -> Vec<String> {
    let reason = finding.reason.iter().map(|reason| format!(" ({reason})"));
    let found = finding.found.clone() + &reason.collect::<String>();
    std::iter::once(found)
        .chain(
            finding
                .facts
                .iter()
                .chain(&finding.unmatched)
                .map(|fact| format!("  {fact}")),
        )
        .collect()
}

/// Figures that differ from the baseline by more than their tolerance, and those that are unknown: a
/// title and a table.
fn differences(check: &CheckResult) -> Option<(String, Vec<String>)> {
    let wrong: Vec<&Difference> = check
        .differences
        .iter()
        .filter(|difference| difference.state != DifferenceState::Tolerated)
        .collect();
    let beyond = wrong
        .iter()
        .filter(|difference| difference.state == DifferenceState::Beyond)
        .count();
    let title = match (beyond, wrong.len()) {
        (_, 0) => return None,
        (0, _) => "inconclusive: figures cannot be compared with the baseline".to_owned(),
        (1, _) => "1 figure differs from the baseline".to_owned(),
        _ => format!("{beyond} figures differ from the baseline"),
    };
    let table = table_of_figures(wrong, ["baseline", "now"], true);
    Some((title, table.lines(None)))
}

/// All problems as text, with the command that shows the whole report. Empty if the check passed.
fn problem_text(check: &CheckResult) -> String {
    if check.status == Status::Passed {
        return String::new();
    }
    let details = details(check).into_iter();
    let lines = details.map(|line| format!("{}{}", " ".repeat(line.indent), line.text));
    let lines: Vec<String> = lines.chain([whole_report(check)]).collect();
    lines.join("\n")
}

/// `JUnit`'s XML: a case for each check, and one that says that a signal ended them.
fn junit(results: &Results) -> String {
    let mut suite = TestSuite::new("zctrace check");
    suite.add_test_cases(results.checks.iter().map(case));
    if let Some(signal) = &results.interrupted {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status
            .set_message(results.summary_line())
            .set_type("interrupted");
        let mut case = TestCase::new(format!("interrupted by {signal}"), status);
        case.set_classname("zctrace");
        suite.add_test_case(case);
    }
    suite.set_time(results.checks.iter().map(time).sum());
    let mut report = Report::new("zctrace");
    report.set_time(results.checks.iter().map(time).sum());
    report.add_test_suite(suite);
    let mut text = report.to_string().expect("memory takes it");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn time(check: &CheckResult) -> Duration {
    Duration::from_nanos(check.duration_ns)
}

fn case(check: &CheckResult) -> TestCase {
    let status = match check.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Failed => non_success(NonSuccessKind::Failure, check),
        // An unknown result is not a failure of the command.
        Status::NoResult | Status::Inconclusive => non_success(NonSuccessKind::Error, check),
    };
    let mut case = TestCase::new(escape(&check.name), status);
    case.set_classname("zctrace").set_time(time(check));
    if let Some(fallback) = &check.fallback {
        case.set_system_out(escape(fallback));
    }
    case
}

fn non_success(kind: NonSuccessKind, check: &CheckResult) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let titles = problems(check).into_iter().filter(|line| line.indent == 0);
    let titles: Vec<String> = titles.map(|line| line.text).collect();
    status
        .set_message(titles.join("; "))
        .set_type(check.status.name())
        .set_description(problem_text(check));
    status
}

/// Annotations that GitHub Actions shows next to the log: a workflow command for each check that did
/// not pass, and one that says why strace counted.
pub fn annotations(results: &Results) -> String {
    let wrong = results
        .checks
        .iter()
        .filter(|check| check.status != Status::Passed);
    let fallback = fallback(results).map(|why| {
        let why = data(&escape(why));
        format!("::notice title=zctrace::{why}\n")
    });
    wrong.map(annotation).chain(fallback).collect()
}

/// Why strace counted, if it did so for want of eBPF: all checks run on one machine.
fn fallback(results: &Results) -> Option<&str> {
    let mut checks = results.checks.iter();
    checks.find_map(|check| check.fallback.as_deref())
}

/// Text for the log of GitHub Actions in which no line is a workflow command. The runner takes `::`
/// after leading spaces for one, and `##[` anywhere in a line (actions/runner,
/// `src/Runner.Common/ActionCommand.cs`).
pub fn escape_workflow_commands(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("{}: :{rest}", &line[..line.len() - line.trim_start().len()]),
        None => line.to_owned(),
    };
    text.split('\n')
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
        .replace("##[", "## [")
}

/// The annotation of one check. An inconclusive one is a warning. The runner makes an absolute path
/// relative to the repository (actions/runner, `src/Runner.Worker/ActionCommandManager.cs`).
fn annotation(check: &CheckResult) -> String {
    let level = if check.status == Status::Inconclusive {
        "warning"
    } else {
        "error"
    };
    let title = property(&format!(
        "check '{}' {}",
        escape(&check.name),
        verb(check.status)
    ));
    let file = check
        .file
        .as_ref()
        .map(|file| format!("file={},", property(&escape(file))));
    let line = check.line.map(|line| format!("line={line},"));
    format!(
        "::{level} {}{}title={title}::{}\n",
        file.unwrap_or_default(),
        line.unwrap_or_default(),
        data(&problem_text(check))
    )
}

const fn verb(status: Status) -> &'static str {
    match status {
        Status::Inconclusive => "is inconclusive",
        status => status.name(),
    }
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property of a workflow command, which ends at a colon or a comma.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// GitHub's Markdown: a table of all checks, then the problems.
fn in_markdown(results: &Results) -> String {
    let summary = escape_markdown(&results.summary_line());
    let mut blocks = vec![format!("### zctrace: {summary}")];
    if !results.checks.is_empty() {
        let table = ShownTable::of_list(&OF_CHECKS, &results.checks);
        blocks.push(markdown::table(&table));
    }
    blocks.extend(fallback(results).map(escape_markdown));
    for check in &results.checks {
        if check.status != Status::Passed {
            blocks.push(format!("**{}**", markdown::code(&check.name)));
            blocks.push(fenced(&problem_text(check)));
        }
    }
    blocks.join("\n\n") + "\n"
}

const OF_CHECKS: [ListColumn<CheckResult>; 4] = [
    ("check", STAYS, |check| escape(&check.name)),
    ("result", STAYS, |check| {
        format!("{} {}", mark(check.status).2, check.status.name())
    }),
    ("expectations", STAYS, |check| {
        check.expectations.len().to_string()
    }),
    ("time", STAYS, |check| units::duration(check.duration_ns)),
];

/// A code block.
fn fenced(text: &str) -> String {
    let fence = fence_of(text, 3);
    format!("{fence}text\n{text}\n{fence}")
}
