//! Reads [`System`]. The parsers take text and do no I/O; what they cannot parse is an error that
//! quotes it.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::PathBuf};

use nix::{sys::utsname::uname, unistd::geteuid};

use super::{
    Capabilities, Container, Distribution, Lockdown, Reading, Seccomp, Setting, Status, System,
};
use crate::{launch::reason, privileges};

impl System {
    /// Reads all of it from the running system.
    pub(crate) fn read() -> Self {
        let name = uname();
        let status = text("/proc/self/status");
        let release = text("/etc/os-release").or_else(|_| text("/usr/lib/os-release"));
        let word = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        Self {
            kernel: name.map(|name| word(name.release())).into(),
            arch: name.map(|name| word(name.machine())).into(),
            distribution: release.map(|text| parse_os_release(&text)).into(),
            executable: std::env::current_exe()
                .map_err(|error| reason(&error))
                .into(),
            executable_mode: fs::metadata("/proc/self/exe")
                .map(|found| found.mode() & 0o7777)
                .map_err(|error| reason(&error))
                .into(),
            elevated: privileges::is_elevated(),
            euid: geteuid().as_raw(),
            status: Status::parse(status.as_deref().map_err(String::as_str)),
            unprivileged_bpf_disabled: setting("/proc/sys/kernel/unprivileged_bpf_disabled"),
            perf_event_paranoid: setting("/proc/sys/kernel/perf_event_paranoid"),
            yama_ptrace_scope: setting("/proc/sys/kernel/yama/ptrace_scope"),
            lockdown: optional("/sys/kernel/security/lockdown", parse_lockdown),
            container: container(),
        }
    }
}

fn container() -> Container {
    let markers = ["/.dockerenv", "/run/.containerenv"].map(PathBuf::from);
    let is_initial = |link: &str, initial| {
        let link = fs::read_link(link).map_err(|error| reason(&error));
        let inode = link.and_then(|link| parse_namespace(&link.to_string_lossy()));
        inode.map(|inode| inode == initial).into()
    };
    let markers = markers.into_iter().filter(|marker| marker.exists());
    Container {
        markers: markers.collect(),
        initial_pid_namespace: is_initial("/proc/self/ns/pid", INITIAL_PID_NAMESPACE),
        initial_user_namespace: is_initial("/proc/self/ns/user", INITIAL_USER_NAMESPACE),
    }
}

/// The text of a file, or why it cannot be read.
fn text(path: &str) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| reason(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn setting(path: &str) -> Setting {
    optional(path, parse_setting)
}

/// The parsed content of a file that not every kernel has.
fn optional<T>(path: &str, parse: impl Fn(&str) -> Result<T, String>) -> Reading<Option<T>> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).into(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reading::Known(None),
        Err(error) => Reading::unknown(reason(&error)),
    }
}

impl Status {
    /// Parses `/proc/self/status`; an `Err` says why it could not be read.
    pub(crate) fn parse(text: Result<&str, &str>) -> Self {
        Self {
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
            tracer_pid: status_line(text, "TracerPid", |value| {
                value.parse().ok().map(|pid| (pid != 0).then_some(pid))
            }),
        }
    }
}

/// Inode of the initial PID namespace: `PROC_PID_INIT_INO` of the kernel's
/// `include/linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Inode of the initial user namespace: `PROC_USER_INIT_INO`.
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

fn status_line<T>(
    text: Result<&str, &str>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Reading<T> {
    let text = match text {
        Ok(text) => text,
        Err(reason) => return Reading::unknown(reason),
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    match lines.find(|(found, _)| *found == name) {
        Some((_, value)) => parse(value.trim()).ok_or_else(|| unexpected(value)).into(),
        None => Reading::unknown(format!("no line {name}")),
    }
}

fn capabilities(value: &str) -> Option<Capabilities> {
    u64::from_str_radix(value, 16).ok().map(Capabilities)
}

/// Parses a number of `/proc/sys`.
fn parse_setting(text: &str) -> Result<i32, String> {
    text.trim().parse().map_err(|_| unexpected(text))
}

/// Parses `/sys/kernel/security/lockdown`: all levels, the active one in brackets.
fn parse_lockdown(text: &str) -> Result<Lockdown, String> {
    match text.split_whitespace().find(|word| word.starts_with('[')) {
        Some("[none]") => Ok(Lockdown::None),
        Some("[integrity]") => Ok(Lockdown::Integrity),
        Some("[confidentiality]") => Ok(Lockdown::Confidentiality),
        _ => Err(unexpected(text)),
    }
}

/// Parses the target of a link of `/proc/self/ns`, such as `pid:[4026531836]`: the inode.
fn parse_namespace(link: &str) -> Result<u64, String> {
    let inode = link
        .split_once(":[")
        .and_then(|(_, rest)| rest.strip_suffix(']'));
    let inode = inode.and_then(|inode| inode.parse().ok());
    inode.ok_or_else(|| unexpected(link))
}

/// Parses `/etc/os-release`, which has shell assignments. Without any, the distribution has no
/// name.
fn parse_os_release(text: &str) -> Distribution {
    let value = |name: &str| {
        let mut assignments = text.lines().filter_map(|line| line.trim().split_once('='));
        // As in a shell, the last assignment counts.
        let last = assignments.rfind(|(found, _)| *found == name);
        last.map(|(_, value)| unquote(value)).unwrap_or_default()
    };
    let [id, like] = ["ID", "ID_LIKE"].map(value);
    let ids = id.split_whitespace().chain(like.split_whitespace());
    Distribution {
        name: value("PRETTY_NAME"),
        ids: ids.map(str::to_ascii_lowercase).collect(),
    }
}

/// The value of a shell assignment without quotes and backslashes.
fn unquote(value: &str) -> String {
    let value = value.trim();
    let unquoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    let inner = ['"', '\''].into_iter().find_map(unquoted);
    let mut characters = inner.unwrap_or(value).chars();
    let mut plain = String::new();
    while let Some(c) = characters.next() {
        plain.extend(if c == '\\' {
            characters.next()
        } else {
            Some(c)
        });
    }
    plain
}

/// Quotes a text that cannot be parsed, cut to the length of a line.
fn unexpected(text: &str) -> String {
    let short: String = text.trim().chars().take(40).collect();
    format!("it says {short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let system = System::read();
        let release = text("/proc/sys/kernel/osrelease").expect("has one");
        assert_eq!(system.kernel, Reading::Known(release.trim().to_owned()));
        assert!(system.status.effective.known().is_some());
        assert!(system.status.bounding.known().is_some());
        assert!(system.container.initial_pid_namespace.known().is_some());
    }

    #[test]
    fn a_setting_that_this_kernel_lacks_is_known_to_be_absent() {
        let absent = setting("/proc/sys/kernel/no-such-setting");
        assert_eq!(absent, Reading::Known(None));
        assert!(matches!(setting("/proc/self"), Reading::Unknown { .. }));
    }

    #[test]
    fn proc_status_is_parsed_and_each_unexpected_line_is_reported() {
        let sound = "Name:\tzc: Seccomp:\t9\nTracerPid:\t77\nCapBnd:\t000001ffffffffff\nCapEff:\t000000c000080000\n\
                     NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let held = Capabilities(0xc0_0008_0000);
        let expected = Status {
            effective: Reading::Known(held),
            bounding: Reading::Known(Capabilities(0x1ff_ffff_ffff)),
            no_new_privs: Reading::Known(true),
            seccomp: Reading::Known(Seccomp::Filter),
            tracer_pid: Reading::Known(Some(77)),
        };
        assert_eq!(Status::parse(Ok(sound)), expected);
        let names: Vec<String> = held.names().collect();
        assert_eq!(names, ["CAP_SYS_PTRACE", "CAP_PERFMON", "CAP_BPF"]);
        let odd = "TracerPid:\t0\nCapEff:\txyz\nSeccomp:\t3\nNoNewPrivs:\n";
        let expected = Status {
            effective: Reading::unknown("it says \"xyz\""),
            bounding: Reading::unknown("no line CapBnd"),
            no_new_privs: Reading::unknown("it says \"\""),
            seccomp: Reading::unknown("it says \"3\""),
            tracer_pid: Reading::Known(None),
        };
        assert_eq!(Status::parse(Ok(odd)), expected);
        let unread = Status::parse(Err("Permission denied"));
        assert_eq!(unread.seccomp, Reading::unknown("Permission denied"));
    }

    #[test]
    fn numbers_and_levels_of_the_kernel_are_parsed() {
        let long = "x".repeat(9999);
        for (text, value) in [
            ("2\n", Ok(2)),
            ("-1\n", Ok(-1)),
            ("", Err("")),
            ("99999999999", Err("99999999999")),
            (&long, Err(&long[..40])),
        ] {
            let value = value.map_err(|text| format!("it says {text:?}"));
            assert_eq!(parse_setting(text), value);
        }
        for (text, level) in [
            ("[none] integrity\n", Some(Lockdown::None)),
            ("none [integrity]\n", Some(Lockdown::Integrity)),
            ("[confidentiality]\n", Some(Lockdown::Confidentiality)),
            ("", None),
            ("none integrity confidentiality", None),
            ("[paranoia]", None),
        ] {
            assert_eq!(parse_lockdown(text).ok(), level, "{text:?}");
        }
        for (link, inode) in [
            ("pid:[4026531836]", Some(INITIAL_PID_NAMESPACE)),
            ("user:[4026531837]", Some(INITIAL_USER_NAMESPACE)),
            ("", None),
            ("pid:[]", None),
            ("pid:[1", None),
            ("pid:4026531836", None),
            ("pid:[-1]", None),
        ] {
            assert_eq!(parse_namespace(link).ok(), inode, "{link:?}");
        }
    }

    #[test]
    fn os_release_is_parsed() {
        let ubuntu = "# a comment\nPRETTY_NAME=\"Ubuntu 24.04 \\\"N\\\"\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\n";
        let rocky = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n";
        for (text, name, ids) in [
            (ubuntu, "Ubuntu 24.04 \"N\"", "ubuntu debian"),
            (rocky, "", "rocky rhel centos fedora"),
            ("ID=a\nID=b", "", "b"),
        ] {
            let found = parse_os_release(text);
            assert_eq!((&*found.name, &*found.ids.join(" ")), (name, ids));
        }
        for odd in ["", "=\n==\n", "ID=\n", "ID=''", "NOID=x", "\\"] {
            let found = parse_os_release(odd);
            assert!(found.name.is_empty() && found.ids.is_empty(), "{odd:?}");
        }
    }
}
