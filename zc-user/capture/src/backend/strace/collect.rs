//! From lines to a [`Trace`]: every line is added to the sums at once, and forgotten.

mod count;
mod cuts;
mod progress;
mod suspect;

use std::collections::BTreeSet;

pub(super) use self::suspect::Suspect;
use self::{count::Call, suspect::Verdict};
use super::{
    args::program,
    assemble::{self, Parts},
    clock::{Moment, Stamps},
    codes::{self, Errnos},
    cut::Cut,
    files::Files,
    join::{Entry, Left},
    line::{CallResult, Event, Line, Outcome, Pause},
    look::Look,
    names::{NameId, Names, Role},
    rows::Afterwards,
    tasks::{Life, TaskId, Tasks},
};
use crate::{
    backend::Until,
    syscall::Selection,
    trace::{Exit, Loss, Trace},
};

/// Sums up the lines of a log. Its memory grows with threads, their calls' names and their files, not with lines.
pub struct Collector<'a> {
    names: Names,
    errnos: Errnos,
    tasks: Tasks,
    files: Files<'a>,
    cut: Cut,
    /// The task whose line is cut, and the call.
    cut_call: Option<(TaskId, NameId)>,
    stamps: Stamps,
    until: Until,
    /// Whether the trace ended before the log did.
    is_over: bool,
    /// Tasks that are known to be followed after that.
    followed: BTreeSet<u32>,
    /// Thread id of all lines of the log that is read now (`-ff`).
    log_tid: Option<u32>,
    /// How many logs were read.
    logs: usize,
    lines: u64,
    /// Whether the log says which calls are of another table.
    has_modes: bool,
    parts: Parts,
    on_unparsed: &'a mut dyn FnMut(&str),
}

impl<'a> Collector<'a> {
    /// Collects the calls of `selection`, `until` the command ends or all of the log is read.
    /// `on_unparsed` gets every line that is not understood.
    pub fn new(selection: &Selection, until: Until, on_unparsed: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            names: Names::new(selection),
            errnos: Errnos::new(),
            tasks: Tasks::default(),
            files: Files::default(),
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
            parts: Parts::default(),
            on_unparsed,
        }
    }

    /// Collects a run that goes on now, so that its files can be looked at.
    pub(super) fn looking(self, look: &'a mut dyn Look) -> Self {
        Self { files: Files::looking(look), ..self }
    }

    /// A log begins. `tid`: the thread whose calls it has, if it has those of one only and says so in its name (`-ff`).
    pub fn begin_log(&mut self, tid: Option<u32>) {
        self.give_up_cut();
        self.log_tid = tid;
        self.logs += 1;
        self.stamps = Stamps::default();
    }

    /// Adds a line, without its line break.
    pub fn push_line(&mut self, line: &[u8]) {
        if self.is_over {
            // Whoever it is, strace follows them.
            self.followed.extend(Line::parse(line).prefix.tid);
            return;
        }
        self.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.parts.was_detached |= line.ends_with(b"<detached ...>");
        let parsed = Line::parse(line);
        let understood = match parsed.event {
            Event::Unparsed => false,
            Event::Notice => {
                self.parts.was_detached |= line.ends_with(b" detached");
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

    /// Adds what there is of a last line that has no line break: the log is cut off there.
    pub fn push_cut_line(&mut self, line: &[u8]) {
        let parsed = Line::parse(line);
        let (name, length) = match parsed.event {
            Event::Call { name, .. } => (name, line.len()),
            Event::Cut { name, length, .. } => (name, length),
            // Its end is in the log: it is whole.
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
        self.parts.is_cut_off |= !self.is_over;
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
            // A renamed task left its exec to the one whose id it got.
            let left = if task.life == Life::Renamed { None } else { task.pending.leave() };
            task.rows.settle(Afterwards::Nothing);
            self.settle_suspect(id, Verdict::Made);
            self.never_returned(id, left);
        }
        if self.is_over {
            self.tasks.add_unseen(&self.followed, self.lines);
        }
        self.parts.is_ordered = self.logs <= 1;
        self.parts.is_recorded = self.logs > 0;
        assemble::trace(self.tasks, self.files.into_all(), &self.names, self.parts)
    }

    /// Adds what a whole line tells. `false` if it is not understood after all.
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
            self.settle_suspect(id, Verdict::of(&line.event));
        }
        let at = line.prefix.stamp.map(|stamp| self.stamps.next(stamp));
        self.parts.first_moment = self.parts.first_moment.or(at);
        match (line.event, name) {
            (Event::Call { args, outcome, .. }, Some(name)) => {
                let abandoned = self.tasks.get(id).pending.leave();
                self.never_returned(id, abandoned);
                // Its stamp is that of its entry.
                let at = at.map(|at| at.plus(outcome.duration_ns.unwrap_or(0)));
                self.returned(id, &Call { name, args, has_all_args, entered: self.lines, outcome, at });
            }
            (Event::Unfinished { args, pause, .. }, Some(name)) => self.enter(id, name, args, pause, has_all_args),
            (Event::Resumed { args, outcome, .. }, Some(name)) => self.resume(id, name, args, outcome, at),
            (Event::StillUnfinished { args, .. }, _) => self.tasks.get(id).pending.extend(args),
            (Event::Exited { code }, _) => self.end(id, Some(Exit::Code(code)), at),
            (Event::Killed { signal }, _) => self.end(id, codes::signal(signal).map(Exit::Signal), at),
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
        if self.names.get(name).role == Role::Birth {
            self.tasks.bears(id);
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
                    self.parts.lose(Loss::ExitsWithoutEntry);
                }
                self.returned(id, &Call { name, args: b"", has_all_args: false, entered: self.lines, outcome, at });
            }
        }
    }

    fn end(&mut self, id: TaskId, exit: Option<Exit>, at: Option<Moment>) {
        let abandoned = self.tasks.end(id, Life::Ended(exit), at);
        let exited = matches!(exit, Some(Exit::Code(_)));
        self.tasks.get(id).rows.settle(if exited { Afterwards::WentOn } else { Afterwards::Nothing });
        self.never_returned(id, abandoned);
        self.is_over = self.until == Until::RootEnds && self.logs <= 1 && id == 0;
    }
}
