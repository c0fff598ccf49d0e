//! Where the paths and descriptors in the arguments of a call lead.

use zctrace_core::durable::{Doubt, Names, Place, Presence, Resolved};

use super::{
    call::{FileCall, GivenArgument},
    descriptors::{Descriptors, OpenDescription, Target},
    events::FileEvents,
    shown::{NamedFile, ShownFile},
};

impl FileEvents {
    /// The run begins in this directory.
    pub fn begin_in(&mut self, directory: &str) {
        self.judge.names.begin_in(directory);
        if let Some(touches) = &mut self.touches {
            touches.begin_in(directory);
        }
    }

    /// Only this is known of what the caller has open: it is in the directory of this path, and has
    /// the file of that path open as that descriptor.
    pub fn begin_call(
        &mut self,
        call: FileCall<'_>,
        directory: Option<&str>,
        open: Option<(u32, &str)>,
    ) {
        let directory_before = self.table(call).directory;
        *self.table(call) = Descriptors::nothing_open(directory_before);
        if let Some(path) = directory {
            self.know_directory(call, path);
        }
        if let Some((fd, path)) = open {
            let file = OpenDescription::new(self.file_at(path));
            self.table(call).files.insert(fd, file);
        }
    }

    /// What is open as the descriptor in this argument; `None`: unknown.
    pub(super) fn open_of_argument(
        &mut self,
        call: FileCall<'_>,
        argument: u8,
    ) -> Option<OpenDescription> {
        if let Some(seen) = call.seen {
            let GivenArgument::Handle(handle) = call.argument(argument) else {
                return Some(OpenDescription::new(Target::Nothing));
            };
            return Some(OpenDescription {
                is_synced: Some(seen.is_synced),
                ..OpenDescription::new(self.of_handle(*handle)?)
            });
        }
        let fd = call.descriptor(argument)?;
        let known = self.table(call).known(fd);
        let named = call.shown_file(argument).map(ShownFile::as_judged);
        let target = match (known.map(|known| known.target), named) {
            // What strace prints is the path now: it tells whether a call is missing in the log.
            (None | Some(Target::File(_)), Some(NamedFile::Path(path))) => self.file_at(&path),
            (None | Some(Target::Others("socket")), Some(NamedFile::Others(to))) => {
                Target::Others(to)
            }
            (None, Some(NamedFile::Gone)) => return None,
            (Some(target), _) => target,
            (None, Some(_)) => Target::Nothing,
            (None, None) if call.name.starts_with("send") && !call.name.starts_with("sendfile") => {
                Target::Others("socket")
            }
            (None, None) => return None,
        };
        let received = OpenDescription {
            is_synced: None,
            ..OpenDescription::new(target)
        };
        let is_same = |known: &OpenDescription| known.target == target || target.file().is_none();
        let open = known.filter(is_same).unwrap_or(received);
        Some(OpenDescription { target, ..open })
    }

    /// The file of this path, as strace prints it: without symbolic links.
    pub(super) fn file_at(&mut self, path: &str) -> Target {
        let names = &mut self.judge.names;
        let at = names.resolve_shown(path);
        let file = names.node_at(at);
        names.confirm_no_link(file);
        Target::File(file)
    }

    /// Where the path in this argument leads, which starts in the directory of the descriptor in the
    /// argument `directory`. `follows` says whether a symbolic link at its end is followed.
    pub(super) fn resolve(
        &mut self,
        call: FileCall<'_>,
        directory: Option<u8>,
        path: u8,
        follows: bool,
    ) -> Option<Resolved> {
        let GivenArgument::Text { text, is_cut } = call.argument(path) else {
            return None;
        };
        if *is_cut {
            self.note_unseen(Doubt::Lost);
            return None;
        }
        let base = match directory.map(|index| call.argument(index)) {
            _ if text.starts_with('/') => Names::ROOT,
            _ if call.seen.is_some() => self.start_of(call, directory)?.file()?,
            Some(GivenArgument::Descriptor { number: None, file }) => {
                if let Some(path) = file.as_ref().and_then(ShownFile::judged_path) {
                    self.know_directory(call, &path);
                }
                self.table(call).directory
            }
            Some(_) => self.file(call, directory?)?,
            None => self.table(call).directory,
        };
        Some(self.judge.names.resolve_path(base, text, follows))
    }

    /// The name in this argument, which the call changed; see [`place_of_path`](Self::place_of_path).
    pub(super) fn changed_place(
        &mut self,
        call: FileCall<'_>,
        name: (Option<u8>, u8),
    ) -> Option<Place> {
        let Some(place) = self.place_of_path(call, name) else {
            // In a filesystem of the kernel's own.
            let is_known = |argument| self.open_of_argument(call, argument).is_some();
            if !name.0.is_some_and(is_known) {
                self.note_unseen(Doubt::UnknownDescriptor);
            }
            return None;
        };
        self.judge.names.rely_on_path();
        Some(place)
    }

    /// The name to which the path in this argument leads; `None`: it leads to a directory itself, or
    /// is unknown.
    pub(super) fn place_of_path(
        &mut self,
        call: FileCall<'_>,
        (directory, path): (Option<u8>, u8),
    ) -> Option<Place> {
        match self.resolve(call, directory, path, false)? {
            Resolved::Place(place) => Some(place),
            Resolved::Directory(_) => None,
        }
    }

    /// The working directory of the caller has this path.
    pub(super) fn know_directory(&mut self, call: FileCall<'_>, path: &str) {
        let names = &mut self.judge.names;
        let at = names.resolve_shown(path);
        let is_free =
            matches!(&at, Resolved::Place(place) if names.presence_at(place) == Presence::Unknown);
        let table = self.tables.of_task(call.task, call.tid, call.creator);
        if table.directory == Names::START
            && is_free
            && names.places(Names::START).is_empty()
            && let Resolved::Place(place) = at
        {
            names.add_name(place, Names::START);
        } else {
            table.directory = names.node_at(at);
            names.confirm_no_link(table.directory);
        }
    }

    /// Where a path led, by the path that strace shows of the file. If that differs, a symbolic link
    /// is on the way.
    pub(super) fn as_shown(&mut self, given: Resolved, shown: Option<String>) -> Resolved {
        let Some(shown) = shown else {
            return given;
        };
        let at = self.judge.names.resolve_shown(&shown);
        if let (Resolved::Place(given), Resolved::Place(at)) = (&given, &at)
            && given.directory != at.directory
            && given.name == at.name
            && let Some((directory, _)) = shown.rsplit_once('/')
        {
            self.judge.names.note_link(given.directory, directory);
        }
        at
    }
}
