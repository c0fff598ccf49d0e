//! Counts whole calls, and records what they do to tasks and files.
//!
//! A call that seccomp answered with a trap or a kill was not made, but strace prints it like a
//! call that returned, with the value that the kernel's `syscall_rollback` leaves in place of a
//! result: on x86 the number of the call, on ARM its first argument. Only the next line of the
//! thread shows what happened, so such a call is counted then.

use zc_ebpf::is_restart;

use super::{
    args::{Args, Descriptor},
    assemble::LogFacts,
    decode::{
        End, Ends, child_kind, ends, first_bytes, given_path, has_peek, ioctl_variant,
        name_by_exec, program, requested_bytes,
    },
    file_table::FileTable,
    first_bytes::FirstBytes,
    line::{CallResult, Event, Moment, Outcome, Pause},
    names::{CallNames, Errnos, KnownCall, MAX_ERRNO, NameId, Role},
    rows::{AfterSignal, Ending, FinishedCall},
    syntax::unsigned,
    tasks::{CallEntry, FirstCall, FirstExec, LeftCall, TaskId, Tasks, UncertainCall},
};
use crate::{
    syscall::{self, Abi, Selection},
    trace::{FailedPath, FailedPaths, GivenPath, Loss, StackId},
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
    pub fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Trapped | Event::Killed { signal: b"SIGSYS" } => Self::Trapped,
            _ => Self::Made,
        }
    }
}

/// Counts a call that failed, if it takes a path, and one that succeeded if that is asked for. One
/// that a signal interrupted has done neither.
pub fn count_path(
    failed: &mut FailedPaths,
    known: &KnownCall,
    abi: Abi,
    how: Ending,
    path: Option<GivenPath>,
) {
    match how {
        _ if known.path.is_none() => {}
        Ending::Error(Some(errno)) if is_restart(errno) => {}
        Ending::Error(Some(errno)) => {
            failed.add(FailedPath {
                call: syscall::Call::new(known.name.clone(), abi),
                errno,
                path,
            });
        }
        Ending::Error(None) => failed.left_out += 1,
        Ending::Value(_) if failed.has_successes => {
            failed.add(FailedPath {
                call: syscall::Call::new(known.name.clone(), abi),
                errno: 0,
                path,
            });
        }
        Ending::Value(_) | Ending::Never => {}
    }
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
        let is_exec_of_another =
            task.superseded_by.is_some() && self.names.get(name).role == Role::Exec;
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
        self.tasks.get(id).rows.begin_call();
        let role = self.names.get(call.name).role;
        if let Ending::Value(value) = how {
            self.follow(id, call, role, value);
        }
        let variant = (role == Role::Ioctl)
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
        let (tid, entered) = (task.tid, call.entered);
        let mut ended = FinishedCall {
            how,
            duration_ns: call.outcome.duration_ns,
            entered,
            left: self.lines,
            requested_bytes: None,
            from: None,
            to: None,
            first_bytes: FirstBytes::default(),
            is_peek: known.name.starts_with("recv") && has_peek(call.args),
            caller: None,
        };
        let is_wanted = match how {
            Ending::Error(_) => true,
            Ending::Value(_) => self.failed_paths.has_successes,
            Ending::Never => false,
        };
        let path = known.path.filter(|_| call.has_all_args && is_wanted);
        let path =
            path.and_then(|argument| given_path(&Args::new(call.args), argument, known.directory));
        self.log.has_durations |= ended.duration_ns.is_some();
        task.has_exited |=
            how == Ending::Never && matches!(known.name.as_ref(), "exit_group" | "exit");
        if matches!(task.first_call, FirstCall::Awaited) {
            task.first_call = FirstCall::Other;
            if role == Role::Exec {
                let program = task.program.clone().unwrap_or_default();
                task.first_call = FirstCall::Exec(Box::new(FirstExec {
                    name,
                    abi: task.abi,
                    ended,
                    at: call.at,
                    program,
                    path,
                }));
                return;
            }
        }
        self.failed_paths.directory_may_change |=
            known.changes_directory && matches!(how, Ending::Value(_));
        let is_uncertain = may_be_trapped(known, call.args, how);
        if !is_uncertain {
            count_path(&mut self.failed_paths, known, task.abi, how, path.clone());
        }
        if !known.is_selected {
            task.rows.settle(AfterSignal::KeptRunning);
            if is_uncertain && known.path.is_some() {
                task.uncertain_call = Some(Box::new(UncertainCall {
                    name,
                    abi: task.abi,
                    ended,
                    path,
                }));
            }
            return;
        }
        if how == Ending::Error(None) {
            self.log.count_loss(Loss::UncountedErrnos);
        }
        let args = Args::new(call.args);
        let Ends { from, to } = ends(&args, known.spec.fds);
        let mut file = |end: Option<End<'_>>| match end? {
            End::Named(descriptor) => Some(self.files.find(tid, descriptor)),
            End::Number(number) => task.opened.get(&number).copied(),
        };
        (ended.from, ended.to) = (file(from), file(to));
        ended.requested_bytes = call
            .has_all_args
            .then(|| requested_bytes(&args, &known.spec))
            .flatten();
        if let Ending::Value(moved @ 1..) = how {
            ended.first_bytes = first_bytes(&args, &known.spec, moved.unsigned_abs());
        }
        if is_uncertain {
            task.uncertain_call = Some(Box::new(UncertainCall {
                name,
                abi: task.abi,
                ended,
                path,
            }));
        } else {
            task.rows.add(name, known, task.abi, ended);
        }
    }

    /// Records who made the call of a task that returned last. A call that is not counted has none.
    pub fn add_caller(&mut self, id: TaskId, caller: StackId) {
        let task = self.tasks.get(id);
        match &mut task.uncertain_call {
            Some(uncertain) => uncertain.ended.caller = Some(caller),
            None => task.rows.add_caller(caller),
        }
    }

    /// Records what a successful call does to tasks and files.
    fn follow(&mut self, id: TaskId, call: &Call<'_>, role: Role, value: i64) {
        match (role, u32::try_from(value)) {
            (Role::CreatesTask, Ok(tid @ 1..)) => {
                self.tasks.task_created(
                    id,
                    tid,
                    child_kind(call.args),
                    call.entered,
                    self.logs <= 1,
                );
            }
            (Role::ReturnsOwnTid, Ok(tid @ 1..)) => self.tasks.get(id).own_tid = Some(tid),
            (Role::Files(effect), Ok(_)) => {
                let task = self.tasks.get(id);
                self.files
                    .apply(effect, task.tid, call.args, call.outcome.descriptor);
                if let Some(opened) = Descriptor::leading(call.outcome.descriptor) {
                    task.opened
                        .insert(opened.number, self.files.find(task.tid, opened));
                }
            }
            (Role::FillsMemory, Ok(1..)) => self.tasks.get(id).rows.forget_what_was_read(),
            (Role::Exec, Ok(0)) => {
                let program = program(call.args);
                let task = self.tasks.get(id);
                task.executed_as = program.exe.as_deref().and_then(name_by_exec);
                task.program = Some(program);
                task.rows.forget_what_was_read();
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
        let task = self.tasks.get(id);
        let Some(UncertainCall {
            name,
            abi,
            ended,
            path,
        }) = task
            .uncertain_call
            .take()
            .map(|uncertain_call| *uncertain_call)
        else {
            return;
        };
        let known = self.names.get(name);
        let how = if verdict == Verdict::Made {
            ended.how
        } else {
            Ending::Never
        };
        count_path(&mut self.failed_paths, known, abi, how, path);
        if known.is_selected {
            task.rows
                .add(name, known, abi, FinishedCall { how, ..ended });
        }
    }
}
