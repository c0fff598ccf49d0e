//! The page for a person: who is how much faster, then a column for each command.

use comfy_table::{ColumnConstraint, Width};

use super::{
    figures::{self, FIGURES, Look, doubts, remarks},
    wrap::wrap,
};
use crate::{
    compare::{Compared, Comparison, Speed, Summary},
    render::{
        Options,
        page::{Page, Style, words},
        ruled, text,
        units::UNKNOWN,
    },
};

/// Spaces between two columns.
const GAP: usize = 2;
/// A name wider than this is shown on several lines.
const NAME_WIDTH: usize = 20;

/// The page.
pub(super) fn render(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    let look = Look::of(comparison);
    write_summary(&mut page, comparison, &look);
    let titles = FIGURES.iter().map(|figure| text::width(figure.title)).max().unwrap_or(0);
    let room = options.width.map(|width| width.saturating_sub(titles));
    let name_width = room.map_or(NAME_WIDTH, |room| NAME_WIDTH.min(room.saturating_sub(GAP)));
    let columns: Vec<Column> = comparison.commands.iter().map(|command| Column::of(command, &look, name_width)).collect();
    for block in blocks(&columns, room) {
        page.gap();
        write_block(&mut page, block);
    }
    page.gap();
    if columns.iter().any(|column| column.cells.iter().any(|cell| cell == UNKNOWN)) {
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

/// What the person came for.
fn write_summary(page: &mut Page, comparison: &Comparison, look: &Look) {
    let name = |index: usize| comparison.commands.get(index).map(figures::name).unwrap_or_default();
    let Some(summary) = Summary::of(comparison) else {
        let line = match comparison.commands.as_slice() {
            [only] => words(&format!("{}: {}", figures::name(only), look.time_with_deviation(only)), Style::Heading),
            _ => words("no speeds to compare: a command took no time that could be measured", Style::Warning),
        };
        page.flow(0, &line);
        return;
    };
    page.flow(0, &words(&format!("{} ran", name(summary.subject)), Style::Heading));
    for speed in &summary.others {
        let Speed { is_faster, times, stddev, .. } = *speed;
        let deviation = stddev.map(|stddev| format!(" ± {stddev:.2}")).unwrap_or_default();
        let (style, direction) = if is_faster { (Style::Good, "faster") } else { (Style::Bad, "slower") };
        let mut pieces = words(&format!("{times:.2}{deviation} times {direction}"), style);
        pieces.extend(words(&format!("than {}", name(speed.other)), Style::Plain));
        page.flow(2, &pieces);
    }
}

/// The figures of one command.
struct Column {
    title: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn of(command: &Compared, look: &Look, name_width: usize) -> Self {
        let cells: Vec<String> = FIGURES.iter().map(|figure| figure.of(command, look)).collect();
        let widest = cells.iter().map(|cell| text::width(cell)).max().unwrap_or(0);
        let title = wrap(&figures::name(command), widest.max(name_width));
        let width = title.iter().map(|line| text::width(line)).max().unwrap_or(0).max(widest);
        Self { title, cells, width }
    }
}

/// The columns in as few blocks as the room allows: nothing is left out of a narrow page, it becomes longer.
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
    let title_lines = block.iter().map(|column| column.title.len()).max().unwrap_or(0);
    let mut table = ruled::table();
    // Names end at the rule, however many lines they take.
    let title = |column: &Column| "\n".repeat(title_lines - column.title.len()) + &column.title.join("\n");
    table.set_header(std::iter::once(String::new()).chain(block.iter().map(title)));
    for (row, figure) in FIGURES.iter().enumerate() {
        table.add_row(std::iter::once(figure.title.to_owned()).chain(block.iter().map(|column| column.cells[row].clone())));
    }
    ruled::align(&mut table);
    for ((index, column), shown) in table.column_iter_mut().enumerate().skip(1).zip(block) {
        let width = u16::try_from(shown.width).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(ruled::padding(index)))));
    }
    for (index, line) in ruled::lines(&table).iter().enumerate() {
        let style = match index {
            index if index < title_lines => Style::Heading,
            index if index == title_lines => Style::Faint,
            _ => Style::Plain,
        };
        page.line(0, style, line);
    }
}
