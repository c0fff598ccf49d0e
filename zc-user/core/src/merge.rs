//! Merges processes that have ended, so that the memory of a trace does not grow with their number.
//!
//! A process can be merged at once if no transfer of it, or of another process, can depend on its
//! being told apart from others: it moved nothing from one file to another, and what it wrote
//! either did not exist or was its own. Others are analysed first, see [`Round`]. The rows are
//! added to those of other processes of the same kind. All sums of the report stay as they are:
//! those of calls, programs and files, and what is attributed.

mod file_uses;

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use crate::{
    report::is_library,
    syscall::Call,
    trace::{
        Counters, Ends, File, FileId, Input, Merged, OtherCalls, Process, Row, State, Thread, Trace,
    },
    transfer::{self, Mergeable},
};

pub use crate::transfer::{Round, used_connections};
pub use file_uses::FileUses;

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

/// Rows of settled processes are told apart by their files up to so many; beyond, only those of
/// libraries are, as the report sums them.
const MOST_ROWS_BY_FILE: usize = 256;

impl Kind {
    /// The kind of a process that has ended; `None` if it must be told apart. `begun` is its trace,
    /// `files` are those that rows name.
    pub fn of(process: &Process, begun: &Trace, files: &[File]) -> Option<Self> {
        Some(Self::with(
            process,
            transfer::mergeable(process, begun, files)?,
        ))
    }

    /// The kind of a process that was analysed ([`Round::settle`]).
    pub fn settled(process: &Process) -> Self {
        Self::with(process, Mergeable::Settled)
    }

    fn with(process: &Process, mergeable: Mergeable) -> Self {
        Self {
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            creator: process
                .ppid
                .filter(|_| mergeable == Mergeable::OfTheSameCreator),
            is_known: [
                process.counters.is_some(),
                process
                    .threads
                    .iter()
                    .all(|thread| thread.other_calls.is_some()),
            ],
            mergeable,
        }
    }

    /// The process that created all processes of this kind, if that matters: it must not be merged
    /// itself.
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
    places: HashMap<Shape, usize>,
}

impl MergedProcesses {
    /// Adds a process that has ended. With `files`, which its rows name, the rows of settled
    /// processes need not keep theirs.
    pub fn add(&mut self, kind: Kind, process: Process, files: Option<&[File]>) {
        let files = files.filter(|_| kind.mergeable == Mergeable::Settled);
        let group = self
            .by_kind
            .entry(kind)
            .or_insert_with_key(|kind| Group::new(kind, &process));
        group.add(process, files);
    }

    /// Lends the sums out, until [`take_back`](Self::take_back).
    pub fn lend(&mut self) -> Vec<Merged> {
        self.by_kind
            .values_mut()
            .map(|group| mem::take(&mut group.merged))
            .collect()
    }

    /// Takes the sums back that [`lend`](Self::lend) gave.
    pub fn take_back(&mut self, sums: Vec<Merged>) {
        for (group, sums) in self.by_kind.values_mut().zip(sums) {
            group.merged = sums;
        }
    }

    /// The files that the rows of analysed processes name.
    pub fn files_of_settled(&self) -> impl Iterator<Item = FileId> + '_ {
        self.rows(true).flat_map(Row::files)
    }

    /// Adds the rows of the others.
    pub fn add_uses(&self, uses: &mut FileUses) {
        self.rows(false).for_each(|row| uses.add(row));
    }

    fn rows(&self, is_settled: bool) -> impl Iterator<Item = &Row> {
        let sums = self
            .by_kind
            .values()
            .map(|group| &group.merged)
            .filter(move |merged| merged.is_settled == is_settled);
        sums.flat_map(|merged| &merged.sums.threads)
            .flat_map(|thread| &thread.rows)
    }

    /// Replaces these files, and sums the rows that become equal.
    pub fn replace(&mut self, files: &HashSet<FileId>, by: FileId) {
        for group in self
            .by_kind
            .values_mut()
            .filter(|group| !group.merged.is_settled)
        {
            group.replace(files, by);
        }
    }

    /// The sums.
    pub fn into_sums(self) -> Vec<Merged> {
        let mut sums: Vec<Merged> = self
            .by_kind
            .into_values()
            .map(|group| group.merged)
            .collect();
        sums.sort_by_key(|merged| merged.sums.pid);
        sums
    }
}

impl Group {
    fn new(kind: &Kind, first: &Process) -> Self {
        let [counters, other_calls] = kind.is_known;
        let thread = Thread {
            other_calls: other_calls.then_some(OtherCalls::NONE),
            ..Thread::default()
        };
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
        let is_settled = kind.mergeable == Mergeable::Settled;
        Self {
            merged: Merged {
                processes: 0,
                threads: 0,
                sums,
                is_settled,
            },
            places: HashMap::new(),
        }
    }

    fn add(&mut self, process: Process, files: Option<&[File]>) {
        let Merged {
            processes,
            threads,
            sums,
            ..
        } = &mut self.merged;
        *processes += 1;
        *threads += u64::try_from(process.threads.len()).unwrap_or(u64::MAX);
        if let (Some(sum), Some(more)) = (&mut sums.counters, process.counters) {
            *sum += more;
        }
        let Some(sum) = sums.threads.first_mut() else {
            return;
        };
        for thread in process.threads {
            if let (Some(calls), Some(more)) = (&mut sum.other_calls, thread.other_calls) {
                *calls += more;
            }
            for mut row in thread.rows {
                let is_new = !self.places.contains_key(&shape(&row));
                if let Some(files) =
                    files.filter(|_| is_new && self.places.len() >= MOST_ROWS_BY_FILE)
                {
                    row.ends = of_library(row.ends, files);
                }
                add_row(&mut sum.rows, &mut self.places, row);
            }
        }
    }
}

impl Group {
    /// Replaces these files, and sums the rows that become equal.
    fn replace(&mut self, files: &HashSet<FileId>, by: FileId) {
        let Some(thread) = self.merged.sums.threads.first_mut() else {
            return;
        };
        if !thread.rows.iter().any(|row| row.names_one_of(files)) {
            return;
        }
        self.places.clear();
        for row in mem::take(&mut thread.rows) {
            add_row(
                &mut thread.rows,
                &mut self.places,
                Row {
                    ends: row.ends.replaced(files, by),
                    ..row
                },
            );
        }
    }
}

/// What rows must have in common to be summed. Figures that are unknown stay apart, because they
/// would make the sum unknown.
type Shape = (Call, Ends, [bool; 3]);

fn shape(row: &Row) -> Shape {
    (
        row.call.clone(),
        row.ends,
        [
            row.times.is_some(),
            row.bytes.is_some(),
            row.requested_bytes.is_some(),
        ],
    )
}

/// Adds a row to `rows`; `places` says where each shape is.
fn add_row(rows: &mut Vec<Row>, places: &mut HashMap<Shape, usize>, row: Row) {
    let place = *places.entry(shape(&row)).or_insert(rows.len());
    match rows.get_mut(place) {
        Some(known) => known.add(&row),
        None => rows.push(row),
    }
}

/// The same ends if the input is a library, otherwise none.
fn of_library(ends: Ends, files: &[File]) -> Ends {
    let path = |id: FileId| {
        usize::try_from(id.0)
            .ok()
            .and_then(|index| files.get(index)?.path.as_deref())
    };
    let is_library = |input: Input| path(input.file()).is_some_and(is_library);
    Ends {
        input: ends.input.filter(|input| is_library(*input)),
        output: None,
    }
}

#[cfg(test)]
mod tests;
