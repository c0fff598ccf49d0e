//! What comes of an expectation.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use super::{SyntaxError, error::pointer};

/// Whether an expectation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// What the report knows is not enough to say.
    Inconclusive,
}

impl Verdict {
    /// In a sentence's place of "holds".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Inconclusive => "inconclusive",
        }
    }

    pub(super) const fn negated_if(self, is_negated: bool) -> Self {
        match self {
            Self::Holds if is_negated => Self::Fails,
            Self::Fails if is_negated => Self::Holds,
            verdict => verdict,
        }
    }

    /// Of several that all must hold: one that fails is enough.
    pub(super) fn all(verdicts: impl Iterator<Item = Self>) -> Self {
        verdicts.fold(Self::Holds, |all, verdict| match (all, verdict) {
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            (Self::Inconclusive, _) | (_, Self::Inconclusive) => Self::Inconclusive,
            (Self::Holds, Self::Holds) => Self::Holds,
        })
    }

    /// Of several of which one must hold.
    pub(super) fn any(verdicts: impl Iterator<Item = Self>) -> Self {
        Self::all(verdicts.map(|verdict| verdict.negated_if(true))).negated_if(true)
    }
}

/// What came of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The expectation, as it was written.
    pub expectation: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found of each of its comparisons.
    pub findings: Vec<Finding>,
}

/// What was found of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The comparison; of one behind `not`, with it.
    pub comparison: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was found, as a clause: "write.calls is 3".
    pub found: String,
    /// Why no more is known, if that matters.
    pub reason: Option<String>,
    /// What stands nearest to it in the report: rows, transfers with what was tried before.
    pub facts: Vec<String>,
}

impl Outcome {
    /// The findings that decided it.
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

/// An expectation names calls that the run did not count, so that nothing is known of them.
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
        /// How many calls of a class are named.
        const MOST: usize = 3;
        let more = if self.calls.len() > MOST { format!(" and {} more", self.calls.len() - MOST) } else { String::new() };
        let named = self.calls[..self.calls.len().min(MOST)].join(", ");
        let were = if self.calls.len() == 1 { "was" } else { "were" };
        format!("{named}{more} {were} not counted in this run, so nothing is known of it: have it counted (--syscalls)")
    }
}

impl std::error::Error for NotCounted {}

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message(), pointer(&self.text, self.at))
    }
}

/// Why an expectation does not hold. Its `Debug` is its `Display`, for tests that return it.
#[derive(Error)]
pub enum ExpectError {
    /// The text is no expectation.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It is about calls that were not counted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_join_as_they_should() {
        use Verdict::{Fails, Holds, Inconclusive};
        let joined = |a, b| (Verdict::all([a, b].into_iter()), Verdict::any([a, b].into_iter()));
        assert_eq!(joined(Holds, Inconclusive), (Inconclusive, Holds));
        assert_eq!(joined(Fails, Inconclusive), (Fails, Inconclusive));
        assert_eq!(joined(Inconclusive, Inconclusive), (Inconclusive, Inconclusive));
        assert_eq!(joined(Holds, Fails), (Fails, Holds));
    }
}
