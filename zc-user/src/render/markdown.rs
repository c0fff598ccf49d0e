//! The report as GitHub's Markdown, for a comment on a pull request or the summary of a job.

use super::{
    Options,
    columns::Layout,
    gfm::{cell, code, item, line, plain},
    header,
    page::{Piece, sentence},
    section::Section,
    table, transfers, units,
};
use crate::report::{Report, Syscall};

/// What the table shows, in other words.
pub(super) fn render(report: &Report, options: &Options) -> String {
    let (shown, hidden) = table::select(&report.processes, options);
    let sections = table::sections(report, &shown);
    let lines: Vec<&Syscall> = sections.iter().flat_map(Section::returned).collect();
    let layout = Layout::fit(&lines, None);
    let mut blocks = vec![format!("### zctrace: {}", code(&header::command(report))), plain(&sentence(&header::summary(report)))];
    blocks.extend(bullets(header::remarks(report).map(|(text, _)| plain(&text))));
    blocks.extend(moved(report, options));
    blocks.extend(sections.iter().flat_map(|section| section_blocks(section, &layout)));
    if !hidden.is_empty() {
        blocks.push(plain(&table::rest(&hidden, report)));
    }
    if blocks.iter().any(|block| block.split('|').any(|cell| cell.trim() == units::UNKNOWN)) {
        blocks.push(format!("\"{}\": unknown, not 0", units::UNKNOWN));
    }
    blocks.join("\n\n") + "\n"
}

/// The transfers.
fn moved(report: &Report, options: &Options) -> Vec<String> {
    let items = transfers::items(report, options);
    if items.is_empty() {
        return Vec::new();
    }
    let title = format!("**{}**", plain(&sentence(&transfers::heading(report))));
    // A backslash ends a line for good.
    let text = |lines: &Vec<Vec<Piece>>| lines.iter().map(|line| plain(&sentence(line))).collect::<Vec<_>>().join("\\\n  ");
    std::iter::once(title).chain(bullets(items.iter().map(text))).collect()
}

/// The title of a section, its table, and what stands below it.
fn section_blocks(section: &Section<'_>, layout: &Layout) -> Vec<String> {
    let command = section.command().map(|command| format!(": {}", code(command))).unwrap_or_default();
    let mut blocks = vec![format!("**{}**{command}", plain(&section.title()))];
    if section.is_one_line() {
        return blocks;
    }
    let returned = section.returned();
    if !returned.is_empty() {
        let titles: Vec<&str> = layout.titles().collect();
        let rule = line(":---", titles.iter().skip(1).map(|_| "---:".to_owned()));
        let head = line(titles[0], titles.iter().skip(1).map(ToString::to_string));
        let rows = returned.iter().map(|syscall| {
            let mut cells = layout.cells(syscall).map(|text| cell(&plain(&text)));
            let name = cells.next().unwrap_or_default();
            line(&name, cells)
        });
        blocks.push([head, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n"));
    }
    blocks.extend(bullets(section.remarks().iter().map(|remark| plain(&sentence(remark)))));
    blocks
}

/// A list, if there is something in it.
fn bullets(texts: impl Iterator<Item = String>) -> Option<String> {
    let items: Vec<String> = texts.map(|text| item(&text)).collect();
    (!items.is_empty()).then(|| items.join("\n"))
}
