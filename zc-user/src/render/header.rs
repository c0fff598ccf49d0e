//! The head of a report: what ran, how it ended, what it cost, whether the numbers are exact.

use super::{
    page::{Page, Piece, Style, words},
    text,
    units::{self, UNKNOWN},
};
use crate::{
    report::{Exit, Report},
    signal,
    trace::Loss,
};

/// Writes the head.
pub(super) fn write(page: &mut Page, report: &Report) {
    page.line(0, Style::Heading, &format!("zctrace: {}", command(report)));
    page.flow(0, &summary(report));
    for (text, style) in remarks(report) {
        page.flow(0, &words(&text, style));
    }
}

/// What ran.
pub(super) fn command(report: &Report) -> String {
    match report.command.as_slice() {
        [] => "(command unknown)".to_owned(),
        words => text::command_line(words),
    }
}

/// What was lost, and the notes.
pub(super) fn remarks(report: &Report) -> impl Iterator<Item = (String, Style)> {
    // Of calls without their files a note tells.
    let lowers_counts = |name: &&String| !Loss::ALL.iter().any(|loss| loss.name() == *name && !loss.touches_counts());
    let losses = report.losses.iter().filter(move |(name, _)| lowers_counts(name));
    let losses = losses.map(|(name, &count)| (loss(name, count), Style::Warning));
    losses.chain(report.notes.iter().map(|note| (format!("note: {}", text::escape(note)), Style::Plain)))
}

/// How it ended, what it cost, whether the numbers are exact.
pub(super) fn summary(report: &Report) -> Vec<Piece> {
    let seconds = |ns: Option<u64>| ns.map_or_else(|| UNKNOWN.to_owned(), units::seconds);
    let usage = &report.totals.usage;
    let (exit, style) = exit(report.exit);
    let plain = |text: String| Piece::new(text, Style::Plain);
    vec![
        Piece::new(format!("{exit},"), style),
        plain(format!("wall {},", seconds(report.wall_ns))),
        plain(format!("user {},", seconds(usage.user_ns))),
        plain(format!("system {},", seconds(usage.system_ns))),
        plain(format!("backend {},", text::escape(&report.backend))),
        if report.exact { Piece::new("exact", Style::Good) } else { Piece::new("lower bound", Style::Warning) },
    ]
}

/// Whether the summary shows something as [`UNKNOWN`].
pub(super) fn has_unknown(report: &Report) -> bool {
    let usage = &report.totals.usage;
    report.exit == Exit::default() || [report.wall_ns, usage.user_ns, usage.system_ns].contains(&None)
}

/// How the command ended.
fn exit(exit: Exit) -> (String, Style) {
    match exit {
        Exit { signal: Some(number), .. } => (format!("killed by {}", signal::name(number)), Style::Bad),
        Exit { code: Some(0), .. } => ("exit 0".to_owned(), Style::Plain),
        Exit { code: Some(code), .. } => (format!("exit {code}"), Style::Bad),
        Exit { code: None, signal: None } => (format!("exit {UNKNOWN}"), Style::Plain),
    }
}

/// What was lost and what helps. A newer zctrace may know more ways to lose numbers than this one.
pub(super) fn loss(name: &str, count: u64) -> String {
    match Loss::ALL.iter().find(|loss| loss.name() == name) {
        Some(loss) => format!("lower bound: {}", loss.explain(count)),
        None => format!("lower bound: {} {count}", text::escape(name)),
    }
}
