//! [`ProcessFacts`]: the rows of a process, sorted by what the calls did with which file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    buffers::{PairWord, WritePart, words_of_pairs},
    chains::{self, Moved, may_be_conduit},
};
use crate::{
    counts::add_counts,
    syscalls::{Call, Fds, Returned},
    trace::{Content, File, FileId, FileKind, Input, Part, Process, Row, Thread},
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
    /// What calls wrote from memory, as far as they have rows.
    pub(super) pieces: Vec<WritePart<'a>>,
    /// The word for what went from buffers of one file to another.
    pub(super) words: BTreeMap<(FileId, FileId), PairWord>,
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
            pieces: Vec::new(),
            words: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            moved: BTreeMap::new(),
        };
        for thread in &process.threads {
            let parts = parts_in_rows(thread);
            facts.pieces.extend(parts.map(WritePart::of_part));
            for row in thread.all_rows() {
                if was_cut_off(row) {
                    facts.cut_off.insert(row.ends.output);
                }
                if row.calls > 0 {
                    facts.add_row(row);
                }
            }
        }
        for all in [&mut facts.all_reads, &mut facts.all_writes] {
            all.retain(|_, rows| rows.iter().any(|row| may_have_moved(row)));
        }
        let writes = facts.writes.values().flatten();
        let of_rows = writes.filter_map(|row| WritePart::of_row(row));
        facts.pieces.extend(of_rows);
        facts.pieces.retain(|piece| piece.bytes > 0);
        facts.words = words_of_pairs(&facts.pieces, files, |file| {
            let rows = facts.reads.get(&Some(file));
            rows.map_or(Some(0), |rows| sum_bytes(rows))
        });
        facts.moved = facts.moved_through_conduits();
        facts
    }

    /// What the process moved through files that may be pipes or connections.
    fn moved_through_conduits(&self) -> BTreeMap<FileId, Moved> {
        let files = self.all_writes.keys().chain(self.all_reads.keys());
        let files = files.chain(&self.cut_off).copied().flatten();
        let mut moved = BTreeMap::new();
        for file in files.filter(|file| may_be_conduit(self.file_kind(*file))) {
            let mut rows = self.all_reads.get(&Some(file)).cloned().unwrap_or_default();
            // `tee` takes nothing out.
            rows.retain(|row| row.call.as_ring_operation().unwrap_or(&row.call.name) != "tee");
            let through = Moved {
                written: self.written_to(file),
                read: sum_bytes(&rows),
                is_cut_off: self.cut_off.contains(&Some(file)),
            };
            moved.insert(file, through);
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
    pub(super) fn find_file(&self, id: FileId) -> Option<&'a File> {
        id.in_files(self.files)
    }

    /// Whether these files are the ends of one connection.
    pub(super) fn are_connected(&self, one: FileId, other: FileId) -> bool {
        match (self.find_file(one), self.find_file(other)) {
            (Some(one), Some(other)) => chains::are_connected(one, other),
            _ => false,
        }
    }

    pub(super) fn is_nameless_pipe(&self, id: FileId) -> bool {
        match self.find_file(id) {
            Some(file) => {
                file.kind == Some(FileKind::Pipe) && file.path.is_none() && file.sum.is_none()
            }
            None => false,
        }
    }

    /// Whether this stands for many files.
    pub(super) fn is_sum(&self, id: FileId) -> bool {
        self.find_file(id).is_some_and(|file| file.sum.is_some())
    }

    /// Whether a file can be the end of a transfer.
    pub(super) fn carries_bytes(&self, id: FileId) -> bool {
        self.file_kind(id).is_none_or(FileKind::carries_bytes)
    }

    fn file_kind(&self, id: FileId) -> Option<FileKind> {
        self.find_file(id)?.kind
    }

    /// How it is known that bytes went from here to a file, if rules 2 to 5 say so.
    pub(super) fn evidence_between(&self, from: Input, to: FileId) -> Option<Evidence> {
        let evidence = match from {
            Input::Named(_) | Input::Buffer(_, Content::OtherUse) => None,
            Input::Sequence(_) => Some(Evidence::Sequence),
            Input::Mapping(_) => Some(Evidence::Mapping),
            Input::Buffer(from, _) => self.words.get(&(from, to)).copied().flatten(),
        };
        evidence.filter(|_| self.carries_bytes(from.file()) && self.carries_bytes(to))
    }

    /// Counts by file of all threads.
    pub(super) fn sum_counts<K: Ord + Clone>(
        &self,
        of_thread: fn(&Thread) -> &BTreeMap<K, u64>,
    ) -> BTreeMap<K, u64> {
        let mut sums = BTreeMap::new();
        for thread in &self.process.threads {
            add_counts(&mut sums, of_thread(thread));
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
        if let Some(to) = row.ends.output
            && let Some([_, in_rows]) = left.get_mut(&(&row.call, to))
        {
            let others = row.bytes.unwrap_or(0).saturating_sub(row.sourced.bytes);
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
pub(super) fn may_have_moved(row: &Row) -> bool {
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

/// The files that a call names itself; not the file that was read before a write.
pub(crate) fn files_named_by(row: &Row) -> (Option<FileId>, Option<FileId>) {
    match Role::of_row(row) {
        Role::Copies(from, to) => (Some(from), Some(to)),
        Role::Reads(from) => (from, None),
        Role::Writes(to) => (None, to),
        Role::Maps(file) => (Some(file), None),
        Role::Other => (row.ends.input.map(Input::file), row.ends.output),
    }
}

impl Role {
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
