//! `/proc/PID/stat`, the line of fields about a process or thread (`man 5 proc_pid_stat`), and
//! `/proc/PID/status`, the same with names (`man 5 proc_pid_status`).

use std::str::SplitAsciiWhitespace;

/// Nanoseconds in a tick. `USER_HZ` is 100 on every architecture that zctrace runs on.
pub const NS_PER_TICK: u64 = 10_000_000;

/// The name, and the fields after it, the state first. `None`: this is no such line.
pub fn name_and_fields(stat: &str) -> Option<(&str, SplitAsciiWhitespace<'_>)> {
    // The name, in parentheses, may have any character.
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name, fields.split_ascii_whitespace()))
}

/// The value of the line of this name in `/proc/PID/status`.
pub fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}
