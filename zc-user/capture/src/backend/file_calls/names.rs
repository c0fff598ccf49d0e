//! What calls do to names.

use zctrace_core::durable::{Change, Doubt, FileAction, NodeId, Place, Presence, Resolved};

use super::{
    call::{FileCall, GivenArgument},
    descriptors::{OpenDescription, Target},
    events::FileEvents,
    flag,
    handles::OpenFlagBits,
    kinds::{is_read_only, open_arguments},
    shown::{NamedFile, ShownFile, is_of_kernel},
};
use crate::{syscalls::Spec, trace::DELETED_SUFFIX};

/// The paths of marks.
const MARK: &str = "/zctrace/mark/";

/// Where the arguments of a call have a path: the argument of the directory in which it starts, if
/// there is one, and that of the path.
type PathArguments = (Option<u8>, u8);

const FIRST: PathArguments = (None, 0);
const SECOND: PathArguments = (None, 1);
const FIRST_AT: PathArguments = (Some(0), 1);
const SECOND_AT: PathArguments = (Some(2), 3);

impl FileEvents {
    /// A call that may change names succeeded.
    pub(super) fn name_changed(&mut self, call: FileCall<'_>) -> Option<()> {
        let is_at = call.name.trim_end_matches('2').ends_with("at");
        let first = if is_at { FIRST_AT } else { FIRST };
        let second = if is_at { SECOND_AT } else { SECOND };
        match call.name {
            "mkdir" | "mkdirat" => {
                let directory = self.judge.names.add_directory();
                self.note_made(call, first, directory, "mkdir")
            }
            "mknod" | "mknodat" => {
                let file = self.judge.names.add_unnamed();
                self.note_made(call, first, file, "mknod")
            }
            "symlink" | "symlinkat" => {
                let link = self.judge.names.add_link(call.text(0)?);
                let name = if is_at { (Some(1), 2) } else { SECOND };
                self.note_made(call, name, link, "symlink")
            }
            "link" | "linkat" => {
                let file = self.linked_file(call, first)?;
                self.note_made(call, second, file, "link")
            }
            "rename" | "renameat" | "renameat2" => self.note_move(call, first, second),
            "unlink" | "unlinkat" | "rmdir" => self.note_removal(call, first),
            _ => None,
        }
    }

    fn note_made(
        &mut self,
        call: FileCall<'_>,
        name: PathArguments,
        file: NodeId,
        by: &'static str,
    ) -> Option<()> {
        let place = self.changed_place(call, name)?;
        // Otherwise it would have failed with EEXIST.
        self.judge.names.note_absent(place.clone());
        let call = by;
        self.push(FileAction::Made { place, file, call });
        Some(())
    }

    fn note_removal(&mut self, call: FileCall<'_>, name: PathArguments) -> Option<()> {
        let place = self.changed_place(call, name)?;
        let call = if call.removes_directory() {
            "rmdir"
        } else {
            "unlink"
        };
        if call == "rmdir" {
            // It was no symbolic link.
            let names = &mut self.judge.names;
            let directory = names.node_at(Resolved::Place(place.clone()));
            names.confirm_no_link(directory);
        }
        self.push(FileAction::Removed { place, call });
        Some(())
    }

    fn note_move(
        &mut self,
        call: FileCall<'_>,
        from: PathArguments,
        to: PathArguments,
    ) -> Option<()> {
        let from = self.changed_place(call, from)?;
        let to = self.changed_place(call, to)?;
        self.push(FileAction::Moved {
            from,
            to,
            is_exchange: call.swaps_names(),
            call: "rename",
        });
        Some(())
    }

    /// The file to which `link` gives another name.
    fn linked_file(
        &mut self,
        call: FileCall<'_>,
        (directory, path): PathArguments,
    ) -> Option<NodeId> {
        let text = call.text(path)?;
        if let Some(fd) = descriptor_in(text) {
            if let Some(seen) = call.seen {
                return self.of_handle(seen.about)?.file();
            }
            let Some(open) = self.table(call).known(fd) else {
                // As of `open_by_handle_at`.
                self.note_unseen(Doubt::UnknownDescriptor);
                return None;
            };
            return open.target.file();
        }
        if text.is_empty() {
            return self.changed_file(call, directory?);
        }
        let follows = directory.is_some() && call.has_any(4, flag::AT_SYMLINK_FOLLOW);
        let Some(at) = self.resolve(call, directory, path, follows) else {
            self.note_unseen(Doubt::UnknownDescriptor);
            return None;
        };
        let names = &mut self.judge.names;
        names.rely_on_path();
        let file = names.node_at(at);
        if follows && !names.is_confirmed(file) {
            self.note_unseen(Doubt::UnknownPath);
        }
        Some(file)
    }

    /// A call that takes a path did not find it: a mark, or a name that is not there.
    pub(super) fn not_found(&mut self, call: FileCall<'_>) -> Option<()> {
        let spec = Spec::named(call.name);
        let path = spec.path.filter(|_| spec.second_path().is_none())?;
        let GivenArgument::Text { text, is_cut } = call.argument(path.index) else {
            return None;
        };
        if let Some(name) = text.strip_prefix(MARK) {
            self.push(FileAction::Marked(name.into()));
        } else if !is_cut {
            let place = self.place_of_path(call, (path.directory, path.index))?;
            self.judge.names.note_absent(place);
        }
        Some(())
    }

    pub(super) fn opened(&mut self, call: FileCall<'_>, value: i64) -> Option<()> {
        let fd = u32::try_from(value).ok()?;
        let (directory, path, flags) = open_arguments(call)?;
        let bits = OpenFlagBits::new(flags);
        let given = self.resolve(call, directory, path, true);
        if let Some(seen) = call.seen {
            let is_created = bits.creates && seen.is_created;
            let bits = OpenFlagBits {
                creates: is_created,
                is_new: is_created,
                ..bits
            };
            return self.opened_handle(seen.opened, given, bits);
        }
        let shown = call.opened.map(ShownFile::as_judged);
        let target = self.opened_target(given, shown, bits);
        if target.is_none() && (bits.creates || bits.empties) {
            self.note_unseen(Doubt::UnknownDescriptor);
        }
        let files = &mut self.table(call).files;
        let Some(target) = target else {
            files.remove(&fd);
            return None;
        };
        let open = OpenDescription {
            target,
            is_synced: Some(flags & (flag::O_SYNC | flag::O_DSYNC) != 0),
            is_read_only: is_read_only(flags),
            closes_on_exec: flags & flag::O_CLOEXEC != 0,
        };
        files.insert(fd, open);
        Some(())
    }

    /// What was opened by a path that leads to this place, and is shown as this file.
    pub(super) fn opened_target(
        &mut self,
        given: Option<Resolved>,
        shown: Option<NamedFile>,
        flags: OpenFlagBits,
    ) -> Option<Target> {
        Some(match (given, shown) {
            (_, Some(NamedFile::Others(to))) => Target::Others(to),
            (Some(given), _) if flags.is_nameless => Target::File(self.opened_without_name(given)),
            (_, Some(NamedFile::Nothing)) => Target::Nothing,
            (Some(given), Some(NamedFile::Gone)) => return self.opened_gone(given, flags),
            (Some(given), Some(NamedFile::Path(path))) => {
                let at = self.as_shown(given, Some(path));
                self.opened_at(at, flags)
            }
            (Some(given), None) => self.opened_at(given, flags),
            (None, Some(NamedFile::Path(path))) => self.opened_file_at(&path, flags),
            (None, Some(NamedFile::Gone) | None) => return None,
        })
    }

    /// The file of this path, as strace prints it, was opened with these flags.
    fn opened_file_at(&mut self, path: &str, flags: OpenFlagBits) -> Target {
        let target = self.file_at(path);
        if let Some(file) = target.file().filter(|_| flags.empties) {
            self.changed(file, "openat", None, Change::Emptied);
        }
        target
    }

    /// A file was opened whose path ends as that of a removed one does; `None`: it is unknown.
    pub(super) fn opened_gone(&mut self, given: Resolved, flags: OpenFlagBits) -> Option<Target> {
        let is_name = |place: &Place| place.name.ends_with(DELETED_SUFFIX);
        let has_this_name = matches!(&given, Resolved::Place(place) if is_name(place));
        has_this_name.then(|| self.opened_at(given, flags))
    }

    /// A file in this directory was opened that has no name.
    fn opened_without_name(&mut self, directory: Resolved) -> NodeId {
        let names = &mut self.judge.names;
        let directory = names.node_at(directory);
        let file = names.add_unnamed();
        names.join_filesystems(file, directory);
        file
    }

    /// The file at this place was opened with these flags.
    fn opened_at(&mut self, at: Resolved, flags: OpenFlagBits) -> Target {
        if let Resolved::Place(place) = &at {
            if is_of_kernel(&self.judge.names.path_of_place(place)) {
                return Target::Nothing;
            }
            self.created(place, flags);
        }
        let file = self.judge.names.node_at(at);
        self.judge.names.confirm_no_link(file);
        Target::File(file)
    }

    /// A file was opened, and it may have been created or emptied.
    fn created(&mut self, place: &Place, flags: OpenFlagBits) {
        let call = "openat";
        let (may_create, empties) = (flags.creates, flags.empties);
        if flags.is_new {
            self.judge.names.note_absent(place.clone());
        }
        let before = self.judge.names.presence_at(place);
        if may_create && !matches!(before, Presence::Present(_)) {
            let file = self.judge.names.add_unnamed();
            let place = place.clone();
            self.push(FileAction::Made { place, file, call });
        }
        let file = self.judge.names.node_at(Resolved::Place(place.clone()));
        match before {
            Presence::Unknown if empties && may_create => {
                let how = Change::Maybe(Doubt::MayHaveBeenEmpty);
                self.changed(file, call, None, how);
            }
            Presence::Present(_) | Presence::Unknown if empties => {
                self.changed(file, call, None, Change::Emptied);
            }
            _ => {}
        }
    }
}

impl OpenFlagBits {
    /// Those in these flags.
    const fn new(flags: u64) -> Self {
        // With it, the kernel ignores these.
        let is_path = flags & flag::O_PATH != 0;
        let creates = flags & flag::O_CREAT != 0 && !is_path;
        Self {
            creates,
            is_new: creates && flags & flag::O_EXCL != 0,
            empties: flags & flag::O_TRUNC != 0 && !is_path,
            is_nameless: flags & flag::O_TMPFILE != 0 && !is_path,
        }
    }
}

/// The number of the descriptor that a path of the C library names.
pub fn descriptor_in(path: &str) -> Option<u32> {
    path.strip_prefix("/proc/self/fd/")?.parse().ok()
}
