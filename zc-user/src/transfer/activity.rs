//! [`Activity`]: the rows of a process by what they did with which file.

use std::collections::BTreeMap;

use crate::{
    syscall::Fds,
    trace::{File, FileId, FileKind, Input, Process, Row, Trace},
};

/// What a process did, file by file.
#[derive(Debug)]
pub(super) struct Activity<'a> {
    pub(super) process: &'a Process,
    files: &'a [File],
    /// Calls that name both ends.
    pub(super) copies: BTreeMap<(FileId, FileId), Vec<&'a Row>>,
    /// Calls that take bytes from a file and name no other; `None`: the file was not identified.
    pub(super) reads: BTreeMap<Option<FileId>, Vec<&'a Row>>,
    /// Calls that bring bytes to a file and name no other, likewise.
    pub(super) writes: BTreeMap<Option<FileId>, Vec<&'a Row>>,
    /// Of these, those whose buffer lies in a mapping, by the file mapped and the file written.
    pub(super) mapped: BTreeMap<(FileId, FileId), Vec<&'a Row>>,
    /// Calls that lend memory to a pipe (`vmsplice`), by the pipe.
    pub(super) lent: BTreeMap<FileId, Vec<&'a Row>>,
    /// Calls that map a file.
    pub(super) mappings: BTreeMap<FileId, Vec<&'a Row>>,
    /// What was written from where it had been read to, whichever thread did so.
    pub(super) held: Paired<'a>,
    /// What each thread read, and wrote after it.
    pub(super) after: Vec<Paired<'a>>,
    /// Whether `held` and `mapped` would have it all.
    pub(super) sees_memory: bool,
}

/// What was read, and written, and which of it belongs together.
#[derive(Debug, Default)]
pub(super) struct Paired<'a> {
    /// What was read, by file.
    pub(super) reads: BTreeMap<FileId, Vec<&'a Row>>,
    /// All that was written, by file.
    pub(super) written: BTreeMap<FileId, Vec<&'a Row>>,
    /// Of this, what is known to come from a file, by source and destination.
    pub(super) writes: BTreeMap<FileId, BTreeMap<FileId, Vec<&'a Row>>>,
}

impl<'a> Paired<'a> {
    fn read(&mut self, from: FileId, row: &'a Row) {
        self.reads.entry(from).or_default().push(row);
    }

    fn written(&mut self, from: Option<FileId>, to: FileId, row: &'a Row) {
        self.written.entry(to).or_default().push(row);
        if let Some(from) = from {
            self.writes.entry(from).or_default().entry(to).or_default().push(row);
        }
    }
}

impl<'a> Activity<'a> {
    /// Sorts the rows of a process.
    pub(super) fn of(process: &'a Process, trace: &'a Trace) -> Self {
        let mut activity = Self {
            process,
            files: &trace.files,
            copies: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            mapped: BTreeMap::new(),
            lent: BTreeMap::new(),
            mappings: BTreeMap::new(),
            held: Paired::default(),
            after: Vec::new(),
            sees_memory: trace.sees_memory,
        };
        for thread in &process.threads {
            let mut after = Paired::default();
            for row in thread.rows.iter().chain(&thread.ring_rows).filter(|row| row.calls > 0) {
                activity.sort(row, &mut after);
            }
            if !after.writes.is_empty() {
                activity.after.push(after);
            }
        }
        activity
    }

    fn sort(&mut self, row: &'a Row, after: &mut Paired<'a>) {
        match Role::of(row) {
            Role::Copies(from, to) => self.copies.entry((from, to)).or_default().push(row),
            Role::Reads(file) => {
                self.reads.entry(file).or_default().push(row);
                if let Some(file) = file {
                    self.held.read(file, row);
                    after.read(file, row);
                }
            }
            Role::Lends(pipe) => self.lent.entry(pipe).or_default().push(row),
            Role::Writes(source, to) => {
                self.writes.entry(to).or_default().push(row);
                let Some(to) = to else { return };
                let (held, last_read) = match source {
                    Some(Input::Held(from)) => (Some(from), None),
                    Some(Input::LastRead(from)) => (None, Some(from)),
                    _ => (None, None),
                };
                self.held.written(held, to, row);
                after.written(last_read, to, row);
                if let Some(Input::Mapped(from)) = source {
                    self.mapped.entry((from, to)).or_default().push(row);
                }
            }
            Role::Maps(file) => self.mappings.entry(file).or_default().push(row),
            Role::Other => {}
        }
    }

    /// What a file is, if known.
    pub(super) fn file(&self, id: FileId) -> Option<&'a File> {
        self.files.get(usize::try_from(id.0).ok()?)
    }

    /// What kind of file it is, if known.
    pub(super) fn kind(&self, id: FileId) -> Option<FileKind> {
        self.file(id)?.kind
    }

    /// Whether a file looks like the program of the process or one of its libraries: they are mapped to be run.
    pub(super) fn is_program(&self, id: FileId) -> bool {
        let name_of = |path: &'a str| path.rsplit('/').next();
        let Some(name) = self.file(id).and_then(|file| name_of(file.path.as_deref()?)) else { return false };
        let is_library = name.rsplit_once(".so").is_some_and(|(_, version)| version.is_empty() || version.starts_with('.'));
        is_library || self.process.exe.as_deref().and_then(name_of) == Some(name)
    }

    /// Whether a file can be the end of a transfer: what wakes and tells (`eventfd`, `timerfd`, netlink) carries nothing on.
    pub(super) fn carries_bytes(&self, id: FileId) -> bool {
        !matches!(self.kind(id), Some(FileKind::Eventfd | FileKind::Netlink | FileKind::Directory | FileKind::Anonymous))
    }
}

/// What a row did with its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Moved bytes between two files that it names.
    Copies(FileId, FileId),
    /// Took bytes from a file.
    Reads(Option<FileId>),
    /// Brought bytes to a file, and what is known of where they came from.
    Writes(Option<Input>, Option<FileId>),
    /// Lent memory to a pipe.
    Lends(FileId),
    /// Mapped a file.
    Maps(FileId),
    /// Anything else.
    Other,
}

impl Role {
    /// The role of a row.
    pub(crate) fn of(row: &Row) -> Self {
        let input = row.ends.input.map(Input::file);
        let output = row.ends.output;
        match (row.call.spec().fds, row.ends.input, output) {
            (Fds::On(_), _, _) => match input {
                Some(file) if matches!(row.call.name.as_ref(), "mmap" | "mmap2") => Self::Maps(file),
                _ => Self::Other,
            },
            (_, Some(Input::Named(from)), Some(to)) => Self::Copies(from, to),
            (Fds::Pipe(_), _, Some(pipe)) => Self::Lends(pipe),
            (Fds::Reads(_) | Fds::Pipe(_), _, _) => Self::Reads(input),
            (Fds::Writes(_), source, to) => Self::Writes(source, to),
            (Fds::None | Fds::Copies { .. } | Fds::ClonesRange { .. }, _, _) => Self::Other,
        }
    }
}
