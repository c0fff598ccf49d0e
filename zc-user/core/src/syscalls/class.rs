//! Classes of calls, which select many at once. They are named as in strace: `%network`.

use crate::words::names;

names! {
    /// A class of calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CallClass {
        /// Calls that move data, the default selection.
        Data = "data",
        /// Calls about sockets.
        Network = "network",
        /// Calls that take a path.
        File = "file",
        /// Calls that take or return a file descriptor.
        Desc = "desc",
        /// Calls about mappings.
        Memory = "memory",
        /// Calls that create, replace, wait for or end processes.
        Process = "process",
        /// Calls about signals.
        Signal = "signal",
        /// Calls about System V's and POSIX's messages, semaphores and shared memory.
        Ipc = "ipc",
    }
}

impl CallClass {
    /// A bit of its own.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
}
