//! The files behind descriptors: which names stand for the same file, and what is known of each.

use std::{collections::HashMap, time::SystemTime};

use super::{
    args::{Args, DELETED, Descriptor, number},
    file_name::{self, Devices, ParsedName},
    inspect::{Inspected, Inspector},
    syntax::sun_path,
};
use crate::{
    syscalls::CallEffect,
    trace::{File, FileId, FileIdentity, FileKind},
};

/// What identifies a file, even if another one had its inode number before: device, inode, time of
/// birth.
type Birth = (u64, u64, Option<SystemTime>);

/// All files of a log.
///
/// A recorded log only has names: there a path is one file, whatever happens to it, and so is a
/// connection between two addresses. During a live run, an inspector can look at the file when a
/// path is opened. That happens a moment later, so a file that is gone by then only has its name,
/// too.
#[derive(Default)]
pub struct FileTable<'a> {
    all: Vec<File>,
    /// By [`file_name::stable_key`].
    by_name: HashMap<Box<[u8]>, FileId, foldhash::fast::RandomState>,
    by_birth: HashMap<Birth, FileId, foldhash::fast::RandomState>,
    inspector: Option<&'a mut dyn Inspector>,
    devices: Devices,
}

impl<'a> FileTable<'a> {
    /// Files that can be inspected.
    pub fn with_inspector(inspector: &'a mut dyn Inspector) -> Self {
        Self {
            devices: inspector.devices(),
            inspector: Some(inspector),
            ..Self::default()
        }
    }

    /// The file behind a descriptor of this thread.
    pub fn find(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>) -> FileId {
        let key = file_name::stable_key(descriptor.text, descriptor.name);
        if let Some(&id) = self.by_name.get(key) {
            return id;
        }
        let parsed = file_name::parse(descriptor.name, self.devices);
        let id = self
            .same(tid, descriptor, &parsed)
            .or_else(|| self.before_it_was_deleted(descriptor, &parsed));
        let id = id.unwrap_or_else(|| self.add(parsed));
        self.by_name.insert(key.into(), id);
        id
    }

    /// The file by its identity instead of its name, if that can be found; adds it if it is new.
    fn same(
        &mut self,
        tid: Option<u32>,
        descriptor: Descriptor<'_>,
        parsed: &ParsedName,
    ) -> Option<FileId> {
        let (seen, born) = match parsed.file.identity {
            Some(_) => (File::default(), None),
            None => {
                let inspector = self.inspector.as_mut()?;
                let seen = inspector.inspect(tid, descriptor.number, parsed)?;
                (seen.file, seen.born)
            }
        };
        let FileIdentity { device, inode, .. } = parsed.file.identity.or(seen.identity)?;
        let next = FileId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let id = *self.by_birth.entry((device, inode, born)).or_insert(next);
        if id == next {
            self.all.push(File::default());
        }
        let file = &mut self.all[index(id)];
        complete(file, parsed.file.clone());
        complete(file, seen);
        Some(id)
    }

    /// The file that had this path before it was deleted.
    fn before_it_was_deleted(
        &self,
        descriptor: Descriptor<'_>,
        parsed: &ParsedName,
    ) -> Option<FileId> {
        let path = descriptor
            .name
            .strip_suffix(DELETED)
            .filter(|_| parsed.file.kind != Some(FileKind::Memfd))?;
        self.by_name.get(path).copied()
    }

    fn add(&mut self, parsed: ParsedName) -> FileId {
        self.all.push(parsed.file);
        FileId(u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX))
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

fn index(id: FileId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

/// Fills in what was unknown of a file.
fn complete(file: &mut File, more: File) {
    let File {
        kind,
        identity,
        filesystem,
        path,
        size_bytes,
        local,
        peer,
        peer_inode,
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
    };
}

impl FileTable<'_> {
    /// Records what a successful call did to files. `result` is the descriptor that it returned, if
    /// that has a name.
    pub fn apply(&mut self, effect: CallEffect, tid: Option<u32>, args: &[u8], result: &[u8]) {
        let result = Descriptor::leading(result);
        match (effect, result) {
            (CallEffect::Opens, Some(opened)) => self.named_anew(tid, opened, false),
            (CallEffect::CreatesMemfd, Some(made)) => self.named_anew(tid, made, true),
            (CallEffect::CreatesSocket, Some(socket)) => {
                self.is_of_kind(tid, Some(socket), unix_kind(&Args::new(args)));
            }
            (CallEffect::CreatesSocketPair, _) => {
                let args = Args::new(args);
                for socket in args.elements(3) {
                    self.is_of_kind(tid, Descriptor::whole(socket), unix_kind(&args));
                }
            }
            (CallEffect::Accepts, Some(_)) => {
                let listener = Args::new(args)
                    .descriptor(0)
                    .map(|listener| self.find(tid, listener));
                let kind = listener.and_then(|id| self.all[index(id)].kind);
                self.is_of_kind(tid, result, kind);
            }
            (CallEffect::Connects, _) => self.connected(tid, &Args::new(args)),
            _ => {}
        }
    }

    /// The name may now stand for another file than before; if `is_made`, it does.
    fn named_anew(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>, is_made: bool) {
        let parsed = file_name::parse(descriptor.name, self.devices);
        let same = self.same(tid, descriptor, &parsed);
        if let Some(id) = same.or_else(|| is_made.then(|| self.add(parsed))) {
            let key = file_name::stable_key(descriptor.text, descriptor.name);
            self.by_name.insert(key.into(), id);
        }
    }

    /// Records the kind of a Unix socket, which its name may not say.
    fn is_of_kind(
        &mut self,
        tid: Option<u32>,
        socket: Option<Descriptor<'_>>,
        kind: Option<FileKind>,
    ) {
        let Some(socket) = socket.filter(|socket| socket.name.starts_with(b"UNIX:[")) else {
            return;
        };
        let id = self.find(tid, socket);
        let file = &mut self.all[index(id)];
        file.kind = kind.or(file.kind);
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
        self.all[index(id)].path.get_or_insert(address);
    }
}

/// The kind of Unix socket that these arguments of `socket` or `socketpair` create.
fn unix_kind(args: &Args<'_>) -> Option<FileKind> {
    let kind = args.nth(1)?;
    // Numbers: `SOCK_TYPE_MASK` and the types of the kernel's include/linux/net.h.
    let names = [
        (b"SOCK_STREAM".as_slice(), 1),
        (b"SOCK_DGRAM", 2),
        (b"SOCK_SEQPACKET", 5),
    ];
    let number = number(kind).map(|number| number & 0xf);
    match number.or_else(|| {
        names
            .iter()
            .find(|(name, _)| kind.starts_with(name))
            .map(|(_, number)| *number)
    })? {
        1 => Some(FileKind::UnixStream),
        // For Unix sockets, SOCK_RAW is SOCK_DGRAM: `unix_create` of the kernel's
        // net/unix/af_unix.c.
        2 | 3 => Some(FileKind::UnixDatagram),
        5 => Some(FileKind::UnixSeqpacket),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An inspector that finds what a test has put there.
    #[derive(Default)]
    struct Fake(HashMap<Vec<u8>, Inspected>);

    impl Fake {
        fn put(&mut self, path: &str, inode: u64, born: u64) {
            let born = Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(born));
            let file = File {
                kind: Some(FileKind::Regular),
                identity: Some(FileIdentity {
                    device: 9,
                    inode,
                    generation: None,
                }),
                size_bytes: Some(5),
                filesystem: Some("ext4".to_owned()),
                ..File::default()
            };
            let seen = Inspected { file, born };
            self.0.insert(path.as_bytes().to_vec(), seen);
        }
    }

    impl Inspector for Fake {
        fn devices(&self) -> Devices {
            Devices {
                pipes: 7,
                sockets: 8,
            }
        }

        fn inspect(&mut self, _: Option<u32>, _: u32, name: &ParsedName) -> Option<Inspected> {
            let seen = self.0.get(name.path.as_deref()?)?;
            (!name.is_deleted).then(|| seen.clone())
        }
    }

    fn descriptor(text: &str) -> Descriptor<'_> {
        Descriptor::whole(text.as_bytes()).expect("has a name")
    }

    fn find(files: &mut FileTable<'_>, text: &str) -> FileId {
        files.find(Some(10), descriptor(text))
    }

    fn opened(files: &mut FileTable<'_>, result: &str) {
        files.apply(
            CallEffect::Opens,
            Some(10),
            b"AT_FDCWD</tmp>, \"x\", O_RDONLY",
            result.as_bytes(),
        );
    }

    #[test]
    fn an_inspected_file_and_a_pipe_have_identities() {
        let mut fake = Fake::default();
        fake.put("/a", 1, 0);
        let expected = File {
            path: Some("/a".to_owned()),
            ..fake.0[b"/a".as_slice()].file.clone()
        };
        let mut files = FileTable::with_inspector(&mut fake);
        find(&mut files, "3</a>");
        find(&mut files, "4<pipe:[12]>");
        let [a, pipe] = &files.into_all()[..] else {
            panic!("two files");
        };
        assert_eq!(a, &expected);
        let identity = pipe.identity.expect("has one");
        assert_eq!((identity.device, identity.inode), (7, 12));
    }

    #[test]
    fn two_paths_of_an_inode_are_one_file() {
        let mut fake = Fake::default();
        fake.put("/a", 1, 0);
        fake.put("/link", 1, 0);
        fake.put("/later", 1, 1);
        let mut files = FileTable::with_inspector(&mut fake);
        let a = find(&mut files, "3</a>");
        assert_eq!(find(&mut files, "4</link>"), a);
        assert_ne!(
            find(&mut files, "5</later>"),
            a,
            "the inode number was used again"
        );
    }

    #[test]
    fn a_path_that_is_opened_again_may_be_another_file() {
        let mut fake = Fake::default();
        fake.put("/a", 1, 0);
        let mut files = FileTable::with_inspector(&mut fake);
        let before = find(&mut files, "3</a>");
        opened(&mut files, "3</a>");
        assert_eq!(find(&mut files, "3</a>"), before);
        // What was at the path is gone, and something else is there.
        let mut fake = Fake::default();
        fake.put("/a", 2, 0);
        files.inspector = Some(&mut fake);
        assert_eq!(find(&mut files, "3</a>"), before, "it was not opened");
        opened(&mut files, "4</a> <0.000012>");
        assert_ne!(find(&mut files, "4</a>"), before);
    }

    #[test]
    fn a_file_that_cannot_be_inspected_is_known_by_its_name() {
        let mut fake = Fake::default();
        let mut files = FileTable::with_inspector(&mut fake);
        let a = find(&mut files, "3</a>");
        opened(&mut files, "4</a>");
        assert_eq!(find(&mut files, "4</a>"), a);
        assert_eq!(files.into_all()[0].identity, None);
    }

    #[test]
    fn names_that_change_with_every_call_take_no_memory() {
        let mut files = FileTable::default();
        for count in 0..1000 {
            find(
                &mut files,
                &format!("3<{{eventfd-count={count:#x}, eventfd-id=2, eventfd-semaphore=0}}>"),
            );
        }
        assert_eq!((files.all.len(), files.by_name.len()), (1, 1));
    }
}
