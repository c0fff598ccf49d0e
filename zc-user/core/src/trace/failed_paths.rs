//! Calls that failed, by the path that they were given; and those that succeeded, if they are asked
//! for.

use std::collections::BTreeMap;

use crate::syscalls::Call;

/// How often calls returned that take a path, by call, error and path. Calls that a signal
/// interrupted are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedPaths {
    /// The number of calls for each.
    pub calls: BTreeMap<FailedPath, u64>,
    /// Whether the calls that succeeded are among them.
    pub has_successes: bool,
    /// Whether a process may have changed the directory in which relative paths start.
    pub directory_may_change: bool,
    /// How many calls are missing, because there was no room for more paths.
    pub left_out: u64,
}

/// A call that returned, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedPath {
    /// The call.
    pub call: Call,
    /// The error, as a positive errno; 0: the call succeeded.
    pub errno: u32,
    /// The path as the program gave it; `None`: it could not be read, or the program gave none.
    pub path: Option<GivenPath>,
}

/// A path as a program gave it to a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GivenPath {
    /// The path, or its beginning.
    pub text: String,
    /// Whether it may be longer.
    pub is_cut: bool,
    /// Whether it is relative, and starts in a directory that the call named by a descriptor.
    pub is_below_descriptor: bool,
}

impl FailedPaths {
    /// How many different ones are kept, where no option says how many.
    pub const MOST: usize = 65_536;

    /// Counts a call, if there is room.
    pub fn add(&mut self, failed: FailedPath) {
        if self.calls.len() >= Self::MOST && !self.calls.contains_key(&failed) {
            self.left_out += 1;
        } else {
            *self.calls.entry(failed).or_default() += 1;
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
            path: None,
        };
        let mut paths = FailedPaths::default();
        let most = u32::try_from(FailedPaths::MOST).expect("is small");
        (0..most + 3)
            .chain([0])
            .for_each(|errno| paths.add(failed(errno)));
        assert_eq!(
            (paths.calls.len(), paths.left_out, paths.calls[&failed(0)]),
            (FailedPaths::MOST, 3, 2)
        );
    }
}
