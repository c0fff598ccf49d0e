//! The document of a report as text for a terminal.

use std::collections::BTreeMap;

use super::{
    page::{INDENT, Options, Page, Style},
    part::{Document, DocumentPart},
    table::{Column, HEAD_LINES, ShownTable, TableLayout},
};

/// What each of the tables with the same columns shows.
type Layouts<'a> = BTreeMap<&'a [Column], TableLayout>;

pub(super) fn render(document: &Document, options: &Options) -> String {
    let layouts = layouts(document, options);
    let mut page = Page::new(options);
    let command = format!("zctrace: {}", document.command);
    page.line(0, Style::Heading, &command);
    for line in document.lines.iter().chain(&document.remarks) {
        page.flow(0, line);
    }
    let mut after_one_line = false;
    for part in &document.parts {
        // There are no gaps between processes without calls: they are a list.
        if !(after_one_line && part.is_one_line()) {
            page.gap();
        }
        write_part(&mut page, part, &layouts);
        after_one_line = part.is_one_line();
    }
    let left_out = left_out(&layouts);
    if !left_out.is_empty() {
        page.say(
            0,
            Style::Faint,
            &format!("no room for: {}", left_out.join(", ")),
        );
    }
    if page.is_too_long() {
        page.gap();
        for line in &document.verdict {
            page.flow(0, line);
        }
    }
    page.finish()
}

/// The layouts of all tables. Those with the same columns line up.
fn layouts<'a>(document: &'a Document, options: &Options) -> Layouts<'a> {
    let mut tables: BTreeMap<&[Column], Vec<&ShownTable>> = BTreeMap::new();
    for table in document.parts.iter().filter_map(|part| part.table.as_ref()) {
        tables.entry(&table.columns).or_default().push(table);
    }
    let room = options.width.map(|width| width.saturating_sub(INDENT));
    tables
        .into_iter()
        .map(|(columns, tables)| (columns, TableLayout::fit(&tables, room)))
        .collect()
}

fn write_part(page: &mut Page, part: &DocumentPart, layouts: &Layouts<'_>) {
    page.flow(0, &part.heading);
    if let Some(command) = &part.command {
        page.line(INDENT, Style::Faint, &format!("$ {command}"));
    }
    if let Some(table) = &part.table {
        let lines = layouts[table.columns.as_slice()].lines(table);
        let (head, rows) = lines.split_at(HEAD_LINES);
        page.table(INDENT, head);
        for (line, row) in rows.iter().zip(&table.rows) {
            page.line(INDENT, Style::Plain, line);
            for below in &row.below {
                page.say(2 * INDENT, Style::Faint, below);
            }
        }
    }
    for item in &part.items {
        for (index, line) in item.iter().enumerate() {
            page.flow(if index == 0 { INDENT } else { 2 * INDENT }, line);
        }
    }
    for remark in &part.remarks {
        page.flow(INDENT, remark);
    }
}

/// The titles of the columns for which there was no room.
fn left_out<'a>(layouts: &'a Layouts<'_>) -> Vec<&'a str> {
    let mut left_out: Vec<&str> = Vec::new();
    for title in layouts.values().flat_map(|layout| &layout.left_out) {
        if !left_out.contains(&title.as_str()) {
            left_out.push(title);
        }
    }
    left_out
}
