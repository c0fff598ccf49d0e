//! [`FileEvent`]: what a call did to a file or to a name.

use super::names::{NodeId, Place};

/// One event. Events come in the order in which the calls returned; that of a sync also when it is
/// entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// When, in ns since the beginning; `None`: unknown.
    pub at_ns: Option<u64>,
    /// Which program did it.
    pub by: ProgramId,
    /// What it was.
    pub what: FileAction,
}

/// A program, as [`Judge::program_id`](super::Judge::program_id) knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramId(pub(super) usize);

/// A sync that has been entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyncId(pub u64);

/// What an event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAction {
    /// A file's content changed.
    Changed {
        /// The file.
        file: NodeId,
        /// The call.
        call: &'static str,
        /// How many bytes were written; `None`: the call does not say.
        bytes: Option<u64>,
        /// How it changed.
        how: Change,
    },
    /// Further writes to a file that had changed before, told at once. No sync of it was entered in
    /// between.
    ChangedAgain {
        /// The file.
        file: NodeId,
        /// The last call.
        call: &'static str,
        /// How many calls.
        calls: u64,
        /// How many bytes they wrote.
        bytes: u64,
        /// [`Change::Cached`] or [`Change::Synced`].
        how: Change,
    },
    /// A file's attributes changed. They need no sync, but a sync of them is not wasted.
    Touched(NodeId),
    /// A file was written to as the output that the command was given. No verdict covers that, but a sync
    /// of it is not wasted.
    WrittenAsOutput(NodeId),
    /// A sync was entered.
    SyncEntered(SyncId, SyncScope),
    /// A sync returned.
    SyncReturned {
        /// Which one.
        sync: SyncId,
        /// Whether it did what it was asked for.
        result: SyncResult,
        /// How long it took; `None`: unknown.
        ns: Option<u64>,
    },
    /// A name was made.
    Made {
        /// The name.
        place: Place,
        /// What has it.
        file: NodeId,
        /// The call.
        call: &'static str,
    },
    /// A name became that of another place, whose file lost it.
    Moved {
        /// Its place before.
        from: Place,
        /// Its place after.
        to: Place,
        /// Whether what had been at `to` is now at `from`.
        is_exchange: bool,
        /// The call.
        call: &'static str,
    },
    /// A name was removed.
    Removed {
        /// The name.
        place: Place,
        /// The call.
        call: &'static str,
    },
    /// The program told others something: it wrote to its standard output, to a socket.
    Told {
        /// To whom: `stdout`, `tcp`.
        to: &'static str,
    },
    /// Further calls told the same others something, before the event after the last one that did.
    ToldAgain {
        /// To whom.
        to: &'static str,
        /// How many calls.
        calls: u64,
    },
    /// The program made a mark.
    Marked(Box<str>),
    /// From here on, something may happen that is not seen.
    Unseen(Doubt),
}

/// How a file's content changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// In memory, until a sync.
    Cached,
    /// The call returned when it was on the disk (`O_SYNC`, `O_DSYNC`, `RWF_DSYNC`).
    Synced,
    /// It was cut to nothing: what had failed to be written before is of no use.
    Emptied,
    /// It was given a length other than 0, which may be the one that it had.
    Resized,
    /// It was mapped, so that stores change it unseen.
    Mapped,
    /// It may have changed.
    Maybe(Doubt),
}

/// What a sync is asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncScope {
    /// The content of a file, or the names in a directory.
    Object(NodeId),
    /// What was stored to a mapping of a file.
    Mapping(NodeId),
    /// All of the filesystem in which this is.
    FilesystemOf(NodeId),
    /// All filesystems.
    Everything,
}

/// How a sync ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncResult {
    /// What had changed before it was entered is on the disk.
    Succeeded,
    /// It did nothing: it cannot sync this, or it was interrupted.
    Refused,
    /// Writing failed with this errno. A later sync does not write it again: fsync(2).
    Failed(u32),
}

/// Why it is unknown whether something was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The name may have been there before, so that it needs no sync.
    MayHaveExisted,
    /// A file that was cut to nothing may have been empty or new.
    MayHaveBeenEmpty,
    /// A call that changes the length of a file may have changed nothing.
    MayHaveHadLength,
    /// A file that it was cloned from may have been empty, so that nothing changed.
    EmptyClone,
    /// It was synced with its filesystem, if that is the one that was synced.
    OtherFilesystem,
    /// The call that may have changed it did not return.
    NeverReturned,
    /// Stores to a shared mapping are not seen, and no msync of all of it and no sync followed.
    Mapped,
    /// Operations of io_uring or Linux AIO are not seen.
    AsynchronousOperations,
    /// The order of calls in different threads is unknown.
    Order,
    /// A sync or a write named a descriptor whose file is unknown.
    UnknownDescriptor,
    /// A relative path starts in an unknown directory, and another path may lead there, too.
    UnknownDirectory,
    /// A path led through what no call has shown to be a directory.
    UnknownPath,
    /// The program changed its mounts or its root directory.
    ChangedMounts,
    /// Two paths lead to one file or directory, and no call shows why.
    TwoPaths,
    /// Tasks share their descriptors, but not their working directory, or the other way round.
    PartlyShared,
    /// A file was written to by a descriptor of unknown flags.
    MayBeSynced,
    /// It is also what the command was given as output.
    Output,
    /// Calls are missing in the trace.
    Lost,
}

impl Doubt {
    /// The reason as the rest of a sentence.
    pub fn rest_of_sentence(self) -> &'static str {
        match self {
            Self::MayHaveExisted => {
                "its directory was not synced, and the calls do not show whether the name had been there before"
            }
            Self::MayHaveBeenEmpty => {
                "it was emptied and not synced, and the calls do not show whether it had content"
            }
            Self::MayHaveHadLength => {
                "its length was set and not synced, and the calls do not show whether that changed it"
            }
            Self::EmptyClone => {
                "it was cloned from another file and not synced, and the calls do not show whether that was empty"
            }
            Self::OtherFilesystem => {
                "a filesystem was synced, and the calls do not show whether the file is in it"
            }
            Self::NeverReturned => "the call that may have changed it last did not return",
            Self::Mapped => {
                "it is mapped shared and writable, and neither msync of the whole mapping nor another sync followed"
            }
            Self::AsynchronousOperations => {
                "the program submitted operations to io_uring or Linux AIO, which are not seen"
            }
            Self::Order => {
                "each thread has a log of its own, so the order of their calls is unknown: record one log"
            }
            Self::UnknownDescriptor => {
                "a sync or a write named a descriptor whose file the calls do not show: record with strace -yy"
            }
            Self::UnknownDirectory => {
                "relative paths start in an unknown directory, and a directory was synced by an absolute path: record with strace -yy"
            }
            Self::UnknownPath => {
                "something was changed by a path whose directory may be a symbolic link: no call shows its real path"
            }
            Self::ChangedMounts => {
                "the program changed its mounts or its root directory, so paths do not tell which files they lead to"
            }
            Self::TwoPaths => {
                "two paths lead to one file or directory, by a link or a mount from before the run"
            }
            Self::PartlyShared => {
                "tasks share only their working directory or only their descriptors, which strace does not show"
            }
            Self::MayBeSynced => {
                "it was written to by a descriptor that the program received, which may have O_SYNC"
            }
            Self::Output => {
                "it is also the output that the command was given, whose writes are not judged"
            }
            Self::Lost => "calls are missing in the trace",
        }
    }
}
