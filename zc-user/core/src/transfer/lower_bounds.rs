//! Makes figures lower bounds that are true: limits those that are inferred, and marks proven flows
//! that may be only a part of what went from their source to their destination.
//!
//! A figure is exact only if it is all that went from the source to the destination. The program
//! may have copied some bytes to another buffer and written them from there, which nobody sees. So
//! a flow through memory can be exact only
//!
//! - if every byte of its destination is proven to come from somewhere,
//! - or if every byte read from its source is proven to be in the flow, and none can have been
//!   written to the destination a second time. That is so if everything of unknown origin was
//!   written there before the source was first read. It includes bytes of unknown origin next to
//!   proven ones in the same call: they may be an archive header, or a second copy of the same
//!   bytes.
//!
//! All other flows through memory are lower bounds. So are all flows of a process for which the
//! kernel moved bytes unseen, and all flows to a file that a call wrote to when it was cut off: it
//! may have moved a part of its bytes.

use std::collections::HashMap;

use super::{
    activity::Activity,
    flow::{Flow, first_moved, sum_bytes},
};
use crate::{
    trace::{FileId, FileKind, Input, Process, Row},
    transfer::Evidence,
};

/// Takes the proof from flows through memory, if a process may have changed the memory of another
/// one. Which memory that was is not known.
pub(super) fn disprove_memory(flows: &mut [Flow<'_>], activity: &Activity<'_>) {
    let through_memory = |flow: &&mut Flow<'_>| flow.evidence != Evidence::Call;
    for flow in flows
        .iter_mut()
        .filter(|_| activity.hidden_ways.poked)
        .filter(through_memory)
    {
        flow.proven_bytes = Some(0);
        flow.is_partly_unsampled |= matches!(flow.evidence, Evidence::Memory | Evidence::Mapping);
    }
}

/// Limits the bytes of inferred flows to the length of the file that they came from. A program may
/// read a part of a file twice, once to look at it and once to copy it, as `ar` does. Then more
/// bytes were read than the program has to write.
pub(super) fn limit_to_length(flows: &mut [Flow<'_>], activity: &Activity<'_>) {
    for flow in flows
        .iter_mut()
        .filter(|flow| flow.bytes != flow.proven_bytes)
    {
        let source = flow.read_from().and_then(|from| activity.file(from));
        // procfs gives a length of 0.
        let Some(length) = source
            .and_then(|file| file.size_bytes)
            .filter(|&bytes| bytes > 0)
        else {
            continue;
        };
        let most = flow
            .proven_bytes
            .map_or(length, |proven| proven.max(length));
        flow.bytes = flow.bytes.map(|bytes| bytes.min(most));
    }
}

/// Marks the flows that are lower bounds.
pub(super) fn mark(flows: &mut [Flow<'_>], activity: &Activity<'_>, first_reads: &FirstReads) {
    let destinations = destinations(flows, activity);
    for flow in flows.iter_mut() {
        flow.may_be_more |= activity.has_unseen_operations || activity.is_cut_off(flow.to);
        let Some(destination) = flow.written_to().and_then(|to| destinations.get(&to)) else {
            continue;
        };
        let is_once = is_source_used_up(flow, activity)
            && !flow.is_partly_unsampled
            && !may_be_repeated(flow, destination, activity, first_reads);
        flow.may_be_more |=
            !(destination.is_explained || is_once) || destination.has_unknown_lent_bytes;
    }
}

/// What is known of everything that was written to one file.
#[derive(Debug)]
struct Destination {
    /// Whether every byte is proven to come from somewhere.
    is_explained: bool,
    /// When bytes of unknown origin were last written, as [`Row::last_order`]; `u64::MAX` if nobody
    /// knows when.
    last_unknown: Option<u64>,
    has_unknown_lent_bytes: bool,
}

/// The destinations of flows through memory.
fn destinations(flows: &[Flow<'_>], activity: &Activity<'_>) -> HashMap<FileId, Destination> {
    let unknown_bytes = unknown_bytes(activity);
    let destination = |(to, proven): (FileId, u64)| {
        let writes = activity
            .writes
            .get(&Some(to))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_partly_unknown = unknown_bytes.get(&to).is_some_and(|&bytes| bytes > 0);
        let is_unknown = |row: &&&Row| match row.ends.input {
            Some(input) if input.is_seen_in_memory() => {
                is_partly_unknown && row.bytes != Some(row.paired_bytes)
            }
            _ => row.bytes != Some(0),
        };
        let lent = activity
            .lent
            .get(&to)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let destination = Destination {
            is_explained: sum_bytes(writes).is_some_and(|written| written <= proven),
            last_unknown: writes
                .iter()
                .filter(is_unknown)
                .map(|row| row.last_order.unwrap_or(u64::MAX))
                .max(),
            has_unknown_lent_bytes: lent.iter().any(|row| has_unknown_bytes(row)),
        };
        (to, destination)
    };
    proven(flows).into_iter().map(destination).collect()
}

/// For each destination, the bytes of unknown origin in calls that also wrote bytes of a file.
fn unknown_bytes(activity: &Activity<'_>) -> HashMap<FileId, u64> {
    let mut unknown_bytes: HashMap<FileId, u64> = HashMap::new();
    for (&to, rows) in &activity.writes {
        let Some(to) = to else { continue };
        let known = rows
            .iter()
            .filter(|row| row.ends.input.is_some_and(Input::is_seen_in_memory));
        let bytes = known.map(|row| {
            row.bytes
                .map_or(u64::MAX, |bytes| bytes.saturating_sub(row.paired_bytes))
        });
        unknown_bytes.insert(to, bytes.fold(0, u64::saturating_add));
    }
    for ((_, to), from_buffer) in &activity.from_buffers {
        if let Some(bytes) = unknown_bytes.get_mut(to) {
            let parts = from_buffer
                .parts
                .iter()
                .filter(|part| part.from.is_seen_in_memory())
                .map(|part| part.bytes);
            *bytes = bytes.saturating_sub(parts.fold(0, u64::saturating_add));
        }
    }
    unknown_bytes
}

/// Whether the flow has every byte that was read from its source.
fn is_source_used_up(flow: &Flow<'_>, activity: &Activity<'_>) -> bool {
    match flow.read_from() {
        // One read of /dev/zero can serve any number of writes, and its bytes look the same
        // wherever they come from.
        Some(from) if activity.kind(from) == Some(FileKind::Char) => false,
        Some(from) => activity.reads.get(&Some(from)).is_some_and(|rows| {
            sum_bytes(rows).is_some_and(|read| Some(read) <= flow.proven_bytes)
        }),
        // A mapping: the flow must have the whole file.
        None => {
            flow.from
                .file()
                .and_then(|from| activity.file(from)?.size_bytes)
                == flow.proven_bytes
        }
    }
}

/// Whether some of the memory that was lent to a pipe is not known to hold bytes of a file.
pub(super) fn has_unknown_bytes(lent: &Row) -> bool {
    !lent.ends.input.is_some_and(Input::is_seen_in_memory)
        || lent.bytes.is_none_or(|bytes| lent.paired_bytes < bytes)
}

/// Whether bytes of unknown origin were written to the destination after the source was first read.
fn may_be_repeated(
    flow: &Flow<'_>,
    destination: &Destination,
    activity: &Activity<'_>,
    first_reads: &FirstReads,
) -> bool {
    let began = flow
        .from
        .file()
        .and_then(|from| first_reads.of_file(from, activity.process.pid));
    destination
        .last_unknown
        .is_some_and(|last| began.is_none_or(|began| last >= began))
}

/// When each file was first read or mapped, by a process or by one whose memory it may have.
#[derive(Debug)]
pub(super) struct FirstReads {
    /// For each process, the process that executed the program: from there on, memory was copied or
    /// shared.
    programs: HashMap<u32, u32>,
    /// For each process that executed a program, the one that created it.
    creators: HashMap<u32, u32>,
    /// For each process that executed a program, the first reads of that process and of its
    /// descendants that run the same program.
    first: HashMap<u32, HashMap<FileId, u64>>,
}

impl FirstReads {
    /// Of all processes. `merged` are those of processes that were merged.
    pub(super) fn of(
        activities: &[Activity<'_>],
        merged: &HashMap<u32, HashMap<FileId, u64>>,
    ) -> Self {
        let processes: HashMap<u32, &Process> = activities
            .iter()
            .map(|activity| (activity.process.pid, activity.process))
            .collect();
        let creator = |pid: &u32| {
            processes
                .get(pid)
                .and_then(|process| process.ppid)
                .filter(|pid| processes.contains_key(pid))
        };
        let copied_from = |pid: &u32| {
            creator(pid).filter(|_| {
                processes
                    .get(pid)
                    .is_some_and(|process| process.exe.is_none())
            })
        };
        let program = |pid: u32| {
            std::iter::successors(Some(pid), copied_from)
                .take(processes.len())
                .last()
                .unwrap_or(pid)
        };
        let programs: HashMap<u32, u32> =
            processes.keys().map(|&pid| (pid, program(pid))).collect();
        let creators = programs
            .values()
            .filter_map(|&pid| Some((pid, creator(&pid)?)))
            .collect();
        let mut first = merged.clone();
        for activity in activities {
            note_first_reads(
                first.entry(programs[&activity.process.pid]).or_default(),
                activity,
            );
        }
        Self {
            programs,
            creators,
            first,
        }
    }

    /// The process that executed the program that this one runs.
    pub(super) fn program_of(&self, pid: u32) -> u32 {
        self.programs.get(&pid).copied().unwrap_or(pid)
    }

    /// When the first bytes of the file had been read, or it was mapped. Creators count as well: a
    /// process may have written what its creator had read before it executed its own program.
    fn of_file(&self, file: FileId, pid: u32) -> Option<u64> {
        let next = |program: &u32| self.programs.get(self.creators.get(program)?).copied();
        let programs =
            std::iter::successors(self.programs.get(&pid).copied(), next).take(self.programs.len());
        programs
            .filter_map(|program| self.first.get(&program)?.get(&file).copied())
            .min()
    }
}

/// Notes when the process first read or mapped each file.
pub(super) fn note_first_reads(first: &mut HashMap<FileId, u64>, activity: &Activity<'_>) {
    let read = activity
        .reads
        .iter()
        .filter_map(|(file, rows)| file.zip(first_moved(rows)));
    let mapped = activity
        .mappings
        .iter()
        .filter_map(|(&file, rows)| Some((file, rows.iter().filter_map(|row| row.order).min()?)));
    for (file, order) in read.chain(mapped) {
        let earliest = first.entry(file).or_insert(order);
        *earliest = order.min(*earliest);
    }
}

/// The proven bytes of each destination.
fn proven(flows: &[Flow<'_>]) -> HashMap<FileId, u64> {
    let mut proven: HashMap<FileId, u64> = HashMap::new();
    for (file, flow) in flows
        .iter()
        .filter_map(|flow| Some((flow.written_to()?, flow)))
    {
        let sum = proven.entry(file).or_default();
        *sum = sum.saturating_add(flow.proven_bytes.unwrap_or(0));
    }
    proven
}
