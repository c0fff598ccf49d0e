//! Lines that are not calls: ends of tasks, signals, strace's own messages, the table of `-C`.

use super::Event;
use crate::{
    backend::strace::syntax::{find_top_level, seconds, tid, unsigned},
    syscall::Abi,
};

/// `+++ exited with 0 +++`, `+++ killed by SIGKILL (core dumped) +++`, `+++ superseded by execve in pid 123 +++`.
pub fn end(text: &[u8]) -> Option<Event<'_>> {
    let inside = text.strip_prefix(b"+++ ")?.strip_suffix(b" +++")?;
    if let Some(code) = inside.strip_prefix(b"exited with ") {
        let (code, rest) = unsigned(code)?;
        return (rest.is_empty()).then_some(Event::Exited { code: i32::try_from(code).ok()? });
    }
    if let Some(signal) = inside.strip_prefix(b"killed by ") {
        return Some(Event::Killed { signal: signal.strip_suffix(b" (core dumped)").unwrap_or(signal) });
    }
    let (by, rest) = tid(inside.strip_prefix(b"superseded by execve in pid ")?)?;
    rest.is_empty().then_some(Event::Superseded { by })
}

/// `--- SIGCHLD {si_signo=SIGCHLD, ...} ---`, `--- stopped by SIGSTOP ---`.
pub fn signal(text: &[u8]) -> Option<Event<'_>> {
    let inside = text.strip_prefix(b"--- ")?.strip_suffix(b" ---")?;
    let by_seccomp = inside.starts_with(b"SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP,");
    Some(if by_seccomp { Event::Trapped } else { Event::Signal })
}

/// `[ Process PID=123 runs in 32 bit mode. ]`: the table of the calls from here on.
pub fn mode(text: &[u8]) -> Option<Event<'_>> {
    let (tid, rest) = tid(text.strip_prefix(b"[ Process PID=")?)?;
    let abi = match rest.strip_prefix(b" runs in ")?.strip_suffix(b" mode. ]")? {
        b"32 bit" => Abi::COMPAT,
        b"x32" => Abi::X32,
        _ => Abi::NATIVE,
    };
    Some(Event::Mode { tid, abi })
}

/// Messages of strace itself, and what it prints besides calls: stack frames (`-k`), tables (`-C`), empty lines.
pub fn message(line: &[u8]) -> Option<Event<'_>> {
    if let Some(message) = own_message(line) {
        return Some(attached(message).map_or(Event::Notice, |tid| Event::Attached { tid }));
    }
    (line.is_empty() || line.starts_with(b" > ") || is_table(line)).then_some(Event::Notice)
}

/// The thread of `strace: Process 123 attached` at the end of a line that it interrupts, and where it begins.
pub fn attached_at_end(line: &[u8]) -> Option<(usize, u32)> {
    const OWN: &[u8] = b"strace: ";
    // Few lines end so; for all others this check is cheap.
    let body = line.strip_suffix(b" attached")?;
    let at = body.windows(OWN.len()).rposition(|window| window == OWN)?;
    Some((at, attached(&line[at + OWN.len()..])?))
}

/// What follows `strace: ` (which may have a path before it); or, from old versions, `Process 123 attached` without it.
fn own_message(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"strace: ";
    if let Some(message) = line.strip_prefix(NAME) {
        return Some(message);
    }
    if line.starts_with(b"/") {
        let program = line.iter().position(|&byte| byte == b':')? + 2;
        return line.get(..program)?.ends_with(b"/strace: ").then(|| &line[program..]);
    }
    let old = tid(line.strip_prefix(b"Process ")?)?.1;
    [b" attached".as_slice(), b" detached", b" suspended", b" resumed"].iter().any(|end| old.starts_with(end)).then_some(line)
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

/// ` 61.12    0.001739         869         2           vfork`: numbers, then a name without brackets.
fn table_row(line: &[u8]) -> Option<()> {
    let mut columns = line.split(|&byte| byte == b' ').filter(|column| !column.is_empty());
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
    (!is_number(last) && find_top_level(last, b')').is_none() && !last.contains(&b'(')).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_tasks_are_parsed() {
        assert_eq!(end(b"+++ exited with 7 +++"), Some(Event::Exited { code: 7 }));
        assert_eq!(end(b"+++ killed by SIGKILL +++"), Some(Event::Killed { signal: b"SIGKILL" }));
        assert_eq!(end(b"+++ killed by SIGSEGV (core dumped) +++"), Some(Event::Killed { signal: b"SIGSEGV" }));
        assert_eq!(end(b"+++ superseded by execve in pid 12 +++"), Some(Event::Superseded { by: 12 }));
        for line in ["+++ exited with 7", "+++ exited with x +++", "+++ something +++", "+++"] {
            assert_eq!(end(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn signals_are_parsed() {
        assert_eq!(signal(b"--- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_call_addr=0x7f} ---"), Some(Event::Trapped));
        assert_eq!(signal(b"--- SIGSYS {si_signo=SIGSYS, si_code=SI_USER, si_pid=7, si_uid=0} ---"), Some(Event::Signal));
        assert_eq!(signal(b"--- stopped by SIGSTOP ---"), Some(Event::Signal));
        assert_eq!(signal(b"--- SIGSYS"), None);
    }

    #[test]
    fn modes_are_parsed() {
        assert_eq!(mode(b"[ Process PID=12 runs in 32 bit mode. ]"), Some(Event::Mode { tid: 12, abi: Abi::COMPAT }));
        assert_eq!(mode(b"[ Process PID=12 runs in 64 bit mode. ]"), Some(Event::Mode { tid: 12, abi: Abi::NATIVE }));
        assert_eq!(mode(b"[ Process PID=12 runs in x32 mode. ]"), Some(Event::Mode { tid: 12, abi: Abi::X32 }));
        assert_eq!(mode(b"[ Process"), None);
    }

    #[test]
    fn messages_of_strace_are_recognised() {
        for line in ["strace: Process 12 attached", "Process 12 attached", "/usr/bin/strace: Process 12 attached"] {
            assert_eq!(message(line.as_bytes()), Some(Event::Attached { tid: 12 }), "{line}");
        }
        for line in ["strace: exec: x", "Process 12 detached", "", " > /usr/lib/libc.so.6(read+0x10) [0x1234]"] {
            assert_eq!(message(line.as_bytes()), Some(Event::Notice), "{line}");
        }
        assert_eq!(attached_at_end(b"vfork(strace: Process 12 attached"), Some((6, 12)));
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
            assert_eq!(message(line.as_bytes()), Some(Event::Notice), "{line}");
        }
        for line in ["1.5 2.5", "1.5 2.5 3", "  0.5 read(0", "hello", "/x: strace"] {
            assert_eq!(message(line.as_bytes()), None, "{line}");
        }
    }
}
