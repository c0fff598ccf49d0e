//! `zctrace compare`: commands side by side, as a page for a person, as JSON, as a Markdown table.

mod figures;

use clap::ValueEnum;

use self::figures::{FIGURES, doubts, remarks, time_with_deviation};
use super::{
    diff_page,
    markdown::{self, escape_markdown, list_item},
    page::{INDENT, Options, Page, Style, words},
    table::{GAP, STAYS, ShownTable},
    text::{self, json},
};
use crate::{
    compare::{Compared, Comparison, Speed, Summary},
    diff::DiffOutcome,
};

#[cfg(test)]
mod comparison_tests;

/// A format of comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// A table.
    #[default]
    Table,
    /// All figures of all runs, with times in seconds.
    Json,
    /// A table for a web page.
    Markdown,
}

/// The comparison in this format. It ends in a newline.
pub fn compare(comparison: &Comparison, format: CompareFormat, options: &Options) -> String {
    match format {
        CompareFormat::Table => page(comparison, options),
        CompareFormat::Json => json(comparison),
        CompareFormat::Markdown => in_markdown(comparison),
    }
}

/// A wider name is shortened above its column. The lines above the table have all of it.
const NAME_WIDTH: usize = 20;
/// A name is cut to this width above what changed, where the name of the figure needs most of a
/// line.
const CHANGES_WIDTH: usize = 12;

/// The page for a person: which command is how much faster, then a column for each command.
fn page(comparison: &Comparison, options: &Options) -> String {
    let mut page = Page::new(options);
    write_summary(&mut page, comparison);
    for table in tables(comparison, options.width) {
        page.gap();
        page.table(0, &table.lines(None));
    }
    write_all_changes(&mut page, comparison);
    page.gap();
    for remark in remarks(comparison) {
        page.say(0, Style::Faint, &remark);
    }
    for doubt in doubts(comparison) {
        page.say(0, Style::Warning, &format!("warning: {doubt}"));
    }
    page.finish()
}

/// A column for each command, in as few tables as the width allows. A narrow page leaves nothing
/// out; it becomes longer.
fn tables(comparison: &Comparison, width: Option<usize>) -> Vec<ShownTable> {
    let titles = FIGURES.iter().map(|(title, _)| text::width(title)).max();
    let room = width.map(|width| width.saturating_sub(titles.unwrap_or(0) + GAP));
    let name_width = room.map_or(NAME_WIDTH, |room| room.min(NAME_WIDTH));
    let table = |commands: &[Compared]| {
        let names = commands.iter().map(figures::name);
        let names: Vec<String> = names
            .map(|name| text::shorten(&name, name_width).into_owned())
            .collect();
        let columns = std::iter::once("").chain(names.iter().map(String::as_str));
        let rows = FIGURES.iter().map(|(title, show)| {
            let cells = commands.iter().map(show);
            std::iter::once((*title).to_owned()).chain(cells).collect()
        });
        ShownTable::new(columns.map(|title| (title, STAYS)), rows)
    };
    let whole = table(&comparison.commands);
    let widest = (1..whole.columns.len()).map(|column| whole.width(column));
    let widest = widest.max().unwrap_or(0);
    let most = room.map_or(usize::MAX, |room| (room + GAP) / (widest + GAP));
    comparison.commands.chunks(most.max(1)).map(table).collect()
}

/// What the traced run of each command did differently from that of the first one, as `zctrace
/// diff` shows it.
fn write_all_changes(page: &mut Page, comparison: &Comparison) {
    let Some(first) = comparison.commands.first() else {
        return;
    };
    let first_name = figures::name(first);
    for command in &comparison.commands {
        let Some(changes) = &command.changes else {
            continue;
        };
        let name = figures::name(command);
        page.gap();
        let (answer, style) = match changes.outcome {
            // Times may have changed all the same.
            DiffOutcome::Same => (
                format!("the same calls ({} figures are equal)", changes.compared),
                Style::Good,
            ),
            _ => diff_page::answer(changes),
        };
        let mut title = words(&format!("from {first_name} to {name}:"), Style::Heading);
        title.extend(words(&answer, style));
        page.flow(0, &title);
        let titles = [&first_name, &name].map(|name| text::shorten(name, CHANGES_WIDTH));
        let titles = if titles[0] == titles[1] {
            ["from", "to"]
        } else {
            titles.each_ref().map(|title| &**title)
        };
        diff_page::write_changes(page, changes, titles);
        if command.differs_in_time_from(first) {
            diff_page::write_times(page, changes);
        }
        diff_page::write_flags(page, changes);
    }
}

/// Which command is how much faster than the others.
fn write_summary(page: &mut Page, comparison: &Comparison) {
    let name = |index: usize| {
        let command = comparison.commands.get(index);
        command.map(figures::name).unwrap_or_default()
    };
    let Some(summary) = Summary::from_comparison(comparison) else {
        if let [only] = comparison.commands.as_slice() {
            let line = format!("{}: {}", figures::name(only), time_with_deviation(only));
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

/// A table in GitHub's Markdown with a line for each command, and remarks below it.
fn in_markdown(comparison: &Comparison) -> String {
    let titles = FIGURES.iter().map(|(title, _)| *title);
    let columns = std::iter::once("command").chain(titles);
    let rows = comparison.commands.iter().map(|command| {
        let figures = FIGURES.iter().map(|(_, show)| show(command));
        std::iter::once(figures::name(command))
            .chain(figures)
            .collect()
    });
    let table = ShownTable::new(columns.map(|title| (title, STAYS)), rows);
    let doubts = doubts(comparison)
        .into_iter()
        .map(|doubt| format!("warning: {doubt}"));
    let remarks = remarks(comparison).into_iter().chain(doubts);
    let remarks: Vec<String> = remarks
        .map(|text| list_item(&escape_markdown(&text)))
        .collect();
    format!("{}\n\n{}\n", markdown::table(&table), remarks.join("\n"))
}
