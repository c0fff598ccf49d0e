//! Merges processes that have ended, so that the memory of a trace does not grow with their number.
//!
//! A process can be merged at once if no transfer of it, or of another process, can depend on its being told apart from others: it moved
//! nothing from one file to another, and what it wrote either did not exist or was its own. Others are analysed first, see [`Round`]. The
//! rows are added to those of other processes of the same kind. All sums of the report stay as they are: those of calls, programs and files,
//! and what is attributed.

use std::{collections::HashMap, mem};

use crate::{
    report::is_library,
    syscall::Call,
    trace::{Counters, Ends, File, FileId, Input, Merged, OtherCalls, Process, State, Thread, Trace},
    transfer::{self, Mergeable},
};

pub use crate::transfer::Round;

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

/// Rows of settled processes are told apart by their files up to so many; beyond, only those of libraries are, as the report sums them.
const MOST_ROWS_BY_FILE: usize = 256;

impl Kind {
    /// The kind of a process that has ended; `None` if it must be told apart. `begun` is its trace, `files` are those that rows name.
    pub fn of(process: &Process, begun: &Trace, files: &[File]) -> Option<Self> {
        Some(Self::with(process, transfer::mergeable(process, begun, files)?))
    }

    /// The kind of a process that was analysed ([`Round::settle`]).
    pub fn settled(process: &Process) -> Self {
        Self::with(process, Mergeable::Settled)
    }

    fn with(process: &Process, mergeable: Mergeable) -> Self {
        Self {
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            creator: process.ppid.filter(|_| mergeable == Mergeable::OfTheSameCreator),
            is_known: [process.counters.is_some(), process.threads.iter().all(|thread| thread.other_calls.is_some())],
            mergeable,
        }
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
    /// Adds a process that has ended. With `files`, which its rows name, the rows of settled processes need not keep theirs.
    pub fn add(&mut self, kind: Kind, process: Process, files: Option<&[File]>) {
        let files = files.filter(|_| kind.mergeable == Mergeable::Settled);
        let group = self.by_kind.entry(kind).or_insert_with_key(|kind| Group::new(kind, &process));
        group.add(process, files);
    }

    /// Lends the sums out, until [`take_back`](Self::take_back).
    pub fn lend(&mut self) -> Vec<Merged> {
        self.by_kind.values_mut().map(|group| mem::take(&mut group.merged)).collect()
    }

    /// Takes the sums back that [`lend`](Self::lend) gave.
    pub fn take_back(&mut self, sums: Vec<Merged>) {
        for (group, sums) in self.by_kind.values_mut().zip(sums) {
            group.merged = sums;
        }
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
        let is_settled = kind.mergeable == Mergeable::Settled;
        Self { merged: Merged { processes: 0, threads: 0, sums, is_settled }, places: HashMap::new() }
    }

    fn add(&mut self, process: Process, files: Option<&[File]>) {
        let Merged { processes, threads, sums, .. } = &mut self.merged;
        *processes += 1;
        *threads += u64::try_from(process.threads.len()).unwrap_or(u64::MAX);
        if let (Some(sum), Some(more)) = (&mut sums.counters, process.counters) {
            *sum += more;
        }
        let Some(sum) = sums.threads.first_mut() else { return };
        for thread in process.threads {
            if let (Some(calls), Some(more)) = (&mut sum.other_calls, thread.other_calls) {
                *calls += more;
            }
            for mut row in thread.rows {
                // Figures that are unknown stay apart, because they would make the sum unknown.
                let is_known = [row.times.is_some(), row.bytes.is_some(), row.requested_bytes.is_some()];
                let is_new = !self.places.contains_key(&(row.call.clone(), row.ends, is_known));
                if let Some(files) = files.filter(|_| is_new && self.places.len() >= MOST_ROWS_BY_FILE) {
                    row.ends = of_library(row.ends, files);
                }
                let place = *self.places.entry((row.call.clone(), row.ends, is_known)).or_insert(sum.rows.len());
                match sum.rows.get_mut(place) {
                    Some(known) => known.add(&row),
                    None => sum.rows.push(row),
                }
            }
        }
    }
}

/// The same ends if the input is a library, otherwise none.
fn of_library(ends: Ends, files: &[File]) -> Ends {
    let path = |id: FileId| usize::try_from(id.0).ok().and_then(|index| files.get(index)?.path.as_deref());
    let is_library = |input: Input| path(input.file()).is_some_and(is_library);
    Ends { input: ends.input.filter(|input| is_library(*input)), output: None }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::{collection::vec, proptest};

    use super::*;
    use crate::{
        report::{
            Files, Options, Report,
            sample::{
                files::{Loop, Scene, copy, map, read, write},
                row,
            },
        },
        trace::{FileId, Input, Row},
    };

    /// The files that the processes of a test use.
    struct Used {
        program: FileId,
        library: FileId,
        data: FileId,
        log: FileId,
        pipe: FileId,
    }

    impl Used {
        fn of(scene: &mut Scene) -> Self {
            let [program, library, data, log] = ["tool", "libc.so.6", "data", "log"].map(|name| scene.regular(name));
            Self { program, library, data, log, pipe: scene.pipe() }
        }

        /// What a process did, by a number below [`BEHAVIOURS`].
        fn rows(&self, behaviour: u8) -> Vec<Row> {
            let mut rows = vec![read("read", self.library, 1, 832), map(self.library, 4096), row("brk").took(&[500, 600])];
            let constant = Ends { input: Some(Input::ByMapping(self.program)), output: Some(self.log) };
            match behaviour {
                0 => rows.clear(),
                1 => {}
                2 => rows.push(read("read", self.data, 3, 9000).took(&[100, 200, 300])),
                3 => rows.push(write("write", self.log, 2, 20)),
                4 => rows.push(Row { paired_bytes: 20, ends: constant, ..write("write", self.log, 2, 20) }),
                5 => rows.extend([read("read", self.data, 3, 9000), write("write", self.log, 2, 20)]),
                6 => rows.push(copy("sendfile", self.data, self.log, 1, 9000)),
                7 => rows.push(write("write", self.pipe, 2, 9000)),
                8 => rows.push(read("read", self.pipe, 2, 9000)),
                9 => {
                    let mut copier = Loop::seen();
                    for _ in 0..9 {
                        copier.read(self.data, 4096);
                        copier.write(self.pipe, 4096);
                    }
                    rows.extend(copier.rows());
                }
                10 => rows.push(read("read", self.library, 1, 90_000)),
                11 => rows = vec![row("read").unfinished(1), Row { times: None, ..read("read", self.data, 1, 1) }],
                _ => rows.push(write("write", self.log, 1, 0).failed(libc::EPIPE, 1)),
            }
            rows
        }
    }

    const BEHAVIOURS: u8 = 13;

    /// A launched process and its descendants: what each did, who created it, and whether it executed a program.
    fn trace(processes: &[(u8, u8, bool)]) -> Trace {
        let mut scene = Scene::new();
        scene.trace.sees_memory = true;
        let used = Used::of(&mut scene);
        scene.process("sh", used.rows(1));
        for (behaviour, creator, executes) in processes {
            let created_by = &scene.trace.processes[usize::from(*creator) % scene.trace.processes.len()];
            let (ppid, comm) = (created_by.pid, created_by.comm.clone());
            let process = scene.process("tool", used.rows(*behaviour));
            process.ppid = Some(ppid);
            if !executes {
                (process.exe, process.comm) = (None, comm);
            }
        }
        scene.trace
    }

    /// The same with all processes merged that can be, from the last to the first, as if each ended before its creator.
    fn merged(mut trace: Trace) -> Trace {
        let (mut sums, mut creators) = (MergedProcesses::default(), HashSet::new());
        let mut kept = Vec::new();
        let begun = Trace { processes: Vec::new(), ..trace.clone() };
        for process in trace.processes.drain(1..).rev().collect::<Vec<_>>() {
            let kind = Kind::of(&process, &begun, &begun.files).filter(|_| !creators.contains(&process.pid));
            if let Some(kind) = kind {
                creators.extend(kind.creator());
                sums.add(kind, process);
            } else {
                creators.extend(process.ppid);
                kept.push(process);
            }
        }
        trace.processes.extend(kept.into_iter().rev());
        trace.merged = sums.into_sums();
        trace
    }

    /// Compares the reports on both traces, and returns how many processes were merged.
    fn compare(processes: &[(u8, u8, bool)]) -> u64 {
        let whole = trace(processes);
        let merged = merged(whole.clone());
        let options = Options { files: Files::Listed, ..Options::default() };
        let [all, few] = [&whole, &merged].map(|trace| Report::from_trace(trace, &options));
        assert_eq!(few.totals, all.totals);
        assert_eq!(few.programs, all.programs);
        assert_eq!(few.files, all.files);
        assert_eq!(few.transfers, all.transfers);
        assert_eq!((few.exact, few.transfers_exact), (all.exact, all.transfers_exact), "{processes:?}");
        assert_eq!((&few.notes, &few.losses), (&all.notes, &all.losses));
        let listed = |pid| all.processes.iter().find(|process| process.pid == pid);
        assert!(few.processes.iter().all(|process| Some(process) == listed(process.pid)), "{:?}", few.processes);
        few.processes_left_out()
    }

    #[test]
    fn processes_without_transfers_are_merged() {
        assert_eq!(compare(&[(1, 0, true); 20]), 20);
        assert_eq!(compare(&[(0, 0, false); 20]), 20);
        assert_eq!(compare(&[(3, 0, true); 20]), 20);
        assert_eq!(compare(&[(2, 0, true); 20]), 20);
    }

    #[test]
    fn processes_with_transfers_stay() {
        for behaviour in [5, 6, 9] {
            assert_eq!(compare(&[(behaviour, 0, true); 20]), 0, "{behaviour}");
        }
    }

    #[test]
    fn equal_processes_take_the_memory_of_one() {
        let trace = merged(trace(&[(1, 0, true); 200]));
        assert_eq!((trace.processes.len(), trace.merged.len()), (1, 1));
        let [Merged { processes, threads, sums }] = trace.merged.as_slice() else { panic!("{:?}", trace.merged) };
        assert_eq!((*processes, *threads, sums.threads.len(), sums.threads[0].rows.len()), (200, 200, 1, 3));
    }

    proptest! {
        #[test]
        fn the_report_is_the_same(processes in vec((0..BEHAVIOURS, 0..4_u8, proptest::bool::weighted(0.8)), 0..12)) {
            compare(&processes);
        }
    }
}
