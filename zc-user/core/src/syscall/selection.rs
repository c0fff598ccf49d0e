//! Which calls are counted: names, classes, or all. And what the kernel side is told about each.

use std::collections::BTreeSet;

use thiserror::Error;
use zc_ebpf::{
    CallSpec, SOCKET_CALLS, TABLE_SLOTS, operation_slot, requested, selected, socket_slot,
    spec_slot,
};

use super::{
    Abi, CLASSES, FICLONE, FICLONERANGE, Fds, Spec, TABLE,
    arguments::with_filled_memory,
    classes::DATA,
    covers,
    paths::{directory_argument, path_argument},
    ring,
};
use crate::words::nearest;

/// A set of calls to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Every call.
    All,
    /// The calls of these names.
    Names(BTreeSet<&'static str>),
}

/// A name that is neither a call nor a class.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown system call '{name}'{}", hint(*suggestion))]
pub struct UnknownSyscall {
    /// What the user wrote.
    pub name: String,
    /// The nearest known name.
    pub suggestion: Option<&'static str>,
}

impl Default for Selection {
    /// The calls that move data.
    fn default() -> Self {
        Self::Names(TABLE.iter().map(|spec| spec.name).collect())
    }
}

impl std::str::FromStr for Selection {
    type Err = UnknownSyscall;

    /// A comma-separated list of names and classes (`read,write,%network`), or `all`. With a `!`
    /// before it: all calls but these.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(others) = text.trim().strip_prefix('!') {
            let excluded: Self = others.parse()?;
            let names: BTreeSet<&'static str> = known_names()
                .filter(|name| !excluded.contains(name))
                .collect();
            return if names.is_empty() {
                Err(unknown(text))
            } else {
                Ok(Self::Names(names))
            };
        }
        let mut names = BTreeSet::new();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word.strip_prefix('%') {
                _ if word == "all" || word == "%all" => return Ok(Self::All),
                Some(class) => names.extend(calls_of_class(class).ok_or_else(|| unknown(word))?),
                None => {
                    names.insert(
                        known_names()
                            .find(|name| *name == word)
                            .ok_or_else(|| unknown(word))?,
                    );
                }
            }
        }
        if names.is_empty() {
            return Err(unknown(text));
        }
        Ok(Self::Names(names))
    }
}

impl Selection {
    /// Whether calls of this name are counted.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => covers(name, |name| names.contains(name)),
        }
    }

    /// Whether the operations of `io_uring` are counted. They are selected by the call that submits
    /// them.
    pub fn contains_rings(&self) -> bool {
        self.contains("io_uring_enter")
    }

    /// The slot and the spec of each call that the kernel side treats specially.
    pub fn kernel_specs(&self) -> Vec<(u32, CallSpec)> {
        let mut specs = Vec::new();
        for (abi, compat) in [(Abi::NATIVE, false), (Abi::COMPAT, true)] {
            for number in 0..TABLE_SLOTS {
                // The last slot is for all numbers beyond the table.
                let name = abi.call_name(number);
                let spec = self
                    .kernel_spec(name)
                    .map(|spec| if compat { in_memory(name, spec) } else { spec });
                // A call that is not counted may overwrite memory, too.
                let spec = with_filled_memory(name.unwrap_or_default(), spec.unwrap_or_default());
                // It is counted by its path, whether it is counted or not.
                let path = name
                    .and_then(path_argument)
                    .map_or(0, |argument| argument + 1);
                let directory = name
                    .and_then(directory_argument)
                    .map_or(0, |argument| argument + 1);
                let replaces_memory = matches!(name, Some("execve" | "execveat")).into();
                let spec = CallSpec {
                    path,
                    directory,
                    replaces_memory,
                    ..spec
                };
                if spec != CallSpec::default() {
                    specs.push((spec_slot(number, compat), spec));
                }
            }
        }
        specs.extend(socketcall_specs(self));
        if self.contains_rings() {
            specs.extend(
                ring::operations().map(|(opcode, spec)| (operation_slot(opcode), spec.to_kernel())),
            );
        }
        specs
    }

    fn kernel_spec(&self, name: Option<&str>) -> Option<CallSpec> {
        let Some(name) = name else {
            return (*self == Self::All).then(|| Spec::of("").to_kernel());
        };
        if name == SOCKETCALL {
            // Its first argument says which call it is; the kernel side then looks up whether that
            // is selected.
            let is_any = socketcall_specs(self).next().is_some();
            return is_any.then(|| CallSpec {
                selected: selected::VARIANTS,
                requested: requested::SOCKETCALL,
                argument: 0,
                ..CallSpec::default()
            });
        }
        if name == "ioctl" {
            let selected = if self.contains(name) {
                selected::ALWAYS
            } else if self.contains(FICLONE) || self.contains(FICLONERANGE) {
                selected::VARIANTS
            } else {
                return None;
            };
            // Its arguments are the file, the command, and the command's argument. All variants
            // have the same.
            let fds = zc_ebpf::fds::IOCTL;
            return Some(CallSpec {
                selected,
                requested: requested::IOCTL,
                argument: 1,
                fds,
                first: 0,
                second: 2,
                ..CallSpec::default()
            });
        }
        self.contains(name).then(|| Spec::of(name).to_kernel())
    }
}

/// `socketcall`, the 32-bit call that multiplexes the calls on sockets: its first argument is their
/// number, and their arguments are in memory.
const SOCKETCALL: &str = "socketcall";

/// The calls that it makes, by its first argument: `SYS_SOCKET` to `SYS_SENDMMSG` of the kernel's
/// include/uapi/linux/net.h.
const SOCKETCALLS: [&str; 21] = [
    SOCKETCALL,
    "socket",
    "bind",
    "connect",
    "listen",
    "accept",
    "getsockname",
    "getpeername",
    "socketpair",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "sendmsg",
    "recvmsg",
    "accept4",
    "recvmmsg",
    "sendmmsg",
];

/// The name of the call that it makes with this first argument.
pub(super) fn socketcall_name(argument: u32) -> &'static str {
    usize::try_from(argument)
        .ok()
        .and_then(|argument| SOCKETCALLS.get(argument))
        .copied()
        .unwrap_or(SOCKETCALL)
}

/// Slots and specs of the selected calls. Sizes and files are unknown, since they are in memory;
/// the result means the same as that of the call itself.
fn socketcall_specs(selection: &Selection) -> impl Iterator<Item = (u32, CallSpec)> + '_ {
    let is_selected = |name: &str| selection.contains(name) || selection.contains(SOCKETCALL);
    (0..SOCKET_CALLS)
        .filter(move |&argument| is_selected(socketcall_name(argument)))
        .map(|argument| {
            let spec = Spec {
                fds: Fds::None,
                ..Spec::of(socketcall_name(argument))
            }
            .to_kernel();
            (
                socket_slot(argument),
                CallSpec {
                    requested: requested::UNKNOWN,
                    ..spec
                },
            )
        })
}

/// The old 32-bit `mmap` has its arguments in memory, unlike the other calls of that name.
fn in_memory(name: Option<&str>, spec: CallSpec) -> CallSpec {
    if name == Some("mmap") {
        CallSpec {
            requested: requested::UNKNOWN,
            fds: zc_ebpf::fds::NONE,
            ..spec
        }
    } else {
        spec
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || {
            let classes: Vec<String> = class_names().map(|class| format!("%{class}")).collect();
            format!(" (classes are {}; 'all' is every call)", classes.join(", "))
        },
        |near| format!("; did you mean '{near}'?"),
    )
}

/// Names of classes, without `%`.
pub fn class_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(DATA).chain(CLASSES.iter().map(|(name, _)| *name))
}

/// The calls of the class of this name, without `%`.
pub(crate) fn calls_of_class(class: &str) -> Option<Vec<&'static str>> {
    if class == DATA {
        return Some(TABLE.iter().map(|spec| spec.name).collect());
    }
    CLASSES
        .iter()
        .find(|(name, _)| *name == class)
        .map(|(_, calls)| calls.to_vec())
}

/// The name of every call of this machine, 64-bit or 32-bit.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    let numbered = [Abi::NATIVE, Abi::COMPAT]
        .into_iter()
        .flat_map(|abi| (0..TABLE_SLOTS).filter_map(move |number| abi.call_name(number)));
    TABLE.iter().map(|spec| spec.name).chain(numbered)
}

fn unknown(word: &str) -> UnknownSyscall {
    UnknownSyscall {
        name: word.to_owned(),
        suggestion: nearest(word, known_names()),
    }
}

/// The call of this machine that another name stands for.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    let stripped = ["_time64", "64", "32"]
        .into_iter()
        .filter_map(|suffix| name.strip_suffix(suffix))
        .map(str::to_owned);
    let spelled = [format!("{name}64"), format!("rt_{name}")];
    let native =
        |candidate: &str| known_names().find(|known| *known == candidate && Abi::is_native(known));
    let mut candidates = renamed(name)
        .map(str::to_owned)
        .into_iter()
        .chain(stripped)
        .chain(spelled);
    candidates
        .find_map(|candidate| native(&candidate).or_else(|| renamed(&candidate).and_then(native)))
}

/// The call that replaces this one on 64-bit machines.
fn renamed(name: &str) -> Option<&'static str> {
    RENAMED
        .iter()
        .chain(REPLACED)
        .find(|(other, _)| *other == name)
        .map(|(_, native)| *native)
}

/// Calls that arm64 never had, and those that its C libraries use instead. Source: the kernel's
/// include/uapi/asm-generic/unistd.h, which leaves out calls that a newer one replaces.
const REPLACED: &[(&str, &str)] = if cfg!(target_arch = "aarch64") {
    &[
        ("access", "faccessat"),
        ("alarm", "setitimer"),
        ("chmod", "fchmodat"),
        ("chown", "fchownat"),
        ("creat", "openat"),
        ("dup2", "dup3"),
        ("epoll_create", "epoll_create1"),
        ("epoll_wait", "epoll_pwait"),
        ("eventfd", "eventfd2"),
        ("fork", "clone"),
        ("getdents", "getdents64"),
        ("getpgrp", "getpgid"),
        ("inotify_init", "inotify_init1"),
        ("lchown", "fchownat"),
        ("link", "linkat"),
        ("lstat", "newfstatat"),
        ("mkdir", "mkdirat"),
        ("mknod", "mknodat"),
        ("open", "openat"),
        ("pause", "ppoll"),
        ("pipe", "pipe2"),
        ("poll", "ppoll"),
        ("readlink", "readlinkat"),
        ("rename", "renameat"),
        ("rmdir", "unlinkat"),
        ("select", "pselect6"),
        ("signalfd", "signalfd4"),
        ("stat", "newfstatat"),
        ("symlink", "symlinkat"),
        ("time", "clock_gettime"),
        ("unlink", "unlinkat"),
        ("utime", "utimensat"),
        ("utimes", "utimensat"),
        ("vfork", "clone"),
    ]
} else {
    &[]
};

/// Names that cannot be derived by a rule.
const RENAMED: [(&str, &str); 11] = [
    ("_llseek", "lseek"),
    ("_newselect", "select"),
    ("fadvise64_64", "fadvise64"),
    ("fstatat", "newfstatat"),
    ("fstatat64", "newfstatat"),
    ("mmap2", "mmap"),
    ("oldstat", "stat"),
    ("recv", "recvfrom"),
    ("send", "sendto"),
    ("umount", "umount2"),
    ("waitpid", "wait4"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Selection, UnknownSyscall> {
        text.parse()
    }

    #[test]
    fn names_and_classes_can_be_combined() {
        let selection = parse("read,%network").expect("parses");
        assert!(selection.contains("read") && selection.contains("accept4"));
        assert!(!selection.contains("write"));
    }

    #[test]
    fn all_selects_every_call() {
        assert_eq!(parse("read,all"), Ok(Selection::All));
    }

    #[test]
    fn an_exclamation_mark_selects_all_other_calls() {
        let selection = parse("!read,%network").expect("parses");
        assert!(
            ["write", "openat", "ioctl(FICLONE)"]
                .into_iter()
                .all(|name| selection.contains(name))
        );
        assert!(
            ["read", "recvfrom", "accept4"]
                .into_iter()
                .all(|name| !selection.contains(name))
        );
        assert!(!parse("!ioctl").expect("parses").contains("ioctl(FICLONE)"));
        assert!(parse("!all").is_err() && parse("!raed").is_err());
    }

    #[test]
    fn an_unknown_name_is_an_error_that_suggests_the_nearest_name() {
        assert_eq!(
            parse("raed").expect_err("is no call").suggestion,
            Some("read")
        );
        assert_eq!(
            parse("copy_file_rang").expect_err("is no call").suggestion,
            Some("copy_file_range")
        );
        assert_eq!(parse("qqqqqqqq").expect_err("is no call").suggestion, None);
        assert!(parse("%netwrk").is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn every_name_in_a_class_is_a_call() {
        for (class, names) in CLASSES {
            for name in *names {
                assert!(
                    crate::syscall::is_in_some_table(name),
                    "%{class} has {name}"
                );
            }
        }
    }

    /// ARM's table has neither.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_sizes_of_the_old_mmap_and_of_socketcalls_are_in_memory() {
        let specs = |text: &str| parse(text).expect("parses").kernel_specs();
        let slot = |text: &str, slot: u32| {
            specs(text)
                .into_iter()
                .find(|(other, _)| *other == slot)
                .map(|(_, spec)| spec)
        };
        let mmap = |slot_number: u32| slot("mmap", slot_number).expect("is selected").requested;
        assert_eq!(
            (mmap(spec_slot(9, false)), mmap(spec_slot(90, true))),
            (requested::SIZE, requested::UNKNOWN)
        );
        let socketcall = spec_slot(102, true);
        assert_eq!(
            slot("send", socketcall).map(|spec| spec.requested),
            Some(requested::SOCKETCALL)
        );
        assert_eq!(slot("read", socketcall), None);
        let returns_bytes =
            |argument: u32| slot("%data", socket_slot(argument)).map(|spec| spec.returns_bytes);
        assert_eq!(
            [returns_bytes(9), returns_bytes(20), returns_bytes(3)],
            [Some(1), Some(0), None]
        );
    }

    #[test]
    fn other_ioctls_are_selected_by_their_own_name_only() {
        let spec = |text: &str| parse(text).expect("parses").kernel_spec(Some("ioctl"));
        assert_eq!(
            Selection::default()
                .kernel_spec(Some("ioctl"))
                .map(|s| s.selected),
            Some(selected::VARIANTS)
        );
        assert_eq!(spec("ioctl").map(|s| s.selected), Some(selected::ALWAYS));
        assert_eq!(spec("read"), None);
    }

    fn is_native(call: &str) -> bool {
        Abi::is_native(call)
    }

    #[test]
    fn a_name_of_another_table_is_translated() {
        let meant = [
            "sendfile64",
            "stat64",
            "mmap2",
            "recvmmsg_time64",
            "chown32",
            "_llseek",
            "sigaction",
            "send",
        ]
        .map(meant_by);
        let (stat, chown) = if cfg!(target_arch = "aarch64") {
            ("newfstatat", "fchownat")
        } else {
            ("stat", "chown")
        };
        let native = [
            "sendfile",
            stat,
            "mmap",
            "recvmmsg",
            chown,
            "lseek",
            "rt_sigaction",
            "sendto",
        ];
        assert_eq!(meant, native.map(Some));
        assert_eq!(
            ["pread", "pwrite", "fstatat"].map(meant_by),
            ["pread64", "pwrite64", "newfstatat"].map(Some)
        );
        assert_eq!(meant_by("socketcall"), None);
    }

    #[test]
    fn a_call_of_this_machines_table_is_native() {
        assert!(
            ["read", "pread64", "getdents64", "ioctl(FICLONE)"]
                .into_iter()
                .all(is_native)
        );
        assert!(
            !["sendfile64", "mmap2", "socketcall", "pread"]
                .into_iter()
                .any(is_native)
        );
        assert!(
            RENAMED.iter().all(|(other, native)| !is_native(other)
                && (is_native(native) || renamed(native).is_some()))
        );
        assert!(
            REPLACED
                .iter()
                .all(|(other, native)| !is_native(other) && is_native(native))
        );
    }
}
