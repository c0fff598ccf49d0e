//! Makes the [`Trace`] of what was collected: tasks become processes with threads, and only files
//! that rows use are kept.
//!
//! It also looks for signs that a recorded log is incomplete. strace leaves calls out if it is told
//! to (`-e trace`, `-z`, `-Z`, `-P`), and the log does not say so. Two signs show it: the first
//! line of the command is not its exec, or a process exited without `exit_group`, which strace does
//! not take for a successful call. A filter that lets both through leaves no sign, so every
//! recorded log gets a note.

use std::collections::BTreeMap;

use super::{
    count::Counter,
    decode::NewProgram,
    line::{Ending, Stamp},
    log_facts::LogFacts,
    syntax::unescaped_text,
    tasks::{FirstCall, Task, TaskId, TaskState},
};
use crate::{
    backend::file_calls::ChildKind,
    syscalls::Fds,
    trace::{Ends, Exit, File, FileId, Loss, Process, Row, State, Thread, Trace},
};
use zctrace_core::durable::Doubt;

/// Makes the trace of all that was counted.
pub fn trace(mut counter: Counter) -> Trace {
    let in_table = counter.table.calls();
    if in_table / 2 > counter.log.table_calls {
        return trace_of_table(counter);
    }
    if in_table > counter.log.table_calls {
        counter.log.count_loss(Loss::UnshownCalls);
    }
    let root = root_task(counter.tasks.all(), &counter.log);
    let Counter {
        tasks,
        files,
        mut failed_paths,
        mut log,
        mut marked_spans,
        syncs,
        judges_syncs,
        left_open,
        sizes,
        slow_calls,
        begun,
        ..
    } = counter;
    let (tasks, unseen) = tasks.into_parts();
    let (is_recorded, is_ordered) = (log.is_recorded(), log.is_ordered());
    let is_attached = log.is_attached;
    if is_recorded {
        find_gaps(&tasks, root, &mut log);
        // A log may leave out the calls that show it.
        failed_paths.directory_may_change = true;
    }
    let mut trace = Trace {
        notes: notes_on_gaps(&tasks, root, unseen, &mut log),
        failed_paths: Some(failed_paths),
        ..begun
    };
    if let Some(root) = root {
        describe_root(&mut trace, &tasks[root], &log);
    }
    if let Some(open) = left_open {
        let has_ended = root.is_some_and(|root| matches!(tasks[root].state, TaskState::Ended(_)));
        let doubts = doubts_of_order(&log, tasks.len()).into_iter();
        let mut doubts: Vec<String> = doubts
            .map(|doubt| doubt.rest_of_sentence().to_owned())
            .collect();
        if is_attached || log.losses.contains_key(&Loss::UnshownCalls) {
            doubts.push("the record does not have all calls of the command".to_owned());
        }
        trace.left_open = Some(open.finish(has_ended && root == Some(0), is_ordered, doubts));
    }
    if let Some(mut events) = syncs {
        let doubts = doubts_of_order(&log, tasks.len());
        let is_success = trace.exit == Some(Exit::Code(0));
        trace.touched = events.take_touched(&doubts, !is_recorded);
        if !is_recorded {
            events.look_up_files();
        }
        trace.syncs = judges_syncs.then(|| events.finish(is_success, doubts));
    }
    let unended = tasks.iter().flat_map(|task| &task.spans);
    unended.for_each(|span| marked_spans.add_unended(&span.name));
    trace.marked_spans = marked_spans.into_spans();
    trace.slow_calls = slow_calls.map(|notes| notes.finish(is_ordered && !is_attached));
    trace.sizes = sizes;
    trace.losses = log.losses;
    trace.notes.extend(files.summed_note());
    trace.processes = processes(tasks, is_recorded);
    if !is_ordered {
        // Logs of one thread each do not show the order of calls in different threads.
        all_rows(&mut trace).for_each(|row| row.order = None);
    }
    let files = files.into_all();
    trace.files = keep_used_files(files, all_rows(&mut trace));
    if all_rows(&mut trace).any(|row| row.is_unseen_submission()) {
        trace
            .notes
            .push("strace does not see the bytes of io_uring operations: there may be more transfers and bytes".to_owned());
    }
    let uses_files = |row: &mut Row| row.calls > row.errors && row.call.spec().fds != Fds::None;
    if is_recorded && trace.files.is_empty() && all_rows(&mut trace).any(uses_files) {
        trace.notes.push(UNNAMED_FILES.to_owned());
    }
    trace
}

/// Why the order of changes and syncs may be another one than the log has.
fn doubts_of_order(log: &LogFacts, tasks: usize) -> Vec<Doubt> {
    const LOSSES: [Loss; 3] = [
        Loss::UnparsedLines,
        Loss::UnfollowedTasks,
        Loss::ExitsWithoutEntry,
    ];
    let is_lossy = LOSSES.iter().any(|loss| log.losses.contains_key(loss));
    let all = [
        (is_lossy, Doubt::Lost),
        (!log.is_ordered() && tasks > 1, Doubt::Order),
    ];
    let all = all.into_iter().filter(|(is_it, _)| *is_it);
    all.map(|(_, doubt)| doubt).collect()
}

/// The trace of a log that is a table of `strace -c`: its lines show less than half of the calls that
/// the table has. Old versions print the command's exec above it.
fn trace_of_table(counter: Counter) -> Trace {
    let untimed = counter.table.calls();
    let slow_calls = counter.slow_calls.map(|mut notes| {
        notes.untimed = untimed;
        notes.finish(true)
    });
    let process = counter.table.into_process(&counter.names.selection);
    Trace {
        notes: vec![TABLE_ONLY.to_owned()],
        slow_calls,
        processes: vec![process],
        ..counter.begun
    }
}

/// The note on a log that is a table.
const TABLE_ONLY: &str = "the log is a table of strace -c: it has only calls and errors, and does not say whether it includes child processes (-f); its times are not shown, because they may be CPU time or, with -w, wall time";

fn all_rows(trace: &mut Trace) -> impl Iterator<Item = &mut Row> {
    trace
        .all_processes_mut()
        .flat_map(|process| &mut process.threads)
        .flat_map(|thread| &mut thread.rows)
}

/// The task of the launched command: the first one if it begins with an exec, or if it created all
/// others; with several logs, one without a creator that begins with an exec. `None`: a log that
/// leaves calls out may begin with a line of any process.
fn root_task(tasks: &[Task], log: &LogFacts) -> Option<TaskId> {
    let mut orphans = (0..tasks.len()).filter(|&id| tasks[id].creator.is_none());
    let begins_with_exec = |&id: &TaskId| matches!(tasks[id].first_call, FirstCall::Exec(..));
    if log.is_ordered() {
        let first = (!tasks.is_empty()).then_some(0);
        let orphans = orphans.count();
        return first.filter(|id| begins_with_exec(id) || orphans == 1);
    }
    orphans
        .clone()
        .find(begins_with_exec)
        .or_else(|| orphans.next().filter(|_| orphans.next().is_none()))
}

fn describe_root(trace: &mut Trace, root: &Task, log: &LogFacts) {
    trace.exit = match root.state {
        TaskState::Ended(exit) => exit,
        _ => root.exit_code.map(Exit::Code),
    };
    if !log.is_recorded() {
        return;
    }
    let executed_at = match root.first_call {
        FirstCall::Exec(Ending::Value(0), at) => Some(at),
        _ => None,
    };
    let program = root.runs().next().and_then(|run| run.program.as_ref());
    let program = program.filter(|_| executed_at.is_some());
    trace.command = program
        .and_then(|program| program.command.clone())
        .unwrap_or_default();
    let first_moment = log.first_moment.filter(|_| log.is_ordered());
    let start = executed_at.unwrap_or(first_moment);
    trace.started_at = start.and_then(Stamp::date);
    trace.wall_ns = start
        .zip(root.ended_at)
        .and_then(|(start, end)| end.since(start));
}

/// Notes on what the log does not say. Children without a line are a loss.
fn notes_on_gaps(
    tasks: &[Task],
    root: Option<TaskId>,
    unseen: usize,
    log: &mut LogFacts,
) -> Vec<String> {
    let mut notes = Vec::new();
    if log.is_recorded() {
        notes.push(UNKNOWN_FILTER.to_owned());
    }
    if !log.has_durations {
        notes.push(
            "the log has no durations, so times are unknown: record it with strace -T".to_owned(),
        );
    }
    if let Some(call) = log.call_of_32_bit.as_ref().filter(|_| !log.has_modes) {
        notes.push(format!(
            "the log has calls that only 32-bit programs make, such as {call}, and does not say which programs are: all calls are listed as those of 64-bit programs"
        ));
    }
    let orphans = (0..tasks.len())
        .filter(|&id| Some(id) != root && tasks[id].creator.is_none())
        .count();
    if orphans > 0 && !log.is_attached {
        notes.push(format!(
            "the log does not show what created {orphans} of the tasks: threads among them are listed as processes"
        ));
    }
    // A child in another PID namespace has one id for its parent and another for strace.
    let unfollowed = unseen.saturating_sub(orphans);
    if unfollowed > 0 {
        log.losses.insert(
            Loss::UnfollowedTasks,
            u64::try_from(unfollowed).unwrap_or(u64::MAX),
        );
        notes.push(format!("the log lacks {unfollowed} of the tasks that were created: record it with strace -f, which shows all but tasks created with CLONE_UNTRACED"));
    }
    notes
}

/// Makes processes of tasks. Command lines that strace cut are shown for recorded logs only.
pub(super) fn processes(tasks: Vec<Task>, is_recorded: bool) -> Vec<Process> {
    let leaders: Vec<TaskId> = (0..tasks.len()).map(|id| leader(&tasks, id)).collect();
    let pids: Vec<u32> = tasks.iter().map(tid).collect();
    let parents: Vec<Option<u32>> = leaders
        .iter()
        .map(|&leader| parent_leader(&tasks, &leaders, leader).map(|parent| pids[parent]))
        .collect();
    // One for each program of a process, by its first thread and the number of programs before.
    let mut parts: BTreeMap<(TaskId, usize), Process> = BTreeMap::new();
    for (id, task) in tasks.into_iter().enumerate() {
        let (leader, is_leader) = (leaders[id], id == leaders[id]);
        let (first, earlier) = (task.programs_before, task.earlier.len());
        for (number, ran) in task.earlier.into_iter().chain([task.now]).enumerate() {
            let process = parts.entry((leader, first + number)).or_default();
            (process.pid, process.ppid) = (pids[leader], parents[id]);
            // If the log does not have names of tasks (-Y), the trace has none, either.
            let shown = unescaped_text(&ran.comm);
            let comm = (!ran.comm.is_empty()).then(|| ran.executed_as.unwrap_or(shown));
            if is_leader {
                let NewProgram {
                    exe,
                    command,
                    is_cut,
                } = ran.program.unwrap_or_default();
                process.comm.clone_from(&comm);
                process.exe = exe;
                process.command = command.filter(|_| is_recorded || !is_cut);
                let has_ended = task.state != TaskState::Alive || task.exit_code.is_some();
                let is_running = number == earlier && !has_ended;
                process.state = if is_running {
                    State::Running
                } else {
                    State::Exited
                };
            }
            let fault = task.fault.filter(|_| number == earlier);
            process.threads.push(Thread {
                tid: pids[id],
                fault,
                comm,
                rows: ran.rows.sums,
                ..Thread::default()
            });
        }
    }
    let mut before = None;
    for (&(leader, _), process) in &mut parts {
        if let Some((_, earlier)) = before.filter(|(of_leader, _)| *of_leader == leader) {
            process.earlier = earlier;
        }
        before = Some((leader, process.programs_up_to()));
    }
    parts.into_values().collect()
}

/// The id of a task: that of its lines, or the one that its own calls returned; 0 if there is
/// neither.
fn tid(task: &Task) -> u32 {
    task.tid.or(task.own_tid).unwrap_or(0)
}

/// The first thread of a task's process.
pub(super) fn leader(tasks: &[Task], id: TaskId) -> TaskId {
    let mut id = id;
    while let Some((creator, ChildKind::Thread)) = tasks[id].creator {
        id = creator;
    }
    id
}

/// The first thread of the process that is the parent of this one.
fn parent_leader(tasks: &[Task], leaders: &[TaskId], leader: TaskId) -> Option<TaskId> {
    let (mut creator, mut child) = tasks[leader].creator?;
    while child == ChildKind::Sibling {
        (creator, child) = tasks[leaders[creator]].creator?;
    }
    Some(leaders[creator])
}

/// The note on every recorded log.
const UNKNOWN_FILTER: &str = "a log does not say which calls strace was told to leave out: calls that are not listed may have been made";

/// Counts the signs that calls were left out, and notes if the log ends too early.
fn find_gaps(tasks: &[Task], root: Option<TaskId>, log: &mut LogFacts) {
    let begins_late = match root {
        Some(root) => matches!(tasks[root].first_call, FirstCall::Other),
        None => !tasks.is_empty(),
    };
    // A log that ends by detaching from a task began by attaching to it.
    let late = usize::from(begins_late && !log.was_detached);
    let gaps = late + exits_without_call(tasks);
    if gaps > 0 {
        *log.losses.entry(Loss::UnshownCalls).or_default() += gaps as u64;
    }
    let is_alive = |task: &Task| task.state == TaskState::Alive && !task.has_exited;
    let goes_on = match root {
        Some(root) => is_alive(&tasks[root]),
        None => tasks.iter().any(is_alive),
    };
    if log.is_cut_off || (goes_on && !log.was_detached) {
        log.losses.insert(Loss::TracerEnded, 1);
    }
}

/// How many processes exited by themselves although no thread of theirs made a call for it.
fn exits_without_call(tasks: &[Task]) -> usize {
    let mut by_process: BTreeMap<TaskId, (bool, bool)> = BTreeMap::new();
    for (id, task) in tasks.iter().enumerate() {
        let (ended, called) = by_process.entry(leader(tasks, id)).or_default();
        *ended |= matches!(task.state, TaskState::Ended(Some(Exit::Code(_))));
        *called |= task.has_exited;
    }
    by_process
        .values()
        .filter(|(ended, called)| *ended && !called)
        .count()
}

/// The note on a log that does not name the files that its calls use.
const UNNAMED_FILES: &str =
    "the log names no files, so which bytes went where is unknown: record it with strace -yy";

/// The files that these rows use, in their order. Renumbers them in the rows.
fn keep_used_files<'a>(all: Vec<File>, rows: impl Iterator<Item = &'a mut Row>) -> Vec<File> {
    let mut places = vec![None; all.len()];
    let mut all = all;
    let mut used = Vec::new();
    let mut place = |FileId(old): FileId| {
        let old = usize::try_from(old).unwrap_or(usize::MAX);
        *places[old].get_or_insert_with(|| {
            used.push(std::mem::take(&mut all[old]));
            FileId(u32::try_from(used.len() - 1).unwrap_or(u32::MAX))
        })
    };
    for row in rows {
        let Ends { input, output } = row.ends;
        let input = input.map(|input| input.with_file(place(input.file())));
        row.ends = Ends {
            input,
            output: output.map(&mut place),
        };
    }
    used
}
