//! The ends of transfers in words: one, or what several have in common.

use std::collections::BTreeSet;

use crate::{
    render::{
        page::{Piece, Style, TextLine},
        text,
    },
    report::{End, Transfer},
};

/// `in (regular, ext4)`.
fn end_pieces(end: &End, suffix: &str) -> TextLine {
    let (label, nature) = (end_label(end), end_nature(end));
    if nature.is_empty() {
        return vec![Piece::new(format!("{label}{suffix}"), Style::Heading)];
    }
    vec![
        Piece::new(label, Style::Heading),
        Piece::new(format!("{nature}{suffix}"), Style::Plain),
    ]
}

/// The path or address of an end; if it has none, its kind.
pub(crate) fn end_label(end: &End) -> String {
    text::escape(end.name().unwrap_or_else(|| end_kind(end)))
}

/// The kind and filesystem of an end, unless the label says them, and its flags: `(regular, ext4,
/// O_SYNC)`.
pub(super) fn end_nature(end: &End) -> String {
    // The pseudo filesystem of a pipe or a socket adds nothing.
    let has_files = matches!(end.kind.as_deref(), Some("regular" | "directory" | "block"));
    let filesystem = end.fs.as_deref().filter(|_| has_files);
    in_parentheses(end.kind.as_deref(), filesystem, end)
}

/// What a reader does not expect of a file: another kind than a regular one, and its flags.
pub(super) fn unusual_nature(end: &End) -> String {
    let kind = end.kind.as_deref().filter(|kind| *kind != "regular");
    in_parentheses(kind, None, end)
}

fn in_parentheses(kind: Option<&str>, filesystem: Option<&str>, end: &End) -> String {
    let parts: Vec<String> = kind
        .filter(|kind| end_label(end) != *kind)
        .into_iter()
        .chain(filesystem)
        .chain(end.open_flags.iter().map(String::as_str))
        .map(text::escape)
        .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("({})", parts.join(", "))
    }
}

/// The kind of an end.
pub(in crate::render) fn end_kind(end: &End) -> &str {
    end.kind.as_deref().unwrap_or("unknown file")
}

/// The one end that all have, or their number: `in (regular, ext4)`, `300 tcp connections`, `9990
/// files in src/`. Sums do not tell how many they are: `many files`.
pub(super) fn ends_pieces<'a>(
    transfers: &[&'a Transfer],
    end: fn(&'a Transfer) -> &'a End,
    suffix: &str,
) -> TextLine {
    let all: BTreeSet<&End> = transfers.iter().map(|transfer| end(transfer)).collect();
    let Some(&first) = all.first() else {
        return Vec::new();
    };
    let mut sums = transfers
        .iter()
        .filter(|transfer| transfer.transfer_count() > 1);
    let some_unnamed = sums.any(|sum| end(sum).path.is_none());
    if all.len() == 1 && !some_unnamed {
        return end_pieces(first, suffix);
    }
    let folder = common_folder(&all)
        .map(|folder| format!(" in {}", text::escape(folder)))
        .unwrap_or_default();
    let name = match end_kind(first) {
        "regular" => "files".to_owned(),
        "directory" => "directories".to_owned(),
        kind @ ("tcp" | "unix-stream") => format!("{kind} connections"),
        kind @ ("pipe" | "socket") => format!("{kind}s"),
        kind => format!("{} ends", text::escape(kind)),
    };
    let number = if has_sums(transfers) {
        "many".to_owned()
    } else {
        all.len().to_string()
    };
    let text = format!("{number} {name}{folder}{suffix}");
    vec![Piece::new(text, Style::Heading)]
}

/// Whether some of them are sums, so that not every single transfer is known.
pub(super) fn has_sums(transfers: &[&Transfer]) -> bool {
    transfers
        .iter()
        .any(|transfer| transfer.transfer_count() > 1)
}

/// The folder that all paths lie in, with a slash at its end, if it is not the root.
fn common_folder<'a>(ends: &BTreeSet<&'a End>) -> Option<&'a str> {
    let mut ends = ends.iter().copied();
    let mut common = folder(ends.next()?)?;
    for end in ends {
        let other = folder(end)?;
        while !other.starts_with(common) {
            let above = common.trim_end_matches('/').rfind('/')?;
            common = &common[..=above];
        }
    }
    (common != "/").then_some(common)
}

/// The folder of a path, with the slash at its end.
fn folder(end: &End) -> Option<&str> {
    let path = end.path.as_deref()?;
    Some(&path[..=path.rfind('/')?])
}
