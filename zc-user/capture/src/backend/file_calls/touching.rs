//! What calls touch, by their names and flags.

use super::{
    call::{ChildKind, FileCall},
    flag,
};
use crate::syscalls::{Spec, Touching, known_calls};

/// The calls to watch, apart from those that are traced anyway.
pub fn watched_calls() -> impl Iterator<Item = &'static str> {
    let touching = known_calls().filter(|spec| spec.touching() != Touching::Nothing);
    super::kinds::watched_calls().chain(touching.map(|spec| spec.name))
}

impl FileCall<'_> {
    /// Whether it acts on what a symbolic link at the end of its path leads to.
    pub(super) fn follows_links(&self) -> bool {
        !self.name.starts_with('l') && !self.is_of_link()
    }

    /// Whether its flags say that it acts on a symbolic link itself.
    pub(super) fn is_of_link(&self) -> bool {
        Spec::named(self.name)
            .at_flags
            .is_some_and(|index| self.has(index, flag::AT_SYMLINK_NOFOLLOW))
    }

    /// Whether it creates a task, or is an `unshare`, and leaves a process and another one with one
    /// working directory, or two threads of a process with two.
    pub(super) fn shares_otherwise(&self) -> bool {
        if self.name == "unshare" {
            return self.has(0, flag::CLONE_FS | flag::CLONE_NEWNS);
        }
        self.has(0, flag::CLONE_FS) != (self.child_kind() == ChildKind::Thread)
    }
}
