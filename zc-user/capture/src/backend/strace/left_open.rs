//! Which descriptors the process of the command has opened, by the calls that open and close some.

use std::collections::{BTreeMap, HashSet};

use zctrace_core::left_open::{LeftDescriptor, LeftOpen};

use super::{
    args::{Args, NamedDescriptor, number},
    decode::{child_kind, clone_flags, flag_bits, has_flag, quoted},
    file_name::{self, Devices},
    line::{CallOutcome, Ending},
    syntax::unsigned,
    tasks::TaskId,
};
use crate::{
    backend::file_calls::{ChildKind, flag},
    text::from_bytes,
};

/// The calls that return a new descriptor.
const OPENERS: [&str; 41] = [
    "accept",
    "accept4",
    "bpf",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "fanotify_init",
    "fsmount",
    "fsopen",
    "fspick",
    "inotify_init",
    "inotify_init1",
    "io_uring_setup",
    "landlock_create_ruleset",
    "memfd_create",
    "memfd_secret",
    "mq_open",
    "open",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "openat",
    "openat2",
    "perf_event_open",
    "pidfd_getfd",
    "pidfd_open",
    "signalfd",
    "signalfd4",
    "socket",
    "timerfd_create",
    "userfaultfd",
    "fcntl",
    "fcntl64",
    "ioctl",
    "seccomp",
    "listns",
];

/// The other calls that open or close descriptors.
const OTHERS: [&str; 15] = [
    "clone",
    "clone3",
    "close",
    "close_range",
    "execve",
    "execveat",
    "io_submit",
    "io_uring_enter",
    "pipe",
    "pipe2",
    "recvmmsg",
    "recvmsg",
    "socketcall",
    "socketpair",
    "unshare",
];

/// Those of which an exec closes each.
const ALWAYS_CLOSED: [&str; 6] = [
    "bpf",
    "io_uring_setup",
    "landlock_create_ruleset",
    "pidfd_getfd",
    "pidfd_open",
    "seccomp",
];

/// The calls that must be traced.
pub fn opening_calls() -> impl Iterator<Item = &'static str> {
    OPENERS.into_iter().chain(OTHERS)
}

const BY_RING: &str = "the command may have opened and closed files by io_uring";
const SHARED: &str =
    "the command shared its descriptors with another process, or its threads did not";
const UNCLEAR: &str =
    "a call may have opened or closed a descriptor, and its line does not show that";
const RAW: &str = "the flags of a call do not show whether an exec closed its descriptor";
const RUNNING: &str = "the end of the command is not in the record";
const UNORDERED: &str = "the record does not show in which order threads made their calls";

/// A descriptor that was opened.
#[derive(Debug)]
struct Opened {
    path: Option<String>,
    kind: Option<String>,
    call: String,
    /// `None`: unknown.
    closes_on_exec: Option<bool>,
}

/// What the process of the command has opened.
#[derive(Debug, Default)]
pub struct OpenDescriptors {
    open: BTreeMap<u32, Opened>,
    /// The threads of the process, by their tasks.
    own: HashSet<TaskId>,
    doubts: Vec<&'static str>,
}

impl OpenDescriptors {
    /// A call of a task returned, or did not.
    pub fn note_call(
        &mut self,
        (task, creator): (TaskId, Option<(TaskId, ChildKind)>),
        name: &str,
        args: &[u8],
        how: CallOutcome<'_>,
    ) {
        let of_own = |(creator, kind)| kind == ChildKind::Thread && self.own.contains(&creator);
        if task == 0 || creator.is_some_and(of_own) {
            self.own.insert(task);
        }
        if !self.own.contains(&task) || !opening_calls().any(|known| known == name) {
            return;
        }
        let arguments = Args::new(args);
        match how.ending {
            Ending::Value(value) => {
                self.note_return(name, (args, &arguments), value, how.descriptor);
            }
            // The kernel closes it in any case, if it is one.
            Ending::Error(errno)
                if name == "close" && errno != Some(libc::EBADF.unsigned_abs()) =>
            {
                self.close(&arguments);
            }
            Ending::Never | Ending::UnderWay if name.starts_with("close") => {
                self.add_doubt(UNCLEAR);
            }
            Ending::Error(_) | Ending::Never | Ending::UnderWay => {}
        }
    }

    fn add_doubt(&mut self, why: &'static str) {
        if !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    fn note_return(
        &mut self,
        name: &str,
        (text, args): (&[u8], &Args<'_>),
        value: i64,
        result: &[u8],
    ) {
        let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
        match name {
            "close" => self.close(args),
            "close_range" => self.close_range(args),
            "execve" | "execveat" => self.execute(),
            "io_uring_enter" | "io_submit" => self.add_doubt(BY_RING),
            "clone" | "clone3" | "unshare" => self.note_sharing(name, text),
            "fcntl" | "fcntl64" => {
                let command = args.nth(1).unwrap_or_default();
                match flag_bits(command) {
                    flag::F_SETFD => {
                        self.set_closing(args, has_flag(args.nth(2), flag::FD_CLOEXEC));
                    }
                    flag::F_DUPFD | flag::F_DUPFD_CLOEXEC => {
                        self.open(name, (text, args), value, result);
                    }
                    _ => {}
                }
            }
            // The kernel's include/uapi/asm-generic/ioctls.h.
            "ioctl" => {
                let command = args.nth(1).unwrap_or_default();
                if command == b"FIOCLEX" || number(command) == Some(0x5451) {
                    self.set_closing(args, true);
                } else if command == b"FIONCLEX" || number(command) == Some(0x5450) {
                    self.set_closing(args, false);
                } else if NamedDescriptor::leading(result).is_some() {
                    self.open(name, (text, args), value, result);
                } else if value > 2 {
                    self.add_doubt(UNCLEAR);
                }
            }
            "seccomp" if !has(b"NEW_LISTENER") => {}
            "socketcall" => self.add_doubt(UNCLEAR),
            "pipe" | "pipe2" => self.open_all(name, text, args.nth(0)),
            "socketpair" => self.open_all(name, text, args.nth(3)),
            "recvmsg" | "recvmmsg" => {
                const DATA: &[u8] = b"SCM_RIGHTS, cmsg_data=";
                let starts = (0..text.len()).filter(|at| text[*at..].starts_with(DATA));
                for at in starts {
                    self.open_all(name, text, Some(&text[at + DATA.len()..]));
                }
            }
            "dup2" | "dup3" if same_number(args) => {}
            _ => self.open(name, (text, args), value, result),
        }
    }

    fn close(&mut self, args: &Args<'_>) {
        match descriptor_number(args.nth(0).unwrap_or_default()) {
            Some(fd) => drop(self.open.remove(&fd)),
            None => self.add_doubt(UNCLEAR),
        }
    }

    fn close_range(&mut self, args: &Args<'_>) {
        let end = |index| args.nth(index).and_then(number);
        let (Some(first), Some(last)) = (end(0), end(1)) else {
            return self.add_doubt(UNCLEAR);
        };
        let range = first..=last;
        if has_flag(args.nth(2), flag::CLOSE_RANGE_CLOEXEC) {
            let open = self.open.iter_mut();
            let within = open.filter(|(fd, _)| range.contains(&u64::from(**fd)));
            within.for_each(|(_, one)| one.closes_on_exec = Some(true));
        } else {
            self.open.retain(|fd, _| !range.contains(&u64::from(*fd)));
        }
    }

    fn execute(&mut self) {
        if self.open.values().any(|one| one.closes_on_exec.is_none()) {
            self.add_doubt(RAW);
        }
        self.open.retain(|_, one| one.closes_on_exec == Some(false));
    }

    /// A process was created, or the tables of threads were divided.
    fn note_sharing(&mut self, name: &str, text: &[u8]) {
        let flags = match name {
            "unshare" => flag_bits(text),
            _ => clone_flags(text),
        };
        let shares = flags & flag::CLONE_FILES != 0;
        let is_thread = name != "unshare" && child_kind(text) == ChildKind::Thread;
        if shares != is_thread {
            self.add_doubt(SHARED);
        }
        if flags & flag::CLONE_PIDFD != 0 {
            self.add_doubt(UNCLEAR);
        }
    }

    fn set_closing(&mut self, args: &Args<'_>, closes: bool) {
        let fd = args.nth(0).and_then(descriptor_number);
        if let Some(one) = fd.and_then(|fd| self.open.get_mut(&fd)) {
            one.closes_on_exec = Some(closes);
        }
    }

    fn open(&mut self, name: &str, (text, args): (&[u8], &Args<'_>), value: i64, result: &[u8]) {
        let Ok(fd) = u32::try_from(value) else { return };
        let annotated = NamedDescriptor::leading(result);
        let mut opened = opened_descriptors(name, text, annotated);
        if annotated.is_none() && name.starts_with("open") {
            let given = (0..2).filter_map(|index| quoted(args.nth(index)?));
            opened.path = given.map(|(path, _)| from_bytes(&path)).next();
        }
        self.insert(fd, opened);
    }

    /// Each descriptor in the array that this text begins with was opened by a call with these arguments.
    fn open_all(&mut self, name: &str, args: &[u8], array: Option<&[u8]>) {
        let mut rest = array.and_then(|array| array.strip_prefix(b"["));
        while let Some(one) = rest {
            let Some((fd, after)) = unsigned(one) else {
                return self.add_doubt(UNCLEAR);
            };
            let named = NamedDescriptor::leading(one);
            let after = named.map_or(after, |named| &one[named.text.len()..]);
            if let Ok(fd) = u32::try_from(fd) {
                self.insert(fd, opened_descriptors(name, args, named));
            }
            rest = after.strip_prefix(b", ");
            if rest.is_none() && after.starts_with(b"]") {
                return;
            }
        }
        self.add_doubt(UNCLEAR);
    }

    fn insert(&mut self, fd: u32, opened: Opened) {
        let replaces = matches!(opened.call.as_str(), "dup2" | "dup3");
        if self.open.remove(&fd).is_some() && !replaces {
            // A call that closed it is missing.
            self.add_doubt(UNCLEAR);
        }
        if fd > 2 {
            self.open.insert(fd, opened);
        }
    }

    /// What is open at the end of the record. `has_ended`: it has the end of the command; `is_ordered`:
    /// it shows the order of the calls of threads; `doubts`: other reasons why calls may be missing.
    pub fn finish(mut self, has_ended: bool, is_ordered: bool, doubts: Vec<String>) -> LeftOpen {
        if !has_ended {
            self.add_doubt(RUNNING);
        }
        if !is_ordered {
            self.add_doubt(UNORDERED);
        }
        let own = self.doubts.into_iter().map(str::to_owned);
        let descriptors = self.open.into_iter().map(|(fd, one)| LeftDescriptor {
            fd,
            path: one.path,
            kind: one.kind,
            call: Some(one.call),
        });
        LeftOpen {
            descriptors: descriptors.collect(),
            doubts: own.chain(doubts).collect(),
        }
    }
}

/// A descriptor of a call with these arguments.
fn opened_descriptors(name: &str, text: &[u8], annotated: Option<NamedDescriptor<'_>>) -> Opened {
    const CLOSED: &[u8] = b"CLOEXEC";
    /// `O_CLOEXEC`, which most flags like it are equal to.
    const BIT: u64 = 0x8_0000;
    let parsed = annotated.map(|named| file_name::parse(named.name, Devices::default()));
    let is_closed = text.windows(CLOSED.len()).any(|part| part == CLOSED);
    let mut arguments = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let may_be_closed = arguments.any(|word| number(word).is_some_and(|word| word & BIT != 0));
    Opened {
        path: parsed
            .as_ref()
            .and_then(|one| one.path.as_deref())
            .map(from_bytes),
        kind: parsed
            .and_then(|one| one.file.kind)
            .map(|kind| kind.name().to_owned()),
        call: name.to_owned(),
        closes_on_exec: match is_closed || ALWAYS_CLOSED.contains(&name) {
            true => Some(true),
            false if may_be_closed => None,
            false => Some(false),
        },
    }
}

/// The number of a descriptor, with a name or without.
fn descriptor_number(text: &[u8]) -> Option<u32> {
    let (fd, _) = unsigned(text)?;
    u32::try_from(fd).ok()
}

/// Whether the first two arguments are the same descriptor, so that `dup2` does nothing.
fn same_number(args: &Args<'_>) -> bool {
    let [one, other] = [0, 1].map(|index| args.nth(index).and_then(descriptor_number));
    one.is_some() && one == other
}
