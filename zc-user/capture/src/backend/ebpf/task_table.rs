//! Tracks tasks by the events of the kernel side, and makes the processes and threads of a
//! [`Trace`](crate::trace::Trace) of them. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    mem,
};

use crate::{
    backend::Until,
    trace::{Counters, OtherCalls, Process, State, Thread, programs_up_to},
};

use super::{
    counts::TaskCounts,
    events::{Event, Kind, Replaced},
};

/// The serial number of the root's first task. The kernel side numbers tasks from 1.
const ROOT: u32 = 1;

/// The process of tasks whose messages were all lost; it comes last.
const UNKNOWN_PROCESS: u32 = u32::MAX;

/// The kernel's raw counters of a task.
pub type RawCounters = zc_ebpf::Counters;

/// All tasks that were followed. A task that executes a program is another one from then on.
#[derive(Debug, Clone, Default)]
pub struct TaskTable {
    tasks: BTreeMap<u32, Task>,
    /// By the number of the program: its tasks.
    tasks_of: HashMap<u32, Vec<u32>>,
    /// The tasks whose ends were seen since they were last asked for.
    just_ended: Vec<u32>,
    /// By the number of the program: what is known of it from its exec.
    programs: HashMap<u32, Executed>,
    /// The programs of the launched process.
    roots: BTreeSet<u32>,
    /// How many processes there were.
    process_count: u64,
    /// When the last of the tasks ended that are no longer in the table.
    last_end_ns: u64,
    began_ns: Option<u64>,
    /// Whether the root is a thread that entered the scope itself (a closure). Other threads of its
    /// process may outlive it.
    root_is_thread: bool,
}

#[derive(Debug, Clone, Default)]
struct Task {
    program: u32,
    tid: u32,
    pid: u32,
    ppid: Option<u32>,
    comm: String,
    started_ns: Option<u64>,
    /// Its counters when its program began: what was used before is not part of that.
    baseline: RawCounters,
    ended: Option<End>,
    /// Whether its end was seen before the epoch ended whose rows were read last.
    is_final: bool,
}

#[derive(Debug, Clone)]
struct End {
    time_ns: u64,
    counters: RawCounters,
    other_calls: OtherCalls,
    made_ring: bool,
}

/// A program that began with an exec.
#[derive(Debug, Clone, Default)]
struct Executed {
    exe: Option<String>,
    command: Option<Vec<String>>,
    /// Names of the programs that its process ran before, as [`Process::earlier`].
    earlier: Vec<String>,
}

impl TaskTable {
    /// Records an event.
    pub fn record(&mut self, event: Event) {
        let (serial, program, time_ns) = (event.serial, event.program, event.time_ns);
        let task = self.task(serial, program);
        (task.tid, task.pid) = (event.tid, event.pid);
        task.comm = event.comm;
        task.started_ns = task.started_ns.or(Some(time_ns));
        match event.kind {
            Kind::Started { ppid } => {
                task.ppid = Some(ppid);
                self.process_count += u64::from(serial == program);
            }
            Kind::Exec {
                exe,
                command,
                counters,
                replaced,
            } => {
                task.baseline = counters;
                let before = replaced
                    .as_ref()
                    .map_or(program, |replaced| replaced.program);
                if before == ROOT || self.roots.contains(&before) {
                    self.roots.insert(program);
                    self.began_ns.get_or_insert(time_ns);
                }
                let executed = Executed {
                    exe,
                    command,
                    earlier: replaced
                        .as_ref()
                        .map_or_else(Vec::new, |replaced| self.programs_up_to(replaced.program)),
                };
                self.programs.insert(program, executed);
                if let Some(replaced) = replaced {
                    self.replace(&replaced, serial, time_ns, counters);
                }
            }
            Kind::Entered { counters } => {
                task.baseline = counters;
                self.process_count += 1;
                self.root_is_thread = true;
                self.roots.insert(program);
                self.began_ns = Some(time_ns);
            }
            Kind::Ended {
                counters,
                other_calls,
                made_ring,
            } => {
                task.ended = Some(End {
                    time_ns,
                    counters,
                    other_calls,
                    made_ring,
                });
                self.just_ended.push(serial);
            }
        }
    }

    /// The task of this number, which runs this program.
    fn task(&mut self, serial: u32, program: u32) -> &mut Task {
        let task = self.tasks.entry(serial).or_insert_with(|| {
            self.tasks_of.entry(program).or_default().push(serial);
            Task::default()
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
    fn replace(&mut self, replaced: &Replaced, by: u32, time_ns: u64, counters: RawCounters) {
        let first = self.tasks.get(&replaced.program);
        let creator = first.and_then(|task| task.ppid);
        let Some(task) = self.tasks.get_mut(&by) else {
            return;
        };
        task.ppid = creator;
        let pid = task.pid;
        let task = self.task(replaced.serial, replaced.program);
        (task.tid, task.pid) = (replaced.tid, pid);
        task.ended = Some(End {
            time_ns,
            counters,
            other_calls: replaced.other_calls,
            made_ring: replaced.made_ring,
        });
        self.just_ended.push(replaced.serial);
    }

    /// Whether the start of any program was seen.
    pub fn has_seen_exec(&self) -> bool {
        !self.programs.is_empty()
    }

    /// How many processes there were so far.
    pub const fn processes(&self) -> u64 {
        self.process_count
    }

    /// The serial numbers of the tasks whose end has not been seen yet.
    pub fn not_ended(&self) -> impl Iterator<Item = u32> + '_ {
        self.tasks
            .iter()
            .filter(|(_, task)| task.ended.is_none())
            .map(|(serial, _)| *serial)
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
        let is_roots = |serial: u32, task: &Task| {
            if self.root_is_thread {
                serial == ROOT
            } else {
                self.roots.contains(&task.program)
            }
        };
        let roots = self
            .tasks
            .iter()
            .filter(|(serial, task)| is_roots(**serial, task));
        let ends = roots.filter_map(|(_, task)| Some(task.ended.as_ref()?.time_ns));
        Some(ends.max()?.saturating_sub(self.began_ns?))
    }

    /// The tasks whose ends were seen since the last time. Nothing is counted for them any more.
    pub fn take_just_ended(&mut self) -> Vec<u32> {
        mem::take(&mut self.just_ended)
    }

    /// Removes the programs all of whose tasks have ended and were among those that
    /// [`take_just_ended`](Self::take_just_ended) gave, now or before. `counted` takes what was
    /// counted for a task. The root stays, and so do makers of an `io_uring`.
    pub fn take_ended(
        &mut self,
        just_ended: Vec<u32>,
        mut counted: impl FnMut(u32) -> TaskCounts,
        counters_known: bool,
    ) -> Vec<(u32, Process)> {
        let mut ended = Vec::new();
        for serial in just_ended {
            let Some(task) = self.tasks.get_mut(&serial) else {
                continue;
            };
            task.is_final = true;
            let program = task.program;
            if program == 0 || self.roots.contains(&program) || program == ROOT {
                continue;
            }
            let tasks = self
                .tasks_of
                .get(&program)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let is_final = |serial: &u32| self.tasks.get(serial).is_some_and(Task::can_be_taken);
            if !tasks.iter().all(is_final) {
                continue;
            }
            let (mut built, mut sum) = (Process::default(), Sum::default());
            for serial in self.tasks_of.remove(&program).unwrap_or_default() {
                let Some(task) = self.tasks.remove(&serial) else {
                    continue;
                };
                self.last_end_ns = self
                    .last_end_ns
                    .max(task.ended.as_ref().map_or(0, |end| end.time_ns));
                let raw = task
                    .ended
                    .as_ref()
                    .map(|end| minus(&end.counters, &task.baseline))
                    .filter(|_| counters_known);
                sum.add(raw);
                add_task(&mut built, serial, task, raw, counted(serial));
            }
            ended.push((program, self.described(program, built, &sum)));
        }
        ended
    }

    /// The processes with their threads, and the number of tasks whose end was not seen. `counted`
    /// has the rows of each task by its serial number, `alive` the counters of each task that is
    /// alive, or `None` if they could not be read. `ended` are the processes that were taken
    /// before.
    pub fn into_processes(
        mut self,
        mut counted: HashMap<u32, TaskCounts>,
        alive: &HashMap<u32, Option<RawCounters>>,
        counters_known: bool,
        ended: BTreeMap<u32, Process>,
    ) -> (Vec<Process>, u64) {
        // The rows of a task whose start was lost still count: it becomes a task without a name.
        for serial in counted.keys() {
            self.tasks.entry(*serial).or_default();
        }
        let mut unseen_ends = 0;
        let mut processes: BTreeMap<u32, (Process, Sum)> = BTreeMap::new();
        for (serial, task) in mem::take(&mut self.tasks) {
            let (process, sum) = processes
                .entry(if task.program == 0 {
                    UNKNOWN_PROCESS
                } else {
                    task.program
                })
                .or_default();
            let raw = match (&task.ended, alive.get(&serial)) {
                (Some(end), _) => Some(end.counters),
                (None, Some(counters)) => {
                    process.state = State::Running;
                    *counters
                }
                (None, None) => {
                    unseen_ends += 1;
                    None
                }
            };
            let raw = raw
                .map(|raw| minus(&raw, &task.baseline))
                .filter(|_| counters_known);
            sum.add(raw);
            add_task(
                process,
                serial,
                task,
                raw,
                counted.remove(&serial).unwrap_or_default(),
            );
        }
        let mut all = ended;
        for (serial, (process, sum)) in processes {
            let process = self.described(serial, process, &sum);
            match all.entry(serial) {
                Entry::Vacant(entry) => drop(entry.insert(process)),
                // The message of a thread's start was lost, and its process was thought to have
                // ended.
                Entry::Occupied(mut entry) => {
                    entry.get_mut().counters = None;
                    entry.get_mut().threads.extend(process.threads);
                }
            }
        }
        (all.into_values().collect(), unseen_ends)
    }

    /// The process with its program and its counters.
    fn described(&mut self, program: u32, process: Process, sum: &Sum) -> Process {
        let Executed {
            exe,
            command,
            earlier,
        } = self.programs.remove(&program).unwrap_or_default();
        Process {
            earlier,
            exe,
            command,
            counters: sum.total(),
            ..process
        }
    }
}

impl Task {
    /// Whether nothing will be counted for it any more.
    fn can_be_taken(&self) -> bool {
        self.is_final && self.ended.as_ref().is_some_and(|end| !end.made_ring)
    }
}

/// Adds a task to its process.
fn add_task(
    process: &mut Process,
    serial: u32,
    task: Task,
    raw: Option<RawCounters>,
    counted: TaskCounts,
) {
    // A process has the name of its first task. After an exec by another thread, that thread has
    // the process id.
    if serial == task.program || task.tid == task.pid {
        process.pid = task.pid;
        process.comm = (!task.comm.is_empty()).then(|| task.comm.clone());
        process.ppid = process.ppid.or(task.ppid);
    }
    let TaskCounts {
        rows,
        parts,
        other_calls,
        timed_calls,
    } = counted;
    let (ring_rows, rows) = rows
        .into_iter()
        .partition(|row| row.call.as_ring_operation().is_some());
    process.threads.push(Thread {
        tid: task.tid,
        comm: (!task.comm.is_empty()).then_some(task.comm),
        counters: raw.map(|raw| adjusted(&raw)),
        rows,
        ring_rows,
        started_ns: task.started_ns,
        ended_ns: task.ended.as_ref().map(|end| end.time_ns),
        other_calls: task.ended.map(|end| end.other_calls).or(other_calls),
        parts,
        timed_calls,
    });
}

/// A sum that is unknown if any addend is.
#[derive(Debug, Default)]
struct Sum {
    known: RawCounters,
    unknown: bool,
}

impl Sum {
    fn add(&mut self, addend: Option<RawCounters>) {
        let Some(addend) = addend else {
            self.unknown = true;
            return;
        };
        let sum = &mut self.known;
        sum.user_ns += addend.user_ns;
        sum.system_ns += addend.system_ns;
        sum.runtime_ns += addend.runtime_ns;
        sum.voluntary_switches += addend.voluntary_switches;
        sum.involuntary_switches += addend.involuntary_switches;
        sum.minor_faults += addend.minor_faults;
        sum.major_faults += addend.major_faults;
    }

    fn total(&self) -> Option<Counters> {
        (!self.unknown).then(|| adjusted(&self.known))
    }
}

fn minus(all: &RawCounters, before: &RawCounters) -> RawCounters {
    RawCounters {
        user_ns: all.user_ns.saturating_sub(before.user_ns),
        system_ns: all.system_ns.saturating_sub(before.system_ns),
        runtime_ns: all.runtime_ns.saturating_sub(before.runtime_ns),
        voluntary_switches: all
            .voluntary_switches
            .saturating_sub(before.voluntary_switches),
        involuntary_switches: all
            .involuntary_switches
            .saturating_sub(before.involuntary_switches),
        minor_faults: all.minor_faults.saturating_sub(before.minor_faults),
        major_faults: all.major_faults.saturating_sub(before.major_faults),
    }
}

/// CPU time as the kernel reports it everywhere: the run time is exact, and the user and system
/// times, which the timer tick samples, only say how to divide it (`cputime_adjust` of the kernel's
/// kernel/sched/cputime.c).
fn adjusted(raw: &RawCounters) -> Counters {
    let sampled = u128::from(raw.user_ns) + u128::from(raw.system_ns);
    let system_ns = if raw.system_ns == 0 {
        0
    } else {
        let share = u128::from(raw.runtime_ns) * u128::from(raw.system_ns) / sampled;
        u64::try_from(share).unwrap_or(raw.runtime_ns)
    };
    Counters {
        user_ns: raw.runtime_ns - system_ns,
        system_ns,
        voluntary_switches: raw.voluntary_switches,
        involuntary_switches: raw.involuntary_switches,
        minor_faults: raw.minor_faults,
        major_faults: raw.major_faults,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(serial: u32, program: u32, kind: Kind) -> Event {
        Event {
            serial,
            program,
            tid: 100 + serial,
            pid: 100 + program,
            time_ns: u64::from(serial) * 10,
            comm: format!("t{serial}"),
            kind,
        }
    }

    fn raw(minor_faults: u64) -> RawCounters {
        RawCounters {
            minor_faults,
            runtime_ns: 1000,
            user_ns: 300,
            system_ns: 100,
            ..RawCounters::default()
        }
    }

    fn ended(minor_faults: u64) -> Kind {
        let other_calls = OtherCalls {
            calls: 2,
            total_ns: Some(minor_faults),
            ..OtherCalls::NONE
        };
        Kind::Ended {
            counters: raw(minor_faults),
            other_calls,
            made_ring: false,
        }
    }

    fn exec(counters: RawCounters) -> Kind {
        Kind::Exec {
            exe: Some("/bin/x".into()),
            command: Some(vec!["x".into()]),
            counters,
            replaced: None,
        }
    }

    #[test]
    fn the_counters_of_threads_are_summed_for_their_process() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Started { ppid: 7 }));
        task_table.record(event(1, 1, exec(RawCounters::default())));
        task_table.record(event(2, 1, Kind::Started { ppid: 101 }));
        assert_eq!(task_table.not_ended().count(), 2);
        for serial in [2, 1] {
            task_table.record(event(serial, 1, ended(5)));
        }
        assert_eq!(task_table.not_ended().count(), 0);
        assert_eq!(task_table.wall_ns(Until::RootEnds, 0), Some(10));
        let (processes, unseen) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        assert_eq!((processes.len(), unseen), (1, 0));
        let process = &processes[0];
        assert_eq!(
            (process.pid, process.ppid, process.comm.as_deref()),
            (101, Some(7), Some("t1"))
        );
        assert_eq!(process.threads.len(), 2);
        assert_eq!(
            process.threads[0].other_calls,
            Some(OtherCalls {
                calls: 2,
                total_ns: Some(5),
                ..OtherCalls::NONE
            })
        );
        let counters = process.counters.expect("all ends were seen");
        assert_eq!(
            (counters.minor_faults, counters.user_ns, counters.system_ns),
            (10, 1500, 500)
        );
    }

    #[test]
    fn what_the_root_used_before_its_exec_is_not_counted() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Started { ppid: 7 }));
        task_table.record(event(1, 1, exec(raw(30))));
        task_table.record(event(1, 1, ended(42)));
        let (processes, _) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        assert_eq!(processes[0].counters.expect("known").minor_faults, 12);
    }

    #[test]
    fn an_exec_begins_another_program() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Started { ppid: 7 }));
        task_table.record(event(1, 1, exec(raw(30))));
        let other_calls = OtherCalls {
            calls: 3,
            ..OtherCalls::NONE
        };
        let executed = Kind::Exec {
            exe: Some("/bin/y".into()),
            command: None,
            counters: raw(35),
            replaced: Some(Replaced {
                serial: 1,
                program: 1,
                tid: 101,
                other_calls,
                made_ring: false,
            }),
        };
        let pid = 101;
        task_table.record(Event {
            pid,
            ..event(2, 2, executed)
        });
        task_table.record(Event {
            pid,
            ..event(2, 2, ended(42))
        });
        assert_eq!(task_table.wall_ns(Until::RootEnds, 0), Some(10));
        assert_eq!(task_table.processes(), 1);
        let (processes, _) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        let figures = |process: &Process| {
            (
                (process.pid, process.ppid, process.exe.clone()),
                process.earlier.clone(),
                process.counters.map(|counters| counters.minor_faults),
                process.threads[0].other_calls.map(|sums| sums.calls),
            )
        };
        let before = (
            (101, Some(7), Some("/bin/x".into())),
            Vec::new(),
            Some(5),
            Some(3),
        );
        let after = (
            (101, Some(7), Some("/bin/y".into())),
            vec!["t1".to_owned()],
            Some(7),
            Some(2),
        );
        assert_eq!(
            processes.iter().map(figures).collect::<Vec<_>>(),
            [before, after]
        );
    }

    #[test]
    fn a_thread_is_counted_from_entering_to_leaving_the_scope() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Entered { counters: raw(30) }));
        task_table.record(event(2, 1, Kind::Started { ppid: 101 }));
        for serial in [2, 1] {
            task_table.record(Event {
                time_ns: 500 - u64::from(serial) * 100,
                ..event(serial, 1, ended(42))
            });
        }
        assert_eq!(task_table.wall_ns(Until::RootEnds, 0), Some(390));
        task_table.record(Event {
            time_ns: 900,
            ..event(2, 1, ended(1))
        });
        assert_eq!(
            task_table.wall_ns(Until::RootEnds, 0),
            Some(390),
            "a thread that outlives the root does not extend the time"
        );
        let (processes, _) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        assert_eq!(
            processes[0].threads[0]
                .counters
                .expect("known")
                .minor_faults,
            12
        );
    }

    #[test]
    fn a_task_whose_end_was_not_seen_makes_the_counters_of_its_process_unknown() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Started { ppid: 7 }));
        let (processes, unseen) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        assert_eq!((processes[0].counters, unseen), (None, 1));
    }

    #[test]
    fn a_live_task_is_running_and_has_its_counters_so_far() {
        let mut task_table = TaskTable::default();
        task_table.record(event(1, 1, Kind::Started { ppid: 7 }));
        let alive = HashMap::from([(1, Some(raw(3)))]);
        let (processes, unseen) =
            task_table.into_processes(HashMap::new(), &alive, true, BTreeMap::new());
        assert_eq!((processes[0].state, unseen), (State::Running, 0));
        assert_eq!(processes[0].counters.map(|c| c.minor_faults), Some(3));
    }
}
