//! What this machine is and what it allows, as far as that explains why something cannot run here,
//! and which command would fix it.

use std::{
    ffi::OsStr,
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nix::{
    sys::utsname::{UtsName, uname},
    unistd::geteuid,
};
use rustix::thread::CapabilitySet;

use crate::{privileges, proc_stat::status_field};

/// The machine, and what this process may do on it. What cannot be read is `None`, empty or `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact about the machine"
)]
pub struct System {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Architecture, as the kernel calls it.
    pub arch: Option<String>,
    /// The name of the distribution.
    pub distribution: String,
    /// The path of this program.
    pub executable: Option<PathBuf>,
    /// The permission bits of its file.
    pub executable_mode: Option<u32>,
    /// Whether this process has more privileges than its caller, who is not root: see
    /// [`privileges::is_elevated`].
    pub elevated: bool,
    /// Effective user id.
    pub euid: u32,
    /// What `/proc/self/status` says of this process.
    pub status: ProcessStatus,
    /// `kernel.yama.ptrace_scope`.
    pub yama_ptrace_scope: Option<i32>,
    /// Whether root cannot read kernel memory, not even with eBPF programs: the level
    /// `confidentiality` of `kernel_lockdown(7)`.
    pub is_locked_down: bool,
    /// Whether this is probably a container.
    pub is_container: bool,
    /// Whether this is not the host's user namespace, where root is the host's root.
    pub is_user_namespace: bool,
}

/// What `/proc/self/status` says of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The capabilities in effect.
    pub effective: Option<CapabilitySet>,
    /// The bounding set: the most that a program started from here can get.
    pub bounding: Option<CapabilitySet>,
    /// Whether programs started from here cannot gain privileges, not even through sudo.
    pub no_new_privs: bool,
    /// Whether a seccomp filter decides on system calls, as in most containers.
    pub has_filter: bool,
    /// The process that traces this one.
    pub tracer_pid: Option<u32>,
}

impl System {
    /// Reads all of it from the running system.
    pub(crate) fn read() -> Self {
        let name = uname().ok();
        let word = |part: fn(&UtsName) -> &OsStr| {
            let name = name.as_ref().map(part);
            name.map(|name| name.to_string_lossy().into_owned())
        };
        let releases = ["/etc/os-release", "/usr/lib/os-release"].map(file_text);
        let executable = fs::metadata("/proc/self/exe");
        let setting = file_text("/proc/sys/kernel/yama/ptrace_scope");
        let has_marker = ["/.dockerenv", "/run/.containerenv"]
            .iter()
            .any(|marker| Path::new(marker).exists());
        Self {
            kernel: word(UtsName::release),
            arch: word(UtsName::machine),
            distribution: distribution_name(&releases.concat()).to_owned(),
            executable: std::env::current_exe().ok(),
            executable_mode: executable.ok().map(|found| found.mode() & 0o7777),
            elevated: privileges::is_elevated(),
            euid: geteuid().as_raw(),
            status: ProcessStatus::parse(&file_text("/proc/self/status")),
            yama_ptrace_scope: setting.trim().parse().ok(),
            is_locked_down: file_text("/sys/kernel/security/lockdown")
                .contains("[confidentiality]"),
            is_container: has_marker || is_other_namespace("/proc/self/ns/pid", INITIAL_PIDS),
            is_user_namespace: is_other_namespace("/proc/self/ns/user", INITIAL_USERS),
        }
    }

    /// The machine and the user in one line.
    pub fn describe(&self) -> String {
        let kernel = self.kernel.as_deref().unwrap_or("(release unknown)");
        let arch = self.arch.as_deref().unwrap_or_default();
        let distribution = match &*self.distribution {
            "" => "unknown distribution",
            name => name,
        };
        let user = match self.euid {
            0 => "root".to_owned(),
            uid => format!("uid {uid}"),
        };
        let container = ["", ", probably in a container"][usize::from(self.is_container)];
        format!("Linux {kernel} {arch}, {distribution}, {user}{container}")
    }
}

/// The text of a file; empty if it cannot be read.
fn file_text(path: &str) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The initial PID namespace: `PROC_PID_INIT_INO` of the kernel's `include/linux/proc_ns.h`.
const INITIAL_PIDS: &str = "pid:[4026531836]";
/// The initial user namespace: `PROC_USER_INIT_INO`.
const INITIAL_USERS: &str = "user:[4026531837]";

/// Whether this link of `/proc/self/ns` leads to another namespace than the initial one.
fn is_other_namespace(link: &str, initial: &str) -> bool {
    fs::read_link(link).is_ok_and(|namespace| namespace != Path::new(initial))
}

impl ProcessStatus {
    fn parse(text: &str) -> Self {
        let value = |name| status_field(text, name);
        let capabilities = |name| {
            let bits = u64::from_str_radix(value(name)?, 16).ok()?;
            Some(CapabilitySet::from_bits_retain(bits))
        };
        let tracer = value("TracerPid").and_then(|pid| pid.parse().ok());
        Self {
            effective: capabilities("CapEff"),
            bounding: capabilities("CapBnd"),
            no_new_privs: value("NoNewPrivs") == Some("1"),
            has_filter: value("Seccomp") == Some("2"),
            tracer_pid: tracer.filter(|pid| *pid != 0),
        }
    }
}

/// The name of the distribution in `os-release(5)`; empty if there is none.
fn distribution_name(release: &str) -> &str {
    let mut lines = release.lines();
    let name = lines.find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches(['"', '\''])
}

/// What came of trying something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It works.
    Works,
    /// It is denied (EPERM, EACCES).
    Denied,
    /// It failed for another reason.
    Failed(String),
}

/// A version: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// The version that a text begins with, as `6.1` of `6.1.0-56-cloud-amd64`.
    pub(crate) fn at_start(text: &str) -> Option<Self> {
        let (major, rest) = text.split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The command as the user has to type it to run it as root.
pub(crate) fn as_root(system: &System, command: &str) -> String {
    let sudo = if system.euid == 0 { "" } else { "sudo " };
    format!("{sudo}{command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let system = System::read();
        let release = file_text("/proc/sys/kernel/osrelease");
        assert_eq!(system.kernel.as_deref(), Some(release.trim()));
        assert!(system.status.effective.is_some() && system.status.bounding.is_some());
        assert_eq!(file_text("/proc/sys/kernel/no-such-setting"), "");
        assert!(!is_other_namespace("/no such link", INITIAL_PIDS));
    }

    #[test]
    fn proc_status_is_parsed_and_unexpected_lines_are_unknown() {
        let sound = "Name:\tzc: Seccomp:\t9\nTracerPid:\t77\nCapBnd:\t000001ffffffffff\nCapEff:\t000000c000080000\n\
                     NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let expected = ProcessStatus {
            effective: Some(
                CapabilitySet::SYS_PTRACE | CapabilitySet::PERFMON | CapabilitySet::BPF,
            ),
            bounding: Some(CapabilitySet::from_bits_retain(0x1ff_ffff_ffff)),
            no_new_privs: true,
            has_filter: true,
            tracer_pid: Some(77),
        };
        assert_eq!(ProcessStatus::parse(sound), expected);
        let odd = "TracerPid:\t0\nCapEff:\txyz\nSeccomp:\t0\nNoNewPrivs:\n";
        assert_eq!(ProcessStatus::parse(odd), ProcessStatus::default());
    }

    #[test]
    fn the_distribution_has_its_full_name() {
        for (release, name) in [
            (
                "# a comment\nPRETTY_NAME=\"Ubuntu 24.04\"\nID=ubuntu\n",
                "Ubuntu 24.04",
            ),
            ("NAME=x\nPRETTY_NAME='Own'", "Own"),
            ("", ""),
            ("=\n==\nPRETTY_NAME", ""),
        ] {
            assert_eq!(distribution_name(release), name, "{release:?}");
        }
    }
}
