//! What calls do to the content of files, and to what a process has open.

use zctrace_core::durable::{Change, Doubt, FileAction};

use super::{
    call::{ChildKind, FileCall, GivenArgument},
    descriptors::{MappedPages, OpenDescription, Target, in_pages},
    events::FileEvents,
    flag,
    kinds::{allocated, change_to_length, changing_ioctl, opens_other, written},
};

impl FileEvents {
    /// A call succeeded. `None`: the arguments do not show what it did, or it is about no file.
    pub(super) fn succeeded(&mut self, call: FileCall<'_>, value: i64) -> Option<()> {
        if let Some((argument, name)) = written(call.name) {
            self.note_write(call, argument, name, value);
            return None;
        }
        match call.name {
            "open" | "openat" | "openat2" | "open_by_handle_at" | "creat" => {
                self.opened(call, value)?;
            }
            "ftruncate" | "ftruncate64" => {
                let file = self.changed_file(call, 0)?;
                self.changed(file, "ftruncate", None, change_to_length(call.number(1)));
            }
            "truncate" | "truncate64" => {
                let at = self.resolve(call, None, 0, true)?;
                let names = &mut self.judge.names;
                names.rely_on_path();
                let file = names.node_at(at);
                names.rely_on(file);
                self.changed(file, "truncate", None, change_to_length(call.number(1)));
            }
            "fallocate" => {
                let file = self.changed_file(call, 0)?;
                match allocated(call.number(1)?) {
                    Some(how) => self.changed(file, "fallocate", None, how),
                    None => self.push(FileAction::Touched(file)),
                }
            }
            "ioctl" => {
                let (variant, doubt) = changing_ioctl(call.number(1)?)?;
                let file = self.changed_file(call, 0)?;
                self.changed(file, variant, None, Change::Maybe(doubt));
            }
            "fchmod" | "fchown" | "fsetxattr" | "utimensat" => {
                let file = self.file(call, 0)?;
                self.push(FileAction::Touched(file));
            }
            "mmap" | "mmap2" => self.note_mapping(call, value)?,
            "mprotect" | "pkey_mprotect" if call.seen.is_some() => {
                let file = self.of_handle(call.seen?.about)?.file()?;
                self.changed(file, "mprotect", None, Change::Mapped);
            }
            "mprotect" | "pkey_mprotect" if call.has_any(2, flag::PROT_WRITE) => {
                let (address, bytes) = (call.number(0)?, call.number(1)?);
                for file in self.table(call).mapped_in(address, bytes) {
                    self.changed(file, "mprotect", None, Change::Mapped);
                }
            }
            "munmap" => {
                let (address, bytes) = (call.number(0)?, call.number(1)?);
                self.table(call).unmap(address, bytes);
            }
            "mremap" => self.note_remapping(call, value)?,
            "io_uring_enter" if call.number(1)? > 0 => {
                self.note_unseen(Doubt::AsynchronousOperations);
            }
            // A thread of the kernel takes them without a call.
            "io_uring_setup" if call.has_any(1, flag::IORING_SETUP_SQPOLL) => {
                self.note_unseen(Doubt::AsynchronousOperations);
                self.descriptors_changed(call, value)?;
            }
            "io_submit" if value > 0 => self.note_unseen(Doubt::AsynchronousOperations),
            "chroot" | "pivot_root" | "mount" | "umount" | "umount2" | "move_mount"
            | "open_tree" | "fsmount" => self.note_unseen(Doubt::ChangedMounts),
            // Without flags it enters whatever the descriptor is.
            "setns" => {
                if call.number(1) == Some(0) || call.has_any(1, flag::CLONE_NEWNS) {
                    self.note_unseen(Doubt::ChangedMounts);
                }
            }
            "unshare" if call.seen.is_none() => self.note_unshare(call),
            "chdir" => {
                let at = self.resolve(call, None, 0, true)?;
                self.table(call).directory = self.judge.names.node_at(at);
            }
            "fchdir" => {
                let directory = self.changed_file(call, 0)?;
                self.table(call).directory = directory;
            }
            "getcwd" => {
                self.know_directory(call, call.text(0)?);
            }
            _ if self.descriptors_changed(call, value).is_some() => {}
            _ => self.name_changed(call)?,
        }
        Some(())
    }

    fn note_mapping(&mut self, call: FileCall<'_>, address: i64) -> Option<()> {
        if call.seen.is_some() {
            let file = self.file(call, 4)?;
            self.changed(file, "mmap", None, Change::Mapped);
            return Some(());
        }
        let bytes = in_pages(call.number(1)?);
        let address = u64::try_from(address).ok()?;
        self.table(call).unmap(address, bytes);
        if !call.has_any(3, flag::MAP_SHARED) || call.has_any(3, flag::MAP_ANONYMOUS) {
            return None;
        }
        let Some(open) = self.open_of_argument(call, 4) else {
            if call.maps_for_writing() {
                self.note_unseen(Doubt::UnknownDescriptor);
            }
            return None;
        };
        if let Target::File(file) = open.target
            && !open.is_read_only
        {
            let mapping = MappedPages {
                address,
                bytes,
                offset: call.number(5)?,
                file,
            };
            self.tables.map(call.task, mapping);
            if call.maps_for_writing() {
                self.changed(file, "mmap", None, Change::Mapped);
            }
        }
        Some(())
    }

    /// A call moved mappings to this address, or changed how long one is.
    fn note_remapping(&mut self, call: FileCall<'_>, address: i64) -> Option<()> {
        let (old, bytes) = (call.number(0)?, in_pages(call.number(1)?));
        let new_bytes = in_pages(call.number(2)?);
        let address = u64::try_from(address).ok()?;
        let table = self.table(call);
        let moved = table.take_mapped(old, bytes);
        table.unmap(address, new_bytes);
        for mut mapping in moved {
            let skipped = mapping.address.saturating_sub(old);
            mapping.address = address.saturating_add(skipped);
            if mapping.bytes >= bytes.saturating_sub(skipped) {
                mapping.bytes = new_bytes.saturating_sub(skipped);
            }
            self.tables.map(call.task, mapping);
        }
        Some(())
    }

    /// A task has its own working directory or descriptors from now on, which it shared before.
    fn note_unshare(&mut self, call: FileCall<'_>) {
        let splits = call.has_any(0, flag::CLONE_FS | flag::CLONE_FILES | flag::CLONE_NEWNS);
        if splits && self.tables.is_shared(call.task) {
            self.note_unseen(Doubt::PartlyShared);
        }
    }

    fn note_write(&mut self, call: FileCall<'_>, argument: u8, name: &'static str, value: i64) {
        let Some(bytes) = u64::try_from(value).ok().filter(|bytes| *bytes > 0) else {
            return;
        };
        let Some(open) = self.open_of_argument(call, argument) else {
            return self.note_unseen(Doubt::UnknownDescriptor);
        };
        match open.target {
            Target::File(file) => {
                let is_flagged =
                    name == "pwritev2" && call.has_any(4, flag::RWF_DSYNC | flag::RWF_SYNC);
                let how = match open.is_synced {
                    _ if is_flagged => Change::Synced,
                    Some(true) => Change::Synced,
                    Some(false) => Change::Cached,
                    None => Change::Maybe(Doubt::MayBeSynced),
                };
                self.changed(file, name, Some(bytes), how);
            }
            Target::Others(to) => {
                self.wrote_output(call, argument);
                self.push(FileAction::Told { to });
            }
            Target::Nothing => self.wrote_output(call, argument),
        }
    }

    /// A call wrote to what may be a file that the command was given as output.
    fn wrote_output(&mut self, call: FileCall<'_>, argument: u8) {
        if let Some(file) = self.file_of_stream(call, argument) {
            self.push(FileAction::WrittenAsOutput(file));
        }
    }

    /// What a call does to the descriptors of a process; `None`: nothing.
    fn descriptors_changed(&mut self, call: FileCall<'_>, value: i64) -> Option<()> {
        match call.name {
            "close" => {
                let fd = call.descriptor(0)?;
                self.table(call).files.remove(&fd);
            }
            "close_range" => {
                let (first, last) = (call.descriptor(0)?, call.descriptor(1)?);
                let is_closed = |fd: &u32| (first..=last).contains(fd);
                let waits = call.has_any(2, flag::CLOSE_RANGE_CLOEXEC);
                let files = &mut self.table(call).files;
                for (_, file) in files.iter_mut().filter(|(fd, _)| is_closed(fd)) {
                    file.closes_on_exec = true;
                }
                files.retain(|fd, _| waits || !is_closed(fd));
            }
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" => self.note_duplicate(call, value)?,
            "pipe" | "pipe2" => self.opened_pair(call, 0, "pipe")?,
            "socketpair" => self.opened_pair(call, 3, "unix")?,
            "fork" | "vfork" | "clone" | "clone3" => {
                let child = u32::try_from(value).ok().filter(|tid| *tid > 0)?;
                let is_thread = call.child_kind() == ChildKind::Thread;
                let mut shared = [flag::CLONE_FS, flag::CLONE_FILES].into_iter();
                if call.seen.is_none() && shared.any(|flag| call.has_any(0, flag) != is_thread) {
                    self.note_unseen(Doubt::PartlyShared);
                }
                if !is_thread {
                    self.tables.fork(call.task, child);
                }
            }
            "execve" | "execveat" => self.table(call).execute(),
            name => {
                let open = opens_other(name)?;
                let fd = u32::try_from(value).ok()?;
                self.table(call).files.insert(fd, open);
            }
        }
        Some(())
    }

    /// A call opened the two descriptors of this array.
    fn opened_pair(&mut self, call: FileCall<'_>, array: u8, reader: &'static str) -> Option<()> {
        let GivenArgument::Made(made) = call.argument(array) else {
            return None;
        };
        for &fd in made {
            let open = OpenDescription::no_file(Some(reader));
            self.table(call).files.insert(fd, open);
        }
        Some(())
    }

    fn note_duplicate(&mut self, call: FileCall<'_>, value: i64) -> Option<()> {
        let old = call.descriptor(0)?;
        let closes_on_exec = match (call.name, call.number(1)) {
            ("dup" | "dup2", _) => false,
            ("dup3", _) => call.has_any(2, flag::O_CLOEXEC),
            (_, Some(flag::F_DUPFD_CLOEXEC)) => true,
            (_, Some(flag::F_DUPFD)) => false,
            (_, Some(flag::F_SETFD)) => {
                let file = self.table(call).files.get_mut(&old)?;
                file.closes_on_exec = call.has_any(2, flag::FD_CLOEXEC);
                return Some(());
            }
            _ => return Some(()),
        };
        let fd = u32::try_from(value).ok()?;
        if old == fd {
            return Some(());
        }
        match self.open_of_argument(call, 0) {
            Some(file) => {
                let copy = OpenDescription {
                    closes_on_exec,
                    ..file
                };
                self.table(call).files.insert(fd, copy);
            }
            None => {
                self.table(call).files.remove(&fd);
            }
        }
        Some(())
    }
}
