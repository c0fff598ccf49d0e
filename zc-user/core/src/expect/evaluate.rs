//! Evaluates an expectation on a report: whether it holds, and what was found.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{
    ast::{Comparison, Expr},
    facts::Measured,
    figures,
    known::{Inferred, Verdict},
    lexer::{SyntaxError, pointer},
};
use crate::report::Report;

/// Evaluates an expectation, which was written as this text, on a report.
pub(super) fn evaluate(text: &str, expr: &Expr, report: &Report, inferred: Inferred) -> Result<Outcome, NotCounted> {
    let mut evaluation = Evaluation { text, report, inferred, findings: Vec::new() };
    let verdict = evaluation.expr(expr, false)?;
    Ok(Outcome { expectation: text.to_owned(), verdict, findings: evaluation.findings })
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
                let verdicts = parts.iter().map(|part| self.expr(part, is_negated)).collect::<Result<Vec<_>, _>>()?;
                let needs_all = matches!(expr, Expr::All(_)) != is_negated;
                let verdicts = verdicts.into_iter();
                Ok(if needs_all { Verdict::all(verdicts) } else { Verdict::any(verdicts) })
            }
        }
    }

    fn comparison(&mut self, comparison: &Comparison, is_negated: bool) -> Result<Verdict, NotCounted> {
        let figure = &comparison.figure;
        let measured = match self.report.directory.as_deref() {
            Some(directory) => figures::measure(&figure.below(directory), self.report, self.inferred),
            None => figures::measure(figure, self.report, self.inferred),
        };
        let Measured { known, reason, facts } =
            measured.map_err(|calls| NotCounted { calls, text: self.text.to_owned(), at: figure.at.0 })?;
        let verdict = known.passes(&comparison.test, is_negated);
        self.findings.push(Finding {
            comparison: if is_negated { format!("not {comparison}") } else { comparison.to_string() },
            verdict,
            found: format!("{figure} {}", known.describe(figure.dimension())),
            reason,
            facts,
        });
        Ok(verdict)
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
}

impl Outcome {
    /// The findings that decided the verdict.
    pub fn decisive(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.verdict == self.verdict)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict.name(), self.expectation)?;
        for finding in self.decisive() {
            write!(f, "\n  {}", finding.found)?;
            finding.reason.iter().try_for_each(|reason| write!(f, " ({reason})"))?;
            finding.facts.iter().try_for_each(|fact| write!(f, "\n    {fact}"))?;
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
        let more = if self.calls.len() > MOST { format!(" and {} more", self.calls.len() - MOST) } else { String::new() };
        let named = self.calls[..self.calls.len().min(MOST)].join(", ");
        let were = if self.calls.len() == 1 { "was" } else { "were" };
        format!("{named}{more} {were} not counted in this run, so nothing is known about it: select it with --syscalls")
    }
}

impl std::error::Error for NotCounted {}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message(), pointer(&self.text, self.at))
    }
}

/// Why an expectation does not hold. `Debug` is the same as `Display`, for tests that return it as an error.
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
