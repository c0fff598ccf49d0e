//! Counts whole calls, and records what they do to tasks and files.

use super::{
    Collector,
    seccomp::{self, UncertainCall},
};
use crate::{
    backend::strace::{
        args::{Args, Descriptor},
        decode::{End, Ends, child_kind, ends, head, ioctl_variant, program, requested_bytes},
        line::{CallResult, Moment, Outcome},
        names::{MAX_ERRNO, NameId, Role},
        pending::Left,
        rows::{Ending, Fate, FinishedCall},
        tasks::{FirstCall, Launch, TaskId},
    },
    syscall::Abi,
    trace::{Head, Loss},
};

/// A flag of `recv` and similar calls, as strace prints it.
const PEEK: &[u8] = b"MSG_PEEK";

/// A call that returned, or never will.
pub(super) struct Call<'a> {
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

impl Collector<'_> {
    pub(super) fn returned(&mut self, id: TaskId, call: &Call<'_>) {
        let how = self.how(call.outcome.result);
        let role = self.names.get(call.name).role;
        if let Ending::Value(value) = how {
            self.follow(id, call, role, value);
        }
        let variant = (role == Role::Ioctl).then(|| ioctl_variant(call.args)).flatten();
        let name = variant.and_then(|variant| self.names.find(variant.as_bytes())).unwrap_or(call.name);
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
            head: Head::default(),
            is_peek: known.name.starts_with("recv") && has_peek(call.args),
        };
        self.log.has_durations |= ended.duration_ns.is_some();
        task.has_exited |= how == Ending::Never && matches!(known.name.as_ref(), "exit_group" | "exit");
        if matches!(task.first_call, FirstCall::Awaited) {
            task.first_call = FirstCall::Other;
            if role == Role::Exec {
                let program = task.program.clone().unwrap_or_default();
                task.first_call = FirstCall::Exec(Box::new(Launch { name, abi: task.abi, ended, at: call.at, program }));
                return;
            }
        }
        if !known.is_selected {
            task.rows.settle(Fate::WentOn);
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
        ended.requested_bytes = call.has_all_args.then(|| requested_bytes(&args, &known.spec)).flatten();
        if let Ending::Value(moved @ 1..) = how {
            ended.head = head(&args, &known.spec, moved.unsigned_abs());
        }
        if seccomp::may_be_trapped(known, call.args, how) {
            task.uncertain_call = Some(Box::new(UncertainCall { name, abi: task.abi, ended }));
        } else {
            task.rows.add(name, known, task.abi, ended);
        }
    }

    /// Records what a successful call does to tasks and files.
    fn follow(&mut self, id: TaskId, call: &Call<'_>, role: Role, value: i64) {
        match (role, u32::try_from(value)) {
            (Role::CreatesTask, Ok(tid @ 1..)) => {
                self.tasks.task_created(id, tid, child_kind(call.args), call.entered, self.logs <= 1);
            }
            (Role::ReturnsOwnTid, Ok(tid @ 1..)) => self.tasks.get(id).own_tid = Some(tid),
            (Role::Files(effect), Ok(_)) => {
                let task = self.tasks.get(id);
                self.files.apply(effect, task.tid, call.args, call.outcome.descriptor);
                if let Some(opened) = Descriptor::leading(call.outcome.descriptor) {
                    task.opened.insert(opened.number, self.files.find(task.tid, opened));
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

    pub(super) fn never_returned(&mut self, id: TaskId, left: Option<Left>) {
        let Some(Left { entry, args }) = left else { return };
        let outcome = Outcome { result: CallResult::Never, duration_ns: None, descriptor: b"" };
        self.returned(id, &Call { name: entry.name, args: &args, has_all_args: false, entered: entry.line, outcome, at: None });
    }
}

/// Whether the flags of a call have `MSG_PEEK`. They follow the bytes that it received.
fn has_peek(args: &[u8]) -> bool {
    let behind = args.rsplit(|&byte| byte == b'"').next().unwrap_or(args);
    behind.windows(PEEK.len()).any(|word| word == PEEK)
}

/// The name that the kernel gives a task at an exec: the last part of the path, cut to 15 bytes (`TASK_COMM_LEN` of its
/// include/linux/sched.h less the zero).
fn name_by_exec(path: &str) -> Option<String> {
    const MOST_BYTES: usize = 15;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    let end = (0..=name.len().min(MOST_BYTES)).rev().find(|&end| name.is_char_boundary(end))?;
    Some(name[..end].to_owned())
}
