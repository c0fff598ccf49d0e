//! What this machine is and what it allows: plain data, where a failure to read is data too.
//!
//! [`System::read`] reads `/proc`, `/sys` and friends. The backends and the doctor use it to
//! explain why something cannot run here, and which command would fix it.

mod read;

use std::{fmt, path::PathBuf};

use rustix::thread::CapabilitySet;
use serde::{Serialize, Serializer};

/// A value that was read, or why it could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reading<T> {
    /// The value.
    Known(T),
    /// It could not be read.
    Unknown {
        /// Why not.
        unknown: String,
    },
}

impl<T> Reading<T> {
    /// The value, if it could be read.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// A value that could not be read.
    pub fn unknown(reason: impl fmt::Display) -> Self {
        let unknown = reason.to_string();
        Self::Unknown { unknown }
    }
}

impl<T, E: fmt::Display> From<Result<T, E>> for Reading<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Self::unknown, Self::Known)
    }
}

/// The value of a kernel setting; `None` if this kernel does not have it.
pub type Setting = Reading<Option<i32>>;

/// The machine, and what this process may do on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// Release of the kernel.
    pub kernel: Reading<String>,
    /// Architecture, as the kernel calls it.
    pub arch: Reading<String>,
    /// The distribution.
    pub distribution: Reading<Distribution>,
    /// The path of this program.
    pub executable: Reading<PathBuf>,
    /// The permission bits of its file.
    pub executable_mode: Reading<u32>,
    /// Whether this process has more privileges than its caller, who is not root: see
    /// [`privileges::is_elevated`](crate::privileges::is_elevated).
    pub elevated: bool,
    /// Effective user id.
    pub euid: u32,
    /// What `/proc/self/status` says of this process.
    pub status: Status,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Setting,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Setting,
    /// `kernel.yama.ptrace_scope`.
    pub yama_ptrace_scope: Setting,
    /// The lockdown level; `None` if this kernel has no lockdown.
    pub lockdown: Reading<Option<Lockdown>>,
    /// What hints at a container.
    pub container: Container,
}

/// The distribution, of `os-release(5)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// `PRETTY_NAME`.
    pub name: String,
    /// `ID`, then those of `ID_LIKE`, the nearest relative first.
    pub ids: Vec<String>,
}

/// What `/proc/self/status` says of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The capabilities in effect.
    pub effective: Reading<Capabilities>,
    /// The bounding set: the most that a program started from here can get.
    pub bounding: Reading<Capabilities>,
    /// Whether programs started from here cannot gain privileges, not even through sudo.
    pub no_new_privs: Reading<bool>,
    /// Whether system calls are filtered.
    pub seccomp: Reading<Seccomp>,
    /// The process that traces this one; `None` if there is none.
    pub tracer_pid: Reading<Option<u32>>,
}

/// The capabilities that matter here: to trace processes of other users, to do nearly everything,
/// to exceed resource limits, to read kernel memory, and to load eBPF programs.
const THAT_MATTER: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF);

/// A set of capabilities, as bits. JSON lists the names of those that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Whether any of these is in the set.
    pub const fn has(self, capability: CapabilitySet) -> bool {
        self.0 & capability.bits() != 0
    }

    /// The names of those that matter here.
    pub fn names(self) -> impl Iterator<Item = String> {
        let set = THAT_MATTER & CapabilitySet::from_bits_retain(self.0);
        set.iter_names().map(|(name, _)| format!("CAP_{name}"))
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// Whether the system calls of this process are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    /// They are not.
    Off,
    /// Only read, write and exit are allowed.
    Strict,
    /// A BPF program filters them, as in most containers.
    Filter,
}

/// How far the kernel is locked down against root (`kernel_lockdown(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lockdown {
    /// There is no lockdown.
    None,
    /// Root cannot change the running kernel.
    Integrity,
    /// Root cannot read kernel memory either, not even with eBPF programs.
    Confidentiality,
}

/// What hints at a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Files that container engines create.
    pub markers: Vec<PathBuf>,
    /// Whether this is the host's PID namespace.
    pub initial_pid_namespace: Reading<bool>,
    /// Whether this is the host's user namespace, where root is the host's root.
    pub initial_user_namespace: Reading<bool>,
}

impl Container {
    /// Whether this is probably a container.
    pub fn is_likely(&self) -> bool {
        !self.markers.is_empty() || self.initial_pid_namespace.known() == Some(&false)
    }
}

/// What came of trying something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The command that installs a package, by the `ID` of `os-release(5)`. Derived distributions name
/// one of these in `ID_LIKE`.
const MANAGERS: [(&str, &str); 10] = [
    ("debian", "apt-get install"),
    ("ubuntu", "apt-get install"),
    ("fedora", "dnf install"),
    ("rhel", "dnf install"),
    ("alpine", "apk add"),
    ("arch", "pacman -S"),
    ("suse", "zypper install"),
    ("opensuse", "zypper install"),
    ("gentoo", "emerge"),
    ("void", "xbps-install"),
];

/// The command that installs a package on this distribution; `None` if the distribution is unknown.
pub(crate) fn install_command(system: &System, package: &str) -> Option<String> {
    let Reading::Known(distribution) = &system.distribution else {
        return None;
    };
    let manager = |id: &String| MANAGERS.iter().find(|(name, _)| name == id);
    let (_, command) = distribution.ids.iter().find_map(manager)?;
    Some(as_root(system, &format!("{command} {package}")))
}

/// The command as the user has to type it to run it as root.
pub(crate) fn as_root(system: &System, command: &str) -> String {
    let sudo = if system.euid == 0 { "" } else { "sudo " };
    format!("{sudo}{command}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor;

    #[test]
    fn each_distribution_family_has_its_install_command() {
        for (ids, expected) in [
            ("debian", Some("apt-get install strace")),
            ("linuxmint ubuntu debian", Some("apt-get install strace")),
            ("rocky rhel centos fedora", Some("dnf install strace")),
            ("alpine", Some("apk add strace")),
            ("manjaro arch", Some("pacman -S strace")),
            ("suse opensuse", Some("zypper install strace")),
            ("", None),
            ("slackware", None),
        ] {
            let ids: Vec<&str> = ids.split_whitespace().collect();
            let mut system = doctor::sample::root().system;
            system.distribution = doctor::sample::distribution("", &ids);
            assert_eq!(install_command(&system, "strace").as_deref(), expected);
            system.euid = 1000;
            let with_sudo = expected.map(|command| format!("sudo {command}"));
            assert_eq!(install_command(&system, "strace"), with_sudo);
        }
    }
}
