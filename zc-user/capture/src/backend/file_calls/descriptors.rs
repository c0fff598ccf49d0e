//! What each process has open: the files behind its descriptors, and its working directory; and what the
//! handles of the kernel side stand for.

use std::collections::{HashMap, HashSet};

use zctrace_core::durable::{Names, NodeId};

use super::{
    call::{CallerId, ChildKind, FileHandle},
    shown::NamedFile,
};

/// What a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A file or directory.
    File(NodeId),
    /// What others read, and who they are: `stdout`, `tcp`.
    Others(&'static str),
    /// Nothing that a crash could take: a file of the kernel's own, an eventfd.
    Nothing,
}

impl Target {
    /// The file or directory; `None`: it is none.
    pub const fn file(self) -> Option<NodeId> {
        match self {
            Self::File(file) => Some(file),
            Self::Others(_) | Self::Nothing => None,
        }
    }
}

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDescription {
    /// What it is.
    pub target: Target,
    /// Whether a write returns when it is on the disk; `None`: unknown.
    pub is_synced: Option<bool>,
    /// Whether it was opened for reading alone, so that no mapping of it can be written to.
    pub is_read_only: bool,
    /// Whether an exec closes it.
    pub closes_on_exec: bool,
}

impl OpenDescription {
    /// One whose writes are in memory until a sync.
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            is_synced: Some(false),
            is_read_only: false,
            closes_on_exec: false,
        }
    }

    /// One that is no file, and who reads what is written there; `None`: nobody.
    pub const fn no_file(reader: Option<&'static str>) -> Self {
        Self::new(match reader {
            Some(reader) => Target::Others(reader),
            None => Target::Nothing,
        })
    }
}

/// A shared mapping that is writable, or can become so.
#[derive(Debug, Clone, Copy)]
pub struct MappedPages {
    /// Where it begins.
    pub address: u64,
    /// Its length, in whole pages.
    pub bytes: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// The file.
    pub file: NodeId,
}

impl MappedPages {
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// What is in this range of addresses; `None`: nothing.
    fn part_within(&self, start: u64, end: u64) -> Option<Self> {
        let (address, end) = (self.address.max(start), self.end().min(end));
        let bytes = end.checked_sub(address).filter(|bytes| *bytes > 0)?;
        Some(Self {
            address,
            bytes,
            offset: self.offset.saturating_add(address - self.address),
            ..*self
        })
    }
}

/// What a process has open. Its threads share it.
#[derive(Debug, Clone)]
pub struct Descriptors {
    /// The open files.
    pub files: HashMap<u32, OpenDescription>,
    /// The working directory.
    pub directory: NodeId,
    mappings: Vec<MappedPages>,
}

/// A length, rounded up to whole pages of the smallest size. The kernel wraps around in the same way.
pub const fn in_pages(bytes: u64) -> u64 {
    bytes.wrapping_add(4095) & !4095
}

/// The most shared mappings that are kept for each process.
const MAX_MAPPINGS: usize = 10_000;

/// The streams that a process begins with, and who reads what is written there. Errors go to stderr:
/// they acknowledge nothing.
const STREAMS: [(u32, Option<&str>); 2] = [(1, Some("stdout")), (2, None)];

impl Default for Descriptors {
    fn default() -> Self {
        Self {
            files: HashMap::from(
                STREAMS.map(|(fd, reader)| (fd, OpenDescription::no_file(reader))),
            ),
            directory: Names::START,
            mappings: Vec::new(),
        }
    }
}

impl Descriptors {
    /// Nothing is known but the working directory.
    pub fn nothing_open(directory: NodeId) -> Self {
        Self {
            files: HashMap::new(),
            directory,
            mappings: Vec::new(),
        }
    }

    /// What is open as this descriptor; `None`: unknown.
    pub fn known(&self, fd: u32) -> Option<OpenDescription> {
        self.files.get(&fd).copied()
    }

    /// Whether the calls show what this descriptor leads to. They do not for a stream that the process
    /// began with.
    pub fn shows_file_of(&self, fd: u32) -> bool {
        let is_stream = |open: OpenDescription| {
            let mut streams = STREAMS.into_iter();
            streams.any(|(stream, reader)| fd == stream && open == OpenDescription::no_file(reader))
        };
        self.known(fd).is_some_and(|open| !is_stream(open))
    }

    /// It maps something else in this range.
    pub fn unmap(&mut self, address: u64, bytes: u64) {
        self.take_mapped(address, bytes);
    }

    /// Takes away what is mapped in this range. If that is empty, only looks at its start.
    pub fn take_mapped(&mut self, address: u64, bytes: u64) -> Vec<MappedPages> {
        let end = address.saturating_add(bytes);
        if bytes == 0 {
            let mapped = self.mappings.iter().rev();
            let mut mapped = mapped.filter_map(|one| one.part_within(address, u64::MAX));
            return mapped
                .find(|one| one.address == address)
                .into_iter()
                .collect();
        }
        let all = std::mem::take(&mut self.mappings);
        let kept = all
            .iter()
            .flat_map(|one| [one.part_within(0, address), one.part_within(end, u64::MAX)]);
        self.mappings = kept.flatten().collect();
        all.iter()
            .filter_map(|one| one.part_within(address, end))
            .collect()
    }

    /// The part of a file that is mapped in this range, from its first address on.
    fn mapped_at(&self, address: u64, bytes: u64) -> Option<MappedPages> {
        let end = address.saturating_add(in_pages(bytes));
        let mut found = self
            .mappings
            .iter()
            .filter_map(|one| one.part_within(address, end));
        found.find(|one| one.address == address)
    }

    /// The files that are mapped in this range.
    pub fn mapped_in(&self, address: u64, bytes: u64) -> Vec<NodeId> {
        let end = address.saturating_add(bytes);
        let mapped = self.mappings.iter();
        let mapped = mapped.filter_map(|one| one.part_within(address, end));
        mapped.map(|one| one.file).collect()
    }

    /// It executes another program.
    pub fn execute(&mut self) {
        self.files.retain(|_, file| !file.closes_on_exec);
        self.mappings.clear();
    }
}

/// What all tasks have open.
#[derive(Debug, Default)]
pub struct DescriptorTables {
    all: Vec<Descriptors>,
    by_task: HashMap<CallerId, usize>,
    /// Those of processes that were created and have no line so far, by their ids.
    forked: HashMap<u32, Descriptors>,
    /// The part of each file that was ever mapped: from where to where.
    mapped: HashMap<NodeId, (u64, u64)>,
}

impl DescriptorTables {
    /// A task created a process of this id: it has what its creator has now.
    pub fn fork(&mut self, creator: CallerId, child: u32) {
        let copy = self.of_task(creator, None, None).clone();
        self.forked.insert(child, copy);
    }

    /// A task maps a part of a file.
    pub fn map(&mut self, task: CallerId, mapping: MappedPages) {
        let (start, end) = (mapping.offset, mapping.offset.saturating_add(mapping.bytes));
        let known = self.mapped.entry(mapping.file).or_insert((start, end));
        *known = (known.0.min(start), known.1.max(end));
        let mappings = &mut self.of_task(task, None, None).mappings;
        if mappings.len() < MAX_MAPPINGS {
            mappings.push(mapping);
        }
    }

    /// The file that a task has mapped in this range, if that is all that was ever mapped of it.
    pub fn whole_mapped_at(&self, task: CallerId, address: u64, bytes: u64) -> Option<NodeId> {
        let table = self.all.get(*self.by_task.get(&task)?)?;
        let one = table.mapped_at(address, bytes)?;
        let (start, end) = *self.mapped.get(&one.file)?;
        let is_whole = one.offset <= start && end <= one.offset.saturating_add(one.bytes);
        is_whole.then_some(one.file)
    }

    /// Whether other tasks share what this one has open.
    pub fn is_shared(&self, task: CallerId) -> bool {
        let own = self.by_task.get(&task);
        let with_it = self.by_task.values().filter(|index| Some(*index) == own);
        with_it.count() > 1
    }

    /// What a task has open. A new task has what its creator had.
    pub fn of_task(
        &mut self,
        task: CallerId,
        tid: Option<u32>,
        creator: Option<(CallerId, ChildKind)>,
    ) -> &mut Descriptors {
        let known = self.by_task.get(&task).copied();
        let index = known.unwrap_or_else(|| self.first_of(tid, creator));
        self.by_task.insert(task, index);
        &mut self.all[index]
    }

    fn first_of(&mut self, tid: Option<u32>, creator: Option<(CallerId, ChildKind)>) -> usize {
        let of_creator = creator.and_then(|(creator, _)| self.by_task.get(&creator).copied());
        if let (Some(index), Some((_, ChildKind::Thread))) = (of_creator, creator) {
            return index;
        }
        let forked = tid.and_then(|tid| self.forked.remove(&tid));
        let copy = forked.or_else(|| Some(self.all[of_creator?].clone()));
        self.all.push(copy.unwrap_or_default());
        self.all.len() - 1
    }
}

/// What is known of the handles that the kernel side gave files.
#[derive(Debug, Default)]
pub struct Handles {
    /// What they stand for.
    pub(super) known: HashMap<FileHandle, Target>,
    /// Files that a call has opened whose own message is to come.
    pub(super) opened: HashMap<FileHandle, NamedFile>,
    /// Of these, the ones that another call used before that message.
    pub(super) used_early: HashSet<FileHandle>,
    /// The file that the stream with this handle is.
    pub(super) streams: HashMap<FileHandle, NodeId>,
    /// The files that have a handle.
    files: HashSet<NodeId>,
    /// Whether a file has several.
    pub(super) has_aliases: bool,
}

impl Handles {
    /// A handle stands for this.
    pub(super) fn insert(&mut self, handle: FileHandle, target: Target) {
        self.known.insert(handle, target);
        if let Some(file) = target.file() {
            self.has_aliases |= !self.files.insert(file);
        }
    }
}
