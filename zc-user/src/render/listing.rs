//! A list of things as a table under a heading. A narrow page has fewer columns and shorter names.

use super::{
    page::{Options, Page, Style, ruled_lines},
    section::INDENT,
    text,
};
use crate::units::UNKNOWN;

/// The widest first column.
const LONGEST_NAME: usize = 60;
/// The narrowest first column.
const SHORTEST_NAME: usize = 12;
/// Spaces between two columns.
const GAP: usize = 2;

/// A list of things.
pub(super) struct Listing<'a> {
    pub(super) heading: String,
    /// The titles of the columns. The first column names the things.
    pub(super) titles: &'a [&'a str],
    /// How many columns always stay; the others are dropped from the right.
    pub(super) least_columns: usize,
    pub(super) rows: Vec<Vec<String>>,
    /// What is not listed, and the option that lists it.
    pub(super) hidden: Option<String>,
}

impl Listing<'_> {
    /// Writes it below what is there.
    pub(super) fn write(&self, page: &mut Page, options: &Options) {
        page.gap();
        page.line(0, Style::Heading, &self.heading);
        page.table(INDENT, &self.lines(options.width));
        if let Some(hidden) = &self.hidden {
            page.say(INDENT, Style::Plain, hidden);
        }
    }

    /// Whether a cell is [`UNKNOWN`].
    pub(super) fn has_unknown(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell == UNKNOWN)
    }

    fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut widths: Vec<usize> = (0..self.titles.len())
            .map(|column| self.width(column))
            .collect();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT));
        let beside_name = |widths: &[usize]| widths[1..].iter().map(|width| width + GAP).sum();
        while widths.len() > self.least_columns
            && beside_name(&widths) + widths[0].min(SHORTEST_NAME) > room
        {
            widths.pop();
        }
        let name_room = room
            .saturating_sub(beside_name(&widths))
            .clamp(SHORTEST_NAME, LONGEST_NAME);
        widths[0] = widths[0].min(name_room);
        let mut rows = self.rows.clone();
        for row in &mut rows {
            row[0] = shorten_start(&row[0], widths[0]);
        }
        ruled_lines(self.titles, &rows, &widths)
    }

    /// The width of the widest cell of a column.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| text::width(&row[column]));
        cells.max().unwrap_or(0).max(self.titles[column].len())
    }
}

/// A name; if it is too long, as much of its end as fits, because the end tells paths apart.
fn shorten_start(name: &str, room: usize) -> String {
    if text::width(name) <= room {
        return name.to_owned();
    }
    let starts = name.char_indices().map(|(start, _)| start);
    let fits = |start: &usize| text::width(&name[*start..]) < room;
    starts
        .skip(1)
        .find(fits)
        .map_or_else(|| "…".to_owned(), |start| format!("…{}", &name[start..]))
}
