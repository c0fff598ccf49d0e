//! Tracks tasks by the events of the kernel side, and makes the processes and threads of a
//! [`Trace`](crate::trace::Trace) of them. Pure.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    mem,
};

use crate::{
    backend::Until,
    trace::{Counters, OtherCalls, Process, State, Thread},
};

use super::{
    counts::TaskCounts,
    events::{Event, Kind},
};

/// The serial number of the root's first task. The kernel side numbers tasks from 1.
const ROOT: u32 = 1;

/// The process of tasks whose messages were all lost; it comes last.
const UNKNOWN_PROCESS: u32 = u32::MAX;

/// The kernel's raw counters of a task.
pub type RawCounters = zc_ebpf::Counters;

/// All tasks that were followed.
#[derive(Debug, Clone, Default)]
pub struct TaskTable {
    tasks: BTreeMap<u32, Task>,
    /// By the serial number of the process: its tasks.
    tasks_of: HashMap<u32, Vec<u32>>,
    /// The tasks whose ends were seen since they were last asked for.
    just_ended: Vec<u32>,
    processes: HashMap<u32, Program>,
    /// When the last of the tasks ended that are no longer in the table.
    last_end_ns: u64,
    /// The counters of the root's task when its program began: what it used before is not part of
    /// the trace.
    baseline: RawCounters,
    began_ns: Option<u64>,
    /// Whether the root is a thread that entered the scope itself (a closure). Other threads of its
    /// process may outlive it.
    root_is_thread: bool,
}

#[derive(Debug, Clone, Default)]
struct Task {
    process: u32,
    tid: u32,
    pid: u32,
    ppid: Option<u32>,
    comm: String,
    started_ns: Option<u64>,
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

#[derive(Debug, Clone, Default)]
struct Program {
    exe: Option<String>,
    command: Option<Vec<String>>,
}

impl TaskTable {
    /// Records an event.
    pub fn record(&mut self, event: Event) {
        let task = self.tasks.entry(event.serial).or_insert_with(|| {
            self.tasks_of
                .entry(event.process)
                .or_default()
                .push(event.serial);
            Task::default()
        });
        (task.process, task.tid, task.pid) = (event.process, event.tid, event.pid);
        task.comm = event.comm;
        task.started_ns = task.started_ns.or(Some(event.time_ns));
        match event.kind {
            Kind::Started { ppid } => task.ppid = Some(ppid),
            Kind::Exec {
                exe,
                command,
                counters,
            } => {
                if event.process == ROOT && self.began_ns.is_none() {
                    self.began_ns = Some(event.time_ns);
                    self.baseline = counters;
                }
                self.processes
                    .insert(event.process, Program { exe, command });
            }
            Kind::Entered { counters } => {
                self.root_is_thread = true;
                self.began_ns = Some(event.time_ns);
                self.baseline = counters;
            }
            Kind::Ended {
                counters,
                other_calls,
                made_ring,
            } => {
                task.ended = Some(End {
                    time_ns: event.time_ns,
                    counters,
                    other_calls,
                    made_ring,
                });
                self.just_ended.push(event.serial);
            }
        }
    }

    /// Whether the start of any program was seen.
    pub fn has_seen_exec(&self) -> bool {
        !self.processes.is_empty()
    }

    /// How many processes there were so far.
    pub fn processes(&self) -> u64 {
        self.tasks
            .iter()
            .filter(|(serial, task)| **serial == task.process)
            .count() as u64
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
                task.process == ROOT
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

    /// Removes the processes all of whose tasks have ended and were among those that
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
            let process = task.process;
            if process == ROOT || process == 0 {
                continue;
            }
            let tasks = self
                .tasks_of
                .get(&process)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let is_final = |serial: &u32| self.tasks.get(serial).is_some_and(Task::can_be_taken);
            if !tasks.iter().all(is_final) {
                continue;
            }
            let (mut built, mut sum) = (Process::default(), Sum::default());
            for serial in self.tasks_of.remove(&process).unwrap_or_default() {
                let Some(task) = self.tasks.remove(&serial) else {
                    continue;
                };
                self.last_end_ns = self
                    .last_end_ns
                    .max(task.ended.as_ref().map_or(0, |end| end.time_ns));
                let raw = task
                    .ended
                    .as_ref()
                    .map(|end| end.counters)
                    .filter(|_| counters_known);
                sum.add(raw);
                add_task(&mut built, serial, task, raw, counted(serial));
            }
            ended.push((process, self.described(process, built, &sum)));
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
                .entry(if task.process == 0 {
                    UNKNOWN_PROCESS
                } else {
                    task.process
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
                .map(|raw| {
                    if serial == ROOT {
                        minus(&raw, &self.baseline)
                    } else {
                        raw
                    }
                })
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
    fn described(&mut self, serial: u32, process: Process, sum: &Sum) -> Process {
        let Program { exe, command } = self.processes.remove(&serial).unwrap_or_default();
        Process {
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
    if serial == task.process || task.tid == task.pid {
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

    fn event(serial: u32, process: u32, kind: Kind) -> Event {
        Event {
            serial,
            process,
            tid: 100 + serial,
            pid: 100 + process,
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
        // Only the first exec begins the trace.
        task_table.record(event(1, 1, exec(raw(35))));
        task_table.record(event(1, 1, ended(42)));
        let (processes, _) =
            task_table.into_processes(HashMap::new(), &HashMap::new(), true, BTreeMap::new());
        assert_eq!(processes[0].counters.expect("known").minor_faults, 12);
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
