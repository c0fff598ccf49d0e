//! What was measured: raw, nothing is subtracted.

use std::time::Duration;

use crate::{
    signal,
    trace::{Exit, Trace},
};

/// What was measured: raw, nothing is subtracted.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Runs of the shell with nothing to do; empty without a shell.
    pub shell: Vec<Timing>,
    /// For each command of the plan, in its order.
    pub series: Vec<Series>,
}

/// What was measured of one command.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its timed runs, in their order.
    pub timings: Vec<Timing>,
    /// Its traced run.
    pub trace: Trace,
}

/// What one run took, from its exec to its end: its own, and that of the children it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Wall time.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because its time was up, or another was more urgent.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Peak resident memory of the largest process; `None` if it is so little that it cannot be told from that of the process that
    /// zctrace forked.
    pub peak_memory_bytes: Option<u64>,
    /// How it ended.
    pub exit: Exit,
}

/// How a command failed, as in "it failed with exit status 1"; `None` if it did not.
pub fn how_it_failed(exit: Exit) -> Option<String> {
    match exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(format!("failed with exit status {code}")),
        Exit::Signal(signal) => Some(format!("was killed by {}", signal::name(signal))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_command_failed_is_a_phrase() {
        assert_eq!(how_it_failed(Exit::Code(0)), None);
        assert_eq!(how_it_failed(Exit::Code(3)).as_deref(), Some("failed with exit status 3"));
        assert_eq!(how_it_failed(Exit::Signal(11)).as_deref(), Some("was killed by SIGSEGV"));
        assert_eq!(how_it_failed(Exit::Signal(40)).as_deref(), Some("was killed by signal 40"));
    }
}
