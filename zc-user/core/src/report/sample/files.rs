//! Made-up traces with files.

use std::collections::HashMap;

use super::of_threads;
use crate::{
    errno,
    report::{Options, Report},
    syscalls::{Call, Fds, Spec},
    trace::{
        Content, Ends, File, FileId, FileIdentity, FileKind, Input, OpenBefore, Process, Row,
        Trace, Words,
    },
};

/// How a call knows the file that its bytes came from.
type KnownInput = fn(FileId) -> Input;

/// The signs for it between two files in texts.
const SIGNS: [(&str, KnownInput); 8] = [
    ("->", Input::Named),
    (">", |file| Input::Buffer(file, Content::Same)),
    ("!", |file| Input::Buffer(file, Content::Changed)),
    ("%", |file| Input::Buffer(file, Content::Zeros)),
    ("^", |file| Input::Buffer(file, Content::OtherUse)),
    ("?", |file| Input::Buffer(file, Content::Uncompared)),
    ("~", Input::Sequence),
    ("=", Input::Mapping),
];

/// The trace of processes that did what the text says: see [`Scene::run`].
pub fn scene(processes: &str) -> Scene {
    let mut scene = Scene::new();
    scene.run(processes);
    scene
}

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

    /// Its report, by default options.
    pub fn report(&self) -> Report {
        Report::from_trace(&self.trace, &Options::default())
    }

    fn add_file(&mut self, file: File) -> FileId {
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
        let file = self.add_file(File {
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

    /// Gives a file a name for [`run`](Self::run).
    pub fn name(&mut self, name: &str, file: FileId) {
        self.names.insert(name.to_owned(), file);
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
        self.add_file(File {
            kind: Some(FileKind::Pipe),
            ..File::default()
        })
    }

    /// Adds both ends of a connection of Unix sockets.
    pub fn socketpair(&mut self) -> [FileId; 2] {
        let first = u64::try_from(self.trace.files.len()).expect("fits") + 100;
        [first + 1, first].map(|peer| {
            self.add_file(File {
                kind: Some(FileKind::UnixStream),
                peer_inode: Some(peer),
                ..File::default()
            })
        })
    }

    /// Adds both ends of a TCP connection.
    pub fn connection(&mut self, client: &str, server: &str) -> [FileId; 2] {
        [(client, server), (server, client)].map(|(local, peer)| {
            self.add_file(File {
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
    /// call names it, `=` from a mapping, `~` after as much was read; from a buffer of which a word
    /// for each call is `>` the same, `%` zeros, `!` changed, `^` changed after it was written, `?` not
    /// compared. After that: `1..9B` moved one byte the smallest and nine the largest, where not all
    /// moved the same; `+1` calls returned 0, `cut` one never returned,
    /// `EXDEV*2` failed, `5ns` one took so long, each asked for `/4096` bytes, and it was first
    /// called at `@3` in the order of the trace. `5+7ns`: two took so long each; `5..8ns`: three;
    /// `untimed`: times would be known, but there are none.
    pub fn run(&mut self, processes: &str) -> &mut Process {
        for process in processes.split(';') {
            let (name, calls) = process.split_once(':').expect("NAME: CALLS");
            let rows = calls.split(',').map(|call| self.row(call)).collect();
            self.process(name.trim(), rows);
        }
        self.trace.processes.last_mut().expect("there is one")
    }

    /// The row of a call, as [`run`](Self::run) takes it.
    pub fn row(&mut self, call: &str) -> Row {
        let mut words = call.split_whitespace();
        let mut next = || words.next().expect("CALL FILES CALLS BYTES");
        let name: &'static str = next().to_owned().leak();
        let (files, calls, bytes) = (next(), parse_number(next()), parse_number(next()));
        let ends = self.parse_ends(name, files);
        let mut row = Row::new(Call::native(name), ends);
        (row.calls, row.total_ns) = (calls, None);
        row.bytes = row.bytes.map(|_| bytes);
        if calls > 0 && row.bytes.is_some() && bytes.is_multiple_of(calls) {
            row.note_size(bytes / calls);
        }
        if matches!(Spec::named(name).fds, Fds::On(_) | Fds::Maps(_)) {
            row.requested_bytes = Some(bytes);
        } else if ends.input.is_some() {
            row.sourced.bytes = bytes;
        }
        if let Some(Input::Buffer(_, content)) = ends.input {
            let [compared, changed] = match content {
                Content::Uncompared => [0, 0],
                Content::Same | Content::Zeros => [calls, 0],
                Content::Changed | Content::OtherUse => [calls, calls],
            };
            row.sourced.words = Words { compared, changed };
        }
        row.first_bytes = b"contents".to_vec();
        for word in words {
            match (word.split_at(1), word.split_once('*')) {
                (("+", calls), _) => {
                    row.calls += parse_number(calls);
                    row.zero_calls += parse_number(calls);
                }
                (("/", each), _) => row.requested_bytes = Some(parse_number(each) * row.calls),
                (("@", order), _) => row.order = Some(parse_number(order)),
                (_, Some((name, calls))) => {
                    row = row.failed(errno_named(name), parse_number(calls));
                }
                _ if word.ends_with('B') => row.least_and_most_bytes = Some(least_and_most(word)),
                _ if word == "cut" => row.unfinished = 1,
                _ if word == "waits" => (row.unfinished, row.under_way) = (1, 1),
                _ if word == "untimed" => row = row.took(&[]),
                _ => row = row.took(&parse_durations(word.trim_end_matches("ns"))),
            }
        }
        row
    }

    /// The files of a call: `in`, `in>out`, or `-` for none.
    fn parse_ends(&mut self, call: &str, files: &str) -> Ends {
        let between = SIGNS.iter().find_map(|(sign, input)| {
            let (from, to) = files.split_once(sign)?;
            Some((input, from, to))
        });
        if files == "-" {
            Ends::default()
        } else if let Some((input, from, to)) = between {
            Ends {
                input: Some(input(self.named(from))),
                output: Some(self.named(to)),
            }
        } else if matches!(Spec::named(call).fds, Fds::Writes(_)) {
            Ends {
                input: None,
                output: Some(self.named(files)),
            }
        } else {
            Ends {
                input: Some(Input::Named(self.named(files))),
                output: None,
            }
        }
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

/// `5+7`, or `5..8`.
fn parse_durations(text: &str) -> Vec<u64> {
    match text.split_once("..") {
        Some((first, end)) => (parse_number(first)..parse_number(end)).collect(),
        None => text.split('+').map(parse_number).collect(),
    }
}

/// `1..9B`.
fn least_and_most(word: &str) -> [u64; 2] {
    let sizes = word.trim_end_matches('B').split_once("..");
    let (least, most) = sizes.expect("LEAST..MOSTB");
    [parse_number(least), parse_number(most)]
}

/// A number; `4M` is 4 MiB.
fn parse_number(word: &str) -> u64 {
    let (digits, unit) = word
        .strip_suffix('M')
        .map_or((word, 1), |digits| (digits, 1 << 20));
    digits.parse::<u64>().expect("is a number") * unit
}

/// The number of an errno.
pub(super) fn errno_named(name: &str) -> i32 {
    let mut errnos = (1..133_i32).chain([512]);
    let errno = errnos.find(|errno| errno::name(errno.unsigned_abs()) == name);
    errno.expect("is the name of an errno")
}
