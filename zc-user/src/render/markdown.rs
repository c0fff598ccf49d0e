//! GitHub's Markdown: how text is written in it, and the report for a comment on a pull request or
//! the summary of a job.

use super::{
    columns::Layout,
    head,
    page::{Options, Piece, sentence},
    programs,
    section::Section,
    table::{self, Sections},
    text, transfers,
};
use crate::{
    report::{Report, Syscall},
    units,
};

/// A backslash forces a line break.
const LINE_BREAK: &str = "\\\n";
const LINE_BREAK_IN_LIST: &str = "\\\n  ";

/// The report. It has the same parts as the text for a terminal.
pub(super) fn render(report: &Report, options: &Options) -> String {
    let Sections { sections, hidden } = table::sections(report, options);
    let lines: Vec<&Syscall> = sections.iter().flat_map(Section::returned).collect();
    let layout = Layout::fit(&lines, None);
    let mut blocks = vec![format!("### zctrace: {}", code(&head::command(report)))];
    blocks.push(lines_of_text(head::lines(report), LINE_BREAK));
    let remarks = head::remarks(report);
    blocks.extend(bullets(remarks.map(|(text, _)| escape_markdown(&text))));
    blocks.extend(program_blocks(report, options));
    blocks.extend(transfer_blocks(report, options));
    for section in &sections {
        blocks.extend(section_blocks(section, &layout));
    }
    blocks.extend(hidden.map(|hidden| escape_markdown(&hidden)));
    let mut cells = blocks.iter().flat_map(|block| block.split('|'));
    if cells.any(|cell| cell.trim() == units::UNKNOWN) {
        blocks.push(format!("\"{}\": unknown, not 0", units::UNKNOWN));
    }
    blocks.join("\n\n") + "\n"
}

/// The programs.
fn program_blocks(report: &Report, options: &Options) -> Vec<String> {
    let Some(programs) = programs::listing(report, programs::most(options)) else {
        return Vec::new();
    };
    let mut blocks = vec![
        bold(&programs.heading),
        table_of(programs.titles, &programs.rows),
    ];
    blocks.extend(programs.hidden.as_deref().map(escape_markdown));
    blocks
}

/// A title.
fn bold(text: &str) -> String {
    format!("**{}**", escape_markdown(text))
}

/// A table, whose first column holds names and the others numbers.
fn table_of(titles: &[&str], rows: &[Vec<String>]) -> String {
    let texts = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|text| cell(&escape_markdown(text)))
            .collect();
        table_row(&cells[0], cells[1..].iter().cloned())
    };
    let others = || titles[1..].iter();
    let mut lines = vec![
        table_row(titles[0], others().map(ToString::to_string)),
        table_row(":---", others().map(|_| "---:".to_owned())),
    ];
    lines.extend(rows.iter().map(|row| texts(row)));
    lines.join("\n")
}

/// The transfers.
fn transfer_blocks(report: &Report, options: &Options) -> Vec<String> {
    let items = transfers::items(report, options);
    if items.is_empty() {
        return Vec::new();
    }
    let title = bold(&sentence(&transfers::heading(report)));
    let mut blocks = vec![title];
    let items = items.into_iter();
    blocks.extend(bullets(
        items.map(|item| lines_of_text(item.into_iter(), LINE_BREAK_IN_LIST)),
    ));
    blocks
}

/// The title of a section, its table, and the lines below it.
fn section_blocks(section: &Section<'_>, layout: &Layout) -> Vec<String> {
    let mut title = bold(&section.title());
    if let Some(command) = section.command() {
        title = format!("{title}: {}", code(command));
    }
    let mut blocks = vec![title];
    if section.is_one_line() {
        return blocks;
    }
    let returned = section.returned();
    if !returned.is_empty() {
        blocks.push(table_of(&layout.titles(), &layout.rows(&returned)));
    }
    let remarks = section.remarks();
    blocks.extend(bullets(
        remarks
            .iter()
            .map(|remark| escape_markdown(&sentence(remark))),
    ));
    blocks
}

/// Lines that stay lines.
fn lines_of_text(lines: impl Iterator<Item = Vec<Piece>>, line_break: &str) -> String {
    let lines: Vec<String> = lines
        .map(|line| escape_markdown(&sentence(&line)))
        .collect();
    lines.join(line_break)
}

/// A list, unless it is empty.
fn bullets(texts: impl Iterator<Item = String>) -> Option<String> {
    let items: Vec<String> = texts.map(|text| list_item(&text)).collect();
    (!items.is_empty()).then(|| items.join("\n"))
}

/// A row of a table.
pub(super) fn table_row(first: &str, rest: impl Iterator<Item = String>) -> String {
    format!(
        "| {} |",
        std::iter::once(first.to_owned())
            .chain(rest)
            .collect::<Vec<_>>()
            .join(" | ")
    )
}

/// Text as code. The fence has more backticks than any run of them in the text.
pub(super) fn code(name: &str) -> String {
    let name = text::escape(name);
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A backtick at either end would become part of the fence.
    let space = if name.starts_with('`') || name.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{name}{space}{fence}")
}

/// The text of a cell. A bar ends a cell even within code.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

/// Escapes Markdown.
pub(super) fn escape_markdown(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if r"\`*_[]<>#&~$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// An item of a list.
pub(super) fn list_item(text: &str) -> String {
    // At its beginning these would start another list.
    let guard = if text.starts_with(['-', '+']) {
        r"\"
    } else {
        ""
    };
    format!("- {guard}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_shown_as_it_is_whatever_it_contains() {
        assert_eq!(cell(&code("cat a | tac")), r"`cat a \| tac`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("a\nb"), r"`a\nb`");
    }

    #[test]
    fn text_is_not_taken_for_markup() {
        assert_eq!(escape_markdown("a*b: <c> --x_y"), r"a\*b: \<c\> --x\_y");
        assert_eq!(list_item(&escape_markdown("- $x &lt;")), r"- \- \$x \&lt;");
    }
}
