//! Made-up traces with files.

use std::{cell::RefCell, cmp::Reverse, collections::BTreeMap, rc::Rc};

use zc_ebpf::{UnwrittenRead, pairing::marks::MARKS};

use super::of_threads;
use crate::{
    syscall::{Call, Fds},
    trace::{
        Ends, File, FileId, FileIdentity, FileKind, Input, OpenBefore, Part, Process, Row, Streams,
        Thread, Trace,
    },
};

impl Row {
    /// Sets when it was first called. It returned before any other call.
    pub fn at(self, order: u64) -> Self {
        self.spanning(order, order)
    }

    /// Sets when it was first called, and when it first returned.
    pub fn spanning(mut self, entered: u64, left: u64) -> Self {
        self.order = Some(entered);
        self.last_order = Some(entered);
        self.moved_order = (self.bytes > Some(0)).then_some(left);
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
    call(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: None,
    })
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

/// Calls that write to a file, `paired` bytes of which the thread had read before.
pub fn written_after(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    paired: u64,
) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(Input::ByOrder(from)),
        output: Some(to),
    });
    Row {
        paired_bytes: paired,
        ..row
    }
}

/// Calls that write to a file from buffers with `held` bytes that the process had read. Each call
/// was sampled.
pub fn written_held(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    held: u64,
) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(Input::ByBuffer(from)),
        output: Some(to),
    });
    Row {
        paired_bytes: held,
        checked_calls: calls,
        ..row
    }
}

/// The same, but the sampled bytes have changed.
pub fn written_changed(
    name: &'static str,
    from: FileId,
    to: FileId,
    calls: u64,
    bytes: u64,
    held: u64,
) -> Row {
    let row = written_held(name, from, to, calls, bytes, held);
    row.ends(Ends {
        input: Some(Input::ByChangedBuffer(from)),
        output: Some(to),
    })
}

/// Calls that write from a mapping to a file.
pub fn written_from(name: &'static str, mapped: FileId, to: FileId, calls: u64, bytes: u64) -> Row {
    let row = call(name, calls, bytes).ends(Ends {
        input: Some(Input::ByMapping(mapped)),
        output: Some(to),
    });
    Row {
        paired_bytes: bytes,
        ..row
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
    call(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: Some(to),
    })
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

    /// Sets the windows of what was read from one file and written to another. Each number stands
    /// for contents; 0: one byte repeated.
    pub fn set_windows(&mut self, [from, to]: [FileId; 2], [read, written]: [&[u32]; 2]) {
        let windows = |contents: &[u32]| contents.iter().map(|&content| [content; MARKS]).collect();
        self.streams(from).read.get_or_insert_default().windows = windows(read);
        self.streams(to).written.get_or_insert_default().windows = windows(written);
    }

    /// The streams of a file.
    pub fn streams(&mut self, file: FileId) -> &mut Streams {
        &mut self.trace.files[usize::try_from(file.0).expect("fits")].streams
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

    /// Adds a process whose only thread did this.
    pub fn looping(&mut self, name: &str, thread: Loop) -> &mut Process {
        let thread = thread.thread();
        let process = self.process(name, Vec::new());
        (process.threads[0].rows, process.threads[0].parts) = (thread.rows, thread.parts);
        process
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

/// Which bytes in an address space were read from files.
#[derive(Debug, Default)]
pub struct Memory {
    /// Ranges that do not overlap: start, end, file.
    ranges: Vec<(u64, u64, FileId)>,
}

impl Memory {
    /// Bytes of a file (`None`: of anything else) are stored here.
    pub fn fill(&mut self, from: Option<FileId>, start: u64, bytes: u64) {
        let end = start + bytes;
        let around = |(from, to, file): (u64, u64, FileId)| {
            [(from, to.min(start), file), (from.max(end), to, file)]
        };
        let kept = self
            .ranges
            .drain(..)
            .flat_map(around)
            .filter(|(from, to, _)| from < to);
        self.ranges = kept
            .chain(from.filter(|_| bytes > 0).map(|file| (start, end, file)))
            .collect();
    }

    /// How many bytes of which files are here, the most first.
    pub fn find(&self, start: u64, bytes: u64) -> Vec<(FileId, u64)> {
        let mut found: BTreeMap<FileId, u64> = BTreeMap::new();
        for &(from, to, file) in &self.ranges {
            let common = to.min(start + bytes).saturating_sub(from.max(start));
            if common > 0 {
                *found.entry(file).or_default() += common;
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|&(file, bytes)| (Reverse(bytes), file));
        found
    }
}

/// A thread that reads and writes, counted as the backends count it.
#[derive(Debug, Default)]
pub struct Loop {
    unwritten_read: UnwrittenRead,
    /// Its memory, if the backend sees it.
    memory: Option<Rc<RefCell<Memory>>>,
    rows: BTreeMap<(&'static str, Ends), Row>,
    parts: BTreeMap<(FileId, FileId), Part>,
}

impl Loop {
    /// Its default buffer.
    pub const BUFFER: u64 = 1 << 20;

    /// Under a backend that sees memory.
    pub fn seen() -> Self {
        Self::sharing(&Rc::default())
    }

    /// A thread that shares an address space, under a backend that sees memory.
    pub fn sharing(memory: &Rc<RefCell<Memory>>) -> Self {
        Self {
            memory: Some(Rc::clone(memory)),
            ..Self::default()
        }
    }

    /// Reads into the buffer.
    pub fn read(&mut self, from: FileId, bytes: u64) {
        self.read_to(Self::BUFFER, from, bytes);
    }

    /// Reads into memory from `start`.
    pub fn read_to(&mut self, start: u64, from: FileId, bytes: u64) {
        let order = self.order();
        let ends = Ends {
            input: Some(Input::Named(from)),
            output: None,
        };
        let row = self
            .rows
            .entry(("read", ends))
            .or_insert_with(|| read("read", from, 0, 0).at(order));
        count(row, bytes);
        self.unwritten_read.read(from.0 + 1, bytes);
        if let Some(memory) = &self.memory {
            memory.borrow_mut().fill(Some(from), start, bytes);
        }
    }

    /// Writes from the buffer.
    pub fn write(&mut self, to: FileId, bytes: u64) {
        self.write_from(Self::BUFFER, to, bytes);
    }

    /// Writes from memory at `start`.
    pub fn write_from(&mut self, start: u64, to: FileId, bytes: u64) {
        let order = self.order();
        let by_order = self
            .unwritten_read
            .source()
            .checked_sub(1)
            .map(|file| Input::ByOrder(FileId(file)));
        let found = self
            .memory
            .as_ref()
            .map(|memory| memory.borrow().find(start, bytes))
            .unwrap_or_default();
        let covered = self.unwritten_read.write(bytes, to.0 + 1);
        let (input, paired) = found.first().map_or((by_order, covered), |&(file, held)| {
            (Some(Input::ByBuffer(file)), held)
        });
        let ends = Ends {
            input,
            output: Some(to),
        };
        let row = self
            .rows
            .entry(("write", ends))
            .or_insert_with(|| write("write", to, 0, 0).ends(ends).at(order));
        count(row, bytes);
        row.paired_bytes += paired;
        row.checked_calls += u64::from(!found.is_empty());
        for &(from, bytes) in found.iter().skip(1) {
            let none = Part {
                call: Call::native("write"),
                from: Input::ByBuffer(from),
                to,
                bytes: 0,
                calls: 0,
                checked_calls: 0,
            };
            let part = self.parts.entry((from, to)).or_insert(none);
            part.bytes += bytes;
            part.calls += 1;
            part.checked_calls += 1;
        }
    }

    fn order(&self) -> u64 {
        u64::try_from(self.rows.len()).expect("fits")
    }

    /// Its rows.
    pub fn rows(self) -> Vec<Row> {
        self.rows.into_values().collect()
    }

    /// The thread that did this.
    pub fn thread(self) -> Thread {
        Thread {
            rows: self.rows.into_values().collect(),
            parts: self.parts.into_values().collect(),
            ..Thread::default()
        }
    }
}

fn count(row: &mut Row, bytes: u64) {
    assert!(matches!(
        row.call.spec().fds,
        Fds::Reads(_) | Fds::Writes(_)
    ));
    row.calls += 1;
    row.zero_calls += u64::from(bytes == 0);
    row.bytes = row.bytes.map(|sum| sum + bytes);
    row.moved_order = row.moved_order.or(row.order.filter(|_| bytes > 0));
}
