//! A tree and a report -> whether it holds, and what was found.

use super::{
    Expectation, Inferred,
    ast::{Comparison, Expr},
    figures::{self, Measured},
    outcome::{Finding, NotCounted, Outcome, Verdict},
};
use crate::report::Report;

/// Whether an expectation holds of a report.
pub(super) fn evaluate(expectation: &Expectation, report: &Report, inferred: Inferred) -> Result<Outcome, NotCounted> {
    let mut evaluation = Evaluation { text: &expectation.text, report, inferred, findings: Vec::new() };
    let verdict = evaluation.expr(&expectation.expr, false)?;
    Ok(Outcome { expectation: expectation.text.clone(), verdict, findings: evaluation.findings })
}

struct Evaluation<'a> {
    text: &'a str,
    report: &'a Report,
    inferred: Inferred,
    findings: Vec<Finding>,
}

impl Evaluation<'_> {
    /// A `not` goes down to the comparisons: what does not exist fails either way.
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
