//! [`Spec`]: what zctrace knows of a call.

mod terms;

use zc_ebpf::{CallSpec, overwrites, requested, selected, traits};

pub use terms::{
    CallEffect, FICLONE, FICLONERANGE, Fds, PathArgument, PathForm, Requested, Returned, Touching,
    Variants,
};
pub(super) use terms::{FilledMemory, TimeLimit, array, path, path_at, structure};

use super::class::CallClass;
use crate::touched::TouchAction;

/// What zctrace knows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent fact about a call"
)]
pub struct Spec {
    /// Its name; empty if zctrace knows nothing of it.
    pub name: &'static str,
    /// Where its size is.
    pub requested: Requested,
    /// What its result means.
    pub returned: Returned,
    /// Which files it uses.
    pub fds: Fds,
    /// The path that it looks up.
    pub path: Option<PathArgument>,
    /// How it is given its path.
    pub path_form: PathForm,
    /// What else it does.
    pub effect: CallEffect,
    /// How its arguments decide which call it is.
    pub variants: Variants,
    /// Index of the argument with its `O_...` flags, or the structure that has them.
    pub open_flags: Option<u8>,
    /// Index of the argument with its `AT_...` flags.
    pub at_flags: Option<u8>,
    /// What it touches, if that does not follow from the rest.
    pub(super) touches: Option<Touching>,
    /// Whether it may change the directory in which relative paths start.
    pub changes_directory: bool,
    /// Whether it uses no file, whatever its arguments are.
    pub(super) is_without_file: bool,
    /// Whether the arguments of the 32-bit call of this name are in memory, unlike those of the
    /// other calls of that name.
    pub(super) is_in_memory_if_32_bit: bool,
    /// Whether the bytes of a socket may stay there: the argument with the `MSG_...` flags.
    pub message_flags: Option<u8>,
    /// Whether it waits for an event, a child or a time, and does nothing else.
    pub waits: bool,
    /// What it returns if its time limit passes.
    pub(super) time_limit: TimeLimit,
    /// Which memory it fills.
    pub(super) filled: FilledMemory,
    /// The classes that it is in, a bit for each.
    pub(super) classes: u8,
    /// Which number `socketcall` has for it.
    pub(super) socketcall: Option<u8>,
    /// The call that programs make instead where this one does not exist.
    pub(super) replacement: Option<&'static str>,
}

impl Spec {
    /// What is known of a call of which nothing is known.
    pub(super) const UNKNOWN: Self = Self::new("");

    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            requested: Requested::Nowhere,
            returned: Returned::Other,
            fds: Fds::None,
            path: None,
            path_form: PathForm::One,
            effect: CallEffect::None,
            variants: Variants::None,
            open_flags: None,
            at_flags: None,
            touches: None,
            changes_directory: false,
            is_without_file: false,
            is_in_memory_if_32_bit: false,
            message_flags: None,
            waits: false,
            time_limit: TimeLimit::None,
            filled: FilledMemory::None,
            classes: 0,
            socketcall: None,
            replacement: None,
        }
    }

    /// Whether it is in this class.
    pub fn is_in(&self, class: CallClass) -> bool {
        self.classes & class.bit() != 0
    }

    /// Whether it always looks up a path.
    pub fn takes_path(&self) -> bool {
        self.path.is_some() && self.path_form != PathForm::Address
    }

    /// The second path that it looks up.
    pub fn second_path(&self) -> Option<PathArgument> {
        let first = self.path.filter(|_| self.path_form == PathForm::Two)?;
        let [next, next_at] = [path(first.index + 1), path_at(first.index + 2)];
        Some(first.directory.map_or(next, |_| next_at))
    }

    /// The arguments, from 1 on, of its path, of the directory in which that starts, and the same of its
    /// second path or of the target of a symbolic link. 0: there is none.
    pub fn path_numbers(&self) -> [u8; 4] {
        let path = self.path.filter(|_| self.takes_path());
        let second = self.second_path();
        let is_symlink = self.name.starts_with("symlink");
        [
            from_one(path.map(|path| path.index)),
            from_one(path.and_then(|path| path.directory)),
            // A target is the first argument.
            from_one(
                second
                    .map(|second| second.index)
                    .or(is_symlink.then_some(0)),
            ),
            from_one(second.and_then(|second| second.directory)),
        ]
    }

    /// What it touches.
    pub fn touching(&self) -> Touching {
        let known = self.touches.or(match self.effect {
            CallEffect::Opens => Some(Touching::Opened),
            CallEffect::Executes => Some(Touching::Path(TouchAction::Executed)),
            CallEffect::Submits => Some(Touching::ASYNCHRONOUS),
            _ => None,
        });
        known.unwrap_or(match self.fds {
            Fds::Reads(from) if !self.is_in(CallClass::Network) => {
                Touching::File(TouchAction::Read, from)
            }
            Fds::Writes(to) | Fds::Pipe(to) => Touching::File(TouchAction::Written, to),
            Fds::Copies { from, to } => Touching::Copied { from, to },
            Fds::Maps(_) => Touching::Mapped,
            _ if self.takes_path() => Touching::Path(TouchAction::LookedUp),
            _ => Touching::Nothing,
        })
    }

    /// Whether it moves data by itself: of the default set, mappings do not.
    pub fn moves_data(&self) -> bool {
        self.is_in(CallClass::Data) && !self.is_in(CallClass::Memory)
    }

    /// Whether it identifies its file by a descriptor.
    pub(crate) fn names_descriptor(&self) -> bool {
        self.fds != Fds::None
    }

    /// Whether it may read bytes of a file.
    pub(crate) fn may_read(&self) -> bool {
        let reads = matches!(self.fds, Fds::Reads(_) | Fds::Copies { .. } | Fds::Pipe(_));
        reads || self.effect == CallEffect::Submits
    }

    /// Whether it may write bytes to a file.
    pub fn may_write(&self) -> bool {
        let writes = matches!(self.fds, Fds::Writes(_) | Fds::Copies { .. } | Fds::Pipe(_));
        writes || self.effect == CallEffect::Submits
    }

    /// Whether it may use a file that no descriptor identifies, but a path, a mapping or a set of
    /// descriptors.
    pub(crate) fn may_name_file_by_path(&self) -> bool {
        !self.names_descriptor() && !self.is_without_file
    }

    /// The same for the kernel side: how it is counted, if it is selected.
    pub(super) fn kernel_spec(&self) -> CallSpec {
        let (kind, argument, count_argument) = match self.requested {
            Requested::Nowhere => (requested::NONE, 0, 0),
            Requested::Size(argument) => (requested::SIZE, argument, 0),
            Requested::Iovec { base, count } => (requested::IOVEC, base, count),
            Requested::Message(argument) => (requested::MSGHDR, argument, 0),
        };
        let (fds, first, second) = self.fds.to_kernel();
        CallSpec {
            selected: selected::ALWAYS,
            requested: kind,
            argument,
            count_argument,
            returns_bytes: u8::from(self.returned == Returned::Bytes),
            fds,
            first,
            second,
            message_flags: from_one(self.message_flags),
            ..CallSpec::default()
        }
    }

    /// Adds what the kernel side does at calls that are not selected, too: they may overwrite
    /// memory, and their paths are counted.
    pub(super) fn with_side_effects(&self, spec: CallSpec) -> CallSpec {
        let is_unseen_read = spec.selected == selected::NEVER
            && matches!(self.fds, Fds::Reads(_))
            && self.returned == Returned::Bytes;
        let (overwrites, overwrites_count, overwrites_bytes) = match self.filled {
            // Its buffer has other bytes than those of the reads that are counted.
            FilledMemory::None if is_unseen_read => match self.requested {
                Requested::Size(size) => (2, size + 1, 1),
                _ => (overwrites::ALL, 0, 0),
            },
            FilledMemory::None => (overwrites::NONE, 0, 0),
            FilledMemory::At {
                pointer,
                count,
                element_bytes,
            } => (pointer + 1, from_one(count), element_bytes),
            FilledMemory::Any => (overwrites::ALL, 0, 0),
            FilledMemory::AboveHeap => (overwrites::ABOVE, 0, 0),
            FilledMemory::Discarded => (overwrites::DISCARDED, 0, 0),
            FilledMemory::Moved => (overwrites::MOVED, 0, 0),
        };
        let traits = [
            (self.effect == CallEffect::Executes, traits::REPLACES_MEMORY),
            (self.effect == CallEffect::CreatesTask, traits::CREATES_TASK),
            (self.path_form == PathForm::Two, traits::HAS_TWO_PATHS),
            (self.path_form == PathForm::Address, traits::HAS_ADDRESS),
            (
                self.effect == CallEffect::RestoresRegisters,
                traits::RESTORES_REGISTERS,
            ),
            (
                self.effect == CallEffect::ReadsSocketError,
                traits::READS_SOCKET_ERROR,
            ),
            (
                self.time_limit == TimeLimit::Returns0,
                traits::RETURNS_0_IF_TIMED_OUT,
            ),
            (
                self.time_limit == TimeLimit::Fails,
                traits::FAILS_IF_TIMED_OUT,
            ),
        ];
        let traits = traits.into_iter().filter(|(has, _)| *has);
        CallSpec {
            overwrites,
            overwrites_count,
            overwrites_bytes,
            path: from_one(self.path.map(|path| path.index)),
            directory: from_one(self.path.and_then(|path| path.directory)),
            traits: traits.map(|(_, bit)| bit).sum(),
            ..spec
        }
    }
}

/// The kernel side counts arguments from 1 where there may be none.
fn from_one(argument: Option<u8>) -> u8 {
    argument.map_or(0, |argument| argument + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::defs::table;

    #[test]
    fn the_kernel_side_counts_arguments_from_one() {
        let side_effects = |name| Spec::named(name).with_side_effects(CallSpec::default());
        for (name, overwritten, path) in [
            ("getrandom", (1, 2, 1), (0, 0)),
            ("fstat", (2, 0, 144), (0, 0)),
            ("process_vm_readv", (overwrites::ALL, 0, 0), (0, 0)),
            ("brk", (overwrites::ABOVE, 0, 0), (0, 0)),
            ("mremap", (overwrites::MOVED, 0, 0), (0, 0)),
            ("pread64", (2, 3, 1), (0, 0)),
            ("readv", (overwrites::ALL, 0, 0), (0, 0)),
            ("open", (0, 0, 0), (1, 0)),
            ("openat", (0, 0, 0), (2, 1)),
            ("symlink", (0, 0, 0), (2, 0)),
            ("symlinkat", (0, 0, 0), (3, 2)),
            ("mount", (0, 0, 0), (2, 0)),
        ] {
            let spec = side_effects(name);
            assert_eq!(
                (
                    spec.overwrites,
                    spec.overwrites_count,
                    spec.overwrites_bytes
                ),
                overwritten
            );
            assert_eq!((spec.path, spec.directory), path, "{name}");
        }
        let read = Spec::named("read");
        let counted = read.kernel_spec();
        assert_eq!(read.with_side_effects(counted), counted);
    }

    #[test]
    fn a_path_may_name_any_file() {
        let may = |name: &str| Spec::named(name).may_name_file_by_path();
        let by_path = ["openat", "unlinkat", "statx", "utimensat", "msync", "poll"];
        assert!(by_path.into_iter().all(may));
        assert!(!["read", "mmap", "munmap", "getpid"].into_iter().any(may));
    }

    #[test]
    fn no_item_contradicts_itself() {
        for spec in table() {
            let has_descriptor = spec.names_descriptor();
            assert!(!(spec.is_without_file && has_descriptor), "{}", spec.name);
            // The kernel side knows what calls fill that read a file.
            let fills = matches!(spec.filled, FilledMemory::At { .. });
            let returns_bytes = spec.returned == Returned::Bytes;
            assert!(!(fills && returns_bytes), "{}", spec.name);
        }
    }
}
