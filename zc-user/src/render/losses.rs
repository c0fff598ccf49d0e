//! What was lost, and the notes.

use super::{
    page::{Style, TextLine, words},
    text,
};
use crate::{report::Report, trace::Loss};

/// The losses that concern counts, and the notes.
pub(super) fn remarks(report: &Report) -> Vec<TextLine> {
    let note = |note: &String| words(&format!("note: {}", text::escape(note)), Style::Plain);
    // The others are told below the transfers, or have a note of their own.
    let losses = losses(report, |loss| loss.is_none_or(Loss::touches_counts));
    losses.chain(report.notes.iter().map(note)).collect()
}

/// What is missing in the transfers.
pub(super) fn unknown_origins(report: &Report) -> impl Iterator<Item = TextLine> {
    losses(report, |loss| loss.is_some_and(Loss::touches_origins))
}

/// The losses that are meant; `None` is one that only a newer zctrace knows.
fn losses(report: &Report, is_meant: fn(Option<Loss>) -> bool) -> impl Iterator<Item = TextLine> {
    let losses = report.losses.iter();
    losses
        .filter(move |(name, _)| is_meant(Loss::from_name(name)))
        .map(|(name, &count)| words(&loss(name, count), Style::Warning))
}

/// What was lost and what helps. A report of a newer zctrace may name losses that this one does not
/// know.
pub(super) fn loss(name: &str, count: u64) -> String {
    let touches_origins = Loss::from_name(name).is_some_and(Loss::touches_origins);
    let what = if touches_origins {
        "transfers are a lower bound"
    } else {
        "lower bound"
    };
    format!(
        "{what}: {}",
        text::escape(&Loss::explain_named(name, count))
    )
}
