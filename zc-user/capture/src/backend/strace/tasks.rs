//! Tracks the threads of a log: who created them, which one a line without a thread id belongs to,
//! and which call each is in if the line of its entry ended before the call returned.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use super::{
    decode::{NewProgram, child_kind},
    line::{Ending, Event, Stamp},
    marks::OpenSpan,
    names::NameId,
    rows::{EndedCall, ThreadRows},
    syntax::unescaped_text,
};
use crate::{
    backend::{Progress, file_calls::ChildKind},
    syscalls::Abi,
    text::file_name,
    trace::{Exit, Fault, FileId},
};

/// Index of a task in [`Tasks`].
pub type TaskId = usize;

/// A thread, from its first line to its last. An id that the kernel uses again is another task.
#[derive(Debug)]
pub struct Task {
    /// Its id; `None` in a log without ids.
    pub tid: Option<u32>,
    /// The id that its own calls returned, for a log without ids.
    pub own_tid: Option<u32>,
    /// The task that created it, and what kind of task it is.
    pub creator: Option<(TaskId, ChildKind)>,
    /// Number of its first line.
    pub first_line: u64,
    /// Number of its last line so far.
    pub last_line: u64,
    /// The table of its calls.
    pub abi: Abi,
    /// Whether it is alive.
    pub state: TaskState,
    /// Whether it called `exit` or `exit_group`.
    pub has_exited: bool,
    /// The status that it gave to `exit_group`.
    pub exit_code: Option<i32>,
    /// The fault of the signal that was its last event.
    pub fault: Option<Fault>,
    /// When it ended.
    pub ended_at: Option<Stamp>,
    /// The program that it runs.
    pub now: ProgramRun,
    /// The programs that it ran before.
    pub earlier: Vec<ProgramRun>,
    /// How many programs its process had run before the one in which it was created.
    pub programs_before: usize,
    /// Its first call.
    pub first_call: FirstCall,
    /// The call that it is in, if its line ended before the call returned.
    pub pending: Option<CallEntry<'static>>,
    /// Its last call, if only its next line shows what became of it.
    pub uncertain_call: Option<Box<EndedCall>>,
    /// The spans that it has begun and not ended, the innermost last.
    pub spans: Vec<OpenSpan>,
    /// The file that it opened last under each descriptor.
    pub opened: HashMap<u32, FileId>,
    /// The thread that took over its id by an exec, until the arguments of that exec are known.
    pub superseded_by: Option<u32>,
}

/// What a task did while it ran one program.
#[derive(Debug, Default)]
pub struct ProgramRun {
    /// Its name, escaped (`-Y`).
    pub comm: Vec<u8>,
    /// Its name after the exec. strace keeps printing the name before it.
    pub executed_as: Option<String>,
    /// The program, if it began with an exec.
    pub program: Option<NewProgram>,
    /// The task's calls.
    pub rows: ThreadRows,
}

impl ProgramRun {
    /// The name of the program; empty if unknown.
    pub fn program_name(&self) -> String {
        let executed = self
            .program
            .as_ref()
            .and_then(|program| program.exe.as_deref());
        let executed = executed.map(file_name).filter(|_| self.comm.is_empty());
        let name = self.executed_as.as_deref().or(executed);
        name.map_or_else(|| unescaped_text(&self.comm), str::to_owned)
    }
}

/// Whether a task is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It is, as far as the log shows.
    Alive,
    /// It ended; `None` if by an unknown signal.
    Ended(Option<Exit>),
    /// It has another task's id since an exec.
    Renamed,
}

/// The first call of a task.
#[derive(Debug, Clone, Copy)]
pub enum FirstCall {
    /// There has been none yet.
    Awaited,
    /// It was an exec, which may have launched the command, and ended so and then.
    Exec(Ending, Option<Stamp>),
    /// It was another call.
    Other,
}

/// All tasks of a log.
#[derive(Debug, Default)]
pub struct Tasks {
    all: Vec<Task>,
    by_tid: HashMap<u32, TaskId, foldhash::fast::RandomState>,
    /// The task of the last line without an id.
    last_nameless: Option<TaskId>,
    /// How many are alive.
    alive: usize,
    /// Tasks that were created and have no line yet, with their [`Task::programs_before`].
    unseen_children: HashMap<u32, (TaskId, ChildKind, usize)>,
    /// Tasks that strace says it follows, while the id of the first task is unknown.
    attached: HashSet<u32>,
    /// The task that last entered a call that creates a task.
    pub creating: Option<TaskId>,
}

impl Tasks {
    /// The task of a line. `resumes` is the call that the line continues.
    pub fn of_line(&mut self, tid: Option<u32>, resumes: Option<NameId>, line: u64) -> TaskId {
        let Some(tid) = tid else {
            return self.nameless(line);
        };
        match self.by_tid.get(&tid) {
            Some(&id) if self.all[id].is_alive() => id,
            _ if self.is_first(tid, resumes) => {
                self.all[0].tid = Some(tid);
                self.by_tid.insert(tid, 0);
                self.attached.clear();
                0
            }
            _ => self.add(Some(tid), line),
        }
    }

    /// The task of a line without an id. strace prints no id while it follows a single task.
    fn nameless(&mut self, line: u64) -> TaskId {
        let is_alive = |id: TaskId| self.all[id].is_alive();
        if let Some(id) = self
            .last_nameless
            .filter(|&id| is_alive(id) && (self.alive == 1 || id == 0))
        {
            return id;
        }
        let id = (0..self.all.len())
            .find(|&id| is_alive(id))
            .unwrap_or_else(|| {
                // The thread that strace attached to, if it is the only one.
                let is_only = self.all.is_empty() && self.attached.len() == 1;
                let only = self.attached.iter().next().copied().filter(|_| is_only);
                self.add(only, line)
            });
        self.last_nameless = Some(id);
        id
    }

    /// Whether a new id is that of the first task, whose lines had no id while it was alone.
    fn is_first(&self, tid: u32, resumes: Option<NameId>) -> bool {
        let Some(first) = self
            .all
            .first()
            .filter(|first| first.tid.is_none() && first.is_alive())
        else {
            return false;
        };
        if self.attached.contains(&tid) || self.unseen_children.contains_key(&tid) {
            return false;
        }
        // If the first task is in a call, its next line must continue that call.
        first.own_tid == Some(tid)
            || first
                .pending
                .as_ref()
                .is_none_or(|call| Some(call.name) == resumes)
    }

    fn add(&mut self, tid: Option<u32>, line: u64) -> TaskId {
        let id = self.all.len();
        let created = tid.and_then(|tid| self.unseen_children.remove(&tid));
        let creator = created.map(|(creator, child, _)| (creator, child));
        // strace does not announce that the child of a 32-bit task is a 32-bit one, too.
        let model = creator
            .map(|(creator, _)| creator)
            .or(self.creating.filter(|&id| self.all[id].pending.is_some()));
        self.all.push(Task {
            tid,
            own_tid: None,
            creator,
            first_line: line,
            last_line: line,
            abi: model.map_or(Abi::NATIVE, |id| self.all[id].abi),
            state: TaskState::Alive,
            has_exited: false,
            exit_code: None,
            fault: None,
            ended_at: None,
            now: ProgramRun::default(),
            earlier: Vec::new(),
            programs_before: created.map_or(0, |(_, _, programs)| programs),
            first_call: FirstCall::Awaited,
            pending: None,
            uncertain_call: None,
            spans: Vec::new(),
            opened: HashMap::new(),
            superseded_by: None,
        });
        self.alive += 1;
        if let Some(tid) = tid {
            self.by_tid.insert(tid, id);
        }
        id
    }

    /// A thread of a process that already runs.
    pub fn add_found(&mut self, pid: u32, tid: u32) {
        let leader = self.by_tid.get(&pid).copied();
        let id = self.add(Some(tid), 0);
        self.all[id].creator = leader.map(|leader| (leader, ChildKind::Thread));
    }

    /// How many programs a process had run before that has this new task.
    fn programs_before(&self, creator: TaskId, child: ChildKind) -> usize {
        if child == ChildKind::Thread {
            let creator = &self.all[creator];
            creator.programs_before + creator.earlier.len()
        } else {
            0
        }
    }

    /// strace follows a new task.
    pub fn note_attached(&mut self, tid: u32) {
        if self.all.first().is_none_or(|first| first.tid.is_none()) {
            self.attached.insert(tid);
        }
    }

    /// A call that began in line `entered` created a task. `is_ordered` says that the order of
    /// lines is that of events.
    pub fn task_created(
        &mut self,
        creator: TaskId,
        tid: u32,
        child: ChildKind,
        entered: u64,
        is_ordered: bool,
    ) {
        if let Some(&id) = self.by_tid.get(&tid) {
            let task = &self.all[id];
            let is_its_child = task.creator.is_none() && (!is_ordered || task.first_line > entered);
            if is_its_child && !self.is_or_descends_from(creator, id) {
                self.all[id].creator = Some((creator, child));
                self.all[id].programs_before = self.programs_before(creator, child);
                return;
            }
            if self.all[id].is_alive() {
                return;
            }
        }
        let programs_before = self.programs_before(creator, child);
        self.unseen_children
            .insert(tid, (creator, child, programs_before));
    }

    /// Whether `id` is `ancestor` or one of its descendants. Only a damaged log could make a cycle.
    fn is_or_descends_from(&self, id: TaskId, ancestor: TaskId) -> bool {
        let mut at = Some(id);
        while let Some(id) = at {
            if id == ancestor {
                return true;
            }
            at = self.all[id].creator.map(|(creator, _)| creator);
        }
        false
    }

    /// The task that is creating another one, which may be this one.
    pub fn creator_of_new(&self, id: TaskId) -> Option<(TaskId, ChildKind)> {
        let creator = self.creating.filter(|creator| *creator != id)?;
        let call = self.all[creator].pending.as_ref()?;
        Some((creator, child_kind(&call.args)))
    }

    /// A task ends. Returns the call that it was in.
    pub fn end(
        &mut self,
        id: TaskId,
        state: TaskState,
        at: Option<Stamp>,
    ) -> Option<CallEntry<'static>> {
        let task = &mut self.all[id];
        self.alive -= usize::from(task.is_alive());
        task.state = state;
        task.ended_at = at;
        task.pending.take()
    }

    /// An exec in the thread `by` gave it the id of `id`. Returns the call that `id` was in.
    pub fn note_superseded(&mut self, id: TaskId, by: u32) -> Option<CallEntry<'static>> {
        let abandoned = self.all[id].pending.take();
        let other = self.by_tid.get(&by).copied().filter(|&other| other != id);
        if let Some(other) = other {
            self.set_thread_of(other, id);
        }
        if let Some(other) = other.filter(|&other| self.all[other].pending.is_some()) {
            self.all[id].pending = self.end(other, TaskState::Renamed, None);
        } else {
            self.all[id].superseded_by = Some(by);
        }
        abandoned
    }

    /// An exec gives the thread `id` another id, which has its own log. If that log was read
    /// before, returns its task, which lacks the arguments of the exec.
    pub fn note_renamed(&mut self, id: TaskId, to: u32) -> Option<TaskId> {
        self.alive -= usize::from(self.all[id].is_alive());
        self.all[id].state = TaskState::Renamed;
        let leader = self.by_tid.get(&to).copied()?;
        self.set_thread_of(id, leader);
        (self.all[leader].superseded_by.is_some()
            && self.all[leader].superseded_by == self.all[id].tid)
            .then_some(leader)
    }

    /// Records that a task is a thread of this process, as an exec shows. The exec ends the other
    /// threads, so the thread that created this task may never return from its call, and no other
    /// line shows it.
    fn set_thread_of(&mut self, id: TaskId, leader: TaskId) {
        if self.all[id].creator.is_none() && !self.is_or_descends_from(leader, id) {
            self.all[id].creator = Some((leader, ChildKind::Thread));
        }
    }

    /// Whether a task with this id has a line.
    pub fn has_line(&self, tid: u32) -> bool {
        self.by_tid.contains_key(&tid)
    }

    /// The thread ids of tasks that were created and have no line.
    pub fn unseen_tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.unseen_children.keys().copied()
    }

    /// Adds those of them that are `followed`: the trace ends before their first call returns.
    pub fn add_unseen(&mut self, followed: &BTreeSet<u32>, line: u64) {
        for &tid in followed
            .iter()
            .filter(|tid| self.unseen_children.contains_key(tid))
            .collect::<Vec<_>>()
        {
            self.add(Some(tid), line);
        }
    }

    /// A task.
    pub fn get(&mut self, id: TaskId) -> &mut Task {
        &mut self.all[id]
    }

    /// All tasks in the order of their first lines, and the number of created ones without a line.
    pub fn into_parts(self) -> (Vec<Task>, usize) {
        (self.all, self.unseen_children.len())
    }

    /// How far the run is, as far as its log was read.
    pub fn progress(&self, elapsed: Duration) -> Progress {
        let is_process = |task: &&Task| {
            !matches!(task.creator, Some((_, ChildKind::Thread)))
                && task.state != TaskState::Renamed
        };
        let rows = || {
            let runs = self.all.iter().flat_map(Task::runs);
            runs.flat_map(|run| &run.rows.sums)
        };
        let bytes = rows().filter_map(|row| row.bytes);
        Progress {
            elapsed,
            processes: self.all.iter().filter(is_process).count() as u64,
            calls: rows().map(|row| row.calls).sum(),
            bytes: bytes.fold(0, u64::saturating_add),
        }
    }

    /// The ids of all tasks that are alive as far as the log shows, including those without a line
    /// so far.
    pub fn live_tids(&self) -> impl Iterator<Item = u32> + '_ {
        let alive = self
            .all
            .iter()
            .filter(|task| task.is_alive())
            .filter_map(|task| task.tid);
        alive.chain(self.unseen_tids())
    }

    /// The first task of the log: in a single log the command's.
    pub fn root(&self) -> Option<&Task> {
        self.all.first()
    }

    /// All tasks in the order of their first lines.
    pub fn all(&self) -> &[Task] {
        &self.all
    }
}

impl Task {
    /// Whether it is alive, as far as the log shows.
    pub fn is_alive(&self) -> bool {
        self.state == TaskState::Alive
    }

    /// Notes the fault of a signal. If the thread goes on, the fault did not kill it.
    pub fn note_fault(&mut self, event: &Event<'_>) {
        self.fault = match event {
            Event::Signal(fault) => *fault,
            Event::Ended(Some(Exit::Signal(signal))) => {
                let is_same = |fault: &Fault| fault.signal == signal.unsigned_abs();
                self.fault.filter(is_same)
            }
            _ => None,
        };
    }

    /// The programs that it ran, the one that it runs last.
    pub fn runs(&self) -> impl Iterator<Item = &ProgramRun> {
        self.earlier.iter().chain([&self.now])
    }

    /// It executes another program than the one that it has run so far, if it made any calls.
    pub fn begin_program(&mut self, program: NewProgram, executed_as: Option<String>) {
        let next = ProgramRun {
            comm: self.now.comm.clone(),
            executed_as,
            program: Some(program),
            rows: ThreadRows::default(),
        };
        let earlier = std::mem::replace(&mut self.now, next);
        if !matches!(self.first_call, FirstCall::Awaited) {
            self.earlier.push(earlier);
        }
    }
}

/// A call as its lines say it, without its result.
#[derive(Debug)]
pub struct CallEntry<'a> {
    /// Which call.
    pub name: NameId,
    /// Number of the line where it began.
    pub line: u64,
    /// Its arguments, as far as the log has them.
    pub args: Cow<'a, [u8]>,
    /// Whether the arguments are complete and have no foreign output in them.
    pub has_all_args: bool,
}

/// How many bytes of the arguments of an interrupted line are kept. strace cuts strings and arrays,
/// so real ones are far shorter.
const MAX_ARGS: usize = 1 << 20;

impl CallEntry<'_> {
    /// Adds more of the arguments.
    pub fn extend(&mut self, args: &[u8]) {
        let room = MAX_ARGS.saturating_sub(self.args.len());
        self.args
            .to_mut()
            .extend_from_slice(&args[..args.len().min(room)]);
    }
}
