//! What a trace attaches to instead of launching a command: running processes, or a cgroup.

mod cgroup;

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::PathBuf,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use thiserror::Error;
use zc_ebpf::ARGS_BYTES;

use crate::{
    descendants::is_proc_ours,
    launch::is_alive,
    privileges,
    proc_stat::{name_and_fields, status_field},
    trace::{Attached, Process},
};
use zctrace_core::text::{from_bytes, from_os};

/// What to attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// These processes, by their ids or those of their threads, and all their descendants.
    Processes(Vec<u32>),
    /// Everything in a cgroup of version 2, and what enters it later: its directory, its path below
    /// the root of the cgroups, or the id of a container.
    Cgroup(String),
    /// All processes of the machine, and those that start later, except zctrace.
    System,
}

/// Why it is not possible to attach. Each message says what to do, if anything helps.
#[derive(Debug, Error)]
pub enum AttachError {
    /// There is no such process.
    #[error("there is no process {0}: it may have ended")]
    NoProcess(u32),
    /// The process has ended, and is still there for its parent.
    #[error("process {pid} ({name}) is a zombie: it has ended, so there is nothing to trace")]
    Zombie {
        /// The id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A thread of the kernel.
    #[error(
        "{pid} ({name}) is a kernel thread, which makes no system calls: attach to another process"
    )]
    KernelThread {
        /// The id.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The process is zctrace.
    #[error("process {0} is zctrace itself: attach to another one")]
    Itself(u32),
    /// The process ended before the trace began, and another one may have its id by now.
    #[error("process {0} ended while zctrace attached to it")]
    Ended(u32),
    /// No thread of the process was found.
    #[error(
        "the kernel did not show process {0} to zctrace, although it runs: use --backend strace, and please report this"
    )]
    NotFound(u32),
    /// The kernel does not let this process look at that one, not even at its program.
    #[error(
        "the kernel does not let zctrace inspect process {0}, which has more privileges: trace it from outside this container"
    )]
    Hidden(u32),
    /// There is no room for so many tasks.
    #[error("too many tasks to follow: raise --max-tasks")]
    NoRoom,
    /// ptrace(2) is not allowed.
    #[error(
        "not allowed to trace process {0}: run zctrace as root (sudo zctrace -p {0}), or as the process's user with kernel.yama.ptrace_scope=0; some systems protect it even from root"
    )]
    NotPermitted(u32),
    /// Another process traces it.
    #[error(
        "process {by} is already tracing process {pid}, and ptrace(2) allows only one tracer: use --backend ebpf"
    )]
    Traced {
        /// The id.
        pid: u32,
        /// The id of its tracer.
        by: i32,
    },
    /// The ids in `/proc` are those of another PID namespace.
    #[error(
        "cannot attach: /proc belongs to another PID namespace; mount it again in this one (mount -t proc proc /proc)"
    )]
    ForeignProc,
    /// This zctrace has privileges that its caller lacks.
    #[error(
        "zctrace does not attach with file capabilities, because anybody could watch other users' programs: run it as root (sudo zctrace -p PID)"
    )]
    Elevated,
    /// It is not known which cgroup is meant, or there is none: a sentence that says so.
    #[error("{0}")]
    Cgroup(String),
    /// strace can attach to processes only.
    #[error("{0} needs the eBPF backend: with strace, attach to processes (-p)")]
    NeedsEbpf(&'static str),
    /// This kernel does not say in which cgroup a task is.
    #[error(
        "this kernel does not show the version 2 cgroup of a process: attach to processes (-p)"
    )]
    KernelWithoutCgroups,
    /// Something else failed in the operating system.
    #[error("cannot attach: {0}")]
    Io(#[from] io::Error),
}

impl AttachError {
    /// Why the kernel did not show a process that runs. `program` is what `/proc` says of its
    /// program.
    pub(crate) fn not_found(pid: u32, program: io::Result<PathBuf>) -> Self {
        let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        if program.is_err_and(is_denied) {
            Self::Hidden(pid)
        } else {
            Self::NotFound(pid)
        }
    }
}

impl Targets {
    /// Checks that one can attach to them, and notes who they are.
    pub(crate) fn hold(&self) -> Result<Held, AttachError> {
        if privileges::is_elevated() {
            return Err(AttachError::Elevated);
        }
        if !is_proc_ours() {
            return Err(AttachError::ForeignProc);
        }
        Ok(match self {
            Self::Processes(ids) => {
                let mut held: Vec<HeldProcess> = Vec::new();
                for &id in ids {
                    let process = HeldProcess::new(id)?;
                    if !held.iter().any(|other| other.pid == process.pid) {
                        held.push(process);
                    }
                }
                Held::Processes(held)
            }
            Self::Cgroup(name) => Held::Cgroup(cgroup::find(name)?),
            Self::System => Held::System,
        })
    }
}

/// Targets that were checked.
#[derive(Debug)]
pub(crate) enum Held {
    Processes(Vec<HeldProcess>),
    Cgroup(Cgroup),
    System,
}

/// A cgroup of version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Its directory.
    pub path: PathBuf,
    /// The inode number of that: the kernel's number of the cgroup.
    pub id: u64,
}

/// A process that is known to be the same as long as it is alive.
#[derive(Debug)]
pub(crate) struct HeldProcess {
    /// Its id.
    pub pid: u32,
    pidfd: OwnedFd,
}

impl Held {
    /// The ids of the processes, if it is these that were named.
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Self::Processes(held) => held.iter().map(|process| process.pid).collect(),
            Self::Cgroup(_) | Self::System => Vec::new(),
        }
    }

    /// What a trace says of them.
    pub fn described(&self) -> Attached {
        Attached {
            pids: self.pids(),
            cgroup: match self {
                Self::Processes(_) | Self::System => None,
                Self::Cgroup(cgroup) => Some(from_os(&cgroup.path)),
            },
            system: matches!(self, Self::System),
            under_way_at_attach: Some(0),
        }
    }

    /// Whether more may come: a cgroup that is there may be entered.
    pub fn may_grow(&self) -> bool {
        match self {
            Self::Processes(_) => false,
            // Another one may have the same path by now.
            Self::Cgroup(cgroup) => {
                fs::metadata(&cgroup.path).is_ok_and(|found| found.ino() == cgroup.id)
            }
            Self::System => true,
        }
    }

    /// Checks that each process is alive. So its id has been its own all the time.
    pub fn check_alive(&self) -> Result<(), AttachError> {
        let Self::Processes(held) = self else {
            return Ok(());
        };
        let ended = held.iter().find(|process| !is_alive(&process.pidfd));
        ended.map_or(Ok(()), |process| Err(AttachError::Ended(process.pid)))
    }
}

/// `PF_KTHREAD` of the kernel's include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x20_0000;

impl HeldProcess {
    /// Holds the process with this id, or that of the thread with this id.
    fn new(id: u32) -> Result<Self, AttachError> {
        let status = fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => AttachError::NoProcess(id),
            _ => AttachError::Io(error),
        })?;
        let pid = status_field(&status, "Tgid").and_then(|text| text.parse().ok());
        let pid: u32 = pid.ok_or(AttachError::NoProcess(id))?;
        let name = status_field(&status, "Name").unwrap_or_default().to_owned();
        if pid == std::process::id() {
            return Err(AttachError::Itself(pid));
        }
        let flags = fs::read_to_string(format!("/proc/{pid}/stat"));
        let flags = flags.ok().and_then(|stat| flags_in(&stat));
        if flags.is_some_and(|flags| flags & KERNEL_THREAD != 0) {
            return Err(AttachError::KernelThread { pid, name });
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(AttachError::NoProcess(id))?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|errno| match errno {
            Errno::SRCH => AttachError::NoProcess(id),
            other => AttachError::Io(other.into()),
        })?;
        if !is_alive(&pidfd) {
            return Err(AttachError::Zombie { pid, name });
        }
        Ok(Self { pid, pidfd })
    }
}

/// The kernel's `task_struct.flags` in `/proc/PID/stat`.
fn flags_in(stat: &str) -> Option<u64> {
    name_and_fields(stat)?.1.nth(6)?.parse().ok()
}

/// The program that a process runs now, as `/proc` has it.
pub(crate) fn running_program(pid: u32) -> Process {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_cut = line.len() > ARGS_BYTES;
    let line = &line[..line.len().min(ARGS_BYTES)];
    Process {
        exe: fs::read_link(format!("/proc/{pid}/exe")).ok().map(from_os),
        command: (!line.is_empty()).then(|| split_arguments(line, is_cut)),
        ..Process::default()
    }
}

/// Splits arguments, each of which ends with a NUL. The last one of a cut line ends with `…`.
pub(crate) fn split_arguments(bytes: &[u8], is_cut: bool) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let mut arguments: Vec<String> = bytes.split(|&byte| byte == 0).map(from_bytes).collect();
    if is_cut && let Some(last) = arguments.last_mut() {
        last.push('…');
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_proc_hides_is_no_bug_of_zctrace() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        let why = AttachError::not_found(1, Err(denied)).to_string();
        assert!(
            why.contains("more privileges") && !why.contains("report"),
            "{why}"
        );
        let seen = AttachError::not_found(1, Ok("/sbin/init".into()));
        assert!(matches!(seen, AttachError::NotFound(1)));
    }

    #[test]
    fn arguments_end_with_a_nul_each_and_a_cut_command_line_says_so() {
        let whole = split_arguments(b"dd\0if=/dev/zero\0\0", false);
        assert_eq!(whole, ["dd", "if=/dev/zero", ""]);
        assert_eq!(split_arguments(b"cat\0long na", true), ["cat", "long na…"]);
    }
}
