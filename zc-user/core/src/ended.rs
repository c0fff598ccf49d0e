//! [`EndedProcesses`]: sums over processes that have ended, so that the memory of a trace does not
//! grow with their number.
//!
//! Every process is analysed by itself, from its rows (`transfer`). Then its calls are
//! added to those of its program, and its transfers to those of the same program, interface and
//! ends. Only a transfer into or out of a pipe or connection is kept as it is, because rule 8 looks
//! at what other processes did with these: at most `MAX_STEPS` of them.

mod sums;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, btree_map::Entry},
};

use crate::{
    counts::add_counts,
    syscalls::Call,
    text::{is_library, plural},
    trace::{
        Counters, Ends, File, FileId, Loss, OtherCalls, Process, Row, SummedContent,
        SummedProcesses, Thread, Trace,
    },
    transfer::{self, DestinationTotals, InProcess, MergedProcesses, Moved, SourceTotals, Step},
};

use sums::{SumsByFile, TransferSums, add_by_file};
pub use transfer::{ComparedPairs, FileSumming};

/// So many transfers into and out of pipes and connections are followed. Those beyond are summed
/// at once, and are in no chain.
const MAX_STEPS: usize = 16_384;
/// The rows of a program are told apart by their files up to so many; beyond, only those of
/// libraries are.
const MAX_ROWS_BY_FILE: usize = 256;

/// Sums over processes that have ended.
#[derive(Debug, Clone, Default)]
pub struct EndedProcesses {
    by_program: HashMap<ProgramKey, ProgramSums>,
    found: EndedSums,
}

impl EndedProcesses {
    /// Adds a process. `begun` is its trace, `files` are those that its rows name. With
    /// `tells_files_apart`, all rows keep theirs.
    pub fn add_process(
        &mut self,
        process: Process,
        begun: &Trace,
        files: &[File],
        tells_files_apart: bool,
    ) {
        self.found
            .add_found(transfer::analyse_process(&process, begun, files), files);
        let key = ProgramKey::from_process(&process);
        let sums = self
            .by_program
            .entry(key)
            .or_insert_with_key(|key| ProgramSums::new(key, &process));
        sums.add_process(process, files, tells_files_apart);
    }

    /// The rows of all programs.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.by_program.values().flat_map(|sums| sums.rows.values())
    }

    /// The files that the sums name.
    pub fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        let rows = self.rows();
        let steps = self.found.steps.iter();
        let steps = steps.flat_map(|step| [step.from, step.to]);
        let conduits = self.found.conduits.keys().copied();
        rows.flat_map(Row::files).chain(steps).chain(conduits)
    }

    /// Replaces files by the sums that `sum_of` names. The bytes between these and other files have
    /// been summed already.
    pub fn sum_files(&mut self, sum_of: impl FnMut(FileId, SummedContent) -> FileId) {
        let mut sum_of = sum_of;
        let mut summing = FileSumming {
            pairs: ComparedPairs::default(),
            sum_of: &mut sum_of,
        };
        for program in self.by_program.values_mut() {
            for (_, mut row) in std::mem::take(&mut program.rows) {
                row.ends = summing.sum_ends(row.ends);
                program.add_row(row);
            }
        }
        self.found.sum_files(|file| summing.sum_of_file(file));
    }

    /// The sums of their calls by program, and what was found in them.
    pub fn into_parts(self) -> (Vec<SummedProcesses>, EndedSums) {
        let programs = self.by_program.into_values();
        let mut merged: Vec<SummedProcesses> = programs.map(ProgramSums::into_merged).collect();
        merged.sort_by_key(|merged| merged.sums.pid);
        (merged, self.found)
    }
}

/// What programs must have in common to be summed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ProgramKey {
    comm: Option<String>,
    exe: Option<String>,
    /// Whether the counters and the calls without rows are known: a sum is unknown if an addend is.
    is_known: [bool; 2],
}

impl ProgramKey {
    fn from_process(process: &Process) -> Self {
        let mut threads = process.threads.iter();
        Self {
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            is_known: [
                process.counters.is_some(),
                threads.all(|thread| thread.other_calls.is_some()),
            ],
        }
    }
}

/// The calls of all processes of one program.
#[derive(Debug, Clone)]
struct ProgramSums {
    /// All but the rows.
    merged: SummedProcesses,
    other_calls: Option<OtherCalls>,
    rows: BTreeMap<SummedRowKey, Row>,
}

/// What rows must have in common to be summed. Figures that are unknown stay apart, because they
/// would make the sum unknown.
type SummedRowKey = (Call, Ends, [bool; 3]);

fn row_key(row: &Row) -> SummedRowKey {
    let is_known = [
        row.times.is_some(),
        row.bytes.is_some(),
        row.requested_bytes.is_some(),
    ];
    (row.call.clone(), row.ends, is_known)
}

impl ProgramSums {
    fn new(key: &ProgramKey, first: &Process) -> Self {
        let [counters, other_calls] = key.is_known;
        let sums = Process {
            pid: first.pid,
            ppid: first.ppid,
            comm: key.comm.clone(),
            exe: key.exe.clone(),
            counters: counters.then_some(Counters::ZERO),
            ..Process::default()
        };
        Self {
            merged: SummedProcesses {
                sums,
                ..SummedProcesses::default()
            },
            other_calls: other_calls.then_some(OtherCalls::NONE),
            rows: BTreeMap::new(),
        }
    }

    fn add_process(&mut self, process: Process, files: &[File], tells_files_apart: bool) {
        let merged = &mut self.merged;
        merged.counts += process.program_counts();
        if let (Some(sum), Some(more)) = (&mut merged.sums.counters, process.counters) {
            *sum += more;
        }
        for thread in process.threads {
            if let (Some(calls), Some(more)) = (&mut self.other_calls, thread.other_calls) {
                *calls += more;
            }
            for mut row in thread.rows.into_iter().chain(thread.ring_rows) {
                let is_full = !tells_files_apart && self.rows.len() >= MAX_ROWS_BY_FILE;
                if is_full && !self.rows.contains_key(&row_key(&row)) {
                    row.ends = only_library(row.ends, files);
                }
                self.add_row(row);
            }
        }
    }

    fn add_row(&mut self, row: Row) {
        match self.rows.entry(row_key(&row)) {
            Entry::Occupied(mut sum) => sum.get_mut().add_row(&row),
            Entry::Vacant(place) => drop(place.insert(row)),
        }
    }

    fn into_merged(self) -> SummedProcesses {
        let mut merged = self.merged;
        let is_operation = |row: &Row| row.call.as_ring_operation().is_some();
        let (ring_rows, rows) = self.rows.into_values().partition(is_operation);
        merged.sums.threads = vec![Thread {
            rows,
            ring_rows,
            other_calls: self.other_calls,
            ..Thread::default()
        }];
        merged
    }
}

/// The same ends if the input is a library, otherwise none.
fn only_library(ends: Ends, files: &[File]) -> Ends {
    let file = ends.input.and_then(|input| input.file().in_files(files));
    let path = file.and_then(|file| file.path.as_deref());
    Ends {
        input: ends.input.filter(|_| path.is_some_and(is_library)),
        output: None,
    }
}

/// What the analysis found in processes that have ended.
#[derive(Debug, Clone, Default)]
pub struct EndedSums {
    pub(crate) transfers: TransferSums,
    sources: SumsByFile<SourceTotals>,
    destinations: SumsByFile<DestinationTotals>,
    /// The transfers into and out of pipes and connections.
    pub(crate) steps: Vec<Step>,
    pub(crate) conduits: BTreeMap<FileId, Moved>,
    programs: u64,
    /// How many of them had transfers that are not followed.
    unfollowed: u64,
    /// Whether bytes moved that are in no row, or in none with its files.
    pub(crate) lacks_files: bool,
    /// [`InProcess::unknown_origins`] of all.
    pub(crate) unknown_origins: BTreeMap<Loss, u64>,
}

impl EndedSums {
    fn add_found(&mut self, found: InProcess, files: &[File]) {
        self.programs += 1;
        add_counts(&mut self.unknown_origins, &found.unknown_origins());
        self.lacks_files |= found.lacks_files;
        for one in found.sources {
            let add = |sum: &mut SourceTotals, more| sum.add_totals(&more);
            add_by_file(&mut self.sources, one, |one| &mut one.file, add);
        }
        for one in found.destinations {
            let add = DestinationTotals::add_totals;
            add_by_file(&mut self.destinations, one, |one| &mut one.file, add);
        }
        let has_room = self.has_room();
        transfer::add_conduits(&mut self.conduits, &found.conduits, has_room);
        let (mut followed, mut summed) = (Vec::new(), Vec::new());
        for step in found.steps {
            let is_followed = !step.hops.is_empty()
                || transfer::is_conduit(step.from, files)
                || transfer::is_conduit(step.to, files);
            if is_followed {
                followed.push(step);
            } else {
                summed.push(step);
            }
        }
        if has_room {
            self.steps.extend(followed);
        } else {
            self.unfollowed += u64::from(!followed.is_empty());
            summed.extend(followed.into_iter().flat_map(Step::into_hops));
        }
        for step in summed {
            self.transfers.add(step.transfer, &[step.program]);
        }
    }

    fn sum_files(&mut self, mut sum_of: impl FnMut(FileId) -> FileId) {
        for step in &mut self.steps {
            step.sum_files(&mut sum_of);
        }
        for (file, moved) in std::mem::take(&mut self.conduits) {
            let sum = self.conduits.entry(sum_of(file));
            sum.or_insert(Moved::NOTHING).add_moved(moved);
        }
    }

    /// Whether there is room for more pipes and connections. If not, some that are not in
    /// `conduits` may have been used.
    pub(crate) fn has_room(&self) -> bool {
        self.steps.len() < MAX_STEPS && self.conduits.len() < MAX_STEPS
    }

    /// What else is known of them; `None`: there are none.
    pub(crate) fn merged_processes(&self) -> Option<MergedProcesses> {
        let mut sources: Vec<_> = self.sources.values().cloned().collect();
        sources.sort_by_key(|one| Reverse(one.read_bytes));
        let mut destinations: Vec<_> = self.destinations.values().cloned().collect();
        destinations.sort_by_key(|one| Reverse(one.written_bytes));
        (self.programs > 0).then_some(MergedProcesses {
            programs: self.programs,
            sources,
            destinations,
        })
    }

    /// What a report lacks because of them, each a sentence.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.programs > 0 {
            let programs = plural(self.programs, "program", "programs");
            notes.push(format!(
                "similar transfers of {programs} that had ended are summed; --all keeps them apart"
            ));
        }
        if self.unfollowed > 0 {
            notes.push(format!("{} of these used pipes or connections for which there was no room: their bytes are not followed further; --all does", self.unfollowed));
        }
        notes
    }
}

#[cfg(test)]
mod kept_processes_tests;
