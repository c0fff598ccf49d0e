//! Text: a model as JSON, and text measured and shortened for a terminal. [`zctrace_core::text`]
//! makes it safe to print.

use std::borrow::Cow;

use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
pub(super) use zctrace_core::text::file_name;
pub use zctrace_core::text::{command_line, escape};
use zctrace_core::units::UNKNOWN;

/// A model as indented JSON. It ends in a newline.
#[expect(
    clippy::missing_panics_doc,
    reason = "it never panics: every key of a model is a string"
)]
pub fn json(model: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(model).expect("every key of a model is a string");
    json.push('\n');
    json
}

/// A figure in words.
pub(super) fn known<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), show)
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

/// The text; if it is too long, its beginning and its end with `…` in between. The end of a path
/// says more than its middle.
pub(super) fn shorten_middle(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit || width(text) <= limit {
        return text.into();
    }
    let fits = |limit: usize| {
        let mut room = limit;
        move |c: &char| {
            let wanted = c.width().unwrap_or(0);
            let fits = wanted <= room;
            room = room.saturating_sub(wanted);
            fits
        }
    };
    let half = limit.saturating_sub(1) / 2;
    let start: String = text
        .chars()
        .take_while(fits(limit.saturating_sub(1) - half))
        .collect();
    let end: Vec<char> = text.chars().rev().take_while(fits(half)).collect();
    format!("{start}…{}", end.into_iter().rev().collect::<String>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shortened_in_the_middle_keeps_both_ends() {
        assert_eq!(shorten_middle("/data/big.iso", 13), "/data/big.iso");
        assert_eq!(
            shorten_middle("/data/very/long/big.iso", 12),
            "/data/…g.iso"
        );
        assert_eq!(shorten_middle("漢字漢字漢字", 8), "漢字…字");
        assert_eq!(shorten_middle("copier", 0), "…");
    }

    #[test]
    fn width_is_in_columns_not_in_characters() {
        assert_eq!(
            (width("read"), width("…"), width("漢字"), width("")),
            (4, 1, 4, 0)
        );
    }

    #[test]
    fn shortened_text_ends_in_an_ellipsis() {
        assert_eq!(shorten("copier in out", 13), "copier in out");
        assert_eq!(shorten("copier in out", 12), "copier in o…");
        assert_eq!(shorten("漢字漢字", 6), "漢字…");
        assert_eq!(shorten("copier", 0), "…");
    }
}
