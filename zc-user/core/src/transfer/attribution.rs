//! Attribution: how much of what a process wrote to each file is in transfers, and how much of what
//! it read from each file was written on.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ptr,
};

use super::{
    activity::Activity,
    describe::EndTable,
    flow::{Flow, Leg, moving_calls, sum_bytes},
};
use crate::{
    syscall::Returned,
    trace::{FileId, Input, Row},
    transfer::{Certainty, DestinationTotals, End, Share, SourceTotals, Unattributed},
};

/// What is attributed in one process.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    /// Files that were written, those with the most bytes first.
    pub(super) destinations: Vec<DestinationTotals>,
    /// Files that were read, likewise.
    pub(super) sources: Vec<SourceTotals>,
    /// Bytes that are in no transfer.
    pub(super) unattributed: Unattributed,
    /// Whether every written byte is in an exact flow or known to come from memory.
    pub(super) is_exact: bool,
}

/// Where written bytes come from if no flow has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The process read nothing but its program, so everything it writes is its own.
    OwnMemory,
    /// They may come from anywhere.
    Unknown,
}

impl Attribution {
    /// From what a process did and the flows that were found in it.
    pub(super) fn of(
        activity: &Activity<'_>,
        flows: &[Flow<'_>],
        origin: Origin,
        ends: &EndTable<'_>,
    ) -> Self {
        let rows = flows
            .iter()
            .flat_map(|flow| flow.rows().chain(flow.attempts.iter().copied()));
        let used: HashSet<*const Row> = rows.map(ptr::from_ref).collect();
        let (given, brought) = (
            attributed(flows, |leg| leg.from.file()),
            attributed(flows, |leg| Some(leg.to)),
        );
        let of = |attributed: &HashMap<FileId, Attributed>, file: Option<FileId>| {
            file.and_then(|file| attributed.get(&file).copied())
                .unwrap_or_default()
        };
        // The steps of a joined flow may be exact where the way from end to end is not.
        let are_joints_exact = flows
            .iter()
            .all(|flow| flow.hops.is_empty() || flow.certainty() == Certainty::Exact);
        let mut attribution = Self {
            is_exact: are_joints_exact && !activity.lacks_written_bytes(),
            ..Self::default()
        };
        for (&file, rows) in &written(activity) {
            let side = Side {
                rows,
                used: &used,
                attributed: of(&brought, file),
            };
            let destination = side.destination(activity, origin, file.map(|file| ends.end(file)));
            attribution.is_exact &=
                file.is_some_and(|file| !activity.carries_bytes(file)) || is_exact(&destination);
            attribution
                .unattributed
                .written
                .extend(side.share(destination.file.as_ref()));
            attribution.destinations.push(destination);
        }
        for (&file, rows) in &read(activity) {
            let side = Side {
                rows,
                used: &used,
                attributed: of(&given, file),
            };
            let source = side.source(file.map(|file| ends.end(file)));
            attribution
                .unattributed
                .read
                .extend(side.share(source.file.as_ref()));
            attribution.sources.push(source);
        }
        for shares in [
            &mut attribution.unattributed.read,
            &mut attribution.unattributed.written,
        ] {
            shares.sort_by_key(|share| Reverse(share.bytes));
        }
        attribution
            .destinations
            .sort_by_key(|destination| Reverse(destination.written_bytes));
        attribution
            .sources
            .sort_by_key(|source| Reverse(source.read_bytes));
        attribution
    }
}

fn is_exact(destination: &DestinationTotals) -> bool {
    let own = destination.unattributed_bytes == Some(destination.memory_bytes);
    own && destination.attributed_bytes == destination.proven_bytes
}

/// The rows of one file: those that write, or those that read.
struct Side<'s, 'a> {
    rows: &'s [&'a Row],
    used: &'s HashSet<*const Row>,
    attributed: Attributed,
}

/// The bytes of a file that are in flows.
#[derive(Debug, Default, Clone, Copy)]
struct Attributed {
    bytes: u64,
    proven_bytes: u64,
}

/// The bytes of each file that are in flows, at this end of the flows.
fn attributed(flows: &[Flow<'_>], end: fn(&Leg) -> Option<FileId>) -> HashMap<FileId, Attributed> {
    let mut all: HashMap<FileId, Attributed> = HashMap::new();
    for (file, leg) in flows
        .iter()
        .flat_map(Flow::legs)
        .filter_map(|leg| Some((end(&leg)?, leg)))
    {
        let attributed = all.entry(file).or_default();
        attributed.bytes = attributed.bytes.saturating_add(leg.bytes.unwrap_or(0));
        attributed.proven_bytes = attributed
            .proven_bytes
            .saturating_add(leg.proven_bytes.unwrap_or(0));
    }
    all
}

impl Side<'_, '_> {
    fn bytes(&self) -> Option<u64> {
        sum_bytes(self.rows)
    }

    /// Bytes that are in no flow.
    fn unattributed_bytes(&self) -> Option<u64> {
        self.bytes()
            .map(|bytes| bytes.saturating_sub(self.attributed.bytes))
    }

    fn is_used(&self, row: &Row) -> bool {
        self.used.contains(&ptr::from_ref(row))
    }

    /// Calls that moved something and are in some flow, or in none.
    fn calls(&self, in_flows: bool) -> u64 {
        self.rows
            .iter()
            .filter(|row| self.is_used(row) == in_flows)
            .map(|row| moving_calls(&[row]))
            .sum()
    }

    /// Calls of flows that may also have moved bytes that are in no flow.
    fn partly_attributed_calls(&self) -> u64 {
        let whole_calls = self
            .rows
            .iter()
            .filter(|row| !self.is_used(row))
            .filter_map(|row| row.bytes);
        if self
            .unattributed_bytes()
            .is_some_and(|left| left <= whole_calls.fold(0, u64::saturating_add))
        {
            return 0;
        }
        let used = || self.rows.iter().filter(|row| self.is_used(row));
        let in_part =
            || used().filter(|row| row.bytes.is_none_or(|bytes| row.paired_bytes < bytes));
        let calls = |rows: &mut dyn Iterator<Item = &&Row>| {
            rows.map(|row| moving_calls(&[row])).sum::<u64>()
        };
        match calls(&mut in_part()) {
            0 => calls(&mut used()),
            calls => calls,
        }
    }

    /// What is in no flow, if anything.
    fn share(&self, file: Option<&End>) -> Option<Share> {
        let bytes = self.unattributed_bytes();
        (bytes != Some(0)).then(|| Share {
            file: file.cloned(),
            bytes,
            calls: self.calls(false),
            partly_attributed_calls: self.partly_attributed_calls(),
        })
    }

    fn destination(
        &self,
        activity: &Activity<'_>,
        origin: Origin,
        file: Option<End>,
    ) -> DestinationTotals {
        let (written_bytes, unattributed_bytes) = (self.bytes(), self.unattributed_bytes());
        let constants = self
            .rows
            .iter()
            .filter(|row| is_constant(row, activity))
            .map(|row| row.paired_bytes);
        let memory_bytes = match (origin, unattributed_bytes) {
            (_, None) => 0,
            (Origin::OwnMemory, Some(left)) => left,
            (Origin::Unknown, Some(left)) => constants.fold(0, u64::saturating_add).min(left),
        };
        let (attributed_calls, unattributed_calls) = (self.calls(true), self.calls(false));
        DestinationTotals {
            file,
            written_bytes,
            written_calls: attributed_calls + unattributed_calls,
            attributed_bytes: self.attributed.bytes,
            attributed_calls,
            proven_bytes: self.attributed.proven_bytes,
            unattributed_bytes,
            unattributed_calls,
            memory_bytes,
        }
    }

    fn source(&self, file: Option<End>) -> SourceTotals {
        let read_bytes = self.bytes();
        SourceTotals {
            file,
            read_bytes,
            read_calls: self.rows.iter().map(|row| moving_calls(&[row])).sum(),
            written_on_bytes: read_bytes.map(|read| read.min(self.attributed.bytes)),
        }
    }
}

/// Whether the bytes of a write are constants: they lie in the mapping of the program that the
/// process runs, and nobody may have changed them.
fn is_constant(row: &Row, activity: &Activity<'_>) -> bool {
    !activity.hidden_ways.poked
        && matches!(row.ends.input, Some(Input::ByMapping(file)) if activity.is_executed(file))
}

type RowsByFile<'a> = BTreeMap<Option<FileId>, Vec<&'a Row>>;

/// All calls that wrote to each file. A reflink writes nothing.
fn written<'a>(activity: &Activity<'a>) -> RowsByFile<'a> {
    let mut all = activity.writes.clone();
    for (&(_, to), rows) in &activity.copies {
        all.entry(Some(to)).or_default().extend(tell_bytes(rows));
    }
    for (&pipe, rows) in &activity.lent {
        all.entry(Some(pipe)).or_default().extend(rows);
    }
    all.retain(|_, rows| rows.iter().any(|row| moved(row)));
    all
}

/// All calls that read from each file.
fn read<'a>(activity: &Activity<'a>) -> RowsByFile<'a> {
    let mut all = activity.reads.clone();
    for (&(from, _), rows) in &activity.copies {
        all.entry(Some(from)).or_default().extend(tell_bytes(rows));
    }
    all.retain(|_, rows| rows.iter().any(|row| moved(row)));
    all
}

fn tell_bytes<'r, 'a: 'r>(rows: &'r [&'a Row]) -> impl Iterator<Item = &'a Row> + 'r {
    rows.iter()
        .copied()
        .filter(|row| row.call.spec().returned == Returned::Bytes)
}

/// Whether its calls moved bytes, or may have.
fn moved(row: &Row) -> bool {
    row.calls > row.errors && row.bytes != Some(0)
}

/// The processes that write only their own bytes: they, and all processes whose memory they may
/// have, read nothing but programs. Without a program of its own, a process that was merged may
/// have shared what it read: `are_merged_clean` is whether none read anything.
pub(super) fn own_memory(activities: &[Activity<'_>], are_merged_clean: bool) -> BTreeSet<u32> {
    let reads_nothing: HashMap<u32, bool> = activities
        .iter()
        .map(|activity| (activity.process.pid, activity.reads_nothing()))
        .collect();
    // A process that never executed a program may share memory with its creator, in both
    // directions.
    let are_copies_clean = are_merged_clean
        && activities
            .iter()
            .all(|activity| activity.process.exe.is_some() || activity.reads_nothing());
    let parents: HashMap<u32, u32> = activities
        .iter()
        .filter_map(|activity| Some((activity.process.pid, activity.process.ppid?)))
        .collect();
    let is_clean = |pid: &u32| {
        let mut line = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied())
            .take(activities.len());
        line.all(|pid| reads_nothing.get(&pid).copied().unwrap_or(true))
    };
    // If neither a process nor its creators executed a program in this trace, it has memory from
    // before the trace.
    let executed: BTreeSet<u32> = activities
        .iter()
        .filter(|activity| activity.process.exe.is_some())
        .map(|activity| activity.process.pid)
        .collect();
    let began_in_trace = |pid: &u32| {
        let mut line = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied())
            .take(activities.len());
        line.any(|pid| executed.contains(&pid))
    };
    reads_nothing
        .keys()
        .copied()
        .filter(|_| are_copies_clean)
        .filter(is_clean)
        .filter(began_in_trace)
        .collect()
}
