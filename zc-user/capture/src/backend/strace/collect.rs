//! From lines to a [`Trace`]: every line is added to the sums at once and forgotten.

mod count;
mod cut;
mod seccomp;

use std::collections::BTreeSet;

pub(super) use self::seccomp::UncertainCall;
use self::{count::Call, cut::Cut, seccomp::Verdict};
use super::{
    assemble::{self, LogFacts},
    decode::program,
    file_table::FileTable,
    inspect::Inspector,
    line::{CallResult, Event, Line, Moment, Outcome, Pause, Stamps},
    names::{self, CallNames, Errnos, NameId, Role},
    pending::{Entry, Left},
    rows::{Ending, Fate},
    tasks::{FirstCall, Life, Task, TaskId, Tasks},
};
use crate::{
    backend::Until,
    syscall::Selection,
    trace::{Exit, Loss, Trace},
};

/// Sums up the lines of a log. Its memory grows with threads, names of calls and files, not with lines.
pub struct Collector<'a> {
    names: CallNames,
    errnos: Errnos,
    tasks: Tasks,
    files: FileTable<'a>,
    cut: Cut,
    /// The task whose line is cut, and the call.
    cut_call: Option<(TaskId, NameId)>,
    stamps: Stamps,
    until: Until,
    /// Whether the trace ended before the log did.
    is_over: bool,
    /// Tasks that are known to be followed after the end of the trace.
    followed: BTreeSet<u32>,
    /// The thread id of all lines of the current log (`-ff`).
    log_tid: Option<u32>,
    /// How many logs were read.
    logs: usize,
    lines: u64,
    /// Whether the log says when a task changes to another table of calls.
    has_modes: bool,
    log: LogFacts,
    on_unparsed: &'a mut dyn FnMut(&str),
}

impl<'a> Collector<'a> {
    /// Collects the calls of `selection`, `until` the command ends or the whole log is read. Passes every line that is not understood to
    /// `on_unparsed`.
    pub fn new(selection: &Selection, until: Until, on_unparsed: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            names: CallNames::new(selection),
            errnos: Errnos::new(),
            tasks: Tasks::default(),
            files: FileTable::default(),
            cut: Cut::default(),
            cut_call: None,
            stamps: Stamps::default(),
            until,
            is_over: false,
            followed: BTreeSet::new(),
            log_tid: None,
            logs: 0,
            lines: 0,
            has_modes: false,
            log: LogFacts::default(),
            on_unparsed,
        }
    }

    /// Collects a live run, whose files can be inspected.
    pub(super) fn with_inspector(self, inspector: &'a mut dyn Inspector) -> Self {
        Self { files: FileTable::with_inspector(inspector), ..self }
    }

    /// Begins a log. `tid` is its thread, if it has the calls of a single one (`-ff`).
    pub fn begin_log(&mut self, tid: Option<u32>) {
        self.give_up_cut();
        self.log_tid = tid;
        self.logs += 1;
        self.stamps = Stamps::default();
    }

    /// Adds a line, without its line break.
    pub fn push_line(&mut self, line: &[u8]) {
        if self.is_over {
            // A task with a line is followed.
            self.followed.extend(Line::parse(line).prefix.tid);
            return;
        }
        self.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.log.was_detached |= line.ends_with(b"<detached ...>");
        let parsed = Line::parse(line);
        let understood = match parsed.event {
            Event::Unparsed => false,
            Event::Notice => {
                self.log.was_detached |= line.ends_with(b" detached");
                true
            }
            Event::Attached { tid } => {
                self.tasks.attached(tid);
                true
            }
            Event::Cut { name, length, attached } => self.open_cut(&parsed, name, &line[..length], attached),
            _ => self.add_event(&parsed, true),
        };
        if !understood && !self.close_cut(line) {
            self.give_up_cut();
            self.unparsed(line);
        }
    }

    /// Adds the last line if it has no line break: the log is cut off there.
    pub fn push_cut_line(&mut self, line: &[u8]) {
        let parsed = Line::parse(line);
        let (name, length) = match parsed.event {
            Event::Call { name, .. } => (name, line.len()),
            Event::Cut { name, length, .. } => (name, length),
            // The end of such a line is recognised: it is whole.
            Event::Unfinished { .. }
            | Event::Exited { .. }
            | Event::Killed { .. }
            | Event::Superseded { .. }
            | Event::Signal
            | Event::Trapped
            | Event::Mode { .. }
            | Event::Attached { .. }
            | Event::Notice
            | Event::StillUnfinished { .. } => return self.push_line(line),
            Event::Resumed { .. } | Event::Unparsed => (b"".as_slice(), 0),
        };
        self.log.is_cut_off |= !self.is_over;
        if !self.is_over && !self.open_cut(&parsed, name, &line[..length], None) {
            self.give_up_cut();
            self.unparsed(line);
        }
    }

    /// The trace of all that was added.
    pub fn finish(mut self) -> Trace {
        self.give_up_cut();
        for id in 0..self.tasks.len() {
            let task = self.tasks.get(id);
            // The exec of a renamed task belongs to the task whose id it got.
            let left = if task.life == Life::Renamed { None } else { task.pending.leave() };
            task.rows.settle(Fate::Ended);
            self.settle_uncertain_call(id, Verdict::Made);
            self.never_returned(id, left);
        }
        if self.is_over {
            self.tasks.add_unseen(&self.followed, self.lines);
        }
        self.log.is_ordered = self.logs <= 1;
        self.log.is_recorded = self.logs > 0;
        assemble::trace(self.tasks, self.files.into_all(), &self.names, self.log)
    }

    /// Adds what a whole line says. `false` if it is not understood after all.
    fn add_event(&mut self, line: &Line<'_>, has_all_args: bool) -> bool {
        let name = match line.event {
            Event::Call { name, .. } | Event::Unfinished { name, .. } | Event::Resumed { name, .. } => {
                let Some(name) = self.names.find(name) else { return false };
                Some(name)
            }
            _ => None,
        };
        self.give_up_cut();
        let resumes = name.filter(|_| matches!(line.event, Event::Resumed { .. }));
        let id = self.task_of(line, resumes);
        if !matches!(line.event, Event::Mode { .. } | Event::Superseded { .. }) {
            self.settle_uncertain_call(id, Verdict::of(&line.event));
        }
        let at = line.prefix.stamp.map(|stamp| self.stamps.next(stamp));
        self.log.first_moment = self.log.first_moment.or(at);
        match (line.event, name) {
            (Event::Call { args, outcome, .. }, Some(name)) => {
                let abandoned = self.tasks.get(id).pending.leave();
                self.never_returned(id, abandoned);
                // The timestamp of a call is that of its entry.
                let at = at.map(|at| at.plus(outcome.duration_ns.unwrap_or(0)));
                self.returned(id, &Call { name, args, has_all_args, entered: self.lines, outcome, at });
            }
            (Event::Unfinished { args, pause, .. }, Some(name)) => self.enter(id, name, args, pause, has_all_args),
            (Event::Resumed { args, outcome, .. }, Some(name)) => self.resume(id, name, args, outcome, at),
            (Event::StillUnfinished { args, .. }, _) => self.tasks.get(id).pending.extend(args),
            (Event::Exited { code }, _) => self.end(id, Some(Exit::Code(code)), at),
            (Event::Killed { signal }, _) => self.end(id, names::signal(signal).map(Exit::Signal), at),
            (Event::Superseded { by }, _) => {
                let abandoned = self.tasks.superseded(id, by);
                self.never_returned(id, abandoned);
            }
            (Event::Mode { tid, abi }, _) => {
                self.has_modes = true;
                let task = self.tasks.get(id);
                task.abi = abi;
                task.own_tid = Some(tid);
            }
            _ => {}
        }
        true
    }

    fn task_of(&mut self, line: &Line<'_>, resumes: Option<NameId>) -> TaskId {
        let id = self.tasks.of_line(line.prefix.tid.or(self.log_tid), resumes, self.lines);
        if let Some(comm) = line.prefix.comm {
            let task = self.tasks.get(id);
            if task.comm != comm {
                comm.clone_into(&mut task.comm);
                task.executed_as = None;
            }
        }
        id
    }

    fn enter(&mut self, id: TaskId, name: NameId, args: &[u8], pause: Pause, has_all_args: bool) {
        let entry = Entry { name, line: self.lines, has_all_args };
        let abandoned = self.tasks.get(id).pending.enter(entry, args);
        self.never_returned(id, abandoned);
        if self.names.get(name).role == Role::CreatesTask {
            self.tasks.enters_task_creation(id);
        }
        if let Pause::Renamed { to } = pause
            && let Some(leader) = self.tasks.renamed(id, to)
        {
            let program = program(self.tasks.get(id).pending.args());
            let task = self.tasks.get(leader);
            task.superseded_by = None;
            task.program = Some(program);
        }
    }

    fn resume(&mut self, id: TaskId, name: NameId, args: &[u8], outcome: Outcome<'_>, at: Option<Moment>) {
        let task = self.tasks.get(id);
        let is_exec_of_another = task.superseded_by.is_some() && self.names.get(name).role == Role::Exec;
        match task.pending.leave() {
            Some(mut left) if left.entry.name == name => {
                left.extend(args);
                let Left { entry, args } = left;
                let call = Call { name, args: &args, has_all_args: entry.has_all_args, entered: entry.line, outcome, at };
                self.returned(id, &call);
                self.tasks.get(id).pending.give_back(args);
            }
            other => {
                self.never_returned(id, other);
                if !is_exec_of_another && outcome.result != CallResult::Never {
                    self.log.count_loss(Loss::ExitsWithoutEntry);
                }
                self.returned(id, &Call { name, args: b"", has_all_args: false, entered: self.lines, outcome, at });
            }
        }
    }

    fn end(&mut self, id: TaskId, exit: Option<Exit>, at: Option<Moment>) {
        let abandoned = self.tasks.end(id, Life::Ended(exit), at);
        let exited = matches!(exit, Some(Exit::Code(_)));
        self.tasks.get(id).rows.settle(if exited { Fate::WentOn } else { Fate::Ended });
        self.never_returned(id, abandoned);
        self.is_over = self.until == Until::RootEnds && self.logs <= 1 && id == 0;
    }
}

impl Collector<'_> {
    /// Whether the trace is over: further lines are not in it.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends the trace here, while tasks are alive.
    pub fn end_now(&mut self) {
        self.is_over = true;
    }

    /// The thread ids of tasks that were created and have no line so far.
    pub fn unseen_tids(&self) -> Vec<u32> {
        self.tasks.unseen_tids().collect()
    }

    /// Records that strace follows a task that has no line when the trace ends.
    pub fn mark_followed(&mut self, tid: u32) {
        self.followed.insert(tid);
    }

    /// Whether the command has ended.
    pub fn has_root_ended(&self) -> bool {
        self.root().is_some_and(|root| matches!(root.life, Life::Ended(_)))
    }

    /// The thread id of the command, once it was seen.
    pub fn root_tid(&self) -> Option<u32> {
        self.root()?.tid
    }

    /// The thread ids of all tasks that are alive, as far as the log shows.
    pub fn live_tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.tasks.live_tids()
    }

    /// Why the command's exec failed, if the log begins with that.
    pub fn launch_errno(&self) -> Option<u32> {
        match &self.root()?.first_call {
            FirstCall::Exec(launch) => match launch.ended.how {
                Ending::Error(errno) => errno,
                _ => None,
            },
            _ => None,
        }
    }

    fn root(&self) -> Option<&Task> {
        self.tasks.first()
    }
}
