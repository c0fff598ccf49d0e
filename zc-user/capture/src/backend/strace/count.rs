//! Counts whole calls, and records what they do to tasks and files.
//!
//! A call that seccomp answered with a trap or a kill was not made, but strace prints it like a
//! call that returned, with the value that the kernel's `syscall_rollback` leaves in place of a
//! result: on x86 the number of the call, on ARM its first argument. Only the next line of the
//! thread shows what happened, so such a call is counted then.

use zc_ebpf::is_restart;

use super::{
    args::{Args, Descriptor},
    decode::{
        End, Ends, child_kind, ends, first_bytes, given_path, has_peek, ioctl_variant,
        name_by_exec, program, requested_bytes,
    },
    file_table::FileTable,
    first_bytes::FirstBytes,
    line::{CallResult, Event, Moment, Outcome, Pause},
    log_facts::LogFacts,
    names::{CallNames, Errnos, KnownCall, MAX_ERRNO, NameId},
    rows::{AfterSignal, Ending, FinishedCall, Rows},
    syntax::unsigned,
    tasks::{CallEntry, EndedCall, FirstCall, FirstExec, LeftCall, TaskId, Tasks},
};
use crate::{
    syscalls::{self, Abi, CallEffect, Selection, Spec, Variants},
    trace::{FailedPath, FailedPaths, GivenPath, Loss},
};

/// The sums so far: the tasks with their calls, the files, and what is known of the log.
pub struct Counter<'a> {
    /// The names of calls.
    pub names: CallNames,
    errnos: Errnos,
    /// The tasks, each with its sums.
    pub tasks: Tasks,
    /// The files that calls used.
    pub files: FileTable<'a>,
    /// The calls that take a path and failed, or succeeded if that is asked for.
    pub failed_paths: FailedPaths,
    /// What is known of the log as a whole.
    pub log: LogFacts,
    /// How many logs were read.
    pub logs: usize,
    /// How many lines were read.
    pub lines: u64,
    /// Whether the log says when a task changes to another table of calls.
    pub has_modes: bool,
}

/// A call that returned, or never will.
pub struct Call<'a> {
    /// Which call.
    pub name: NameId,
    /// Its arguments.
    pub args: &'a [u8],
    /// Whether `args` are complete and have no foreign output in them.
    pub has_all_args: bool,
    /// Number of the line where it began.
    pub entered: u64,
    /// How it ended.
    pub outcome: Outcome<'a>,
    /// When it ended.
    pub at: Option<Moment>,
}

/// What a line says about the call before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was made.
    Made,
    /// Seccomp kept it from being made.
    Trapped,
}

impl Verdict {
    /// What this event says.
    pub fn from_event(event: &Event<'_>) -> Self {
        match event {
            Event::Trapped | Event::Killed { signal: b"SIGSYS" } => Self::Trapped,
            _ => Self::Made,
        }
    }
}

/// Counts the call of a task in its rows, if it is selected, and by its path, if it takes one.
pub fn count_call(
    call: EndedCall,
    known: &KnownCall,
    rows: &mut Rows,
    failed_paths: &mut FailedPaths,
    log: &mut LogFacts,
) {
    let EndedCall {
        name,
        abi,
        ended,
        path,
    } = call;
    if known.spec.path.is_some() {
        count_path(failed_paths, known, abi, ended.how, path);
    }
    if known.is_selected {
        if ended.how == Ending::Error(None) {
            log.count_loss(Loss::UncountedErrnos);
        }
        rows.add(name, known, abi, ended);
    }
}

/// Counts a call that failed, and one that succeeded if that is asked for. One that a signal
/// interrupted has done neither.
fn count_path(
    failed: &mut FailedPaths,
    known: &KnownCall,
    abi: Abi,
    how: Ending,
    path: Option<GivenPath>,
) {
    let errno = match how {
        Ending::Error(Some(errno)) if is_restart(errno) => return,
        Ending::Error(Some(errno)) => errno,
        Ending::Error(None) => {
            failed.left_out += 1;
            return;
        }
        Ending::Value(_) if failed.has_successes => 0,
        Ending::Value(_) | Ending::Never => return,
    };
    failed.add(FailedPath {
        call: syscalls::Call::new(known.name.clone(), abi),
        errno,
        path,
    });
}

/// Whether the call may not have been made. Checks the tables of all architectures, since the log
/// may be from another one.
fn may_be_trapped(call: &KnownCall, args: &[u8], how: Ending) -> bool {
    const TABLES: [Abi; 4] = [Abi::X86_64, Abi::I386, Abi::Aarch64, Abi::Arm];
    let Ending::Value(value) = how else {
        return false;
    };
    let is_own_number = |number| {
        TABLES
            .iter()
            .any(|table| table.call_name(number) == Some(&call.name))
    };
    u32::try_from(value).is_ok_and(is_own_number)
        || first_argument(args).is_some_and(|first| first == value.cast_unsigned())
}

/// The value of the first argument, if it is a number.
fn first_argument(args: &[u8]) -> Option<u64> {
    if args.starts_with(b"NULL") {
        Some(0)
    } else {
        unsigned(args).map(|(number, _)| number)
    }
}

impl Counter<'_> {
    /// Counts the calls of `selection`.
    pub fn new(selection: &Selection) -> Self {
        Self {
            names: CallNames::new(selection),
            errnos: Errnos::new(),
            tasks: Tasks::default(),
            files: FileTable::default(),
            failed_paths: FailedPaths::default(),
            log: LogFacts::default(),
            logs: 0,
            lines: 0,
            has_modes: false,
        }
    }

    /// A task enters a call, and its line ends before the call returns.
    pub fn enter(
        &mut self,
        id: TaskId,
        name: NameId,
        args: &[u8],
        pause: Pause,
        has_all_args: bool,
    ) {
        let entry = CallEntry {
            name,
            line: self.lines,
            has_all_args,
        };
        let abandoned = self.tasks.get(id).pending.enter(entry, args);
        self.never_returned(id, abandoned);
        if self.names.get(name).spec.effect == CallEffect::CreatesTask {
            self.tasks.enters_task_creation(id);
        }
        if let Pause::Renamed { to } = pause
            && let Some(leader) = self.tasks.renamed(id, to)
        {
            let program = program(self.tasks.get(id).pending.args());
            let task = self.tasks.get(leader);
            task.superseded_by = None;
            task.now.program = Some(program);
        }
    }

    /// A line goes on with the call that the task is in.
    pub fn resume(
        &mut self,
        id: TaskId,
        name: NameId,
        args: &[u8],
        outcome: Outcome<'_>,
        at: Option<Moment>,
    ) {
        let task = self.tasks.get(id);
        let is_exec_of_another = task.superseded_by.is_some()
            && self.names.get(name).spec.effect == CallEffect::Executes;
        match task.pending.leave() {
            Some(mut left) if left.entry.name == name => {
                left.extend(args);
                let LeftCall { entry, args } = left;
                let call = Call {
                    name,
                    args: &args,
                    has_all_args: entry.has_all_args,
                    entered: entry.line,
                    outcome,
                    at,
                };
                self.returned(id, &call);
                self.tasks.get(id).pending.give_back(args);
            }
            other => {
                self.never_returned(id, other);
                if !is_exec_of_another && outcome.result != CallResult::Never {
                    self.log.count_loss(Loss::ExitsWithoutEntry);
                }
                self.returned(
                    id,
                    &Call {
                        name,
                        args: b"",
                        has_all_args: false,
                        entered: self.lines,
                        outcome,
                        at,
                    },
                );
            }
        }
    }

    /// Counts a call of a task, and records what it does. A call that seccomp may have kept from
    /// being made is counted later.
    pub fn returned(&mut self, id: TaskId, call: &Call<'_>) {
        let how = self.how(call.outcome.result);
        let Spec {
            effect, variants, ..
        } = self.names.get(call.name).spec;
        if let Ending::Value(value) = how {
            self.follow(id, call, effect, value);
        }
        let variant = (variants == Variants::Command)
            .then(|| ioctl_variant(call.args))
            .flatten();
        let name = variant
            .and_then(|variant| self.names.find(variant.as_bytes()))
            .unwrap_or(call.name);
        let known = self.names.get(name);
        let task = self.tasks.get(id);
        if let Some(abi) = known.only_in
            && task.abi != abi
            && !self.has_modes
        {
            task.abi = abi;
            self.log.guessed_abi = true;
        }
        self.log.has_durations |= call.outcome.duration_ns.is_some();
        task.has_exited |= how == Ending::Never && effect == CallEffect::Exits;
        let mut ended_call = EndedCall {
            name,
            abi: task.abi,
            ended: FinishedCall {
                how,
                duration_ns: call.outcome.duration_ns,
                entered: call.entered,
                requested_bytes: None,
                from: None,
                to: None,
                first_bytes: FirstBytes::default(),
                is_peek: known.name.starts_with("recv") && has_peek(call.args),
            },
            path: self.path_to_count(call, &known.spec, how),
        };
        let task = self.tasks.get(id);
        if matches!(task.first_call, FirstCall::Awaited) {
            task.first_call = FirstCall::Other;
            if effect == CallEffect::Executes {
                task.first_call = FirstCall::Exec(Box::new(FirstExec {
                    call: ended_call,
                    at: call.at,
                    program: task.now.program.clone().unwrap_or_default(),
                }));
                return;
            }
        }
        self.failed_paths.directory_may_change |=
            known.spec.changes_directory && matches!(how, Ending::Value(_));
        if known.is_selected {
            self.look_at_arguments(id, call, name, &mut ended_call.ended);
        } else {
            task.now.rows.settle(AfterSignal::KeptRunning);
        }
        let known = self.names.get(name);
        if may_be_trapped(known, call.args, how) {
            self.tasks.get(id).uncertain_call = Some(Box::new(ended_call));
        } else {
            self.count(id, ended_call);
        }
    }

    /// The path that a call was given, if calls with its result are counted by their path.
    fn path_to_count(&self, call: &Call<'_>, spec: &Spec, how: Ending) -> Option<GivenPath> {
        let is_wanted = match how {
            Ending::Error(_) => true,
            Ending::Value(_) => self.failed_paths.has_successes,
            Ending::Never => false,
        };
        let path = spec.path.filter(|_| call.has_all_args && is_wanted)?;
        given_path(&Args::new(call.args), path)
    }

    /// Adds what the arguments say: the files, the size, the first bytes.
    fn look_at_arguments(
        &mut self,
        id: TaskId,
        call: &Call<'_>,
        name: NameId,
        ended: &mut FinishedCall,
    ) {
        let spec = &self.names.get(name).spec;
        let task = self.tasks.get(id);
        let args = Args::new(call.args);
        let Ends { from, to } = ends(&args, spec.fds);
        let mut file = |end: Option<End<'_>>| match end? {
            End::Named(descriptor) => Some(self.files.find(task.tid, descriptor)),
            End::Number(number) => task.opened.get(&number).copied(),
        };
        (ended.from, ended.to) = (file(from), file(to));
        ended.requested_bytes = call
            .has_all_args
            .then(|| requested_bytes(&args, spec))
            .flatten();
        if let Ending::Value(moved @ 1..) = ended.how {
            ended.first_bytes = first_bytes(&args, spec, moved.unsigned_abs());
        }
    }

    fn count(&mut self, id: TaskId, call: EndedCall) {
        let known = self.names.get(call.name);
        let rows = &mut self.tasks.get(id).now.rows;
        count_call(call, known, rows, &mut self.failed_paths, &mut self.log);
    }

    /// Records what a successful call does to tasks and files.
    fn follow(&mut self, id: TaskId, call: &Call<'_>, effect: CallEffect, value: i64) {
        match (effect, u32::try_from(value)) {
            (CallEffect::CreatesTask, Ok(tid @ 1..)) => {
                self.tasks.task_created(
                    id,
                    tid,
                    child_kind(call.args),
                    call.entered,
                    self.logs <= 1,
                );
            }
            (CallEffect::ReturnsOwnTid, Ok(tid @ 1..)) => {
                self.tasks.get(id).own_tid = Some(tid);
            }
            (effect, Ok(_)) if effect.is_about_files() => {
                let task = self.tasks.get(id);
                self.files
                    .apply(effect, task.tid, call.args, call.outcome.descriptor);
                if let Some(opened) = Descriptor::leading(call.outcome.descriptor) {
                    task.opened
                        .insert(opened.number, self.files.find(task.tid, opened));
                }
            }
            (CallEffect::FillsMemory | CallEffect::Submits, Ok(1..)) => {
                self.tasks.get(id).now.rows.forget_what_was_read();
            }
            (CallEffect::Executes, Ok(0)) => {
                let program = program(call.args);
                let task = self.tasks.get(id);
                let executed_as = program.exe.as_deref().and_then(name_by_exec);
                task.begin_program(program, executed_as);
                if call.has_all_args {
                    task.superseded_by = None;
                }
                if !self.has_modes {
                    task.abi = Abi::NATIVE;
                }
            }
            _ => {}
        }
    }

    fn how(&self, result: CallResult<'_>) -> Ending {
        match result {
            CallResult::Never => Ending::Never,
            CallResult::Error(name) => Ending::Error(self.errnos.number(name)),
            CallResult::Errno(errno) => Ending::Error(Some(errno)),
            CallResult::Value(value) => match u32::try_from(value.unsigned_abs()) {
                Ok(errno @ 1..=MAX_ERRNO) if value < 0 => Ending::Error(Some(errno)),
                _ => Ending::Value(value),
            },
        }
    }

    /// Counts a call whose return the log does not show.
    pub fn never_returned(&mut self, id: TaskId, left: Option<LeftCall>) {
        let Some(LeftCall { entry, args }) = left else {
            return;
        };
        let outcome = Outcome {
            result: CallResult::Never,
            duration_ns: None,
            descriptor: b"",
        };
        self.returned(
            id,
            &Call {
                name: entry.name,
                args: &args,
                has_all_args: false,
                entered: entry.line,
                outcome,
                at: None,
            },
        );
    }

    /// Counts the uncertain call of a task, if there is one.
    pub fn settle_uncertain_call(&mut self, id: TaskId, verdict: Verdict) {
        if let Some(mut call) = self.tasks.get(id).uncertain_call.take() {
            if verdict == Verdict::Trapped {
                call.ended.how = Ending::Never;
            }
            self.count(id, *call);
        }
    }
}
