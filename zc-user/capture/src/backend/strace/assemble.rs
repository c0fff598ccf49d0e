//! The [`Trace`] of what was collected: tasks become processes with threads.

mod complete;
mod used;

use std::collections::{BTreeMap, HashMap};

use super::{
    args::Child,
    clock::Moment,
    names::Names,
    rows::How,
    tasks::{FirstCall, Launch, Life, Program, Task, TaskId, Tasks},
    text::unescape,
};
use crate::trace::{File, Loss, Process, Row, State, Thread, Trace};

/// What was collected besides tasks.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the log")]
pub struct Parts {
    /// What was lost.
    pub losses: BTreeMap<Loss, u64>,
    /// The first moment that the log names.
    pub first_moment: Option<Moment>,
    /// Whether any call has a duration.
    pub has_durations: bool,
    /// Whether the table of some calls was told by their names.
    pub guessed_abi: bool,
    /// Whether what stands later in the log happened later: it is one log, and not one for each thread.
    pub is_ordered: bool,
    /// Whether somebody else called strace, with options that are not known.
    pub is_recorded: bool,
    /// Whether the log ends within a line.
    pub is_cut_off: bool,
    /// Whether strace let go of a task that went on.
    pub was_detached: bool,
}

impl Parts {
    /// Counts a loss.
    pub fn lose(&mut self, loss: Loss) {
        *self.losses.entry(loss).or_default() += 1;
    }
}

/// The trace. `files`: all of them, by their ids.
pub fn trace(tasks: Tasks, files: Vec<File>, names: &Names, mut parts: Parts) -> Trace {
    let (mut tasks, unseen) = tasks.into_parts();
    let root = root(&tasks, parts.is_ordered);
    let is_recorded = parts.is_recorded;
    if is_recorded {
        complete::find_gaps(&tasks, root, &mut parts);
    }
    count_first_execs(&mut tasks, root, names, &mut parts);
    let mut trace = Trace {
        backend: super::NAME,
        kernel: None,
        arch: None,
        command: Vec::new(),
        started_at: None,
        wall_ns: None,
        exit: None,
        losses: BTreeMap::new(),
        notes: notes(&tasks, root, unseen, &mut parts),
        counted: None,
        directory: None,
        files: Vec::new(),
        calls_without_files: 0,
        sees_memory: false,
        processes: Vec::new(),
    };
    if let Some(root) = root {
        describe_root(&mut trace, &tasks[root], &parts);
    }
    trace.losses = parts.losses;
    trace.processes = processes(tasks, is_recorded);
    if !parts.is_ordered {
        // Files of one thread each do not tell what came before what of another.
        rows(&mut trace).for_each(|row| (row.order, row.moved_order, row.last_order) = (None, None, None));
    }
    trace.files = used::keep(files, rows(&mut trace));
    if rows(&mut trace).any(|row| row.is_unseen_submission()) {
        trace.notes.push("strace does not see what operations of io_uring move: transfers are lower bounds".to_owned());
    }
    let unnamed = complete::unnamed_files_note(&trace).filter(|_| is_recorded);
    trace.notes.extend(unnamed);
    trace
}

fn rows(trace: &mut Trace) -> impl Iterator<Item = &mut Row> {
    trace.processes.iter_mut().flat_map(|process| &mut process.threads).flat_map(|thread| &mut thread.rows)
}

/// The launched command: the first task; of several logs, the one that nobody made, with an exec at its beginning if there is one.
fn root(tasks: &[Task], is_ordered: bool) -> Option<TaskId> {
    let mut orphans = (0..tasks.len()).filter(|&id| is_ordered || tasks[id].creator.is_none());
    let first = orphans.next()?;
    if is_ordered || launch(&tasks[first]).is_some() {
        return Some(first);
    }
    Some(orphans.find(|&id| launch(&tasks[id]).is_some()).unwrap_or(first))
}

fn launch(task: &Task) -> Option<&Launch> {
    if let FirstCall::Exec(launch) = &task.first_call { Some(launch) } else { None }
}

/// Every exec that began a task counts, but for one by which the command could not begin.
fn count_first_execs(tasks: &mut [Task], root: Option<TaskId>, names: &Names, parts: &mut Parts) {
    for (id, task) in tasks.iter_mut().enumerate() {
        let Some(&Launch { name, abi, ended, .. }) = launch(task) else { continue };
        // The trace begins with the command's successful exec: one that failed comes before.
        if !names.get(name).is_selected || (Some(id) == root && ended.how != How::Value(0)) {
            continue;
        }
        if ended.how == How::Error(None) {
            parts.lose(Loss::UncountedErrnos);
        }
        task.rows.add(name, names.get(name), abi, ended);
    }
}

fn describe_root(trace: &mut Trace, root: &Task, parts: &Parts) {
    let launch = launch(root).filter(|launch| launch.ended.how == How::Value(0));
    trace.command = launch.and_then(|launch| launch.program.command.clone()).unwrap_or_default();
    if let Life::Ended(exit) = root.life {
        trace.exit = exit;
    }
    let start = launch.map_or(parts.first_moment.filter(|_| parts.is_ordered), |launch| launch.at);
    trace.started_at = start.and_then(Moment::date);
    trace.wall_ns = start.zip(root.ended_at).and_then(|(start, end)| end.since(start));
}

/// What the log does not tell. Children that it does not show are a loss.
fn notes(tasks: &[Task], root: Option<TaskId>, unseen: usize, parts: &mut Parts) -> Vec<String> {
    let mut notes = Vec::new();
    if parts.is_recorded {
        notes.push(complete::UNKNOWN_FILTER.to_owned());
    }
    if !parts.has_durations {
        notes.push("the log has no durations, so times are unknown: record it with strace -T".to_owned());
    }
    if parts.guessed_abi {
        notes.push("the log does not mark 32-bit calls; they are told by names that only 32-bit programs use".to_owned());
    }
    let orphans = (0..tasks.len()).filter(|&id| Some(id) != root && tasks[id].creator.is_none()).count();
    if orphans > 0 {
        notes.push(format!("the log does not show who made {orphans} of the tasks: threads among them are listed as processes"));
    }
    // A child in another PID namespace has another id for its parent than for strace.
    let unfollowed = unseen.saturating_sub(orphans);
    if unfollowed > 0 {
        parts.losses.insert(Loss::UnfollowedTasks, u64::try_from(unfollowed).unwrap_or(u64::MAX));
        notes.push(format!("the log has no line of {unfollowed} of the tasks that were made: without strace -f it has none, nor of those made with CLONE_UNTRACED"));
    }
    notes
}

/// Command lines that were cut short are shown only of recorded logs: what strace was told to print of them is for us to know.
fn processes(tasks: Vec<Task>, is_recorded: bool) -> Vec<Process> {
    let leaders: Vec<TaskId> = (0..tasks.len()).map(|id| leader(&tasks, id)).collect();
    let pids: Vec<u32> = tasks.iter().map(tid).collect();
    let parents: Vec<Option<u32>> =
        leaders.iter().map(|&leader| parent(&tasks, &leaders, leader).map(|parent| pids[parent])).collect();
    let mut processes: Vec<Process> = Vec::new();
    let mut by_leader: HashMap<TaskId, usize> = HashMap::new();
    for (id, task) in tasks.into_iter().enumerate() {
        let leader = leaders[id];
        let index = *by_leader.entry(leader).or_insert_with(|| {
            processes.push(Process { pid: pids[leader], ppid: parents[id], ..Process::default() });
            processes.len() - 1
        });
        let process = &mut processes[index];
        // A log that names no task is none to make up names for.
        let shown = || String::from_utf8_lossy(&unescape(&task.comm)).into_owned();
        let comm = (!task.comm.is_empty()).then(|| task.executed_as.clone().unwrap_or_else(shown));
        if id == leader {
            let Program { exe, command, is_cut } = task.program.unwrap_or_default();
            process.comm.clone_from(&comm);
            process.exe = exe;
            process.command = command.filter(|_| is_recorded || !is_cut);
            process.state = if task.life == Life::Alive { State::Running } else { State::Exited };
        }
        process.threads.push(Thread { tid: pids[id], comm, rows: task.rows.into_rows(), ..Thread::default() });
    }
    processes
}

/// The id of a task: that of its lines, or the one that its own calls name; 0 if there is neither.
fn tid(task: &Task) -> u32 {
    task.tid.or(task.own_tid).unwrap_or(0)
}

/// The first thread of a task's process.
fn leader(tasks: &[Task], id: TaskId) -> TaskId {
    let mut id = id;
    while let Some((creator, Child::Thread)) = tasks[id].creator {
        id = creator;
    }
    id
}

/// The first thread of the process that is the parent of this one.
fn parent(tasks: &[Task], leaders: &[TaskId], leader: TaskId) -> Option<TaskId> {
    let (mut creator, mut child) = tasks[leader].creator?;
    while child == Child::Sibling {
        (creator, child) = tasks[leaders[creator]].creator?;
    }
    Some(leaders[creator])
}
