//! Parses one line of a log, independently of other lines. Nothing is copied.
//!
//! Besides calls there are lines about a thread as a whole (`+++ exited with 0 +++`, `--- SIGCHLD
//! {...} ---`), and messages of strace itself, which have no prefix.

mod outcome;
mod prefix;

use super::{
    args,
    names::signal_number,
    syntax::{find_stop, find_top_level, split_while, tid, unsigned},
};
use crate::{
    signal::fault_code_number,
    syscalls::Abi,
    trace::{Exit, Fault},
};

pub use crate::backend::file_calls::Ending;
pub use outcome::CallOutcome;
pub use prefix::{Prefix, Stamp, Stamps};

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
    /// A call, or a part of it.
    Call(CallLine<'a>),
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
    /// The thread ended; `None` if by an unknown signal.
    Ended(Option<Exit>),
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
    /// A signal arrived, or stopped the thread; with the fault that it is for.
    Signal(Option<Fault>),
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

/// What a line says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLine<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Whether it begins in this line: `read(3, "abc", 10) = 3`. If not, this is the rest of it:
    /// `<... read resumed>"abc", 10) = 3`.
    pub begins: bool,
    /// Its arguments, as far as this line has them.
    pub args: &'a [u8],
    /// What it returned. `None`: it goes on after this line, as after `read(3,  <unfinished ...>`
    /// and `<... read resumed> <detached ...>`.
    pub outcome: Option<CallOutcome<'a>>,
    /// The id of its process, if an exec gave the thread that id.
    pub renamed_to: Option<u32>,
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

/// What the rest of a line returned whose beginning had foreign output in it, as in `[{WIFEXITED(s)
/// && WEXITSTATUS(s) == 0}], 0, NULL) = 12`.
pub fn outcome_of_rest(text: &[u8]) -> Option<CallOutcome<'_>> {
    may_continue(text)
        .then(|| split_rest(text))?
        .map(|(_, outcome)| outcome)
}

/// Whether a line may continue a call: it has no prefix, and begins as an argument of strace does,
/// or as what stands after one.
pub fn may_continue(text: &[u8]) -> bool {
    let begins = matches!(
        text.first(),
        Some(b')' | b',' | b'[' | b'{' | b'"' | b'N' | b'-' | b'/' | b'<' | b' ' | b'0'..=b'9')
    );
    begins && Prefix::read(text).0 == Prefix::default()
}

fn read_event(text: &[u8], offset: usize) -> Option<Event<'_>> {
    match text.first()? {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => read_call(text, offset),
        b'<' => read_resumed(text),
        b'+' => read_end(text),
        b'-' => read_signal(text),
        b'[' => read_mode(text),
        b'?' => {
            let (name, rest) = split_while(text, |byte| byte == b'?');
            (is_unread(name) && rest.starts_with(b"(")).then_some(Event::Notice)
        }
        _ => None,
    }
}

/// Whether this stands for the name of a call: the thread was gone before strace could read which
/// one it made, and the call never returned.
fn is_unread(name: &[u8]) -> bool {
    matches!(name, b"???" | b"????")
}

/// `read(3, "abc", 10) = 3`, and the beginnings of it.
fn read_call(text: &[u8], offset: usize) -> Option<Event<'_>> {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (name, rest) = split_while(text, is_of_name);
    let rest = rest.strip_prefix(b"(")?;
    let call = |args, outcome, renamed_to| {
        Event::Call(CallLine {
            name,
            begins: true,
            args,
            outcome,
            renamed_to,
        })
    };
    if let Some((args, renamed_to)) = split_pause(rest) {
        return Some(call(args, None, renamed_to));
    }
    if let Some(close) = find_top_level(rest, b')') {
        let (args, after) = (&rest[..close], &rest[close + 1..]);
        if let Some(outcome) = CallOutcome::read(after) {
            return Some(call(args, Some(outcome), None));
        }
        if !CallOutcome::is_beginning(after) && attached_at_end(text).is_none() {
            // Several calls, or output of the program.
            return None;
        }
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
    if is_unread(name) {
        return Some(Event::Notice);
    }
    let (args, outcome) = if let Some((args, _)) = split_pause(rest) {
        (args, None)
    } else {
        // A thread that dies inside a call: `<... read resumed> <unfinished ...>) = ?`.
        let arguments = rest.strip_prefix(b" <unfinished ...>").unwrap_or(rest);
        let (args, outcome) = split_rest(arguments)?;
        (args, Some(outcome))
    };
    Some(Event::Call(CallLine {
        name,
        begins: false,
        args,
        outcome,
        renamed_to: None,
    }))
}

/// Splits the rest of arguments from the outcome after it. The line before may have ended within a
/// structure or an array, as in `get_thread_area({entry_number=12 <unfinished ...>`. Then this line
/// closes brackets that were opened there.
fn split_rest(text: &[u8]) -> Option<(&[u8], CallOutcome<'_>)> {
    /// Structures are not nested so deep. The limit keeps a line full of brackets from taking
    /// quadratic time.
    const MAX_OPEN: usize = 16;
    let mut from = 0;
    for _ in 0..=MAX_OPEN {
        let close = from + find_stop(&text[from..], b')')?;
        if text[close] == b')'
            && let Some(outcome) = CallOutcome::read(&text[close + 1..])
        {
            return Some((&text[..close], outcome));
        }
        from = close + 1;
    }
    None
}

/// Splits arguments from ` <unfinished ...>` or a similar mark at the end of the line; also returns
/// the id that the thread gets.
fn split_pause(text: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let body = text.strip_suffix(b" ...>")?;
    let angle = body.iter().rposition(|&byte| byte == b'<')?;
    let renamed_to = match &body[angle + 1..] {
        b"unfinished" | b"detached" => None,
        renamed => {
            let (to, rest) = tid(renamed.strip_prefix(b"pid changed to ")?)?;
            rest.is_empty().then_some(Some(to))?
        }
    };
    Some((&body[..angle], renamed_to))
}

/// `+++ exited with 0 +++`, `+++ killed by SIGKILL (core dumped) +++`, `+++ superseded by execve in
/// pid 123 +++`.
fn read_end(text: &[u8]) -> Option<Event<'_>> {
    let inside = text.strip_prefix(b"+++ ")?.strip_suffix(b" +++")?;
    if let Some(code) = inside.strip_prefix(b"exited with ") {
        let (code, rest) = unsigned(code)?;
        let exit = Exit::Code(i32::try_from(code).ok()?);
        return rest.is_empty().then_some(Event::Ended(Some(exit)));
    }
    if let Some(signal) = inside.strip_prefix(b"killed by ") {
        let signal = signal.strip_suffix(b" (core dumped)").unwrap_or(signal);
        return Some(Event::Ended(signal_number(signal).map(Exit::Signal)));
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
        Event::Signal(read_fault(inside))
    })
}

/// `SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10}`; strace prints 0 as `NULL`. `None`:
/// it is no fault, or its address is not known.
fn read_fault(inside: &[u8]) -> Option<Fault> {
    let space = inside.iter().position(|&byte| byte == b' ')?;
    let signal = signal_number(&inside[..space])?;
    let facts = args::inside(&inside[space + 1..], b'{', b'}')?;
    let code = std::str::from_utf8(args::field(facts, b"si_code=")?).ok()?;
    let address = std::str::from_utf8(args::field(facts, b"si_addr=")?).ok()?;
    let address = match address.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => (address == "NULL").then_some(0)?,
    };
    Some(Fault {
        address,
        signal: signal.unsigned_abs(),
        code: fault_code_number(signal, code)?,
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

/// Messages of strace itself, and what it prints besides calls: stacks (`-k`), dumps of bytes (`-e
/// read`), empty lines.
fn read_message(line: &[u8]) -> Option<Event<'_>> {
    if let Some(message) = own_message(line) {
        if let Some(mode) = read_mode(message) {
            return Some(mode);
        }
        return Some(attached_tid(message).map_or(Event::Notice, |tid| Event::Attached { tid }));
    }
    (line.is_empty() || line.starts_with(b" > ") || is_dump(line)).then_some(Event::Notice)
}

/// A line of the bytes that `-e read` and `-e write` print after a call: ` | 00000  7f 45 4c 46 ...
/// .ELF             |`, and what stands above those of a vector.
fn is_dump(line: &[u8]) -> bool {
    let is_above = line
        .windows(17)
        .any(|window| window == b" bytes in buffer ");
    line.starts_with(b" | ") && line.ends_with(b"|") || line.starts_with(b" * ") && is_above
}

/// The thread of `strace: Process 123 attached` at the end of a line that it interrupts, and where
/// it begins.
fn attached_at_end(line: &[u8]) -> Option<(usize, u32)> {
    const OWN: &[u8] = b"strace: ";
    // Few lines end so; for all others this check is cheap.
    let body = line.strip_suffix(b" attached")?;
    let at = body.windows(OWN.len()).rposition(|window| window == OWN)?;
    Some((at, attached_tid(&line[at + OWN.len()..])?))
}

/// What follows `strace: `, which may have a path before it.
fn own_message(line: &[u8]) -> Option<&[u8]> {
    let program = line.iter().position(|&byte| byte == b':')? + 2;
    let (name, message) = line.split_at_checked(program)?;
    let is_own = name == b"strace: " || (name.starts_with(b"/") && name.ends_with(b"/strace: "));
    is_own.then_some(message)
}

/// `Process 123 attached`
fn attached_tid(message: &[u8]) -> Option<u32> {
    let (tid, rest) = tid(message.strip_prefix(b"Process ")?)?;
    rest.starts_with(b" attached").then_some(tid)
}
