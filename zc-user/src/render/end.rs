//! Ends of transfers, as a person calls them.

use super::text;
use crate::report::End;

/// Its path or address; if it has none, what it is.
pub(super) fn label(end: &End) -> String {
    let name = end.path.as_deref().filter(|path| !path.is_empty()).or(end.peer.as_deref()).or(end.local.as_deref());
    text::escape(name.unwrap_or_else(|| kind(end)))
}

/// Its kind and filesystem, as far as the label does not say them: `(regular, ext4)`.
pub(super) fn nature(end: &End) -> String {
    let kind = end.kind.as_deref().filter(|kind| label(end) != *kind);
    // The pseudo filesystems of pipes and sockets say nothing more.
    let has_files = matches!(end.kind.as_deref(), Some("regular" | "directory" | "block"));
    let filesystem = end.fs.as_deref().filter(|_| has_files);
    let parts: Vec<String> = kind.into_iter().chain(filesystem).map(text::escape).collect();
    if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) }
}

/// What it is.
pub(super) fn kind(end: &End) -> &str {
    end.kind.as_deref().unwrap_or("unknown file")
}
