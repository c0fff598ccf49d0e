//! [`Store`]: what is known of a trace so far. Pure.
//!
//! ```text
//! messages ──apply──▶ Store: tasks, files, a View of the whole and one of the running span
//!                       │ end_span: a Store of that part
//!                       └──finish──▶ Trace
//! ```
//!
//! Rows are added to each [`View`] that is open. What the kernel side counts without rows, and the
//! counters of live tasks, are in a [`Reading`]; a span has the difference between two.

use std::collections::{BTreeSet, HashMap, HashSet};

use zc_ebpf::{NumberedEnds, RowKey, Task};
use zctrace_core::slow_calls::SlowestCalls;

use super::{
    held_descriptors::HeldDescriptors,
    process_sums::Used,
    reading::Reading,
    slow_calls::slow_call,
    task_table::TaskTable,
    totals::KernelTotals,
    view::{Merging, View},
};
use crate::{
    backend::ebpf::read::{
        events::{Message, calls_of},
        file_table::NumberedFiles,
        given_paths::failed_path,
    },
    trace::{Ends, File, FileId, FileKind, Input, OpenBefore, Row},
};

/// What is known of a trace so far, or of a part of it.
#[derive(Clone, Default)]
pub struct Store {
    pub tasks: TaskTable,
    pub files: NumberedFiles,
    pub(super) whole: View,
    /// The span that goes on; `None`: the trace is not divided.
    span: Option<SpanView>,
    /// The pipes and sockets by which somebody controls the spans. Calls on them are in none.
    control: BTreeSet<OpenBefore>,
    /// The calls that took longer than a limit. Each began at its time of `CLOCK_MONOTONIC`.
    pub(super) slow_calls: SlowestCalls,
    /// What processes had open.
    pub(super) descriptors: HeldDescriptors,
    /// Calls in rows that lack their files.
    pub(super) calls_without_files: u64,
    /// The calls of all rows, and their bytes.
    calls_and_bytes: (u64, u64),
    /// How many messages could not be parsed.
    pub(super) unreadable: u64,
}

/// What was counted in the running span, and what there was when it began.
#[derive(Clone, Default)]
struct SpanView {
    view: View,
    used: HashMap<u32, Used>,
    totals: KernelTotals,
    calls_without_files: u64,
    unreadable: u64,
}

impl Store {
    /// Adds what a message says.
    pub fn apply(&mut self, message: Message) {
        match message {
            Message::Task(event) => self.tasks.record(&event),
            Message::File(number, file) => self.files.record(number, file),
            Message::Row {
                key,
                row,
                without_files,
            } => {
                self.calls_without_files += without_files;
                self.add_row(key, row);
            }
            Message::Part(key, part) => {
                let ends = self.files.ends_of(key.ends);
                for view in self.views() {
                    view.task(key.task).add_part(key, &part, ends);
                }
            }
            Message::Paths(key, sums) => {
                let paths = failed_path(&key, &self.files);
                for view in self.views() {
                    view.failed_paths.add_sums(paths.clone(), sums);
                }
            }
            Message::Callers(key, callers) => {
                let ends = self.files.ends_of(key.ends);
                self.whole
                    .task(key.task)
                    .add_callers(key.call, ends, &callers);
            }
            Message::TimedCall(call, stack) => {
                let ends = self.files.ends_of(call.ends);
                self.whole
                    .task(call.task)
                    .add_timed_call(&call, ends, stack);
            }
            Message::Descriptor(held) => self.descriptors.add(&held, &self.files),
            Message::SlowCall(call) => {
                self.slow_calls
                    .add(slow_call(&call, &self.tasks, &self.files));
            }
            Message::Unreadable => self.unreadable += 1,
        }
    }

    fn add_row(&mut self, key: RowKey, mut row: Row) {
        let (calls, bytes) = &mut self.calls_and_bytes;
        *calls += calls_of(key.call, row.calls);
        *bytes = bytes.saturating_add(row.bytes.unwrap_or(0));
        row.ends = self.files.ends_of(key.ends);
        if let Some(Input::Named(_)) = row.ends.input {
            row.sourced.bytes = row.bytes.unwrap_or(0);
        }
        let is_control = self.is_control(row.ends);
        if let Some(span) = self.span.as_mut().filter(|_| !is_control) {
            span.view.task(key.task).add_row(key.call, row.clone());
        }
        self.whole.task(key.task).add_row(key.call, row);
    }

    /// The views that are open.
    fn views(&mut self) -> impl Iterator<Item = &mut View> {
        let span = self.span.iter_mut().map(|span| &mut span.view);
        [&mut self.whole].into_iter().chain(span)
    }

    /// Counts the calls that live tasks are in.
    pub(super) fn add_calls_under_way(&mut self, live: &[Task]) {
        let is_in_row = |task: &&Task| task.is_in_call() && task.has_row != 0;
        for task in live.iter().filter(is_in_row) {
            self.calls_without_files += u64::from(task.ends.lack_room());
            let ends = if task.ends.lack_room() {
                NumberedEnds::NONE
            } else {
                task.ends
            };
            let ends = self.files.ends_of(ends);
            if !self.is_control(ends) {
                let counts = self.whole.task(task.serial);
                counts.add_call_under_way(task.call, ends, task.entered_ns);
            }
        }
    }

    /// How many calls the rows have, and their bytes.
    pub const fn calls_and_bytes(&self) -> (u64, u64) {
        self.calls_and_bytes
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

    /// The programs all of whose tasks have ended, see [`TaskTable::ended_programs`], after their
    /// rows were added. Sets them aside, also in the running span. `callers` gives the messages
    /// about who made the calls of a task.
    pub fn set_ended_aside(
        &mut self,
        just_ended: Vec<u32>,
        mut callers: impl FnMut(u32, &mut dyn FnMut(Message)),
    ) {
        let programs = self.tasks.ended_programs(just_ended);
        if let Some(SpanView { view, used, .. }) = &mut self.span {
            let did = |task| view.counts(task);
            let part = self
                .tasks
                .limited_to_part(programs.iter().copied(), used, u64::MAX, did);
            set_aside(part.programs().collect(), part, view);
        }
        for task in self.tasks.tasks_of(&programs) {
            callers(task, &mut |message| self.apply(message));
        }
        for program in programs {
            let whole = &mut self.whole;
            let process = self
                .tasks
                .take_ended(program, &mut |task| whole.take_task(task));
            self.whole.set_aside(program, process);
        }
    }

    /// Sums processes that were set aside if there are many: those of the whole trace by the first of
    /// these rules, those of the running span by the second.
    pub fn sum_most(&mut self, whole: Merging<'_>, span: Option<Merging<'_>>) {
        self.whole.sum_most(whole, self.files.placed());
        if let (Some(part), Some(merging)) = (&mut self.span, span) {
            part.view.sum_most(merging, self.files.placed());
        }
    }

    /// Replaces files that are no longer used by their sums: if there are more than `most` files in no
    /// directory, or if rows of live processes name more than `most_living`. A report lists the files in
    /// directories by their paths, so they are summed only if there are more than `most_named`.
    pub fn sum_idle_files(&mut self, most: usize, [most_living, most_named]: [usize; 2]) {
        let (living, ended_pipes) = (self.whole.living_files(), self.ended_pipes());
        let files = &self.files;
        let mut idle = files.idle(most, |_, file| !file.is_in_directory());
        idle.extend(files.idle(most_living, |id, file| {
            !file.is_in_directory() && living.contains(&id) && !ended_pipes.contains(&id)
        }));
        idle.extend(files.idle(most_named, |id, _| living.contains(&id)));
        if idle.is_empty() {
            return;
        }
        let nameless = self.files.without_path_in_sum(&idle);
        let calls = self.whole.calls_on(&nameless);
        self.calls_without_files += calls;
        let tasks = &self.tasks;
        let program_of = |serial| tasks.program_of(serial);
        if let Some(SpanView {
            view,
            calls_without_files,
            ..
        }) = &mut self.span
        {
            // This is the number before the span began: the span's own calls do not belong to it.
            *calls_without_files += calls.saturating_sub(view.calls_on(&nameless));
            view.sum_files(&idle, &mut self.files, program_of);
        }
        self.whole.sum_files(&idle, &mut self.files, program_of);
        self.files.forget_summed(&idle);
    }

    /// The pipes that have ended.
    fn ended_pipes(&self) -> HashSet<FileId> {
        let files = self.files.placed();
        let rows = self.whole.rows();
        rows.filter_map(|row| ended_pipe(row, files)).collect()
    }

    /// Forgets the files that nothing names. Returns the files in rows of live processes, without
    /// pipes that have ended, and all files that something names.
    pub fn forget_unused_files(&mut self) -> (HashSet<FileId>, HashSet<FileId>) {
        let mut living = self.whole.living_files();
        let mut used = self.whole.ended_files();
        used.extend(&living);
        let in_span = self.span.as_ref().map(|span| span.view.ended_files());
        used.extend(in_span.unwrap_or_default());
        let ended_pipes = self.ended_pipes();
        living.retain(|file| !ended_pipes.contains(file));
        self.files.forget(|file| used.contains(&file));
        (living, used)
    }
}

/// Spans.
impl Store {
    /// Divides the trace: the first span begins. `control` are the files of calls that are in no span.
    pub fn divide(&mut self, control: BTreeSet<OpenBefore>) {
        (self.span, self.control) = (Some(SpanView::default()), control);
    }

    /// Ends the running span at this moment, and begins the next one. Everything of it was added.
    /// Returns what was seen in it, and the reading of its end as it would be had the trace begun with
    /// it. `until_ns` of `None`: the trace ends with it.
    pub fn end_span(&mut self, reading: Reading, until_ns: Option<u64>) -> (Self, Reading) {
        let before = self.span.take().unwrap_or_default();
        let Reading { totals, mut live } = reading;
        let until = until_ns.unwrap_or(u64::MAX);
        let used = self.tasks.used(&before.used, &live, until);
        let alive = || used.iter().filter(|(_, used)| !used.has_ended);
        live.counters = alive().map(|(task, used)| (*task, used.counters)).collect();
        if until_ns.is_some() {
            // The calls that they are in belong to later parts.
            live.tasks.clear();
        }
        let did = |task| before.view.counts(task);
        let tasks = self
            .tasks
            .limited_to_part(self.tasks.programs(), &before.used, until, did);
        let mut whole = before.view;
        for (task, used) in alive() {
            whole.task(*task).set_other_calls(used.other_calls);
        }
        let part = Self {
            tasks,
            files: self.files.clone(),
            whole,
            slow_calls: SlowestCalls::default(),
            descriptors: HeldDescriptors::default(),
            span: None,
            control: self.control.clone(),
            calls_without_files: self.calls_without_files - before.calls_without_files,
            calls_and_bytes: (0, 0),
            unreadable: self.unreadable - before.unreadable,
        };
        let since = Reading {
            totals: totals.since(&before.totals),
            live,
        };
        self.span = Some(SpanView {
            view: View::default(),
            used,
            totals,
            calls_without_files: self.calls_without_files,
            unreadable: self.unreadable,
        });
        (part, since)
    }
}

/// Sets these programs aside, with what was counted in this view.
fn set_aside(programs: Vec<u32>, mut tasks: TaskTable, view: &mut View) {
    for program in programs {
        let process = tasks.take_ended(program, &mut |task| view.take_task(task));
        view.set_aside(program, process);
    }
}

/// The unnamed pipe that these calls read to its end: nothing goes through it any more.
fn ended_pipe(row: &Row, files: &[File]) -> Option<FileId> {
    let input = row.ends.input.filter(|_| row.zero_calls > 0)?;
    let Input::Named(id) = input else { return None };
    let file = id.in_files(files)?;
    let is_unnamed = file.path.is_none() && file.identity.is_some();
    (file.kind == Some(FileKind::Pipe) && is_unnamed).then_some(id)
}

#[cfg(test)]
mod store_tests;
