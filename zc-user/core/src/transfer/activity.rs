//! [`Activity`]: the rows of a process, sorted by what the calls did with which file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    flow::{moving_calls, sum_bytes},
    hidden::{self, HiddenWays},
};
use crate::{
    syscalls::{Fds, data_calls},
    text::file_name,
    trace::{File, FileId, FileKind, Input, Part, Process, Row, STRACE, Trace},
};

/// The rows of a process, by role and file.
#[derive(Debug)]
pub(super) struct Activity<'a> {
    pub(super) process: &'a Process,
    files: &'a [File],
    /// Calls that name both ends.
    pub(super) copies: BTreeMap<(FileId, FileId), Vec<&'a Row>>,
    /// Calls that take bytes from a file and name no other file. `None`: the file was not
    /// identified, or the bytes came from another process's memory.
    pub(super) reads: BTreeMap<Option<FileId>, Vec<&'a Row>>,
    /// Calls that bring bytes to a file and name no other file, likewise.
    pub(super) writes: BTreeMap<Option<FileId>, Vec<&'a Row>>,
    /// The part of `writes` whose buffer lies in a mapping: by mapped file and written file.
    pub(super) from_mappings: BTreeMap<(FileId, FileId), Vec<&'a Row>>,
    /// The part of `writes` whose buffer holds bytes that were read before, by any thread: by file
    /// read and file written.
    pub(super) from_buffers: BTreeMap<(FileId, FileId), FromBuffer<'a>>,
    /// Calls that lend memory to a pipe (`vmsplice`), by pipe.
    pub(super) lent: BTreeMap<FileId, Vec<&'a Row>>,
    /// Calls that map a file.
    pub(super) mappings: BTreeMap<FileId, Vec<&'a Row>>,
    /// The files that a call brought bytes to when it was cut off, so that nobody knows how many
    /// arrived. `None`: an unknown file.
    pub(super) cut_off: BTreeSet<Option<FileId>>,
    /// What each thread read, and what it wrote afterwards.
    pub(super) threads: Vec<ThreadActivity<'a>>,
    /// Whether `reads` and `mappings` are complete: every call that can bring bytes into memory was
    /// counted.
    counts_reads: bool,
    /// Whether the backend sees memory, so that `from_buffers` and `from_mappings` are complete.
    pub(super) sees_memory: bool,
    /// By which other ways bytes may have got into its memory: what its own rows show, and with
    /// [`with`](Self::with) the whole trace.
    pub(super) hidden_ways: HiddenWays,
    /// Whether the kernel moved bytes for the process that are in no row, or in none with their
    /// files: by Linux AIO, by an `io_uring` that the backend does not see, or by calls for whose
    /// files there was no room.
    pub(super) has_unseen_operations: bool,
}

/// What was written to one file from buffers that hold bytes of another.
#[derive(Debug, Default)]
pub(super) struct FromBuffer<'a> {
    /// Calls whose sampled bytes were the same as when they were read.
    pub(super) same: Vec<&'a Row>,
    /// The same, but these bytes may have been written there before.
    pub(super) again: Vec<&'a Row>,
    /// Calls whose sampled bytes differed.
    pub(super) changed: Vec<&'a Row>,
    /// Calls without a sample.
    pub(super) unsampled: Vec<&'a Row>,
    /// Parts of calls that wrote bytes of several files.
    pub(super) parts: Vec<&'a Part>,
}

/// What a thread read and wrote, and which of that belongs together by the order of its calls.
#[derive(Debug, Default)]
pub(super) struct ThreadActivity<'a> {
    /// Reads, by file. `None`: the file was not identified, or the bytes came from another
    /// process's memory.
    pub(super) reads: BTreeMap<Option<FileId>, Vec<&'a Row>>,
    /// All writes, by file.
    pub(super) writes: BTreeMap<FileId, Vec<&'a Row>>,
    /// The part of `writes` that followed reads, where memory does not show the source: by source,
    /// then destination.
    pub(super) writes_after: BTreeMap<FileId, BTreeMap<FileId, Vec<&'a Row>>>,
    /// The bytes of each source that memory accounts for.
    pub(super) explained: BTreeMap<FileId, u64>,
}

impl<'a> ThreadActivity<'a> {
    fn read(&mut self, from: Option<FileId>, row: &'a Row) {
        self.reads.entry(from).or_default().push(row);
    }

    fn write(&mut self, source: Option<Input>, to: FileId, row: &'a Row) {
        self.writes.entry(to).or_default().push(row);
        match source {
            Some(Input::ByOrder(from)) => self
                .writes_after
                .entry(from)
                .or_default()
                .entry(to)
                .or_default()
                .push(row),
            Some(
                Input::ByBuffer(from)
                | Input::ByBufferAgain(from)
                | Input::ByChangedBuffer(from)
                | Input::ByUnsampledBuffer(from),
            ) => {
                self.explain(from, row.paired_bytes);
            }
            Some(Input::Named(_) | Input::ByMapping(_)) | None => {}
        }
    }

    fn explain(&mut self, from: FileId, bytes: u64) {
        let sum = self.explained.entry(from).or_default();
        *sum = sum.saturating_add(bytes);
    }
}

impl<'a> Activity<'a> {
    /// Sorts the rows of a process by their roles. `files` are those that its rows name.
    pub(super) fn of(process: &'a Process, trace: &Trace, files: &'a [File]) -> Self {
        let mut activity = Self {
            process,
            files,
            copies: BTreeMap::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            from_mappings: BTreeMap::new(),
            lent: BTreeMap::new(),
            mappings: BTreeMap::new(),
            from_buffers: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            threads: Vec::new(),
            counts_reads: counts_reads(trace),
            sees_memory: trace.sees_memory,
            hidden_ways: HiddenWays {
                brought_bytes: hidden::received(process),
                poked: false,
            },
            has_unseen_operations: false,
        };
        for thread in &process.threads {
            activity.cut_off.extend(
                thread
                    .rows
                    .iter()
                    .filter(|row| was_cut_off(row))
                    .map(|row| row.ends.output),
            );
            let mut in_thread = ThreadActivity::default();
            for row in thread
                .rows
                .iter()
                .chain(&thread.ring_rows)
                .filter(|row| row.calls > 0)
            {
                activity.has_unseen_operations |= row.is_unseen_submission()
                    && (row.call.name == "io_submit" || trace.backend == STRACE);
                activity.has_unseen_operations |=
                    trace.calls_without_files > 0 && has_unknown_end(row);
                activity.sort(row, &mut in_thread);
            }
            for part in &thread.parts {
                let from = part.from.file();
                in_thread.explain(from, part.bytes);
                activity
                    .from_buffers
                    .entry((from, part.to))
                    .or_default()
                    .parts
                    .push(part);
            }
            activity.threads.push(in_thread);
        }
        activity
    }

    /// The same in a trace that has these hidden ways.
    pub(super) fn with(self, hidden_ways: HiddenWays) -> Self {
        let brought_bytes = hidden_ways.brought_bytes || self.hidden_ways.brought_bytes;
        Self {
            hidden_ways: HiddenWays {
                brought_bytes,
                ..hidden_ways
            },
            ..self
        }
    }

    fn sort(&mut self, row: &'a Row, thread: &mut ThreadActivity<'a>) {
        match Role::of(row) {
            Role::Copies(from, to) => self.copies.entry((from, to)).or_default().push(row),
            Role::Reads(file) => {
                self.reads.entry(file).or_default().push(row);
                thread.read(file, row);
            }
            Role::Lends(pipe) => self.lent.entry(pipe).or_default().push(row),
            Role::Writes(source, to) => {
                self.writes.entry(to).or_default().push(row);
                let Some(to) = to else { return };
                thread.write(source, to, row);
                match source {
                    Some(Input::ByMapping(from)) => {
                        self.from_mappings.entry((from, to)).or_default().push(row)
                    }
                    Some(Input::ByBuffer(from)) => self
                        .from_buffers
                        .entry((from, to))
                        .or_default()
                        .same
                        .push(row),
                    Some(Input::ByBufferAgain(from)) => self
                        .from_buffers
                        .entry((from, to))
                        .or_default()
                        .again
                        .push(row),
                    Some(Input::ByChangedBuffer(from)) => self
                        .from_buffers
                        .entry((from, to))
                        .or_default()
                        .changed
                        .push(row),
                    Some(Input::ByUnsampledBuffer(from)) => self
                        .from_buffers
                        .entry((from, to))
                        .or_default()
                        .unsampled
                        .push(row),
                    Some(Input::Named(_) | Input::ByOrder(_)) | None => {}
                }
            }
            Role::Maps(file) => self.mappings.entry(file).or_default().push(row),
            Role::Other => {}
        }
    }

    /// The file, if known.
    pub(super) fn file(&self, id: FileId) -> Option<&'a File> {
        self.files.get(usize::try_from(id.0).ok()?)
    }

    /// The kind of the file, if known.
    pub(super) fn kind(&self, id: FileId) -> Option<FileKind> {
        self.file(id)?.kind
    }

    /// Whether a file looks like the program of the process or a shared library. These are mapped
    /// in order to be run.
    pub(super) fn is_program(&self, id: FileId) -> bool {
        let is_library =
            |(_, version): (&str, &str)| version.is_empty() || version.starts_with('.');
        self.name(id)
            .is_some_and(|name| name.rsplit_once(".so").is_some_and(is_library))
            || self.is_executed(id)
    }

    /// Whether a file has the name of the program that the process runs.
    pub(super) fn is_executed(&self, id: FileId) -> bool {
        let name = self.name(id);
        name.is_some() && name == self.process.exe.as_deref().map(file_name)
    }

    /// Whether the process read and mapped nothing but programs, what their loader reads, and the
    /// list of its own mappings, which glibc reads to find the stack, and received nothing by a
    /// hidden way. Any other mapping of a file is a way in, shared or not, and so is one of a file
    /// in /dev/shm or of a memfd. What stays unknown is whether somebody changes a program or
    /// library while it is mapped.
    pub(super) fn reads_nothing(&self) -> bool {
        let path = |id: FileId| {
            self.file(id)
                .and_then(|file| file.path.as_deref())
                .unwrap_or_default()
        };
        let is_maps = |id: FileId| path(id).starts_with("/proc/") && path(id).ends_with("/maps");
        let is_loaded = |id: &FileId| self.is_program(*id) || self.name(*id) == Some("ld.so.cache");
        let moved = |rows: &[&Row]| sum_bytes(rows) != Some(0);
        let mut reads = self.reads.iter().filter(|(_, rows)| moved(rows));
        // The loader reads only the head of a library. A process that reads more may be copying it.
        let is_head = |rows: &[&Row]| {
            sum_bytes(rows)
                .is_some_and(|bytes| bytes <= moving_calls(rows).saturating_mul(MOST_HEAD_BYTES))
        };
        let is_untouched = self.hidden_ways == HiddenWays::default();
        self.counts_reads
            && is_untouched
            && reads.all(|(file, rows)| {
                file.is_some_and(|file| is_maps(file) || (is_loaded(&file) && is_head(rows)))
            })
            && self.mappings.keys().all(is_loaded)
    }

    fn name(&self, id: FileId) -> Option<&'a str> {
        self.file(id)?.path.as_deref().map(file_name)
    }

    /// Whether a call that brought bytes to this file was cut off, so that more may have arrived
    /// than rows show.
    pub(super) fn is_cut_off(&self, to: FileId) -> bool {
        self.cut_off.contains(&Some(to))
    }

    /// Whether calls were cut off that may have brought bytes to files that can be the end of a
    /// transfer.
    pub(super) fn lacks_written_bytes(&self) -> bool {
        self.cut_off
            .iter()
            .any(|to| to.is_none_or(|to| self.carries_bytes(to)))
    }

    /// Whether what was read from a file may be data that the process writes on. An unknown file
    /// may.
    pub(super) fn is_data(&self, id: Option<FileId>) -> bool {
        id.is_none_or(|id| self.carries_bytes(id) && !self.is_program(id))
    }

    /// Whether a file can be the end of a transfer.
    pub(super) fn carries_bytes(&self, id: FileId) -> bool {
        self.kind(id).is_none_or(FileKind::carries_bytes)
    }
}

/// The loader reads at most this many bytes of a library at once: `struct filebuf` in glibc's
/// elf/dl-load.c.
const MOST_HEAD_BYTES: u64 = 832;

/// Whether every call that can bring bytes into memory was counted.
fn counts_reads(trace: &Trace) -> bool {
    let reads = data_calls()
        .filter(|spec| matches!(spec.fds, Fds::Reads(_)))
        .map(|spec| spec.name);
    let counted = trace.counted.as_ref();
    counted.is_some_and(|counted| {
        reads
            .chain(["mmap", "vmsplice"])
            .all(|name| counted.contains(name))
    })
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
    /// Brought bytes to a file. The first field is what is known of their source.
    Writes(Option<Input>, Option<FileId>),
    /// Lent memory to a pipe.
    Lends(FileId),
    /// Mapped a file.
    Maps(FileId),
    /// None of these.
    Other,
}

/// Whether the calls of this row moved bytes, and a file that they name is not known.
fn has_unknown_end(row: &Row) -> bool {
    let is_unknown = match row.call.spec().fds {
        Fds::Reads(_) => row.ends.input.is_none(),
        Fds::Writes(_) => row.ends.output.is_none(),
        Fds::Pipe(_) => row.ends.input.is_none() && row.ends.output.is_none(),
        Fds::Copies { .. } | Fds::ClonesRange { .. } => {
            row.ends.input.is_none() || row.ends.output.is_none()
        }
        Fds::None | Fds::On(_) => false,
    };
    is_unknown && row.bytes != Some(0)
}

impl Role {
    /// The role of a row.
    pub(crate) fn of(row: &Row) -> Self {
        let input = row.ends.input.map(Input::file);
        let output = row.ends.output;
        match (row.call.spec().fds, row.ends.input, output) {
            (Fds::On(_), _, _) => match input {
                Some(file) if matches!(row.call.name.as_ref(), "mmap" | "mmap2") => {
                    Self::Maps(file)
                }
                _ => Self::Other,
            },
            (_, Some(Input::Named(from)), Some(to)) => Self::Copies(from, to),
            (Fds::Pipe(_), _, Some(pipe)) => Self::Lends(pipe),
            (Fds::Reads(_) | Fds::Pipe(_), _, _) => Self::Reads(input),
            (Fds::Writes(_), source, to) => Self::Writes(source, to),
            (Fds::None, ..) if row.call.name == "process_vm_readv" => Self::Reads(None),
            (Fds::None | Fds::Copies { .. } | Fds::ClonesRange { .. }, _, _) => Self::Other,
        }
    }
}
