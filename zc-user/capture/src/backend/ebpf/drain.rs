//! Reads the sums of the kernel side from its maps.

use std::collections::HashMap;

use aya::maps::{Array, HashMap as KernelHashMap, MapData, MapError, PerCpuArray};
use zc_ebpf::{CallId, ErrnoKey, FileNumber, NO_CALL, RowKey, STREAM_FILES, Task, phase, stream_slot};

use super::file_table::FileTable;
use crate::{
    histogram::Histogram,
    syscall::Call,
    trace::{Ends, File, Loss, Part, Row, Stream, Streams, Times},
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
    pub losses: PerCpuArray<MapData, u64>,
    /// What was read from each file and written to it.
    pub streams: Array<MapData, zc_ebpf::Stream>,
}

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
        Ok(sums.finish())
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

/// What was counted for a task.
#[derive(Debug, Default)]
pub struct TaskCounts {
    pub rows: Vec<Row>,
    pub parts: Vec<Part>,
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
