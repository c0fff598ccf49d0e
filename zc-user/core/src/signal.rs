//! Names of signals, and the exit status that stands for each.
//!
//! Public for zctrace's own crates only.

/// The signals from 1 on, in the order of their numbers.
///
/// Source: `include/uapi/asm-generic/signal.h` (v6.12); x86 has the same numbers. The real-time
/// signals from 32 on have no names.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// Each signal that has a name, with its number.
fn all() -> impl Iterator<Item = (i32, &'static str)> {
    (1..).zip(NAMES)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

/// A signal's name. Real-time signals have none; they are named by number.
pub fn name(number: i32) -> String {
    all()
        .find(|(known, _)| *known == number)
        .map_or_else(|| format!("signal {number}"), |(_, name)| name.to_owned())
}

/// The number of the signal with this name.
pub fn number(name: &str) -> Option<i32> {
    all()
        .find(|(_, known)| *known == name)
        .map(|(number, _)| number)
}

/// The exit status that stands for the end by this signal, as in a shell: 128 plus its number.
pub fn exit_status(number: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_numbers_of_the_c_library() {
        let known = [
            (libc::SIGHUP, "SIGHUP"),
            (libc::SIGBUS, "SIGBUS"),
            (libc::SIGKILL, "SIGKILL"),
            (libc::SIGUSR2, "SIGUSR2"),
            (libc::SIGSTKFLT, "SIGSTKFLT"),
            (libc::SIGTSTP, "SIGTSTP"),
            (libc::SIGVTALRM, "SIGVTALRM"),
            (libc::SIGSYS, "SIGSYS"),
        ];
        for (expected, text) in known {
            assert_eq!(
                (name(expected).as_str(), number(text)),
                (text, Some(expected))
            );
        }
    }

    #[test]
    fn a_signal_without_a_name_is_named_by_its_number() {
        assert_eq!([name(0), name(40)], ["signal 0", "signal 40"]);
        assert_eq!([number("SIGRTMIN"), number("signal 40")], [None, None]);
    }

    #[test]
    fn the_exit_status_of_a_signal_is_that_of_a_shell() {
        assert_eq!(
            [libc::SIGINT, libc::SIGKILL, libc::SIGTERM].map(exit_status),
            [130, 137, 143]
        );
    }
}
