//! What was touched so far.

use std::{collections::HashSet, path::Path};

use zctrace_core::{
    durable::Doubt,
    touched::{Touch, TouchAction, TouchKind, Touched, TouchedSums},
};

use super::real_paths::RealPaths;

/// What was touched so far.
#[derive(Debug, Default)]
pub struct Touches {
    pub(super) sums: TouchedSums,
    /// The directory in which the command began; empty: unknown.
    pub(super) directory: String,
    /// Paths that calls named whose last part may be a symbolic link, which they followed.
    pub(super) followed: HashSet<Box<str>>,
}

impl Touches {
    /// The command begins in this directory.
    pub fn begin_in(&mut self, directory: &str) {
        directory.clone_into(&mut self.directory);
    }

    /// All of it. `is_here`: the files are those of this machine, so that symbolic links can be
    /// followed.
    pub fn finish(mut self, doubts: &[Doubt], is_here: bool) -> Touched {
        for doubt in doubts {
            self.sums.doubt(doubt.sentence());
        }
        let mut real = RealPaths::new(&self.directory);
        let (followed, directory) = (self.followed, self.directory);
        let is_named = |touch: &Touch| {
            use TouchAction::{Changed, Created, Executed, Removed, Renamed, Written};
            match touch.action {
                Written => touch.call.starts_with("truncate"),
                action => matches!(action, Changed | Created | Executed | Removed | Renamed),
            }
        };
        let mut touched = self.sums.finish(|path, touch| {
            let follows = touch.action == TouchAction::Executed || followed.contains(path);
            let real = (is_here && is_named(touch)).then(|| real.find(path, follows));
            real.map(|path| relative(&directory, &path).to_owned())
        });
        let is_changed = |touch: &Touch| TouchKind::Write.includes(touch.action);
        for path in touched.paths.iter_mut().filter(|_| is_here) {
            let there = Path::new(&directory).join(&path.path);
            path.gone = path.touches.iter().any(is_changed) && there.symlink_metadata().is_err();
        }
        touched
    }
}

/// A path as reports show it.
pub fn relative<'a>(directory: &str, path: &'a str) -> &'a str {
    let below = path
        .strip_prefix(directory)
        .filter(|_| !directory.is_empty());
    let below = below.and_then(|rest| rest.strip_prefix('/'));
    below.filter(|rest| !rest.is_empty()).unwrap_or(path)
}
