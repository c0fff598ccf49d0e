//! What text looks like in GitHub's Markdown.

use super::text;

/// A line of a table.
pub(super) fn line(first: &str, rest: impl Iterator<Item = String>) -> String {
    format!("| {} |", std::iter::once(first.to_owned()).chain(rest).collect::<Vec<_>>().join(" | "))
}

/// Text as code: between more backticks than it has in a row.
pub(super) fn code(name: &str) -> String {
    let name = text::escape(name);
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // A backtick at an end would become part of the fence.
    let space = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{name}{space}{fence}")
}

/// Text in a table, where a bar would end it, also within code.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

/// Text that means nothing but itself.
pub(super) fn plain(text: &str) -> String {
    let special = |c: char| matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' | '$');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// An item of a list.
pub(super) fn item(text: &str) -> String {
    // At its beginning they would make another list.
    let guard = if text.starts_with(['-', '+']) { r"\" } else { "" };
    format!("- {guard}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_is() {
        assert_eq!(cell(&code("cat a | tac")), r"`cat a \| tac`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
        assert_eq!(code("a``b"), "```a``b```");
        assert_eq!(code("a\nb"), r"`a\nb`");
    }

    #[test]
    fn words_are_no_markup() {
        assert_eq!(plain("a*b: <c> --x_y"), r"a\*b: \<c\> --x\_y");
        assert_eq!(item(&plain("- $x &lt;")), r"- \- \$x \&lt;");
    }
}
