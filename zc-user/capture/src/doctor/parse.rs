//! The formats of `/proc`, `/sys` and friends, read without any I/O. What makes no sense is an error that says so.

use super::facts::{Capabilities, Distribution, Lockdown, Reading, Seccomp, Status, Version};

/// The inode of the machine's first PID namespace, of the kernel's `include/linux/proc_ns.h` (`PROC_PID_INIT_INO`).
pub(super) const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// The same of its first user namespace (`PROC_USER_INIT_INO`).
pub(super) const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// `/proc/self/status`, or why it could not be read.
pub(super) fn status(text: Result<&str, &str>) -> Status {
    Status {
        effective: status_line(text, "CapEff", capabilities),
        bounding: status_line(text, "CapBnd", capabilities),
        no_new_privs: status_line(text, "NoNewPrivs", |value| match value {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }),
        seccomp: status_line(text, "Seccomp", |value| match value {
            "0" => Some(Seccomp::Off),
            "1" => Some(Seccomp::Strict),
            "2" => Some(Seccomp::Filter),
            _ => None,
        }),
        tracer_pid: status_line(text, "TracerPid", |value| value.parse().ok().map(|pid| (pid != 0).then_some(pid))),
    }
}

fn status_line<T>(text: Result<&str, &str>, name: &str, parse: impl Fn(&str) -> Option<T>) -> Reading<T> {
    let lines = match text {
        Ok(text) => text.lines(),
        Err(reason) => return Reading::unknown(reason),
    };
    match lines.filter_map(|line| line.split_once(':')).find(|(found, _)| *found == name) {
        Some((_, value)) => parse(value.trim()).ok_or_else(|| senseless(value)).into(),
        None => Reading::unknown(format!("no line {name}")),
    }
}

fn capabilities(value: &str) -> Option<Capabilities> {
    u64::from_str_radix(value, 16).ok().map(Capabilities)
}

/// A number in a file of `/proc/sys`.
pub(super) fn setting(text: &str) -> Result<i32, String> {
    text.trim().parse().map_err(|_| senseless(text))
}

/// `/sys/kernel/security/lockdown`: all levels, the one in force in brackets.
pub(super) fn lockdown(text: &str) -> Result<Lockdown, String> {
    match text.split_whitespace().find(|word| word.starts_with('[')) {
        Some("[none]") => Ok(Lockdown::None),
        Some("[integrity]") => Ok(Lockdown::Integrity),
        Some("[confidentiality]") => Ok(Lockdown::Confidentiality),
        _ => Err(senseless(text)),
    }
}

/// The inode in what a link of `/proc/self/ns` says, as in `pid:[4026531836]`.
pub(super) fn namespace(link: &str) -> Result<u64, String> {
    let inode = link.split_once(":[").and_then(|(_, rest)| rest.strip_suffix(']'));
    inode.and_then(|inode| inode.parse().ok()).ok_or_else(|| senseless(link))
}

/// `/etc/os-release`: assignments of a shell. A file that names nothing is a distribution without a name.
pub(super) fn os_release(text: &str) -> Distribution {
    let value = |name: &str| {
        let mut assignments = text.lines().filter_map(|line| line.trim().split_once('='));
        // As in a shell, the last one counts.
        assignments.rfind(|(found, _)| *found == name).map(|(_, value)| unquoted(value)).unwrap_or_default()
    };
    let [id, like] = ["ID", "ID_LIKE"].map(value);
    let ids = id.split_whitespace().chain(like.split_whitespace()).map(str::to_ascii_lowercase).collect();
    Distribution { name: value("PRETTY_NAME"), ids }
}

/// The value of a shell's assignment, without its quotes and backslashes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inner = ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let mut characters = inner.unwrap_or(value).chars();
    let mut plain = String::new();
    while let Some(c) = characters.next() {
        plain.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    plain
}

/// The version in what `strace --version` says, as in `strace -- version 6.1`; `None` if there is none.
pub(super) fn strace_version(said: &str) -> Option<Version> {
    version(said.lines().next()?.strip_prefix("strace -- version ")?)
}

fn version(version: &str) -> Option<Version> {
    let (major, rest) = version.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(Version(major.parse().ok()?, rest[..digits].parse().ok()?))
}

/// What was found instead of something that makes sense, short enough for a line.
fn senseless(text: &str) -> String {
    let short: String = text.trim().chars().take(40).collect();
    format!("it says {short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Capability;

    const STATUS: &str = "Name:\tzc: Seccomp:\t9\nTracerPid:\t77\nCapBnd:\t000001ffffffffff\nCapEff:\t000000c000080000\n\
                          NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn a_status() {
        let found = status(Ok(STATUS));
        let effective = *found.effective.known().expect("a mask");
        let held = [Capability::Bpf, Capability::Perfmon, Capability::SysPtrace].map(|capability| effective.has(capability));
        assert_eq!((held, effective.has(Capability::SysAdmin)), ([true; 3], false));
        assert_eq!(found.bounding, Reading::Known(Capabilities(0x1ff_ffff_ffff)));
        assert_eq!(found.no_new_privs, Reading::Known(true));
        assert_eq!(found.seccomp, Reading::Known(Seccomp::Filter));
        assert_eq!(found.tracer_pid, Reading::Known(Some(77)));
    }

    #[test]
    fn a_status_that_makes_no_sense() {
        let found = status(Ok("TracerPid:\t0\nCapEff:\txyz\nSeccomp:\t3\nNoNewPrivs:\n"));
        assert_eq!(found.tracer_pid, Reading::Known(None));
        assert_eq!(found.effective, Reading::unknown("it says \"xyz\""));
        assert_eq!(found.seccomp, Reading::unknown("it says \"3\""));
        assert_eq!(found.no_new_privs, Reading::unknown("it says \"\""));
        assert_eq!(found.bounding, Reading::unknown("no line CapBnd"));
        let unread = status(Err("Permission denied"));
        assert_eq!(unread.seccomp, Reading::unknown("Permission denied"));
    }

    #[test]
    fn settings() {
        assert_eq!(setting("2\n"), Ok(2));
        assert_eq!(setting("-1\n"), Ok(-1));
        assert_eq!(setting(""), Err("it says \"\"".to_owned()));
        assert_eq!(setting("99999999999"), Err("it says \"99999999999\"".to_owned()));
        assert_eq!(setting(&"x".repeat(9999)).map_err(|reason| reason.len()), Err(50));
    }

    #[test]
    fn lockdowns() {
        assert_eq!(lockdown("[none] integrity confidentiality\n"), Ok(Lockdown::None));
        assert_eq!(lockdown("none [integrity] confidentiality\n"), Ok(Lockdown::Integrity));
        assert_eq!(lockdown("none integrity [confidentiality]\n"), Ok(Lockdown::Confidentiality));
        for odd in ["", "none integrity confidentiality", "[paranoia]"] {
            assert!(lockdown(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn namespaces() {
        assert_eq!(namespace("pid:[4026531836]"), Ok(FIRST_PID_NAMESPACE));
        assert_eq!(namespace("user:[4026531837]"), Ok(FIRST_USER_NAMESPACE));
        for odd in ["", "pid:[]", "pid:[1", "pid:4026531836", "pid:[-1]"] {
            assert!(namespace(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn distributions() {
        let ubuntu =
            os_release("# a comment\nPRETTY_NAME=\"Ubuntu 24.04 \\\"N\\\"\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\n");
        assert_eq!(ubuntu, Distribution { name: "Ubuntu 24.04 \"N\"".into(), ids: vec!["ubuntu".into(), "debian".into()] });
        let rocky = os_release("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        assert_eq!(rocky.ids, ["rocky", "rhel", "centos", "fedora"]);
        assert_eq!(os_release("ID=a\nID=b").ids, ["b"]);
        let nothing = Distribution { name: String::new(), ids: Vec::new() };
        for odd in ["", "=\n==\n", "ID=\n", "ID=''", "NOID=x", "\\"] {
            assert_eq!(os_release(odd), nothing, "{odd:?}");
        }
    }

    #[test]
    fn versions_of_strace() {
        let version = |said: &str| strace_version(said).map(|version| version.to_string());
        assert_eq!(version("strace -- version 6.1\nCopyright").as_deref(), Some("6.1"));
        assert_eq!(version("strace -- version 5.15.0.12.abcd-dirty").as_deref(), Some("5.15"));
        assert_eq!(version("strace -- version 6.16+ds1").as_deref(), Some("6.16"));
        for odd in [
            "",
            "strace -- version UNKNOWN",
            "strace -- version 6",
            "strace -- version 6.x",
            "usage: strace",
            "v 1.2\nstrace -- version 6.1",
        ] {
            assert_eq!(version(odd), None, "{odd:?}");
        }
        assert!(Version(5, 9) < Version(5, 15) && Version(5, 15) < Version(6, 0));
    }
}
