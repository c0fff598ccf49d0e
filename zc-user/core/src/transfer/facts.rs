//! [`ProcessFacts`]: the rows of a process, sorted by what the calls did with which file.

use std::collections::{BTreeMap, BTreeSet};

pub(super) use super::buffers::moving_calls;
use super::{
    buffers::{BuffersByFiles, PairWord, sums_by_files, unchanged_sources},
    chains::{self, Moved, may_be_conduit},
};

use crate::{
    syscalls::{Call, Fds, Returned},
    text::file_name,
    trace::{Content, File, FileId, FileKind, Input, Part, Process, Row, Thread, add_counts},
    transfer::Evidence,
    units::sum_all,
};

/// Rows by the file that they are about. `None`: the file was not identified, or the bytes came
/// from another process's memory.
pub(super) type RowsByFile<'a> = BTreeMap<Option<FileId>, Vec<&'a Row>>;

/// What a process did with which file.
#[derive(Debug)]
pub(super) struct ProcessFacts<'a> {
    pub(super) process: &'a Process,
    files: &'a [File],
    /// Calls that name both ends.
    pub(super) copies: BTreeMap<(FileId, FileId), Vec<&'a Row>>,
    /// Calls that take bytes from a file and name no other file.
    pub(super) reads: RowsByFile<'a>,
    /// Calls that bring bytes to a file and name no other file, `vmsplice` among them.
    pub(super) writes: RowsByFile<'a>,
    /// All calls that wrote to each file, those that name both ends, too. A reflink writes nothing.
    pub(super) all_writes: RowsByFile<'a>,
    /// All calls that read from each file, likewise.
    pub(super) all_reads: RowsByFile<'a>,
    /// Calls that map a file.
    pub(super) mappings: BTreeMap<FileId, Vec<&'a Row>>,
    /// Bytes of further files in calls that wrote bytes of several, as far as these calls have rows.
    pub(super) parts: Vec<&'a Part>,
    /// What calls wrote from buffers that reads had filled.
    pub(super) buffers: BuffersByFiles,
    /// The files whose bytes were the same wherever they were compared.
    unchanged: BTreeSet<FileId>,
    /// The files that a call brought bytes to when it was cut off, so that nobody knows how many
    /// arrived. `None`: an unknown file.
    pub(super) cut_off: BTreeSet<Option<FileId>>,
    /// What went into each pipe and connection, and what came out.
    pub(super) moved: BTreeMap<FileId, Moved>,
}

impl<'a> ProcessFacts<'a> {
    /// Sorts the rows of a process. `files` are those that they name.
    pub(super) fn from_process(process: &'a Process, files: &'a [File]) -> Self {
        let mut facts = Self {
            process,
            files,
            copies: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            all_writes: BTreeMap::new(),
            all_reads: BTreeMap::new(),
            mappings: BTreeMap::new(),
            parts: Vec::new(),
            buffers: BuffersByFiles::new(),
            unchanged: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        for thread in &process.threads {
            facts.parts.extend(parts_in_rows(thread));
            for row in thread.all_rows() {
                facts
                    .cut_off
                    .extend(was_cut_off(row).then_some(row.ends.output));
                if row.calls > 0 {
                    facts.add_row(row);
                }
            }
        }
        for all in [&mut facts.all_reads, &mut facts.all_writes] {
            all.retain(|_, rows| rows.iter().any(|row| may_have_moved(row)));
        }
        let writes = facts.writes.values().flatten().copied();
        facts.buffers = sums_by_files(writes, facts.parts.iter().copied());
        facts.unchanged = unchanged_sources(&facts.buffers);
        facts.moved = facts.moved_through_conduits();
        facts
    }

    /// What the process moved through files that may be pipes or connections.
    fn moved_through_conduits(&self) -> BTreeMap<FileId, Moved> {
        let conduit = |file: Option<FileId>| file.filter(|file| may_be_conduit(self.kind(*file)));
        let mut moved: BTreeMap<FileId, Moved> = BTreeMap::new();
        for (file, rows) in &self.all_writes {
            if let Some(file) = conduit(*file) {
                moved.entry(file).or_insert(Moved::NOTHING).written = sum_bytes(rows);
            }
        }
        for (file, rows) in &self.all_reads {
            if let Some(file) = conduit(*file) {
                // `tee` takes nothing out.
                let mut rows = rows.clone();
                rows.retain(|row| row.call.as_ring_operation().unwrap_or(&row.call.name) != "tee");
                moved.entry(file).or_insert(Moved::NOTHING).read = sum_bytes(&rows);
            }
        }
        for file in self.cut_off.iter().filter_map(|file| conduit(*file)) {
            moved.entry(file).or_insert(Moved::NOTHING).is_cut_off = true;
        }
        moved
    }

    /// Whether it moved bytes of files that are not known. A call that reads another process's
    /// memory takes none out of a file.
    pub(super) fn lacks_files(&self) -> bool {
        let has_bytes = |rows: &RowsByFile<'_>| {
            let mut rows = rows.get(&None).cloned().unwrap_or_default();
            rows.retain(|row| row.call.spec().fds != Fds::None);
            sum_bytes(&rows) != Some(0)
        };
        self.cut_off.contains(&None) || has_bytes(&self.reads) || has_bytes(&self.writes)
    }

    fn add_row(&mut self, row: &'a Row) {
        match Role::of_row(row) {
            Role::Copies(from, to) => {
                self.copies.entry((from, to)).or_default().push(row);
                if row.call.spec().returned == Returned::Bytes {
                    self.all_reads.entry(Some(from)).or_default().push(row);
                    self.all_writes.entry(Some(to)).or_default().push(row);
                }
            }
            Role::Reads(file) => {
                self.reads.entry(file).or_default().push(row);
                self.all_reads.entry(file).or_default().push(row);
            }
            Role::Writes(to) => {
                self.writes.entry(to).or_default().push(row);
                self.all_writes.entry(to).or_default().push(row);
            }
            Role::Maps(file) => self.mappings.entry(file).or_default().push(row),
            Role::Other => {}
        }
    }

    /// The file, if known.
    pub(super) fn file(&self, id: FileId) -> Option<&'a File> {
        id.in_files(self.files)
    }

    /// Whether these files are the ends of one connection.
    pub(super) fn are_connected(&self, one: FileId, other: FileId) -> bool {
        let ends = self.file(one).zip(self.file(other));
        ends.is_some_and(|(one, other)| chains::are_connected(one, other))
    }

    /// Whether this is a pipe without a name.
    pub(super) fn is_nameless_pipe(&self, id: FileId) -> bool {
        self.file(id)
            .is_some_and(|file| file.kind == Some(FileKind::Pipe) && file.path.is_none())
    }

    /// Whether a file has the name of the program that runs, which maps itself: what is written from
    /// there is a constant of the program. The kernel side knows it by its inode, but not on
    /// overlayfs, where a mapping has another inode than the program's file.
    fn is_named_as_program(&self, id: FileId) -> bool {
        let name = |path: Option<&'a str>| path.map(file_name);
        let of_file = name(self.file(id).and_then(|file| file.path.as_deref()));
        of_file.is_some() && of_file == name(self.process.exe.as_deref())
    }

    /// Whether a file can be the end of a transfer.
    pub(super) fn carries_bytes(&self, id: FileId) -> bool {
        self.kind(id).is_none_or(FileKind::carries_bytes)
    }

    fn kind(&self, id: FileId) -> Option<FileKind> {
        self.file(id)?.kind
    }

    /// The file that a row's or a part's bytes came from, and how that is known, if rules 2 to 5 say
    /// so.
    pub(super) fn source_in_memory(
        &self,
        input: Option<Input>,
        to: FileId,
    ) -> Option<(FileId, Evidence)> {
        let found = match input? {
            Input::Named(_) | Input::Buffer(_, Content::OtherUse) => None,
            Input::Sequence(from) => Some((from, Evidence::Sequence)),
            Input::Mapping(from) => {
                (!self.is_named_as_program(from)).then_some((from, Evidence::Mapping))
            }
            Input::Buffer(from, _) => match self.word(from, to)? {
                PairWord::Observed => Some((from, Evidence::Buffer)),
                PairWord::Changed => Some((from, Evidence::Changed)),
                PairWord::Nothing => None,
            },
        };
        found.filter(|(from, _)| self.carries_bytes(*from) && self.carries_bytes(to))
    }

    /// The word for what went from buffers of one file to another. `None`: nothing did.
    ///
    /// What was not compared leans on what was: of the pair, or if that has nothing, of all that the
    /// process wrote from the source.
    pub(super) fn word(&self, from: FileId, to: FileId) -> Option<PairWord> {
        let sums = self.buffers.get(&(from, to))?;
        let leans = sums.is_uncompared() && self.unchanged.contains(&from);
        Some(if leans {
            PairWord::Observed
        } else {
            sums.word()
        })
    }

    /// How many buffers were forgotten, by the file that had been read into them; `None`: several.
    pub(super) fn forgotten(&self) -> BTreeMap<Option<FileId>, u64> {
        let mut sums = BTreeMap::new();
        for thread in &self.process.threads {
            add_counts(&mut sums, &thread.forgotten);
        }
        sums
    }

    /// How many calls wrote to each file from memory that may have been mapped.
    pub(super) fn unseen_mappings(&self) -> BTreeMap<FileId, u64> {
        let mut sums = BTreeMap::new();
        for thread in &self.process.threads {
            add_counts(&mut sums, &thread.unseen_mappings);
        }
        sums
    }

    /// How many bytes the process wrote to a file. `None`: some call does not say.
    pub(super) fn written_to(&self, to: FileId) -> Option<u64> {
        let rows = self.all_writes.get(&Some(to));
        rows.map_or(Some(0), |rows| sum_bytes(rows))
    }
}

/// The parts of a thread, without those of a call to a file that are more than what its rows leave:
/// without room, a call has no row with its files, but its parts are counted.
fn parts_in_rows(thread: &Thread) -> impl Iterator<Item = &Part> {
    let mut left: BTreeMap<(&Call, FileId), [u64; 2]> = BTreeMap::new();
    for part in &thread.parts {
        let [in_parts, _] = left.entry((&part.call, part.to)).or_default();
        *in_parts = in_parts.saturating_add(part.bytes);
    }
    for row in thread.all_rows() {
        let to = row.ends.output.map(|to| (&row.call, to));
        if let Some([_, in_rows]) = to.and_then(|to| left.get_mut(&to)) {
            let others = row.bytes.unwrap_or(0).saturating_sub(row.input_bytes);
            *in_rows = in_rows.saturating_add(others);
        }
    }
    let fits = move |part: &&Part| {
        let [in_parts, in_rows] = left[&(&part.call, part.to)];
        in_parts <= in_rows
    };
    thread.parts.iter().filter(fits)
}

/// Whether the calls of a row moved bytes, or may have.
fn may_have_moved(row: &Row) -> bool {
    row.calls > row.errors && row.bytes != Some(0)
}

/// The bytes that these rows moved. `None` if one of them does not say.
pub(super) fn sum_bytes(rows: &[&Row]) -> Option<u64> {
    let moving = rows.iter().filter(|row| row.calls > row.errors);
    sum_all(moving.map(|row| row.bytes))
}

/// Whether a call of this row brought bytes to a file when it was cut off: by the end of its
/// process, or by that of the trace.
///
/// A call that takes bytes from a file is not cut off in this sense: what it took went to the
/// memory of a process that has ended.
pub(crate) fn was_cut_off(row: &Row) -> bool {
    let brings = matches!(
        row.call.spec().fds,
        Fds::Writes(_) | Fds::Copies { .. } | Fds::ClonesRange { .. }
    );
    row.unfinished > 0 && (brings || row.ends.output.is_some())
}

/// What a row did with its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Moved bytes between two files that it names.
    Copies(FileId, FileId),
    /// Took bytes from a file, or from another process's memory.
    Reads(Option<FileId>),
    /// Brought bytes to a file.
    Writes(Option<FileId>),
    /// Mapped a file.
    Maps(FileId),
    /// None of these.
    Other,
}

impl Role {
    /// The role of a row.
    pub(crate) fn of_row(row: &Row) -> Self {
        let input = row.ends.input.map(Input::file);
        let output = row.ends.output;
        match (row.call.spec().fds, row.ends.input, output) {
            (Fds::On(_), ..) => Self::Other,
            (Fds::Maps(_), ..) => input.or(output).map_or(Self::Other, Self::Maps),
            (_, Some(Input::Named(from)), Some(to)) => Self::Copies(from, to),
            (Fds::Pipe(_), _, Some(pipe)) => Self::Writes(Some(pipe)),
            (Fds::Reads(_) | Fds::Pipe(_), _, _) => Self::Reads(input),
            (Fds::Writes(_), _, to) => Self::Writes(to),
            (Fds::None, ..) if row.call.name == "process_vm_readv" => Self::Reads(None),
            (Fds::None | Fds::Copies { .. } | Fds::ClonesRange { .. }, _, _) => Self::Other,
        }
    }
}
