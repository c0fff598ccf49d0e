//! What is wrong with a check, in lines that every format shows in its way.

use crate::{
    check::{CheckResult, Difference, DifferenceState, Status},
    expect::{Finding, Verdict},
    render::{ruled, text::escape, units::UNKNOWN},
};

/// One thing that is wrong.
pub(super) struct Problem {
    /// What, in one line.
    pub(super) title: String,
    /// What was found.
    pub(super) lines: Vec<String>,
}

/// Everything that is wrong with a check.
pub(super) fn of(check: &CheckResult) -> Vec<Problem> {
    let error = check.error.iter().map(|error| Problem { title: format!("could not be run: {error}"), lines: Vec::new() });
    let unmet = check.expectations.iter().filter(|result| result.outcome.verdict != Verdict::Holds).map(|result| {
        let outcome = &result.outcome;
        let run = if check.runs > 1 { format!(" (in run {} of {})", result.run, check.runs) } else { String::new() };
        let title = format!("{}: {}{run}", outcome.verdict.name(), outcome.expectation);
        Problem { title, lines: outcome.decisive().flat_map(lines).collect() }
    });
    error.chain(unmet).chain(differences(check)).map(Problem::escaped).collect()
}

/// What was found, and below it the nearest facts.
fn lines(finding: &Finding) -> Vec<String> {
    let reason = finding.reason.iter().map(|reason| format!(" ({reason})"));
    let found = finding.found.clone() + &reason.collect::<String>();
    std::iter::once(found).chain(finding.facts.iter().map(|fact| format!("  {fact}"))).collect()
}

impl Problem {
    /// Names of programs and files can be anything.
    fn escaped(self) -> Self {
        Self { title: escape(&self.title), lines: self.lines.iter().map(|line| escape(line)).collect() }
    }
}

/// The last lines of stderr, as they can be shown.
pub(super) fn stderr(check: &CheckResult) -> impl Iterator<Item = String> {
    check.stderr.iter().map(|line| escape(line))
}

/// What differs from the baseline by more than it may, and what is not known.
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
    let mut table = ruled::table();
    table.set_header(HEAD);
    for difference in wrong {
        table.add_row(cells(difference));
    }
    ruled::align(&mut table);
    Some(Problem { title, lines: ruled::lines(&table) })
}

/// The columns of a table of differences.
const HEAD: [&str; 5] = ["figure", "baseline", "now", "tolerance", ""];

/// A row of that table.
fn cells(difference: &Difference) -> [String; 5] {
    // A status, or a signal, that there was not is known.
    let without = if difference.state == DifferenceState::Beyond { "none" } else { UNKNOWN };
    let shown = |figure: Option<u64>| figure.map_or_else(|| without.to_owned(), |figure| figure.to_string());
    let unit = if difference.metric.starts_with("time.") { " (ns)" } else { "" };
    let state = match difference.state {
        DifferenceState::Beyond => "differs",
        DifferenceState::Tolerated => "tolerated",
        DifferenceState::Unknown => "unknown",
    };
    let name = format!("{}{unit}", difference.metric);
    [name, shown(difference.baseline), shown(difference.now), difference.tolerance.clone(), state.to_owned()]
}

/// All of it, with how to see more; empty if nothing is wrong.
pub(super) fn text(check: &CheckResult) -> String {
    if check.status == Status::Passed {
        return String::new();
    }
    let mut lines = Vec::new();
    for problem in of(check) {
        lines.push(problem.title);
        lines.extend(problem.lines.into_iter().map(|line| format!("  {line}")));
    }
    if !check.stderr.is_empty() {
        lines.push("last lines of stderr:".to_owned());
        lines.extend(stderr(check).map(|line| format!("  {line}")));
    }
    lines.push(format!("the whole report: {}", check.show));
    lines.join("\n")
}
