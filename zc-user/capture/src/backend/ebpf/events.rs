//! Events of the kernel side: from bytes to values.

use std::mem::MaybeUninit;

use zc_ebpf::{COMM_BYTES, Counters, EventHeader, FileNumber, event_kind};

use super::file_seen;
use crate::trace::File;

/// What the kernel side tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Something happened to a task.
    Task(Event),
    /// What is behind a file's number.
    File(FileNumber, File),
}

impl Message {
    /// Reads a message; `None` if the bytes are none of this version's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if u32::from_ne_bytes(*bytes.first_chunk()?) == event_kind::FILE {
            return file_seen::parse(bytes).map(|(number, file)| Self::File(number, file));
        }
        Event::parse(bytes).map(Self::Task)
    }
}

/// Something rare that happened to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Number of the task, unique within the trace.
    pub serial: u32,
    /// Number of the first task of its process.
    pub process: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// When: `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The task's name.
    pub comm: String,
    /// What happened.
    pub kind: Kind,
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// It was created.
    Started {
        /// Process id of its creator.
        ppid: u32,
    },
    /// It replaced its process's program.
    Exec {
        /// Path as given to `execve`.
        exe: Option<String>,
        /// Its command line; the last argument may be cut, marked with `…`.
        command: Option<Vec<String>>,
        /// The task's counters at that moment.
        counters: Counters,
    },
    /// A thread of this process came into scope by itself.
    Entered {
        /// Its counters at that moment.
        counters: Counters,
    },
    /// It ran for the last time, at least in scope.
    Ended {
        /// The task's counters, final.
        counters: Counters,
    },
}

impl Event {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let header: EventHeader = read(bytes)?;
        let kind = match header.kind {
            event_kind::STARTED => Kind::Started { ppid: header.extra },
            event_kind::EXEC => exec(bytes, header.extra)?,
            event_kind::ENTERED => Kind::Entered { counters: read::<zc_ebpf::Ended>(bytes)?.counters },
            event_kind::ENDED => Kind::Ended { counters: read::<zc_ebpf::Ended>(bytes)?.counters },
            _ => return None,
        };
        Some(Self {
            serial: header.serial,
            process: header.process,
            tid: header.tid,
            pid: header.pid,
            time_ns: header.time_ns,
            comm: text(&header.comm),
            kind,
        })
    }
}

fn exec(bytes: &[u8], filled: u32) -> Option<Kind> {
    let event: zc_ebpf::Exec = read(bytes)?;
    let exe = Some(text(&event.exe)).filter(|exe| !exe.is_empty());
    let filled = usize::try_from(filled).ok()?.min(event.args.len());
    let cut = event.args_length > event.args.len() as u64;
    let command = (filled > 0).then(|| arguments(&event.args[..filled], cut));
    Some(Kind::Exec { exe, command, counters: event.counters })
}

/// Splits arguments that end with a NUL each.
fn arguments(bytes: &[u8], cut: bool) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let mut arguments: Vec<String> =
        bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    if cut && let Some(last) = arguments.last_mut() {
        last.push('…');
    }
    arguments
}

/// The text before the first NUL.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Copies a value out of the ring buffer, whose bytes need not be aligned for it.
pub fn read<T: EventPart>(bytes: &[u8]) -> Option<T> {
    read_start(bytes, size_of::<T>())
}

/// Copies a value out of the ring buffer of which just the beginning need be there; the rest is zeroes.
pub fn read_start<T: EventPart>(bytes: &[u8], least: usize) -> Option<T> {
    if bytes.len() < least {
        return None;
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: no more bytes than there are and than T has; T is valid for all bit patterns, as EventPart promises.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), bytes.len().min(size_of::<T>()));
        Some(value.assume_init())
    }
}

/// # Safety
///
/// Only for types that are valid for all bit patterns.
pub unsafe trait EventPart: Copy {}
// SAFETY: integers and arrays of them.
unsafe impl EventPart for EventHeader {}
// SAFETY: integers and arrays of them.
unsafe impl EventPart for zc_ebpf::Exec {}
// SAFETY: integers and arrays of them.
unsafe impl EventPart for zc_ebpf::Ended {}
// SAFETY: integers and arrays of them.
unsafe impl EventPart for zc_ebpf::FileSeen {}

const _: () = assert!(COMM_BYTES == 16, "TASK_COMM_LEN of the kernel's include/linux/sched.h");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_with_a_nul_each() {
        assert_eq!(arguments(b"dd\0if=/dev/zero\0\0", false), ["dd", "if=/dev/zero", ""]);
    }

    #[test]
    fn a_cut_command_line_says_so() {
        assert_eq!(arguments(b"cat\0long na", true), ["cat", "long na…"]);
    }

    #[test]
    fn bytes_that_are_no_event_are_refused() {
        assert_eq!(Message::parse(&[]), None);
        assert_eq!(Message::parse(&[0; 64]), None);
        let mut exec_without_its_rest = [0_u8; size_of::<EventHeader>()];
        exec_without_its_rest[0] = 2;
        assert_eq!(Message::parse(&exec_without_its_rest), None);
    }
}
