mod settled;

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
        let [program, library, data, log] =
            ["tool", "libc.so.6", "data", "log"].map(|name| scene.regular(name));
        Self {
            program,
            library,
            data,
            log,
            pipe: scene.pipe(),
        }
    }

    /// What a process did, by a number below [`BEHAVIOURS`].
    fn rows(&self, behaviour: u8) -> Vec<Row> {
        let mut rows = vec![
            read("read", self.library, 1, 832),
            map(self.library, 4096),
            row("brk").took(&[500, 600]),
        ];
        let constant = Ends {
            input: Some(Input::ByMapping(self.program)),
            output: Some(self.log),
        };
        match behaviour {
            0 => rows.clear(),
            1 => {}
            2 => rows.push(read("read", self.data, 3, 9000).took(&[100, 200, 300])),
            3 => rows.push(write("write", self.log, 2, 20)),
            4 => rows.push(Row {
                paired_bytes: 20,
                ends: constant,
                ..write("write", self.log, 2, 20)
            }),
            5 => rows.extend([
                read("read", self.data, 3, 9000),
                write("write", self.log, 2, 20),
            ]),
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
            11 => {
                rows = vec![
                    row("read").unfinished(1),
                    Row {
                        times: None,
                        ..read("read", self.data, 1, 1)
                    },
                ]
            }
            _ => rows.push(write("write", self.log, 1, 0).failed(libc::EPIPE, 1)),
        }
        rows
    }
}

const BEHAVIOURS: u8 = 13;

/// A launched process and its descendants: what each did, who created it, and whether it executed a
/// program.
fn trace(processes: &[(u8, u8, bool)]) -> Trace {
    let mut scene = Scene::new();
    scene.trace.sees_memory = true;
    let used = Used::of(&mut scene);
    scene.process("sh", used.rows(1));
    for (behaviour, creator, executes) in processes {
        let created_by =
            &scene.trace.processes[usize::from(*creator) % scene.trace.processes.len()];
        let (ppid, comm) = (created_by.pid, created_by.comm.clone());
        let process = scene.process("tool", used.rows(*behaviour));
        process.ppid = Some(ppid);
        if !executes {
            (process.exe, process.comm) = (None, comm);
        }
    }
    scene.trace
}

/// The same with all processes merged that can be, from the last to the first, as if each ended
/// before its creator.
fn merged(mut trace: Trace) -> Trace {
    let (mut sums, mut creators) = (MergedProcesses::default(), HashSet::new());
    let mut kept = Vec::new();
    let begun = Trace {
        processes: Vec::new(),
        ..trace.clone()
    };
    for process in trace.processes.drain(1..).rev().collect::<Vec<_>>() {
        let kind =
            Kind::of(&process, &begun, &begun.files).filter(|_| !creators.contains(&process.pid));
        if let Some(kind) = kind {
            creators.extend(kind.creator());
            sums.add(kind, process, None);
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
    let options = Options {
        files: Files::Listed,
        ..Options::default()
    };
    let [all, few] = [&whole, &merged].map(|trace| Report::from_trace(trace, &options));
    assert_eq!(few.totals, all.totals);
    assert_eq!(few.programs, all.programs);
    assert_eq!(few.files, all.files);
    assert_eq!(few.transfers, all.transfers);
    assert_eq!(
        (few.exact, few.transfers_exact),
        (all.exact, all.transfers_exact),
        "{processes:?}"
    );
    assert_eq!((&few.notes, &few.losses), (&all.notes, &all.losses));
    let listed = |pid| all.processes.iter().find(|process| process.pid == pid);
    assert!(
        few.processes
            .iter()
            .all(|process| Some(process) == listed(process.pid)),
        "{:?}",
        few.processes
    );
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
    let [
        Merged {
            processes,
            threads,
            sums,
            ..
        },
    ] = trace.merged.as_slice()
    else {
        panic!("{:?}", trace.merged)
    };
    assert_eq!(
        (
            *processes,
            *threads,
            sums.threads.len(),
            sums.threads[0].rows.len()
        ),
        (200, 200, 1, 3)
    );
}

#[test]
fn rows_that_become_equal_by_a_replacement_are_summed() {
    let mut scene = Scene::new();
    let (pipes, kept, sum) = ([scene.pipe(), scene.pipe()], scene.pipe(), scene.pipe());
    let begun = Trace {
        sees_memory: true,
        ..scene.trace.clone()
    };
    let mut sums = MergedProcesses::default();
    let mut add = |sums: &mut MergedProcesses, pipe| {
        let process = scene
            .process("tool", vec![read("read", pipe, 2, 20).zero(1)])
            .clone();
        sums.add(
            Kind::of(&process, &begun, &begun.files).expect("has no transfers"),
            process,
            None,
        );
    };
    for pipe in [pipes[0], kept, pipes[1]] {
        add(&mut sums, pipe);
    }
    sums.replace(&HashSet::from(pipes), sum);
    for pipe in [sum, kept] {
        add(&mut sums, pipe);
    }
    let sums = sums.into_sums();
    let [Merged { sums, .. }] = sums.as_slice() else {
        panic!("{sums:?}")
    };
    let mut found: Vec<_> = sums.threads[0]
        .rows
        .iter()
        .map(|row| (row.files().collect(), row.calls, row.bytes))
        .collect();
    found.sort();
    assert_eq!(found, [(vec![kept], 6, Some(40)), (vec![sum], 9, Some(60))]);
}

proptest! {
    #[test]
    fn the_report_is_the_same(processes in vec((0..BEHAVIOURS, 0..4_u8, proptest::bool::weighted(0.8)), 0..12)) {
        compare(&processes);
    }
}
