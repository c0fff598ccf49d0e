//! Patterns: names with `*`, kinds of files, ends of transfers.

use crate::{
    report::{End, FileCalls},
    text::file_name,
    trace::FileKind,
};

/// A pattern of names or paths: `*` and `?` match within one part of a path, `**` across parts,
/// `[a-z]` one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    text: String,
    /// Normalised: without `.`, `//` and the parts that `..` removes.
    pattern: glob::Pattern,
    /// The same from the root, if it is known where relative paths start.
    from_root: Option<Box<FromRoot>>,
}

/// Where the relative paths of a report start, and the pattern from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FromRoot {
    directory: String,
    pattern: glob::Pattern,
}

/// How patterns match.
const OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Glob {
    /// Parses a pattern. The error has a message and an offset.
    pub(super) fn new(text: &str) -> Result<Self, (String, usize)> {
        let written = glob::Pattern::new(text).map_err(|error| {
            let at = text
                .char_indices()
                .nth(error.pos)
                .map_or(text.len(), |(index, _)| index);
            (error.msg.to_owned(), at)
        })?;
        let pattern = glob::Pattern::new(&normalize_path(text)).unwrap_or(written);
        Ok(Self {
            text: text.to_owned(),
            pattern,
            from_root: None,
        })
    }

    /// Says in which directory the relative paths of a report start.
    pub(super) fn start_in(&mut self, directory: &str) {
        let whole = if self.is_absolute() {
            self.pattern.as_str().to_owned()
        } else {
            let directory = glob::Pattern::escape(directory);
            normalize_path(&format!("{directory}/{}", self.pattern.as_str()))
        };
        let directory = directory.trim_end_matches('/').to_owned();
        let from_root = |pattern| Box::new(FromRoot { directory, pattern });
        self.from_root = glob::Pattern::new(&whole).ok().map(from_root);
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn is_absolute(&self) -> bool {
        self.pattern.as_str().starts_with('/')
    }

    /// A pattern without `/` matches names: the last part of a path.
    pub(super) fn is_of_names(&self) -> bool {
        !self.text.contains('/') && self.text != ".."
    }

    /// Whether it matches a name, or a path as it is written.
    pub(super) fn matches(&self, path: &str) -> bool {
        let path = path.strip_prefix("./").unwrap_or(path);
        let compared = self.compared_part(path.trim_end_matches('/'));
        self.pattern.matches_with(path, OPTIONS) || self.pattern.matches_with(compared, OPTIONS)
    }

    /// Whether it matches the path of a file. Reports have paths relative to the working directory
    /// for files below it.
    pub(super) fn matches_path(&self, path: &str) -> Match {
        let leads_out = self.pattern.as_str().starts_with("..");
        let is_comparable = self.is_absolute() == path.starts_with('/') && !leads_out;
        if self.matches(path) {
            return Match::Yes;
        }
        if is_comparable || self.is_of_names() {
            return Match::No;
        }
        match self.from_root.as_deref() {
            Some(FromRoot { pattern, .. }) if path.starts_with('/') => {
                Match::from_bool(pattern.matches_with(path, OPTIONS))
            }
            Some(FromRoot { directory, pattern }) => {
                Match::from_bool(pattern.matches_with(&format!("{directory}/{path}"), OPTIONS))
            }
            None if self.may_end_as(path) => Match::Maybe,
            None => Match::No,
        }
    }

    pub(super) fn may_match_path(&self, path: &str) -> bool {
        self.matches_path(path) != Match::No
    }

    /// The same as [`matches_path`](Self::matches_path), but a relative pattern matches only what is below the working directory. A path that
    /// begins with `..` starts in an unknown one.
    pub(super) fn matches_place(&self, path: &str) -> Match {
        let is_elsewhere = path.starts_with('/') || path.starts_with("../");
        if self.is_of_names() || self.is_absolute() || !is_elsewhere {
            return self.matches_path(path);
        }
        match self.from_root.as_deref() {
            Some(FromRoot { pattern, .. }) if path.starts_with('/') => {
                Match::from_bool(pattern.matches_with(path, OPTIONS))
            }
            _ if self.pattern.as_str().starts_with("..") && self.matches(path) => Match::Yes,
            _ if self.may_end_as(path) => Match::Maybe,
            _ => Match::No,
        }
    }

    /// Whether it matches a path that a program gave to a call. Where a relative one starts is not
    /// known: the process may have changed its directory, or the call has one of its own. Where
    /// `..` leads is not known, either: it may follow a symbolic link.
    pub(super) fn matches_given(&self, path: &str) -> Match {
        let goes_back = path.split('/').any(|part| part == "..");
        if self.matches(path) || self.is_of_names() {
            Match::from_bool(self.matches(path))
        } else if path.starts_with('/') {
            let most = if goes_back { Match::Maybe } else { Match::Yes };
            self.matches_path(&normalize_path(path)).min(most)
        } else if self.may_end_as(path) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    /// Whether one path could be a longer form of the other.
    pub(super) fn may_end_as<'a>(&'a self, path: &'a str) -> bool {
        let parts_of = |path: &'a str| path.rsplit('/').filter(|part| !part.is_empty());
        parts_of(self.pattern.as_str())
            // Anything can be before these.
            .take_while(|part| !matches!(*part, "**" | ".."))
            .zip(parts_of(path))
            .all(|(part, name)| {
                let pattern = glob::Pattern::new(part);
                pattern.is_ok_and(|pattern| pattern.matches_with(name, OPTIONS))
            })
    }

    /// The part of a path that it is compared with.
    pub(super) fn compared_part<'a>(&self, path: &'a str) -> &'a str {
        if self.is_of_names() {
            file_name(path)
        } else {
            path
        }
    }

    /// Whether it could decide more if it were known where relative paths start.
    pub(super) fn lacks_directory(&self) -> bool {
        self.from_root.is_none() && !self.is_of_names()
    }
}

/// Normalises a path or a pattern: removes `.`, `//`, and the parts that `..` cancels.
fn normalize_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.is_empty() && !root.is_empty() => {}
            ".." if !matches!(parts.last(), None | Some(&(".." | "**"))) => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("/"))
}

/// A kind of file, or a group of kinds with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KindPattern(&'static str);

impl KindPattern {
    /// All Unix sockets.
    pub(super) const UNIX: Self = Self("unix");

    pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
        let kinds = FileKind::ALL.into_iter().map(FileKind::name);
        std::iter::once(Self::UNIX.0).chain(kinds)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::all_names().find(|known| *known == name).map(Self)
    }

    /// Whether it matches a kind, by its name in reports. `unix` and `socket` are groups.
    fn matches_kind(self, kind: &str) -> bool {
        let is_unix = kind.starts_with("unix-");
        match self.0 {
            "unix" => is_unix,
            "socket" => is_unix || matches!(kind, "tcp" | "udp" | "netlink" | "socket"),
            name => name == kind,
        }
    }
}

/// A pattern for one end of a transfer. Without kind and path it matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EndPattern {
    pub(super) kind: Option<KindPattern>,
    pub(super) path: Option<Glob>,
}

/// Whether a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// Too little is known to decide.
    Maybe,
    Yes,
}

impl Match {
    const fn from_bool(is_match: bool) -> Self {
        if is_match { Self::Yes } else { Self::No }
    }
}

impl EndPattern {
    pub(super) fn matches_end(&self, end: &End) -> Match {
        let kind = match (self.kind, &end.kind) {
            (None, _) => Match::Yes,
            (Some(pattern), Some(kind)) => Match::from_bool(pattern.matches_kind(kind)),
            (Some(_), None) => Match::Maybe,
        };
        let path = match &self.path {
            Some(glob) => matches_path(glob, end),
            None => Match::Yes,
        };
        kind.min(path)
    }

    /// Whether it matches one of the files of these calls. If none is known, it may.
    pub(super) fn matches_either(&self, calls: &FileCalls) -> Match {
        [&calls.from, &calls.to]
            .into_iter()
            .flatten()
            .map(|end| self.matches_end(end))
            .max()
            .unwrap_or(Match::Maybe)
    }
}

/// Whether a pattern matches the path or an address of an end.
fn matches_path(glob: &Glob, end: &End) -> Match {
    let mut addresses = [&end.peer, &end.local].into_iter().flatten().peekable();
    let is_without_address = addresses.peek().is_none();
    if addresses.any(|name| glob.matches(name)) {
        return Match::Yes;
    }
    // A file in a filesystem has a path, even if it is not known. So has a socket of IP an address:
    // sums over many do not tell it.
    let has_path = match end.kind.as_deref() {
        None | Some("regular" | "directory" | "block" | "char") => true,
        Some("tcp" | "udp") => is_without_address,
        Some(_) => false,
    };
    match &end.path {
        Some(path) => {
            let names = [Some(path), end.path_at_end.as_ref()].into_iter().flatten();
            let matches = names.map(|path| glob.matches_path(path));
            matches.max().unwrap_or(Match::No)
        }
        None if has_path => Match::Maybe,
        None => Match::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{GoldenCase, check_golden};

    /// Lines of a pattern and a path; before the path may be `is` and behind it the directory of the
    /// pattern, for a path as a whole.
    #[test]
    fn patterns_match_paths_as_the_golden_file_says() {
        check_golden(
            "expect/language_tests/globs.txt",
            GoldenCase::Line,
            |case| {
                let (text, path) = case.split_once(' ').expect("a pattern and a path");
                let mut glob = match Glob::new(text) {
                    Ok(glob) => glob,
                    Err((_, at)) => return format!("a mistake at {at}"),
                };
                let Some(path) = path.strip_prefix("is ") else {
                    return glob.matches(path).to_string();
                };
                let (path, directory) = path.split_once(" in ").unwrap_or((path, ""));
                if !directory.is_empty() {
                    glob.start_in(directory);
                }
                format!("{:?}", glob.matches_path(path))
            },
        );
    }

    #[test]
    fn groups_of_kinds_have_names() {
        let unix = KindPattern::from_name("unix").expect("a group");
        assert!(unix.matches_kind("unix-stream") && !unix.matches_kind("tcp"));
        let socket = KindPattern::from_name("socket").expect("a group");
        assert!(socket.matches_kind("socket") && socket.matches_kind("tcp"));
    }

    #[test]
    fn an_unknown_kind_or_path_may_match() {
        let end = |kind: Option<&str>, path: Option<&str>| End {
            kind: kind.map(Into::into),
            path: path.map(Into::into),
            ..End::default()
        };
        let pattern = EndPattern {
            kind: KindPattern::from_name("regular"),
            path: Some(Glob::new("in").expect("a pattern")),
        };
        for (kind, path, expected) in [
            (Some("regular"), Some("in"), Match::Yes),
            (Some("regular"), None, Match::Maybe),
            (None, Some("in"), Match::Maybe),
            (Some("pipe"), None, Match::No),
        ] {
            assert_eq!(pattern.matches_end(&end(kind, path)), expected);
        }
    }

    #[test]
    fn a_renamed_file_has_both_names() {
        let end = End {
            kind: Some("regular".to_owned()),
            path: Some("out.tmp".to_owned()),
            path_at_end: Some("out".to_owned()),
            ..End::default()
        };
        for (name, expected) in [
            ("out", Match::Yes),
            ("out.tmp", Match::Yes),
            ("in", Match::No),
        ] {
            let pattern = EndPattern {
                kind: None,
                path: Some(Glob::new(name).expect("a pattern")),
            };
            assert_eq!(pattern.matches_end(&end), expected);
        }
    }
}
