//! The comparison as a table of GitHub's Markdown: a line for each command.

use super::figures::{FIGURES, Look, doubts, remarks};
use crate::{
    compare::{Compared, Comparison},
    render::gfm::{cell, code, item, line, plain},
};

/// The table, and below it what it does not say itself.
pub(super) fn render(comparison: &Comparison) -> String {
    let look = Look::of(comparison);
    let row =
        |command: &Compared| line(&cell(&code(&command.name)), FIGURES.iter().map(|figure| cell(&figure.of(command, &look))));
    let mut lines = vec![
        line("command", FIGURES.iter().map(|figure| cell(figure.title))),
        line(":---", FIGURES.iter().map(|_| "---:".to_owned())),
    ];
    lines.extend(comparison.commands.iter().map(row));
    lines.push(String::new());
    lines.extend(remarks(comparison).iter().map(|remark| item(&plain(remark))));
    lines.extend(doubts(comparison).iter().map(|doubt| format!("- warning: {}", plain(doubt))));
    lines.join("\n") + "\n"
}
