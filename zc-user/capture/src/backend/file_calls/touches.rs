//! What was touched so far.

use std::{collections::HashSet, path::Path};

use zctrace_core::{
    durable::Doubt,
    text::relative_to,
    touched::{Touch, TouchAction, TouchKind, Touched, TouchedSums},
};

use super::{passed_names::PassedNames, real_paths::RealPaths};

/// What was done, by which call, with which path.
type TouchKey = (TouchAction, Box<str>, Box<str>);

/// Why a path may have led elsewhere.
const MAY_HAVE_BEEN_LINK: &str =
    "a path may have led through a symbolic link that the command moved, removed or replaced";
/// Why a link that was there before does not tell where a path led.
const LEADS_ELSEWHERE: &str = "a path led through a symbolic link to what the command moved or removed, to /proc, or up again by ..";
/// The same, of two calls of one name.
const BOTH_FOLLOWED: &str =
    "calls of one name followed a symbolic link at the end of a path, and did not";

/// What was touched so far.
#[derive(Debug, Default)]
pub struct Touches {
    pub(super) sums: TouchedSums,
    /// The directory in which the command began; empty: unknown.
    pub(super) directory: String,
    /// Touches of paths whose last part may be a symbolic link, which the call followed.
    followed: HashSet<TouchKey>,
    /// The same of calls that can follow, and did not.
    not_followed: HashSet<TouchKey>,
    /// Absolute paths of directories that a path left by `..`.
    pub(super) climbed: HashSet<Box<str>>,
    /// The names on the paths of calls.
    pub(super) names: PassedNames,
    /// What the last call touched.
    pub(super) last: Vec<(TouchAction, Box<str>)>,
}

impl Touches {
    /// The command begins in this directory.
    pub fn begin_in(&mut self, directory: &str) {
        directory.clone_into(&mut self.directory);
    }

    /// A call of this name named a path; `follows` says whether it followed a link at its end.
    pub(super) fn note_named(
        &mut self,
        action: TouchAction,
        call: &str,
        path: &str,
        follows: bool,
    ) {
        let keys = if follows {
            &mut self.followed
        } else {
            &mut self.not_followed
        };
        keys.insert((action, call.into(), path.into()));
    }

    /// All of it. `is_here`: the files are those of this machine, so that symbolic links can be
    /// followed.
    pub fn finish(mut self, doubts: &[Doubt], is_here: bool) -> Touched {
        for doubt in doubts {
            self.sums.doubt(doubt.rest_of_sentence());
        }
        if self.names.is_unsure {
            self.sums.doubt(MAY_HAVE_BEEN_LINK);
        }
        let mut real = RealPaths::new(&self.directory);
        let (followed, not_followed) = (self.followed, self.not_followed);
        let (names, directory) = (self.names, self.directory);
        let (mut is_mixed, mut may_lead_elsewhere) = (false, false);
        for directory in self.climbed.iter().filter(|_| is_here) {
            may_lead_elsewhere |= !real.places_behind_links(directory, true).is_empty();
        }
        let is_named = |touch: &Touch| {
            use TouchAction::{
                Changed, Connected, Created, Executed, Removed, Renamed, SentTo, Written,
            };
            match touch.action {
                Written => touch.call.starts_with("truncate"),
                Connected | SentTo => true,
                action => matches!(action, Changed | Created | Executed | Removed | Renamed),
            }
        };
        let mut touched = self.sums.finish(|path, touch| {
            if !is_here || !is_named(touch) {
                return None;
            }
            let is_address = touch.action.is_of_address();
            let path = if is_address {
                // Only a Unix socket can have a path, and not one with an abstract name.
                let path = path.strip_prefix("unix:");
                relative_to(&directory, path.filter(|path| !path.starts_with('@'))?)
            } else {
                path
            };
            let found = if let Some(start) = names.until_moved(path) {
                real.find(start, false) + &path[start.len()..]
            } else {
                let key = (touch.action, touch.call.as_str().into(), path.into());
                let follows = followed.contains(&key);
                let found = real.find(path, follows);
                let places = real.places_behind_links(path, follows);
                may_lead_elsewhere |= places.iter().any(|place| {
                    is_of_process(place) || names.was_moved(relative_to(&directory, place))
                });
                is_mixed |=
                    follows && not_followed.contains(&key) && found != real.find(path, false);
                found
            };
            let found = relative_to(&directory, &found);
            Some(if is_address {
                format!("unix:{found}")
            } else {
                found.to_owned()
            })
        });
        if may_lead_elsewhere {
            touched.doubts.push(LEADS_ELSEWHERE.to_owned());
        }
        if is_mixed {
            touched.doubts.push(BOTH_FOLLOWED.to_owned());
        }
        let is_changed = |touch: &Touch| TouchKind::Write.includes(touch.action);
        for path in touched.paths.iter_mut().filter(|_| is_here) {
            let there = Path::new(&directory).join(&path.path);
            path.gone = path.touches.iter().any(is_changed) && there.symlink_metadata().is_err();
        }
        touched
    }
}

/// Whether a path leads through links that each process has its own of (proc(5)).
pub fn is_of_process(path: &str) -> bool {
    let process = path
        .strip_prefix("/proc/")
        .and_then(|rest| rest.split_once('/'));
    let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    process.is_some_and(|(name, _)| matches!(name, "self" | "thread-self") || is_id(name))
        || path.starts_with("/dev/fd/")
        || matches!(path, "/dev/stdin" | "/dev/stdout" | "/dev/stderr")
}
