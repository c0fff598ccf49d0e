//! What was lost, and the notes.

use super::{
    page::{Style, TextLine, words},
    text,
};
use crate::{report::Report, trace::Loss};

/// The losses that concern counts, and the notes.
pub(super) fn remarks(report: &Report) -> Vec<TextLine> {
    let note = |note: &String| words(&format!("note: {}", text::escape(note)), Style::Plain);
    // The others are told below the transfers, or have a note of their own. Only a newer zctrace knows
    // what a loss without a name touches.
    let touches_counts = |name: &str| Loss::from_name(name).is_none_or(Loss::touches_counts);
    let losses = report
        .losses
        .iter()
        .filter(|(name, _)| touches_counts(name));
    let losses = losses.map(|(name, &count)| words(&loss(name, count), Style::Warning));
    losses.chain(report.notes.iter().map(note)).collect()
}

/// Why what is in no transfer may be copies after all.
pub(super) fn unknown_origins(report: &Report) -> Option<TextLine> {
    let losses = report.losses.iter();
    let whats = losses.filter_map(|(name, count)| {
        let loss = Loss::from_name(name).filter(|loss| loss.touches_origins())?;
        Some(format!("{}: {count}", loss.what()))
    });
    let whats: Vec<String> = whats.collect();
    let line = format!(
        "what is in no transfer may be copied after all ({})",
        whats.join(", ")
    );
    (!whats.is_empty()).then(|| words(&line, Style::Warning))
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
