//! [`KernelCounts`]: what was read from the maps of the kernel side so far, by task.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use indexmap::IndexMap;
use zc_ebpf::{CallId, Ends as NumberedEnds, Outcome, PART, RowKey, SampledCall, Task};

use super::{events::sum_of, file_table::FileTable};
use crate::{
    syscalls::Call,
    trace::{
        Callers, Ends, FileId, Fills, Input, OtherCalls, Part, Row, StackId, Thread, TimedCall,
        add_counts,
    },
};

/// What was counted so far, and the files that it names.
#[derive(Debug, Clone, Default)]
pub struct KernelCounts {
    by_task: HashMap<u32, TaskCounts>,
    pub files: FileTable,
    /// Calls in rows that lack their files.
    pub calls_without_files: u64,
    /// The calls of all rows that were added, and their bytes.
    calls_and_bytes: (u64, u64),
}

/// How many calls these are: operations of `io_uring` and parts are none.
pub fn calls_of(call: CallId, count: u64) -> u64 {
    if call & (zc_ebpf::RING | PART) == 0 {
        count
    } else {
        0
    }
}

impl KernelCounts {
    /// Adds a row of the kernel side, which has its figures, and no files.
    pub fn add_row(&mut self, key: RowKey, mut row: Row) {
        let (calls, bytes) = &mut self.calls_and_bytes;
        *calls += calls_of(key.call, row.calls);
        *bytes = bytes.saturating_add(row.bytes.unwrap_or(0));
        row.ends = self.files.ends(key.ends);
        if let Some(Input::Named(_)) = row.ends.input {
            row.input_bytes = row.bytes.unwrap_or(0);
        }
        self.by_task.entry(key.task).or_default().add(key.call, row);
    }

    /// How many calls the rows that were added have, and their bytes.
    pub fn calls_and_bytes(&self) -> (u64, u64) {
        self.calls_and_bytes
    }

    /// Adds a row of parts. Two numbers may stand for the same file, so parts are summed like rows.
    pub fn add_part(&mut self, key: RowKey, part: &zc_ebpf::Row) {
        let call = Call::from_id(key.call & !PART);
        let Ends {
            input: Some(from),
            output: Some(to),
        } = self.files.ends(key.ends)
        else {
            return;
        };
        let empty = || Part {
            call,
            from,
            to,
            bytes: 0,
            calls: 0,
            fills: Fills::NONE,
        };
        let parts = &mut self.by_task.entry(key.task).or_default().parts;
        let sum = parts.entry((key.call, from, to)).or_insert_with(empty);
        sum.bytes += part.input_bytes;
        sum.calls += part.calls;
        sum.fills += known_fills(part.fills);
    }

    /// Adds who made calls of a row.
    #[cfg_attr(
        not(feature = "callers"),
        expect(dead_code, reason = "there are no callers")
    )]
    pub fn add_callers(&mut self, key: RowKey, callers: &Callers) {
        add_counts(&mut self.row(key.task, key.call, key.ends).callers, callers);
    }

    /// Adds a call whose caller was sampled.
    #[cfg_attr(
        not(feature = "callers"),
        expect(dead_code, reason = "there are no callers")
    )]
    pub fn add_timed_call(&mut self, sampled: &SampledCall, stack: StackId) {
        let call = Call::from_id(sampled.call);
        let duration_ns = (sampled.duration_ns != Outcome::UNTIMED).then_some(sampled.duration_ns);
        let timed = TimedCall {
            ends: self.files.ends(sampled.ends),
            call,
            stack,
            result: sampled.result,
            entered_ns: (sampled.entered_ns != 0).then_some(sampled.entered_ns),
            duration_ns,
        };
        self.by_task
            .entry(sampled.task)
            .or_default()
            .timed_calls
            .push(timed);
    }

    /// Counts the calls that live tasks are in as unfinished.
    pub fn add_unfinished(&mut self, live: &[Task]) {
        let is_in_row = |task: &&Task| task.is_in_call() && task.has_row != 0;
        for task in live.iter().filter(is_in_row) {
            self.calls_without_files += u64::from(task.ends.lack_room());
            let ends = if task.ends.lack_room() {
                NumberedEnds::NONE
            } else {
                task.ends
            };
            let row = self.row(task.serial, task.call, ends);
            row.unfinished += 1;
            row.order = row.order.or(Some(task.entered_ns));
        }
    }

    fn row(&mut self, task: u32, id: CallId, ends: NumberedEnds) -> &mut Row {
        let ends = self.files.ends(ends);
        let rows = &mut self.by_task.entry(task).or_default().rows;
        rows.entry((id, ends))
            .or_insert_with(|| Row::new(Call::from_id(id), ends))
    }

    /// All rows so far.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.by_task.values().flat_map(|task| task.rows.values())
    }

    /// The files that rows and parts name.
    pub fn used_files(&self) -> HashSet<FileId> {
        let parts = self.by_task.values().flat_map(|task| task.parts.values());
        let of_parts = parts.flat_map(|part| [part.from.file(), part.to]);
        self.rows().flat_map(Row::files).chain(of_parts).collect()
    }

    /// Gives the counts of a task away for which nothing is counted any more.
    pub fn take_task(&mut self, serial: u32) -> TaskCounts {
        self.by_task.remove(&serial).unwrap_or_default()
    }

    /// Gives the counts of each task away, by its serial number. `live` are the tasks that are
    /// still alive.
    pub fn take_tasks(&mut self, live: &[Task]) -> HashMap<u32, TaskCounts> {
        let mut by_task = mem::take(&mut self.by_task);
        for task in live {
            let mut sum = sum_of(&task.other_calls);
            if is_in_other_call(task) {
                sum += UNFINISHED;
            }
            by_task.entry(task.serial).or_default().other_calls = Some(sum);
        }
        by_task
    }
}

/// What was counted for a task.
#[derive(Debug, Clone, Default)]
pub struct TaskCounts {
    rows: IndexMap<(CallId, Ends), Row>,
    parts: HashMap<(CallId, Input, FileId), Part>,
    /// The calls without rows of a live task.
    other_calls: Option<OtherCalls>,
    timed_calls: Vec<TimedCall>,
}

impl TaskCounts {
    fn add(&mut self, id: CallId, row: Row) {
        match self.rows.get_mut(&(id, row.ends)) {
            Some(known) => known.add(&row),
            None => drop(self.rows.insert((id, row.ends), row)),
        }
    }

    /// A thread that made these calls, of which nothing else is known.
    pub fn into_thread(self) -> Thread {
        let rows = self.rows.into_values();
        let (ring_rows, rows) = rows.partition(|row| row.call.as_ring_operation().is_some());
        Thread {
            rows,
            ring_rows,
            parts: self.parts.into_values().collect(),
            other_calls: self.other_calls,
            timed_calls: self.timed_calls,
            ..Thread::default()
        }
    }
}

/// Whether a live task is in a call that has no row.
pub fn is_in_other_call(task: &Task) -> bool {
    task.is_in_call() && task.has_row == 0
}

/// A call that has not returned.
pub const UNFINISHED: OtherCalls = OtherCalls {
    unfinished: 1,
    ..OtherCalls::NONE
};

/// The reads that filled buffers. Without times, the sum of the times is 0.
pub fn known_fills(fills: zc_ebpf::Fills) -> Fills {
    Fills {
        calls: fills.calls,
        total_ns: (fills.total_ns > 0 || fills.calls == 0).then_some(fills.total_ns),
        are_unknown: fills.unknown > 0,
    }
}
