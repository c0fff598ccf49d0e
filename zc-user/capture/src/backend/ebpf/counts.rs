//! [`Counts`]: what was read from the maps of the kernel side so far, by task.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use zc_ebpf::{CallId, Ends as NumberedEnds, ErrnoKey, NO_CALL, RowKey, Task, other};
#[cfg(feature = "callers")]
use zc_ebpf::{Outcome, SampledCall};
use zctrace_core::ended::FileUses;

use super::{events::sum_of, file_table::FileTable};
#[cfg(feature = "callers")]
use crate::trace::{Callers, StackId, add_callers};
use crate::{
    syscalls::Call,
    trace::{Ends, FileId, Fills, Input, OtherCalls, Part, Row, TimedCall},
};

/// What was counted so far, and the files that it names.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    by_task: HashMap<u32, TaskSums>,
    pub files: FileTable,
    /// Calls in rows that lack their files.
    pub calls_without_files: u64,
    /// The calls of all rows that were added, and their bytes.
    calls_and_bytes: (u64, u64),
}

/// How many calls these are: operations of `io_uring` are none.
pub fn calls_of(call: CallId, count: u64) -> u64 {
    if call & zc_ebpf::RING == 0 { count } else { 0 }
}

/// The row with what is known of its input.
fn with_input(mut row: Row) -> Row {
    if let Some(Input::Named(_)) = row.ends.input {
        row.input_bytes = row.bytes.unwrap_or(0);
    }
    row
}

/// What was counted for a task.
#[derive(Debug, Default)]
pub struct TaskCounts {
    pub rows: Vec<Row>,
    pub parts: Vec<Part>,
    /// The calls without rows of a live task.
    pub other_calls: Option<OtherCalls>,
    pub timed_calls: Vec<TimedCall>,
}

impl Counts {
    /// Adds a row of the kernel side. `row` has its figures, and no files; of its calls, so many
    /// lack their files.
    pub fn add_row(&mut self, key: RowKey, row: Row, without_files: u64) {
        self.calls_without_files += without_files;
        let (calls, bytes) = &mut self.calls_and_bytes;
        *calls += calls_of(key.call, row.calls);
        *bytes = bytes.saturating_add(row.bytes.unwrap_or(0));
        let ends = self.files.ends(key.ends);
        self.by_task
            .entry(key.task)
            .or_default()
            .add(key.call, with_input(Row { ends, ..row }));
    }

    /// How many calls the rows that were added have, and their bytes.
    pub fn calls_and_bytes(&self) -> (u64, u64) {
        self.calls_and_bytes
    }

    /// Adds a part. Two numbers may stand for the same file, so parts are summed like rows.
    pub fn add_part(&mut self, key: RowKey, part: &zc_ebpf::Part) {
        let call = Call::from_id(key.call);
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
        sum.bytes += part.bytes;
        sum.calls += part.calls;
        sum.fills += known_fills(part.fills);
    }

    /// Adds failed calls of a row.
    pub fn add_errno(&mut self, key: ErrnoKey, count: u64) {
        if count > 0 {
            *self
                .row(key.task, key.call, key.ends)
                .errnos
                .entry(key.errno)
                .or_default() += count;
        }
    }

    /// Adds who made calls of a row.
    #[cfg(feature = "callers")]
    pub fn add_callers(&mut self, key: RowKey, callers: &Callers) {
        add_callers(&mut self.row(key.task, key.call, key.ends).callers, callers);
    }

    /// Adds a call whose caller was sampled.
    #[cfg(feature = "callers")]
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
        for task in live {
            // A call that a signal interrupted and that has not been restarted yet has not
            // returned, either.
            let call = if task.call == NO_CALL {
                task.interrupted
            } else {
                task.call
            };
            if call != NO_CALL {
                self.calls_without_files += u64::from(task.ends.lack_room());
                let ends = if task.ends.lack_room() {
                    NumberedEnds::NONE
                } else {
                    task.ends
                };
                let row = self.row(task.serial, call, ends);
                row.unfinished += 1;
                row.order = row.order.or(Some(task.entered_ns));
            }
        }
    }

    fn row(&mut self, task: u32, id: CallId, ends: NumberedEnds) -> &mut Row {
        let call = Call::from_id(id);
        let ends = self.files.ends(ends);
        self.by_task.entry(task).or_default().row(id, ends, || call)
    }

    /// Adds the rows of all tasks.
    pub fn add_uses(&self, uses: &mut FileUses) {
        self.by_task
            .values()
            .flat_map(|sums| &sums.rows)
            .for_each(|(_, row)| uses.add(row));
        self.by_task
            .values()
            .flat_map(|sums| sums.parts.values())
            .for_each(|part| uses.add_part(part));
    }

    /// Replaces these files by another one, and sums the rows that become equal. No part may name
    /// them.
    pub fn replace(&mut self, files: &HashSet<FileId>, by: FileId) {
        self.by_task
            .values_mut()
            .for_each(|sums| sums.replace(files, by));
    }

    /// Gives the counts of a task away for which nothing is counted any more.
    pub fn take_task(&mut self, serial: u32) -> TaskCounts {
        self.by_task
            .remove(&serial)
            .map(TaskSums::finish)
            .unwrap_or_default()
    }

    /// Gives the counts of each task away, by its serial number. `live` are the tasks that are
    /// still alive.
    pub fn take_tasks(&mut self, live: &[Task]) -> HashMap<u32, TaskCounts> {
        let all = mem::take(&mut self.by_task);
        let mut by_task: HashMap<u32, TaskCounts> = all
            .into_iter()
            .map(|(task, sums)| (task, sums.finish()))
            .collect();
        for task in live {
            let mut sum = sum_of(&task.other_calls);
            if task.other != other::NONE {
                sum += UNFINISHED;
            }
            by_task.entry(task.serial).or_default().other_calls = Some(sum);
        }
        by_task
    }
}

/// The rows of a task. Most tasks have only a few, and there may be very many tasks.
#[derive(Debug, Clone, Default)]
struct TaskSums {
    rows: Vec<(CallId, Row)>,
    /// Where each row is; empty as long as there are at most [`FEW`].
    places: HashMap<(CallId, Ends), usize>,
    parts: HashMap<(CallId, Input, FileId), Part>,
    timed_calls: Vec<TimedCall>,
}

/// With so many rows, looking at each is as fast as an index.
const FEW: usize = 16;

impl TaskSums {
    fn add(&mut self, id: CallId, row: Row) {
        match self.place(id, row.ends) {
            Some(place) => self.rows[place].1.add(&row),
            None => self.push(id, row),
        }
    }

    fn row(&mut self, id: CallId, ends: Ends, call: impl FnOnce() -> Call) -> &mut Row {
        let place = self.place(id, ends).unwrap_or_else(|| {
            self.push(id, Row::new(call(), ends));
            self.rows.len() - 1
        });
        &mut self.rows[place].1
    }

    fn replace(&mut self, files: &HashSet<FileId>, by: FileId) {
        if self.rows.iter().any(|(_, row)| row.names_one_of(files)) {
            self.places.clear();
            for (id, row) in mem::take(&mut self.rows) {
                self.add(
                    id,
                    Row {
                        ends: row.ends.replaced(files, by),
                        ..row
                    },
                );
            }
        }
    }

    fn place(&self, id: CallId, ends: Ends) -> Option<usize> {
        if self.rows.len() <= FEW {
            return self
                .rows
                .iter()
                .position(|(known, row)| *known == id && row.ends == ends);
        }
        self.places.get(&(id, ends)).copied()
    }

    fn push(&mut self, id: CallId, row: Row) {
        self.rows.push((id, row));
        let added = match self.rows.len() {
            ..=FEW => return,
            // Until now there was no index.
            length if length == FEW + 1 => 0,
            length => length - 1,
        };
        for (place, (id, row)) in self.rows.iter().enumerate().skip(added) {
            self.places.insert((*id, row.ends), place);
        }
    }

    fn finish(self) -> TaskCounts {
        let rows = self.rows.into_iter().map(|(_, row)| row).collect();
        let parts = self.parts.into_values().collect();
        TaskCounts {
            rows,
            parts,
            other_calls: None,
            timed_calls: self.timed_calls,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of task 1 by the number of their only file: the file, and the calls.
    fn rows(counts: &Counts) -> Vec<(Vec<FileId>, u64)> {
        let rows = counts.by_task.get(&1).map(|sums| &sums.rows);
        rows.into_iter()
            .flatten()
            .map(|(_, row)| (row.files().collect(), row.calls))
            .collect()
    }

    fn read(counts: &mut Counts, file: u32) {
        let read = Call::native("read");
        let key = RowKey {
            task: 1,
            call: CallId::try_from(libc::SYS_read).expect("fits"),
            ends: NumberedEnds::named(file, 0),
        };
        let row = Row {
            calls: 1,
            ..Row::new(read, Ends::default())
        };
        counts.add_row(key, row, 0);
    }

    #[test]
    fn rows_that_become_equal_by_a_replacement_are_summed() {
        for count in [3, 40] {
            let mut counts = Counts::default();
            (1..=count).for_each(|file| read(&mut counts, file));
            let sum = counts.files.insert(crate::trace::File::default());
            let last = FileId(count - 1);
            counts.replace(&(0..count - 1).map(FileId).collect(), sum);
            assert_eq!(
                rows(&counts),
                [(vec![sum], u64::from(count - 1)), (vec![last], 1)]
            );
            read(&mut counts, count);
            read(&mut counts, count + 1);
            assert_eq!(
                rows(&counts)[1..],
                [(vec![last], 2), (vec![FileId(count + 1)], 1)]
            );
        }
    }
}
