//! `zctrace compare`: commands side by side, as a page for a person, as JSON, as a Markdown table.

mod figures;

use clap::ValueEnum;
use textwrap::WordSplitter;

use self::figures::{FIGURES, Unit, doubts, remarks};
use super::{
    diff,
    document::LEGEND,
    markdown::{cell, code, escape_markdown, list_item, table_row},
    page::{INDENT, Options, Page, Style, words},
    table::{aligned, rule},
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
/// A name that needs about more lines than this is shortened.
const MOST_NAME_LINES: usize = 5;

/// The page for a person: which command is how much faster, then a column for each command.
fn page(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let unit = Unit::of_comparison(comparison);
    write_summary(&mut page, comparison, unit);
    let titles = widest(FIGURES.iter().map(|figure| figure.title));
    let room = options.width.map(|width| width.saturating_sub(titles));
    let name_width = room.map_or(NAME_WIDTH, |room| NAME_WIDTH.min(room.saturating_sub(GAP)));
    let commands = comparison.commands.iter();
    let columns: Vec<CommandColumn> = commands
        .map(|command| CommandColumn::new(command, unit, name_width))
        .collect();
    for block in blocks(&columns, room) {
        page.gap();
        write_block(&mut page, block, titles);
    }
    write_all_changes(&mut page, comparison);
    page.gap();
    if columns
        .iter()
        .flat_map(|column| &column.cells)
        .any(|cell| cell == UNKNOWN)
    {
        page.say(0, Style::Faint, LEGEND);
    }
    for remark in remarks(comparison) {
        page.say(0, Style::Faint, &remark);
    }
    for doubt in doubts(comparison) {
        page.say(0, Style::Warning, &format!("warning: {doubt}"));
    }
    page.finish()
}

/// The width of the widest of these texts.
fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(text::width).max().unwrap_or(0)
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
fn write_summary(page: &mut Page, comparison: &Comparison, unit: Unit) {
    let name = |index: usize| {
        let command = comparison.commands.get(index);
        command.map(figures::name).unwrap_or_default()
    };
    let Some(summary) = Summary::from_comparison(comparison) else {
        if let [only] = comparison.commands.as_slice() {
            let time = unit.show_with_deviation(only);
            let line = format!("{}: {time}", figures::name(only));
            page.say(0, Style::Heading, &line);
        } else {
            let why = "no speeds to compare: a command took no measurable time";
            page.say(0, Style::Warning, why);
        }
        return;
    };
    let subject = name(summary.subject);
    let (different, alike): (Vec<&Speed>, Vec<&Speed>) = summary
        .others
        .iter()
        .partition(|speed| speed.is_difference());
    if !different.is_empty() {
        page.say(0, Style::Heading, &format!("{subject} ran"));
    }
    for speed in different {
        let mut pieces = words(&format!("{} faster", times(speed)), Style::Good);
        pieces.extend(words(&format!("than {}", name(speed.other)), Style::Plain));
        page.flow(INDENT, &pieces);
    }
    for speed in alike {
        let other = name(speed.other);
        let found = format!("no difference found between {subject} and {other}");
        let mut pieces = words(&found, Style::Heading);
        let by = format!("({subject} {} faster)", times(speed));
        pieces.extend(words(&by, Style::Plain));
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
struct CommandColumn {
    /// Its name, in lines.
    title: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl CommandColumn {
    fn new(command: &Compared, unit: Unit, name_width: usize) -> Self {
        let figures = FIGURES.iter();
        let cells: Vec<String> = figures.map(|figure| (figure.cell)(command, unit)).collect();
        let of_cells = widest(cells.iter().map(String::as_str));
        let title = wrap(&figures::name(command), of_cells.max(name_width));
        Self {
            width: widest(title.iter().map(String::as_str)).max(of_cells),
            title,
            cells,
        }
    }
}

/// The columns in as few blocks as the room allows. A narrow page leaves nothing out; it becomes
/// longer.
fn blocks(columns: &[CommandColumn], room: Option<usize>) -> Vec<&[CommandColumn]> {
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

/// Writes some columns beside the titles of the figures, which take this width.
fn write_block(page: &mut Page, block: &[CommandColumn], titles: usize) {
    let widths: Vec<usize> = std::iter::once(titles)
        .chain(block.iter().map(|column| column.width))
        .collect();
    let line = |title: &str, cell: &dyn Fn(&CommandColumn) -> String| {
        let cells = block.iter().map(cell);
        let cells: Vec<String> = std::iter::once(title.to_owned()).chain(cells).collect();
        aligned(&cells, &widths)
    };
    let title_lines = block
        .iter()
        .map(|column| column.title.len())
        .max()
        .unwrap_or(0);
    for index in 0..title_lines {
        // Short names are at the bottom, next to the rule.
        let part = |column: &CommandColumn| {
            let index = (index + column.title.len()).checked_sub(title_lines);
            index.map_or_else(String::new, |index| column.title[index].clone())
        };
        page.line(0, Style::Heading, &line("", &part));
    }
    page.line(0, Style::Faint, &rule(&widths));
    for (row, figure) in FIGURES.iter().enumerate() {
        let cell = |column: &CommandColumn| column.cells[row].clone();
        page.line(0, Style::Plain, &line(figure.title, &cell));
    }
}

/// A name on lines of this width. A word that is longer than a line is broken.
fn wrap(name: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width).word_splitter(WordSplitter::NoHyphenation);
    let name = text::shorten(name, width * MOST_NAME_LINES);
    let lines = textwrap::wrap(&name, options);
    lines.into_iter().map(Into::into).collect()
}

/// A table in GitHub's Markdown with a line for each command, and remarks below it.
fn markdown(comparison: &Comparison) -> String {
    let unit = Unit::of_comparison(comparison);
    let mut lines = vec![
        table_row("command", FIGURES.iter().map(|figure| cell(figure.title))),
        table_row(":---", FIGURES.iter().map(|_| "---:".to_owned())),
    ];
    for command in &comparison.commands {
        let figures = FIGURES
            .iter()
            .map(|figure| cell(&(figure.cell)(command, unit)));
        lines.push(table_row(&cell(&code(&command.name)), figures));
    }
    lines.push(String::new());
    for remark in remarks(comparison) {
        lines.push(list_item(&escape_markdown(&remark)));
    }
    for doubt in doubts(comparison) {
        lines.push(format!("- warning: {}", escape_markdown(&doubt)));
    }
    lines.join("\n") + "\n"
}
