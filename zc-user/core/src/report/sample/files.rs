//! Made-up traces with files.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::of_threads;
use crate::{
    syscall::{Call, Fds},
    trace::{
        Ends, File, FileId, FileIdentity, FileKind, Fills, Input, OpenBefore, Part, Process, Row,
        Thread, Trace,
    },
};

impl Row {
    /// Sets when it was first called.
    pub fn at(mut self, order: u64) -> Self {
        self.order = Some(order);
        self.last_order = Some(order);
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
    /// Ranges that do not overlap: start, end, file, and the number of the read.
    ranges: Vec<(u64, u64, FileId, usize)>,
    reads: usize,
}

impl Memory {
    /// Bytes of a file (`None`: of anything else) are stored here.
    pub fn fill(&mut self, from: Option<FileId>, start: u64, bytes: u64) {
        let end = start + bytes;
        self.reads += 1;
        let read = self.reads;
        let around = |(from, to, file, read): (u64, u64, FileId, usize)| {
            [
                (from, to.min(start), file, read),
                (from.max(end), to, file, read),
            ]
        };
        let kept = self
            .ranges
            .drain(..)
            .flat_map(around)
            .filter(|(from, to, ..)| from < to);
        let filled = from.filter(|_| bytes > 0);
        self.ranges = kept
            .chain(filled.map(|file| (start, end, file, read)))
            .collect();
    }

    /// How many bytes of which files are here, the most first, and the reads that brought them.
    pub fn find(&self, start: u64, bytes: u64) -> Vec<(FileId, u64, Vec<usize>)> {
        let mut found: BTreeMap<FileId, (u64, Vec<usize>)> = BTreeMap::new();
        for &(from, to, file, read) in &self.ranges {
            let common = to.min(start + bytes).saturating_sub(from.max(start));
            if common > 0 {
                let (sum, reads) = found.entry(file).or_default();
                *sum += common;
                reads.push(read);
            }
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(file, (bytes, reads))| (file, bytes, reads))
            .collect();
        found.sort_by_key(|(file, bytes, _)| (Reverse(*bytes), *file));
        found
    }
}

/// A thread that reads and writes, counted as the backends count it.
#[derive(Debug, Default)]
pub struct Loop {
    /// What it read last, if the backend does not see its memory: file, bytes, and the files that
    /// it wrote them to since.
    last_read: Option<(FileId, u64, BTreeSet<FileId>)>,
    /// Its memory, if the backend sees it.
    memory: Option<Rc<RefCell<Memory>>>,
    /// The reads that are counted with each file that was written.
    counted: BTreeSet<(usize, FileId)>,
    rows: BTreeMap<(&'static str, Ends), Row>,
    parts: BTreeMap<(Input, FileId), Part>,
    calls: u64,
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
        let ends = Ends {
            input: Some(Input::Named(from)),
            output: None,
        };
        self.count("read", ends, bytes, bytes);
        if let Some(memory) = &self.memory {
            memory.borrow_mut().fill(Some(from), start, bytes);
        } else if bytes > 0 {
            self.last_read = Some((from, bytes, BTreeSet::new()));
        }
    }

    /// Writes from the buffer.
    pub fn write(&mut self, to: FileId, bytes: u64) {
        self.write_from(Self::BUFFER, to, bytes);
    }

    /// Writes from memory at `start`.
    pub fn write_from(&mut self, start: u64, to: FileId, bytes: u64) {
        self.write_if(start, to, bytes, false);
    }

    /// The same; the program has changed what is there if `is_changed`.
    pub fn write_if(&mut self, start: u64, to: FileId, bytes: u64, is_changed: bool) {
        let output = Some(to);
        let Some(memory) = self.memory.clone() else {
            let input = self.sequence(to, bytes);
            let held = if input.is_some() { bytes } else { 0 };
            let row = self.count("write", Ends { input, output }, bytes, held);
            row.fills.calls += u64::from(input.is_some());
            return;
        };
        let found = memory.borrow().find(start, bytes);
        let input = |file| {
            if is_changed {
                Input::ChangedBuffer(file)
            } else {
                Input::Buffer(file)
            }
        };
        let mut new_reads = |reads: &[usize]| {
            let reads = reads
                .iter()
                .filter(|read| self.counted.insert((**read, to)));
            u64::try_from(reads.count()).expect("fits")
        };
        let mut sources = found
            .iter()
            .map(|(file, held, reads)| (input(*file), *held, new_reads(reads)))
            .collect::<Vec<_>>()
            .into_iter();
        let (input, held, fills) = sources.next().map_or((None, 0, 0), |(input, held, fills)| {
            (Some(input), held, fills)
        });
        let row = self.count("write", Ends { input, output }, bytes, held);
        row.fills.calls += fills;
        for (from, bytes, fills) in sources {
            let part = self.parts.entry((from, to)).or_insert_with(|| Part {
                call: Call::native("write"),
                from,
                to,
                bytes: 0,
                calls: 0,
                fills: Fills::NONE,
            });
            part.bytes += bytes;
            part.calls += 1;
            part.fills.calls += fills;
        }
    }

    /// What a write of so many bytes has as its input, if memory is not seen.
    fn sequence(&mut self, to: FileId, bytes: u64) -> Option<Input> {
        let (from, read, written_to) = self.last_read.as_mut()?;
        (*read == bytes && written_to.insert(to)).then_some(Input::Sequence(*from))
    }

    fn count(&mut self, name: &'static str, ends: Ends, bytes: u64, held: u64) -> &mut Row {
        self.calls += 1;
        let order = self.calls;
        let row = self
            .rows
            .entry((name, ends))
            .or_insert_with(|| call(name, 0, 0).ends(ends).at(order));
        assert!(matches!(
            row.call.spec().fds,
            Fds::Reads(_) | Fds::Writes(_)
        ));
        row.calls += 1;
        row.zero_calls += u64::from(bytes == 0);
        row.bytes = row.bytes.map(|sum| sum + bytes);
        row.input_bytes += held;
        row
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
