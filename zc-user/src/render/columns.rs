//! The columns of the tables: their cells, and which of them fit a width.

use comfy_table::{ColumnConstraint, Width};

use super::{
    page::{align_columns, column_padding, ruled_table, table_lines},
    text,
};
use crate::{
    report::Syscall,
    syscalls::Abi,
    units::{self, UNKNOWN},
};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Syscall,
    Calls,
    Errors,
    Bytes,
    AvgSize,
    Share,
    Total,
    Min,
    Avg,
    Max,
    P99,
}

/// The columns in their order.
const ALL: [Column; 11] = {
    use Column::{Avg, AvgSize, Bytes, Calls, Errors, Max, Min, P99, Share, Syscall, Total};
    [
        Syscall, Calls, Errors, Bytes, AvgSize, Share, Total, Min, Avg, Max, P99,
    ]
};

/// The order in which columns are dropped to save room. Errors have a line below the table; the
/// name and the count always stay.
const DROPPED_FIRST: [Column; 9] = {
    use Column::{Avg, AvgSize, Bytes, Errors, Max, Min, P99, Share, Total};
    [P99, Min, AvgSize, Avg, Errors, Max, Share, Bytes, Total]
};

/// Spaces between two columns.
const GAP: usize = 2;

impl Column {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Syscall => "syscall",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::Bytes => "bytes",
            Self::AvgSize => "avg size",
            Self::Share => "% time",
            Self::Total => "total",
            Self::Min => "min",
            Self::Avg => "avg",
            Self::Max => "max",
            Self::P99 => "p99",
        }
    }

    /// The time that the column shows, if it shows one.
    const fn time(self, line: &Syscall) -> Option<u64> {
        match self {
            Self::Total => line.total_ns,
            Self::Min => line.min_ns,
            Self::Avg => line.mean_ns,
            Self::Max => line.max_ns,
            Self::P99 => line.p99_ns,
            Self::Syscall
            | Self::Calls
            | Self::Errors
            | Self::Bytes
            | Self::AvgSize
            | Self::Share => None,
        }
    }

    /// `all_ns` is the time of all calls of the table; `None` if that of one is unknown.
    fn cell(self, line: &Syscall, all_ns: Option<u64>) -> String {
        let known = match self {
            Self::Syscall => Some(name(line)),
            Self::Calls => Some(line.calls.to_string()),
            Self::Errors => Some(line.errors.to_string()),
            Self::Bytes => line.bytes.map(units::bytes),
            Self::AvgSize => average_size(line).map(units::bytes),
            Self::Share => line
                .total_ns
                .zip(all_ns)
                .map(|(part, whole)| units::share(part, whole)),
            Self::Total | Self::Min | Self::Avg | Self::Max | Self::P99 => {
                self.time(line).map(units::duration)
            }
        };
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

/// The name of the call; if it is not one of the 64-bit table of calls, with its table.
pub(super) fn name(line: &Syscall) -> String {
    name_of(&line.name, &line.abi)
}

/// The same of a call with this name in this table.
pub(super) fn name_of(name: &str, abi: &str) -> String {
    let is_64_bit = [Abi::X86_64, Abi::Aarch64]
        .iter()
        .any(|known| known.name() == abi);
    let name = text::escape(name);
    if is_64_bit {
        name
    } else {
        format!("{name} ({})", text::escape(abi))
    }
}

/// Bytes per successful call.
fn average_size(line: &Syscall) -> Option<u64> {
    Some(
        line.bytes?
            .checked_div(line.calls.saturating_sub(line.errors))
            .unwrap_or(0),
    )
}

/// The time of all these calls. `None` if that of one is unknown.
pub(super) fn time_of_all(lines: &[&Syscall]) -> Option<u64> {
    lines
        .iter()
        .try_fold(0_u64, |sum, line| Some(sum.saturating_add(line.total_ns?)))
}

/// A column with its width.
#[derive(Debug, Clone, Copy)]
struct Shown {
    column: Column,
    width: usize,
}

/// The columns of a report. All of its tables have the same ones, so that they line up.
#[derive(Debug)]
pub(super) struct Layout {
    shown: Vec<Shown>,
    left_out: Vec<Column>,
}

impl Layout {
    /// The columns for these lines that fit the width.
    pub(super) fn fit(lines: &[&Syscall], width: Option<usize>) -> Self {
        let mut shown: Vec<Shown> = ALL.map(|column| measure(column, lines)).into();
        let mut drop = DROPPED_FIRST.iter();
        while width.is_some_and(|width| total_width(&shown) > width)
            && let Some(next) = drop.next()
        {
            shown.retain(|shown| shown.column != *next);
        }
        // If even the name and the count are too wide, the names are shortened.
        let excess = width.map_or(0, |width| total_width(&shown).saturating_sub(width));
        shown[0].width = shown[0]
            .width
            .saturating_sub(excess)
            .max(Column::Syscall.title().len());
        let left_out = ALL
            .into_iter()
            .filter(|column| shown.iter().all(|shown| shown.column != *column))
            .collect();
        Self { shown, left_out }
    }

    /// The columns that had no room.
    pub(super) fn left_out(&self) -> &[Column] {
        &self.left_out
    }

    /// Whether a cell of this line is [`UNKNOWN`].
    pub(super) fn has_unknown(&self, line: &Syscall) -> bool {
        self.shown
            .iter()
            .any(|shown| shown.column.cell(line, line.total_ns) == UNKNOWN)
    }

    /// The titles of the columns.
    pub(super) fn titles(&self) -> impl Iterator<Item = &'static str> {
        self.shown.iter().map(|shown| shown.column.title())
    }

    /// The cells of a line, of a table whose calls took `all_ns`.
    pub(super) fn cells(
        &self,
        line: &Syscall,
        all_ns: Option<u64>,
    ) -> impl Iterator<Item = String> {
        self.shown.iter().map(move |shown| shown.cell(line, all_ns))
    }

    /// The lines of the table: titles, a rule, rows. Empty without rows.
    pub(super) fn table(&self, lines: &[&Syscall]) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let mut table = ruled_table();
        table.set_header(self.titles());
        let all_ns = time_of_all(lines);
        for line in lines {
            table.add_row(self.cells(line, all_ns));
        }
        align_columns(&mut table);
        for (index, (column, shown)) in table.column_iter_mut().zip(&self.shown).enumerate() {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(
                saturate(shown.width) + column_padding(index),
            )));
        }
        table_lines(&table)
    }
}

impl Shown {
    fn cell(&self, line: &Syscall, all_ns: Option<u64>) -> String {
        let cell = self.column.cell(line, all_ns);
        if self.column == Column::Syscall {
            text::shorten(&cell, self.width).into_owned()
        } else {
            cell
        }
    }
}

fn measure(column: Column, lines: &[&Syscall]) -> Shown {
    // A share of the line's own time is 100 %: the widest.
    let cells = lines
        .iter()
        .map(|line| text::width(&column.cell(line, line.total_ns)));
    Shown {
        column,
        width: cells.max().unwrap_or(0).max(column.title().len()),
    }
}

fn total_width(shown: &[Shown]) -> usize {
    let columns: usize = shown.iter().map(|shown| shown.width).sum();
    columns + GAP * shown.len().saturating_sub(1)
}

fn saturate(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}
