//! Text: a model as JSON, and text measured and shortened for a terminal. [`zctrace_core::text`]
//! makes it safe to print.

use std::borrow::Cow;

use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
pub use zctrace_core::text::{command_line, escape};
pub(super) use zctrace_core::text::{file_name, plural, relative_to};
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

/// A model as JSON in one line. It ends in a newline.
#[expect(
    clippy::missing_panics_doc,
    reason = "it never panics: every key of a model is a string"
)]
pub fn json_line(model: &impl Serialize) -> String {
    serde_json::to_string(model).expect("every key of a model is a string") + "\n"
}

/// A figure in words.
pub(super) fn known<T>(figure: Option<T>, show: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// The paths that a call was given, or their beginnings.
pub(super) fn paths<'a>(paths: impl IntoIterator<Item = &'a str>, are_cut: bool) -> String {
    let end = if are_cut { "..." } else { "" };
    let shown = paths.into_iter().map(|path| match path {
        "" => "\"\"".to_owned(),
        path => escape(path) + end,
    });
    shown.collect::<Vec<_>>().join(" -> ")
}

/// The width in columns of a text without control characters.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text; if it is too long, its beginning and its end with `…` in between. The end of a path
/// says more than its middle.
pub(crate) fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    // Text never takes more columns than bytes, so the quick comparison comes first.
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
    fn a_shortened_text_keeps_both_ends_and_is_measured_in_columns() {
        assert_eq!(shorten("/data/big.iso", 13), "/data/big.iso");
        assert_eq!(shorten("/data/very/long/big.iso", 12), "/data/…g.iso");
        assert_eq!(shorten("漢字漢字漢字", 8), "漢字…字");
        assert_eq!(shorten("copier", 0), "…");
    }
}
