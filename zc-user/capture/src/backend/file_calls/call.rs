//! [`FileCall`]: a call that may name, change or sync files, whatever recorded it.

use super::{
    flag,
    shown::{ShownFile, SocketAddress},
};

/// The number of a thread or process, which both backends give.
pub type CallerId = usize;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a result that is not an error: a number or a pointer.
    Value(i64),
    /// With an error; `None` if its number is unknown.
    Error(Option<u32>),
    /// `?`: it did not return.
    Never,
    /// The log ends before it returned, and does not have the end of its task.
    UnderWay,
}

/// What kind of task a `clone` or `clone3` creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// A process, whose parent is the caller's process.
    Process,
    /// A process that has the same parent as the caller's process (`CLONE_PARENT`).
    Sibling,
    /// A thread of the caller's process.
    Thread,
}

/// A call that may name, change or sync files, with what is known of its thread.
#[derive(Debug, Clone, Copy)]
pub struct FileCall<'a> {
    /// The thread; of the eBPF backend, the process, because threads share what it has open.
    pub task: CallerId,
    /// Its id.
    pub tid: Option<u32>,
    /// What created it.
    pub creator: Option<(CallerId, ChildKind)>,
    /// The name of its program; empty: unknown.
    pub program: &'a str,
    /// The call.
    pub name: &'a str,
    /// Its arguments, as far as they matter.
    pub args: &'a [GivenArgument; 6],
    /// The files that it names, if the kernel side has given them handles; else its arguments and the
    /// calls before it say what they are.
    pub seen: Option<&'a SeenFiles>,
    /// How it ended.
    pub ending: Ending,
    /// The file that it returned a descriptor of, if that is shown.
    pub opened: Option<&'a ShownFile>,
    /// When it was entered or returned, in ns since the beginning; `None`: unknown.
    pub at_ns: Option<u64>,
    /// How long it took; `None`: unknown.
    pub duration_ns: Option<u64>,
}

/// The number of a file that the kernel side gave out. 0: no file, or one that nobody needs.
pub type FileHandle = u32;

/// What the kernel side saw of a call, apart from its arguments.
#[derive(Debug, Clone, Copy)]
pub struct SeenFiles {
    /// The file that `linkat` names by `/proc/self/fd`, or the one that is mapped where the call is
    /// about memory.
    pub about: FileHandle,
    /// The working directory.
    pub working_directory: FileHandle,
    /// The file that was opened.
    pub opened: FileHandle,
    /// Whether what it wrote was on the disk when it returned.
    pub is_synced: bool,
    /// Whether it opened a file that it created.
    pub is_created: bool,
    /// Whether a write was under way, when this sync was entered, to what it syncs.
    pub is_written: bool,
}

/// An argument of a call.
#[derive(Debug, Clone, Default)]
pub enum GivenArgument {
    /// It is not there, or does not matter.
    #[default]
    Unknown,
    /// A number or flags: those of [`flag`], with a structure's own ones in its place. Of `clone`, the
    /// first argument has them.
    Number(u64),
    /// A text.
    Text {
        /// Its beginning.
        text: String,
        /// Whether it goes on.
        is_cut: bool,
    },
    /// A descriptor.
    Descriptor {
        /// Its number; `None`: `AT_FDCWD`.
        number: Option<u32>,
        /// Its file, if that is shown.
        file: Option<ShownFile>,
    },
    /// A descriptor whose file has this handle. 0: the working directory, or no file that matters.
    Handle(FileHandle),
    /// The descriptors that the call made.
    Made(Vec<u32>),
    /// Addresses of sockets.
    Addresses(Vec<SocketAddress>),
    /// What the call reports of the file of its path.
    Status {
        /// Whether it is a symbolic link.
        is_link: bool,
    },
}

impl ChildKind {
    /// By the flags of `clone`; `fork` and `vfork` have none.
    pub const fn from_flags(flags: u64) -> Self {
        if flags & flag::CLONE_THREAD != 0 {
            Self::Thread
        } else if flags & flag::CLONE_PARENT != 0 {
            Self::Sibling
        } else {
            Self::Process
        }
    }
}

impl<'a> FileCall<'a> {
    /// The argument at this index, from 0 on.
    pub fn argument(&self, index: u8) -> &'a GivenArgument {
        &self.args[usize::from(index)]
    }

    /// The number in an argument.
    pub fn number(&self, index: u8) -> Option<u64> {
        match self.argument(index) {
            GivenArgument::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether the flags in an argument have one of these.
    pub fn has_any(&self, index: u8, flags: u64) -> bool {
        self.number(index).is_some_and(|found| found & flags != 0)
    }

    /// The text in an argument, as far as it is known.
    pub fn text(&self, index: u8) -> Option<&'a str> {
        match self.argument(index) {
            GivenArgument::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The number of the descriptor in an argument.
    pub fn descriptor(&self, index: u8) -> Option<u32> {
        match self.argument(index) {
            GivenArgument::Descriptor { number, .. } => *number,
            GivenArgument::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The file of the descriptor in an argument, if that is shown.
    pub fn shown_file(&self, index: u8) -> Option<&'a ShownFile> {
        match self.argument(index) {
            GivenArgument::Descriptor {
                number: Some(_),
                file,
            } => file.as_ref(),
            _ => None,
        }
    }

    /// The addresses in an argument.
    pub fn addresses(&self, index: u8) -> &'a [SocketAddress] {
        match self.argument(index) {
            GivenArgument::Addresses(addresses) => addresses,
            _ => &[],
        }
    }

    /// Whether it returned a value.
    pub const fn has_succeeded(&self) -> bool {
        matches!(self.ending, Ending::Value(_))
    }

    /// Whether it failed.
    pub const fn has_failed(&self) -> bool {
        matches!(self.ending, Ending::Error(_))
    }

    /// Whether it removes a directory, if it removes a name.
    pub fn removes_directory(&self) -> bool {
        self.name == "rmdir" || (self.name == "unlinkat" && self.has_any(2, flag::AT_REMOVEDIR))
    }

    /// Whether it swaps two names, if it moves a name.
    pub fn swaps_names(&self) -> bool {
        self.name == "renameat2" && self.has_any(4, flag::RENAME_EXCHANGE)
    }

    /// Whether it is an `mmap` by which stores reach the file.
    pub fn maps_for_writing(&self) -> bool {
        self.has_any(2, flag::PROT_WRITE) && self.has_any(3, flag::MAP_SHARED)
    }

    /// What kind of task it creates, if it creates one.
    pub fn child_kind(&self) -> ChildKind {
        ChildKind::from_flags(self.number(0).unwrap_or_default())
    }
}
