//! The files behind descriptors: which names stand for the same file, and what is known of each.

use std::{collections::HashMap, time::SystemTime};

use super::{
    args::{Args, DELETED, NamedDescriptor, elements},
    decode::flag_bits,
    file_name::{self, Devices, ParsedName},
    inspect::{Inspected, ProcInspector},
    syntax::sun_path,
};
use crate::{
    backend::{
        file_calls::flag,
        file_sums::{FileSum, FileSums},
    },
    syscalls::CallEffect,
    trace::{File, FileId, FileIdentity, FileKind, OpenFlags, SummedContent},
};

/// How many files are told apart, so that the memory for a log does not grow with the number of files
/// in it. Further ones are summed by kind.
pub const MAX_APART: usize = 65_536;

/// All files of a log.
///
/// A recorded log only has names: there a path is one file, whatever happens to it, and so is a
/// connection between two addresses. During a live run, an inspector can look at the file when a
/// path is opened. That happens a moment later, so a file that is gone by then only has its name,
/// too.
#[derive(Default)]
pub struct FileTable {
    all: Vec<File>,
    /// The sums over files that are not told apart.
    sums: FileSums,
    /// How often a file was [found](Self::find) that has a name, which its sum lacks.
    pub lost_names: u64,
    /// By [`file_name::stable_key`].
    by_name: HashMap<Box<[u8]>, FileId, foldhash::fast::RandomState>,
    /// By the identity and the time of birth, since an inode number is used again.
    by_birth: HashMap<(FileIdentity, Option<SystemTime>), FileId, foldhash::fast::RandomState>,
    inspector: Option<ProcInspector>,
    devices: Devices,
}

impl FileTable {
    /// Files of a live run; without an inspector, nothing is known of them but their names.
    pub fn live(inspector: Option<ProcInspector>) -> Self {
        Self {
            devices: inspector
                .as_ref()
                .map(|proc| proc.devices)
                .unwrap_or_default(),
            inspector,
            ..Self::default()
        }
    }

    /// The file behind a descriptor of this thread.
    pub fn find(&mut self, tid: Option<u32>, descriptor: NamedDescriptor<'_>) -> FileId {
        let key = file_name::stable_key(descriptor.text, descriptor.name);
        if let Some(&id) = self.by_name.get(key) {
            return id;
        }
        let parsed = file_name::parse(descriptor.name, self.devices);
        let id = self
            .find_by_identity(tid, descriptor, &parsed)
            .or_else(|| self.before_it_was_deleted(descriptor, &parsed));
        let has_name = parsed.file.path.is_some();
        let id = id.unwrap_or_else(|| self.add(parsed.file));
        self.lost_names += u64::from(has_name && self.is_sum(id));
        self.set_name(key, id);
        id
    }

    /// A name stands for this file from now on. There is no room for the names of summed files.
    fn set_name(&mut self, key: &[u8], id: FileId) {
        if self.is_sum(id) {
            self.by_name.remove(key);
        } else {
            self.by_name.insert(key.into(), id);
        }
    }

    /// The file by its identity instead of its name, if that can be found; adds it if it is new.
    fn find_by_identity(
        &mut self,
        tid: Option<u32>,
        descriptor: NamedDescriptor<'_>,
        parsed: &ParsedName,
    ) -> Option<FileId> {
        let seen = if parsed.file.identity.is_some() {
            Inspected::default()
        } else {
            let inspector = self.inspector.as_mut()?;
            inspector.inspect(tid, descriptor.number, parsed)?
        };
        self.find_or_add(parsed, seen)
    }

    /// The file with this identity.
    fn find_or_add(&mut self, parsed: &ParsedName, seen: Inspected) -> Option<FileId> {
        let Inspected { file: seen, born } = seen;
        let identity = parsed.file.identity.or(seen.identity)?;
        let mut file = parsed.file.clone();
        complete_file(&mut file, seen);
        if let Some(&id) = self.by_birth.get(&(identity, born)) {
            complete_file(&mut self.all[file_index(id)], file);
            return Some(id);
        }
        let id = self.add(file);
        if !self.is_sum(id) {
            self.by_birth.insert((identity, born), id);
        }
        Some(id)
    }

    /// The file that had this path before it was deleted.
    fn before_it_was_deleted(
        &self,
        descriptor: NamedDescriptor<'_>,
        parsed: &ParsedName,
    ) -> Option<FileId> {
        let path = descriptor
            .name
            .strip_suffix(DELETED)
            .filter(|_| parsed.file.kind != Some(FileKind::Memfd))?;
        self.by_name.get(path).copied()
    }

    /// Adds a file, or gives its sum if there are too many.
    fn add(&mut self, file: File) -> FileId {
        if self.all.len() < MAX_APART {
            return self.push(file);
        }
        let sum = FileSum::new(&file, None, SummedContent::Same);
        self.sums.place_of(&sum).unwrap_or_else(|| {
            let place = self.push(sum.file());
            self.sums.set_place(sum, place);
            place
        })
    }

    fn push(&mut self, file: File) -> FileId {
        self.all.push(file);
        FileId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
    }

    /// A note on the files that are not told apart, if there are any.
    pub fn summed_note(&self) -> Option<String> {
        let is_full = self.all.len() > MAX_APART;
        is_full.then(|| format!("too many files to tell apart: those after the first {MAX_APART} are summed by kind; zctrace does not follow bytes through them"))
    }

    /// Whether this is the sum of some files.
    fn is_sum(&self, id: FileId) -> bool {
        self.all[file_index(id)].sum.is_some()
    }

    /// What is known of a file; `None`: it is summed.
    fn told_apart(&mut self, id: FileId) -> Option<&mut File> {
        Some(&mut self.all[file_index(id)]).filter(|file| file.sum.is_none())
    }

    /// All files, by their ids. A Unix socket without an address gets that of its peer.
    pub fn into_all(mut self) -> Vec<File> {
        let is_unix =
            |file: &File| file.filesystem.as_deref() == Some("sockfs") && file.path.is_some();
        let bound = self.all.iter().filter(|file| is_unix(file));
        let addresses: HashMap<u64, String> = bound
            .filter_map(|file| Some((file.identity?.inode, file.path.clone()?)))
            .collect();
        for file in self.all.iter_mut().filter(|file| file.path.is_none()) {
            file.path = file
                .peer_inode
                .and_then(|peer| addresses.get(&peer).cloned());
        }
        self.all
    }
}

fn file_index(id: FileId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

/// Fills in what was unknown of a file.
fn complete_file(file: &mut File, more: File) {
    let File {
        kind,
        identity,
        filesystem,
        path,
        size_bytes,
        local,
        peer,
        peer_inode,
        open_flags,
        path_at_end: _,
        sum: _,
    } = more;
    *file = File {
        kind: file.kind.or(kind),
        identity: file.identity.or(identity),
        filesystem: file.filesystem.take().or(filesystem),
        path: file.path.take().or(path),
        size_bytes: file.size_bytes.or(size_bytes),
        local: file.local.take().or(local),
        peer: file.peer.take().or(peer),
        peer_inode: file.peer_inode.or(peer_inode),
        open_flags: file.open_flags.or(open_flags),
        path_at_end: None,
        sum: None,
    };
}

impl FileTable {
    /// Records what a successful call did to files. `result` is the descriptor that it returned, if
    /// that has a name.
    pub fn apply(&mut self, effect: CallEffect, tid: Option<u32>, args: &[u8], result: &[u8]) {
        let result = NamedDescriptor::leading(result);
        match (effect, result) {
            (CallEffect::Opens, Some(opened)) => {
                self.named_anew(tid, opened, false);
                let id = self.find(tid, opened);
                self.note_open_flags(id, &Args::new(args));
            }
            (CallEffect::CreatesMemfd, Some(made)) => self.named_anew(tid, made, true),
            (CallEffect::CreatesSocket, Some(socket)) => {
                self.is_of_kind(tid, Some(socket), unix_kind(&Args::new(args)));
            }
            (CallEffect::CreatesSocketPair, _) => {
                let args = Args::new(args);
                for socket in args.nth(3).into_iter().flat_map(elements) {
                    self.is_of_kind(tid, NamedDescriptor::whole(socket), unix_kind(&args));
                }
            }
            (CallEffect::Accepts, Some(_)) => {
                let listener = Args::new(args)
                    .descriptor(0)
                    .map(|listener| self.find(tid, listener));
                let kind = listener.and_then(|id| self.all[file_index(id)].kind);
                self.is_of_kind(tid, result, kind);
            }
            (CallEffect::Connects, _) => self.connected(tid, &Args::new(args)),
            _ => {}
        }
    }

    /// The name may now stand for another file than before; if `is_made`, it does.
    fn named_anew(&mut self, tid: Option<u32>, descriptor: NamedDescriptor<'_>, is_made: bool) {
        let parsed = file_name::parse(descriptor.name, self.devices);
        let same = self.find_by_identity(tid, descriptor, &parsed);
        if let Some(id) = same.or_else(|| is_made.then(|| self.add(parsed.file))) {
            let key = file_name::stable_key(descriptor.text, descriptor.name);
            self.set_name(key, id);
        }
    }

    /// Records the flags that a file is opened with for the first time.
    fn note_open_flags(&mut self, id: FileId, args: &Args<'_>) {
        // They follow the path: `open("x", O_RDWR|O_SYNC)`, `openat2(4</a>, "x", {flags=O_RDONLY...`
        let has_directory = args.nth(0).is_some_and(|first| !first.starts_with(b"\""));
        let flags = args.nth(1 + u8::from(has_directory)).unwrap_or_default();
        let names = flags.split(|byte| !byte.is_ascii_uppercase() && *byte != b'_');
        if let Some(file) = self.told_apart(id) {
            file.open_flags
                .get_or_insert_with(|| OpenFlags::from_names(names));
        }
    }

    /// Records the kind of a Unix socket, which its name may not say.
    fn is_of_kind(
        &mut self,
        tid: Option<u32>,
        socket: Option<NamedDescriptor<'_>>,
        kind: Option<FileKind>,
    ) {
        let Some(socket) = socket.filter(|socket| socket.name.starts_with(b"UNIX:[")) else {
            return;
        };
        let id = self.find(tid, socket);
        if let Some(file) = self.told_apart(id) {
            file.kind = kind.or(file.kind);
        }
    }

    /// `connect(3<UNIX-STREAM:[11]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 22)`
    fn connected(&mut self, tid: Option<u32>, args: &Args<'_>) {
        let Some(address) = args.field(1, b"sun_path=").and_then(sun_path) else {
            return;
        };
        let Some(socket) = args.descriptor(0) else {
            return;
        };
        let id = self.find(tid, socket);
        if let Some(file) = self.told_apart(id) {
            file.path.get_or_insert(address);
        }
    }
}

/// The kind of Unix socket that these arguments of `socket` or `socketpair` create.
fn unix_kind(args: &Args<'_>) -> Option<FileKind> {
    let kind = args.nth(1)?;
    // `SOCK_TYPE_MASK` of the kernel's include/linux/net.h. For Unix sockets, SOCK_RAW is SOCK_DGRAM:
    // `unix_create` of its net/unix/af_unix.c.
    match flag_bits(kind) & 0xf {
        flag::SOCK_STREAM => Some(FileKind::UnixStream),
        flag::SOCK_DGRAM | flag::SOCK_RAW => Some(FileKind::UnixDatagram),
        flag::SOCK_SEQPACKET => Some(FileKind::UnixSeqpacket),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Display, fs};

    use super::*;

    fn live_files() -> FileTable {
        FileTable::live(Some(ProcInspector::new().expect("has /proc")))
    }

    fn find(files: &mut FileTable, name: impl Display) -> FileId {
        let text = format!("3<{name}>");
        let descriptor = NamedDescriptor::whole(text.as_bytes()).expect("has a name");
        files.find(Some(10), descriptor)
    }

    fn opened(files: &mut FileTable, name: impl Display) {
        let (args, result) = (
            "AT_FDCWD</tmp>, \"x\", O_RDONLY",
            format!("4<{name}> <0.000012>"),
        );
        files.apply(
            CallEffect::Opens,
            Some(10),
            args.as_bytes(),
            result.as_bytes(),
        );
    }

    #[test]
    fn two_paths_of_an_inode_are_one_file_unless_its_number_was_used_again() {
        let folder = tempfile::tempdir().expect("has room");
        let [a, link] = ["a", "link"].map(|name| folder.path().join(name));
        fs::write(&a, "x").expect("has room");
        fs::hard_link(&a, &link).expect("is on one filesystem");
        let mut files = live_files();
        let first = find(&mut files, a.display());
        assert_eq!(find(&mut files, link.display()), first);
        let seen = Inspected {
            file: files.all[file_index(first)].clone(),
            born: Some(SystemTime::UNIX_EPOCH),
        };
        let later = files.find_or_add(&ParsedName::default(), seen);
        assert!(later.is_some_and(|later| later != first));
    }

    #[test]
    fn a_path_that_is_opened_again_may_be_another_file() {
        let folder = tempfile::tempdir().expect("has room");
        let [a, other] = ["a", "other"].map(|name| folder.path().join(name));
        fs::write(&a, "x").expect("has room");
        fs::write(&other, "y").expect("has room");
        let mut files = live_files();
        let before = find(&mut files, a.display());
        opened(&mut files, a.display());
        assert_eq!(find(&mut files, a.display()), before);
        // What was at the path is gone, and something else is there.
        fs::rename(&other, &a).expect("is ours");
        assert_eq!(find(&mut files, a.display()), before, "it was not opened");
        opened(&mut files, a.display());
        assert_ne!(find(&mut files, a.display()), before);
    }

    #[test]
    fn a_file_has_the_flags_of_its_first_open() {
        for (args, flags) in [
            ("\"/a,O_SYNC\", O_WRONLY|O_CREAT|O_DSYNC, 0644", "O_DSYNC"),
            (
                "AT_FDCWD</tmp>, \"/a\", O_RDWR|O_SYNC|O_DIRECT",
                "O_SYNC O_DIRECT",
            ),
            (
                "AT_FDCWD, \"/a\", 0x4000 /* O_RDONLY|O_DIRECT */",
                "O_DIRECT",
            ),
            (
                "AT_FDCWD, \"/a\", {flags=O_RDWR|O_SYNC, resolve=0}, 24",
                "O_SYNC",
            ),
            ("\"/a\", 0644", ""),
        ] {
            let mut files = FileTable::default();
            let mut open = |args: &str| {
                files.apply(CallEffect::Opens, Some(10), args.as_bytes(), b"3</a>");
            };
            open(args);
            open("\"/a\", O_RDONLY|O_DIRECT");
            let file = files.into_all().remove(0);
            let names = file
                .open_flags
                .map(|flags| flags.names().collect::<Vec<_>>());
            assert_eq!(names.unwrap_or_default().join(" "), flags, "{args}");
        }
    }

    #[test]
    fn names_that_change_with_every_call_take_no_memory() {
        let mut files = FileTable::default();
        for count in 0..1000 {
            let name = format!("{{eventfd-count={count:#x}, eventfd-id=2, eventfd-semaphore=0}}");
            find(&mut files, name);
        }
        assert_eq!((files.all.len(), files.by_name.len()), (1, 1));
    }
}
