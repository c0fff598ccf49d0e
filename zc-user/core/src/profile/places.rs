//! Where the lines of a systemd unit let a command write: systemd.exec(5), "Sandboxing".

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    report::Report,
    touched::{Touch, TouchAction, TouchKind, Touched, TouchedPath},
};

/// What `ProtectSystem=strict` leaves writable.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// What `ProtectSystem=` makes read-only, unless it is `strict`; the last one only if it is `full`.
const OF_SYSTEM: [&str; 4] = ["/usr", "/boot", "/efi", "/etc"];
/// What `ProtectHome=` makes read-only or hides.
const OF_USERS: [&str; 3] = ["/home", "/root", "/run/user"];
/// What `PrivateTmp=` replaces by directories that can be written.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// The lines that make a directory which can be written, and where it is.
const OF_SERVICE: [(&str, &str); 4] = [
    ("StateDirectory", "/var/lib"),
    ("CacheDirectory", "/var/cache"),
    ("LogsDirectory", "/var/log"),
    ("RuntimeDirectory", "/run"),
];
/// Lines that put other files where paths lead, or protect more than is known here.
const OPAQUE: [&str; 12] = [
    "BindPaths",
    "BindReadOnlyPaths",
    "DynamicUser",
    "ExtensionDirectories",
    "ExtensionImages",
    "MountImages",
    "PrivateDevices",
    "ProtectControlGroups",
    "ProtectKernelTunables",
    "RootDirectory",
    "RootImage",
    "TemporaryFileSystem",
];

/// Where a unit lets a command write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WritablePlaces {
    /// Files and directories, and whether they can be written. The rule of the nearest directory decides.
    rules: BTreeMap<String, bool>,
    /// Whether a line makes something read-only.
    protects: bool,
    /// A line of the unit that may say otherwise.
    pub(super) open: Option<String>,
}

/// Reads the lines of a unit; `None`: they protect nothing.
pub(super) fn parse(assignments: &[(String, String)]) -> Option<WritablePlaces> {
    let mut places = WritablePlaces::default();
    // The lists come last: what they name is more special than what the other lines do.
    for (key, value) in assignments {
        places.protect(key, value);
    }
    for (keys, is_writable) in [
        (["ReadWritePaths", "ReadWriteDirectories"], true),
        (["ReadOnlyPaths", "ReadOnlyDirectories"], false),
        (["InaccessiblePaths", "InaccessibleDirectories"], false),
    ] {
        let mut lists: Vec<&str> = Vec::new();
        for (_, value) in assignments
            .iter()
            .filter(|(key, _)| keys.contains(&key.as_str()))
        {
            if value.is_empty() {
                lists.clear();
            }
            lists.push(value);
        }
        for word in lists.iter().flat_map(|list| words(list)) {
            places.set(word.trim_start_matches(['-', '+']), is_writable);
        }
    }
    places.protects.then_some(places)
}

impl WritablePlaces {
    /// Applies a line that is no list of paths.
    fn protect(&mut self, key: &str, value: &str) {
        let is_off = matches!(value, "" | "no" | "false" | "off" | "0");
        let mut set = |paths: &[&str], is_writable| {
            for path in paths {
                self.set(path, is_writable);
            }
        };
        match (key, value) {
            _ if is_off => {}
            ("ProtectSystem", "strict") => {
                set(&["/"], false);
                set(&OF_KERNEL, true);
            }
            ("ProtectSystem", "full") => set(&OF_SYSTEM, false),
            ("ProtectSystem", _) => set(&OF_SYSTEM[..3], false),
            ("ProtectHome", "tmpfs") => self.open = Some("ProtectHome=tmpfs".to_owned()),
            ("ProtectHome", _) => set(&OF_USERS, false),
            ("PrivateTmp", _) => set(&TEMPORARY, true),
            _ if OPAQUE.contains(&key) => self.open = Some(format!("{key}={value}")),
            _ => {
                let place = OF_SERVICE.iter().find(|(known, _)| *known == key);
                for (word, (_, above)) in words(value).iter().zip(place.iter().cycle()) {
                    let name = word.split(':').next().unwrap_or_default();
                    self.set(&format!("{above}/{name}"), true);
                }
            }
        }
    }

    fn set(&mut self, path: &str, is_writable: bool) {
        let plain = Some(path.trim_end_matches('/')).filter(|path| !path.is_empty());
        let plain = plain.unwrap_or("/");
        self.protects |= !is_writable;
        let before = self.rules.insert(plain.to_owned(), is_writable);
        let is_contradicted = before.is_some_and(|before| before != is_writable);
        if path.contains('%') || !path.starts_with('/') || is_contradicted {
            self.open = Some(path.to_owned());
        }
    }

    fn is_writable(&self, path: &Path) -> bool {
        let mut above = path.ancestors().filter_map(Path::to_str);
        above
            .find_map(|path| self.rules.get(path))
            .is_none_or(|is_writable| *is_writable)
    }

    /// Whether it lets a command do this to a path. Names are made and removed in their directory, and a
    /// path with a rule of its own cannot be moved or removed: it is a mount.
    pub(super) fn allows(&self, path: &Path, action: TouchAction) -> bool {
        let directory = path.parent().unwrap_or(path);
        let is_mount = path
            .to_str()
            .is_some_and(|path| self.rules.contains_key(path));
        match action {
            TouchAction::Created => self.is_writable(directory),
            TouchAction::Removed | TouchAction::Renamed => self.is_writable(directory) && !is_mount,
            _ => self.is_writable(path),
        }
    }
}

/// The words of a list, which may be in quotes.
fn words(list: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = list.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, None) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// What a report says was written: each path with what was done to it. Relative paths start in the
/// working directory, which must be known.
pub(super) fn written<'a>(
    touched: &'a Touched,
    directory: &str,
) -> Vec<(std::path::PathBuf, &'a TouchedPath, Vec<&'a Touch>)> {
    let paths = touched.paths.iter().filter(|path| !path.is_address());
    let paths = paths.filter_map(|path| {
        let is_write = |touch: &&Touch| TouchKind::Write.includes(touch.action) && touch.done() > 0;
        let writes: Vec<&Touch> = path.touches.iter().filter(is_write).collect();
        let whole = Path::new(directory).join(&path.path);
        (!writes.is_empty()).then_some((whole, path, writes))
    });
    paths.collect()
}

/// The directories that a unit must let the command of this report write to, so that it can do the
/// same again. `None`: the report does not have what was written.
pub(super) fn directories(report: &Report) -> Option<BTreeSet<String>> {
    let (touched, directory) = (report.touched.as_ref()?, report.directory.as_deref()?);
    let written = written(touched, directory);
    let made: BTreeSet<&Path> = written
        .iter()
        .filter(|(_, _, touches)| {
            touches
                .iter()
                .any(|touch| touch.action == TouchAction::Created)
        })
        .map(|(path, _, _)| path.as_path())
        .collect();
    let mut all = BTreeSet::new();
    for (path, _, _) in &written {
        // Those that the run made are not there when the next one starts.
        let mut above = path.ancestors().skip(1);
        let there = above.find(|directory| !made.contains(directory));
        all.extend(there.and_then(Path::to_str).map(str::to_owned));
    }
    let within = |path: &str, other: &str| path != other && Path::new(path).starts_with(other);
    let is_needed = |path: &&String| {
        !OF_KERNEL
            .iter()
            .any(|place| Path::new(path).starts_with(place))
            && !all.iter().any(|other| within(path, other))
    };
    Some(all.iter().filter(is_needed).cloned().collect())
}

/// A path as a list of a unit has it.
pub(super) fn quoted(path: &str) -> String {
    let escaped = path
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    if escaped.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\')) {
        format!("\"{escaped}\"")
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(unit: &str) -> Option<WritablePlaces> {
        let lines = unit.lines().filter_map(|line| line.split_once('='));
        let lines: Vec<_> = lines
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        parse(&lines)
    }

    #[test]
    fn the_nearest_rule_decides() {
        let unit = "ProtectSystem=strict\nReadWritePaths=-/work/out \"/a b\"\nPrivateTmp=yes\n\
                    ReadOnlyPaths=/work/out/kept\nStateDirectory=app";
        let places = places(unit).expect("it protects");
        for (path, expected) in [
            ("/work/out/x/y", true),
            ("/work/out/kept/x", false),
            ("/work/outer", false),
            ("/a b/c", true),
            ("/dev/null", true),
            ("/tmp/x", true),
            ("/var/lib/app/db", true),
            ("/var/lib/other", false),
        ] {
            let is_allowed = places.allows(Path::new(path), TouchAction::Written);
            assert_eq!(is_allowed, expected, "{path}");
        }
        assert_eq!(places.open, None);
        let out = Path::new("/work/out");
        assert!(places.allows(out, TouchAction::Written));
        assert!(!places.allows(out, TouchAction::Created));
        assert!(!places.allows(Path::new("/tmp"), TouchAction::Removed));
    }

    #[test]
    fn a_unit_that_protects_nothing_has_no_places() {
        assert_eq!(
            places("ReadWritePaths=/x\nProtectSystem=no\nPrivateTmp=yes"),
            None
        );
        assert_eq!(places("ReadOnlyPaths=/x\nReadOnlyPaths="), None);
        let full = places("ProtectSystem=full").expect("it protects");
        assert!(!full.allows(Path::new("/etc/x"), TouchAction::Written));
        assert!(full.allows(Path::new("/srv/x"), TouchAction::Written));
    }

    #[test]
    fn lines_that_may_say_otherwise_are_named() {
        for (line, expected) in [
            ("BindPaths=/x", "BindPaths=/x"),
            ("ReadWritePaths=%h/x", "%h/x"),
            ("ReadWritePaths=/", "/"),
        ] {
            let places = places(&format!("ProtectSystem=strict\n{line}"));
            assert_eq!(places.and_then(|one| one.open).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_path_is_quoted_as_it_is_read() {
        for path in ["/a", "/a b", "/a\"b", "/a\\b", "/it's"] {
            assert_eq!(words(&quoted(path)), [path]);
        }
        assert_eq!(quoted("/100%"), "/100%%");
    }
}
