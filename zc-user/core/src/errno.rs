//! Names of errnos, including the kernel-internal ones.

use syscalls::Errno;

/// Errnos that only tracers see: the kernel turns them into others, or restarts the call, before
/// the program runs on.
///
/// Source: `include/linux/errno.h` (v6.12). 520, 532 and on are unused.
const INTERNAL: [(u32, &str); 19] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"),
    (517, "EPROBE_DEFER"),
    (518, "EOPENSTALE"),
    (519, "ENOPARAM"),
    (521, "EBADHANDLE"),
    (522, "ENOTSYNC"),
    (523, "EBADCOOKIE"),
    (524, "ENOTSUPP"),
    (525, "ETOOSMALL"),
    (526, "ESERVERFAULT"),
    (527, "EBADTYPE"),
    (528, "EJUKEBOX"),
    (529, "EIOCBQUEUED"),
    (530, "ERECALLCONFLICT"),
    (531, "ENOGRACE"),
];

/// The name of a positive errno. If it has two names, it is the kernel's first: `EAGAIN`, not
/// `EWOULDBLOCK`. An errno without a name becomes `errno_N`.
pub fn name(errno: u32) -> String {
    let internal = INTERNAL
        .iter()
        .find(|(number, _)| *number == errno)
        .map(|(_, name)| (*name).to_owned());
    let public = || {
        let known = i32::try_from(errno).ok().filter(|_| errno <= HIGHEST)?;
        Errno::new(known).name().map(str::to_owned)
    };
    internal
        .or_else(public)
        .unwrap_or_else(|| format!("errno_{errno}"))
}

/// Second names, each with the kernel's first.
const ALIASES: [(&str, &str); 3] = [
    ("EWOULDBLOCK", "EAGAIN"),
    ("ENOTSUP", "EOPNOTSUPP"),
    ("EDEADLOCK", "EDEADLK"),
];
/// The highest number that programs may see.
const HIGHEST: u32 = 133;

/// All names in reports.
pub fn names() -> impl Iterator<Item = String> {
    (1..=HIGHEST)
        .map(name)
        .filter(|name| name.starts_with('E'))
        .chain(INTERNAL.iter().map(|(_, name)| (*name).to_owned()))
}

/// The name in reports of an errno, by any of its names.
pub fn canonical(word: &str) -> Option<String> {
    let word = ALIASES
        .iter()
        .find(|(alias, _)| *alias == word)
        .map_or(word, |(_, name)| name);
    names().find(|name| name == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_have_the_names_of_the_manual_page() {
        assert_eq!(name(libc::EXDEV.unsigned_abs()), "EXDEV");
        assert_eq!(name(libc::EWOULDBLOCK.unsigned_abs()), "EAGAIN");
        assert_eq!(name(libc::ENOTSUP.unsigned_abs()), "EOPNOTSUPP");
        assert_eq!(name(libc::EHWPOISON.unsigned_abs()), "EHWPOISON");
    }

    #[test]
    fn every_errno_up_to_the_highest_public_one_has_a_name_or_is_a_gap() {
        // 41 and 58 are gaps in `asm-generic/errno.h`: EWOULDBLOCK and EDEADLOCK are aliases.
        let nameless: Vec<u32> = (1..=HIGHEST)
            .filter(|&errno| name(errno).starts_with("errno_"))
            .collect();
        assert_eq!(nameless, [41, 58]);
    }

    #[test]
    fn an_errno_is_found_by_any_of_its_names() {
        assert_eq!(canonical("EWOULDBLOCK").as_deref(), Some("EAGAIN"));
        assert_eq!(canonical("ERESTARTSYS").as_deref(), Some("ERESTARTSYS"));
        assert_eq!(canonical("ENOSUCH"), None);
    }

    #[test]
    fn internal_and_unknown_errnos_have_names_too() {
        assert_eq!(name(512), "ERESTARTSYS");
        assert_eq!(name(516), "ERESTART_RESTARTBLOCK");
        assert_eq!(name(529), "EIOCBQUEUED");
        assert_eq!(name(520), "errno_520");
        assert_eq!(name(u32::MAX), "errno_4294967295");
    }
}
