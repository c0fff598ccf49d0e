//! Reads the sums of the kernel side from its maps, and gives the files in them their places in the trace. The kernel side may know one file
//! by several numbers; it is in the trace once.

use std::collections::{BTreeMap, HashMap, HashSet};

use aya::maps::{Array, HashMap as KernelHashMap, MapData, MapError, PerCpuArray};
use zc_ebpf::{
    CHANGED, CallId, Ends as NumberedEnds, ErrnoKey, FROM_BUFFER, FileNumber, MAPPED, NO_CALL, RowKey, STREAM_FILES, TABLE_SLOTS,
    Task, UNSAMPLED, other, phase, stream_slot,
};

use super::events::sum_of;
use crate::{
    histogram::Histogram,
    syscall::{Call, Fds},
    trace::{
        Ends, FailedPath, FailedPaths, File, FileId, FileIdentity, GivenPath, Input, Loss, OtherCalls, Part, Row, Stream,
        Streams, Times,
    },
};

/// The maps that are read when a trace ends.
pub struct Maps {
    pub tasks: KernelHashMap<MapData, u64, Task>,
    /// Calls without files, and calls with files.
    pub rows: [KernelHashMap<MapData, RowKey, zc_ebpf::Row>; 2],
    /// What calls wrote from more files than a row has room for.
    pub parts: KernelHashMap<MapData, RowKey, zc_ebpf::Part>,
    /// The errnos of calls without files, and of those with.
    pub errnos: [KernelHashMap<MapData, ErrnoKey, u64>; 2],
    /// The calls without rows, by [`spec_slot`](zc_ebpf::spec_slot).
    pub other_calls: PerCpuArray<MapData, zc_ebpf::OtherCalls>,
    /// The failed calls by path.
    pub failed_paths: KernelHashMap<MapData, zc_ebpf::FailedPath, u64>,
    pub losses: PerCpuArray<MapData, u64>,
    /// What was read from each file and written to it.
    pub streams: Array<MapData, zc_ebpf::Stream>,
}

/// A call that has not returned.
const UNFINISHED: OtherCalls = OtherCalls { unfinished: 1, ..OtherCalls::NONE };

impl Maps {
    /// The live tasks that are in scope.
    pub fn live_tasks(&self) -> Result<Vec<Task>, MapError> {
        let tasks: Vec<Task> = self.tasks.iter().map(|entry| entry.map(|(_, task)| task)).collect::<Result<_, _>>()?;
        Ok(tasks.into_iter().filter(|task| task.phase == phase::ACTIVE).collect())
    }

    /// All rows by the serial number of their task. A call that a live task is in counts as unfinished.
    pub fn rows(&self, live: &[Task], files: FileTable) -> Result<Rows, MapError> {
        let calls_without_files = self.lost(zc_ebpf::Loss::UncountedPart)?;
        let mut sums = Sums { rows: HashMap::new(), parts: HashMap::new(), files, calls_without_files };
        let rows: Result<Vec<_>, _> = self.rows.iter().flat_map(KernelHashMap::iter).collect();
        let mut rows = rows?;
        // The files of the trace are in the order of their first use.
        rows.sort_unstable_by_key(|(_, row)| row.first_ns);
        // The kernel side may have created a row and not used it.
        for (key, row) in rows.iter().filter(|(_, row)| row.calls > 0 || row.unfinished > 0) {
            sums.calls_without_files += row.without_files;
            add(sums.row(key.task, key.call, key.ends), row);
        }
        for entry in &self.parts {
            let (key, part) = entry?;
            sums.part(key, &part);
        }
        for entry in self.errnos.iter().flat_map(KernelHashMap::iter) {
            let (key, count) = entry?;
            if count > 0 {
                *sums.row(key.task, key.call, key.ends).errnos.entry(key.errno).or_default() += count;
            }
        }
        for task in live {
            // A call that a signal interrupted and that has not been restarted yet has not returned, either.
            let call = if task.call == NO_CALL { task.interrupted } else { task.call };
            if call != NO_CALL {
                sums.calls_without_files += u64::from(task.ends.lack_room());
                let ends = if task.ends.lack_room() { zc_ebpf::Ends::NONE } else { task.ends };
                let row = sums.row(task.serial, call, ends);
                row.unfinished += 1;
                row.order = row.order.or(Some(task.entered_ns));
            }
        }
        sums.files.set_streams(|number| self.streams(number))?;
        let mut rows = sums.finish();
        for task in live {
            let mut sum = sum_of(&task.other_calls);
            if task.other != other::NONE {
                sum += UNFINISHED;
            }
            rows.by_task.entry(task.serial).or_default().other_calls = Some(sum);
        }
        Ok(rows)
    }

    /// How many calls returned so far, and the bytes that they moved.
    pub fn calls_and_bytes(&self) -> Result<(u64, u64), MapError> {
        let (mut calls, mut bytes) = (0, 0_u64);
        for entry in self.rows.iter().flat_map(KernelHashMap::iter) {
            let (key, row) = entry?;
            // Operations of io_uring are no calls.
            calls += if key.call & zc_ebpf::RING == 0 { row.calls } else { 0 };
            bytes = bytes.saturating_add(row.bytes);
        }
        let others = self.other_calls(&[])?;
        Ok((calls + others.values().map(|sums| sums.calls).sum::<u64>(), bytes))
    }

    /// The calls that have no rows. One that a live task is in counts as unfinished.
    pub fn other_calls(&self, live: &[Task]) -> Result<BTreeMap<Call, OtherCalls>, MapError> {
        let mut by_call = BTreeMap::new();
        for slot in 0..2 * TABLE_SLOTS {
            let mut sum = OtherCalls::NONE;
            for on_cpu in self.other_calls.get(&slot, 0)?.iter() {
                sum += sum_of(on_cpu);
            }
            if !sum.is_none() {
                by_call.insert(Call::from_slot(slot), sum);
            }
        }
        for task in live.iter().filter(|task| task.other != other::NONE) {
            *by_call.entry(Call::from_slot(task.slot)).or_insert(OtherCalls::NONE) += UNFINISHED;
        }
        Ok(by_call)
    }

    /// The calls that take a path and failed.
    pub fn failed_paths(&self) -> Result<FailedPaths, MapError> {
        let mut failed = FailedPaths { left_out: self.lost(zc_ebpf::Loss::UncountedPath)?, ..FailedPaths::default() };
        for entry in &self.failed_paths {
            let (key, calls) = entry?;
            // The kernel side may have created an entry and not used it.
            if calls > 0 {
                *failed.calls.entry(failed_path(&key)).or_default() += calls;
            }
        }
        Ok(failed)
    }

    /// The streams of a file.
    fn streams(&self, number: FileNumber) -> Result<Streams, MapError> {
        if number >= STREAM_FILES {
            return Ok(Streams::default());
        }
        let stream = |is_written| {
            let zc_ebpf::Stream { bytes, sum, telling, .. } = self.streams.get(&stream_slot(number, is_written), 0)?;
            Ok::<_, MapError>((bytes > 0).then_some(Stream { bytes, sum, telling }))
        };
        Ok(Streams { read: stream(false)?, written: stream(true)? })
    }

    /// How much the kernel side lost.
    pub fn losses(&self) -> Result<Vec<(Loss, u64)>, MapError> {
        use zc_ebpf::Loss as Kernel;
        [
            (Kernel::UnfollowedTask, Loss::UnfollowedTasks),
            (Kernel::UncountedCall, Loss::UncountedCalls),
            (Kernel::UncountedErrno, Loss::UncountedErrnos),
            (Kernel::LostEvent, Loss::LostEvents),
            (Kernel::SilentOperation, Loss::SilentOperations),
            (Kernel::OverflowedOperation, Loss::OverflowedOperations),
            (Kernel::OtherThread, Loss::OtherThreads),
        ]
        .into_iter()
        .map(|(kernel, loss)| Ok((loss, self.lost(kernel)?)))
        .collect()
    }

    /// A note on calls that were counted without their times, if there are any. They do not make any figure a lower bound.
    pub fn untimed_note(&self) -> Result<Option<String>, MapError> {
        let count = self.lost(zc_ebpf::Loss::UntimedCall)?;
        Ok((count > 0).then(|| format!("seccomp answered {count} calls before the kernel ran them; their times are unknown")))
    }

    fn lost(&self, what: zc_ebpf::Loss) -> Result<u64, MapError> {
        Ok(self.losses.get(&(what as u32), 0)?.iter().sum())
    }
}

/// What the key of the kernel side says.
fn failed_path(key: &zc_ebpf::FailedPath) -> FailedPath {
    let text = usize::try_from(key.length).ok().and_then(|length| key.path.get(..length));
    let path = text.map(|text| GivenPath {
        text: String::from_utf8_lossy(text).into_owned(),
        is_cut: text.len() + 1 >= zc_ebpf::PATH_BYTES,
        is_below_descriptor: key.below_descriptor != 0,
    });
    FailedPath { call: Call::from_slot(key.slot), errno: key.errno, path }
}

/// What was counted for a task.
#[derive(Debug, Default)]
pub struct TaskCounts {
    pub rows: Vec<Row>,
    pub parts: Vec<Part>,
    /// The calls without rows of a live task.
    pub other_calls: Option<OtherCalls>,
}

/// All that was counted.
pub struct Rows {
    /// By the serial number of the task.
    pub by_task: HashMap<u32, TaskCounts>,
    /// The files that the rows name.
    pub files: Vec<File>,
    /// Calls in rows that lack their files.
    pub calls_without_files: u64,
    /// How many of the files nothing is known of.
    unknown_files: u64,
}

impl Rows {
    /// A note on files that nothing is known of, if there are any.
    pub fn unknown_files_note(&self) -> Option<String> {
        let count = self.unknown_files;
        (count > 0).then(|| format!("nothing is known of {count} files: the kernel's messages did not fit into the buffer"))
    }
}

/// Rows while they are summed.
struct Sums {
    rows: HashMap<(u32, CallId, Ends), Row>,
    parts: HashMap<(u32, CallId, Ends), Part>,
    files: FileTable,
    calls_without_files: u64,
}

impl Sums {
    fn row(&mut self, task: u32, id: CallId, ends: zc_ebpf::Ends) -> &mut Row {
        let call = Call::from_id(id);
        let ends = self.files.ends(&call, ends);
        self.rows.entry((task, id, ends)).or_insert_with(|| Row::new(call, ends))
    }

    /// Adds a part. Two numbers may stand for the same file, so parts are summed like rows.
    fn part(&mut self, key: RowKey, part: &zc_ebpf::Part) {
        let call = Call::from_id(key.call);
        let ends = self.files.ends(&call, key.ends);
        let Ends { input: Some(from), output: Some(to) } = ends else { return };
        let empty = || Part { call, from, to, bytes: 0, calls: 0, checked_calls: 0 };
        let sum = self.parts.entry((key.task, key.call, ends)).or_insert_with(empty);
        sum.bytes += part.bytes;
        sum.calls += part.calls;
        sum.checked_calls += part.checked_calls;
    }

    fn finish(self) -> Rows {
        let mut by_task: HashMap<u32, TaskCounts> = HashMap::new();
        for ((task, ..), row) in self.rows {
            by_task.entry(task).or_default().rows.push(row);
        }
        for ((task, ..), part) in self.parts {
            by_task.entry(task).or_default().parts.push(part);
        }
        let (files, unknown_files) = self.files.into_placed();
        Rows { by_task, files, calls_without_files: self.calls_without_files, unknown_files }
    }
}

fn add(sum: &mut Row, row: &zc_ebpf::Row) {
    sum.calls += row.calls;
    sum.errors += row.errors;
    sum.unfinished += row.unfinished;
    sum.paired_bytes += row.paired_bytes;
    sum.checked_calls += row.checked_calls;
    sum.zero_calls += row.zero_calls;
    sum.short_calls += row.short_calls;
    sum.order = earlier(sum.order, row.first_ns);
    sum.last_order = sum.last_order.max((row.last_ns > 0).then_some(row.last_ns));
    sum.moved_order = earlier(sum.moved_order, row.moved_ns);
    // A sum that overflows is unknown.
    sum.bytes = sum.bytes.and_then(|bytes| bytes.checked_add(row.bytes));
    let requested = sum.requested_bytes.filter(|_| row.requested_unknown == 0);
    sum.requested_bytes = requested.and_then(|requested| requested.checked_add(row.requested_bytes));
    if row.min_ns == u64::MAX {
        return;
    }
    let times =
        sum.times.get_or_insert_with(|| Times { total_ns: 0, min_ns: u64::MAX, max_ns: 0, histogram: Histogram::default() });
    times.total_ns = times.total_ns.saturating_add(row.total_ns);
    times.min_ns = times.min_ns.min(row.min_ns);
    times.max_ns = times.max_ns.max(row.max_ns);
    times.histogram.add_buckets(&row.histogram);
}

/// The earlier of two times; 0 means that there is none.
fn earlier(known: Option<u64>, ns: u64) -> Option<u64> {
    known.into_iter().chain((ns > 0).then_some(ns)).min()
}

/// Gives each file its index in [`Trace::files`](crate::trace::Trace::files).
#[derive(Debug, Clone, Default)]
pub struct FileTable {
    /// The latest message about each number.
    seen: HashMap<FileNumber, File>,
    placed: Vec<File>,
    by_number: HashMap<FileNumber, FileId>,
    by_identity: HashMap<(FileIdentity, Option<String>), FileId>,
    unknown: u64,
}

impl FileTable {
    /// Records a message about a file.
    pub fn record(&mut self, number: FileNumber, file: File) {
        self.seen.insert(number, file);
    }

    /// The files at the ends of a call. They become part of the trace.
    pub fn ends(&mut self, call: &Call, ends: NumberedEnds) -> Ends {
        let input = self.id(ends.input & !(MAPPED | FROM_BUFFER | CHANGED | UNSAMPLED)).map(|file| {
            if ends.input & MAPPED != 0 {
                Input::ByMapping(file)
            } else if ends.input & CHANGED != 0 {
                Input::ByChangedBuffer(file)
            } else if ends.input & UNSAMPLED != 0 {
                Input::ByUnsampledBuffer(file)
            } else if ends.input & FROM_BUFFER != 0 {
                Input::ByBuffer(file)
            } else if matches!(call.spec().fds, Fds::Writes(_)) {
                Input::ByOrder(file)
            } else {
                Input::Named(file)
            }
        });
        Ends { input, output: self.id(ends.output) }
    }

    /// The files of the trace, and how many of them nothing is known of because their message was lost.
    pub fn into_placed(self) -> (Vec<File>, u64) {
        (self.placed, self.unknown)
    }

    /// Fills in what was read and written of each file; `streams` looks it up by number.
    pub fn set_streams<E>(&mut self, streams: impl Fn(FileNumber) -> Result<Streams, E>) -> Result<(), E> {
        let mut seen = HashSet::new();
        for (&number, id) in &self.by_number {
            let Some(file) = usize::try_from(id.0).ok().and_then(|index| self.placed.get_mut(index)) else { continue };
            // If a file has two numbers, the order of their bytes is unknown.
            file.streams = if seen.insert(id) { streams(number)? } else { Streams::default() };
        }
        Ok(())
    }

    fn id(&mut self, number: FileNumber) -> Option<FileId> {
        if number == 0 {
            return None;
        }
        if let Some(&id) = self.by_number.get(&number) {
            return Some(id);
        }
        let id = self.place(number);
        self.by_number.insert(number, id);
        Some(id)
    }

    /// Adds a file, unless it is in the trace already under another number: the kernel may have dropped it from memory and read it again.
    /// It is the same file if path, device, inode and generation are the same. Without the path that is not certain: layers of an overlay,
    /// or a btrfs snapshot and its original, have the same numbers. So a file that comes back by another of its names counts as another
    /// file.
    fn place(&mut self, number: FileNumber) -> FileId {
        let next = FileId(u32::try_from(self.placed.len()).unwrap_or(u32::MAX));
        let file = self.seen.remove(&number).unwrap_or_else(|| {
            self.unknown += 1;
            File::default()
        });
        if let Some(identity) = file.identity {
            let id = *self.by_identity.entry((identity, file.path.clone())).or_insert(next);
            if id != next {
                return id;
            }
        }
        self.placed.push(file);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(filesystem: &str, inode: u64, path: &str) -> File {
        File {
            identity: Some(FileIdentity { device: 1, inode, generation: Some(3) }),
            filesystem: Some(filesystem.to_owned()),
            path: Some(path.to_owned()),
            ..File::default()
        }
    }

    fn ends(input: FileNumber, output: FileNumber) -> NumberedEnds {
        NumberedEnds { input, output }
    }

    #[test]
    fn an_input_is_named_by_the_call_or_known_from_what_was_read_before() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 20, "/b"));
        let (a, b) = (FileId(0), FileId(1));
        let copy = files.ends(&Call::native("sendfile"), ends(1, 2));
        assert_eq!(copy, Ends { input: Some(Input::Named(a)), output: Some(b) });
        let write = files.ends(&Call::native("write"), ends(1, 2));
        assert_eq!(write, Ends { input: Some(Input::ByOrder(a)), output: Some(b) });
        let held = files.ends(&Call::native("write"), ends(1 | FROM_BUFFER, 2));
        assert_eq!(held, Ends { input: Some(Input::ByBuffer(a)), output: Some(b) });
        let changed = files.ends(&Call::native("write"), ends(1 | FROM_BUFFER | CHANGED, 2));
        assert_eq!(changed, Ends { input: Some(Input::ByChangedBuffer(a)), output: Some(b) });
        let mapped = files.ends(&Call::native("write"), ends(1 | MAPPED, 2));
        assert_eq!(mapped, Ends { input: Some(Input::ByMapping(a)), output: Some(b) });
        assert_eq!(files.ends(&Call::native("write"), ends(0, 0)), Ends::default());
    }

    #[test]
    fn a_file_with_two_numbers_is_in_the_trace_once() {
        let mut files = FileTable::default();
        files.record(1, on("ext4", 10, "/a"));
        files.record(2, on("ext4", 10, "/a"));
        files.record(3, on("ext4", 11, "/b"));
        let read = Call::native("read");
        assert_eq!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)));
        assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(3, 0)));
        assert_eq!(files.into_placed().0.len(), 2);
    }

    #[test]
    fn files_with_the_same_inode_and_different_paths_are_different_files() {
        for (filesystem, one, other) in [
            ("btrfs", "/pool/now/a", "/pool/before/a"),
            ("overlay", "/merged/upper", "/merged/lower"),
            ("fuse", "/mnt/a", "/mnt/b"),
        ] {
            let mut files = FileTable::default();
            for (number, path) in [(1, one), (2, other), (3, one)] {
                files.record(number, on(filesystem, 257, path));
            }
            let read = Call::native("read");
            assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)), "{filesystem}");
            assert_eq!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(3, 0)), "{filesystem}");
        }
    }

    #[test]
    fn a_file_without_a_message_is_in_the_trace() {
        let mut files = FileTable::default();
        let read = Call::native("read");
        assert_ne!(files.ends(&read, ends(1, 0)), files.ends(&read, ends(2, 0)));
        assert_eq!(files.into_placed(), (vec![File::default(); 2], 2));
    }
}
