//! Names of errnos, including those that only tracers see: the kernel turns them into others, or
//! restarts the call, before the program runs on.
//!
//! Public for zctrace's own crates only.

use syscalls::Errno;

/// The highest number with a name: `ENOGRACE` of the kernel's `include/linux/errno.h`.
const HIGHEST: u32 = 531;

/// Second names, each with the kernel's first.
const ALIASES: [(&str, &str); 3] = [
    ("EWOULDBLOCK", "EAGAIN"),
    ("ENOTSUP", "EOPNOTSUPP"),
    ("EDEADLOCK", "EDEADLK"),
];

/// The name of a positive errno. If it has two names, it is the kernel's first: `EAGAIN`, not
/// `EWOULDBLOCK`. An errno without a name becomes `errno_N`.
pub fn name(errno: u32) -> String {
    known_name(errno).map_or_else(|| format!("errno_{errno}"), str::to_owned)
}

fn known_name(errno: u32) -> Option<&'static str> {
    Errno::new(i32::try_from(errno).ok()?).name()
}

/// All names in reports.
pub fn names() -> impl Iterator<Item = &'static str> {
    (1..=HIGHEST).filter_map(known_name)
}

/// The name in reports of an errno, by any of its names.
pub fn canonical_name(word: &str) -> Option<&'static str> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == word);
    let word = alias.map_or(word, |(_, name)| name);
    names().find(|name| *name == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_of_the_kernel_has_a_name() {
        assert_eq!((names().count(), names().last()), (150, Some("ENOGRACE")));
    }
}
