//! The calls that took longer than a limit.

use zctrace_core::slow_calls::{SlowCall, SlowCalls, SlowestCalls};

use super::{
    args::Args,
    decode::{ArgEnd, ends_of_arguments, given_path},
    file_calls::address,
    file_name::{self, Devices},
    line::Ending,
    tasks::{TaskId, Tasks},
};
use crate::{backend::file_calls::ChildKind, errno, syscalls::Spec, trace::File};

/// Collects the slow calls of a log.
#[derive(Debug)]
pub struct SlowCallNotes {
    /// The limit.
    pub slower_than_ns: u64,
    /// The calls.
    pub slowest: SlowestCalls,
    /// How many returned whose time the log does not have.
    pub untimed: u64,
}

impl SlowCallNotes {
    /// Notes the slow ones of calls with this limit.
    pub fn new(slower_than_ns: u64) -> Self {
        Self {
            slower_than_ns,
            slowest: SlowestCalls::default(),
            untimed: 0,
        }
    }

    /// Adds a call that returned to its caller, if it is slow. `ns` of `None`: its time is unknown.
    pub fn add(&mut self, ns: Option<u64>, slow: Option<Box<SlowCall>>) {
        self.untimed += u64::from(ns.is_none());
        if let Some(slow) = slow {
            self.slowest.add(*slow);
        }
    }

    /// All of them. `shows_beginning`: the first line of the log is of the time when the run began.
    pub fn finish(self, shows_beginning: bool) -> SlowCalls {
        let mut slow = self.slowest.finish(self.slower_than_ns, 0, self.untimed);
        if !shows_beginning {
            slow.calls.iter_mut().for_each(|call| call.at_ns = None);
        }
        slow
    }
}

/// A call of this task that took so long.
pub fn slow_call(
    (name, spec, args): (&str, &Spec, &[u8]),
    (ending, ns): (Ending, u64),
    at_ns: Option<u64>,
    id: TaskId,
    tasks: &Tasks,
) -> SlowCall {
    let task = &tasks.all()[id];
    let mut leader = task;
    while let Some((creator, ChildKind::Thread)) = leader.creator {
        leader = &tasks.all()[creator];
    }
    let named = |name: String| Some(name).filter(|name| !name.is_empty());
    let (result, error) = match ending {
        Ending::Value(value) => (Some(value), None),
        Ending::Error(errno) => (
            None,
            Some(errno.map_or_else(|| "?".to_owned(), errno::name)),
        ),
        Ending::Never | Ending::UnderWay => (None, None),
    };
    SlowCall {
        at_ns,
        ns,
        call: name.to_owned(),
        path: path(&Args::new(args), spec, result.is_some()),
        result,
        error,
        program: named(leader.now.program_name()),
        thread: named(task.now.program_name()),
        pid: leader.tid,
        tid: task.tid,
        stack: None,
    }
}

/// The path or address that the call was given, or else that of its descriptor.
fn path(args: &Args<'_>, spec: &Spec, has_succeeded: bool) -> Option<String> {
    let given = spec
        .path
        .and_then(|path| given_path(args, path, spec, has_succeeded));
    if let Some(given) = given.filter(|given| !given.is_below_descriptor) {
        let rest = if given.is_cut { "…" } else { "" };
        return Some(given.text + rest);
    }
    let mut structures = (0..6).filter_map(|index| args.nth(index));
    structures.find_map(|one| address(one, args)).or_else(|| {
        let (from, to) = ends_of_arguments(args, spec.fds);
        let descriptors = [from, to].into_iter().flatten();
        let mut files = descriptors.filter_map(|end| match end {
            ArgEnd::Named(descriptor) => {
                Some(file_name::parse(descriptor.name, Devices::default()))
            }
            ArgEnd::Number(_) => None,
        });
        files.find_map(|name| File::label(&name.file).map(str::to_owned))
    })
}
