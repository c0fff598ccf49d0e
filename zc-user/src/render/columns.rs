//! The columns of the tables of calls: their cells, and which of them fit a width.

use super::{
    page::ruled_lines,
    text::{self, known},
};
use crate::{
    report::Syscall,
    syscalls::Abi,
    units::{self, UNKNOWN},
};

/// A column.
struct Column {
    title: &'static str,
    /// When it is dropped to save room, the lowest first. The name and the count always stay.
    /// Errors have a line below the table.
    dropped: u8,
    /// The cell of a call. The time is that of all calls of the table; `None` if one is unknown.
    cell: fn(&Syscall, Option<u64>) -> String,
}

const STAYS: u8 = u8::MAX;

const COLUMNS: [Column; 11] = [
    column("syscall", STAYS, |call, _| name(call)),
    column("calls", STAYS, |call, _| call.calls.to_string()),
    column("errors", 5, |call, _| call.errors.to_string()),
    column("bytes", 8, |call, _| known(call.bytes, units::bytes)),
    column("avg size", 3, |call, _| {
        known(average_size(call), units::bytes)
    }),
    column("% time", 7, |call, all_ns| {
        known(call.total_ns.zip(all_ns), |(part, whole)| {
            units::share(part, whole)
        })
    }),
    column("total", 9, |call, _| known(call.total_ns, units::duration)),
    column("min", 2, |call, _| known(call.min_ns, units::duration)),
    column("avg", 4, |call, _| known(call.mean_ns, units::duration)),
    column("max", 6, |call, _| known(call.max_ns, units::duration)),
    column("p99", 1, |call, _| known(call.p99_ns, units::duration)),
];

const fn column(
    title: &'static str,
    dropped: u8,
    cell: fn(&Syscall, Option<u64>) -> String,
) -> Column {
    Column {
        title,
        dropped,
        cell,
    }
}

/// Spaces between two columns.
const GAP: usize = 2;

/// The name of the call; if it is not one of the 64-bit table of calls, with its table.
pub(super) fn name(line: &Syscall) -> String {
    name_of(&line.name, &line.abi)
}

/// The same of a call with this name in this table.
pub(super) fn name_of(name: &str, abi: &str) -> String {
    let name = text::escape(name);
    if [Abi::X86_64.name(), Abi::Aarch64.name()].contains(&abi) {
        name
    } else {
        format!("{name} ({})", text::escape(abi))
    }
}

/// Bytes per successful call.
fn average_size(line: &Syscall) -> Option<u64> {
    let successes = line.calls.saturating_sub(line.errors);
    Some(line.bytes?.checked_div(successes).unwrap_or(0))
}

/// The time of all these calls. `None` if that of one is unknown.
fn time_of_all(lines: &[&Syscall]) -> Option<u64> {
    lines
        .iter()
        .try_fold(0_u64, |sum, line| Some(sum.saturating_add(line.total_ns?)))
}

/// The columns of a report. All of its tables have the same ones, so that they line up.
pub(super) struct Layout {
    /// Each column with its width.
    shown: Vec<(&'static Column, usize)>,
}

impl Layout {
    /// The columns for these lines that fit the width.
    pub(super) fn fit(lines: &[&Syscall], width: Option<usize>) -> Self {
        let mut shown: Vec<_> = COLUMNS
            .iter()
            .map(|column| (column, column.width(lines)))
            .collect();
        let room = width.unwrap_or(usize::MAX);
        while total_width(&shown) > room
            && let Some(next) = shown
                .iter()
                .map(|(column, _)| column.dropped)
                .filter(|&dropped| dropped < STAYS)
                .min()
        {
            shown.retain(|(column, _)| column.dropped != next);
        }
        // If even the name and the count are too wide, the names are shortened.
        let excess = total_width(&shown).saturating_sub(room);
        shown[0].1 = shown[0].1.saturating_sub(excess).max("syscall".len());
        Self { shown }
    }

    /// The titles of the columns that had no room.
    pub(super) fn left_out(&self) -> Vec<&'static str> {
        let titles = COLUMNS.iter().map(|column| column.title);
        let shown = self.titles();
        titles.filter(|title| !shown.contains(title)).collect()
    }

    /// Whether a cell of this line is [`UNKNOWN`].
    pub(super) fn has_unknown(&self, line: &Syscall) -> bool {
        self.shown
            .iter()
            .any(|(column, _)| (column.cell)(line, line.total_ns) == UNKNOWN)
    }

    /// The titles of the columns.
    pub(super) fn titles(&self) -> Vec<&'static str> {
        self.shown.iter().map(|(column, _)| column.title).collect()
    }

    /// The cells of these lines of a table.
    pub(super) fn rows(&self, lines: &[&Syscall]) -> Vec<Vec<String>> {
        let all_ns = time_of_all(lines);
        let row = |line: &&Syscall| {
            let mut cells: Vec<String> = self
                .shown
                .iter()
                .map(|(column, _)| (column.cell)(line, all_ns))
                .collect();
            cells[0] = text::shorten(&cells[0], self.shown[0].1).into_owned();
            cells
        };
        lines.iter().map(row).collect()
    }

    /// The lines of the table: titles, a rule, rows. Empty without rows.
    pub(super) fn table(&self, lines: &[&Syscall]) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let widths: Vec<usize> = self.shown.iter().map(|(_, width)| *width).collect();
        ruled_lines(&self.titles(), &self.rows(lines), &widths)
    }
}

impl Column {
    /// The width of its widest cell. A share of the line's own time is 100 %: the widest.
    fn width(&self, lines: &[&Syscall]) -> usize {
        let cells = lines
            .iter()
            .map(|line| text::width(&(self.cell)(line, line.total_ns)));
        cells.max().unwrap_or(0).max(self.title.len())
    }
}

fn total_width(shown: &[(&'static Column, usize)]) -> usize {
    let columns: usize = shown.iter().map(|(_, width)| width).sum();
    columns + GAP * shown.len().saturating_sub(1)
}
