//! Counts whole calls, and records what they do to tasks and files.
//!
//! What became of some calls shows only in the next line of the thread, so they are counted then. The
//! caller of one that a signal interrupted does not see the result: the call is restarted, or the
//! caller dies. And a call that seccomp answered with a trap or a kill was not made, but strace prints it like a
//! call that returned, with the value that the kernel's `syscall_rollback` leaves in place of a
//! result: on x86 the number of the call, on ARM its first argument.

use std::{borrow::Cow, collections::BTreeMap};

use zc_ebpf::{MAX_BYTES, is_restart};
use zctrace_core::{
    marked_spans::{CallsInSpan, MarkedSpans},
    slow_calls::SlowCall,
};

use super::{
    args::{Args, NamedDescriptor, inside},
    call_table::CallTable,
    decode::{
        ArgEnd, child_kind, ends_of_arguments, first_bytes, given_path, ioctl_variant, may_return,
        name_by_exec, peeks_and_truncates, program, requested_bytes,
    },
    file_calls::{given_arguments, opened},
    file_table::FileTable,
    left_open::OpenDescriptors,
    line::{CallOutcome, Ending, Event, Stamp},
    log_facts::LogFacts,
    marks::{MAX_OPEN, Mark, OpenSpan},
    names::{CallNames, KnownCall, NameId, errno_number},
    rows::EndedCall,
    slow_calls::{SlowCallNotes, slow_call},
    syntax::unsigned,
    tasks::{CallEntry, FirstCall, TaskId, TaskState, Tasks},
};
use crate::{
    backend::file_calls::{FileCall, FileEvents},
    histogram::Histogram,
    syscalls::{self, Abi, CallEffect, Selection, Spec, Variants},
    trace::{Exit, FailedPath, FailedPaths, GivenPath, Loss, STRACE, Trace},
};

/// The sums so far: the tasks with their calls, the files, and what is known of the log.
pub struct Counter {
    /// The names of calls.
    pub names: CallNames,
    /// The tasks, each with its sums.
    pub tasks: Tasks,
    /// The files that calls used.
    pub files: FileTable,
    /// The calls that take a path and failed, or succeeded if that is asked for.
    pub failed_paths: FailedPaths,
    /// What is known of the log as a whole.
    pub log: LogFacts,
    /// The table of `strace -c`, if the log has one.
    pub table: CallTable,
    /// How many lines were read.
    pub lines: u64,
    /// The spans that have ended.
    pub marked_spans: MarkedSpans,
    /// The order of changes and syncs, if that is asked for.
    pub syncs: Option<Box<FileEvents>>,
    /// Whether it is asked for, or only what is touched.
    pub judges_syncs: bool,
    /// What the command has open, if that is asked for.
    pub left_open: Option<OpenDescriptors>,
    /// How many bytes each call moved, if that is asked for.
    pub sizes: Option<BTreeMap<syscalls::Call, Histogram>>,
    /// The calls that took longer than a limit, if that is asked for.
    pub slow_calls: Option<SlowCallNotes>,
    /// The trace, with all that is known before the first line.
    pub begun: Trace,
}

/// How an uncertain call ended, as the next event of its thread says, or the end of the log
/// (`None`). Returns `None` if it is still unknown.
fn ending_by_next(how: Ending, next: Option<&Event<'_>>) -> Option<Ending> {
    match (how, next) {
        // A signal interrupted it. Only if the thread runs on, it has seen the result.
        (Ending::Error(_), Some(Event::Signal(_) | Event::Trapped)) => None,
        // Seccomp kept the first from being made; the thread of the second has not run on.
        (
            Ending::Value(_),
            Some(Event::Trapped | Event::Ended(Some(Exit::Signal(libc::SIGSYS)))),
        )
        | (Ending::Error(_), Some(Event::Ended(Some(Exit::Signal(_)) | None))) => {
            Some(Ending::Never)
        }
        (Ending::Error(_), None) => Some(Ending::UnderWay),
        _ => Some(how),
    }
}

/// The error of a socket that a call told: `getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4])`.
fn socket_error(args: &[u8], effect: CallEffect, how: Ending) -> Option<u32> {
    let is_told = effect == CallEffect::ReadsSocketError && how == Ending::Value(0);
    let args = is_told.then(|| Args::new(args))?;
    let is_error = args.nth(1)? == b"SOL_SOCKET" && args.nth(2)? == b"SO_ERROR";
    errno_number(inside(args.nth(3).filter(|_| is_error)?, b'[', b']')?)
}

/// Counts a call that failed, or told the error of a socket, and one that succeeded if that is asked for. One that a signal
/// interrupted has done neither.
fn count_path(failed: &mut FailedPaths, known: &KnownCall, call: &mut EndedCall) {
    let errno = match call.how {
        Ending::Error(_) if is_interrupted(call.how) => return,
        Ending::Error(Some(errno)) => errno,
        Ending::Error(None) => {
            failed.left_out += 1;
            return;
        }
        Ending::Value(_) => match call.socket_error {
            Some(errno) => errno,
            None if failed.has_successes && known.spec.path.is_some() => 0,
            None => return,
        },
        Ending::Never | Ending::UnderWay => return,
    };
    failed.add(FailedPath {
        call: syscalls::Call::new(known.name.clone(), call.abi),
        errno,
        paths: std::mem::take(&mut call.paths),
    });
}

/// Whether a signal interrupted the call.
fn is_interrupted(how: Ending) -> bool {
    matches!(how, Ending::Error(Some(errno)) if is_restart(errno))
}

/// Whether the call may not have been made. Checks the tables of all architectures, since the log
/// may be from another one.
fn may_be_trapped(call: &KnownCall, args: &[u8], how: Ending) -> bool {
    let Ending::Value(value) = how else {
        return false;
    };
    let is_own_number = |number| {
        Abi::ALL
            .iter()
            .any(|table| table.call_name(number) == Some(&call.name))
    };
    let first_argument = match unsigned(args) {
        None if args.starts_with(b"NULL") => Some(0),
        number => number.map(|(number, _)| number),
    };
    u32::try_from(value).is_ok_and(is_own_number) || first_argument == Some(value.cast_unsigned())
}

/// The status that the whole process exits with.
fn exit_code(name: &str, args: &[u8]) -> Option<i32> {
    let status = unsigned(args).filter(|_| name == "exit_group")?.0;
    i32::try_from(status & 0xff).ok()
}

impl Counter {
    /// Counts the calls of `selection`.
    pub fn new(selection: &Selection) -> Self {
        Self {
            names: CallNames::new(selection),
            tasks: Tasks::default(),
            files: FileTable::default(),
            failed_paths: FailedPaths::default(),
            log: LogFacts::default(),
            table: CallTable::default(),
            lines: 0,
            marked_spans: MarkedSpans::default(),
            syncs: None,
            judges_syncs: false,
            left_open: None,
            sizes: None,
            slow_calls: None,
            begun: Trace {
                backend: STRACE,
                ..Trace::default()
            },
        }
    }

    /// A call that begins in this line.
    pub fn entry<'a>(
        &self,
        name: NameId,
        args: Cow<'a, [u8]>,
        has_all_args: bool,
    ) -> CallEntry<'a> {
        CallEntry {
            name,
            line: self.lines,
            args,
            has_all_args,
        }
    }

    /// Whether a call can have this outcome.
    pub fn is_possible(&self, call: &CallEntry<'_>, outcome: CallOutcome<'_>) -> bool {
        let Ending::Value(value @ 1..) = outcome.ending else {
            return true;
        };
        let known = self.names.get(call.name);
        let args = Args::new(&call.args);
        may_be_trapped(known, &call.args, outcome.ending)
            || may_return(&args, &known.spec, value.unsigned_abs(), !call.has_all_args)
    }

    /// A task enters a call, and its line ends before the call returns.
    pub fn enter(
        &mut self,
        id: TaskId,
        call: CallEntry<'static>,
        renamed_to: Option<u32>,
        at: Option<Stamp>,
    ) {
        let name = call.name;
        self.note_file_event(id, &call, None, at);
        let abandoned = self.tasks.get(id).pending.replace(call);
        self.never_returned(id, abandoned);
        if self.names.get(name).spec.effect == CallEffect::CreatesTask {
            self.tasks.creating = Some(id);
        }
        if let Some(to) = renamed_to
            && let Some(leader) = self.tasks.note_renamed(id, to)
        {
            let args = self
                .tasks
                .get(id)
                .pending
                .as_ref()
                .map(|call| program(&call.args));
            let task = self.tasks.get(leader);
            task.superseded_by = None;
            task.now.program = args;
        }
    }

    /// A line goes on with the call that the task is in.
    pub fn resume(
        &mut self,
        id: TaskId,
        name: NameId,
        args: &[u8],
        outcome: CallOutcome<'_>,
        at: Option<Stamp>,
    ) {
        let task = self.tasks.get(id);
        let is_exec_of_another = task.superseded_by.is_some()
            && self.names.get(name).spec.effect == CallEffect::Executes;
        match task.pending.take() {
            Some(mut call) if call.name == name => {
                call.extend(args);
                if self.is_possible(&call, outcome) {
                    self.note_return(id, &call, outcome, at);
                } else {
                    self.log.count_loss(Loss::UnparsedLines);
                    self.never_returned(id, Some(call));
                }
            }
            other => {
                self.never_returned(id, other);
                if !is_exec_of_another && outcome.ending != Ending::Never {
                    self.log.count_loss(Loss::ExitsWithoutEntry);
                }
                let call = self.entry(name, Cow::Borrowed(b""), false);
                self.note_return(id, &call, outcome, at);
            }
        }
    }

    /// Counts a call of a task, and records what it does. If only the task's next line shows what
    /// became of the call, it is counted then.
    pub fn note_return(
        &mut self,
        id: TaskId,
        call: &CallEntry<'_>,
        outcome: CallOutcome<'_>,
        at: Option<Stamp>,
    ) {
        self.note_file_event(id, call, Some(outcome), at);
        if let Some(open) = &mut self.left_open {
            let creator = self.tasks.all()[id].creator;
            let creator = creator.or_else(|| self.tasks.creator_of_new(id));
            let name = &self.names.get(call.name).name;
            open.note_call((id, creator), name, &call.args, outcome);
        }
        let is_mark = self.note_mark(id, call, outcome, at);
        let Spec {
            effect, variants, ..
        } = self.names.get(call.name).spec;
        let how = match outcome.ending {
            Ending::Error(_) if effect == CallEffect::RestoresRegisters => Ending::Value(0),
            ending => ending,
        };
        if let Ending::Value(value) = how {
            self.follow(id, call, effect, value, outcome.descriptor);
        }
        let variant = (variants == Variants::Command)
            .then(|| ioctl_variant(&call.args))
            .flatten();
        let name = variant
            .and_then(|variant| self.names.known_id(variant.as_bytes()))
            .unwrap_or(call.name);
        let known = self.names.get(name);
        let task = self.tasks.get(id);
        if known.is_only_32_bit && self.log.call_of_32_bit.is_none() {
            self.log.call_of_32_bit = Some(known.name.clone());
        }
        self.log.has_durations |= outcome.duration_ns.is_some();
        if matches!(how, Ending::Never | Ending::UnderWay) && effect == CallEffect::Exits {
            task.has_exited = true;
            task.exit_code = exit_code(&known.name, &call.args);
        }
        let mut ended = EndedCall {
            name,
            abi: task.abi,
            how,
            duration_ns: outcome.duration_ns,
            entered: call.line,
            paths: self.paths_to_count(call, &known.spec, how),
            socket_error: socket_error(&call.args, effect, how),
            requested_bytes: None,
            from: None,
            to: None,
            first_bytes: Vec::new(),
            is_length: false,
            is_truncated: false,
            lost_names: 0,
            is_mark,
            slow: None,
        };
        let task = self.tasks.get(id);
        if matches!(task.first_call, FirstCall::Awaited) {
            task.first_call = if effect == CallEffect::Executes {
                FirstCall::Exec(how, at)
            } else {
                FirstCall::Other
            };
            // Counting starts with the successful exec of the command.
            if id == 0
                && self.log.is_ordered()
                && matches!(task.first_call, FirstCall::Exec(Ending::Error(_), _))
            {
                return;
            }
        }
        self.failed_paths.directory_may_change |=
            known.spec.changes_directory && matches!(how, Ending::Value(_));
        if known.is_selected {
            ended.slow = self.slow_call(id, call, &ended, at);
            self.look_at_arguments(id, call, &mut ended);
        }
        if is_interrupted(how) || may_be_trapped(self.names.get(name), &call.args, how) {
            self.tasks.get(id).uncertain_call = Some(Box::new(ended));
        } else {
            self.count(id, ended);
        }
    }

    /// Begins or ends a span, if the call is such a mark; returns whether it is any mark.
    fn note_mark(
        &mut self,
        id: TaskId,
        call: &CallEntry<'_>,
        outcome: CallOutcome<'_>,
        at: Option<Stamp>,
    ) -> bool {
        let is_not_found = outcome.ending == Ending::Error(Some(libc::ENOENT.unsigned_abs()));
        let spec = &self.names.get(call.name).spec;
        let path = spec.path.filter(|_| is_not_found);
        let given = path.and_then(|path| given_path(&Args::new(&call.args), path, spec, false));
        let Some(mark) = given.as_ref().and_then(|given| Mark::of_path(&given.text)) else {
            return false;
        };
        let spans = &mut self.tasks.get(id).spans;
        match mark {
            Mark::Moment => {}
            Mark::Begin(name) if spans.len() >= MAX_OPEN => self.marked_spans.add_unended(name),
            Mark::Begin(name) => spans.push(OpenSpan {
                name: name.to_owned(),
                began_at: at,
                calls: CallsInSpan::new(),
            }),
            Mark::End(name) => {
                if let Some(index) = spans.iter().rposition(|span| span.name == name) {
                    let span = spans.remove(index);
                    let since = at.zip(span.began_at);
                    let ns = since.and_then(|(at, began)| at.since(began));
                    let ns = ns.zip(outcome.duration_ns);
                    let ns = ns.map(|(ns, of_mark)| ns.saturating_sub(of_mark));
                    self.marked_spans.add_ended(name, ns, span.calls);
                }
            }
        }
        true
    }

    /// The call as one of the slow ones, if they are asked for and it is one. It ended `at` this moment.
    fn slow_call(
        &self,
        id: TaskId,
        call: &CallEntry<'_>,
        ended: &EndedCall,
        at: Option<Stamp>,
    ) -> Option<Box<SlowCall>> {
        let limit_ns = self.slow_calls.as_ref()?.slower_than_ns;
        let ns = ended.duration_ns.filter(|ns| *ns > limit_ns)?;
        let at = at.zip(self.log.first_moment);
        let ended_ns = at.and_then(|(at, first)| at.since(first));
        let at_ns = ended_ns.and_then(|at| at.checked_sub(ns));
        let known = self.names.get(ended.name);
        let what = (known.name.as_ref(), &known.spec, call.args.as_ref());
        let slow = slow_call(what, (ended.how, ns), at_ns, id, &self.tasks);
        Some(Box::new(slow))
    }

    /// Tells the judge of syncs of a call that was entered, or that returned with this outcome.
    fn note_file_event(
        &mut self,
        id: TaskId,
        call: &CallEntry<'_>,
        outcome: Option<CallOutcome<'_>>,
        at: Option<Stamp>,
    ) {
        let Some(events) = &mut self.syncs else {
            return;
        };
        let at_ns = at.zip(self.log.first_moment);
        let at_ns = at_ns.and_then(|(at, first)| at.since(first));
        events.note_time(at_ns);
        let known = self.names.get(call.name);
        let task = &self.tasks.all()[id];
        let program = task.now.program_name();
        let opened = outcome.and_then(|outcome| opened(outcome.descriptor));
        let called = FileCall {
            task: id,
            tid: task.tid,
            creator: task.creator.or_else(|| self.tasks.creator_of_new(id)),
            program: &program,
            name: &known.name,
            args: &given_arguments(&known.name, &call.args),
            seen: None,
            ending: outcome.map_or(Ending::UnderWay, |outcome| outcome.ending),
            opened: opened.as_ref(),
            at_ns,
            duration_ns: outcome.and_then(|outcome| outcome.duration_ns),
        };
        if outcome.is_some() {
            events.returned(called);
        } else {
            events.entered(called);
        }
    }

    /// The paths that a call was given, if calls with its result are counted by their paths.
    fn paths_to_count(
        &self,
        call: &CallEntry<'_>,
        spec: &Spec,
        how: Ending,
    ) -> [Option<GivenPath>; 2] {
        let is_wanted = match how {
            Ending::Error(_) => true,
            Ending::Value(_) => self.failed_paths.has_successes,
            Ending::Never | Ending::UnderWay => false,
        };
        let args = Args::new(&call.args);
        let paths = [spec.path, spec.second_path()];
        let wanted = paths.map(|path| path.filter(|_| call.has_all_args && is_wanted));
        let has_succeeded = matches!(how, Ending::Value(_));
        wanted.map(|path| given_path(&args, path?, spec, has_succeeded))
    }

    /// Adds what the arguments say: the files, the size, the first bytes.
    fn look_at_arguments(&mut self, id: TaskId, call: &CallEntry<'_>, ended: &mut EndedCall) {
        let spec = &self.names.get(ended.name).spec;
        let task = self.tasks.get(id);
        let args = Args::new(&call.args);
        let (from, to) = ends_of_arguments(&args, spec.fds);
        let lost_names = self.files.lost_names;
        let mut file = |end: Option<ArgEnd<'_>>| match end? {
            ArgEnd::Named(descriptor) => Some(self.files.find(task.tid, descriptor)),
            ArgEnd::Number(number) => task.opened.get(&number).copied(),
        };
        (ended.from, ended.to) = (file(from), file(to));
        ended.lost_names = self.files.lost_names - lost_names;
        ended.requested_bytes = call
            .has_all_args
            .then(|| requested_bytes(&args, spec))
            .flatten()
            .map(|bytes| bytes.min(MAX_BYTES));
        [ended.is_length, ended.is_truncated] = peeks_and_truncates(&args, spec);
        if let (Ending::Value(moved), Some(requested)) = (&mut ended.how, ended.requested_bytes)
            && ended.is_truncated
        {
            // The result is the length of the whole message.
            *moved = (*moved).min(requested.cast_signed());
        }
        if let Ending::Value(moved @ 1..) = ended.how {
            ended.first_bytes = first_bytes(&args, spec, moved.unsigned_abs());
        }
    }

    /// Counts the call of a task, if it is selected; by its path, if it takes one; and by its error, if
    /// it has no row.
    fn count(&mut self, id: TaskId, mut call: EndedCall) {
        let known = self.names.get(call.name);
        // The errors of others are in their rows.
        if known.spec.path.is_some() || call.socket_error.is_some() || !known.is_selected {
            count_path(&mut self.failed_paths, known, &mut call);
        }
        if known.is_selected {
            if call.how == Ending::Error(None) {
                self.log.count_loss(Loss::UncountedErrnos);
            }
            let task = self.tasks.get(id);
            let has_returned = !matches!(call.how, Ending::Never | Ending::UnderWay);
            if let Some(slow_calls) = self.slow_calls.as_mut().filter(|_| has_returned) {
                slow_calls.add(call.duration_ns, call.slow.take());
            }
            if let Some(sizes) = &mut self.sizes
                && let Some(bytes) = call.size(&known.spec)
            {
                let name = syscalls::Call::new(known.name.clone(), call.abi);
                sizes.entry(name).or_default().record(bytes);
            }
            if call.lost_names > 0 && has_returned {
                self.log.count_loss(Loss::CallsWithoutFiles);
            }
            for span in task
                .spans
                .iter_mut()
                .filter(|_| has_returned && !call.is_mark)
            {
                *span.calls.entry(known.name.to_string()).or_default() += 1;
            }
            task.now.rows.add(known, call);
        }
    }

    /// Records what a successful call does to tasks and files.
    fn follow(
        &mut self,
        id: TaskId,
        call: &CallEntry<'_>,
        effect: CallEffect,
        value: i64,
        result: &[u8],
    ) {
        match (effect, u32::try_from(value)) {
            (CallEffect::CreatesTask, Ok(tid @ 1..)) => {
                let is_ordered = self.log.is_ordered();
                self.tasks
                    .task_created(id, tid, child_kind(&call.args), call.line, is_ordered);
            }
            (CallEffect::ReturnsOwnTid, Ok(tid @ 1..)) => {
                self.tasks.get(id).own_tid = Some(tid);
            }
            (effect, Ok(_)) if effect.is_about_files() => {
                let task = self.tasks.get(id);
                self.files.apply(effect, task.tid, &call.args, result);
                if let Some(opened) = NamedDescriptor::leading(result) {
                    task.opened
                        .insert(opened.number, self.files.find(task.tid, opened));
                }
            }
            (CallEffect::FillsMemory | CallEffect::Submits, Ok(1..)) => {
                self.tasks.get(id).now.rows.forget_what_was_read();
            }
            (CallEffect::Executes, Ok(0)) => {
                let program = program(&call.args);
                let task = self.tasks.get(id);
                let executed_as = program.exe.as_deref().and_then(name_by_exec);
                task.begin_program(program, executed_as);
                if call.has_all_args {
                    task.superseded_by = None;
                }
            }
            _ => {}
        }
    }

    /// Counts a call whose return the log does not show.
    pub fn never_returned(&mut self, id: TaskId, left: Option<CallEntry<'_>>) {
        self.left_as(Ending::Never, id, left);
    }

    /// Counts the call that a task was in when the log ended.
    pub fn under_way_at_end(&mut self, id: TaskId, left: Option<CallEntry<'_>>) {
        let is_alive = self.tasks.get(id).state == TaskState::Alive;
        let ending = if is_alive {
            Ending::UnderWay
        } else {
            Ending::Never
        };
        self.left_as(ending, id, left);
    }

    fn left_as(&mut self, ending: Ending, id: TaskId, left: Option<CallEntry<'_>>) {
        let Some(call) = left else {
            return;
        };
        let call = CallEntry {
            has_all_args: false,
            ..call
        };
        let outcome = CallOutcome {
            ending,
            duration_ns: None,
            descriptor: b"",
        };
        self.note_return(id, &call, outcome, None);
    }

    /// Counts the uncertain call of a task, if there is one and its `next` event, or the end of the
    /// log, shows what became of it.
    pub fn settle_uncertain_call(&mut self, id: TaskId, next: Option<&Event<'_>>) {
        let uncertain = &mut self.tasks.get(id).uncertain_call;
        let ending = uncertain
            .as_ref()
            .and_then(|call| ending_by_next(call.how, next));
        if let Some((how, call)) = ending.zip(uncertain.take_if(|_| ending.is_some())) {
            self.count(id, EndedCall { how, ..*call });
        }
    }
}
