//! The line for what was touched, with patterns for names that differ from run to run.

use super::{LockEntry, LockKind};

/// Directories of temporary files.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run/user"];

/// From here on, the kernel gives out ports: `ip_local_port_range` of the kernel's
/// Documentation/networking/ip-sysctl.rst.
const FIRST_EPHEMERAL_PORT: u16 = 32768;

/// The digits of a time of day with its date, each group with the least and the greatest number.
const TIME_GROUPS: [(usize, u32, u32); 6] = [
    (4, 1970, 2199),
    (2, 1, 12),
    (2, 1, 31),
    (2, 0, 23),
    (2, 0, 59),
    (2, 0, 60),
];

/// A path as a lock has it, if no character of it has a meaning in patterns.
pub(super) fn spelled(path: &str) -> String {
    if path.contains(['/', ':'].as_slice()) {
        path.to_owned()
    } else {
        // Not the pattern of a name.
        format!("./{path}")
    }
}

/// The line for a path or an address.
pub(super) fn general(entry: &LockEntry<'_>) -> String {
    let LockEntry {
        kind, path, made, ..
    } = *entry;
    if kind.is_of_addresses() {
        return general_address(path);
    }
    if let Some(above) = TEMPORARY.iter().find(|above| {
        let below = path.strip_prefix(**above);
        below.is_some_and(|below| below.starts_with('/'))
    }) {
        return format!("{above}/**");
    }
    // Which programs are executed matters also if the run made them.
    if let Some(directory) = made.filter(|_| kind != LockKind::Exec) {
        return format!("{}/**", escaped(directory));
    }
    let line = escaped(&spelled(path));
    if kind == LockKind::Temp {
        let above = line.rsplit_once('/').map_or(".", |(above, _)| above);
        return format!("{above}/*");
    }
    let has_numbers = ["/proc/", "/dev/"]
        .iter()
        .any(|above| path.starts_with(above));
    if has_numbers {
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = line
            .split('/')
            .map(|part| if is_number(part) { "*" } else { part });
        return parts.collect::<Vec<_>>().join("/");
    }
    line
}

/// An address, whatever port the kernel gave it.
fn general_address(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let is_of_kernel = port
        .parse::<u16>()
        .is_ok_and(|port| port >= FIRST_EPHEMERAL_PORT);
    if is_of_kernel && !address.starts_with("unix:") {
        format!("{host}:*")
    } else {
        address.to_owned()
    }
}

/// The pattern that a path matches, with `*` for times.
fn escaped(path: &str) -> String {
    without_times(&glob::Pattern::escape(path).replace(char::is_control, "?"))
}

/// The text with `*` instead of each time of day with its date.
fn without_times(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let is_in_number = out.ends_with(|last: char| last.is_ascii_digit());
        if let Some(length) = time_length(rest).filter(|_| !is_in_number) {
            out.push('*');
            rest = &rest[length..];
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// How long the time is that a text begins with: `2026-11-30T07_04_08_931Z`, `20261130-070408`.
fn time_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_separator = |at: usize| bytes.get(at).is_some_and(|byte| b"-_:.,T ".contains(byte));
    let digits_from = |at: usize| {
        let rest = bytes.get(at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = 0;
    for (digits, min, max) in TIME_GROUPS {
        at += usize::from(at > 0 && is_separator(at));
        let group = text.get(at..at + digits)?;
        let is_number = group.bytes().all(|byte| byte.is_ascii_digit());
        let number = group.parse().ok().filter(|_| is_number);
        number.filter(|number: &u32| (min..=max).contains(number))?;
        at += digits;
    }
    let fraction = at + usize::from(is_separator(at));
    match digits_from(fraction) {
        0 => {}
        digits => at = fraction + digits,
    }
    Some(at + usize::from(bytes.get(at) == Some(&b'Z')))
}

#[cfg(test)]
mod tests {
    use super::without_times;

    #[test]
    fn times_are_patterns_and_other_numbers_stay() {
        for (name, expected) in [
            (
                "_logs/2026-11-30T07_04_08_931Z-debug-0.log",
                "_logs/*-debug-0.log",
            ),
            ("a 2026-11-30 07:04:08.log", "a *.log"),
            ("log.20261130070408", "log.*"),
            ("20261130-070408/é-20261130_070409", "*/é-*"),
            ("2026-11-30.log", "2026-11-30.log"),
            ("2026-13-30T07:04:08", "2026-13-30T07:04:08"),
            ("2026-11-30T25:04:08", "2026-11-30T25:04:08"),
            ("1020261130070408", "1020261130070408"),
            ("v1.2.3", "v1.2.3"),
        ] {
            assert_eq!(without_times(name), expected);
        }
    }
}
