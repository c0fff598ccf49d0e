//! [`Spaces`]: which code is where in each address space, and the unwinding of stacks by it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use zctrace_core::trace::StackEnd;

use crate::{
    cfi::{self, UnwindStep, Unwinder},
    elf::Module,
    file::{CodeFile, MappedFile, Unusable},
    frame_pointers,
    sampled::{SampledRegisters, StackCopy},
};

/// Stacks are followed up to this many frames: a table can describe an endless loop.
const MAX_FRAMES: usize = 512;

/// Code in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeMapping {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// The file. `None`: it has none, or it is unknown.
    pub file: Option<CodeFile>,
    /// When it was mapped, in ns since 1970. `None`: unknown.
    pub mapped_ns: Option<i128>,
}

/// A file with code: its place in the list of [`Spaces`].
pub type FileIndex = usize;

/// A function of a stack before its name is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawFrame {
    /// The file that it is in. `None`: none that is known.
    pub file: Option<FileIndex>,
    /// An address of the instruction that called the next function, as the file states it. Without
    /// a file, an address in memory.
    pub address: u64,
    /// Whether the frame pointer led from here to the next frame, because there is no unwind table.
    pub is_by_frame_pointer: bool,
}

/// A stack without names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawStack {
    /// Its functions, from the one that made the call to the one that the thread began with.
    pub frames: Vec<RawFrame>,
    /// How it ends.
    pub end: StackEnd,
}

/// Code in an address space. The whole file counts as mapped, from its first part to its last.
#[derive(Debug, Clone, Copy)]
struct Placed {
    start: u64,
    end: u64,
    file: Option<FileIndex>,
    /// What has to be added to an address of the file.
    bias: u64,
}

/// A file, and what was found when it was first needed.
#[derive(Debug)]
struct OpenedFile {
    file: MappedFile,
    unwinder: Result<Unwinder, Unusable>,
}

/// Which code is where in each address space.
#[derive(Debug, Default)]
pub struct Spaces {
    by_number: HashMap<u32, Arc<Vec<Placed>>>,
    files: Vec<OpenedFile>,
    index: HashMap<MappedFile, FileIndex>,
}

impl Spaces {
    /// Notes that code was mapped in this address space. It replaces what was there.
    pub fn map_code(&mut self, space: u32, mapping: CodeMapping) {
        let CodeMapping {
            start,
            end,
            offset,
            file,
            mapped_ns,
        } = mapping;
        let mut placed = Placed {
            start,
            end,
            file: None,
            bias: 0,
        };
        if let Some(file) = file {
            let version = file.mapped_version(mapped_ns);
            let file = self.index_file(MappedFile { file, version });
            placed.file = Some(file);
            if let Ok(unwinder) = &self.files[file].unwinder
                && let Some(bias) = unwinder.module().bias(start, offset)
            {
                let (first, last) = unwinder.module().range(bias);
                (placed.start, placed.end) = (first.min(start), last.max(end));
                placed.bias = bias;
            }
        }
        let code = Arc::make_mut(self.by_number.entry(space).or_default());
        code.retain(|other| other.end <= placed.start || placed.end <= other.start);
        code.insert(
            code.partition_point(|other| other.start < placed.start),
            placed,
        );
    }

    /// Notes that an address space began as a copy of another.
    pub fn copy_space(&mut self, from: u32, space: u32) {
        if let Some(code) = self.by_number.get(&from).cloned() {
            self.by_number.insert(space, code);
        }
    }

    /// A file with code, and its build ID when it was mapped.
    pub fn file(&self, index: FileIndex) -> (&MappedFile, Option<&[u8]>) {
        let OpenedFile { file, unwinder } = &self.files[index];
        let unwinder = unwinder.as_ref().ok();
        let build_id = unwinder.and_then(|unwinder| unwinder.module().build_id.as_deref());
        (file, build_id)
    }

    fn index_file(&mut self, file: MappedFile) -> FileIndex {
        match self.index.entry(file) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let file = entry.key().clone();
                let unwinder = Module::read(&file).map(Unwinder::new);
                self.files.push(OpenedFile { file, unwinder });
                *entry.insert(self.files.len() - 1)
            }
        }
    }

    /// Unwinds a stack in this address space.
    pub fn unwind_stack(
        &self,
        space: u32,
        mut registers: SampledRegisters,
        stack: &StackCopy<'_>,
    ) -> RawStack {
        let code: &[Placed] = match self.by_number.get(&space) {
            Some(code) => code,
            None => &[],
        };
        let (mut frames, mut is_exact) = (Vec::new(), false);
        loop {
            // A return address is behind the call, and may already belong to the next function.
            let address = registers
                .instruction_pointer()
                .wrapping_sub(u64::from(!is_exact));
            let end = match self.unwind_step(code, address, &mut registers, stack, &mut frames) {
                Ok(UnwindStep::Caller { is_exact: exact }) if frames.len() < MAX_FRAMES => {
                    is_exact = exact;
                    continue;
                }
                Ok(UnwindStep::Caller { .. }) => StackEnd::TooManyFunctions,
                Ok(UnwindStep::Root) => StackEnd::Root,
                Err(end) => end,
            };
            return RawStack { frames, end };
        }
    }

    /// Adds the frame of this address and goes on to its caller.
    fn unwind_step(
        &self,
        code: &[Placed],
        address: u64,
        registers: &mut SampledRegisters,
        stack: &StackCopy<'_>,
        frames: &mut Vec<RawFrame>,
    ) -> Result<UnwindStep, StackEnd> {
        let placed = code
            .partition_point(|placed| placed.start <= address)
            .checked_sub(1)
            .map(|index| code[index]);
        let placed = placed.filter(|placed| address < placed.end);
        let in_file = placed.and_then(|placed| Some((placed.file?, placed.bias)));
        let bias = in_file.map_or(0, |(_, bias)| bias);
        let address = address.wrapping_sub(bias);
        let is_first = frames.is_empty();
        frames.push(RawFrame {
            file: in_file.map(|(file, _)| file),
            address,
            is_by_frame_pointer: false,
        });
        let (file, _) = in_file.ok_or(StackEnd::NoFile)?;
        let OpenedFile { file, unwinder } = &self.files[file];
        let file = &file.file;
        let unwinder = unwinder.as_ref().map_err(|why| match why {
            Unusable::Gone => StackEnd::FileGone(file.path.clone()),
            Unusable::Replaced => StackEnd::FileReplaced(file.path.clone()),
        })?;
        let failure = match unwinder.step(address, bias, registers, stack) {
            Ok(step) => return Ok(step),
            Err(failure) => failure,
        };
        Err(match failure {
            cfi::Failure::NoTable if unwinder.module().begins_at(address) => {
                return Ok(UnwindStep::Root);
            }
            cfi::Failure::NoTable if unwinder.module().has_frame_pointers => {
                if let Some(last) = frames.last_mut() {
                    last.is_by_frame_pointer = true;
                }
                let caller = frame_pointers::by_frame_pointer(registers, stack, is_first);
                return caller.map_err(|_| StackEnd::NoUnwindTable(file.path.clone()));
            }
            cfi::Failure::NoTable => StackEnd::NoUnwindTable(file.path.clone()),
            cfi::Failure::BadTable => StackEnd::BadUnwindTable(file.path.clone()),
            cfi::Failure::Unreadable(address) if stack.ends_before(address) => StackEnd::TooDeep,
            cfi::Failure::Unreadable(_) => StackEnd::Unreadable,
        })
    }
}
