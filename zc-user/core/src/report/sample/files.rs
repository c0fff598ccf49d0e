//! Made-up traces with files.

use super::of_threads;
use crate::{
    syscalls::Call,
    trace::{
        Ends, File, FileId, FileIdentity, FileKind, Fills, Input, OpenBefore, Process, Row, Trace,
    },
};

impl Row {
    /// Sets when it was first called.
    pub fn at(mut self, order: u64) -> Self {
        self.order = Some(order);
        self
    }

    /// Adds calls that returned 0.
    pub fn zero(mut self, calls: u64) -> Self {
        self.calls += calls;
        self.zero_calls += calls;
        self
    }

    /// Sets the requested bytes of each call.
    pub fn each(mut self, each: u64) -> Self {
        self.requested_bytes = Some(each * self.calls);
        self
    }

    fn ends(mut self, ends: Ends) -> Self {
        self.ends = ends;
        self
    }
}

fn call(name: &'static str, calls: u64, bytes: u64) -> Row {
    let row = Row::new(Call::from_report(name), Ends::default());
    Row {
        calls,
        bytes: row.bytes.map(|_| bytes),
        ..row
    }
}

/// Calls that read from a file.
pub fn read(name: &'static str, from: FileId, calls: u64, bytes: u64) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: None,
    });
    Row {
        input_bytes: bytes,
        ..row
    }
}

/// Calls that read another process's memory.
pub fn peek(bytes: u64) -> Row {
    call("process_vm_readv", 1, bytes)
}

/// Calls that write to a file. The source of the bytes is unknown.
pub fn write(name: &'static str, to: FileId, calls: u64, bytes: u64) -> Row {
    call(name, calls, bytes).ends(Ends {
        input: None,
        output: Some(to),
    })
}

/// Calls that write to a file from memory with `held` bytes of another one.
fn written_of(
    name: &'static str,
    input: Input,
    to: FileId,
    calls: u64,
    [bytes, held]: [u64; 2],
) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(input),
        output: Some(to),
    });
    Row {
        input_bytes: held,
        fills: Fills {
            calls,
            total_ns: None,
            are_unknown: false,
        },
        ..row
    }
}

/// Calls that write as many bytes as the thread had read last, seen without addresses.
pub fn written_after(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    held: u64,
) -> Row {
    written_of(name, Input::Sequence(from), to, calls, [bytes, held])
}

/// Calls that write to a file from buffers with `held` bytes that as many reads brought there.
pub fn written_held(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    held: u64,
) -> Row {
    written_of(name, Input::Buffer(from), to, calls, [bytes, held])
}

/// The same, but the program changed them.
pub fn written_changed(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    held: u64,
) -> Row {
    written_of(name, Input::ChangedBuffer(from), to, calls, [bytes, held])
}

/// Calls that write from a mapping to a file.
pub fn written_from(name: &'static str, mapped: FileId, to: FileId, calls: u64, bytes: u64) -> Row {
    Row {
        fills: Fills::NONE,
        ..written_of(name, Input::Mapping(mapped), to, calls, [bytes, bytes])
    }
}

/// A call that maps a file.
pub fn map(file: FileId, bytes: u64) -> Row {
    call("mmap", 1, 0).requested(bytes).ends(Ends {
        input: Some(Input::Named(file)),
        output: None,
    })
}

/// Calls that name both ends.
pub fn copy(name: &'static str, from: FileId, to: FileId, calls: u64, bytes: u64) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: Some(to),
    });
    Row {
        input_bytes: bytes,
        ..row
    }
}

/// A trace with files.
#[derive(Debug)]
pub struct Scene {
    /// The trace so far.
    pub trace: Trace,
}

impl Scene {
    /// An empty trace.
    pub fn new() -> Self {
        let mut trace = of_threads(Vec::new());
        trace.processes.clear();
        Self { trace }
    }

    fn add(&mut self, file: File) -> FileId {
        let id = u32::try_from(self.trace.files.len()).expect("fits");
        let identity = FileIdentity {
            device: 1,
            inode: 100 + u64::from(id),
            generation: None,
        };
        self.trace.files.push(File {
            identity: Some(identity),
            ..file
        });
        FileId(id)
    }

    /// Adds a file of this kind below the working directory.
    pub fn file(&mut self, kind: FileKind, name: &str) -> FileId {
        self.add(File {
            kind: Some(kind),
            path: Some(format!("/work/{name}")),
            filesystem: Some("ext4".into()),
            size_bytes: Some(1 << 30),
            ..File::default()
        })
    }

    /// Adds a regular file.
    pub fn regular(&mut self, name: &str) -> FileId {
        self.file(FileKind::Regular, name)
    }

    /// The pipe or socket as one that was open before the launch.
    pub fn open_before(&self, file: FileId) -> OpenBefore {
        let FileIdentity { device, inode, .. } =
            self.trace.files[file.0 as usize].identity.expect("has one");
        OpenBefore { device, inode }
    }

    /// Adds a pipe.
    pub fn pipe(&mut self) -> FileId {
        self.add(File {
            kind: Some(FileKind::Pipe),
            ..File::default()
        })
    }

    /// Adds both ends of a connection of Unix sockets.
    pub fn socketpair(&mut self) -> [FileId; 2] {
        let first = u64::try_from(self.trace.files.len()).expect("fits") + 100;
        [first + 1, first].map(|peer| {
            self.add(File {
                kind: Some(FileKind::UnixStream),
                peer_inode: Some(peer),
                ..File::default()
            })
        })
    }

    /// Adds both ends of a TCP connection.
    pub fn connection(&mut self, client: &str, server: &str) -> [FileId; 2] {
        [(client, server), (server, client)].map(|(local, peer)| {
            self.add(File {
                kind: Some(FileKind::Tcp),
                local: Some(local.into()),
                peer: Some(peer.into()),
                ..File::default()
            })
        })
    }

    /// Adds a process of one thread with these rows.
    pub fn process(&mut self, name: &str, rows: Vec<Row>) -> &mut Process {
        self.threads(name, vec![rows])
    }

    /// Adds a process of several threads.
    pub fn threads(&mut self, name: &str, rows: Vec<Vec<Row>>) -> &mut Process {
        let mut process = of_threads(rows).processes.remove(0);
        process.pid += u32::try_from(self.trace.processes.len()).expect("fits");
        (process.comm, process.exe) = (Some(name.into()), Some(format!("/usr/bin/{name}")));
        self.trace.processes.push(process);
        self.trace.processes.last_mut().expect("was pushed")
    }
}
