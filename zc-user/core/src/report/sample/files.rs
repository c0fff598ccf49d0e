//! Made-up traces with files.

use std::collections::HashMap;

use super::of_threads;
use crate::{
    errno,
    syscalls::{Call, Fds, Spec},
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

fn call_of(name: &'static str, calls: u64, bytes: u64) -> Row {
    let row = Row::new(Call::native(name), Ends::default());
    Row {
        calls,
        bytes: row.bytes.map(|_| bytes),
        ..row
    }
}

/// Calls that read from a file.
pub fn read(name: &'static str, from: FileId, calls: u64, bytes: u64) -> Row {
    let row = call_of(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: None,
    });
    Row {
        input_bytes: bytes,
        ..row
    }
}

/// Calls that write to a file. The source of the bytes is unknown.
pub fn write(name: &'static str, to: FileId, calls: u64, bytes: u64) -> Row {
    call_of(name, calls, bytes).ends(Ends {
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
    let row = call_of(name, calls, bytes).ends(Ends {
        input: Some(input),
        output: Some(to),
    });
    let fills = match input {
        Input::Mapping(_) => Fills::NONE,
        _ => Fills {
            calls,
            total_ns: None,
            are_unknown: false,
        },
    };
    Row {
        input_bytes: held,
        fills,
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
    written_of(name, Input::Mapping(mapped), to, calls, [bytes; 2])
}

/// A call that maps a file.
pub fn map(file: FileId, bytes: u64) -> Row {
    call_of("mmap", 1, 0).requested(bytes).ends(Ends {
        input: Some(Input::Named(file)),
        output: None,
    })
}

/// Calls that name both ends.
pub fn copy(name: &'static str, from: FileId, to: FileId, calls: u64, bytes: u64) -> Row {
    let row = call_of(name, calls, bytes).ends(Ends {
        input: Some(Input::Named(from)),
        output: Some(to),
    });
    Row {
        input_bytes: bytes,
        ..row
    }
}

/// How a call knows the file that the bytes in memory came from.
type KnownInput = fn(FileId) -> Input;

/// The signs for it in texts.
const FROM_MEMORY: [(&str, KnownInput); 4] = [
    (">", Input::Buffer),
    ("!", Input::ChangedBuffer),
    ("~", Input::Sequence),
    ("=", Input::Mapping),
];

/// A trace with files.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The trace so far.
    pub trace: Trace,
    /// Its files by the names that [`run`](Self::run) knows them by.
    names: HashMap<String, FileId>,
}

impl Scene {
    /// An empty trace.
    pub fn new() -> Self {
        let mut trace = of_threads(Vec::new());
        trace.processes.clear();
        Self {
            trace,
            names: HashMap::new(),
        }
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
        let file = self.add(File {
            kind: Some(kind),
            path: Some(format!("/work/{name}")),
            filesystem: Some("ext4".into()),
            size_bytes: Some(1 << 30),
            ..File::default()
        });
        self.names.insert(name.to_owned(), file);
        file
    }

    /// The file of this name, which is added if there is none. The names of kinds, with or without
    /// a number, are files of that kind: `pipe`, `tcp2`. All others are regular.
    pub fn named(&mut self, name: &str) -> FileId {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let kind = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        match FileKind::from_name(kind) {
            Some(FileKind::Pipe) => {
                let pipe = self.pipe();
                self.names.insert(name.to_owned(), pipe);
                pipe
            }
            kind => self.file(kind.unwrap_or(FileKind::Regular), name),
        }
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

    /// Adds processes that did what the text says, `cat: read in 8 9000 +1, write in>pipe 8 9000;
    /// dd: ...`, and returns the last one.
    ///
    /// A call has its name, its [files](Self::named), how many calls there were, and the bytes of
    /// all. Of two files, the sign between them says how the bytes came from the first: `->` the
    /// call names it, `>` from a buffer, `!` from a buffer that was changed, `=` from a mapping, `~`
    /// after as much was read. After that: `+1` calls returned 0, `cut` one never returned,
    /// `EXDEV*2` failed, `5ns` one took so long, each asked for `/4096` bytes, and it was first
    /// called at `@3` in the order of the trace.
    pub fn run(&mut self, processes: &str) -> &mut Process {
        for process in processes.split(';') {
            let (name, calls) = process.split_once(':').expect("NAME: CALLS");
            let rows = calls.split(',').map(|call| self.row(call)).collect();
            self.process(name.trim(), rows);
        }
        self.trace.processes.last_mut().expect("there is one")
    }

    fn row(&mut self, call: &str) -> Row {
        let mut words = call.split_whitespace();
        let mut next = || words.next().expect("CALL FILES CALLS BYTES");
        let name: &'static str = next().to_owned().leak();
        let (ends, calls, bytes) = (next(), number(next()), number(next()));
        let mut between = |sign: &str| {
            let (from, to) = ends.split_once(sign)?;
            Some((self.named(from), self.named(to)))
        };
        let mut row = if ends == "-" {
            call_of(name, calls, bytes)
        } else if let Some((from, to)) = between("->") {
            copy(name, from, to, calls, bytes)
        } else if let Some((input, (from, to))) = FROM_MEMORY
            .into_iter()
            .find_map(|(sign, input)| Some((input, between(sign)?)))
        {
            written_of(name, input(from), to, calls, [bytes; 2])
        } else {
            match Spec::named(name).fds {
                Fds::Writes(_) => write(name, self.named(ends), calls, bytes),
                Fds::On(_) => map(self.named(ends), bytes),
                _ => read(name, self.named(ends), calls, bytes),
            }
        };
        for word in words {
            row = match (word.split_at(1), word.split_once('*')) {
                (("+", calls), _) => row.zero(number(calls)),
                (("/", each), _) => row.each(number(each)),
                (("@", order), _) => row.at(number(order)),
                (_, Some((name, calls))) => row.failed(errno_named(name), number(calls)),
                _ if word == "cut" => row.unfinished(1),
                _ => row.took(&[number(word.trim_end_matches("ns"))]),
            };
        }
        row
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

/// A number; `4M` is 4 MiB.
fn number(word: &str) -> u64 {
    let (digits, unit) = word
        .strip_suffix('M')
        .map_or((word, 1), |digits| (digits, 1 << 20));
    digits.parse::<u64>().expect("is a number") * unit
}

fn errno_named(name: &str) -> i32 {
    let mut errnos = 1..133_i32;
    let errno = errnos.find(|errno| errno::name(errno.unsigned_abs()) == name);
    errno.expect("is the name of an errno")
}
