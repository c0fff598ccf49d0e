//! Names of signals, and the exit status that stands for each.
//!
//! Public for zctrace's own crates only.

use nix::sys::signal::Signal;

/// All names, in the order of their numbers.
pub fn names() -> impl Iterator<Item = &'static str> {
    Signal::iterator().map(Signal::as_str)
}

/// A signal's name. Real-time signals have none; they are named by number.
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(
        |_| format!("signal {number}"),
        |signal| signal.as_str().to_owned(),
    )
}

/// The number of the signal with this name.
pub fn number(name: &str) -> Option<i32> {
    name.parse().ok().map(|signal: Signal| signal as i32)
}

/// The exit status that stands for the end by this signal, as in a shell: 128 plus its number.
pub fn exit_status(number: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_a_name_is_named_by_its_number() {
        assert_eq!((name(9).as_str(), number("SIGKILL")), ("SIGKILL", Some(9)));
        assert_eq!([name(0), name(40)], ["signal 0", "signal 40"]);
        assert_eq!([number("SIGRTMIN"), number("signal 40")], [None, None]);
        assert_eq!([2, 9, 15].map(exit_status), [130, 137, 143]);
    }
}
