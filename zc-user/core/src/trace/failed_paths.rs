//! Calls that failed, by the path that they were given; and those that succeeded, if they are asked
//! for.

use std::collections::BTreeMap;

use zc_ebpf::PathSums;

use crate::syscalls::Call;

/// How often calls returned that take a path, by call, error and path. Calls that a signal
/// interrupted are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedPaths {
    /// The calls on each.
    pub calls: BTreeMap<FailedPath, PathSums>,
    /// Whether the calls that succeeded are among them.
    pub has_successes: bool,
    /// Whether a process may have changed the directory in which relative paths start.
    pub directory_may_change: bool,
    /// How many calls are missing, because there was no room for more paths.
    pub left_out: u64,
    /// How many were [added](Self::add).
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
    pub fn below(mut self, directory: Option<&str>, has_succeeded: bool) -> Self {
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
    /// How many different ones are kept, where no option says how many.
    pub const MAX_CALLS: usize = 65_536;

    /// Counts a call, if there is room.
    pub fn add(&mut self, failed: FailedPath) {
        self.added += 1;
        if self.calls.len() >= Self::MAX_CALLS && !self.calls.contains_key(&failed) {
            self.left_out += 1;
        } else {
            let sums = self.calls.entry(failed).or_default();
            (sums.calls, sums.last) = (sums.calls + 1, self.added);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_for_which_there_is_no_room_are_counted() {
        let failed = |errno| FailedPath {
            call: Call::native("open"),
            errno,
            paths: [None, None],
        };
        let mut paths = FailedPaths::default();
        let most = u32::try_from(FailedPaths::MAX_CALLS).expect("is small");
        (0..most + 3)
            .chain([0])
            .for_each(|errno| paths.add(failed(errno)));
        assert_eq!(
            (
                paths.calls.len(),
                paths.left_out,
                paths.calls[&failed(0)].calls
            ),
            (FailedPaths::MAX_CALLS, 3, 2)
        );
    }
}
