//! The faults for which the kernel killed processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    signal,
    trace::{Process, Thread, Trace},
};

/// A fault for which the kernel killed a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FatalFault {
    /// Process id, as zctrace sees it.
    pub pid: u32,
    /// Its name. `None`: unknown.
    pub process: Option<String>,
    /// Whether it is the launched process.
    pub is_launched: bool,
    /// The signal: `SIGSEGV`, `SIGBUS`, `SIGILL` or `SIGFPE`.
    pub signal: String,
    /// The kind of fault (`SEGV_MAPERR`), as in `sigaction(2)`, or else its number.
    pub code: String,
    /// The accessed address in hexadecimal (`0x0`); for `SIGILL` and `SIGFPE`, of the instruction.
    pub address: String,
    /// What the code means.
    pub meaning: Option<String>,
    /// The last call of the thread. `None`: as under strace.
    pub last_call: Option<String>,
}

impl FatalFault {
    /// Those of a trace, in the order of the processes.
    pub(super) fn all_of(trace: &Trace) -> Vec<Self> {
        let launched = trace.processes.first().map(|process| process.pid);
        let of_process = |process: &Process| {
            let mut threads = process
                .threads
                .iter()
                .filter(|thread| thread.fault.is_some());
            // The kernel kills a process once.
            let thread = threads.next().filter(|_| threads.next().is_none())?;
            let is_launched = Some(process.pid) == launched && trace.attached.is_none();
            Self::new(process, thread, is_launched)
        };
        trace.processes.iter().filter_map(of_process).collect()
    }

    fn new(process: &Process, thread: &Thread, is_launched: bool) -> Option<Self> {
        let fault = thread.fault?;
        let last_call = thread.call_before_fault.as_ref();
        let number = fault.signal.cast_signed();
        let known = signal::fault_code(number, fault.code);
        Some(Self {
            pid: process.pid,
            process: process.name().map(str::to_owned),
            is_launched,
            signal: signal::name(number),
            code: known.map_or_else(|| fault.code.to_string(), |(name, _)| name.to_owned()),
            address: format!("{:#x}", fault.address),
            meaning: known.map(|(_, meaning)| meaning.to_owned()),
            last_call: last_call.map(|call| call.name.to_string()),
        })
    }

    /// Whether the signal gives the address of the instruction, and not of the memory that it used.
    pub fn is_in_instruction(&self) -> bool {
        ["SIGILL", "SIGFPE"].contains(&self.signal.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::sample::files::scene, trace::Fault};

    fn make_fault(signal: i32, code: u32) -> Fault {
        Fault {
            address: 0x10,
            signal: signal.unsigned_abs(),
            code,
        }
    }

    #[test]
    fn a_fault_is_told_of_the_process_that_it_killed() {
        let mut scene = scene("sh: read in 1 1; cc1: read in 1 1; ld: read in 1 1");
        let processes = &mut scene.trace.processes;
        processes[1].threads[0].fault = Some(make_fault(libc::SIGSEGV, 1));
        processes[2].threads[0].fault = Some(make_fault(libc::SIGBUS, 99));
        let found: Vec<_> = scene.report().fatal_faults;
        let told = |one: &FatalFault| format!("{} {} {}", one.signal, one.code, one.address);
        let all: Vec<String> = found.iter().map(told).collect();
        assert_eq!(all, ["SIGSEGV SEGV_MAPERR 0x10", "SIGBUS 99 0x10"]);
        assert_eq!(found[0].process.as_deref(), Some("cc1"));
        assert_eq!(found.iter().filter(|one| one.is_launched).count(), 0);
    }
}
