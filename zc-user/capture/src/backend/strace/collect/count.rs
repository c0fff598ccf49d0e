//! Counting whole calls, and what they tell of tasks.

use super::{
    Collector,
    suspect::{self, Suspect},
};
use crate::{
    backend::strace::{
        args::{Split, child, ioctl_variant, program, requested_bytes},
        clock::Moment,
        codes::MAX_ERRNO,
        descriptor::Descriptor,
        ends::{self, End, Ends},
        head::head,
        join::Left,
        line::{CallResult, Outcome},
        names::{NameId, Role},
        rows::{Afterwards, Ended, How},
        tasks::{FirstCall, Launch, TaskId},
    },
    syscall::Abi,
    trace::{Head, Loss},
};

/// A flag of `recv` and its kin, as strace shows it.
const PEEK: &[u8] = b"MSG_PEEK";

/// A call that returned, or never will.
pub(super) struct Call<'a> {
    /// Which call.
    pub name: NameId,
    /// Its arguments.
    pub args: &'a [u8],
    /// Whether `args` are all its arguments, and nothing else.
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
        if let How::Value(value) = how {
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
            self.parts.guessed_abi = true;
        }
        let (tid, entered) = (task.tid, call.entered);
        let mut ended = Ended {
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
        self.parts.has_durations |= ended.duration_ns.is_some();
        task.has_exited |= how == How::Never && matches!(known.name.as_ref(), "exit_group" | "exit");
        if matches!(task.first_call, FirstCall::Awaited) {
            task.first_call = FirstCall::Other;
            if role == Role::Exec {
                let program = task.program.clone().unwrap_or_default();
                task.first_call = FirstCall::Exec(Box::new(Launch { name, abi: task.abi, ended, at: call.at, program }));
                return;
            }
        }
        if !known.is_selected {
            task.rows.settle(Afterwards::WentOn);
            return;
        }
        if how == How::Error(None) {
            self.parts.lose(Loss::UncountedErrnos);
        }
        let args = Split::new(call.args);
        let Ends { from, to } = ends::of(&args, known.spec.fds);
        let mut file = |end: Option<End<'_>>| match end? {
            End::Named(descriptor) => Some(self.files.find(tid, descriptor)),
            End::Number(number) => task.opened.get(&number).copied(),
        };
        (ended.from, ended.to) = (file(from), file(to));
        ended.requested_bytes = call.has_all_args.then(|| requested_bytes(&args, &known.spec)).flatten();
        if let How::Value(moved @ 1..) = how {
            ended.head = head(&args, &known.spec, moved.unsigned_abs());
        }
        if suspect::is_suspect(known, call.args, how) {
            task.suspect = Some(Box::new(Suspect { name, abi: task.abi, ended }));
        } else {
            task.rows.add(name, known, task.abi, ended);
        }
    }

    /// Draws conclusions on tasks from a call that succeeded.
    fn follow(&mut self, id: TaskId, call: &Call<'_>, role: Role, value: i64) {
        match (role, u32::try_from(value)) {
            (Role::Birth, Ok(tid @ 1..)) => self.tasks.born(id, tid, child(call.args), call.entered, self.logs <= 1),
            (Role::Identity, Ok(tid @ 1..)) => self.tasks.get(id).own_tid = Some(tid),
            (Role::Files(lesson), Ok(_)) => {
                let task = self.tasks.get(id);
                self.files.learn(lesson, task.tid, call.args, call.outcome.descriptor);
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

    fn how(&self, result: CallResult<'_>) -> How {
        match result {
            CallResult::Never => How::Never,
            CallResult::Error(name) => How::Error(self.errnos.number(name)),
            CallResult::Errno(errno) => How::Error(Some(errno)),
            CallResult::Value(value) => match u32::try_from(value.unsigned_abs()) {
                Ok(errno @ 1..=MAX_ERRNO) if value < 0 => How::Error(Some(errno)),
                _ => How::Value(value),
            },
        }
    }

    pub(super) fn never_returned(&mut self, id: TaskId, left: Option<Left>) {
        let Some(Left { entry, args }) = left else { return };
        let outcome = Outcome { result: CallResult::Never, duration_ns: None, descriptor: b"" };
        self.returned(id, &Call { name: entry.name, args: &args, has_all_args: false, entered: entry.line, outcome, at: None });
    }
}

/// Whether the flags of a call have `MSG_PEEK`. They stand behind what it received.
fn has_peek(args: &[u8]) -> bool {
    let behind = args.rsplit(|&byte| byte == b'"').next().unwrap_or(args);
    behind.windows(PEEK.len()).any(|word| word == PEEK)
}

/// The name that a task gets from the kernel by executing this: the last part of the path, as far as there is room (`TASK_COMM_LEN` of
/// its include/linux/sched.h, with the zero).
fn name_by_exec(path: &str) -> Option<String> {
    const MOST_BYTES: usize = 15;
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    let end = (0..=name.len().min(MOST_BYTES)).rev().find(|&end| name.is_char_boundary(end))?;
    Some(name[..end].to_owned())
}
