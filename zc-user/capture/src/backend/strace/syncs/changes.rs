//! What calls do to the content of files, and to what a process has open.

use zctrace_core::{
    durable::{Change, Doubt, FileAction},
    text::from_bytes,
};

use super::{
    calls::{allocated, changing_ioctl, cut, descriptor, opens_other, written},
    descriptors::{Mapping, OpenFile, Target, in_pages},
    events::{Called, FileEvents},
};
use crate::backend::strace::{
    args::{Args, elements, number},
    decode::{
        ChildKind, child_kind, has_flag, maps_for_writing, maps_shared, quoted, shares_a_part,
    },
};

impl FileEvents {
    /// A call succeeded. `None`: the arguments do not show what it did, or it is about no file.
    pub(super) fn succeeded(&mut self, call: Called<'_>, value: i64, result: &[u8]) -> Option<()> {
        if let Some((argument, name)) = written(call.name) {
            self.wrote(call, argument, name, value);
            return None;
        }
        let args = Args::new(call.args);
        match call.name {
            "open" | "openat" | "openat2" | "open_by_handle_at" | "creat" => {
                self.opened(call, value, result)?;
            }
            "ftruncate" | "ftruncate64" => {
                let file = self.file(call, 0)?;
                self.changed(file, "ftruncate", None, cut(args.nth(1)));
            }
            "truncate" | "truncate64" => {
                let at = self.resolve(call, None, 0, true)?;
                let names = &mut self.judge.names;
                names.rely_on_path();
                let file = names.at(at);
                names.rely_on(file);
                self.changed(file, "truncate", None, cut(args.nth(1)));
            }
            "fallocate" => {
                let file = self.file(call, 0)?;
                match allocated(args.nth(1)?) {
                    Some(how) => self.changed(file, "fallocate", None, how),
                    None => self.push(FileAction::Touched(file)),
                }
            }
            "ioctl" => {
                let variant = changing_ioctl(args.nth(1)?)?;
                let file = self.file(call, 0)?;
                self.changed(file, variant, None, Change::Cached);
            }
            "fchmod" | "fchown" | "fsetxattr" | "utimensat" => {
                let file = self.file(call, 0)?;
                self.push(FileAction::Touched(file));
            }
            "mmap" | "mmap2" => self.mapped(call, value)?,
            // PROT_WRITE of the kernel's include/uapi/asm-generic/mman-common.h.
            "mprotect" | "pkey_mprotect" if call.seen.is_some() => {
                let file = self.of_handle(call.seen?.mapped())?.file()?;
                self.changed(file, "mprotect", None, Change::Mapped);
            }
            "mprotect" | "pkey_mprotect" if has_flag(args.nth(2)?, 2, b"PROT_WRITE") => {
                let address = number(args.nth(0)?)?;
                let bytes = number(args.nth(1)?)?;
                for file in self.table(call).mapped_in(address, bytes) {
                    self.changed(file, "mprotect", None, Change::Mapped);
                }
            }
            "munmap" => {
                let (address, bytes) = (number(args.nth(0)?)?, number(args.nth(1)?)?);
                self.table(call).unmap(address, bytes);
            }
            "mremap" => self.remapped(call, value)?,
            "io_uring_enter" if number(args.nth(1)?)? > 0 => {
                self.unseen(Doubt::AsynchronousOperations);
            }
            // A thread of the kernel takes them without a call (`IORING_SETUP_SQPOLL` of its
            // include/uapi/linux/io_uring.h).
            "io_uring_setup"
                if args
                    .field(1, b"flags=")
                    .is_some_and(|flags| has_flag(flags, 2, b"IORING_SETUP_SQPOLL")) =>
            {
                self.unseen(Doubt::AsynchronousOperations);
                self.descriptors_changed(call, value)?;
            }
            "io_submit" if value > 0 => self.unseen(Doubt::AsynchronousOperations),
            "chroot" | "pivot_root" | "mount" | "umount" | "umount2" | "move_mount"
            | "open_tree" | "fsmount" => self.unseen(Doubt::ChangedMounts),
            // Without flags it enters whatever the descriptor is. CLONE_NEWNS of the kernel's
            // include/uapi/linux/sched.h.
            "setns" => {
                let flags = args.nth(1)?;
                if number(flags) == Some(0) || has_flag(flags, 0x2_0000, b"CLONE_NEWNS") {
                    self.unseen(Doubt::ChangedMounts);
                }
            }
            "unshare" if call.seen.is_none() => self.unshared(call)?,
            "chdir" => {
                let at = self.resolve(call, None, 0, true)?;
                self.table(call).directory = self.judge.names.at(at);
            }
            "fchdir" => {
                let directory = self.file(call, 0)?;
                self.table(call).directory = directory;
            }
            "getcwd" => {
                let (path, _) = quoted(args.nth(0)?)?;
                self.know_directory(call, &from_bytes(&path));
            }
            _ if self.descriptors_changed(call, value).is_some() => {}
            _ => self.name_changed(call)?,
        }
        Some(())
    }

    fn mapped(&mut self, call: Called<'_>, address: i64) -> Option<()> {
        let args = Args::new(call.args);
        if call.seen.is_some() {
            let file = self.file(call, 4)?;
            self.changed(file, "mmap", None, Change::Mapped);
            return Some(());
        }
        let bytes = in_pages(number(args.nth(1)?)?);
        let address = u64::try_from(address).ok()?;
        self.table(call).unmap(address, bytes);
        let open = self.behind(call, 4).filter(|_| maps_shared(&args))?;
        if let Target::File(file) = open.target
            && !open.is_read_only
        {
            let mapping = Mapping {
                address,
                bytes,
                offset: number(args.nth(5)?)?,
                file,
            };
            self.tables.map(call.task, mapping);
            if maps_for_writing(&args) {
                self.changed(file, "mmap", None, Change::Mapped);
            }
        }
        Some(())
    }

    /// A call moved mappings to this address, or changed how long one is.
    fn remapped(&mut self, call: Called<'_>, address: i64) -> Option<()> {
        let args = Args::new(call.args);
        let argument = |index| args.nth(index).and_then(number);
        let (old, bytes) = (argument(0)?, in_pages(argument(1)?));
        let new_bytes = in_pages(argument(2)?);
        let address = u64::try_from(address).ok()?;
        let table = self.table(call);
        let moved = table.taken(old, bytes);
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
    fn unshared(&mut self, call: Called<'_>) -> Option<()> {
        let flags = Args::new(call.args).nth(0)?;
        // Bits: the kernel's include/uapi/linux/sched.h.
        let has = |bit, name: &[u8]| has_flag(flags, bit, name);
        let splits =
            has(0x200, b"CLONE_FS") || has(0x400, b"CLONE_FILES") || has(0x2_0000, b"CLONE_NEWNS");
        if splits && self.tables.is_shared(call.task) {
            self.unseen(Doubt::PartlyShared);
        }
        Some(())
    }

    fn wrote(&mut self, call: Called<'_>, argument: u8, name: &'static str, value: i64) {
        let Some(bytes) = u64::try_from(value).ok().filter(|bytes| *bytes > 0) else {
            return;
        };
        let Some(open) = self.behind(call, argument) else {
            return self.unseen(Doubt::UnknownDescriptor);
        };
        match open.target {
            Target::File(file) => {
                let flags = Args::new(call.args).nth(4).filter(|_| name == "pwritev2");
                // RWF_DSYNC and RWF_SYNC of the kernel's include/uapi/linux/fs.h.
                let is_flagged = flags.is_some_and(|flags| {
                    has_flag(flags, 2, b"RWF_DSYNC") || has_flag(flags, 4, b"RWF_SYNC")
                });
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
    fn wrote_output(&mut self, call: Called<'_>, argument: u8) {
        if let Some(file) = self.file_of_stream(call, argument) {
            self.push(FileAction::WrittenAsOutput(file));
        }
    }

    /// What a call does to the descriptors of a process; `None`: nothing.
    fn descriptors_changed(&mut self, call: Called<'_>, value: i64) -> Option<()> {
        let args = Args::new(call.args);
        match call.name {
            "close" => {
                let fd = descriptor(args.nth(0)?)?;
                self.table(call).files.remove(&fd);
            }
            "close_range" => {
                let (first, last) = (descriptor(args.nth(0)?)?, descriptor(args.nth(1)?)?);
                let is_closed = |fd: &u32| (first..=last).contains(fd);
                // CLOSE_RANGE_CLOEXEC of the kernel's include/uapi/linux/close_range.h.
                let waits = has_flag(args.nth(2)?, 4, b"CLOSE_RANGE_CLOEXEC");
                let files = &mut self.table(call).files;
                for (_, file) in files.iter_mut().filter(|(fd, _)| is_closed(fd)) {
                    file.closes_on_exec = true;
                }
                files.retain(|fd, _| waits || !is_closed(fd));
            }
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" => self.duplicated(call, value)?,
            "pipe" | "pipe2" => self.opened_pair(call, 0, "pipe")?,
            "socketpair" => self.opened_pair(call, 3, "unix")?,
            "fork" | "vfork" | "clone" | "clone3" => {
                let child = u32::try_from(value).ok().filter(|tid| *tid > 0)?;
                if call.seen.is_none() && shares_a_part(call.args) {
                    self.unseen(Doubt::PartlyShared);
                }
                if child_kind(call.args) != ChildKind::Thread {
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
    fn opened_pair(&mut self, call: Called<'_>, array: u8, reader: &'static str) -> Option<()> {
        for element in elements(Args::new(call.args).nth(array)?) {
            let fd = descriptor(element)?;
            let open = OpenFile::other(Some(reader));
            self.table(call).files.insert(fd, open);
        }
        Some(())
    }

    fn duplicated(&mut self, call: Called<'_>, value: i64) -> Option<()> {
        let args = Args::new(call.args);
        let (old, second) = (descriptor(args.nth(0)?)?, args.nth(1));
        let closes_on_exec = match (call.name, second.unwrap_or_default()) {
            ("dup" | "dup2", _) => false,
            ("dup3", _) => args.nth(2)?.starts_with(b"O_CLOEXEC"),
            (_, command) if command.starts_with(b"F_DUPFD_CLOEXEC") => true,
            (_, command) if command.starts_with(b"F_DUPFD") => false,
            (_, command) if command.starts_with(b"F_SETFD") => {
                let file = self.table(call).files.get_mut(&old)?;
                file.closes_on_exec = args.nth(2)?.starts_with(b"FD_CLOEXEC");
                return Some(());
            }
            _ => return Some(()),
        };
        let fd = u32::try_from(value).ok()?;
        if old == fd {
            return Some(());
        }
        match self.behind(call, 0) {
            Some(file) => {
                let copy = OpenFile {
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
