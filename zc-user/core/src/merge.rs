//! Merges processes that have ended, so that the memory of a trace does not grow with their number.
//!
//! A process can be merged if no transfer of it, or of another process, can depend on its being told apart from others: it moved nothing
//! from one file to another, and what it wrote either did not exist or was its own. Its rows are added to those of others of the same kind.
//! All sums of the report stay as they are: those of calls, programs and files, and what is attributed.

use std::collections::HashMap;

use crate::{
    syscall::Call,
    trace::{Counters, Ends, File, Merged, OtherCalls, Process, State, Thread, Trace},
    transfer::{self, Mergeable},
};

/// What processes must have in common to be merged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    comm: Option<String>,
    exe: Option<String>,
    /// The process whose memory it may have, if that matters.
    creator: Option<u32>,
    /// Whether the counters and the calls without rows are known: a sum is unknown if an addend is.
    is_known: [bool; 2],
    mergeable: Mergeable,
}

impl Kind {
    /// The kind of a process that has ended; `None` if it must be told apart. `begun` is its trace, `files` are those that rows name.
    pub fn of(process: &Process, begun: &Trace, files: &[File]) -> Option<Self> {
        let mergeable = transfer::mergeable(process, begun, files)?;
        Some(Self {
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            creator: process.ppid.filter(|_| mergeable == Mergeable::OfTheSameCreator),
            is_known: [process.counters.is_some(), process.threads.iter().all(|thread| thread.other_calls.is_some())],
            mergeable,
        })
    }

    /// The process that created all processes of this kind, if that matters: it must not be merged itself.
    pub fn creator(&self) -> Option<u32> {
        self.creator
    }
}

/// Sums over processes, by their kind.
#[derive(Debug, Clone, Default)]
pub struct MergedProcesses {
    by_kind: HashMap<Kind, Group>,
}

/// Processes of a kind.
#[derive(Debug, Clone)]
struct Group {
    merged: Merged,
    /// Where the rows are.
    places: HashMap<(Call, Ends, [bool; 3]), usize>,
}

impl MergedProcesses {
    /// Adds a process that has ended.
    pub fn add(&mut self, kind: Kind, process: Process) {
        let group = self.by_kind.entry(kind).or_insert_with_key(|kind| Group::new(kind, &process));
        group.add(process);
    }

    /// The sums.
    pub fn into_sums(self) -> Vec<Merged> {
        let mut sums: Vec<Merged> = self.by_kind.into_values().map(|group| group.merged).collect();
        sums.sort_by_key(|merged| merged.sums.pid);
        sums
    }
}

impl Group {
    fn new(kind: &Kind, first: &Process) -> Self {
        let [counters, other_calls] = kind.is_known;
        let thread = Thread { other_calls: other_calls.then_some(OtherCalls::NONE), ..Thread::default() };
        let sums = Process {
            pid: first.pid,
            ppid: first.ppid,
            comm: kind.comm.clone(),
            exe: kind.exe.clone(),
            state: State::Exited,
            counters: counters.then(Counters::default),
            threads: vec![thread],
            ..Process::default()
        };
        Self { merged: Merged { processes: 0, threads: 0, sums }, places: HashMap::new() }
    }

    fn add(&mut self, process: Process) {
        let Merged { processes, threads, sums } = &mut self.merged;
        *processes += 1;
        *threads += u64::try_from(process.threads.len()).unwrap_or(u64::MAX);
        if let (Some(sum), Some(more)) = (&mut sums.counters, process.counters) {
            sum.user_ns += more.user_ns;
            sum.system_ns += more.system_ns;
            sum.voluntary_switches += more.voluntary_switches;
            sum.involuntary_switches += more.involuntary_switches;
            sum.minor_faults += more.minor_faults;
            sum.major_faults += more.major_faults;
        }
        let Some(sum) = sums.threads.first_mut() else { return };
        for thread in process.threads {
            if let (Some(calls), Some(more)) = (&mut sum.other_calls, thread.other_calls) {
                *calls += more;
            }
            for row in thread.rows {
                // Figures that are unknown stay apart, because they would make the sum unknown.
                let is_known = [row.times.is_some(), row.bytes.is_some(), row.requested_bytes.is_some()];
                match self.places.get(&(row.call.clone(), row.ends, is_known)) {
                    Some(&place) => sum.rows[place].add(&row),
                    None => {
                        self.places.insert((row.call.clone(), row.ends, is_known), sum.rows.len());
                        sum.rows.push(row);
                    }
                }
            }
        }
    }
}
