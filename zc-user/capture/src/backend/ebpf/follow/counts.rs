//! [`TaskCounts`]: what was counted for a task.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
};

use indexmap::IndexMap;
use zc_ebpf::{CallId, CallReturn, How, PART, RowKey, SampledCall, Task};
use zctrace_core::{counts::add_counts, ended::FileSumming};

use crate::{
    backend::ebpf::read::events::sourced_bytes,
    syscalls::Call,
    trace::{
        CallSums, CallerSums, Ends, FileId, Input, LastCall, OtherCalls, Part, Row, StackId,
        SummedContent, Thread, TimedCall,
    },
};

/// What was counted for a task.
#[derive(Debug, Clone, Default)]
pub struct TaskCounts {
    rows: IndexMap<(CallId, Ends), Row>,
    parts: HashMap<(CallId, Input, FileId), Part>,
    /// All else; its other calls and the last one only if it lives.
    thread: Thread,
}

impl TaskCounts {
    /// Adds a row, with its files.
    pub fn add_row(&mut self, id: CallId, row: Row) {
        match self.rows.get_mut(&(id, row.ends)) {
            Some(known) => known.add_row(&row),
            None => drop(self.rows.insert((id, row.ends), row)),
        }
    }

    /// Adds a row of parts. Two numbers may stand for the same file, so parts are summed like rows.
    /// Without both files, they move nothing.
    pub fn add_part(&mut self, key: RowKey, part: &zc_ebpf::Row, ends: Ends) {
        if key.ends.how == How::FORGOTTEN {
            let sum = match ends.output {
                Some(output) => self.thread.unseen_mappings.entry(output).or_default(),
                None => self
                    .thread
                    .forgotten
                    .entry(ends.input.map(Input::file))
                    .or_default(),
            };
            *sum += part.calls;
            return;
        }
        let (Some(from), Some(to)) = (ends.input, ends.output) else {
            return;
        };
        let part = Part {
            call: Call::from_id(key.call & !PART),
            from,
            to,
            sourced: sourced_bytes(part),
            calls: part.calls,
        };
        self.add_to_part(key.call, part);
    }

    fn add_to_part(&mut self, id: CallId, part: Part) {
        match self.parts.entry((id, part.from, part.to)) {
            Entry::Occupied(mut sum) => sum.get_mut().add_part(&part),
            Entry::Vacant(place) => drop(place.insert(part)),
        }
    }

    /// Adds the call that a live task is in, with the time of its entry.
    pub fn add_call_under_way(&mut self, id: CallId, ends: Ends, entered_ns: u64) {
        let row = self.row(id, ends);
        row.unfinished += 1;
        row.under_way += 1;
        row.order = row.order.or(Some(entered_ns));
    }

    /// Adds who made calls of a row.
    pub fn add_callers(&mut self, id: CallId, ends: Ends, callers: &CallerSums) {
        add_counts(&mut self.row(id, ends).callers, callers);
    }

    /// Adds a call whose caller was sampled.
    pub fn add_timed_call(&mut self, sampled: &SampledCall, ends: Ends, stack: StackId) {
        let duration_ns =
            (sampled.duration_ns != CallReturn::UNTIMED).then_some(sampled.duration_ns);
        self.thread.timed_calls.push(TimedCall {
            ends,
            call: Call::from_id(sampled.call),
            stack,
            result: sampled.result,
            entered_ns: (sampled.entered_ns != 0).then_some(sampled.entered_ns),
            duration_ns,
        });
    }

    fn row(&mut self, id: CallId, ends: Ends) -> &mut Row {
        self.rows
            .entry((id, ends))
            .or_insert_with(|| Row::new(Call::from_id(id), ends))
    }

    /// Says which call it is in, if it has not ended.
    pub fn set_last_call(&mut self, call: LastCall) {
        self.thread.last_call = Some(call);
    }

    /// Says what calls without rows it has made, if it has not ended.
    pub const fn set_other_calls(&mut self, sums: OtherCalls) {
        self.thread.other_calls = Some(sums);
    }

    /// Its rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// The files that its rows and parts name.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        let parts = self.parts.values();
        let of_parts = parts.flat_map(|part| [part.from.file(), part.to]);
        let forgotten = self.thread.forgotten.keys().copied().flatten();
        let files = self.rows().flat_map(Row::files);
        files.chain(of_parts).chain(forgotten)
    }

    /// Its parts.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.values()
    }

    /// Replaces the files that it names by their sums.
    pub fn sum_files<S: FnMut(FileId, SummedContent) -> FileId>(
        &mut self,
        summing: &mut FileSumming<'_, S>,
    ) {
        for ((id, _), mut row) in mem::take(&mut self.rows) {
            row.ends = summing.sum_ends(row.ends);
            self.add_row(id, row);
        }
        for ((id, ..), mut part) in mem::take(&mut self.parts) {
            (part.from, part.to) = summing.sum_pair(part.from, part.to);
            self.add_to_part(id, part);
        }
        for call in &mut self.thread.timed_calls {
            call.ends = summing.sum_ends(call.ends);
        }
        summing.counts(&mut self.thread.forgotten, |summing, file| {
            file.map(|file| summing.sum_of_file(file))
        });
        summing.counts(&mut self.thread.unseen_mappings, FileSumming::sum_of_file);
    }

    /// A thread that made these calls, of which nothing else is known.
    pub fn into_thread(self) -> Thread {
        let rows = self.rows.into_values();
        let (ring_rows, rows) = rows.partition(|row| row.call.as_ring_operation().is_some());
        Thread {
            rows,
            ring_rows,
            parts: self.parts.into_values().collect(),
            ..self.thread
        }
    }
}

/// Whether a live task is in a call that has no row.
pub fn is_in_other_call(task: &Task) -> bool {
    task.is_in_call() && task.has_row == 0
}

/// The call that a live task is in.
pub const UNDER_WAY: OtherCalls = OtherCalls::new(CallSums {
    unfinished: 1,
    under_way: 1,
    ..CallSums::NONE
});
