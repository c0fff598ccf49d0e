//! Parses one line of a log, independently of other lines. Nothing is copied.
//!
//! Besides calls there are lines about a thread as a whole (`+++ exited with 0 +++`, `--- SIGCHLD
//! {...} ---`), and messages of strace itself, which have no prefix.

mod outcome;
mod prefix;

use super::syntax::{find_closing, find_top_level, seconds, tid, unsigned};
use crate::syscalls::Abi;

pub use outcome::{CallResult, Outcome};
pub use prefix::{Clock, Prefix, Stamp};
pub(super) use prefix::{Moment, Stamps};

/// One line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The thread and the time.
    pub prefix: Prefix<'a>,
    /// The event.
    pub event: Event<'a>,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A call from its entry to its result.
    Call {
        /// Its name.
        name: &'a [u8],
        /// What stands between the brackets.
        args: &'a [u8],
        /// What it returned.
        outcome: Outcome<'a>,
    },
    /// The entry of a call, as far as its arguments are known by then: `read(3,  <unfinished ...>`.
    Unfinished {
        /// Its name.
        name: &'a [u8],
        /// The beginning of its arguments.
        args: &'a [u8],
        /// Why the line ends.
        pause: Pause,
    },
    /// The rest of a call: `<... read resumed>"abc", 10) = 3`.
    Resumed {
        /// Its name.
        name: &'a [u8],
        /// The rest of its arguments.
        args: &'a [u8],
        /// What it returned.
        outcome: Outcome<'a>,
    },
    /// More of a call that is still unfinished: `<... read resumed> <detached ...>`.
    StillUnfinished {
        /// Its name.
        name: &'a [u8],
        /// More of its arguments.
        args: &'a [u8],
    },
    /// The beginning of a call, cut off by the end of the line: something else was printed next, or
    /// the log ends.
    Cut {
        /// Its name.
        name: &'a [u8],
        /// The length of the part of the line that belongs to the call.
        length: usize,
        /// The thread that strace's own message at the cut says it follows.
        attached: Option<u32>,
    },
    /// The thread exited.
    Exited {
        /// Its status.
        code: i32,
    },
    /// The thread was killed.
    Killed {
        /// Name of the signal.
        signal: &'a [u8],
    },
    /// Another thread of this process executed a program and took over the id of this thread.
    Superseded {
        /// The previous id of that thread.
        by: u32,
    },
    /// From here on, a thread uses this table of calls.
    Mode {
        /// The thread.
        tid: u32,
        /// The table.
        abi: Abi,
    },
    /// A signal arrived, or stopped the thread.
    Signal,
    /// The signal by which seccomp says that the call before was not made.
    Trapped,
    /// strace follows a new thread.
    Attached {
        /// The thread.
        tid: u32,
    },
    /// Another message of strace, not about calls; or a line of a stack (`-k`).
    Notice,
    /// Not a line of strace, as far as this parser knows.
    Unparsed,
}

/// Why the line of an unfinished call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The call continues after other lines; or strace has detached.
    Later,
    /// An exec gave the thread the id of its process.
    Renamed {
        /// The id.
        to: u32,
    },
}

impl<'a> Line<'a> {
    /// Parses one line, without its line break. Every line is some [`Event`].
    pub fn parse(line: &'a [u8]) -> Self {
        let (prefix, rest) = Prefix::read(line);
        if let Some(event) = read_event(rest, line.len() - rest.len()) {
            return Self { prefix, event };
        }
        // Messages and tables have no prefix: what looked like one is part of them.
        Self {
            prefix: Prefix::default(),
            event: read_message(line).unwrap_or(Event::Unparsed),
        }
    }
}

fn read_event(text: &[u8], offset: usize) -> Option<Event<'_>> {
    match text.first()? {
        b'a'..=b'z' | b'_' => read_call(text, offset),
        b'<' => read_resumed(text),
        b'+' => read_end(text),
        b'-' => read_signal(text),
        b'[' => read_mode(text),
        // The thread was gone before strace could read its call.
        b'?' => text.starts_with(b"????(").then_some(Event::Notice),
        _ => None,
    }
}

/// `read(3, "abc", 10) = 3`, and the beginnings of it.
fn read_call(text: &[u8], offset: usize) -> Option<Event<'_>> {
    let bracket = text
        .iter()
        .position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))?;
    let name = &text[..bracket];
    let rest = text[bracket..].strip_prefix(b"(")?;
    if let Some((args, pause)) = split_pause(rest) {
        return Some(Event::Unfinished { name, args, pause });
    }
    if let Some((args, outcome)) = split_outcome(rest) {
        return Some(Event::Call {
            name,
            args,
            outcome,
        });
    }
    let attached = attached_at_end(text);
    let length = attached.map_or(text.len(), |(at, _)| at) + offset;
    Some(Event::Cut {
        name,
        length,
        attached: attached.map(|(_, tid)| tid),
    })
}

/// `<... read resumed>"abc", 10) = 3`
fn read_resumed(text: &[u8]) -> Option<Event<'_>> {
    let text = text.strip_prefix(b"<... ")?;
    let (name, rest) = text.split_at(text.iter().position(|&byte| byte == b' ')?);
    let rest = rest.strip_prefix(b" resumed>")?;
    if name == b"????" {
        return Some(Event::Notice);
    }
    if let Some((args, _)) = split_pause(rest) {
        return Some(Event::StillUnfinished { name, args });
    }
    // A thread that dies inside a call: `<... read resumed> <unfinished ...>) = ?`.
    let arguments = rest.strip_prefix(b" <unfinished ...>").unwrap_or(rest);
    split_rest(arguments).map(|(args, outcome)| Event::Resumed {
        name,
        args,
        outcome,
    })
}

/// Splits the rest of arguments from the outcome after it. The line before may have ended within a
/// structure or an array, as in `get_thread_area({entry_number=12 <unfinished ...>`. Then this line
/// closes brackets that were opened there.
fn split_rest(text: &[u8]) -> Option<(&[u8], Outcome<'_>)> {
    /// Structures are not nested so deep. The limit keeps a line full of brackets from taking
    /// quadratic time.
    const MAX_OPEN: usize = 16;
    let mut from = 0;
    for _ in 0..=MAX_OPEN {
        let close = from + find_closing(&text[from..])?;
        if text[close] == b')'
            && let Some(outcome) = Outcome::read(&text[close + 1..])
        {
            return Some((&text[..close], outcome));
        }
        from = close + 1;
    }
    None
}

/// Splits arguments at their closing bracket from the outcome after it.
fn split_outcome(text: &[u8]) -> Option<(&[u8], Outcome<'_>)> {
    let close = find_top_level(text, b')')?;
    Some((&text[..close], Outcome::read(&text[close + 1..])?))
}

/// Splits arguments from ` <unfinished ...>` or a similar mark at the end of the line.
fn split_pause(text: &[u8]) -> Option<(&[u8], Pause)> {
    let body = text.strip_suffix(b" ...>")?;
    let angle = body.iter().rposition(|&byte| byte == b'<')?;
    let pause = match &body[angle + 1..] {
        b"unfinished" | b"detached" => Pause::Later,
        renamed => {
            let (to, rest) = tid(renamed.strip_prefix(b"pid changed to ")?)?;
            rest.is_empty().then_some(Pause::Renamed { to })?
        }
    };
    Some((&body[..angle], pause))
}

/// `+++ exited with 0 +++`, `+++ killed by SIGKILL (core dumped) +++`, `+++ superseded by execve in
/// pid 123 +++`.
fn read_end(text: &[u8]) -> Option<Event<'_>> {
    let inside = text.strip_prefix(b"+++ ")?.strip_suffix(b" +++")?;
    if let Some(code) = inside.strip_prefix(b"exited with ") {
        let (code, rest) = unsigned(code)?;
        return (rest.is_empty()).then_some(Event::Exited {
            code: i32::try_from(code).ok()?,
        });
    }
    if let Some(signal) = inside.strip_prefix(b"killed by ") {
        return Some(Event::Killed {
            signal: signal.strip_suffix(b" (core dumped)").unwrap_or(signal),
        });
    }
    let (by, rest) = tid(inside.strip_prefix(b"superseded by execve in pid ")?)?;
    rest.is_empty().then_some(Event::Superseded { by })
}

/// `--- SIGCHLD {si_signo=SIGCHLD, ...} ---`, `--- stopped by SIGSTOP ---`.
fn read_signal(text: &[u8]) -> Option<Event<'_>> {
    let inside = text.strip_prefix(b"--- ")?.strip_suffix(b" ---")?;
    let by_seccomp = inside.starts_with(b"SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP,");
    Some(if by_seccomp {
        Event::Trapped
    } else {
        Event::Signal
    })
}

/// `[ Process PID=123 runs in 32 bit mode. ]`: the table of the calls from here on.
fn read_mode(text: &[u8]) -> Option<Event<'_>> {
    let (tid, rest) = tid(text.strip_prefix(b"[ Process PID=")?)?;
    let abi = match rest.strip_prefix(b" runs in ")?.strip_suffix(b" mode. ]")? {
        b"32 bit" => Abi::COMPAT,
        b"x32" => Abi::X32,
        _ => Abi::NATIVE,
    };
    Some(Event::Mode { tid, abi })
}

/// Messages of strace itself, and what it prints besides calls: stacks (`-k`), tables (`-C`), empty
/// lines.
fn read_message(line: &[u8]) -> Option<Event<'_>> {
    if let Some(message) = own_message(line) {
        return Some(attached(message).map_or(Event::Notice, |tid| Event::Attached { tid }));
    }
    (line.is_empty() || line.starts_with(b" > ") || is_table(line)).then_some(Event::Notice)
}

/// The thread of `strace: Process 123 attached` at the end of a line that it interrupts, and where
/// it begins.
fn attached_at_end(line: &[u8]) -> Option<(usize, u32)> {
    const OWN: &[u8] = b"strace: ";
    // Few lines end so; for all others this check is cheap.
    let body = line.strip_suffix(b" attached")?;
    let at = body.windows(OWN.len()).rposition(|window| window == OWN)?;
    Some((at, attached(&line[at + OWN.len()..])?))
}

/// What follows `strace: ` (which may have a path before it); or, from old versions, `Process 123
/// attached` without it.
fn own_message(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"strace: ";
    if let Some(message) = line.strip_prefix(NAME) {
        return Some(message);
    }
    if line.starts_with(b"/") {
        let program = line.iter().position(|&byte| byte == b':')? + 2;
        return line
            .get(..program)?
            .ends_with(b"/strace: ")
            .then(|| &line[program..]);
    }
    let old = tid(line.strip_prefix(b"Process ")?)?.1;
    [
        b" attached".as_slice(),
        b" detached",
        b" suspended",
        b" resumed",
    ]
    .iter()
    .any(|end| old.starts_with(end))
    .then_some(line)
}

/// `Process 123 attached`
fn attached(message: &[u8]) -> Option<u32> {
    let (tid, rest) = tid(message.strip_prefix(b"Process ")?)?;
    rest.starts_with(b" attached").then_some(tid)
}

/// A line of the table of `-C`.
fn is_table(line: &[u8]) -> bool {
    line.starts_with(b"% time ")
        || line.starts_with(b"------ -------")
        || line.starts_with(b"System call usage summary for ")
        || table_row(line).is_some()
}

/// ` 61.12 0.001739 869 2 vfork`: numbers, then a name without brackets.
fn table_row(line: &[u8]) -> Option<()> {
    let mut columns = line
        .split(|&byte| byte == b' ')
        .filter(|column| !column.is_empty());
    let is_number = |column: &[u8]| seconds(column).is_some_and(|(_, rest)| rest.is_empty());
    let (share, time) = (columns.next()?, columns.next()?);
    if !(is_number(share) && is_number(time) && share.contains(&b'.') && time.contains(&b'.')) {
        return None;
    }
    let mut last = columns.next()?;
    for column in columns {
        if !is_number(last) {
            return None;
        }
        last = column;
    }
    (!is_number(last) && find_top_level(last, b')').is_none() && !last.contains(&b'('))
        .then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Event<'_> {
        Line::parse(line.as_bytes()).event
    }

    fn value(value: i64) -> Outcome<'static> {
        Outcome {
            result: CallResult::Value(value),
            duration_ns: None,
            descriptor: b"",
        }
    }

    #[test]
    fn a_call_has_a_name_arguments_and_an_outcome() {
        let line = Line::parse(br#"[pid 12] read(3</x>, "a) = 1"..., 100)   = 42 <0.000012>"#);
        assert_eq!(line.prefix.tid, Some(12));
        assert_eq!(
            line.event,
            Event::Call {
                name: b"read",
                args: br#"3</x>, "a) = 1"..., 100"#,
                outcome: Outcome {
                    result: CallResult::Value(42),
                    duration_ns: Some(12_000),
                    descriptor: b""
                },
            }
        );
    }

    #[test]
    fn a_call_without_a_name_is_a_call() {
        assert!(matches!(
            event("syscall_0x1ff(0x1, 0x2) = 0"),
            Event::Call {
                name: b"syscall_0x1ff",
                ..
            }
        ));
    }

    #[test]
    fn an_unfinished_call_is_parsed() {
        assert_eq!(
            event("read(3,  <unfinished ...>"),
            Event::Unfinished {
                name: b"read",
                args: b"3,  ",
                pause: Pause::Later
            }
        );
        assert_eq!(
            event("read(3,  <detached ...>"),
            Event::Unfinished {
                name: b"read",
                args: b"3,  ",
                pause: Pause::Later
            }
        );
        assert_eq!(
            event("execve(\"/x\" <pid changed to 7 ...>"),
            Event::Unfinished {
                name: b"execve",
                args: b"\"/x\" ",
                pause: Pause::Renamed { to: 7 }
            }
        );
    }

    #[test]
    fn a_resumed_call_is_parsed() {
        assert_eq!(
            event("<... read resumed>\"ab\", 10) = 2"),
            Event::Resumed {
                name: b"read",
                args: b"\"ab\", 10",
                outcome: value(2)
            }
        );
        assert_eq!(
            event("<... read resumed> \"ab\", 10) = 2"),
            Event::Resumed {
                name: b"read",
                args: b" \"ab\", 10",
                outcome: value(2)
            }
        );
        let never = Outcome {
            result: CallResult::Never,
            duration_ns: None,
            descriptor: b"",
        };
        assert_eq!(
            event("<... futex resumed>)  = ?"),
            Event::Resumed {
                name: b"futex",
                args: b"",
                outcome: never
            }
        );
        assert_eq!(
            event("<... futex resumed> <unfinished ...>) = ?"),
            Event::Resumed {
                name: b"futex",
                args: b"",
                outcome: never
            }
        );
        assert_eq!(
            event("<... read resumed> <detached ...>"),
            Event::StillUnfinished {
                name: b"read",
                args: b" "
            }
        );
    }

    #[test]
    fn the_rest_of_a_call_may_start_within_a_structure() {
        for (name, args) in [
            ("get_thread_area", ", base_addr=0x55, limit=0xfffff}"),
            (
                "ioctl",
                " => 80, ifc_buf=[{ifr_name=\"lo\", ifr_addr={sa_family=AF_INET, sin_port=htons(0)}}]}",
            ),
            ("rt_sigtimedwait", "{si_signo=SIGCHLD}, {tv_sec=1}, 8"),
            (
                "recvmsg",
                "[{iov_base=\"a) = 1}\", iov_len=1}], msg_flags=0}, 0",
            ),
            ("bind", "0), sin_addr=inet_addr(\"0.0.0.0\")}, 16"),
        ] {
            let line = format!("<... {name} resumed>{args}) = 3");
            assert_eq!(
                event(&line),
                Event::Resumed {
                    name: name.as_bytes(),
                    args: args.as_bytes(),
                    outcome: value(3)
                },
                "{line}"
            );
        }
        assert_eq!(event("<... read resumed>}, 3"), Event::Unparsed);
    }

    #[test]
    fn a_restarted_call_names_itself_in_its_arguments() {
        assert_eq!(
            event("restart_syscall(<... resuming interrupted read ...>) = 0"),
            Event::Call {
                name: b"restart_syscall",
                args: b"<... resuming interrupted read ...>",
                outcome: value(0)
            }
        );
    }

    #[test]
    fn a_call_that_never_returns_has_no_result() {
        assert!(matches!(
            event("exit_group(0)        = ?"),
            Event::Call {
                outcome: Outcome {
                    result: CallResult::Never,
                    ..
                },
                ..
            }
        ));
    }

    #[test]
    fn a_cut_line_is_recognised() {
        assert_eq!(
            event("12 write(2, \"a\\n\", 2a"),
            Event::Cut {
                name: b"write",
                length: 21,
                attached: None
            }
        );
        assert_eq!(
            event("vfork(strace: Process 12 attached"),
            Event::Cut {
                name: b"vfork",
                length: 6,
                attached: Some(12)
            }
        );
        for line in [
            "read(3, \"abc",
            "read(3, \"abc\", 1)",
            "read(3, \"abc\", 1) =",
            "read(3, \"abc\", 1) = ",
            "read(",
        ] {
            assert_eq!(
                event(line),
                Event::Cut {
                    name: b"read",
                    length: line.len(),
                    attached: None
                },
                "{line}"
            );
        }
    }

    #[test]
    fn lines_that_are_not_calls_are_parsed() {
        assert_eq!(
            event("12 --- SIGCHLD {si_signo=SIGCHLD} ---"),
            Event::Signal
        );
        assert_eq!(event("12 +++ exited with 3 +++"), Event::Exited { code: 3 });
        assert_eq!(
            event("[pid  9] [ Process PID=9 runs in 32 bit mode. ]"),
            Event::Mode {
                tid: 9,
                abi: Abi::COMPAT
            }
        );
        assert_eq!(
            event("strace: Process 12 attached"),
            Event::Attached { tid: 12 }
        );
        assert_eq!(event("????( <unfinished ...>"), Event::Notice);
        assert_eq!(event("<... ???? resumed>) = ?"), Event::Notice);
        assert_eq!(
            event(" > /usr/lib/libc.so.6(read+0x10) [0x1234]"),
            Event::Notice
        );
        assert_eq!(
            event("------ ----------- ----------- --------- --------- ----------------"),
            Event::Notice
        );
    }

    #[test]
    fn output_of_a_program_is_not_parsed() {
        for line in [
            "hello",
            "12",
            "12 ",
            "1+0 records in",
            ")   = 3",
            ", 88) = 12",
            " <unfinished ...>",
            "Usage: read(3)",
            "<x>",
            "\u{fffd}",
        ] {
            assert_eq!(event(line), Event::Unparsed, "{line}");
        }
    }

    #[test]
    fn ends_of_tasks_are_parsed() {
        assert_eq!(
            read_end(b"+++ exited with 7 +++"),
            Some(Event::Exited { code: 7 })
        );
        assert_eq!(
            read_end(b"+++ killed by SIGKILL +++"),
            Some(Event::Killed { signal: b"SIGKILL" })
        );
        assert_eq!(
            read_end(b"+++ killed by SIGSEGV (core dumped) +++"),
            Some(Event::Killed { signal: b"SIGSEGV" })
        );
        assert_eq!(
            read_end(b"+++ superseded by execve in pid 12 +++"),
            Some(Event::Superseded { by: 12 })
        );
        for line in [
            "+++ exited with 7",
            "+++ exited with x +++",
            "+++ something +++",
            "+++",
        ] {
            assert_eq!(read_end(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn signals_are_parsed() {
        assert_eq!(
            read_signal(
                b"--- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0x7f} ---"
            ),
            Some(Event::Trapped)
        );
        assert_eq!(
            read_signal(b"--- SIGSYS {si_signo=SIGSYS, si_code=SI_USER, si_pid=7, si_uid=0} ---"),
            Some(Event::Signal)
        );
        assert_eq!(
            read_signal(b"--- stopped by SIGSTOP ---"),
            Some(Event::Signal)
        );
        assert_eq!(read_signal(b"--- SIGSYS"), None);
    }

    #[test]
    fn modes_are_parsed() {
        assert_eq!(
            read_mode(b"[ Process PID=12 runs in 32 bit mode. ]"),
            Some(Event::Mode {
                tid: 12,
                abi: Abi::COMPAT
            })
        );
        assert_eq!(
            read_mode(b"[ Process PID=12 runs in 64 bit mode. ]"),
            Some(Event::Mode {
                tid: 12,
                abi: Abi::NATIVE
            })
        );
        assert_eq!(
            read_mode(b"[ Process PID=12 runs in x32 mode. ]"),
            Some(Event::Mode {
                tid: 12,
                abi: Abi::X32
            })
        );
        assert_eq!(read_mode(b"[ Process"), None);
    }

    #[test]
    fn messages_of_strace_are_recognised() {
        for line in [
            "strace: Process 12 attached",
            "Process 12 attached",
            "/usr/bin/strace: Process 12 attached",
        ] {
            assert_eq!(
                read_message(line.as_bytes()),
                Some(Event::Attached { tid: 12 }),
                "{line}"
            );
        }
        for line in ["strace: exec: x", "Process 12 detached", ""] {
            assert_eq!(read_message(line.as_bytes()), Some(Event::Notice), "{line}");
        }
        assert_eq!(
            attached_at_end(b"vfork(strace: Process 12 attached"),
            Some((6, 12))
        );
    }

    #[test]
    fn the_table_of_a_summary_is_recognised() {
        for line in [
            "% time     seconds  usecs/call     calls    errors syscall",
            "------ ----------- ----------- --------- --------- ----------------",
            " 61.12    0.001739         869         2           vfork",
            "  0.00    0.000000           0         1         1 access",
            "100.00    0.002845          40        71        13 total",
        ] {
            assert_eq!(read_message(line.as_bytes()), Some(Event::Notice), "{line}");
        }
        for line in [
            "1.5 2.5",
            "1.5 2.5 3",
            "  0.5 read(0",
            "hello",
            "/x: strace",
        ] {
            assert_eq!(read_message(line.as_bytes()), None, "{line}");
        }
    }
}
