//! Text: a model as JSON, and text measured and shortened for a terminal. [`zctrace_core::text`] makes it safe to print.

use std::borrow::Cow;

use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
pub use zctrace_core::text::{command_line, escape};

/// A model as indented JSON. It ends in a newline.
#[expect(clippy::missing_panics_doc, reason = "it never panics: every key of a model is a string")]
pub fn json(model: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(model).expect("every key of a model is a string");
    json.push('\n');
    json
}

/// The width in columns of a text without control characters.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The text; if it is too long, as much of its beginning as fits, with `…` for the rest.
pub(super) fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    // Text never takes more columns than bytes, so the quick comparison comes first.
    if text.len() <= limit || width(text) <= limit {
        return text.into();
    }
    let mut short = String::new();
    let mut room = limit.saturating_sub(1);
    for c in text.chars() {
        let wanted = c.width().unwrap_or(0);
        if wanted > room {
            break;
        }
        room -= wanted;
        short.push(c);
    }
    short.push('…');
    short.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_is_in_columns_not_in_characters() {
        assert_eq!((width("read"), width("…"), width("漢字"), width("")), (4, 1, 4, 0));
    }

    #[test]
    fn shortened_text_ends_in_an_ellipsis() {
        assert_eq!(shorten("copier in out", 13), "copier in out");
        assert_eq!(shorten("copier in out", 12), "copier in o…");
        assert_eq!(shorten("漢字漢字", 6), "漢字…");
        assert_eq!(shorten("copier", 0), "…");
    }
}
