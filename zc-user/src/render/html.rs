//! The page of `--html`: what the table says, with pictures. One file, which loads and runs
//! nothing: HTML, SVG and CSS.
//!
//! It is also well-formed XML, so that a test can parse it. Every text of a report is escaped
//! twice: control characters and invisible ones by [`text::escape`], markup by maud.

mod flow;
mod flow_layout;
mod flow_picture;
mod markup;
mod sync_picture;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    document::document,
    page::{Options, sentence},
    part::{Document, DocumentPart},
    text,
};
use crate::report::{Detail, Report};
use markup::{LINE_BREAK, pieces, shorten, table};

/// A longer command is shortened in the title of the page.
const MAX_TITLE: usize = 80;

/// What a browser needs to know first: nothing may be loaded, run or sent.
const META: &str = r#"<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="referrer" content="no-referrer"/>
<meta name="color-scheme" content="light dark"/>
"#;
const STYLE: &str = include_str!("html/page.css");

/// The page. It does not grow with the number of processes or transfers.
pub(super) fn render(report: &Report) -> String {
    let options = Options {
        by: Some(Detail::Process),
        histogram: true,
        ..Options::default()
    };
    let mut document = document(report, &options);
    // They answer most questions, and the picture before them shows them.
    document.parts.sort_by_key(|part| !part.is_of_transfers);
    let page = html! {
        (DOCTYPE) (LINE_BREAK)
        html lang="en" {
            head {
                (LINE_BREAK) (PreEscaped(META))
                title { "zctrace: " (text::shorten(&document.command, MAX_TITLE)) }
                style { (PreEscaped(STYLE)) }
            }
            (LINE_BREAK)
            body {
                (header(report, &document)) (LINE_BREAK)
                main {
                    @if let Some(picture) = flow_picture::section(report) { (picture) (LINE_BREAK) }
                    @if let Some(picture) = sync_picture::section(report) { (picture) (LINE_BREAK) }
                    @for part in &document.parts { (section(part, report.exact)) (LINE_BREAK) }
                }
                (footer(report)) (LINE_BREAK)
            }
        }
    };
    page.into_string() + "\n"
}

/// What ran, how it ended, and whether the figures are exact: the first lines of the table.
fn header(report: &Report, document: &Document) -> Markup {
    let known = |value: &Option<String>| text::known(value.as_deref(), text::escape);
    html! {
        header {
            h1 { "zctrace " code { (document.command) } }
            @for line in &document.lines { p { (pieces(line)) } }
            @for remark in &document.remarks { p.remark { (pieces(remark)) } }
            p.faint {
                "kernel " (known(&report.kernel)) ", " (known(&report.arch)) ", started " (known(&report.started_at))
                " in " span.name { (shorten(&known(&report.directory))) }
            }
        }
    }
}

/// A part of the document. Beside figures it repeats that counts are lower bounds: the head, which
/// says why, may be far away.
fn section(part: &DocumentPart, is_exact: bool) -> Markup {
    html! {
        section {
            h2 { (sentence(&part.heading)) }
            @if let Some(command) = &part.command { p { code { "$ " (command) } } }
            @if let Some(shown) = &part.table {
                @if !is_exact { p.warning { "Counts are lower bounds: the top of the page says why." } }
                (table(shown))
            }
            @for item in &part.items { ul { @for line in item { li { (pieces(line)) } } } }
            @if !part.remarks.is_empty() {
                ul.remarks { @for remark in &part.remarks { li { (pieces(remark)) } } }
            }
        }
    }
}

fn footer(report: &Report) -> Markup {
    html! {
        footer {
            p { "\"-\": unknown or not applicable" }
            p {
                "Drawn from a report by " (text::escape(&report.tool.name)) " " (text::escape(&report.tool.version))
                ". The options on this page are those of " code { "zctrace report" }
                ", which also prints what is not drawn here."
            }
        }
    }
}
