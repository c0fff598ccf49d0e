//! Options of a run: backend, end, identity, limits.

use serde::{Deserialize, Serialize};
use zc_ebpf::recorded;

use crate::{report::Files, words::words};

words! {
    /// Which backend the user asks for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Choice {
        /// eBPF where it can run, else strace.
        Auto = "auto",
        /// Count in the kernel: fast, needs privileges.
        Ebpf = "ebpf",
        /// Run strace: slow, but needs no privileges.
        Strace = "strace",
    }
}

/// When a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// With the launched process.
    RootEnds,
    /// With the last of all descendants.
    AllEnd,
}

/// What becomes of the traced processes when a trace has lasted as long as it was to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AtDuration {
    /// They go on untraced.
    #[default]
    LeaveRunning,
    /// They are killed.
    Kill,
}

/// How much a backend keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Limit for the rows of the trace: threads times calls. The same limit applies again to rows
    /// that are told apart by files.
    pub max_rows: u32,
    /// Limit for the files that are told apart at the same time.
    pub max_files: u32,
    /// Limit for the tasks that exist at the same time.
    pub max_tasks: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // The kernel rounds both tables up to powers of two.
        Self {
            max_rows: 65_536,
            max_files: 65_536,
            max_tasks: 16_384,
        }
    }
}

/// Which processes a trace tells apart. The sums are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listed {
    /// All.
    #[default]
    All,
    /// The launched one, those that still run, those that transfers or other processes depend on,
    /// those with the largest transfers, and of the others at least `most`, those with the most CPU
    /// time. The rest is merged, so that memory does not grow with the number of processes that
    /// have ended.
    Busiest {
        /// So many at least.
        most: usize,
        /// Whether the calls of merged processes on each file are wanted.
        files: Files,
    },
}

/// For which calls it is recorded who made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SampledCalls {
    /// The calls 1, 2, 4, 8, ... of each thread, call and files.
    Some,
    /// Every call.
    All,
}

/// What is recorded of each call. All of it costs the traced program time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Bits of [`recorded`], and others.
    bits: u32,
    /// Calls that took longer are recorded one by one; `None`: none are.
    slower_than_ns: Option<u64>,
}

impl Recorded {
    /// What a plain run records: everything but the paths of calls that succeed.
    pub const ALL: Self = Self::of_bits(recorded::ALL);

    /// What there is, in the order in which it builds on each other.
    const NAMES: [(&str, u32); 12] = [
        ("rows", recorded::ROWS),
        ("times", recorded::TIMES),
        ("histograms", recorded::HISTOGRAMS),
        ("others", recorded::OTHER_CALLS),
        ("files", recorded::FILES),
        ("pairing", recorded::PAIRING),
        ("paths", recorded::PATHS),
        ("callers", recorded::CALLERS),
        ("all-callers", recorded::CALLERS | recorded::ALL_CALLERS),
        ("caller-times", recorded::CALLERS | recorded::CALLER_TIMES),
        ("sizes", recorded::SIZES),
        ("descriptors", recorded::DESCRIPTORS),
    ];

    /// The order of syncs. No program in the kernel records it.
    const SYNCS: u32 = 1 << 31;

    /// The paths and addresses that were touched. No program in the kernel records all of them.
    const TOUCHES: u32 = 1 << 30;

    const EVERY_CALLER: u32 = recorded::CALLERS | recorded::ALL_CALLERS;

    const fn of_bits(bits: u32) -> Self {
        Self {
            bits,
            slower_than_ns: None,
        }
    }

    const fn with_only(self, bits: u32) -> Self {
        Self {
            bits: self.bits & bits,
            ..self
        }
    }

    /// The same with each call that took longer than this; `None`: with none.
    #[must_use]
    pub const fn with_slower_than(self, ns: Option<u64>) -> Self {
        Self {
            slower_than_ns: ns,
            ..self
        }
    }

    /// Calls that took longer than this are recorded one by one. `None`: none are.
    pub const fn slower_than_ns(self) -> Option<u64> {
        self.slower_than_ns
    }

    /// The same with how many bytes each call moved, if that is wanted.
    #[must_use]
    pub const fn with_sizes(self, is_wanted: bool) -> Self {
        Self {
            bits: self.bits | if is_wanted { recorded::SIZES } else { 0 },
            ..self
        }
    }

    /// The same with the descriptors that the command leaves open, if they are wanted.
    #[must_use]
    pub const fn with_descriptors(self, is_wanted: bool) -> Self {
        self.with_bits(recorded::DESCRIPTORS, is_wanted)
    }

    /// Whether the descriptors that the command leaves open are recorded.
    pub const fn has_descriptors(self) -> bool {
        self.has_files() && self.bits & recorded::DESCRIPTORS != 0
    }

    /// Whether it is recorded how many bytes each call moved.
    pub const fn has_sizes(self) -> bool {
        self.bits & recorded::SIZES != 0
    }

    /// The same without the times of calls, which are then unknown.
    #[must_use]
    pub const fn without_times(self) -> Self {
        self.with_only(!recorded::TIMES)
    }

    /// The same without the files of calls, so that transfers are unknown, too.
    #[must_use]
    pub const fn without_files(self) -> Self {
        let files = recorded::FILES | recorded::PAIRING | recorded::PATHS;
        self.without_callers().with_only(!files)
    }

    /// The same without samples of who made the calls.
    #[must_use]
    pub const fn without_callers(self) -> Self {
        self.with_only(!(Self::EVERY_CALLER | recorded::CALLER_TIMES))
    }

    /// The same with these, if they are wanted and files are not left out.
    const fn with_bits(self, bits: u32, is_wanted: bool) -> Self {
        Self {
            bits: self.bits
                | if is_wanted && self.has_files() {
                    bits
                } else {
                    0
                },
            ..self
        }
    }

    /// The same with the paths of calls that succeed, if they are wanted.
    #[must_use]
    pub const fn with_paths(self, is_wanted: bool) -> Self {
        self.with_bits(recorded::PATHS, is_wanted)
    }

    /// The same with the order of changes and syncs, if it is wanted.
    #[must_use]
    pub const fn with_syncs(self, is_wanted: bool) -> Self {
        self.with_bits(Self::SYNCS, is_wanted)
    }

    /// The same with the paths and addresses that were touched, if they are wanted.
    #[must_use]
    pub const fn with_touches(self, is_wanted: bool) -> Self {
        self.with_bits(Self::TOUCHES, is_wanted)
    }

    /// What either records.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            slower_than_ns: self.slower_than_ns.or(other.slower_than_ns),
        }
    }

    /// Whether the paths and addresses that were touched are recorded.
    pub const fn has_touches(self) -> bool {
        self.has_files() && self.bits & Self::TOUCHES != 0
    }

    /// Whether the order of changes and syncs is recorded.
    pub const fn has_syncs(self) -> bool {
        self.has_files() && self.bits & Self::SYNCS != 0
    }

    /// The same with samples of who made the calls, unless files are left out: without them, it is
    /// unknown which code is where.
    #[must_use]
    pub const fn with_callers(self, sampled: SampledCalls) -> Self {
        self.with_bits(
            match sampled {
                SampledCalls::Some => recorded::CALLERS,
                SampledCalls::All => Self::EVERY_CALLER,
            },
            true,
        )
    }

    /// The same with the time and the result of each sampled call, if callers are sampled.
    #[must_use]
    pub const fn with_caller_times(self) -> Self {
        self.with_bits(recorded::CALLER_TIMES, self.has_callers())
    }

    /// Whether it is sampled who made the calls.
    pub const fn has_callers(self) -> bool {
        self.has_files() && self.bits & recorded::CALLERS != 0
    }

    /// Whether the time and the result of each sampled call are kept.
    pub const fn has_caller_times(self) -> bool {
        self.has_callers() && self.bits & recorded::CALLER_TIMES != 0
    }

    /// Of which calls that is sampled. `None`: of none.
    pub const fn sampled_calls(self) -> Option<SampledCalls> {
        match (self.has_callers(), self.bits & recorded::ALL_CALLERS) {
            (false, _) => None,
            (true, 0) => Some(SampledCalls::Some),
            (true, _) => Some(SampledCalls::All),
        }
    }

    /// How many calls may be sampled for that.
    pub const fn most_samples(self) -> u32 {
        match self.sampled_calls() {
            None => 0,
            Some(SampledCalls::Some) => 1 << 16,
            Some(SampledCalls::All) => u32::MAX,
        }
    }

    /// Whether the times of calls are recorded.
    pub const fn has_times(self) -> bool {
        self.bits & recorded::TIMES != 0
    }

    /// Whether the files of calls are recorded.
    pub const fn has_files(self) -> bool {
        self.bits & recorded::FILES != 0
    }

    /// Whether the paths of calls that succeed are recorded.
    pub const fn has_paths(self) -> bool {
        self.has_files() && self.bits & recorded::PATHS != 0
    }

    /// Bits of [`recorded`].
    pub const fn bits(self) -> u32 {
        let has_slow_calls = self.slower_than_ns.is_some();
        self.bits
            | if has_slow_calls {
                recorded::SLOW_CALLS
            } else {
                0
            }
    }
}

impl Default for Recorded {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::str::FromStr for Recorded {
    type Err = String;

    /// Names with commas between them; `none` adds nothing.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bits = 0;
        for name in text.split(',').filter(|name| *name != "none") {
            let known = Self::NAMES.iter().find(|(known, _)| *known == name);
            let unknown = || format!("nothing called '{name}' is recorded");
            bits |= known.ok_or_else(unknown)?.1;
        }
        Ok(Self::of_bits(bits))
    }
}

/// The identity that a command runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
