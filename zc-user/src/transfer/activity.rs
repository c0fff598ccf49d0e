//! [`Activity`]: the rows of a process by what they did with which file.

use std::collections::BTreeMap;

use crate::{
    syscall::Fds,
    trace::{File, FileId, FileKind, Input, Process, Row},
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
    /// What each thread read, and wrote after it.
    pub(super) loops: Vec<ThreadLoops<'a>>,
}

/// What one thread read, and wrote after it.
#[derive(Debug, Default)]
pub(super) struct ThreadLoops<'a> {
    /// What it read, by file.
    pub(super) reads: BTreeMap<FileId, Vec<&'a Row>>,
    /// What it wrote after having read, by source and destination.
    pub(super) writes: BTreeMap<FileId, BTreeMap<FileId, Vec<&'a Row>>>,
}

impl<'a> Activity<'a> {
    /// Sorts the rows of a process.
    pub(super) fn of(process: &'a Process, files: &'a [File]) -> Self {
        let mut activity = Self {
            process,
            files,
            copies: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            mapped: BTreeMap::new(),
            lent: BTreeMap::new(),
            mappings: BTreeMap::new(),
            loops: Vec::new(),
        };
        for thread in &process.threads {
            let mut loops = ThreadLoops::default();
            for row in thread.rows.iter().chain(&thread.ring_rows).filter(|row| row.calls > 0) {
                activity.sort(row, &mut loops);
            }
            if !loops.writes.is_empty() {
                activity.loops.push(loops);
            }
        }
        activity
    }

    fn sort(&mut self, row: &'a Row, loops: &mut ThreadLoops<'a>) {
        match Role::of(row) {
            Role::Copies(from, to) => self.copies.entry((from, to)).or_default().push(row),
            Role::Reads(file) => {
                self.reads.entry(file).or_default().push(row);
                if let Some(file) = file {
                    loops.reads.entry(file).or_default().push(row);
                }
            }
            Role::Lends(pipe) => self.lent.entry(pipe).or_default().push(row),
            Role::Writes(source, to) => {
                self.writes.entry(to).or_default().push(row);
                match (source, to) {
                    (Some(Input::LastRead(from)), Some(to)) => {
                        loops.writes.entry(from).or_default().entry(to).or_default().push(row);
                    }
                    (Some(Input::Mapped(from)), Some(to)) => self.mapped.entry((from, to)).or_default().push(row),
                    _ => {}
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
