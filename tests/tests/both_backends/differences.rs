//! What legitimately differs between two runs, or between the backends. This is the only place that says so.
//!
//! Never compared: the wall time and the times of calls, since what traces also slows. Under strace always unknown (`null`): CPU
//! time, context switches, page faults, and the command lines of processes, since it is told to show no strings. Everything else is equal, but for what a case is listed with here.

use Compared::{All, AllBut, Nothing, OwnProcess, OwnThread, OwnThreadAsStated};

/// Which rows of a case do not depend on the moment, so that two runs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The totals of all processes.
    All,
    /// The totals, without the calls that depend on which thread was faster.
    AllBut(&'static [&'static str]),
    /// Those of the thread that the workload names.
    OwnThread,
    /// The same, but each run only with what that run states of itself.
    OwnThreadAsStated,
    /// Those of the process that the workload names.
    OwnProcess,
    /// None.
    Nothing,
}

/// A thread that finds the C library's memory in use by another gets an arena of its own, if it comes at the same time; for the ninth
/// arena, glibc looks up the number of processors.
const ARENAS: &[&str] = &["mmap", "munmap", "read"];
/// Besides, a worker of tokio that is done wakes the main thread, through an eventfd, if that sleeps already.
const ARENAS_AND_WAKES: &[&str] = &["mmap", "munmap", "read", "write"];
/// glibc gives back what stands before and behind an arena, to align it: nothing, one piece or two, as the address happens to be.
const ALIGNMENT: &[&str] = &["mmap", "munmap"];

/// Every case of `workload` with arguments that make it short.
pub const WORKLOADS: &[(&[&str], Compared)] = &[
    (&["known"], OwnThread),
    (&["errnos"], OwnThread),
    // The files of /proc tell also what comes from the disk, so they are not equally long at all times.
    (&["proc-io", "30", "20", "70"], OwnThreadAsStated),
    (&["signal-reads", "20"], OwnThread),
    (&["signal-recv", "20"], OwnThread),
    (&["signal-restart", "20"], OwnThread),
    (&["fork-storm", "200"], All),
    (&["exec-storm", "50"], All),
    (&["thread-storm", "16", "100"], AllBut(ARENAS)),
    // The other thread, or the parent, polls /proc until the call blocks.
    (&["unfinished"], OwnThread),
    (&["killed"], OwnProcess),
    (&["killed-sending"], OwnProcess),
    (&["trapped"], OwnThread),
    // How often the other thread looks whether this one waits depends on time; tests/files/evidence.rs has them.
    (&["trapped-in-handler"], Nothing),
    (&["denied-in-handler"], Nothing),
    // ENOSYS of copy_file_range.
    (&["deny", "38", "326", "true"], All),
    // strace cannot follow it, and says so.
    (&["untraced-child"], Nothing),
    (&["unknown-numbers"], All),
    (&["rusage"], OwnProcess),
    (&["exec-thread", "70", "30"], AllBut(ALIGNMENT)),
    (&["write", "50", "20"], All),
    // It works as long as somebody lets it.
    (&["bystander"], Nothing),
    (&["exit-code", "7"], All),
    (&["kill-self", "TERM"], All),
];

/// What is compared of a case of `copier` or `copier-c`.
pub fn compared_of_copier(case: &str) -> Compared {
    if case == "tokio-io-copy" { AllBut(ARENAS_AND_WAKES) } else { All }
}

/// What makes a case of `copier-c` short: under strace, two calls a byte take long.
pub fn options_of_copier(case: &str) -> &'static [&'static str] {
    if case == "byte-cat" { &["--size=5000"] } else { &[] }
}
