//! The comparison as a table of GitHub's Markdown: a line for each command.

use super::figures::{FIGURES, Look, doubts, remarks};
use crate::{
    compare::{Compared, Comparison},
    render::text,
};

/// The table, and below it what it does not say itself.
pub(super) fn render(comparison: &Comparison) -> String {
    let look = Look::of(comparison);
    let row = |command: &Compared| line(code(&command.name), FIGURES.iter().map(|figure| cell(&figure.of(command, &look))));
    let mut lines = vec![
        line("command".to_owned(), FIGURES.iter().map(|figure| cell(figure.title))),
        line(":---".to_owned(), FIGURES.iter().map(|_| "---:".to_owned())),
    ];
    lines.extend(comparison.commands.iter().map(row));
    lines.push(String::new());
    lines.extend(remarks(comparison).iter().map(|remark| format!("- {}", plain(remark))));
    lines.extend(doubts(comparison).iter().map(|doubt| format!("- warning: {}", plain(doubt))));
    lines.join("\n") + "\n"
}

fn line(first: String, rest: impl Iterator<Item = String>) -> String {
    format!("| {} |", std::iter::once(first).chain(rest).collect::<Vec<_>>().join(" | "))
}

/// Text as code: between more backticks than it has in a row.
fn code(name: &str) -> String {
    let name = text::escape(name);
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A backtick at an end would become part of the fence.
    let space = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    cell(&format!("{fence}{space}{name}{space}{fence}"))
}

/// Text in a table, where a bar would end it, also within code.
fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

/// Text that means nothing but itself.
fn plain(text: &str) -> String {
    let special = |c: char| matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_is() {
        assert_eq!(code("cat a | tac"), r"`cat a \| tac`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("a\nb"), r"`a\nb`");
    }

    #[test]
    fn words_are_no_markup() {
        assert_eq!(plain("a*b: <c> --x_y"), r"a\*b: \<c\> --x\_y");
    }
}
