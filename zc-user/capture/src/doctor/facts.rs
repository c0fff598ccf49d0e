//! What was read of the machine: plain data, where a failure to read is data too.

use std::{fmt, path::PathBuf};

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
        if let Self::Known(value) = self { Some(value) } else { None }
    }

    /// A value that could not be read.
    pub fn unknown(reason: impl fmt::Display) -> Self {
        Self::Unknown { unknown: reason.to_string() }
    }
}

impl<T, E: fmt::Display> From<Result<T, E>> for Reading<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(Self::unknown, Self::Known)
    }
}

/// The value of a kernel setting; `None` if this kernel does not have it.
pub type Setting = Reading<Option<i32>>;

/// All that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The machine, and what this process may do there.
    pub system: System,
    /// What the eBPF backend builds on.
    pub ebpf: EbpfFacts,
    /// What the strace backend builds on.
    pub strace: StraceFacts,
}

/// The machine, and what this process may do there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// Release of the kernel.
    pub kernel: Reading<String>,
    /// Architecture, as the kernel calls it.
    pub arch: Reading<String>,
    /// The distribution.
    pub distribution: Reading<Distribution>,
    /// This program.
    pub executable: Reading<PathBuf>,
    /// Permission bits of its file.
    pub executable_mode: Reading<u32>,
    /// Whether it has privileges by its file that its caller, who is not root, lacks.
    pub elevated: bool,
    /// Effective user id.
    pub euid: u32,
    /// This process in `/proc/self/status`.
    pub status: Status,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Setting,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Setting,
    /// `kernel.yama.ptrace_scope`.
    pub yama_ptrace_scope: Setting,
    /// How far the kernel is locked down; `None` if it knows no lockdown.
    pub lockdown: Reading<Option<Lockdown>>,
    /// Whether this is a container.
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

/// What `/proc/self/status` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The capabilities in effect.
    pub effective: Reading<Capabilities>,
    /// The capabilities that a program started from here can get at most.
    pub bounding: Reading<Capabilities>,
    /// Whether programs started from here cannot gain privileges, not with sudo either.
    pub no_new_privs: Reading<bool>,
    /// Whether calls are filtered.
    pub seccomp: Reading<Seccomp>,
    /// Who traces this process; `None` if nobody does.
    pub tracer_pid: Reading<Option<u32>>,
}

/// A capability that matters here. The discriminant is its bit (the kernel's include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Trace processes of others.
    SysPtrace = 19,
    /// Nearly everything, the next two included.
    SysAdmin = 21,
    /// Exceed limits on resources.
    SysResource = 24,
    /// Look into the kernel.
    Perfmon = 38,
    /// Load eBPF programs.
    Bpf = 39,
}

impl Capability {
    /// All that matter here.
    pub const ALL: [Self; 5] = [Self::SysPtrace, Self::SysAdmin, Self::SysResource, Self::Perfmon, Self::Bpf];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        }
    }
}

/// A set of capabilities, as bits. In JSON it is a list of the names that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Whether this one is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u32) != 0
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(Capability::ALL.into_iter().filter(|capability| self.has(*capability)).map(Capability::name))
    }
}

/// Whether the calls of this process are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    /// No.
    Off,
    /// Only read, write and exit are allowed.
    Strict,
    /// By a program, as in most containers.
    Filter,
}

/// How far the kernel is locked down against root (`kernel_lockdown(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lockdown {
    /// Not at all.
    None,
    /// The kernel may not be changed.
    Integrity,
    /// Nor may its memory be read, also not by eBPF programs.
    Confidentiality,
}

/// What hints at a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Files that container engines leave.
    pub markers: Vec<PathBuf>,
    /// Whether process ids are the machine's own.
    pub initial_pid_namespace: Reading<bool>,
    /// Whether user ids are the machine's own, and root is its root.
    pub initial_user_namespace: Reading<bool>,
}

impl Container {
    /// Whether this is probably a container.
    pub fn is_likely(&self) -> bool {
        !self.markers.is_empty() || self.initial_pid_namespace.known() == Some(&false)
    }
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trial {
    /// Well.
    Works,
    /// It is not allowed (EPERM, EACCES).
    Denied,
    /// Something else went wrong: what.
    Failed(String),
}

/// What the eBPF backend builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EbpfFacts {
    /// Whether the programs are built into this zctrace.
    pub built: bool,
    /// Where the kernel's type information is read from.
    pub types_path: PathBuf,
    /// The file that the environment names for it, and that is ignored for safety.
    pub ignored_types_path: Option<PathBuf>,
    /// What that tells.
    pub types: Reading<KernelTypes>,
    /// Loading and attaching the programs; `None` if it was not tried, since something that it needs is missing.
    pub trial: Option<Trial>,
}

/// What the kernel's type information (BTF) tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelTypes {
    /// Its size.
    pub bytes: u64,
    /// The first field that the programs need and this kernel lacks.
    pub missing_field: Option<String>,
    /// What is unknown for want of a field, each a sentence.
    pub notes: Vec<String>,
    /// The tracepoints that the programs need and this kernel lacks.
    pub missing_tracepoints: Vec<String>,
}

/// What the strace backend builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StraceFacts {
    /// The program; `None` if there is none on the PATH.
    pub program: Reading<Option<Program>>,
    /// A child asking to be traced.
    pub ptrace: Trial,
}

/// The program strace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its version; `None` if what it answered to `--version` names none.
    pub version: Reading<Option<Version>>,
}

/// A version: major, minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

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
