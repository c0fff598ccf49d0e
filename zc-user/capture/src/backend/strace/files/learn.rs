//! What calls that nobody counts tell of files: those that open, make and connect them.

use super::{Files, index};
use crate::{
    backend::strace::{
        args::{Split, number},
        descriptor::Descriptor,
        name,
        text::sun_path,
    },
    trace::{FileId, FileKind},
};

/// What a call does to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lesson {
    /// It opens the file of a path.
    Open,
    /// It gives a file another descriptor.
    Duplicate,
    /// It makes a file in memory.
    Memfd,
    /// It makes a socket.
    Socket,
    /// It makes two sockets.
    SocketPair,
    /// It makes the socket of a connection to another socket.
    Accept,
    /// It connects a socket.
    Connect,
}

impl Lesson {
    /// What the call of this name does; `None`: nothing of these.
    pub fn of(name: &str) -> Option<Self> {
        CALLS.iter().find(|(call, _)| *call == name).map(|(_, lesson)| *lesson)
    }
}

/// The calls that tell something of files.
pub const CALLS: [(&str, Lesson); 13] = [
    ("open", Lesson::Open),
    ("openat", Lesson::Open),
    ("openat2", Lesson::Open),
    ("creat", Lesson::Open),
    ("dup", Lesson::Duplicate),
    ("dup2", Lesson::Duplicate),
    ("dup3", Lesson::Duplicate),
    ("memfd_create", Lesson::Memfd),
    ("socket", Lesson::Socket),
    ("socketpair", Lesson::SocketPair),
    ("accept", Lesson::Accept),
    ("accept4", Lesson::Accept),
    ("connect", Lesson::Connect),
];

impl Files<'_> {
    /// Takes note of what a call that succeeded tells. `result`: the descriptor that it returned, if that has a name.
    pub fn learn(&mut self, lesson: Lesson, tid: Option<u32>, args: &[u8], result: &[u8]) {
        let result = Descriptor::leading(result);
        match (lesson, result) {
            (Lesson::Open, Some(opened)) => self.opened(tid, opened),
            (Lesson::Memfd, Some(made)) => self.made(tid, made),
            (Lesson::Socket, Some(socket)) => self.is_of_kind(tid, Some(socket), unix_kind(&Split::new(args))),
            (Lesson::SocketPair, _) => {
                let args = Split::new(args);
                for socket in args.elements(3) {
                    self.is_of_kind(tid, Descriptor::whole(socket), unix_kind(&args));
                }
            }
            (Lesson::Accept, Some(_)) => {
                let listener = Split::new(args).descriptor(0).map(|listener| self.find(tid, listener));
                let kind = listener.and_then(|id| self.all[index(id)].kind);
                self.is_of_kind(tid, result, kind);
            }
            (Lesson::Connect, _) => self.connected(tid, &Split::new(args)),
            _ => {}
        }
    }

    /// The path may stand for another file than before: somebody has to look.
    fn opened(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>) {
        if self.look.is_none() {
            return;
        }
        if let Some(id) = self.same(tid, descriptor, &name::read(descriptor.name)) {
            self.name(descriptor, id);
        }
    }

    /// What had this name before is another file.
    fn made(&mut self, tid: Option<u32>, descriptor: Descriptor<'_>) {
        let told = name::read(descriptor.name);
        let id = self.same(tid, descriptor, &told).unwrap_or_else(|| self.add(told));
        self.name(descriptor, id);
    }

    fn name(&mut self, descriptor: Descriptor<'_>, id: FileId) {
        self.by_name.insert(name::key(descriptor.text, descriptor.name).into(), id);
    }

    /// A Unix socket is of this kind, which its name need not tell.
    fn is_of_kind(&mut self, tid: Option<u32>, socket: Option<Descriptor<'_>>, kind: Option<FileKind>) {
        let Some(socket) = socket.filter(|socket| socket.name.starts_with(b"UNIX:[")) else { return };
        let id = self.find(tid, socket);
        let file = &mut self.all[index(id)];
        file.kind = kind.or(file.kind);
    }

    /// `connect(3<UNIX-STREAM:[11]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 22)`
    fn connected(&mut self, tid: Option<u32>, args: &Split<'_>) {
        let Some(address) = args.field(1, b"sun_path=").and_then(sun_path) else { return };
        let Some(socket) = args.descriptor(0) else { return };
        let id = self.find(tid, socket);
        self.all[index(id)].path.get_or_insert(address);
    }
}

/// What kind of Unix socket these arguments of `socket` or `socketpair` ask for.
fn unix_kind(args: &Split<'_>) -> Option<FileKind> {
    let kind = args.nth(1)?;
    // Numbers: `SOCK_TYPE_MASK` and the types of the kernel's include/linux/net.h.
    let names = [(b"SOCK_STREAM".as_slice(), 1), (b"SOCK_DGRAM", 2), (b"SOCK_SEQPACKET", 5)];
    let number = number(kind).map(|number| number & 0xf);
    match number.or_else(|| names.iter().find(|(name, _)| kind.starts_with(name)).map(|(_, number)| *number))? {
        1 => Some(FileKind::UnixStream),
        // To this family, SOCK_RAW is SOCK_DGRAM: `unix_create` of the kernel's net/unix/af_unix.c.
        2 | 3 => Some(FileKind::UnixDatagram),
        5 => Some(FileKind::UnixSeqpacket),
        _ => None,
    }
}
