//! [`Loss`]: how numbers of a trace can be lost. One list has each loss with its name, its effect and
//! its explanation.

/// Which figures of a report a loss touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Counts are lower bounds, but all transfers are known: only times, names of errors or
    /// counters of tasks are missing.
    Counts,
    /// Counts and transfers are as they are: only callers are missing.
    Callers,
    /// Counts are as they are, and so is every transfer that is stated. There may be more.
    OwnMemory,
    /// Counts are exact, but rows lack their files, so that transfers are missing.
    Transfers,
    /// Counts are lower bounds, and bytes may have moved that are in no row.
    CountsAndTransfers,
}

/// What is said of a loss.
struct Facts {
    name: &'static str,
    effect: Effect,
    /// What the count counts.
    what: &'static str,
    /// What it means for the numbers, and what helps.
    remedy: &'static str,
}

/// Declares [`Loss`] and its facts from one list.
macro_rules! losses {
    ($($(#[doc = $doc:literal])+ $loss:ident: $name:literal, $effect:ident, $what:literal, $remedy:literal;)+) => {
        /// A way to lose or merge a number. [`Loss::name`] is its name in reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Loss {
            $($(#[doc = $doc])+ $loss,)+
        }

        impl Loss {
            /// All of them, in the order in which reports show them.
            pub const ALL: [Self; [$(Self::$loss),+].len()] = [$(Self::$loss),+];

            const fn facts_of_loss(self) -> Facts {
                match self {
                    $(Self::$loss => Facts { name: $name, effect: Effect::$effect, what: $what, remedy: $remedy },)+
                }
            }
        }
    };
}

losses! {
    /// New tasks that could not be followed. Their calls are missing.
    UnfollowedTasks: "unfollowed_tasks", CountsAndTransfers,
        "tasks not followed", "their calls are missing; under eBPF, raise --max-tasks";
    /// Calls that were not counted, because there was no room.
    UncountedCalls: "uncounted_calls", CountsAndTransfers,
        "calls not counted", "the table of rows was full; raise --max-rows";
    /// Failed calls that were counted without their errno.
    UncountedErrnos: "uncounted_errnos", Counts,
        "errors counted without their errno", "the table of errnos was full; under eBPF, raise --max-rows";
    /// Messages from the kernel that did not fit into the buffer. Names, starts and ends of
    /// processes are missing.
    LostEvents: "lost_events", CountsAndTransfers,
        "messages from the kernel lost", "names and ends of processes are missing; raise --max-tasks";
    /// Calls whose entry was not seen. They are counted, without time.
    ExitsWithoutEntry: "exits_without_entry", CountsAndTransfers,
        "calls without a visible entry", "they may have begun before the record; they are counted without time";
    /// Runs of a probe that the kernel skipped.
    MissedProbes: "missed_probes", CountsAndTransfers,
        "runs of a probe skipped by the kernel", "up to as many calls are missing";
    /// Tasks whose end was not seen. Their switches, faults and CPU time are missing.
    UnseenEnds: "unseen_ends", Counts,
        "ends of tasks not seen", "their switches, faults and CPU time are missing";
    /// Lines of a log that were not understood.
    UnparsedLines: "unparsed_lines", CountsAndTransfers,
        "lines of the log not understood", "-v shows them";
    /// Operations of `io_uring` that were asked not to report success. The bytes that they moved
    /// are missing.
    SilentOperations: "silent_operations", CountsAndTransfers,
        "operations of io_uring that do not report success", "the bytes that they moved are missing";
    /// Completions of `io_uring` that overflowed its queue. It is not known which operations they
    /// belong to.
    OverflowedOperations: "overflowed_operations", CountsAndTransfers,
        "completions of io_uring that overflowed its queue", "they are missing from their operations; give the ring a larger queue";
    /// The tracer ended before the command did, or its log is cut off. What came after is missing.
    TracerEnded: "tracer_ended", CountsAndTransfers,
        "tracer ended before the command", "everything after that is missing; was the tracer killed, or the log cut off?";
    /// Signs that a log leaves out calls that were made.
    UnshownCalls: "unshown_calls", CountsAndTransfers,
        "signs that the log leaves calls out",
        "no exec at its beginning, or a process that ends without exit_group: record it from the start, without -z, -Z, -P and -e trace";
    /// Calls that other threads of the process made while a closure was traced that had woken them.
    /// They may be its work.
    OtherThreads: "other_threads", CountsAndTransfers,
        "calls of other threads that may work for the closure",
        "it woke them, or they were at work when it began, and their calls are not counted: start its threads within it, or trace it in a process of its own";
    /// The figures were read while the command ran.
    ReadWhileRunning: "read_while_running", CountsAndTransfers,
        "figures read while the command ran",
        "an interim report: a call that returned meanwhile may be in only some of its figures";
    /// Calls that were counted without their files, because there was no room. Their bytes are in
    /// no transfer.
    CallsWithoutFiles: "calls_without_files", Transfers,
        "calls without their files", "their bytes are in no transfer: there were too many files (raise --max-files and --max-rows), or a call wrote bytes of more than 8";
    /// Buffers of which it is not known any more which file filled them: an address space has room
    /// for a fixed number of them.
    ForgottenBuffers: "forgotten_buffers", OwnMemory,
        "buffers of which zctrace forgot the source", "it remembers 48 of a process: what was written from the others is in no transfer";
    /// Calls that wrote from memory of which it is not known whether it was a mapped file, because other
    /// threads were changing mappings.
    UnseenMappings: "unseen_mappings", OwnMemory,
        "calls that may have written from a mapped file", "other threads were changing mappings; what these calls wrote is in no transfer";
    /// Calls that could not look into what is known of their memory: a thread waits only so long for
    /// another one, and there is room for a fixed number of address spaces.
    UnknownOrigins: "unknown_origins", OwnMemory,
        "calls whose memory could not be looked at", "what they wrote, and what was written from buffers that they filled, is in no transfer; fewer processes at a time help";
    /// Calls that may be on a chosen path, but their file or path is not known.
    UnknownPaths: "unknown_paths", Counts,
        "calls whose file or path is not known", "they may be on the paths of -P: they were given a relative path, and a process had changed its directory, or only a part of the path or file is known (record a log with strace -yy; raise --max-files)";
    /// Calls whose callers were to be sampled, but were not.
    UnsampledCallers: "unsampled_callers", Callers,
        "callers not sampled", "more calls came than could be sampled; select fewer calls with --syscalls";
    /// Mappings of code that are not known. Stacks end early there.
    UnknownCode: "unknown_code", Callers,
        "mappings of code not seen", "stacks that go through them are incomplete";
}

impl Loss {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        self.facts_of_loss().name
    }

    /// The loss of this name; `None` if this version does not know it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loss| loss.name() == name)
    }

    /// Whether transfers may be missing.
    pub const fn touches_transfers(self) -> bool {
        matches!(
            self.facts_of_loss().effect,
            Effect::Transfers | Effect::CountsAndTransfers
        )
    }

    /// Whether counts are lower bounds.
    pub const fn touches_counts(self) -> bool {
        matches!(
            self.facts_of_loss().effect,
            Effect::Counts | Effect::CountsAndTransfers
        )
    }

    /// Whether what is in no transfer may come from files after all.
    pub const fn touches_origins(self) -> bool {
        matches!(self.facts_of_loss().effect, Effect::OwnMemory)
    }

    /// What was lost.
    pub const fn what(self) -> &'static str {
        self.facts_of_loss().what
    }

    /// Names what was lost and how often, then, in parentheses, what that means and what helps. It
    /// follows "lower bound: ".
    pub fn explain(self, count: u64) -> String {
        let Facts { what, remedy, .. } = self.facts_of_loss();
        format!("{what}: {count} ({remedy})")
    }

    /// The same of a loss in a report, which a later version may have written.
    pub fn explain_named(name: &str, count: u64) -> String {
        Self::from_name(name).map_or_else(|| format!("{name}: {count}"), |loss| loss.explain(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_have_each_loss() {
        let definitions = include_str!("../../../../docs/definitions.md");
        for loss in Loss::ALL {
            let row = format!("\n| `{}` |", loss.name());
            assert!(definitions.contains(&row), "{}", loss.name());
        }
    }
}
