//! GitHub's Markdown: how text is written in it, and the document of a report for a comment on a
//! pull request or the summary of a job.

use super::{
    page::{TextLine, sentence},
    part::{Document, DocumentPart},
    table::ShownTable,
    text,
};

/// A backslash forces a line break.
const LINE_BREAK: &str = "\\\n";
const LINE_BREAK_IN_LIST: &str = "\\\n  ";

pub(super) fn render(document: &Document) -> String {
    let mut blocks = vec![format!("### zctrace: {}", code(&document.command))];
    blocks.push(lines_of_text(&document.lines, LINE_BREAK));
    blocks.extend(bullets(&document.remarks));
    blocks.extend(document.parts.iter().flat_map(blocks_of_part));
    blocks.join("\n\n") + "\n"
}

fn blocks_of_part(part: &DocumentPart) -> Vec<String> {
    let mut title = format!("**{}**", escape_markdown(&sentence(&part.heading)));
    if let Some(command) = &part.command {
        title = format!("{title}: {}", code(command));
    }
    let mut blocks = vec![title];
    blocks.extend(part.table.as_ref().map(table));
    let items: Vec<String> = part
        .items
        .iter()
        .map(|item| list_item(&lines_of_text(item, LINE_BREAK_IN_LIST)))
        .collect();
    blocks.extend((!items.is_empty()).then(|| items.join("\n")));
    blocks.extend(bullets(&part.remarks));
    blocks
}

/// A table, whose first column holds names and the others numbers.
pub(super) fn table(table: &ShownTable) -> String {
    let row = |cells: Vec<String>| {
        let mut cells = cells.iter().map(|text| cell(text));
        table_row(&cells.next().unwrap_or_default(), cells)
    };
    let titles = table.titles().into_iter().map(escape_characters);
    let numbers = table.columns[1..].iter().map(|_| "---:".to_owned());
    let mut lines = vec![row(titles.collect()), table_row(":---", numbers)];
    for shown in &table.rows {
        let cells = shown.cells.iter().map(|text| escape_markdown(text));
        let mut cells: Vec<String> = cells.collect();
        for below in &shown.below {
            cells[0] += "<br>";
            cells[0] += &escape_markdown(below);
        }
        lines.push(row(cells));
    }
    lines.join("\n")
}

/// Lines that stay lines.
fn lines_of_text(lines: &[TextLine], line_break: &str) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| escape_markdown(&sentence(line)))
        .collect();
    lines.join(line_break)
}

/// A list, unless it is empty.
fn bullets(lines: &[TextLine]) -> Option<String> {
    let items = lines
        .iter()
        .map(|line| list_item(&escape_markdown(&sentence(line))));
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then(|| items.join("\n"))
}

/// A row of a table.
fn table_row(first: &str, rest: impl Iterator<Item = String>) -> String {
    format!(
        "| {} |",
        std::iter::once(first.to_owned())
            .chain(rest)
            .collect::<Vec<_>>()
            .join(" | ")
    )
}

/// The fence around code: more backticks than any run of them in the text, and at least so many.
pub(super) fn fence_of(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(least.max(longest + 1))
}

/// Text as code.
pub(super) fn code(name: &str) -> String {
    let name = text::escape(name);
    let fence = fence_of(&name, 1);
    // A backtick at either end would become part of the fence.
    let space = if name.starts_with('`') || name.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{name}{space}{fence}")
}

/// The text of a cell. A bar ends a cell even within code.
fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

/// Text as it is. Words that may be names are code, so that GitHub makes no mention (`@name`), link
/// (`www.name`, `#1`) or picture (`:name:`) of them, which a backslash does not prevent.
pub(super) fn escape_markdown(text: &str) -> String {
    let word = |word: &str| {
        let rest = word.trim_start_matches(['(', '"']);
        let name = rest.trim_end_matches([',', ';', ':', '.', ')', '"']);
        if is_prose(name) {
            return escape_characters(word);
        }
        let before = &word[..word.len() - rest.len()];
        format!("{before}{}{}", code(name), &rest[name.len()..])
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Whether this is a word of letters, or a figure.
fn is_prose(word: &str) -> bool {
    let has_letters = word.contains(char::is_alphabetic);
    let is_plain = |c: char| c.is_alphabetic() || c == '-' || c == '\'';
    if has_letters {
        !word.starts_with("--") && word.chars().all(is_plain)
    } else {
        !word.contains('#') || !word.contains(char::is_numeric)
    }
}

/// Escapes what is markup.
fn escape_characters(text: &str) -> String {
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
        assert_eq!(escape_markdown("a*b: <c> --x_y"), "`a*b`: `<c>` `--x_y`");
        assert_eq!(
            list_item(&escape_markdown("- $ [] 1.5")),
            r"- \- \$ \[\] 1.5"
        );
    }

    #[test]
    fn names_are_neither_mentions_nor_links() {
        for name in [
            "@octocat",
            "www.evil.example",
            "https://evil.example",
            "a@evil.example",
            "#1",
            "GH-1",
            "owner/name#1",
            ":tada:",
            "1a2b3c4d",
            "![x](y)",
        ] {
            let expected = format!(
                "failed: ({}), 2 more",
                code(name.trim_end_matches([')', ':']))
            );
            let written = escape_markdown(&format!("failed: ({name}), 2 more"));
            let closes = |text: &str| text.replace([':', ')'], "");
            assert_eq!(closes(&written), closes(&expected), "{written}");
        }
    }
}
