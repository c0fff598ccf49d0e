//! Tracks tasks by the events of the kernel side, and makes the processes and threads of a
//! [`Trace`](crate::trace::Trace) of them. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map::Entry},
    mem,
};

use crate::{
    backend::Until,
    syscalls::Call,
    trace::{Exit, OtherCalls, Process, State, programs_up_to},
};

use zc_ebpf::{EventHeader, Exec, hook};

use super::{
    counts::TaskCounts,
    live_tasks::LiveTasks,
    process_sums::{ProcessSums, RawCounters, SeenTask, TaskEnd, Used},
};
use crate::backend::ebpf::read::events::{TaskEvent, command_line, sum_of, text};

/// The serial number of the root's first task. The kernel side numbers tasks from 1.
const ROOT: u32 = 1;

/// The process of tasks whose messages were all lost; it comes last.
const UNKNOWN_PROCESS: u32 = u32::MAX;

/// All tasks that were followed. A task that executes a program is another one from then on.
#[derive(Debug, Clone, Default)]
pub struct TaskTable {
    tasks: BTreeMap<u32, SeenTask>,
    /// By the number of the program: its tasks.
    tasks_of: HashMap<u32, Vec<u32>>,
    /// The tasks whose ends were seen since they were last asked for.
    just_ended: Vec<u32>,
    /// By the number of the program: what is known of it from its exec, and nothing else.
    programs: HashMap<u32, Process>,
    /// The tasks that already ran when they were found, since they were last asked for.
    found: Vec<EventHeader>,
    /// The programs of the launched process.
    roots: BTreeSet<u32>,
    /// How many processes there were.
    process_count: u64,
    /// When the last of the tasks ended that are no longer in the table.
    last_end_ns: u64,
    began_ns: Option<u64>,
    /// The hooks of the tasks that ended or executed a program.
    hooks: u32,
    /// Whether a task ended.
    has_seen_end: bool,
    /// Whether a task that ended had begun to exit before.
    has_seen_exit: bool,
    /// The tasks that were not alive when that was last looked at, and whose end was not seen.
    missing: HashSet<u32>,
    /// How many tasks were taken whose end was not seen.
    unseen_ends: u64,
    /// Whether the root is a thread that entered the scope itself (a closure). Other threads of its
    /// process may outlive it.
    root_is_thread: bool,
}

impl TaskTable {
    /// Records an event.
    pub fn record(&mut self, event: &TaskEvent) {
        let EventHeader {
            serial,
            program,
            time_ns,
            extra,
            ..
        } = *event.header();
        let task = self.task(serial, program);
        (task.tid, task.pid) = (event.header().tid, event.header().pid);
        task.comm = text(&event.header().comm);
        task.started_ns = task.started_ns.or(Some(time_ns));
        match event {
            TaskEvent::Started(_) => {
                task.ppid = Some(extra);
                self.process_count += u64::from(serial == program);
            }
            TaskEvent::Executed(exec) => {
                task.baseline = Some(exec.counters);
                // The launched process was followed before.
                task.started_ns = Some(time_ns);
                self.begin_program(exec);
            }
            TaskEvent::Entered(entered) => {
                task.baseline = Some(entered.counters);
                self.process_count += 1;
                self.root_is_thread = true;
                self.roots.insert(program);
                self.began_ns = Some(time_ns);
            }
            TaskEvent::Found(found) => {
                task.baseline = Some(found.counters);
                task.ppid = Some(extra);
                self.process_count += u64::from(serial == program);
                self.found.push(found.header);
            }
            TaskEvent::Ended(end) => {
                task.ended = Some(TaskEnd {
                    last_call: (end.entered_ns > 0).then_some((end.slot, end.entered_ns)),
                    fault: (end.fault.signal != 0).then_some((end.fault, end.slot)),
                    ..TaskEnd::new(time_ns, end.counters, &end.other_calls, extra)
                });
                self.just_ended.push(serial);
                self.hooks |= extra;
                self.has_seen_end = true;
                self.has_seen_exit |= end.exited_ns > 0;
            }
        }
    }

    /// A program begins, which may replace another one.
    fn begin_program(&mut self, exec: &Exec) {
        self.hooks |= exec.replaced.hooks;
        let program = exec.header.program;
        let replaced = Some(&exec.replaced).filter(|replaced| replaced.serial != 0);
        let before = replaced.map_or(program, |replaced| replaced.program);
        if before == ROOT || self.roots.contains(&before) {
            self.roots.insert(program);
            self.began_ns.get_or_insert(exec.header.time_ns);
        }
        let earlier = replaced.map(|replaced| self.programs_up_to(replaced.program));
        let executed = Process {
            // The path as given to `execve`.
            exe: Some(text(&exec.exe)).filter(|exe| !exe.is_empty()),
            command: command_line(exec),
            earlier: earlier.unwrap_or_default(),
            ..Process::default()
        };
        self.programs.insert(program, executed);
        if let Some(replaced) = replaced {
            let end = TaskEnd::new(
                exec.header.time_ns,
                exec.counters,
                &replaced.other_calls,
                replaced.hooks,
            );
            self.end_program(replaced, exec.header.serial, end);
        }
    }

    /// The tasks that already ran when they were found, since the last time.
    pub fn take_found(&mut self) -> Vec<EventHeader> {
        mem::take(&mut self.found)
    }

    /// The trace begins: what it attaches to was found.
    pub const fn begin(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
    }

    /// Fills in what the program of this number is, which ran when its process was found, unless the
    /// process executes another one by now.
    pub fn describe_program(&mut self, program: u32, found: Process) {
        let first = self.tasks.get(&program);
        if first.is_some_and(|task| task.ended.is_none()) {
            self.programs.entry(program).or_insert(found);
        }
    }

    /// The task of this number, which runs this program.
    fn task(&mut self, serial: u32, program: u32) -> &mut SeenTask {
        let task = self.tasks.entry(serial).or_insert_with(|| {
            self.tasks_of.entry(program).or_default().push(serial);
            SeenTask {
                baseline: Some(RawCounters::default()),
                ..SeenTask::default()
            }
        });
        task.program = program;
        task
    }

    /// The names of the last programs of a process, of which this one is the last.
    fn programs_up_to(&self, program: u32) -> Vec<String> {
        let executed = self.programs.get(&program);
        let earlier = executed.map_or(&[][..], |executed| &executed.earlier);
        let task = self.tasks.get(&program);
        programs_up_to(earlier, task.map_or("", |task| &task.comm))
    }

    /// A program ends, because its task has executed another one, as the task `by`.
    fn end_program(&mut self, replaced: &zc_ebpf::Replaced, by: u32, end: TaskEnd) {
        let first = self.tasks.get(&replaced.program);
        let creator = first.and_then(|task| task.ppid);
        let Some(task) = self.tasks.get_mut(&by) else {
            return;
        };
        task.ppid = creator;
        let pid = task.pid;
        let task = self.task(replaced.serial, replaced.program);
        (task.tid, task.pid) = (replaced.tid, pid);
        task.ended = Some(end);
        self.just_ended.push(replaced.serial);
    }

    /// A program of the kernel side that did not run for the root, which ended like this. Each runs
    /// at least once: `sys_exit` and `sys_enter` before the root is counted, or after that.
    pub fn silent_program(&self, exit: Option<Exit>) -> Option<&'static str> {
        if self.began_ns.is_none() {
            // A command that the kernel kills during its exec never starts.
            return matches!(exit, Some(Exit::Code(_))).then_some("process_exec");
        }
        if exit.is_none() && !self.root_is_thread {
            // What a task did is reported when it ends.
            return None;
        }
        let runs = [
            ("sys_enter", self.hooks & hook::SYS_ENTER != 0),
            ("sys_exit", self.hooks & hook::SYS_EXIT != 0),
            ("process_exit", self.has_seen_exit || !self.has_seen_end),
        ];
        let silent = runs.into_iter().find(|(_, has_run)| !has_run);
        silent.map(|(program, _)| program)
    }

    /// Whether a task that has ended, or has executed a program, had made an `io_uring`.
    pub const fn made_ring(&self) -> bool {
        self.hooks & hook::RING_CREATE != 0
    }

    /// How many processes there were so far.
    pub const fn processes(&self) -> u64 {
        self.process_count
    }

    /// The ids of the processes in the table.
    pub fn pids(&self) -> BTreeSet<u32> {
        self.tasks.values().map(|task| task.pid).collect()
    }

    /// The serial numbers of the tasks whose end has not been seen yet.
    pub fn not_ended(&self) -> impl Iterator<Item = u32> + '_ {
        self.tasks
            .iter()
            .filter(|(_, task)| task.ended.is_none())
            .map(|(serial, _)| *serial)
    }

    /// Whether a task is known to have ended after it had returned from the call that it entered at
    /// this moment.
    pub fn has_left_call(&self, serial: u32, entered_ns: u64) -> bool {
        let task = self.tasks.get(&serial);
        let end = task.and_then(|task| task.ended.as_ref());
        end.is_some_and(|end| end.last_call.map(|(_, entered)| entered) != Some(entered_ns))
    }

    /// The time from the root's exec to the end of its last thread, or from a thread's entering the
    /// scope to its leaving. If the trace lasts until all tasks end: to the end of the last one, or
    /// to `stopped_ns` if some are still alive.
    pub fn wall_ns(&self, until: Until, stopped_ns: u64) -> Option<u64> {
        if until == Until::AllEnd {
            let ends = self
                .tasks
                .values()
                .map(|task| task.ended.as_ref().map_or(stopped_ns, |end| end.time_ns));
            return Some(
                ends.max()?
                    .max(self.last_end_ns)
                    .saturating_sub(self.began_ns?),
            );
        }
        let ends = self.root_ends().map(|end| end.time_ns);
        Some(ends.max()?.saturating_sub(self.began_ns?))
    }

    /// When the root executed its program, or the thread entered the scope: `CLOCK_MONOTONIC`.
    pub const fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    /// How long the root took to exit: from its call of `exit_group` to the end of its last thread.
    /// The kernel gives back its memory meanwhile. `None` if it did not make that call.
    pub fn exit_ns(&self) -> Option<u64> {
        let last_calls = self.root_ends().filter_map(|end| end.last_call);
        let exits = last_calls.filter(|&(slot, _)| Call::from_slot(slot).name == "exit_group");
        let began_ns = exits.map(|(_, entered_ns)| entered_ns).min();
        let ended_ns = self.root_ends().map(|end| end.time_ns).max();
        ended_ns?.checked_sub(began_ns?)
    }

    /// The ends of the root's threads, or that of the thread that entered the scope.
    fn root_ends(&self) -> impl Iterator<Item = &TaskEnd> {
        let is_root = |serial: u32, task: &SeenTask| {
            if self.root_is_thread {
                serial == ROOT
            } else {
                self.roots.contains(&task.program)
            }
        };
        let tasks = self.tasks.iter();
        let roots = tasks.filter(move |(serial, task)| is_root(**serial, task));
        roots.filter_map(|(_, task)| task.ended.as_ref())
    }

    /// The tasks whose ends were seen since the last time. Nothing is counted for them any more.
    pub fn take_just_ended(&mut self) -> Vec<u32> {
        mem::take(&mut self.just_ended)
    }

    /// Notes which tasks are `alive`, when messages may have been lost. Returns those that were not
    /// twice in a row, without a message of their end: a message that was on its way the first time has
    /// come by now.
    pub fn note_alive(&mut self, alive: &HashSet<u32>) -> Vec<u32> {
        let missing = self.not_ended().filter(|serial| !alive.contains(serial));
        let missing: HashSet<u32> = missing.collect();
        let gone: Vec<u32> = missing.intersection(&self.missing).copied().collect();
        for serial in &gone {
            if let Some(task) = self.tasks.get_mut(serial) {
                task.lacks_end = true;
            }
        }
        self.missing = missing;
        gone
    }

    /// The programs all of whose tasks have ended and were among those that
    /// [`take_just_ended`](Self::take_just_ended) gave, now or before. The root is none of them, and
    /// neither are makers of an `io_uring`.
    pub fn ended_programs(&mut self, just_ended: Vec<u32>) -> BTreeSet<u32> {
        let mut programs = BTreeSet::new();
        for serial in just_ended {
            if let Some(task) = self.tasks.get_mut(&serial) {
                task.is_final = true;
                programs.insert(task.program);
            }
        }
        programs.retain(|program| {
            let mut tasks = self.tasks_of.get(program).into_iter().flatten();
            let is_final =
                |serial: &u32| self.tasks.get(serial).is_some_and(SeenTask::can_be_taken);
            let stays = *program == UNKNOWN_PROCESS || *program == ROOT;
            !stays && !self.roots.contains(program) && tasks.all(is_final)
        });
        programs
    }

    /// The program of a task.
    pub fn program_of(&self, serial: u32) -> u32 {
        let task = self.tasks.get(&serial);
        task.map_or(UNKNOWN_PROCESS, |task| task.program)
    }

    /// The name of the first thread that ran a program, as last seen.
    pub fn name_of_program(&self, program: u32) -> Option<String> {
        let first = self.tasks.get(&program)?;
        Some(first.comm.clone())
    }

    /// The tasks of these programs.
    pub fn tasks_of(&self, programs: &BTreeSet<u32>) -> Vec<u32> {
        let tasks = programs
            .iter()
            .filter_map(|program| self.tasks_of.get(program));
        tasks.flatten().copied().collect()
    }

    /// Removes a program that has ended. `counted` takes what was counted for a task.
    pub fn take_ended(
        &mut self,
        program: u32,
        counted: &mut impl FnMut(u32) -> TaskCounts,
    ) -> Process {
        let (process, unseen_ends) = self.take_program(program, counted, |_| None);
        self.unseen_ends += unseen_ends;
        process
    }

    /// These programs in a part of the trace that ends at `until_ns`: each task begins with what it had
    /// `used` before.
    ///
    /// Tasks that had ended before or began later are left out unless they `did` something in it, and so
    /// are programs without other tasks. The first task of others stays, since its process has its name.
    pub fn limited_to_part(
        &self,
        programs: impl IntoIterator<Item = u32>,
        used: &HashMap<u32, Used>,
        until_ns: u64,
        did: impl Fn(u32) -> bool,
    ) -> Self {
        let mut part = Self::default();
        let had_ended = |serial: &u32| used.get(serial).is_some_and(|used| used.has_ended);
        for program in programs {
            let serials = self.tasks_of.get(&program).into_iter().flatten();
            let tasks = serials.filter_map(|serial| Some((serial, self.tasks.get(serial)?)));
            let is_concerned = |(serial, task): &(&u32, &SeenTask)| {
                did(**serial) || (task.began_by(until_ns) && !had_ended(serial))
            };
            if !tasks.clone().any(|task| is_concerned(&task)) {
                continue;
            }
            for (serial, task) in tasks {
                let is_first = *serial == program || task.tid == task.pid;
                if is_first || is_concerned(&(serial, task)) {
                    let task = task.limited_to_part(used.get(serial), until_ns);
                    part.tasks.insert(*serial, task);
                    part.tasks_of.entry(program).or_default().push(*serial);
                }
            }
            if let Some(executed) = self.programs.get(&program) {
                let mut executed = executed.clone();
                // Those that it ran before are not in this part.
                if used.contains_key(&program) {
                    executed.earlier.clear();
                }
                part.programs.insert(program, executed);
            }
        }
        part
    }

    /// The numbers of all programs in the table.
    pub fn programs(&self) -> impl Iterator<Item = u32> + '_ {
        self.tasks_of.keys().copied()
    }

    /// What each task has used up to `until_ns`, when those `alive` had these counters and calls. One
    /// that was about to end has used as much as `before`: the rest counts when it has ended.
    pub fn used(
        &self,
        before: &HashMap<u32, Used>,
        live: &LiveTasks,
        until_ns: u64,
    ) -> HashMap<u32, Used> {
        let other_calls = live.tasks.iter();
        let other_calls: HashMap<u32, OtherCalls> = other_calls
            .map(|task| (task.serial, sum_of(&task.other_calls)))
            .collect();
        let used = |serial: u32, task: &SeenTask| {
            if let Some(end) = task.ended_by(until_ns) {
                return Used::at_end(end);
            }
            let before = before.get(&serial).copied();
            let before = before.unwrap_or_else(|| Used::at_start(task));
            let counters = live.counters.get(&serial).copied().flatten();
            Used {
                counters: counters.or(before.counters.filter(|_| live.is_proc_ours)),
                other_calls: *other_calls.get(&serial).unwrap_or(&before.other_calls),
                has_ended: false,
            }
        };
        let tasks = self.tasks.iter();
        tasks
            .filter(|(_, task)| task.began_by(until_ns))
            .map(|(serial, task)| (*serial, used(*serial, task)))
            .collect()
    }

    /// Removes a program and its tasks. Returns its process, and how many of its tasks have neither
    /// ended nor are alive. `counted` takes what was counted for a task, `alive` says what the
    /// counters of a task are that is alive.
    fn take_program(
        &mut self,
        program: u32,
        counted: &mut impl FnMut(u32) -> TaskCounts,
        alive: impl Fn(u32) -> Option<Option<RawCounters>>,
    ) -> (Process, u64) {
        let mut process = ProcessSums::new(self.programs.remove(&program));
        let mut unseen_ends = 0;
        let mut serials = self.tasks_of.remove(&program).unwrap_or_default();
        serials.sort_unstable();
        for serial in serials {
            let Some(task) = self.tasks.remove(&serial) else {
                continue;
            };
            let raw = match (&task.ended, alive(serial)) {
                (Some(end), _) => {
                    self.last_end_ns = self.last_end_ns.max(end.time_ns);
                    Some(end.counters)
                }
                (None, Some(counters)) => {
                    process.process.state = State::Running;
                    counters
                }
                (None, None) => {
                    unseen_ends += 1;
                    None
                }
            };
            process.add(serial, task, raw, counted(serial));
        }
        (process.finish(), unseen_ends)
    }

    /// The processes with their threads, and the number of tasks whose end was not seen. `counted`
    /// has the rows of each task by its serial number, `alive` the counters of each task that is
    /// alive, or `None` if they could not be read. `ended` are the processes that were taken
    /// before.
    pub fn into_processes(
        mut self,
        mut counted: HashMap<u32, TaskCounts>,
        alive: &HashMap<u32, Option<RawCounters>>,
        ended: BTreeMap<u32, Process>,
    ) -> (Vec<Process>, u64) {
        // The rows of a task whose start was lost still count: it becomes a task without a name.
        for serial in counted.keys() {
            if !self.tasks.contains_key(serial) {
                self.task(*serial, UNKNOWN_PROCESS);
            }
        }
        let mut counted = |serial| counted.remove(&serial).unwrap_or_default();
        let alive = |serial| alive.get(&serial).copied();
        let mut programs: Vec<u32> = self.tasks_of.keys().copied().collect();
        programs.sort_unstable();
        let (mut all, mut unseen_ends) = (ended, self.unseen_ends);
        for program in programs {
            let (process, unseen) = self.take_program(program, &mut counted, alive);
            unseen_ends += unseen;
            match all.entry(program) {
                Entry::Vacant(entry) => drop(entry.insert(process)),
                Entry::Occupied(mut entry) => add_late_threads(entry.get_mut(), process),
            }
        }
        (all.into_values().collect(), unseen_ends)
    }
}

/// Adds threads to their process, which was thought to have ended: the message of their start was lost.
pub fn add_late_threads(process: &mut Process, late: Process) {
    process.counters = None;
    process.threads.extend(late.threads);
}
