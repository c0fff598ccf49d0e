//! A table: names in the first column and figures in the others, and which columns fit a page.

use std::collections::BTreeMap;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentLineStyle, LineStyle, Table, TableStyle, Width,
};

use super::text;
use crate::units::UNKNOWN;

/// The lines of a table above its rows: titles and a rule.
pub(super) const HEAD_LINES: usize = 2;
/// The widest first column, if the page has a width.
const MAX_NAME: usize = 60;
/// The widest of the others, likewise: figures are narrower.
const MAX_CELL: usize = 20;
/// The narrowest first column: that of nearly all names of calls.
const SHORTEST_NAME: usize = 16;
/// Spaces between two columns.
pub(super) const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) title: String,
    /// When it is dropped to save room, the lowest first; [`STAYS`] for never.
    dropped: u8,
}

/// Of a column that is never dropped.
pub(super) const STAYS: u8 = u8::MAX;

/// A column of a list: its title, when it is dropped, and its cells.
pub(super) type ListColumn<T> = (&'static str, u8, fn(&T) -> String);

/// A row.
#[derive(Debug, Clone)]
pub(super) struct TableRow {
    pub(super) cells: Vec<String>,
    /// Sentences below it.
    pub(super) below: Vec<String>,
}

/// A table.
#[derive(Debug, Clone)]
pub(super) struct ShownTable {
    /// The narrowest first column, if other columns can be dropped for it.
    pub(super) min_name: usize,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<TableRow>,
}

impl ShownTable {
    /// A table with these titles, each with when its column is dropped.
    pub(super) fn new<'a>(
        columns: impl IntoIterator<Item = (&'a str, u8)>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(|(title, dropped)| Column {
            title: title.to_owned(),
            dropped,
        });
        let rows = rows.into_iter().map(|cells| TableRow {
            cells,
            below: Vec::new(),
        });
        Self {
            min_name: SHORTEST_NAME,
            columns: columns.collect(),
            rows: rows.collect(),
        }
    }

    /// A table with a row for each of these.
    pub(super) fn of_list<T>(columns: &[ListColumn<T>], rows: &[T]) -> Self {
        let titles = columns.iter().map(|(title, dropped, _)| (*title, *dropped));
        let row = |one: &T| columns.iter().map(|(.., cell)| cell(one)).collect();
        Self::new(titles, rows.iter().map(row))
    }

    /// Its titles.
    pub(super) fn titles(&self) -> Vec<&str> {
        self.columns
            .iter()
            .map(|column| column.title.as_str())
            .collect()
    }

    /// Titles, a rule and rows, in this room.
    pub(super) fn lines(&self, room: Option<usize>) -> Vec<String> {
        TableLayout::fit(&[self], room).lines(self)
    }

    /// The width of a column.
    pub(super) fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| text::width(&row.cells[column]));
        let title = text::width(&self.columns[column].title);
        cells.max().unwrap_or(0).max(title)
    }
}

/// Removes the columns in which no figure is known, in all tables with the same columns.
pub(super) fn leave_out_empty_columns<'a>(tables: impl Iterator<Item = &'a mut ShownTable>) {
    let mut alike: BTreeMap<Vec<Column>, Vec<&mut ShownTable>> = BTreeMap::new();
    for table in tables {
        alike.entry(table.columns.clone()).or_default().push(table);
    }
    for (columns, mut tables) in alike {
        let is_empty = |column: usize| {
            let mut rows = tables.iter().flat_map(|table| &table.rows);
            column > 0 && rows.all(|row| row.cells[column] == UNKNOWN)
        };
        let keeps: Vec<bool> = (0..columns.len()).map(|column| !is_empty(column)).collect();
        for table in &mut tables {
            retain(&mut table.columns, &keeps);
            for row in &mut table.rows {
                retain(&mut row.cells, &keeps);
            }
        }
    }
}

fn retain<T>(of_columns: &mut Vec<T>, keeps: &[bool]) {
    let mut keeps = keeps.iter();
    of_columns.retain(|_| keeps.next().copied().unwrap_or(true));
}

/// Which columns of some tables are shown. All tables have the same ones, so that they line up.
#[derive(Debug)]
pub(super) struct TableLayout {
    /// The place of each column in the table, and its width.
    shown: Vec<(usize, usize)>,
    /// The titles of the columns that have no room.
    pub(super) left_out: Vec<String>,
}

impl TableLayout {
    /// The columns of these tables that fit the room. The tables have the same columns.
    pub(super) fn fit(tables: &[&ShownTable], room: Option<usize>) -> Self {
        let (longest_name, longest_cell) = match room {
            Some(_) => (MAX_NAME, MAX_CELL),
            None => (usize::MAX, usize::MAX),
        };
        let room = room.unwrap_or(usize::MAX);
        let columns = &tables[0].columns;
        let width = |column: usize| tables.iter().map(|table| table.width(column)).max();
        let mut shown: Vec<(usize, usize)> = (0..columns.len())
            .map(|column| {
                let longest = if column == 0 {
                    longest_name
                } else {
                    longest_cell
                };
                (column, width(column).unwrap_or(0).min(longest))
            })
            .collect();
        let least = shown[0].1.min(tables[0].min_name);
        let mut left_out = Vec::new();
        while least + beside_name(&shown) > room
            && let Some(next) = shown
                .iter()
                .map(|&(column, _)| columns[column].dropped)
                .filter(|&dropped| dropped < STAYS)
                .min()
        {
            shown.retain(|&(column, _)| columns[column].dropped != next);
            left_out.extend(columns.iter().filter(|column| column.dropped == next));
        }
        left_out.sort_by_key(|column| columns.iter().position(|other| other == *column));
        let for_name = room.saturating_sub(beside_name(&shown));
        shown[0].1 = shown[0].1.min(for_name.max(SHORTEST_NAME));
        Self {
            left_out: left_out.iter().map(|column| column.title.clone()).collect(),
            shown,
        }
    }

    /// Titles, a rule and rows, each in one line.
    pub(super) fn lines(&self, table: &ShownTable) -> Vec<String> {
        let titles: Vec<String> = table
            .columns
            .iter()
            .map(|column| column.title.clone())
            .collect();
        let cells = |cells: &[String]| {
            let shown = self.shown.iter();
            let shorten =
                |&(place, width): &(usize, usize)| text::shorten(&cells[place], width).into_owned();
            shown.map(shorten).collect::<Vec<_>>()
        };
        let mut ruled = Table::new();
        ruled.load_style(RULED).force_no_tty();
        ruled.set_header(cells(&titles));
        ruled.add_rows(table.rows.iter().map(|row| cells(&row.cells)));
        for (column, &(_, width)) in ruled.column_iter_mut().zip(&self.shown) {
            align(column, width);
        }
        ruled
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }
}

/// The width of all columns but the first, with the spaces before them.
fn beside_name(shown: &[(usize, usize)]) -> usize {
    shown[1..].iter().map(|(_, width)| width + GAP).sum()
}

/// The look of all tables: titles, a rule below them, two spaces between columns. The style draws
/// one of these, the padding of the second column is the other.
const RULED: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('-').junction(' '))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Names, in the first column, are aligned to the left, figures to the right.
fn align(column: &mut comfy_table::Column, width: usize) {
    let (padding, alignment) = if column.index == 0 {
        (0, CellAlignment::Left)
    } else {
        (1, CellAlignment::Right)
    };
    let width = u16::try_from(width).unwrap_or(u16::MAX - 1);
    column.set_padding((padding, 0));
    column.set_cell_alignment(alignment);
    column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + padding)));
}
