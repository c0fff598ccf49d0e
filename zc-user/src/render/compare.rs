//! `zctrace compare`: commands side by side, as a page for a person, as JSON, as a Markdown table.

mod figures;

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, Width};
use textwrap::WordSplitter;

use self::figures::{FIGURES, FigureFormat, doubts, remarks};
use super::{
    diff,
    markdown::{cell, code, escape_markdown, list_item, table_row},
    page::{Options, Page, Style, align_columns, column_padding, ruled_table, table_lines, words},
    text::{self, json},
};
use crate::{
    compare::{Compared, Comparison, Speed, Summary},
    units::UNKNOWN,
};

#[cfg(test)]
mod tests;

/// A format of comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table for a person.
    #[default]
    Table,
    /// All figures of all runs; times in seconds.
    Json,
    /// A table for a web page.
    Markdown,
}

/// The comparison in this format. It ends in a newline.
pub fn compare(comparison: &Comparison, format: CompareFormat, options: &Options) -> String {
    match format {
        CompareFormat::Table => page(comparison, options),
        CompareFormat::Json => json(comparison),
        CompareFormat::Markdown => markdown(comparison),
    }
}

/// Spaces between two columns.
const GAP: usize = 2;
/// A name wider than this is shown on several lines.
const NAME_WIDTH: usize = 20;
/// A name is cut to this width above what changed, where the name of the figure needs most of a
/// line.
const CHANGES_WIDTH: usize = 12;
/// A name that needs more lines than this is cut.
const MOST_NAME_LINES: usize = 5;

/// The page for a person: which command is how much faster, then a column for each command.
fn page(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let figure_format = FigureFormat::of_comparison(comparison);
    write_summary(&mut page, comparison, &figure_format);
    let titles = FIGURES
        .iter()
        .map(|figure| text::width(figure.title))
        .max()
        .unwrap_or(0);
    let room = options.width.map(|width| width.saturating_sub(titles));
    let name_width = room.map_or(NAME_WIDTH, |room| NAME_WIDTH.min(room.saturating_sub(GAP)));
    let columns: Vec<Column> = comparison
        .commands
        .iter()
        .map(|command| Column::of_command(command, &figure_format, name_width))
        .collect();
    for block in blocks(&columns, room) {
        page.gap();
        write_block(&mut page, block);
    }
    write_all_changes(&mut page, comparison);
    page.gap();
    if columns
        .iter()
        .any(|column| column.cells.iter().any(|cell| cell == UNKNOWN))
    {
        page.flow(0, &words("\"-\": unknown, not 0", Style::Faint));
    }
    for remark in remarks(comparison) {
        page.flow(0, &words(&remark, Style::Faint));
    }
    for doubt in doubts(comparison) {
        page.flow(0, &words(&format!("warning: {doubt}"), Style::Warning));
    }
    page.finish()
}

/// What the traced run of each command did differently from that of the first one, as `zctrace
/// diff` shows it.
fn write_all_changes(page: &mut Page, comparison: &Comparison) {
    let Some(first) = comparison.commands.first().map(figures::name) else {
        return;
    };
    for command in &comparison.commands {
        let Some(changes) = &command.changes else {
            continue;
        };
        let name = figures::name(command);
        page.gap();
        let (answer, style) = diff::answer(changes);
        let mut title = words(&format!("from {first} to {name}:"), Style::Heading);
        title.extend(words(&answer, style));
        page.flow(0, &title);
        let titles = [&first, &name].map(|name| text::shorten(name, CHANGES_WIDTH));
        diff::write_changes(page, changes, titles.each_ref().map(|title| &**title));
    }
}

/// Which command is how much faster than the others.
fn write_summary(page: &mut Page, comparison: &Comparison, figure_format: &FigureFormat) {
    let name = |index: usize| {
        comparison
            .commands
            .get(index)
            .map(figures::name)
            .unwrap_or_default()
    };
    let Some(summary) = Summary::from_comparison(comparison) else {
        let line = match comparison.commands.as_slice() {
            [only] => words(
                &format!(
                    "{}: {}",
                    figures::name(only),
                    figure_format.time_with_deviation(only)
                ),
                Style::Heading,
            ),
            _ => words(
                "no speeds to compare: a command took no measurable time",
                Style::Warning,
            ),
        };
        page.flow(0, &line);
        return;
    };
    let (different, alike): (Vec<&Speed>, Vec<&Speed>) = summary
        .others
        .iter()
        .partition(|speed| speed.is_difference());
    if !different.is_empty() {
        page.flow(
            0,
            &words(&format!("{} ran", name(summary.subject)), Style::Heading),
        );
    }
    for speed in different {
        let mut pieces = words(&format!("{} faster", times(speed)), Style::Good);
        pieces.extend(words(&format!("than {}", name(speed.other)), Style::Plain));
        page.flow(2, &pieces);
    }
    for speed in alike {
        let subject = name(summary.subject);
        let mut pieces = words(
            &format!(
                "no difference found between {subject} and {}",
                name(speed.other)
            ),
            Style::Heading,
        );
        pieces.extend(words(
            &format!("({subject} {} faster)", times(speed)),
            Style::Plain,
        ));
        page.flow(0, &pieces);
    }
}

/// `1.10 ± 0.70 times`.
fn times(speed: &Speed) -> String {
    let deviation = speed
        .stddev
        .map(|stddev| format!(" ± {stddev:.2}"))
        .unwrap_or_default();
    format!("{:.2}{deviation} times", speed.times)
}

/// The figures of one command.
struct Column {
    title: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn of_command(command: &Compared, figure_format: &FigureFormat, name_width: usize) -> Self {
        let cells: Vec<String> = FIGURES
            .iter()
            .map(|figure| figure.text_of(command, figure_format))
            .collect();
        let widest = cells
            .iter()
            .map(|cell| text::width(cell))
            .max()
            .unwrap_or(0);
        let title = wrap(&figures::name(command), widest.max(name_width));
        let width = title
            .iter()
            .map(|line| text::width(line))
            .max()
            .unwrap_or(0)
            .max(widest);
        Self {
            title,
            cells,
            width,
        }
    }
}

/// The columns in as few blocks as the room allows. A narrow page leaves nothing out; it becomes
/// longer.
fn blocks(columns: &[Column], room: Option<usize>) -> Vec<&[Column]> {
    let mut blocks = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut used = 0;
        let fitting = rest.iter().take_while(|column| {
            used += GAP + column.width;
            room.is_none_or(|room| used <= room)
        });
        let (block, after) = rest.split_at(fitting.count().max(1));
        blocks.push(block);
        rest = after;
    }
    blocks
}

fn write_block(page: &mut Page, block: &[Column]) {
    let title_lines = block
        .iter()
        .map(|column| column.title.len())
        .max()
        .unwrap_or(0);
    let mut table = ruled_table();
    // Short names are at the bottom, next to the rule.
    let title =
        |column: &Column| "\n".repeat(title_lines - column.title.len()) + &column.title.join("\n");
    table.set_header(std::iter::once(String::new()).chain(block.iter().map(title)));
    for (row, figure) in FIGURES.iter().enumerate() {
        table.add_row(
            std::iter::once(figure.title.to_owned())
                .chain(block.iter().map(|column| column.cells[row].clone())),
        );
    }
    align_columns(&mut table);
    for ((index, column), shown) in table.column_iter_mut().enumerate().skip(1).zip(block) {
        let width = u16::try_from(shown.width).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(
            width.saturating_add(column_padding(index)),
        )));
    }
    for (index, line) in table_lines(&table).iter().enumerate() {
        let style = match index {
            index if index < title_lines => Style::Heading,
            index if index == title_lines => Style::Faint,
            _ => Style::Plain,
        };
        page.line(0, style, line);
    }
}

/// A name on lines of this width. A word that is longer than a line is broken.
fn wrap(name: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width).word_splitter(WordSplitter::NoHyphenation);
    let mut lines: Vec<String> = textwrap::wrap(name, options)
        .into_iter()
        .map(Into::into)
        .collect();
    if lines.len() > MOST_NAME_LINES {
        lines.truncate(MOST_NAME_LINES);
        if let Some(last) = lines.last_mut() {
            *last = text::shorten(&format!("{last} …"), width).into_owned();
        }
    }
    lines
}

/// A table in GitHub's Markdown with a line for each command, and remarks below it.
fn markdown(comparison: &Comparison) -> String {
    let figure_format = FigureFormat::of_comparison(comparison);
    let row = |command: &Compared| {
        table_row(
            &cell(&code(&command.name)),
            FIGURES
                .iter()
                .map(|figure| cell(&figure.text_of(command, &figure_format))),
        )
    };
    let mut lines = vec![
        table_row("command", FIGURES.iter().map(|figure| cell(figure.title))),
        table_row(":---", FIGURES.iter().map(|_| "---:".to_owned())),
    ];
    lines.extend(comparison.commands.iter().map(row));
    lines.push(String::new());
    lines.extend(
        remarks(comparison)
            .iter()
            .map(|remark| list_item(&escape_markdown(remark))),
    );
    lines.extend(
        doubts(comparison)
            .iter()
            .map(|doubt| format!("- warning: {}", escape_markdown(doubt))),
    );
    lines.join("\n") + "\n"
}
