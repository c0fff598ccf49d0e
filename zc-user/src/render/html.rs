//! The page of `--html`: what the table says, with pictures. One file, which loads and runs
//! nothing: HTML, SVG and CSS.
//!
//! It is also well-formed XML, so that a test can parse it. Every text of a report is escaped
//! twice: control characters and invisible ones by [`text::escape`], markup by maud.

mod flow;
mod markup;
mod pipeline;
mod processes;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    calls::Shown,
    head::{self, Head},
    latency,
    page::Options,
    part::{DocumentPart, LEGEND},
    text,
};
use crate::report::Report;
use markup::{LINE_BREAK, counts_are_lower_bounds, part, pieces, shorten};

/// A longer command is shortened in the title of the page.
const LONGEST_TITLE: usize = 80;

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
                    @if let Some(pipes) = pipeline::section(report, &options) { (pipes) }
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
            @for line in Head::new(report).lines { p { (pieces(&line)) } }
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

/// The calls of all processes; of a single one, its own.
fn calls(report: &Report, options: &Options) -> DocumentPart {
    let shown = Shown::new(report, options);
    match report.processes.as_slice() {
        [only] => shown.process(only),
        _ => shown.total(),
    }
}

/// A part of the document as a section of the page.
fn section(title: &str, shown: Option<&DocumentPart>, report: &Report) -> Markup {
    html! {
        section {
            h2 { (title) }
            (counts_are_lower_bounds(report))
            @if let Some(shown) = shown { (part(shown)) }
        }
    }
}
