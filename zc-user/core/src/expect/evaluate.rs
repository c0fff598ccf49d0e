//! Evaluates an expectation on a report: reads its figures, and says whether it holds and what was
//! found. Figures of processes and of the run are read here, those of calls and of transfers in
//! `calls.rs` and `transfers.rs`.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{
    Expectation,
    ast::{ComparisonExpr, Expr, FigureExpr, FigureSubject, NONE},
    calls, descriptors,
    facts::{ChosenProcesses, MeasuredFigure, why_inexact},
    known::{Inferred, KnownFigure, Premises, Verdict},
    syncs,
    tokens::SyntaxError,
    touches, transfers,
    unmatched::{self, unmatched_selectors},
};
use crate::figures::list::{FigureField, FigureGroup, of_run, of_usage};
use crate::{
    report::{Process, Report},
    signal,
    text::first_of,
    units::sum_all,
};

/// Evaluates an expectation on a report.
pub(super) fn evaluate(
    expectation: &Expectation,
    report: &Report,
    premises: &Premises,
) -> Result<Outcome, NotCounted> {
    for figure in expectation.expr.all_figures() {
        let calls = calls::uncounted_calls(figure, report);
        if !calls.is_empty() {
            let error = SyntaxError::at_offset(figure.at, why_not_counted(&calls));
            let error = error.in_text(&expectation.text);
            return Err(NotCounted { calls, error });
        }
    }
    let mut findings = Vec::new();
    let verdict = judge_expr(&expectation.expr, report, premises, &mut findings);
    Ok(Outcome {
        expectation: expectation.text.clone(),
        verdict,
        findings,
    })
}

/// The verdict on a condition. Adds what was found for each of its comparisons.
fn judge_expr(
    expr: &Expr,
    report: &Report,
    premises: &Premises,
    findings: &mut Vec<Finding>,
) -> Verdict {
    let of_part = |part| judge_expr(part, report, premises, findings);
    match expr {
        Expr::All(parts) => parts.iter().map(of_part).max().unwrap_or(Verdict::Holds),
        Expr::Any(parts) => parts.iter().map(of_part).min().unwrap_or(Verdict::Fails),
        Expr::Comparison(comparison) => {
            let finding = Finding::new(comparison, report, premises);
            let verdict = finding.verdict;
            findings.push(finding);
            verdict
        }
    }
}

/// The outcome of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The expectation, as it was written.
    pub expectation: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// One finding for each of its comparisons.
    pub findings: Vec<Finding>,
}

/// What was found for a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The comparison, with its `not` if it has one.
    pub comparison: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found, as a clause: "write.calls is 3".
    pub found: String,
    /// Why no more is known, if that matters.
    pub reason: Option<String>,
    /// The most closely related facts of the report: rows, or transfers with their failed attempts.
    pub facts: Vec<String>,
    /// The selectors that nothing matches, each as a sentence that names the nearest one. They make
    /// a comparison inconclusive, unless [`Premises::may_match_nothing`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
}

impl Finding {
    fn new(comparison: &ComparisonExpr, report: &Report, premises: &Premises) -> Self {
        let figure = &comparison.figure;
        let from_root = match &report.directory {
            Some(directory) => figure.in_directory(directory),
            None => figure.clone(),
        };
        let measured = measure_figure(&from_root, report, premises.inferred);
        let known = measured.known;
        let mut finding = Self {
            comparison: comparison.text.clone(),
            verdict: known.judge_against(&comparison.wanted, comparison.is_negated),
            found: match &figure.subject {
                FigureSubject::Durable(..) => syncs::describe_syncs(&figure.text, &known),
                FigureSubject::Touches(..) => touches::describe_touches(&figure.text, &known),
                _ => format!("{} {}", figure.text, known.describe_in(figure.unit)),
            },
            reason: measured.reason,
            facts: measured.facts,
            unmatched: Vec::new(),
        };
        if !premises.may_match_nothing {
            finding.unmatched = unmatched_selectors(&from_root, report, premises);
        }
        if !finding.unmatched.is_empty() && finding.verdict != Verdict::Inconclusive {
            finding.verdict = Verdict::Inconclusive;
            finding.reason = Some(unmatched::REASON.to_owned());
        }
        finding
    }
}

impl Outcome {
    /// The findings that decided the verdict.
    pub fn decisive_findings(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.verdict == self.verdict)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict.name(), self.expectation)?;
        for finding in self.decisive_findings() {
            write!(f, "\n  {}", finding.found)?;
            if let Some(reason) = &finding.reason {
                write!(f, " ({reason})")?;
            }
            for line in finding.facts.iter().chain(&finding.unmatched) {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

/// An expectation names calls that the run did not count. Nothing is known about them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{error}")]
pub struct NotCounted {
    /// The calls.
    pub calls: Vec<String>,
    /// What is wrong, and where the expectation names them.
    error: SyntaxError,
}

impl NotCounted {
    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        self.error.message()
    }
}

fn why_not_counted(calls: &[String]) -> String {
    /// How many calls of a class the message names.
    const MAX_NAMED: usize = 3;
    let named = first_of(calls, MAX_NAMED);
    let were = if calls.len() == 1 { "was" } else { "were" };
    format!(
        "{named} {were} not counted in this run, so nothing is known about it: select it with --syscalls"
    )
}

/// Why an expectation does not hold. `Debug` is the same as `Display`, for tests that return it as
/// an error.
#[derive(Error)]
pub enum ExpectError {
    /// The text has a mistake.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It names calls that were not counted.
    #[error(transparent)]
    NotCounted(#[from] NotCounted),
    /// It does not hold.
    #[error("{0}")]
    Fails(Outcome),
    /// The report does not know enough.
    #[error("{0}")]
    Inconclusive(Outcome),
}

impl fmt::Debug for ExpectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a figure from a report.
fn measure_figure(figure: &FigureExpr, report: &Report, inferred: Inferred) -> MeasuredFigure {
    match &figure.subject {
        FigureSubject::Calls(names) if let Some(to) = &figure.selectors.to => {
            touches::measure_calls(figure, names, to, report)
        }
        FigureSubject::Touches(kind, allowed) => touches::measure_outside(*kind, allowed, report),
        FigureSubject::Descriptors => descriptors::measure_descriptors(figure, report),
        FigureSubject::Calls(names) => calls::measure_calls(figure, names, report),
        FigureSubject::Transfer(from, to) => {
            transfers::measure_transfers(figure, [from, to], report, inferred)
        }
        FigureSubject::Syncs(glob) => syncs::measure_syncs(figure.field, glob, report),
        FigureSubject::Durable(glob, point) => syncs::measure_unsynced(glob, point, report),
        FigureSubject::Run(FigureGroup::Exit) => of_exit(figure.field, report),
        FigureSubject::Run(_) => of_processes_or_run(figure, report),
    }
}

/// A figure of the whole run, or a sum over some of its processes.
fn of_processes_or_run(figure: &FigureExpr, report: &Report) -> MeasuredFigure {
    let chosen = ChosenProcesses::of_figure(figure, report);
    let of_process = |process: &Process| match figure.field {
        FigureField::Count => Some(1),
        FigureField::Threads => Some(process.threads),
        field => of_usage(field, &process.usage),
    };
    let sum = if chosen.are_by_name {
        sum_all(chosen.processes.iter().map(|process| of_process(process)))
    } else {
        of_run(figure.field, report)
    };
    let Some(sum) = sum else {
        let why = format!("the backend {} does not know it", report.backend);
        return MeasuredFigure::unknown_because(why);
    };
    let reason = chosen.open.or(why_inexact(report));
    MeasuredFigure {
        known: KnownFigure::at_least(sum, reason.is_none()),
        reason,
        facts: Vec::new(),
    }
}

/// How the command ended. That is known even if counts are not exact.
fn of_exit(field: FigureField, report: &Report) -> MeasuredFigure {
    let killer = report.exit.signal.map(signal::name);
    let why = match (&killer, report.exit.code) {
        (Some(signal), _) => format!("{signal} killed the command"),
        (None, Some(code)) => format!("the command ended with status {code}"),
        (None, None) => {
            return MeasuredFigure::unknown_because(
                "the report does not say how the command ended",
            );
        }
    };
    if field == FigureField::Signal {
        return MeasuredFigure {
            reason: killer.is_none().then_some(why),
            ..MeasuredFigure::without_facts(KnownFigure::Words {
                words: vec![killer.unwrap_or_else(|| NONE.to_owned())],
                are_all: true,
            })
        };
    }
    MeasuredFigure::without_facts(match of_run(field, report) {
        Some(figure) => KnownFigure::exactly(figure),
        None => KnownFigure::Absent(why),
    })
}
