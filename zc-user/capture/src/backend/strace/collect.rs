//! From lines to a [`Trace`]: every line is added to the sums at once and forgotten.
//!
//! A line may be cut in two because something else was printed in between. In a log on stderr this
//! is common: what the traced program writes there stands inside the line of its `write`, and
//! messages of strace itself stand inside that of a `clone`. What stands in between is never a line
//! of strace: strace would have ended the first line with `<unfinished ...>`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    assemble,
    count::Counter,
    cut::Cut,
    echo::{Echo, EchoStep},
    file_table::FileTable,
    inspect::ProcInspector,
    left_open::OpenDescriptors,
    line::{
        CallLine, CallOutcome, Ending, Event, Line, Prefix, Stamp, Stamps, may_continue,
        outcome_of_rest,
    },
    names::{NameId, is_nameless},
    refused::LogError,
    slow_calls::SlowCallNotes,
    tasks::{CallEntry, FirstCall, TaskId, TaskState, Tasks},
};
use crate::{
    backend::{Recorded, Until, file_calls::FileEvents},
    syscalls::Selection,
    trace::{Exit, Loss, Trace},
};

/// Sums up the lines of a log. Its memory grows with threads and names of calls, not with lines, and
/// with files only up to a limit.
pub struct Collector<'a> {
    counter: Counter,
    /// The line that something else interrupted, if there is one.
    cut: Option<Cut>,
    /// The line within which the text of a `write` stands, if there is one.
    echo: Option<Echo>,
    stamps: Stamps,
    until: Until,
    /// Whether the trace is over: further lines are not in it.
    pub(super) is_over: bool,
    /// Tasks that strace is known to follow after the end of the trace.
    pub(super) followed: BTreeSet<u32>,
    /// The thread id of all lines of the current log (`-ff`).
    log_tid: Option<u32>,
    /// The first line that was not understood, with its number.
    first_unparsed: Option<(u64, String)>,
    on_unparsed: &'a mut dyn FnMut(&str),
}

impl<'a> Collector<'a> {
    /// Collects the calls of `selection`, `until` the command ends or the whole log is read. Passes
    /// every line that is not understood to `on_unparsed`.
    pub fn new(selection: &Selection, until: Until, on_unparsed: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            counter: Counter::new(selection),
            cut: None,
            echo: None,
            stamps: Stamps::default(),
            until,
            is_over: false,
            followed: BTreeSet::new(),
            log_tid: None,
            first_unparsed: None,
            on_unparsed,
        }
    }

    /// Collects a live run, whose files can be inspected.
    pub(super) fn with_inspector(mut self, inspector: Option<ProcInspector>) -> Self {
        self.counter.files = FileTable::live(inspector);
        self
    }

    /// Also collects what else is to be `recorded`.
    #[must_use]
    pub fn recording(mut self, recorded: Recorded) -> Self {
        let (has_syncs, has_touches) = (recorded.has_syncs(), recorded.has_touches());
        let counter = &mut self.counter;
        counter.failed_paths.has_successes = recorded.has_paths();
        counter.judges_syncs = has_syncs;
        counter.syncs = (has_syncs || has_touches).then(|| Box::new(FileEvents::new(has_touches)));
        counter.left_open = recorded.has_descriptors().then(OpenDescriptors::default);
        counter.sizes = recorded.has_sizes().then(BTreeMap::new);
        counter.slow_calls = recorded.slower_than_ns().map(SlowCallNotes::new);
        self
    }

    /// A run begins, and this is all that is known of its trace.
    pub(super) fn begin(&mut self, begun: Trace) {
        if let (Some(events), Some(directory)) = (&mut self.counter.syncs, &begun.directory) {
            events.begin_in(directory);
        }
        self.counter.begun = begun;
    }

    /// A thread of a running process that strace attaches to, the first one first.
    pub(super) fn add_found(&mut self, pid: u32, tid: u32) {
        self.counter.log.is_attached = true;
        self.counter.tasks.add_found(pid, tid);
    }

    /// Begins a log. `tid` is its thread, if it has the calls of a single one (`-ff`).
    pub fn begin_log(&mut self, tid: Option<u32>) {
        self.give_up_echo();
        self.give_up_cut();
        self.log_tid = tid;
        self.counter.log.logs += 1;
        self.stamps = Stamps::default();
    }

    /// Adds a line, without its line break.
    pub fn push_line(&mut self, line: &[u8]) {
        if self.is_over {
            // A task with a line is followed.
            self.followed.extend(Line::parse(line).prefix.tid);
            return;
        }
        self.counter.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.counter.log.is_recorded() {
            // strace is told to write a log of its own.
            return self.push_without_echo(line);
        }
        if self.counter.table.push(line) {
            return;
        }
        let echo = self.echo.take().or_else(|| Echo::begin(line));
        match echo.map(|echo| echo.step(line)) {
            None => self.push_without_echo(line),
            Some(EchoStep::GoesOn(echo)) => self.echo = Some(echo),
            Some(EchoStep::Line(line)) => self.push_without_echo(&line),
            Some(EchoStep::Failed(lines)) => {
                for line in &lines {
                    self.push_without_echo(line);
                }
            }
        }
    }

    /// Adds a line in which no text of a `write` stands, as far as is known.
    fn push_without_echo(&mut self, line: &[u8]) {
        self.counter.log.was_detached |= line.ends_with(b"<detached ...>");
        let parsed = Line::parse(line);
        let understood = match parsed.event {
            Event::Unparsed => false,
            Event::Notice => {
                self.counter.log.was_detached |= line.ends_with(b" detached");
                true
            }
            Event::Attached { tid } => {
                self.counter.tasks.note_attached(tid);
                true
            }
            Event::Cut {
                name,
                length,
                attached,
            } => self.open_cut(&parsed, name, &line[..length], attached),
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
        let is_closed = CallOutcome::is_closed(line);
        self.give_up_echo();
        let (name, length) = match parsed.event {
            Event::Call(CallLine {
                name,
                begins: true,
                outcome: Some(_),
                ..
            }) if !is_closed => (name, line.len()),
            Event::Call(CallLine {
                outcome: Some(_), ..
            }) if !is_closed => (b"".as_slice(), 0),
            Event::Cut { name, length, .. } => (name, length),
            Event::Unparsed => (b"".as_slice(), 0),
            // The end of any other line is recognised: it is whole.
            _ => return self.push_line(line),
        };
        self.counter.log.is_cut_off |= !self.is_over;
        if !self.is_over && !self.open_cut(&parsed, name, &line[..length], None) {
            self.give_up_cut();
            self.unparsed(line);
        }
    }

    /// Refuses a log that is none of strace.
    pub(super) fn refuse_if_foreign(&mut self) -> Result<(), LogError> {
        self.give_up_echo();
        self.give_up_cut();
        let (known, foreign) = (self.counter.log.table_calls, self.counter.log.foreign_calls);
        if foreign > known {
            return Err(LogError::FewSystemCalls(known, known + foreign));
        }
        if self.counter.lines == 0 {
            return Err(LogError::Empty);
        }
        let has_calls = known > 0 || self.counter.table.calls() > 0;
        match self.first_unparsed.take().filter(|_| !has_calls) {
            Some((number, line)) => Err(LogError::NotUnderstood(number, line)),
            None => Ok(()),
        }
    }

    /// The trace of all that was added.
    pub fn finish(mut self) -> Trace {
        self.give_up_echo();
        if let Some((id, call)) = self.abandon_cut() {
            self.counter.under_way_at_end(id, Some(call));
        }
        for id in 0..self.counter.tasks.all().len() {
            let task = self.counter.tasks.get(id);
            // The exec of a renamed task belongs to the task whose id it got.
            let left = if task.state == TaskState::Renamed {
                None
            } else {
                task.pending.take()
            };
            self.counter.settle_uncertain_call(id, None);
            self.counter.under_way_at_end(id, left);
        }
        if self.is_over {
            self.counter
                .tasks
                .add_unseen(&self.followed, self.counter.lines);
        }
        assemble::trace(self.counter)
    }

    /// Adds what a whole line says. `false` if it is not understood after all.
    fn add_event(&mut self, line: &Line<'_>, has_all_args: bool) -> bool {
        let call = match line.event {
            Event::Call(call) => match self.find_name(line, &call) {
                Some(name) => Some((call, name)),
                None => return false,
            },
            _ => None,
        };
        if let Some((call, name)) = call.filter(|(call, _)| call.begins)
            && let Some(outcome) = call.outcome
        {
            let call = self
                .counter
                .entry(name, Cow::Borrowed(call.args), has_all_args);
            if !self.counter.is_possible(&call, outcome) {
                return false;
            }
        }
        self.give_up_cut();
        let rest = call.filter(|(call, _)| !call.begins);
        let id = self.task_of(line, rest.map(|(_, name)| name));
        if !matches!(line.event, Event::Mode { .. } | Event::Superseded { .. }) {
            self.counter.settle_uncertain_call(id, Some(&line.event));
        }
        let at = line.prefix.stamp.map(|stamp| self.stamps.next(stamp));
        self.counter.log.first_moment = self.counter.log.first_moment.or(at);
        if let Some((call, name)) = call {
            self.add_call(id, name, &call, has_all_args, at);
        }
        self.counter.tasks.get(id).note_fault(&line.event);
        match line.event {
            Event::Ended(exit) => self.end(id, exit, at),
            Event::Superseded { by } => {
                let abandoned = self.counter.tasks.note_superseded(id, by);
                self.counter.never_returned(id, abandoned);
            }
            Event::Mode { tid, abi } => {
                self.counter.log.has_modes = true;
                let task = self.counter.tasks.get(id);
                task.abi = abi;
                task.own_tid = Some(tid);
            }
            _ => {}
        }
        true
    }

    /// Adds what a line says of a call.
    fn add_call(
        &mut self,
        id: TaskId,
        name: NameId,
        line: &CallLine<'_>,
        has_all_args: bool,
        at: Option<Stamp>,
    ) {
        let args = line.args;
        match (line.begins, line.outcome) {
            (true, Some(outcome)) => {
                let abandoned = self.counter.tasks.get(id).pending.take();
                self.counter.never_returned(id, abandoned);
                // The timestamp of a call is that of its entry.
                let at = at.map(|at| at.plus(outcome.duration_ns.unwrap_or(0)));
                let call = self.counter.entry(name, Cow::Borrowed(args), has_all_args);
                self.counter.note_return(id, &call, outcome, at);
            }
            (false, Some(outcome)) => self.counter.resume(id, name, args, outcome, at),
            (false, None) => {
                if let Some(call) = &mut self.counter.tasks.get(id).pending {
                    call.extend(args);
                }
            }
            (true, None) => {
                let args = Cow::Owned(args.to_vec());
                let call = self.counter.entry(name, args, has_all_args);
                self.counter.enter(id, call, line.renamed_to, at);
            }
        }
    }

    /// The name of a call, if it is one. What the program prints may look like a call, too, but it
    /// has no thread id and no time before it.
    fn find_name(&mut self, line: &Line<'_>, call: &CallLine<'_>) -> Option<NameId> {
        let name = call.name;
        let log = &mut self.counter.log;
        let is_of_strace = !log.is_recorded() || line.prefix != Prefix::default();
        let is_known = self.counter.names.known_id(name).is_some() || is_nameless(name);
        if call.begins {
            log.table_calls += u64::from(is_known);
            log.foreign_calls += u64::from(!is_known);
        }
        self.counter.names.find(name, is_of_strace)
    }

    /// Begins a cut line; `false` if it does not begin with the name of a call.
    fn open_cut(
        &mut self,
        line: &Line<'_>,
        name: &[u8],
        head: &[u8],
        attached: Option<u32>,
    ) -> bool {
        let Some(name) = self.counter.names.known_id(name) else {
            return false;
        };
        self.counter.log.table_calls += 1;
        self.give_up_cut();
        let id = self.task_of(line, None);
        self.counter.settle_uncertain_call(id, Some(&line.event));
        if let Some(tid) = attached {
            self.counter.tasks.note_attached(tid);
        }
        self.cut = Cut::begin(head, (id, name));
        if self.cut.is_none() {
            self.unparsed(shortened_line(head));
        }
        true
    }

    /// Adds a line of which only the beginning was kept. It counts as not understood.
    pub fn push_long_line(&mut self, beginning: &[u8]) {
        if self.is_over {
            return;
        }
        self.counter.lines += 1;
        self.give_up_cut();
        self.unparsed(shortened_line(beginning));
    }

    /// If there is a cut line: completes it if `tail` is its rest, or keeps `tail` as a line in
    /// between.
    fn close_cut(&mut self, tail: &[u8]) -> bool {
        let Some(mut cut) = self.cut.take() else {
            return false;
        };
        if may_continue(tail) && self.add_joined(&cut, tail) {
            return true;
        }
        let is_kept = cut.keep_line_between(tail);
        self.cut = Some(cut);
        is_kept
    }

    /// Adds the call of a cut line of which this is the rest; `false` if it is not. Output of the
    /// program may follow an argument directly: 1 and "5\n" look like 15. If it makes the beginning
    /// unreadable, nothing is known of the arguments.
    fn add_joined(&mut self, cut: &Cut, tail: &[u8]) -> bool {
        let joined = cut.join(tail);
        let joined = Line::parse(&joined);
        match joined.event {
            Event::Call(call) if call.begins => self.add_event(&joined, false),
            _ => outcome_of_rest(tail).is_some_and(|outcome| {
                let name = self.counter.names.get(cut.call.1).name.clone();
                let mut line = cut.line();
                line.event = Event::Call(CallLine {
                    name: name.as_bytes(),
                    begins: true,
                    args: b"",
                    outcome: Some(outcome),
                    renamed_to: None,
                });
                self.add_event(&line, false)
            }),
        }
    }

    /// Gives up the text within a line, if there is one: its lines are like others.
    fn give_up_echo(&mut self) {
        for line in self.echo.take().map(Echo::into_lines).unwrap_or_default() {
            self.push_without_echo(&line);
        }
    }

    /// Gives up the cut line, if there is one: its call never returned.
    fn give_up_cut(&mut self) {
        if let Some((id, call)) = self.abandon_cut() {
            self.counter.never_returned(id, Some(call));
        }
    }

    /// The call of the cut line, if there is one. Its lines are not understood.
    fn abandon_cut(&mut self) -> Option<(TaskId, CallEntry<'static>)> {
        let cut = self.cut.take()?;
        cut.lines().for_each(|line| self.unparsed(line));
        let (id, name) = cut.call;
        Some((id, self.counter.entry(name, Cow::Borrowed(b""), false)))
    }

    fn unparsed(&mut self, line: &[u8]) {
        self.counter.log.count_loss(Loss::UnparsedLines);
        let line = String::from_utf8_lossy(line);
        if self.first_unparsed.is_none() {
            let shown = String::from_utf8_lossy(shortened_line(line.as_bytes())).into_owned();
            self.first_unparsed = Some((self.counter.lines, shown));
        }
        (self.on_unparsed)(&line);
    }

    fn task_of(&mut self, line: &Line<'_>, resumes: Option<NameId>) -> TaskId {
        let named = match line.event {
            // A message of strace itself has no prefix.
            Event::Mode { tid, .. } if self.counter.tasks.has_line(tid) => Some(tid),
            _ => None,
        };
        let id = self.counter.tasks.of_line(
            line.prefix.tid.or(named).or(self.log_tid),
            resumes,
            self.counter.lines,
        );
        self.counter.tasks.get(id).last_line = self.counter.lines;
        if let Some(comm) = line.prefix.comm {
            let now = &mut self.counter.tasks.get(id).now;
            if now.comm != comm {
                comm.clone_into(&mut now.comm);
                now.executed_as = None;
            }
        }
        id
    }

    fn end(&mut self, id: TaskId, exit: Option<Exit>, at: Option<Stamp>) {
        let abandoned = self.counter.tasks.end(id, TaskState::Ended(exit), at);
        self.counter.never_returned(id, abandoned);
        self.is_over = self.until == Until::RootEnds && self.counter.log.is_ordered() && id == 0;
    }
}

impl Collector<'_> {
    /// The tasks so far.
    pub(super) fn tasks(&self) -> &Tasks {
        &self.counter.tasks
    }

    /// Why the command's exec failed, if the log begins with that.
    pub fn launch_errno(&self) -> Option<u32> {
        match self.tasks().root()?.first_call {
            FirstCall::Exec(Ending::Error(errno), _) => errno,
            _ => None,
        }
    }
}

/// The part of a line that is shown.
fn shortened_line(line: &[u8]) -> &[u8] {
    const MAX_SHOWN: usize = 200;
    &line[..line.len().min(MAX_SHOWN)]
}
