//! Patterns: names with `*`, kinds of files, ends of transfers.

use crate::{
    report::{End, FileCalls},
    trace::FileKind,
};

/// A pattern of names or paths: `*` and `?` match within one part of a path, `**` across parts, `[a-z]` one of these.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    text: String,
    pattern: glob::Pattern,
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl Glob {
    /// The pattern of this text; the error says what is wrong, and at which of its bytes.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        // A path is reported without this.
        let path = text.strip_prefix("./").unwrap_or(text);
        match glob::Pattern::new(path) {
            Ok(pattern) => Ok(Self { text: text.to_owned(), pattern }),
            Err(error) => {
                let before = path.char_indices().nth(error.pos).map_or(path.len(), |(index, _)| index);
                Err((error.msg.to_owned(), text.len() - path.len() + before))
            }
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a path, or a name, is one of these. A pattern without `/` is one of names: it looks at the last part of a path.
    pub(super) fn matches(&self, path: &str) -> bool {
        let options =
            glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
        let is_of_names = !self.pattern.as_str().contains('/');
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        self.pattern.matches_with(path, options) || (is_of_names && self.pattern.matches_with(name, options))
    }
}

/// A kind of file, or several that have a name together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KindPattern(&'static str);

/// Kinds that have a name together.
const GROUPS: [(&str, &[FileKind]); 2] = [
    ("unix", &[FileKind::UnixStream, FileKind::UnixDatagram, FileKind::UnixSeqpacket]),
    (
        "socket",
        &[
            FileKind::UnixStream,
            FileKind::UnixDatagram,
            FileKind::UnixSeqpacket,
            FileKind::Tcp,
            FileKind::Udp,
            FileKind::Netlink,
            FileKind::Socket,
        ],
    ),
];

impl KindPattern {
    /// Every name that there is.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let groups = GROUPS.iter().map(|(name, _)| *name);
        // "socket" alone is a group and a kind.
        let kinds = FileKind::ALL.into_iter().map(FileKind::name).filter(|name| *name != "socket");
        groups.chain(kinds).chain([End::MEMORY])
    }

    /// The one of this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        Self::names().find(|known| *known == name).map(Self)
    }

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        self.0
    }

    /// Whether a kind, by its name in reports, is one of these.
    pub(super) fn matches(self, kind: &str) -> bool {
        let in_group = |kinds: &[FileKind]| kinds.iter().any(|member| member.name() == kind);
        GROUPS.iter().find(|(name, _)| *name == self.0).map_or(self.0 == kind, |(_, kinds)| in_group(kinds))
    }
}

/// One end of a transfer: any without either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EndPattern {
    pub(super) kind: Option<KindPattern>,
    pub(super) path: Option<Glob>,
}

/// Whether an end is the one that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// What is known of it does not tell.
    Maybe,
    Yes,
}

impl EndPattern {
    /// Whether this end is one of these.
    pub(super) fn matches(&self, end: &End) -> Match {
        let kind = self.kind.map_or(Match::Yes, |pattern| match &end.kind {
            Some(kind) if pattern.matches(kind) => Match::Yes,
            Some(_) => Match::No,
            None => Match::Maybe,
        });
        let path = self.path.as_ref().map_or(Match::Yes, |glob| matches_path(glob, end));
        kind.min(path)
    }
}

impl EndPattern {
    /// Whether calls name such a file; if no file is known, they may.
    pub(super) fn matches_either(&self, calls: &FileCalls) -> Match {
        [&calls.from, &calls.to].into_iter().flatten().map(|end| self.matches(end)).max().unwrap_or(Match::Maybe)
    }
}

/// Whether an end has such a path, or such an address.
fn matches_path(glob: &Glob, end: &End) -> Match {
    let names = [&end.path, &end.peer, &end.local];
    if names.into_iter().flatten().any(|name| glob.matches(name)) {
        return Match::Yes;
    }
    // What has a place in a filesystem has a path, also if it is not known.
    let has_path = matches!(end.kind.as_deref(), None | Some("regular" | "directory" | "block" | "char"));
    if end.path.is_none() && has_path { Match::Maybe } else { Match::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::new(text).expect("a pattern")
    }

    #[test]
    fn a_pattern_of_names_looks_at_the_last_part() {
        assert!(glob("*.dat").matches("data/in.dat") && glob("in.dat").matches("/tmp/in.dat"));
        assert!(!glob("data").matches("data/in.dat"));
    }

    #[test]
    fn a_pattern_of_paths_looks_at_all_of_it() {
        assert!(glob("data/*.dat").matches("data/in.dat") && glob("./data/*").matches("data/in.dat"));
        assert!(!glob("data/*").matches("data/a/in.dat") && glob("data/**/in.dat").matches("data/a/b/in.dat"));
    }

    #[test]
    fn an_error_has_its_place() {
        assert_eq!(Glob::new("./ab***").expect_err("too many").1, 6);
    }

    #[test]
    fn kinds_have_names_together() {
        let unix = KindPattern::find("unix").expect("a group");
        assert!(unix.matches("unix-stream") && !unix.matches("tcp"));
        assert!(KindPattern::find("socket").expect("a group").matches("socket"));
        let names: std::collections::BTreeSet<_> = KindPattern::names().collect();
        assert_eq!(names.len(), KindPattern::names().count(), "each name once");
    }

    #[test]
    fn what_is_not_known_may_match() {
        let end = |kind: Option<&str>, path: Option<&str>| End {
            kind: kind.map(Into::into),
            path: path.map(Into::into),
            ..End::default()
        };
        let pattern = EndPattern { kind: KindPattern::find("regular"), path: Some(glob("in")) };
        assert_eq!(pattern.matches(&end(Some("regular"), Some("in"))), Match::Yes);
        assert_eq!(pattern.matches(&end(Some("regular"), None)), Match::Maybe);
        assert_eq!(pattern.matches(&end(None, Some("in"))), Match::Maybe);
        assert_eq!(pattern.matches(&end(Some("pipe"), None)), Match::No);
    }
}
