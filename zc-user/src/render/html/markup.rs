//! Lines and tables of the document as HTML.

use maud::{Markup, PreEscaped, html};

use crate::render::{
    page::{Piece, Style, sentence},
    table::{Column, ShownTable},
    text,
};

/// A longer name within a sentence is shortened.
const MAX_NAME: usize = 160;
/// How many rows a table has.
const MAX_ROWS: usize = 100;
pub(super) const LINE_BREAK: PreEscaped<&str> = PreEscaped("\n");

/// The pieces of a line. Neighbours of the same style share an element; each name has its own.
pub(super) fn pieces(pieces: &[Piece]) -> Markup {
    let is_run = |a: &Piece, b: &Piece| a.style == b.style && a.style != Style::Heading;
    html! {
        @for (index, run) in pieces.chunk_by(is_run).enumerate() {
            @if index > 0 { " " }
            (piece(without_option(&sentence(run)), run[0].style))
        }
    }
}

/// A sentence without its clause about `--all`, which a page does not have: `and 3 more` of `and 3
/// more: --all shows them`.
fn without_option(sentence: &str) -> &str {
    let before = sentence.rfind(" --all ").map(|at| &sentence[..at]);
    let before = before.and_then(|before| before.strip_suffix([':', ';']));
    before.unwrap_or(sentence)
}

fn piece(text: &str, style: Style) -> Markup {
    let class = match style {
        Style::Plain => return with_whole_arrows(text),
        Style::Heading => return html! { b.name { (shorten(text)) } },
        Style::Faint => "faint",
        Style::Good => "good",
        Style::Warning => "warning",
        Style::Bad => "bad",
    };
    html! { span class=(class) { (text) } }
}

/// The text, in which no line ends within an arrow.
fn with_whole_arrows(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split("->").enumerate() {
            @if index > 0 { span.arrow { "->" } }
            (part)
        }
    }
}

/// A name that is safe to show; a long one loses its middle.
pub(super) fn shorten(name: &str) -> String {
    text::shorten(name, MAX_NAME).into_owned()
}

/// A table that scrolls by itself if it is wider than the page. The first cell of each row is its
/// title. A share has a bar behind it.
pub(super) fn table(table: &ShownTable) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { @for title in table.titles() { th scope="col" { (title) } } } }
                tbody {
                    @for row in table.rows.iter().take(MAX_ROWS) {
                        (LINE_BREAK)
                        tr {
                            th scope="row" { (row.cells[0]) }
                            @for (column, cell) in table.columns.iter().zip(&row.cells).skip(1) {
                                td style=[bar(column, cell)] { (cell) }
                            }
                        }
                        @for below in &row.below {
                            tr { td.below colspan=(row.cells.len()) { (below) } }
                        }
                    }
                }
            }
        }
        @if let more @ 1.. = table.rows.len().saturating_sub(MAX_ROWS) { p { "and " (more) " more" } }
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
