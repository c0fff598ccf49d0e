//! [`Samples`]: who made the calls that the kernel side sampled. Stacks are unwound as soon as they
//! are read, and their bytes are dropped: they may contain secrets. Their functions get names when
//! the command has ended.

mod slowest_callers;

use std::{collections::HashMap, io};

use aya::maps::{MapData, RingBuf};
use rustix::time::ClockId;
use tokio::io::unix::AsyncFd;
use zc_ebpf::{
    CHUNK_BYTES, CodeMapped, FileNumber, RowKey, SampleHeader, SampledCall, SpaceCopied,
    sample_kind,
};
use zctrace_callers::{
    CodeFile, CodeMapping, RawStack, Spaces,
    sampled::{SampledRegisters, StackCopy},
    symbols,
};

use slowest_callers::SlowestCallers;

use super::{
    events::{ListedCallers, Message, read},
    found_code::{clock_ns, mapped_code},
};
use crate::{
    async_fd::watch_readable,
    backend::{Recorded, ebpf::load::map_sizes::SAMPLES_BYTES},
    trace::{CallerSums, File, SampleSum, SampledStack, StackId},
};

/// The messages about callers, and what they have said so far.
#[derive(Default)]
pub struct Samples {
    /// `None`: no callers are sampled.
    ring: Option<AsyncFd<RingBuf<MapData>>>,
    table: CallerTable,
    /// How many bytes of messages the batch may still have.
    left_in_batch: usize,
}

/// The most bytes of messages in a batch. The command may make calls faster than their stacks are
/// unwound, and signals and time limits must not wait for ever. The ring buffer has no more than
/// this, so a batch has every message that was there when it began.
const BATCH_BYTES: usize = SAMPLES_BYTES as usize;

/// The most samples whose times are kept. Writing a profile takes about 1 kB of memory for each.
const MAX_TIMED: usize = 1 << 17;

impl Samples {
    /// The messages of this ring buffer, if there is one. Call this in a tokio runtime.
    pub fn open(ring: Option<RingBuf<MapData>>, recorded: Recorded) -> io::Result<Self> {
        let ring = ring.map(watch_readable).transpose()?;
        let is_timed = recorded.has_caller_times();
        let table = CallerTable {
            left_to_time: if is_timed { MAX_TIMED } else { 0 },
            is_timed,
            ..CallerTable::default()
        };
        Ok(Self {
            ring,
            table,
            // No batch was read yet, so none was full.
            left_in_batch: BATCH_BYTES,
        })
    }

    /// Reads which code was mapped in address spaces, each of a process of this id, before the attach.
    pub fn note_found(&mut self, processes: impl IntoIterator<Item = (u32, u32)>) {
        if self.ring.is_none() {
            return;
        }
        for (space, pid) in processes {
            for mapping in mapped_code(pid) {
                self.table.spaces.map_code(space, mapping);
            }
        }
    }

    /// Waits until there are messages; never ready if no callers are sampled.
    pub async fn more(&mut self) -> io::Result<()> {
        if self.has_more() {
            return Ok(());
        }
        let Some(ring) = &mut self.ring else {
            return std::future::pending().await;
        };
        ring.readable_mut().await?.clear_ready();
        Ok(())
    }

    /// Whether the last batch was full, so that there may be more messages.
    pub fn has_more(&self) -> bool {
        self.ring.is_some() && self.left_in_batch == 0
    }

    /// Reads a batch of messages. `file_of` says what is known of the file with this number. Returns
    /// how many messages could not be parsed.
    pub fn read_batch(&mut self, mut file_of: impl FnMut(FileNumber) -> Option<File>) -> u64 {
        self.left_in_batch = BATCH_BYTES;
        let Some(ring) = &mut self.ring else { return 0 };
        let mut unreadable = 0;
        while self.left_in_batch > 0
            && let Some(bytes) = ring.get_mut().next()
        {
            self.left_in_batch = self.left_in_batch.saturating_sub(bytes.len());
            let known = self.table.record(&bytes, &mut file_of);
            unreadable += u64::from(known.is_none());
        }
        unreadable
    }

    /// Passes on who made the calls of a task. Its rows must have been read.
    pub fn take_task(&mut self, task: u32, apply: &mut dyn FnMut(Message)) {
        let sampled = self.table.by_task.remove(&task).unwrap_or_default();
        for (key, callers) in sampled.by_row {
            apply(Message::Callers(key, callers));
        }
        for (call, stack) in sampled.timed {
            apply(Message::TimedCall(call, stack));
        }
    }

    /// Passes on who made the calls of all tasks.
    pub fn take_all(&mut self, apply: &mut dyn FnMut(Message)) {
        let tasks: Vec<u32> = self.table.by_task.keys().copied().collect();
        for task in tasks {
            self.take_task(task, apply);
        }
    }

    /// Takes who made the first calls that touched something.
    pub fn take_touch_callers(&mut self) -> ListedCallers {
        std::mem::take(&mut self.table.touches)
    }

    /// Takes who made the slow calls that may be listed.
    pub fn take_slow_callers(&mut self) -> ListedCallers {
        std::mem::take(&mut self.table.slow_calls).into_callers()
    }

    /// What is missing, as a note.
    pub fn note(&self) -> Option<String> {
        let count = self.table.untimed;
        (count > 0).then(|| {
            format!("only the first {MAX_TIMED} samples have times, {count} more do not: sample fewer calls")
        })
    }

    /// The stacks, in the order of their ids, with the names of their functions. It reads the
    /// symbols of all files in them, and notes which cannot be read. `None` if no callers were
    /// sampled.
    pub fn into_stacks(self, notes: &mut Vec<String>) -> Option<Vec<SampledStack>> {
        self.ring?;
        let mut stacks: Vec<(RawStack, StackId)> = self.table.stacks.into_iter().collect();
        stacks.sort_by_key(|(_, id)| *id);
        let stacks: Vec<RawStack> = stacks.into_iter().map(|(stack, _)| stack).collect();
        let named = symbols::name_stacks(&stacks, &self.table.spaces);
        notes.extend(named.note());
        Some(named.stacks)
    }
}

/// Who made the calls that were sampled so far.
#[derive(Debug, Default)]
struct CallerTable {
    spaces: Spaces,
    /// The stacks so far, each with its number.
    stacks: HashMap<RawStack, StackId>,
    /// By the serial number of the task.
    by_task: HashMap<u32, SampledTask>,
    /// The stacks of first touches.
    touches: ListedCallers,
    /// Those of slow calls.
    slow_calls: SlowestCallers,
    /// Whether the times of samples are kept.
    is_timed: bool,
    /// How many more samples may be kept with their times.
    left_to_time: usize,
    /// How many were not kept.
    untimed: u64,
}

/// The samples of a task.
#[derive(Debug, Default)]
struct SampledTask {
    by_row: HashMap<RowKey, CallerSums>,
    /// The samples themselves, as far as they are kept.
    timed: Vec<(SampledCall, StackId)>,
}

impl CallerTable {
    /// Reads a message; `None` if it cannot be parsed.
    fn record(
        &mut self,
        bytes: &[u8],
        file_of: impl FnOnce(FileNumber) -> Option<File>,
    ) -> Option<()> {
        match read::<SampleHeader>(bytes)?.kind {
            kind @ (sample_kind::STACK | sample_kind::TOUCH | sample_kind::SLOW_CALL) => {
                let call: SampledCall = read(bytes)?;
                let id = self.unwind(&call, bytes.get(size_of::<SampledCall>()..)?);
                let key = (call.tid, call.entered_ns);
                match kind {
                    sample_kind::TOUCH => _ = self.touches.insert(key, id),
                    sample_kind::SLOW_CALL => self.slow_calls.add(call.duration_ns, key, id),
                    _ => self.add(&call, id),
                }
            }
            sample_kind::MAPPED => {
                let mapped: CodeMapped = read(bytes)?;
                let file = Some(mapped.file).filter(|&number| number != 0);
                let file = file.and_then(file_of).and_then(code_file);
                self.spaces
                    .map_code(mapped.header.space, mapping(&mapped, file));
            }
            sample_kind::COPIED => {
                let copied: SpaceCopied = read(bytes)?;
                self.spaces.copy_space(copied.from, copied.header.space);
            }
            _ => return None,
        }
        Some(())
    }

    /// The number of the stack of this call, whose bytes were copied.
    fn unwind(&mut self, call: &SampledCall, stack: &[u8]) -> StackId {
        let copy = StackCopy {
            start: call.stack_start,
            bytes: stack,
            piece_bytes: CHUNK_BYTES,
            filled: call.filled,
        };
        let registers = SampledRegisters::from_sample(&call.registers);
        let stack = self
            .spaces
            .unwind_stack(call.header.space, registers, &copy);
        let next = StackId(u32::try_from(self.stacks.len()).unwrap_or(u32::MAX));
        *self.stacks.entry(stack).or_insert(next)
    }

    /// Adds a sample. Keeps the time of the call if that is wanted and there is room.
    fn add(&mut self, call: &SampledCall, id: StackId) {
        let key = RowKey {
            task: call.task,
            call: call.call,
            errno: 0,
            ends: call.ends,
        };
        let sampled = self.by_task.entry(call.task).or_default();
        let callers = sampled.by_row.entry(key).or_default();
        *callers.entry(id).or_default() += SampleSum {
            samples: 1,
            calls: call.stands_for.into(),
        };
        if let Some(left) = self.left_to_time.checked_sub(1) {
            self.left_to_time = left;
            sampled.timed.push((*call, id));
        } else {
            self.untimed += u64::from(self.is_timed);
        }
    }
}

/// A time of `CLOCK_MONOTONIC` in ns since 1970.
fn since_1970(monotonic_ns: u64) -> i128 {
    i128::from(monotonic_ns) + clock_ns(ClockId::Realtime) - clock_ns(ClockId::Monotonic)
}

/// What was mapped.
fn mapping(mapped: &CodeMapped, file: Option<CodeFile>) -> CodeMapping {
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    CodeMapping {
        start: mapped.start,
        end: mapped.end,
        offset: mapped.page.saturating_mul(page_bytes),
        file,
        mapped_ns: Some(since_1970(mapped.time_ns)),
    }
}

/// A file that has code. `None`: it has no path that can be opened.
fn code_file(file: File) -> Option<CodeFile> {
    let path = file.path.filter(|path| path.starts_with('/'))?;
    let identity = file.identity?;
    Some(CodeFile {
        path,
        device: identity.device,
        inode: identity.inode,
        filesystem: file.filesystem,
    })
}
