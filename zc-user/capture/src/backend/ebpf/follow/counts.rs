//! [`KernelCounts`]: what was read from the maps of the kernel side so far, by task.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
};

use indexmap::IndexMap;
use zc_ebpf::{CallId, Ends as NumberedEnds, How, Outcome, PART, RowKey, SampledCall, Task};

use crate::{
    backend::ebpf::read::{events::sum_of, file_table::FileTable},
    syscalls::Call,
    trace::{
        Callers, Ends, FileId, Input, OpenBefore, OtherCalls, Part, Row, StackId, Thread,
        TimedCall, Words, add_counts,
    },
};

/// What was counted so far, and the files that it names.
#[derive(Debug, Clone, Default)]
pub struct KernelCounts {
    by_task: HashMap<u32, TaskCounts>,
    /// What was added since the running span began, once more; `None`: the trace is not divided.
    in_span: Option<HashMap<u32, TaskCounts>>,
    /// The pipes and sockets by which somebody controls the spans. Calls on them are in none.
    control: BTreeSet<OpenBefore>,
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
        let is_control = self.is_control(row.ends);
        if let Some(in_span) = self.in_span.as_mut().filter(|_| !is_control) {
            let task = in_span.entry(key.task).or_default();
            task.add(key.call, row.clone());
        }
        self.by_task.entry(key.task).or_default().add(key.call, row);
    }

    /// Begins the first span. `control` are the files of calls that are in no span.
    pub fn divide(&mut self, control: BTreeSet<OpenBefore>) {
        (self.in_span, self.control) = (Some(HashMap::new()), control);
    }

    /// Whether calls with these files control the spans. Of a socket, the program has the other end.
    fn is_control(&self, ends: Ends) -> bool {
        let is_control = |id: FileId| {
            let file = id.in_files(self.files.placed())?;
            let device = file.identity?.device;
            let mut inodes = [Some(file.identity?.inode), file.peer_inode]
                .into_iter()
                .flatten();
            Some(inodes.any(|inode| self.control.contains(&OpenBefore { device, inode })))
        };
        let files = ends.input.map(Input::file).into_iter().chain(ends.output);
        !self.control.is_empty() && files.filter_map(is_control).any(|is_control| is_control)
    }

    /// Begins a span, which has nothing yet. Returns what was counted in the one before.
    pub fn begin_span(&mut self) -> Self {
        Self {
            by_task: self.in_span.replace(HashMap::new()).unwrap_or_default(),
            in_span: None,
            control: self.control.clone(),
            files: self.files.clone(),
            calls_without_files: self.calls_without_files,
            calls_and_bytes: (0, 0),
        }
    }

    /// Whether a row of this task was added in the running span.
    pub fn has_in_span(&self, task: u32) -> bool {
        let in_span = self.in_span.as_ref();
        in_span.is_some_and(|in_span| in_span.contains_key(&task))
    }

    /// Gives away what was counted in the running span for a task for which nothing is counted any
    /// more.
    pub fn take_in_span(&mut self, task: u32) -> TaskCounts {
        let in_span = self.in_span.as_mut();
        in_span
            .and_then(|in_span| in_span.remove(&task))
            .unwrap_or_default()
    }

    /// How many calls the rows that were added have, and their bytes.
    pub fn calls_and_bytes(&self) -> (u64, u64) {
        self.calls_and_bytes
    }

    /// Adds a row of parts. Two numbers may stand for the same file, so parts are summed like rows.
    pub fn add_part(&mut self, key: RowKey, part: &zc_ebpf::Row) {
        if key.ends.how == How::FORGOTTEN {
            let Ends { input, output } = self.files.ends(key.ends);
            for by_task in [&mut self.by_task].into_iter().chain(&mut self.in_span) {
                let task = by_task.entry(key.task).or_default();
                let sum = match output {
                    Some(output) => task.unseen_mappings.entry(output).or_default(),
                    None => task.forgotten.entry(input.map(Input::file)).or_default(),
                };
                *sum += part.calls;
            }
            return;
        }
        let call = Call::from_id(key.call & !PART);
        let Ends {
            input: Some(from),
            output: Some(to),
        } = self.files.ends(key.ends)
        else {
            return;
        };
        let empty = Part {
            call,
            from,
            to,
            bytes: 0,
            calls: 0,
            words: Words::NONE,
            repeated_bytes: 0,
        };
        for by_task in [&mut self.by_task].into_iter().chain(&mut self.in_span) {
            let parts = &mut by_task.entry(key.task).or_default().parts;
            let sum = parts
                .entry((key.call, from, to))
                .or_insert_with(|| empty.clone());
            sum.bytes += part.input_bytes;
            sum.calls += part.calls;
            sum.words += known_words(part.words);
            sum.repeated_bytes += part.repeated_bytes;
        }
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
            let named = self.files.ends(ends);
            if self.is_control(named) {
                continue;
            }
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
        let tasks = self.by_task.values();
        let forgotten = tasks.flat_map(|task| task.forgotten.keys().copied().flatten());
        let files = self.rows().flat_map(Row::files);
        files.chain(of_parts).chain(forgotten).collect()
    }

    /// Says what calls without rows these tasks have made, as far as they have not ended.
    pub fn set_other_calls(&mut self, tasks: impl IntoIterator<Item = (u32, OtherCalls)>) {
        for (task, sums) in tasks {
            self.by_task.entry(task).or_default().other_calls = Some(sums);
        }
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
    forgotten: BTreeMap<Option<FileId>, u64>,
    unseen_mappings: BTreeMap<FileId, u64>,
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
            forgotten: self.forgotten,
            unseen_mappings: self.unseen_mappings,
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

/// The words that were compared.
pub const fn known_words(words: zc_ebpf::Words) -> Words {
    Words {
        compared: words.compared,
        changed: words.changed,
    }
}
