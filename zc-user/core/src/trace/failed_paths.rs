//! Calls that failed, by the path that they were given; and those that succeeded, if they are asked
//! for.

use std::{cmp::Reverse, collections::BTreeMap, mem};

use zc_ebpf::{PathSums, is_restart};

use crate::syscalls::Call;

/// How often calls returned that take a path, by call, error and path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedPaths {
    /// The calls on each.
    pub calls: BTreeMap<FailedPath, PathSums>,
    /// The last calls that signals interrupted; [`PathSums::last`] is a time of `CLOCK_MONOTONIC`, ns.
    pub interrupted: BTreeMap<FailedPath, PathSums>,
    /// Whether the calls that succeeded are among them.
    pub has_successes: bool,
    /// Whether a process may have changed the directory in which relative paths start.
    pub directory_may_change: bool,
    /// How many calls are missing, because there was no room for their paths.
    pub left_out: u64,
    /// How many calls are there without their paths, because there were too many paths: they are
    /// summed by call and error.
    pub summed: u64,
    /// How many were [added](Self::add) one by one.
    pub added: u64,
}

/// A call that returned, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedPath {
    /// The call.
    pub call: Call,
    /// The error, as a positive errno; 0: the call succeeded.
    pub errno: u32,
    /// Its path, and the second one of a call that looks up two, such as `rename`; `None`: it could not
    /// be read, or the program gave none.
    pub paths: [Option<GivenPath>; 2],
}

/// A path as a program gave it to a call; one that is relative to a directory that the call named by a
/// descriptor stands behind the path of that, if it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GivenPath {
    /// The path, or its beginning.
    pub text: String,
    /// Whether it may be longer.
    pub is_cut: bool,
    /// Whether it is relative, and starts in an unknown directory that the call named by a descriptor.
    pub is_below_descriptor: bool,
}

impl GivenPath {
    /// This path, if it is relative to the directory of a descriptor. An empty one is that of the
    /// descriptor itself, if a call with it `has_succeeded` (`AT_EMPTY_PATH`).
    #[must_use]
    pub fn in_directory_of(mut self, directory: Option<&str>, has_succeeded: bool) -> Self {
        match directory.filter(|path| path.starts_with('/')) {
            Some(path) if !self.text.is_empty() => {
                self.text = format!("{}/{}", path.trim_end_matches('/'), self.text);
            }
            Some(path) if has_succeeded => path.clone_into(&mut self.text),
            _ => self.is_below_descriptor = true,
        }
        self
    }
}

impl FailedPaths {
    /// How many different ones are kept.
    pub const MAX_CALLS: usize = 65_536;
    /// How many different ones are kept that signals interrupted.
    const MAX_INTERRUPTED: usize = 64;

    /// Counts a call that is later than the others.
    pub fn add(&mut self, failed: FailedPath) {
        self.added += 1;
        let (calls, last) = (1, self.added);
        self.add_sums(failed, PathSums { calls, last });
    }

    /// Adds calls. If there are too many different ones, most lose their paths: those that are
    /// neither frequent nor new.
    pub fn add_sums(&mut self, failed: FailedPath, new: PathSums) {
        if is_restart(failed.errno) {
            return self.add_interrupted(failed, new);
        }
        add_sums(&mut self.calls, failed, new);
        if self.calls.len() > Self::MAX_CALLS {
            self.sum_most();
        }
    }

    fn add_interrupted(&mut self, interrupted: FailedPath, new: PathSums) {
        add_sums(&mut self.interrupted, interrupted, new);
        if self.interrupted.len() > Self::MAX_INTERRUPTED {
            let oldest = self.interrupted.iter().min_by_key(|(_, sums)| sums.last);
            if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
                self.interrupted.remove(&oldest);
            }
        }
    }

    /// The path of the call that a signal interrupted between these times; `None`: none, several, or it
    /// is unknown.
    #[must_use]
    pub fn interrupted_path(&self, call: &Call, from_ns: u64, to_ns: u64) -> Option<&GivenPath> {
        let calls = self.interrupted.iter();
        let mut calls =
            calls.filter(|(one, sums)| one.call == *call && (from_ns..=to_ns).contains(&sums.last));
        let (only, _) = calls.next().filter(|_| calls.next().is_none())?;
        only.paths[0].as_ref()
    }

    /// Whether every call is there with its path.
    #[must_use]
    pub const fn are_complete(&self) -> bool {
        self.left_out == 0 && self.summed == 0
    }

    /// Keeps a quarter of the paths for their calls, and another one for their age. Sums the rest by
    /// call and error.
    fn sum_most(&mut self) {
        let quarter = Self::MAX_CALLS / 4;
        let mut all: Vec<_> = mem::take(&mut self.calls).into_iter().collect();
        all.sort_by_key(|(_, sums)| Reverse(sums.last));
        let mut older = all.split_off(quarter);
        older.sort_by_key(|(_, sums)| Reverse(sums.calls));
        let summed = older.split_off(quarter);
        self.calls = all.into_iter().chain(older).collect();
        for (mut one, sums) in summed {
            if one.paths != NO_PATHS {
                self.summed += sums.calls;
                one.paths = NO_PATHS;
            }
            add_sums(&mut self.calls, one, sums);
        }
    }
}

/// Those of a call that was given no paths, or whose paths are unknown.
const NO_PATHS: [Option<GivenPath>; 2] = [None, None];

fn add_sums(calls: &mut BTreeMap<FailedPath, PathSums>, failed: FailedPath, new: PathSums) {
    let sums = calls.entry(failed).or_default();
    sums.calls += new.calls;
    sums.last = sums.last.max(new.last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_paths_the_frequent_and_the_new_stay_and_every_call_is_counted() {
        let failed = |text: String| FailedPath {
            call: Call::native("open"),
            errno: 2,
            paths: [
                Some(GivenPath {
                    text,
                    is_cut: false,
                    is_below_descriptor: false,
                }),
                None,
            ],
        };
        let mut paths = FailedPaths::default();
        for _ in 0..10 {
            paths.add(failed("often".to_owned()));
        }
        let ever_new = 3 * FailedPaths::MAX_CALLS as u64;
        for last in 10..ever_new {
            paths.add(failed(format!("new {last}")));
            assert!(paths.calls.len() <= FailedPaths::MAX_CALLS);
        }
        assert_eq!(paths.calls[&failed("often".to_owned())].calls, 10);
        for last in ever_new - 10_000..ever_new {
            assert_eq!(paths.calls[&failed(format!("new {last}"))].calls, 1);
        }
        let without = FailedPath {
            paths: NO_PATHS,
            ..failed(String::new())
        };
        assert_eq!(paths.calls[&without].calls, paths.summed);
        let calls: u64 = paths.calls.values().map(|sums| sums.calls).sum();
        assert_eq!((calls, paths.left_out), (ever_new, 0));
    }
}
