//! Calls of the eBPF backend, which names files by handles. It says once what each is.

use zctrace_core::durable::{Change, Doubt, FileAction, NodeId, Resolved};

use super::{
    call::{FileCall, FileHandle, GivenArgument},
    descriptors::Target,
    events::FileEvents,
    kinds::written,
    shown::NamedFile,
};

/// Writes that were counted by the kernel side.
#[derive(Debug, Clone, Copy)]
pub struct CountedWrites<'a> {
    /// The program that made the last one.
    pub program: &'a str,
    /// The name of the last call; `None`: it is unknown.
    pub last: Option<&'static str>,
    /// When it returned, in ns since the beginning; `None`: unknown.
    pub at_ns: Option<u64>,
    /// How many there were, and their bytes.
    pub cached: [u64; 2],
    /// The same of those that were on the disk when they returned.
    pub synced: [u64; 2],
}

impl FileEvents {
    /// A handle stands for this file. `is_opened`: a call has opened it whose own message is to come.
    pub fn introduce(&mut self, handle: FileHandle, file: NamedFile, is_opened: bool) {
        if self.handles.known.contains_key(&handle) {
            return;
        }
        if is_opened {
            self.handles.opened.insert(handle, file);
        } else {
            let target = self.target_of(file);
            self.handles.insert(handle, target);
        }
    }

    /// A handle stands for a stream that the command was given, which is this file.
    pub fn introduce_stream(&mut self, handle: FileHandle, path: &str) {
        if let Target::File(file) = self.file_at(path) {
            self.handles.streams.insert(handle, file);
        }
    }

    /// The file behind a descriptor that is a stream which the command was given; `None`: it is none.
    pub(super) fn file_of_stream(&mut self, call: FileCall<'_>, argument: u8) -> Option<NodeId> {
        if let GivenArgument::Handle(handle) = call.argument(argument) {
            return self.handles.streams.get(handle).copied();
        }
        self.file_at(&call.shown_file(argument)?.judged_path()?)
            .file()
    }

    /// Whether a file has had several handles.
    pub fn has_aliases(&self) -> bool {
        self.handles.has_aliases
    }

    fn target_of(&mut self, file: NamedFile) -> Target {
        match file {
            NamedFile::Path(path) => self.file_at(&path),
            NamedFile::Others(reader) => Target::Others(reader),
            NamedFile::Gone => {
                self.note_unseen(Doubt::UnknownDescriptor);
                Target::Nothing
            }
            NamedFile::Nothing => Target::Nothing,
        }
    }

    /// What a handle stands for; `None`: its message was lost.
    pub(super) fn of_handle(&mut self, handle: FileHandle) -> Option<Target> {
        if handle == 0 {
            return Some(Target::Nothing);
        }
        if let Some(target) = self.handles.known.get(&handle) {
            return Some(*target);
        }
        let file = self.handles.opened.remove(&handle)?;
        self.handles.used_early.insert(handle);
        let target = self.target_of(file);
        self.handles.insert(handle, target);
        Some(target)
    }

    /// A call opened a file by a path that leads to this place.
    pub(super) fn opened_handle(
        &mut self,
        handle: FileHandle,
        given: Option<Resolved>,
        flags: OpenFlagBits,
    ) -> Option<()> {
        if self.handles.used_early.remove(&handle) && flags.creates {
            self.note_unseen(Doubt::Lost);
        }
        let shown = self.handles.opened.remove(&handle);
        let known = self.handles.known.get(&handle).copied();
        let target = match (known, shown) {
            (Some(Target::File(file)), _)
                if !(flags.creates && self.judge.names.places(file).is_empty()) =>
            {
                if flags.empties {
                    self.changed(file, "openat", None, Change::Emptied);
                }
                self.note_way(file, given?);
                return Some(());
            }
            (Some(Target::Others(_) | Target::Nothing), _) => return Some(()),
            (_, shown) => {
                let is_gone = given.is_some() && matches!(shown, Some(NamedFile::Gone));
                match self.opened_target(given, shown, flags) {
                    Some(target) => target,
                    None if is_gone => self.target_of(NamedFile::Gone),
                    None => return None,
                }
            }
        };
        self.handles.insert(handle, target);
        Some(())
    }

    /// A path led to this file: maybe through a symbolic link, if the file has another directory.
    fn note_way(&mut self, file: NodeId, given: Resolved) {
        let names = &self.judge.names;
        let Resolved::Place(place) = &given else {
            return;
        };
        let places = names.places(file);
        let own = places.iter().find(|own| own.name == place.name);
        if let Some(own) = own.filter(|own| !places.contains(place) && names.is_real(own)) {
            let path = names.absolute_path(own);
            self.as_shown(given, path);
        }
    }

    /// Writes that did not change the state of a file: it had been written to before, and no sync of it
    /// was entered since.
    pub fn add_counted_writes(&mut self, handle: FileHandle, writes: CountedWrites<'_>) {
        let call = writes
            .last
            .and_then(written)
            .map_or("write", |(_, name)| name);
        self.begin_event(writes.program, writes.at_ns);
        let calls = writes.cached[0];
        match self.of_handle(handle) {
            Some(Target::File(file)) => {
                for ([calls, bytes], how) in [
                    (writes.cached, Change::Cached),
                    (writes.synced, Change::Synced),
                ] {
                    if calls > 0 {
                        self.push(FileAction::ChangedAgain {
                            file,
                            call,
                            calls,
                            bytes,
                            how,
                        });
                    }
                }
            }
            Some(Target::Others(to)) if calls > 0 => self.push(FileAction::ToldAgain { to, calls }),
            Some(Target::Others(_) | Target::Nothing) => {}
            None => self.note_unseen(Doubt::Lost),
        }
    }

    /// The directory in which a path of this call starts that is relative.
    pub(super) fn start_of(&mut self, call: FileCall<'_>, directory: Option<u8>) -> Option<Target> {
        let handle = match directory.map(|index| call.argument(index)) {
            Some(GivenArgument::Handle(handle @ 1..)) => *handle,
            _ => call.seen?.working_directory,
        };
        if handle == 0 {
            self.note_unseen(Doubt::Lost);
        }
        self.of_handle(handle)
    }
}

/// What the flags of an `open` ask for.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent flag of a call"
)]
pub struct OpenFlagBits {
    /// `O_CREAT`
    pub creates: bool,
    /// `O_CREAT` with `O_EXCL`
    pub is_new: bool,
    /// `O_TRUNC`, which empties a file even if it is opened for reading alone.
    pub empties: bool,
    /// `O_TMPFILE`
    pub is_nameless: bool,
}
