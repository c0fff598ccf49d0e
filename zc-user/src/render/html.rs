//! The page of `--html`: what the table says, with pictures. One file, which loads and runs
//! nothing: HTML, SVG and CSS.
//!
//! It is also well-formed XML, so that a test can parse it. Every text of a report is escaped
//! twice: control characters and invisible ones by [`text::escape`], markup by maud.

mod flow;
mod processes;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    calls::Shown,
    document::{LEGEND, Part},
    head, latency,
    page::{Options, Piece, Style, sentence},
    table::{Column, Table},
    text,
};
use crate::report::Report;

/// A longer name within a sentence is shortened.
const LONGEST_NAME: usize = 160;
/// A longer command is shortened in the title of the page.
const LONGEST_TITLE: usize = 80;
/// How many rows a table has.
const MOST_ROWS: usize = 100;

/// What a browser needs to know first: nothing may be loaded, run or sent.
const META: &str = r#"<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="referrer" content="no-referrer"/>
<meta name="color-scheme" content="light dark"/>
"#;
const STYLE: &str = include_str!("html/page.css");
const LINE_BREAK: PreEscaped<&str> = PreEscaped("\n");

/// The page. It does not grow with the number of processes or transfers.
pub(super) fn render(report: &Report) -> String {
    let options = Options {
        histogram: true,
        ..Options::default()
    };
    let command = head::command(report);
    let page = html! {
        (DOCTYPE) (LINE_BREAK)
        html lang="en" {
            head {
                (LINE_BREAK) (PreEscaped(META))
                title { "zctrace: " (text::shorten(&command, LONGEST_TITLE)) }
                style { (PreEscaped(STYLE)) }
            }
            (LINE_BREAK)
            body {
                (header(report, &command)) (LINE_BREAK)
                main {
                    (flow::section(report, &options)) (LINE_BREAK)
                    (section("Calls", Some(&calls(report, &options)), report)) (LINE_BREAK)
                    (section("Latency", latency::part(report, &options).as_ref(), report)) (LINE_BREAK)
                    (processes::section(report, &options)) (LINE_BREAK)
                }
                (footer(report)) (LINE_BREAK)
            }
        }
    };
    page.into_string() + "\n"
}

/// What ran, how it ended, and whether the figures are exact: the first lines of the table.
fn header(report: &Report, command: &str) -> Markup {
    let known = |value: &Option<String>| text::known(value.as_deref(), text::escape);
    html! {
        header {
            h1 { "zctrace " code { (command) } }
            @for line in head::lines(report) { p { (pieces(&line)) } }
            @for remark in head::remarks(report) { p.remark { (pieces(&remark)) } }
            p.faint {
                "kernel " (known(&report.kernel)) ", " (known(&report.arch)) ", started " (known(&report.started_at))
                " in " span.name { (shorten(&known(&report.directory))) }
            }
        }
    }
}

fn footer(report: &Report) -> Markup {
    html! {
        footer {
            p { (LEGEND) }
            p {
                "Drawn from a report by " (text::escape(&report.tool.name)) " " (text::escape(&report.tool.version))
                ". The options that this page names are those of " code { "zctrace report" }
                ", which lists in a terminal what is not drawn here."
            }
        }
    }
}

/// The pieces of a line. Neighbours of the same style share an element; each name has its own.
fn pieces(pieces: &[Piece]) -> Markup {
    let is_run = |a: &Piece, b: &Piece| a.style() == b.style() && a.style() != Style::Heading;
    html! {
        @for (index, run) in pieces.chunk_by(is_run).enumerate() {
            @if index > 0 { " " }
            (piece(&run.iter().map(Piece::text).collect::<Vec<_>>().join(" "), run[0].style()))
        }
    }
}

fn piece(text: &str, style: Style) -> Markup {
    let class = match style {
        Style::Plain => return html! { (text) },
        Style::Heading => return html! { b.name { (shorten(text)) } },
        Style::Faint => "faint",
        Style::Good => "good",
        Style::Warning => "warning",
        Style::Bad => "bad",
    };
    html! { span class=(class) { (text) } }
}

/// The calls of all processes; of a single one, its own.
fn calls(report: &Report, options: &Options) -> Part {
    let shown = Shown::new(report, options);
    match report.processes.as_slice() {
        [only] => shown.process(only),
        _ => shown.total(),
    }
}

/// A part of the document as a section of the page.
fn section(title: &str, shown: Option<&Part>, report: &Report) -> Markup {
    html! {
        section {
            h2 { (title) }
            (counts_are_lower_bounds(report))
            @if let Some(shown) = shown { (part(shown)) }
        }
    }
}

/// Repeats beside figures that the counts are lower bounds: the head, which says why, may be far
/// away.
fn counts_are_lower_bounds(report: &Report) -> Markup {
    html! { @if !report.exact { p.warning { "Counts are lower bounds: the top of the page says why." } } }
}

/// A name that is safe to show; a long one loses its middle.
fn shorten(name: &str) -> String {
    text::shorten(name, LONGEST_NAME).into_owned()
}

/// A part of the document.
fn part(part: &Part) -> Markup {
    html! {
        h3 { (sentence(&part.heading)) }
        (body(part))
    }
}

/// What is below the heading of a part.
fn body(part: &Part) -> Markup {
    html! {
        @if let Some(command) = &part.command { p { code { "$ " (command) } } }
        @if let Some(shown) = &part.table { (table(shown)) }
        @if !part.remarks.is_empty() {
            ul.remarks { @for remark in &part.remarks { li { (pieces(remark)) } } }
        }
    }
}

/// A table that scrolls by itself if it is wider than the page. The first cell of each row is its
/// title. A share has a bar behind it.
fn table(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for title in table.titles() { th scope="col" { (title) } } } }
                tbody {
                    @for row in table.rows.iter().take(MOST_ROWS) {
                        (LINE_BREAK)
                        tr {
                            th scope="row" { (row.cells[0]) }
                            @for (column, cell) in table.columns.iter().zip(&row.cells).skip(1) {
                                td style=[bar(column, cell)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
        @if let more @ 1.. = table.rows.len().saturating_sub(MOST_ROWS) { p { "and " (more) " more" } }
    }
}

/// The bar behind a share, as style of its cell.
fn bar(column: &Column, cell: &str) -> Option<String> {
    let share: f64 = cell
        .parse()
        .ok()
        .filter(|_| column.title.starts_with('%'))?;
    let share = share.clamp(0.0, 100.0);
    Some(format!(
        "background: linear-gradient(90deg, var(--share) {share:.1}%, transparent 0)"
    ))
}
