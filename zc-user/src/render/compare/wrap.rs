//! Names of commands as titles of columns.

use textwrap::{Options, WordSplitter};

use crate::render::text;

/// Lines of a title; what is longer is cut.
const MOST_LINES: usize = 5;

/// The words of a name on lines of this width; a word that is longer is broken.
pub(super) fn wrap(name: &str, width: usize) -> Vec<String> {
    let options = Options::new(width).word_splitter(WordSplitter::NoHyphenation);
    let mut lines: Vec<String> = textwrap::wrap(name, options).into_iter().map(Into::into).collect();
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        if let Some(last) = lines.last_mut() {
            *last = text::shorten(&format!("{last} …"), width).into_owned();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(wrap("dd if=/dev/zero of=/dev/null bs=4k", 16), ["dd if=/dev/zero", "of=/dev/null", "bs=4k"]);
        assert_eq!(wrap("sendfile", 16), ["sendfile"]);
        assert_eq!(wrap("", 16), [""]);
    }

    #[test]
    fn long_words_break() {
        assert_eq!(wrap("cp /a/very/long/path b", 8), ["cp", "/a/very/", "long/pat", "h b"]);
        assert_eq!(wrap("漢字漢", 4), ["漢字", "漢"]);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(wrap("a b c d e f g", 1), ["a", "b", "c", "d", "…"]);
    }
}
