//! The rows of a trace: the calls of a thread on the same files.

use derive_more::{AddAssign, Deref, DerefMut};

use super::{
    callers::CallerSums,
    file::{Ends, FileId, Input},
};
use crate::{
    counts::{Counts, Times, add_counts, add_times, merge_known},
    syscalls::{Call, CallEffect},
    units::sum_all,
};

/// Bytes that a thread's calls wrote from one file to another, in calls whose buffers held bytes of
/// several files.
///
/// The calls and all their bytes are counted in the [`Row`] of one of these files. The bytes of this
/// part are in its [`Counts::bytes`], but not in its [`Row::sourced`].
#[derive(Debug, Clone, PartialEq, Eq, Deref)]
pub struct Part {
    /// The call.
    pub call: Call,
    /// Where these bytes came from.
    pub from: Input,
    /// Where they went.
    pub to: FileId,
    /// How many, and what was compared of them.
    #[deref]
    pub sourced: SourcedBytes,
    /// Calls that wrote some of them.
    pub calls: u64,
}

impl Part {
    /// Adds the figures of a part of the same call and files.
    pub fn add_part(&mut self, more: &Self) {
        self.sourced += more.sourced;
        self.calls += more.calls;
    }
}

/// Bytes that calls moved from one source, and what was compared of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourcedBytes {
    /// How many.
    pub bytes: u64,
    /// The words of them that were compared in memory.
    pub words: Words,
    /// How many of them may have been written there before, since they were read.
    pub repeated_bytes: u64,
}

impl std::ops::AddAssign for SourcedBytes {
    fn add_assign(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.words += more.words;
        self.repeated_bytes = self.repeated_bytes.saturating_add(more.repeated_bytes);
    }
}

/// Words of memory that a read had filled, and that were compared when it was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, AddAssign)]
pub struct Words {
    /// How many.
    pub compared: u64,
    /// How many of them differ from what was read.
    pub changed: u64,
}

/// How many of the first bytes of a row are kept at most.
pub const FIRST_BYTES: usize = 8;

/// What a thread did with one call and the same files.
#[derive(Debug, Clone, Deref, DerefMut)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// The files involved.
    pub ends: Ends,
    /// Position of the first of these calls in the order of the trace. Only the order of these
    /// numbers has a meaning. `None`: unknown.
    pub order: Option<u64>,
    /// Its figures, with errors by positive errno, including the kernel-internal ones from 512 on. The
    /// times are those of the calls that were timed: not those that the trace found under way, and those
    /// that seccomp answered.
    #[deref]
    #[deref_mut]
    pub counts: Counts<u32>,
    /// Those of the [`bytes`](Counts::bytes) that come from [`input`](Ends::input): all of them if the
    /// call names it.
    pub sourced: SourcedBytes,
    /// The first bytes that the first of these calls moved, at most [`FIRST_BYTES`]; empty if they are
    /// unknown.
    pub first_bytes: Vec<u8>,
    /// How often a call that returns a number of bytes returned 0: mostly at the end of a file.
    pub zero_calls: u64,
    /// How often it moved something, but less than it asked for.
    pub short_calls: u64,
    /// The fewest and the most bytes that one of the calls moved, of those that moved some. `None`:
    /// none did, or that is unknown.
    pub least_and_most_bytes: Option<[u64; 2]>,
    /// The times of single calls. `None`: none was timed.
    pub times: Option<Times>,
    /// Who made the calls that were sampled.
    pub callers: CallerSums,
}

/// The fewest and the most bytes that one call of two sets moved. Each argument has these two figures
/// for one set.
pub(crate) fn least_and_most_of(
    [least, most]: [u64; 2],
    [other_least, other_most]: [u64; 2],
) -> [u64; 2] {
    [least.min(other_least), most.max(other_most)]
}

impl Row {
    /// Whether these calls submitted operations to the kernel. If the backend does not see the
    /// operations, no row has their bytes.
    pub fn is_unseen_submission(&self) -> bool {
        self.call.spec().effect == CallEffect::Submits && self.calls > self.errors
    }

    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        self.ends
            .input
            .map(Input::file)
            .into_iter()
            .chain(self.ends.output)
    }

    /// Adds the figures of a row of the same call and files.
    pub fn add_row(&mut self, more: &Self) {
        if self.first_bytes.is_empty() || more.order < self.order {
            self.first_bytes.clone_from(&more.first_bytes);
        }
        self.order = self.order.into_iter().chain(more.order).min();
        self.sourced += more.sourced;
        self.zero_calls += more.zero_calls;
        self.short_calls += more.short_calls;
        add_counts(&mut self.callers, &more.callers);
        self.least_and_most_bytes = merge_known(
            [self, more].map(|row| row.bytes.unwrap_or(1)),
            [self.least_and_most_bytes, more.least_and_most_bytes],
            |one, other| Some(least_and_most_of(one, other)),
        );
        let timed_ns = match [&self.times, &more.times] {
            [Some(_), None] => Some(self.total_ns),
            [None, Some(_)] => Some(more.total_ns),
            _ => None,
        };
        self.counts += &more.counts;
        self.counts.total_ns = timed_ns.unwrap_or(self.counts.total_ns);
        add_times(&mut self.times, more.times.as_ref());
    }

    /// Notes the time of one call. `None`: it was not timed.
    pub fn note_time(&mut self, ns: Option<u64>) {
        match (&mut self.times, ns) {
            (Some(times), Some(ns)) => {
                times.record_ns(ns);
                self.counts.total_ns = sum_all([self.counts.total_ns, Some(ns)]);
            }
            (None, ns) => {
                self.times = ns.map(Times::of_call);
                self.counts.total_ns = ns;
            }
            (Some(_), None) => {}
        }
    }

    /// Notes the number of bytes that one call moved.
    pub fn note_size(&mut self, bytes: u64) {
        if bytes > 0 {
            let known = self.least_and_most_bytes.unwrap_or([bytes; 2]);
            self.least_and_most_bytes = Some(least_and_most_of(known, [bytes; 2]));
        }
    }

    /// The row of a call that has not happened.
    pub fn new(call: Call, ends: Ends) -> Self {
        Self {
            counts: Counts::none_of(&call.spec()),
            call,
            ends,
            order: None,
            sourced: SourcedBytes::default(),
            first_bytes: Vec::new(),
            zero_calls: 0,
            short_calls: 0,
            least_and_most_bytes: None,
            times: None,
            callers: CallerSums::new(),
        }
    }

    /// The same if nothing says how many bytes the calls move and how long they last.
    pub fn unmeasured(call: Call, ends: Ends) -> Self {
        Self {
            counts: Counts::default(),
            ..Self::new(call, ends)
        }
    }
}
