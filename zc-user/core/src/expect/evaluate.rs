//! Evaluates an expectation on a report: reads its figures, and says whether it holds and what was
//! found. Figures of processes and of the run are read here, those of calls and of transfers in
//! `calls.rs` and `transfers.rs`.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{
    ast::{Comparison, Expr, Figure, FigureSubject},
    calls,
    facts::{ChosenProcesses, MeasuredFigure, why_inexact},
    known::{Inferred, KnownFigure, Verdict},
    tokens::{SyntaxError, pointer},
    transfers,
    unmatched::unmatched,
};
use crate::figures::list::{FigureField, FigureGroup, of_run, of_usage};
use crate::{
    report::{Exit, Process, Report},
    signal,
};

/// Evaluates an expectation, which was written as this text, on a report.
pub(super) fn evaluate(
    text: &str,
    expr: &Expr,
    report: &Report,
    inferred: Inferred,
) -> Result<Outcome, NotCounted> {
    let mut evaluation = Evaluation {
        text,
        report,
        inferred,
        findings: Vec::new(),
    };
    let verdict = evaluation.expr(expr, false)?;
    Ok(Outcome {
        expectation: text.to_owned(),
        verdict,
        findings: evaluation.findings,
    })
}

struct Evaluation<'a> {
    text: &'a str,
    report: &'a Report,
    inferred: Inferred,
    findings: Vec<Finding>,
}

impl Evaluation<'_> {
    /// Passes a `not` down to the comparisons, since a figure that does not exist fails either way.
    fn expr(&mut self, expr: &Expr, is_negated: bool) -> Result<Verdict, NotCounted> {
        match expr {
            Expr::Comparison(comparison) => self.comparison(comparison, is_negated),
            Expr::Not(inner) => self.expr(inner, !is_negated),
            Expr::All(parts) | Expr::Any(parts) => {
                let verdicts = parts
                    .iter()
                    .map(|part| self.expr(part, is_negated))
                    .collect::<Result<Vec<_>, _>>()?;
                let needs_all = matches!(expr, Expr::All(_)) != is_negated;
                let verdicts = verdicts.into_iter();
                Ok(if needs_all {
                    Verdict::all(verdicts)
                } else {
                    Verdict::any(verdicts)
                })
            }
        }
    }

    fn comparison(
        &mut self,
        comparison: &Comparison,
        is_negated: bool,
    ) -> Result<Verdict, NotCounted> {
        let figure = &comparison.figure;
        let from_root = self
            .report
            .directory
            .as_deref()
            .map_or_else(|| figure.clone(), |directory| figure.below(directory));
        let MeasuredFigure {
            known,
            reason,
            facts,
        } = measure(&from_root, self.report, self.inferred).map_err(|calls| NotCounted {
            calls,
            text: self.text.to_owned(),
            at: figure.at,
        })?;
        let verdict = known.passes(&comparison.test, is_negated);
        self.findings.push(Finding {
            comparison: if is_negated {
                format!("not {}", one_line(&comparison.text))
            } else {
                one_line(&comparison.text)
            },
            verdict,
            found: format!(
                "{} {}",
                one_line(&figure.text),
                known.describe(figure.unit())
            ),
            reason,
            facts,
            unmatched: unmatched(&from_root, self.report),
        });
        Ok(verdict)
    }
}

/// What was written on several lines, on one.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
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
    /// The patterns of files and paths that match none of the report, each as a sentence that names
    /// the nearest one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
}

impl Outcome {
    /// The findings that decided the verdict.
    pub fn decisive(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.verdict == self.verdict)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict.name(), self.expectation)?;
        for finding in self.decisive() {
            write!(f, "\n  {}", finding.found)?;
            finding
                .reason
                .iter()
                .try_for_each(|reason| write!(f, " ({reason})"))?;
            finding
                .facts
                .iter()
                .chain(&finding.unmatched)
                .try_for_each(|fact| write!(f, "\n    {fact}"))?;
        }
        Ok(())
    }
}

/// An expectation names calls that the run did not count. Nothing is known about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCounted {
    /// The calls.
    pub calls: Vec<String>,
    pub(super) text: String,
    pub(super) at: usize,
}

impl NotCounted {
    /// What is wrong, in one line.
    pub fn message(&self) -> String {
        /// How many calls of a class the message names.
        const MOST: usize = 3;
        let more = if self.calls.len() > MOST {
            format!(" and {} more", self.calls.len() - MOST)
        } else {
            String::new()
        };
        let named = self.calls[..self.calls.len().min(MOST)].join(", ");
        let were = if self.calls.len() == 1 { "was" } else { "were" };
        format!(
            "{named}{more} {were} not counted in this run, so nothing is known about it: select it with --syscalls"
        )
    }
}

impl std::error::Error for NotCounted {}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message(), pointer(&self.text, self.at))
    }
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

/// Reads a figure from a report. The error names calls that were not counted.
fn measure(
    figure: &Figure,
    report: &Report,
    inferred: Inferred,
) -> Result<MeasuredFigure, Vec<String>> {
    match &figure.subject {
        FigureSubject::Call(_) | FigureSubject::Class(_) | FigureSubject::AllCalls => {
            calls::measure(figure, report)
        }
        FigureSubject::Transfer(from, to) => {
            Ok(transfers::measure(figure, [from, to], report, inferred))
        }
        FigureSubject::Run(FigureGroup::Exit) => Ok(of_exit(figure.field, report)),
        FigureSubject::Run(_) => Ok(of_processes_or_run(figure, report)),
    }
}

/// A figure of the whole run, or a sum over some of its processes.
fn of_processes_or_run(figure: &Figure, report: &Report) -> MeasuredFigure {
    let (sum, open) = match ChosenProcesses::of_figure(figure, report) {
        ChosenProcesses::None(_) if figure.field == FigureField::Count => {
            return MeasuredFigure::plain(KnownFigure::exactly(0));
        }
        ChosenProcesses::None(why) => return MeasuredFigure::plain(KnownFigure::Missing(why)),
        ChosenProcesses::Unknown(why) => return MeasuredFigure::unknown(why),
        ChosenProcesses::All => (of_run(figure.field, report), why_inexact(report)),
        ChosenProcesses::Chosen(chosen, open) => (of_processes(figure.field, &chosen), open),
    };
    let Some(sum) = sum else {
        return MeasuredFigure::unknown(format!("the backend {} does not know it", report.backend));
    };
    let high = open.is_none().then(|| sum.into());
    MeasuredFigure {
        known: KnownFigure::Between(sum.into(), high),
        reason: open,
        facts: Vec::new(),
    }
}

fn of_processes(field: FigureField, processes: &[&Process]) -> Option<u64> {
    let mut parts = processes.iter().map(|process| of_process(field, process));
    parts.try_fold(0, |sum: u64, part| sum.checked_add(part?))
}

fn of_process(field: FigureField, process: &Process) -> Option<u64> {
    match field {
        FigureField::Count => Some(1),
        FigureField::Threads => Some(process.threads),
        field => of_usage(field, &process.usage),
    }
}

/// How the command ended. That is known even if counts are not exact.
fn of_exit(field: FigureField, report: &Report) -> MeasuredFigure {
    let Exit { code, signal } = report.exit;
    MeasuredFigure::plain(match (of_run(field, report), code, signal) {
        (Some(figure), ..) => KnownFigure::exactly(figure),
        (None, _, Some(signal)) => {
            KnownFigure::Absent(format!("{} killed the command", signal::name(signal)))
        }
        (None, Some(code), None) => {
            KnownFigure::Absent(format!("the command ended with status {code}"))
        }
        (None, None, None) => {
            return MeasuredFigure::unknown("the report does not say how the command ended");
        }
    })
}
