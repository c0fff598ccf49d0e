//! Draws the view. It has no colours: what is bold, faint or reversed says nothing that the words do
//! not say.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::{
    columns::{LiveColumn, known},
    figures::LiveSums,
    model::{LiveBytes, LiveModel, LiveRow},
    span_rows::{Grouping, LiveKey},
    state::{KeyedRow, LiveView},
};
use crate::{
    render::{shorten, text_width},
    report::Api,
    units,
};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The last line of the screen.
const KEYS: &str = "q quit  space freeze  / filter  <> sort  enter calls  p P t f x rows  ? help";
/// The same while the view is frozen.
const FROZEN: &str = "FROZEN, still counting: space resumes the view";

/// What the keys and the columns mean.
const HELP: &str = "\
p P t f x      rows are programs, processes, threads, files, transfers
< > s          sort by the previous or the next column
r              reverse the order
/              show only rows with a text in their name; Esc shows all
space          freeze or resume the view; counting goes on
enter          show or hide the calls of the selected row
arrows, PgUp, PgDn, Home, End: select a row
q              end the trace and print the report; the command goes on
Ctrl-C         interrupt the command; with -p, the same as q

calls/s, err/s, bytes/s, time/s and p99 are of the last 1.5 seconds; calls,
bytes, errors and time those of the whole trace. Bytes are what calls returned
as moved: a copy by read and write counts twice. Bytes and p99 are those of the
calls with rows (-e). Time is summed over threads, waits included. A process
stays listed for 10 s after its end. \"-\": unknown or not applicable.

any key: back";

/// Draws what the view shows of the model. It remembers in the view what it scrolled to.
pub fn draw(frame: &mut Frame<'_>, model: &LiveModel, view: &mut LiveView) {
    let [title, totals, tabs, table, details, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    view.page = usize::from(table.height.saturating_sub(1));
    let shown = view.shown(model);
    draw_title(frame, title, shown);
    draw_totals(frame, totals, shown);
    if view.shows_help {
        let below = Rect {
            height: frame.area().height.saturating_sub(tabs.y),
            ..tabs
        };
        frame.render_widget(Paragraph::new(HELP), below);
        return;
    }
    let rows = view.rows(shown);
    let index = view.selected_index(&rows);
    let lines = table_lines(&rows, view);
    let selected = selected_line(&lines, index);
    let first = first_line(lines.len(), selected, view);
    draw_tabs(frame, tabs, view, index, rows.len());
    let window = lines.get(first..).unwrap_or_default();
    draw_table(frame, table, shown, view.grouping, window, selected - first);
    if let Some((key, row)) = rows.get(index) {
        draw_details(frame, details, shown, key, row);
    }
    let keys_line = match (view.is_typing, view.is_frozen()) {
        (true, _) => Line::raw(format!("filter: {}_", view.filter)),
        (false, true) => Line::styled(FROZEN, BOLD),
        (false, false) => Line::styled(KEYS, FAINT),
    };
    frame.render_widget(keys_line, keys);
    view.first_line = first;
}

/// A text at the left, shortened if need be, and one at the right.
fn ends_of_line(left: &str, right: &str, width: u16) -> String {
    let room = usize::from(width).saturating_sub(text_width(right) + 1);
    let left = shorten(left, room);
    let gap = usize::from(width).saturating_sub(text_width(&left) + text_width(right));
    format!("{left}{}{right}", " ".repeat(gap))
}

/// What is traced, for how long, by what, and whether the counts are exact.
fn draw_title(frame: &mut Frame<'_>, area: Rect, model: &LiveModel) {
    let exact = if model.is_lower_bound {
        "lower bound"
    } else {
        "exact"
    };
    let seconds = model.elapsed_ns / 1_000_000_000;
    let right = format!("{seconds} s, {}, {exact}", model.backend);
    let left = format!("zctrace top: {}", model.subject);
    let line = ends_of_line(&left, &right, area.width);
    frame.render_widget(Line::styled(line, BOLD), area);
}

/// What all processes did in the last span.
fn draw_totals(frame: &mut Frame<'_>, area: Rect, model: &LiveModel) {
    let rate = |figure: Option<u64>, show: fn(u64) -> String| {
        known(figure.and_then(|figure| model.per_second(figure)), show)
    };
    let last = model.whole.last;
    let line = format!(
        "{} calls/s, {} errors/s, {}/s, {}/s in calls, running: {}",
        rate(last.calls, |count| count.to_string()),
        rate(last.errors, |count| count.to_string()),
        rate(last.bytes, units::bytes),
        rate(last.total_ns, units::duration),
        model.running,
    );
    frame.render_widget(Line::raw(line), area);
}

/// What rows stand for, and how they are chosen and sorted.
fn draw_tabs(frame: &mut Frame<'_>, area: Rect, view: &LiveView, index: usize, count: usize) {
    let mut spans = Vec::new();
    for grouping in Grouping::ALL {
        let is_shown = grouping == view.grouping;
        let style = if is_shown { REVERSED } else { Style::new() };
        spans.push(Span::styled(format!(" {} ", grouping.title()), style));
    }
    frame.render_widget(Line::from(spans), area);
    let filter = if view.filter.is_empty() {
        String::new()
    } else {
        format!(", with '{}'", view.filter)
    };
    let order = if view.is_reversed { ", reversed" } else { "" };
    let (sort, _) = view.sort.title_and_width();
    let place = (index + 1).min(count);
    let right = format!("{place} of {count}{filter}, by {sort}{order}");
    frame.render_widget(Line::raw(right).alignment(Alignment::Right), area);
}

/// A line of the table.
enum TableLine<'m> {
    Row(KeyedRow<'m>),
    /// A call of the row above.
    Call(&'m str, &'m LiveSums),
}

fn table_lines<'m>(rows: &[KeyedRow<'m>], view: &LiveView) -> Vec<TableLine<'m>> {
    let mut lines = Vec::with_capacity(rows.len());
    for &(key, row) in rows {
        lines.push(TableLine::Row((key, row)));
        if view.is_expanded(key) {
            let mut calls: Vec<(&str, &LiveSums)> = row
                .calls
                .iter()
                .map(|(name, sums)| (name.as_ref(), sums))
                .collect();
            calls.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.last.calls, sums.total.calls)));
            lines.extend(
                calls
                    .into_iter()
                    .map(|(name, sums)| TableLine::Call(name, sums)),
            );
        }
    }
    lines
}

/// The line of the row with this index.
fn selected_line(lines: &[TableLine<'_>], index: usize) -> usize {
    let rows = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| matches!(line, TableLine::Row(_)));
    rows.map(|(place, _)| place).nth(index).unwrap_or(0)
}

/// The first line to show, so that the selected one is among those shown.
fn first_line(count: usize, selected: usize, view: &LiveView) -> usize {
    let most = count.saturating_sub(view.page);
    let least = (selected + 1).saturating_sub(view.page);
    view.first_line.min(most).max(least).min(selected)
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &LiveModel,
    grouping: Grouping,
    lines: &[TableLine<'_>],
    selected: usize,
) {
    let columns = LiveColumn::fitting(grouping, area.width);
    let widths = columns.iter().map(|column| match column {
        LiveColumn::Name => Constraint::Min(column.title_and_width().1),
        _ => Constraint::Length(column.title_and_width().1),
    });
    let widths: Vec<Constraint> = widths.collect();
    let others: u16 = columns
        .iter()
        .skip(1)
        .map(|column| column.title_and_width().1 + 1)
        .sum();
    let room = usize::from(area.width.saturating_sub(others));
    let titles = columns
        .iter()
        .map(|column| cell(*column, column.title_and_width().0));
    let header = Row::new(titles.collect::<Vec<_>>()).style(BOLD);
    let rows = lines.iter().take(usize::from(area.height)).enumerate();
    let rows = rows.map(|(place, line)| {
        let row = table_row(model, line, &columns, room);
        let is_selected = place == selected;
        if is_selected {
            row.style(REVERSED)
        } else {
            row
        }
    });
    let table = Table::new(rows.collect::<Vec<_>>(), widths)
        .header(header)
        .column_spacing(1);
    frame.render_widget(table, area);
}

/// A cell: names are at the left, all else at the right.
fn cell(column: LiveColumn, text: impl Into<String>) -> Cell<'static> {
    let alignment = match column {
        LiveColumn::Name => Alignment::Left,
        _ => Alignment::Right,
    };
    Cell::from(Text::from(text.into()).alignment(alignment))
}

fn table_row(
    model: &LiveModel,
    line: &TableLine<'_>,
    columns: &[LiveColumn],
    room: usize,
) -> Row<'static> {
    let (name, sums, interface) = match line {
        TableLine::Row((key, row)) => {
            let ended = if row.ended_ns.is_some() { " ended" } else { "" };
            let name = format!("{}{ended}", key.name);
            (name, &row.sums, row.main_interface())
        }
        TableLine::Call(name, sums) => (format!("  {name}"), *sums, None),
    };
    let cells = columns.iter().map(|&column| match column {
        LiveColumn::Name => cell(column, shorten(&name, room)),
        LiveColumn::Interface => cell(column, interface.map_or("", Api::name)),
        _ => cell(column, column.cell(model, sums)),
    });
    let is_ended = matches!(line, TableLine::Row((_, row)) if row.ended_ns.is_some());
    let style = if is_ended { FAINT } else { Style::new() };
    Row::new(cells.collect::<Vec<_>>()).style(style)
}

/// More about the selected row.
fn draw_details(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &LiveModel,
    key: &LiveKey,
    row: &LiveRow,
) {
    let ended = row
        .ended_ns
        .map(|ns| model.elapsed_ns.saturating_sub(ns) / 1_000_000_000);
    let ended = ended.map_or_else(String::new, |seconds| format!(", ended {seconds} s ago"));
    let total = row.sums.total;
    let number = |figure| known(figure, |count| count.to_string());
    let so_far = format!(
        "in all: {} calls, {} errors, {}, {} in calls",
        number(total.calls),
        number(total.errors),
        known(total.bytes, units::bytes),
        known(total.total_ns, units::duration),
    );
    let room = usize::from(area.width);
    let name = format!("{}{ended}", key.name);
    let lines = [
        Line::raw(""),
        Line::styled(shorten(&name, room), BOLD),
        Line::raw(so_far),
        Line::raw(moved_by(model, row, room)),
    ];
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

/// The interfaces that moved bytes, those that moved the most first.
fn moved_by(model: &LiveModel, row: &LiveRow, room: usize) -> String {
    let mut moved: Vec<(&Api, &LiveBytes)> = row.moved.iter().collect();
    moved.sort_by_key(|(_, bytes)| std::cmp::Reverse((bytes.last, bytes.total)));
    let words = moved.iter().map(|(api, bytes)| {
        let rate = known(model.per_second(bytes.last), units::bytes);
        let total = units::bytes(bytes.total);
        format!("{} {rate}/s ({total} in all)", api.name())
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        return "no transfers seen".to_owned();
    }
    format!("moved by {}", whole_words(&words, room.saturating_sub(9)))
}

/// As many of these as have room in one line, with dots for the others: a figure that is cut is another one.
fn whole_words(words: &[String], room: usize) -> String {
    let mut line = String::new();
    for (index, word) in words.iter().enumerate() {
        let rest = if index + 1 < words.len() { 5 } else { 0 };
        if index > 0 && line.len() + 2 + word.len() + rest > room {
            return line + ", ...";
        }
        line += if index > 0 { ", " } else { "" };
        line += word;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_is_cut_where_there_is_little_room() {
        let words = ["read+write 22.2 MiB/s", "sendfile 7 B/s", "splice 1 B/s"].map(str::to_owned);
        assert_eq!(whole_words(&words, 80), words.join(", "));
        assert_eq!(
            whole_words(&words, words.join(", ").len()),
            words.join(", ")
        );
        assert_eq!(
            whole_words(&words, 50),
            "read+write 22.2 MiB/s, sendfile 7 B/s, ..."
        );
        assert_eq!(whole_words(&words, 30), "read+write 22.2 MiB/s, ...");
        assert_eq!(whole_words(&words, 3), "read+write 22.2 MiB/s, ...");
    }
}
