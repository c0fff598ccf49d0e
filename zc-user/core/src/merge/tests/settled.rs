//! Processes with transfers, which are analysed before they are merged.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::ProptestConfig, proptest};

use super::*;
use crate::{
    report::{Api, Certainty, Transfer},
    trace::{FileKind, Process, Settled},
};

/// A shell that runs commands one after the other. Their rows have their places in one order of
/// time.
struct Shell {
    scene: Scene,
    program: FileId,
    data: FileId,
    null: FileId,
    /// A pipe that the shell itself reads as long as it lives.
    own_pipe: FileId,
    time: u64,
}

/// What the shell runs, by a number.
const COMMANDS: u8 = 11;

impl Shell {
    /// If it reads nothing, what its children write may be known to be their own.
    fn new(reads_pipe: bool) -> Self {
        let mut scene = Scene::new();
        scene.trace.sees_memory = true;
        let [program, data] = ["tool", "data"].map(|name| scene.regular(name));
        let (null, own_pipe) = (scene.file(FileKind::Char, "null"), scene.pipe());
        scene.process(
            "sh",
            if reads_pipe {
                vec![read("read", own_pipe, 1, 1)]
            } else {
                Vec::new()
            },
        );
        Self {
            scene,
            program,
            data,
            null,
            own_pipe,
            time: 0,
        }
    }

    /// A copy by a loop of so many bytes.
    fn copy(&mut self, from: FileId, to: FileId, bytes: u64, ends: bool) -> Vec<Row> {
        self.time += 10;
        let mut copier = Loop::seen();
        for _ in 0..4 {
            copier.read(from, bytes / 4);
            copier.write(to, bytes / 4);
        }
        let mut rows: Vec<Row> = copier.rows();
        for row in &mut rows {
            for order in [&mut row.order, &mut row.last_order, &mut row.moved_order] {
                *order = order.map(|order| order + self.time * 1000);
            }
        }
        if ends {
            rows.push(read("read", from, 0, 0).zero(1));
        }
        rows
    }

    fn run(&mut self, name: &str, rows: Vec<Row>) -> &mut Process {
        let shell = self.scene.trace.processes[0].pid;
        let process = self.scene.process(name, rows);
        process.ppid = Some(shell);
        process
    }

    fn command(&mut self, command: u8, number: usize) {
        let (data, null, own_pipe) = (self.data, self.null, self.own_pipe);
        match command {
            0 => drop(self.run("cp", vec![copy("sendfile", data, null, 1, 9000)])),
            1 => {
                let out = self.scene.regular(&format!("out.{number}"));
                let rows = self.copy(data, out, 4096, true);
                self.run("dd", rows);
            }
            2..=4 => {
                let pipe = self.scene.pipe();
                let into = self.copy(data, pipe, 8192, false);
                self.run("cat", into);
                // The reader sees the end, or it does not, or it leaves something in the pipe.
                let out = self.copy(
                    pipe,
                    null,
                    if command == 4 { 4096 } else { 8192 },
                    command == 2,
                );
                self.run("tee", out);
            }
            5 => drop(self.run(
                "ls",
                vec![read("read", data, 3, 900), write("write", null, 3, 9000)],
            )),
            6 => {
                let rows = self.copy(data, own_pipe, 4096, false);
                self.run("cat", rows);
            }
            7 => {
                let mut rows = self.copy(data, null, 4096, true);
                rows.push(write("write", null, 1, 20).at(self.time * 1000 + 900));
                self.run("log", rows);
            }
            8 => {
                let rows = vec![
                    map(self.program, 4096),
                    copy("sendfile", data, null, 1, 500),
                    write("write", null, 1, 20),
                ];
                self.run("tool", rows);
            }
            9 => {
                let rows = self.copy(data, null, 4096, true);
                self.run("sh", rows).exe = None;
            }
            _ => {
                let pipe = self.scene.pipe();
                let into = self.copy(data, pipe, 8192, false);
                let cut_off = write("write", pipe, 0, 0)
                    .at(self.time * 1000 + 900)
                    .unfinished(1);
                self.run("cat", [into, vec![cut_off]].concat());
                let out = self.copy(pipe, null, 8192, true);
                self.run("tee", out);
            }
        }
    }
}

/// The trace of these commands, and the same with what can be merged after each few of them. At
/// most `most_waiting` wait.
fn traces(commands: &[u8], each: usize, most_waiting: usize) -> [Trace; 2] {
    let mut shell = Shell::new(commands.contains(&6));
    let mut settled = Settled::default();
    let (mut sums, mut kept) = (MergedProcesses::default(), Vec::new());
    let mut seen = 1;
    for (number, command) in commands.iter().enumerate() {
        shell.command(*command, number);
        if number % each == each - 1 {
            let all = &shell.scene.trace;
            kept.extend(all.processes[seen..].iter().cloned());
            seen = all.processes.len();
            let mut trace = Trace {
                processes: mem::take(&mut kept),
                settled,
                ..all.clone()
            };
            let stays = vec![false; trace.processes.len()];
            trace.processes.push(all.processes[0].clone());
            trace.merged = sums.lend();
            let merged = Round {
                trace: &mut trace,
                stays: &stays,
                most_waiting,
            }
            .settle();
            sums.take_back(mem::take(&mut trace.merged));
            settled = mem::take(&mut trace.settled);
            trace.processes.pop();
            for (index, process) in trace.processes.into_iter().enumerate() {
                if merged.contains(&index) {
                    sums.add(Kind::settled(&process), process, Some(&trace.files));
                } else {
                    kept.push(process);
                }
            }
        }
    }
    let whole = shell.scene.trace;
    let mut few = whole.clone();
    few.processes = few
        .processes
        .drain(..1)
        .chain(kept)
        .chain(whole.processes[seen..].iter().cloned())
        .collect();
    (few.merged, few.settled) = (sums.into_sums(), settled);
    [whole, few]
}

fn reports(traces: &[Trace; 2]) -> [Report; 2] {
    [&traces[0], &traces[1]].map(|trace| Report::from_trace(trace, &Options::default()))
}

/// By interface, kinds of the ends, number of processes and certainty: transfers, bytes, proven
/// bytes, calls.
type Sums = BTreeMap<(Api, Option<String>, Option<String>, usize, Certainty), [u64; 4]>;

fn sums(report: &Report, wanted: impl Fn(&Transfer) -> bool) -> Sums {
    let mut sums = Sums::new();
    for one in report.transfers.iter().filter(|transfer| wanted(transfer)) {
        let key = (
            one.api,
            one.from.kind.clone(),
            one.to.kind.clone(),
            one.pids.len(),
            one.certainty,
        );
        let figures = [
            one.count(),
            one.bytes.unwrap_or(0),
            one.proven_bytes.unwrap_or(0),
            one.calls,
        ];
        sums.entry(key)
            .or_default()
            .iter_mut()
            .zip(figures)
            .for_each(|(sum, figure)| *sum += figure);
    }
    sums
}

/// Written, attributed, proven, unattributed and own bytes; bytes read and written on; bytes of
/// shares.
fn attributed(report: &Report) -> [u64; 9] {
    let merged = || report.merged.iter();
    let mut sums = [0; 9];
    for one in report
        .processes
        .iter()
        .flat_map(|one| &one.destinations)
        .chain(merged().flat_map(|one| &one.destinations))
    {
        let rest = one.unattributed_bytes.expect("is known");
        let figures = [
            one.written_bytes.expect("is known"),
            one.attributed_bytes,
            one.proven_bytes,
            rest,
            one.memory_bytes,
        ];
        sums.iter_mut()
            .zip(figures)
            .for_each(|(sum, figure)| *sum += figure);
    }
    for one in report
        .processes
        .iter()
        .flat_map(|one| &one.sources)
        .chain(merged().flat_map(|one| &one.sources))
    {
        sums[5] += one.read_bytes.expect("is known");
        sums[6] += one.written_on_bytes.expect("is known");
    }
    for (sum, side) in [(7, 0), (8, 1)] {
        let of = |shares: &crate::report::Unattributed| {
            let shares = if side == 0 {
                &shares.read
            } else {
                &shares.written
            };
            shares
                .iter()
                .map(|share| share.bytes.expect("is known"))
                .sum::<u64>()
        };
        let listed: u64 = report
            .processes
            .iter()
            .map(|one| of(&one.unattributed))
            .sum();
        sums[sum] += listed + merged().map(|one| of(&one.unattributed)).sum::<u64>();
    }
    sums
}

/// Compares both reports; returns how many processes were merged.
fn compare_settled(commands: &[u8], each: usize, most_waiting: usize) -> u64 {
    let [all, few] = reports(&traces(commands, each, most_waiting));
    assert_eq!(
        (&few.totals, &few.programs, few.exact),
        (&all.totals, &all.programs, all.exact)
    );
    let is_within = |transfer: &Transfer| !transfer.crosses_processes();
    assert_eq!(sums(&few, is_within), sums(&all, is_within), "{commands:?}");
    assert_eq!(attributed(&few)[..4], attributed(&all)[..4], "{commands:?}");
    assert_eq!(attributed(&few)[5..], attributed(&all)[5..], "{commands:?}");
    // What is not followed to its end, or waited too long, is known less well, and a note says so.
    assert!(all.transfers_exact || !few.transfers_exact, "{commands:?}");
    let is_unfollowed = few.notes.iter().any(|note| note.contains("still open"));
    if most_waiting == usize::MAX {
        assert!(!is_unfollowed);
        assert_eq!(sums(&few, |_| true), sums(&all, |_| true), "{commands:?}");
        assert_eq!(
            (attributed(&few), few.transfers_exact),
            (attributed(&all), all.transfers_exact),
            "{commands:?}"
        );
    }
    let bytes = |report: &Report, certainty| {
        let ways = report
            .transfers
            .iter()
            .filter(|one| one.crosses_processes() && one.certainty == certainty);
        ways.map(|way| way.bytes.unwrap_or(0)).sum::<u64>()
    };
    assert!(
        bytes(&few, Certainty::Exact) <= bytes(&all, Certainty::Exact),
        "{commands:?}"
    );
    few.processes_left_out()
}

#[test]
fn processes_with_transfers_are_merged_when_nothing_more_can_happen_to_them() {
    for command in [0, 1, 5, 7] {
        assert!(
            compare_settled(&[command; 300], 100, usize::MAX) >= 200,
            "{command}"
        );
    }
}

#[test]
fn a_pipeline_is_merged_with_its_way_from_end_to_end() {
    for command in [2, 3] {
        assert!(
            compare_settled(&[command; 300], 100, usize::MAX) >= 300,
            "{command}"
        );
    }
    let [_, few] = reports(&traces(&[2; 300], 100, usize::MAX));
    let way = few
        .transfers
        .iter()
        .find(|one| one.crosses_processes() && one.merged.is_some())
        .expect("was merged");
    assert_eq!(
        (way.bytes, way.certainty),
        (Some(way.count() * 8192), Certainty::Exact)
    );
    let merged = way.merged.as_ref().expect("was merged");
    let names = [Some("cat".to_owned()), Some("tee".to_owned())];
    assert_eq!(
        (merged.programs.as_slice(), merged.same_ends),
        (names.as_slice(), true)
    );
    let place = few
        .transfers
        .iter()
        .position(|one| std::ptr::eq(one, way))
        .expect("is there");
    let steps = few
        .transfers
        .iter()
        .filter(|one| one.part_of == [place])
        .map(Transfer::count)
        .sum::<u64>();
    assert_eq!(steps, way.count() * 2);
}

#[test]
fn of_many_files_only_some_keep_their_names() {
    let [_, few] = reports(&traces(&[1; 300], 100, usize::MAX));
    let merged = few.transfers.iter().filter(|one| one.merged.is_some());
    let (named, others): (Vec<&Transfer>, Vec<&Transfer>) =
        merged.partition(|one| one.merged.as_ref().is_some_and(|merged| merged.same_ends));
    assert!(
        !named.is_empty() && named.len() <= 32 && named.iter().all(|one| one.to.path.is_some()),
        "{named:?}"
    );
    assert!(
        !others.is_empty() && others.len() <= 2 && others.iter().all(|one| one.to.path.is_none()),
        "{others:?}"
    );
    assert_eq!(few.transfers.iter().map(Transfer::count).sum::<u64>(), 300);
}

#[test]
fn what_may_still_go_through_a_pipe_waits_for_it() {
    // Something is left in the pipe; the shell reads it; what is its own depends on later
    // processes.
    for command in [4, 6, 8] {
        assert_eq!(
            compare_settled(&[command; 300], 100, usize::MAX),
            0,
            "{command}"
        );
        assert!(
            compare_settled(&[command; 300], 100, 50) >= 100,
            "{command}"
        );
    }
    let [_, few] = reports(&traces(&[6; 300], 100, 50));
    assert!(
        few.notes.iter().any(|note| note.contains("still open")),
        "{:?}",
        few.notes
    );
}

#[test]
fn a_pipe_of_a_live_writer_is_used_up_if_a_merged_process_read_it_to_the_end() {
    for sees_end in [true, false] {
        let mut shell = Shell::new(false);
        let null = shell.null;
        let mut pipe = shell.own_pipe;
        // The processes with the 64 largest transfers stay apart.
        for _ in 0..=64 {
            pipe = shell.scene.pipe();
            shell.scene.trace.processes[0].threads[0]
                .rows
                .push(write("write", pipe, 1, 8192));
            let rows = shell.copy(pipe, null, 8192, sees_end);
            shell.run("cat", rows);
        }
        let mut trace = shell.scene.trace;
        trace.processes.rotate_left(1);
        let merged = Round {
            trace: &mut trace,
            stays: &[false; 65],
            most_waiting: 0,
        }
        .settle();
        assert_eq!(merged, [64]);
        let mut uses = FileUses::default();
        trace.processes[65].threads[0]
            .rows
            .iter()
            .for_each(|row| uses.add(row));
        let has_ended = uses
            .ended_pipes(&trace.files, &trace.settled)
            .contains(&pipe);
        assert_eq!(
            (has_ended, uses.is_used_up(pipe, &trace.settled)),
            (sees_end, true)
        );
        assert!(
            !uses.is_used_up(pipe, &Settled::default()),
            "the others have read nothing"
        );
    }
}

#[test]
fn what_is_kept_does_not_grow_with_what_has_ended() {
    let sizes = |count: usize| {
        let commands: Vec<u8> = (0..COMMANDS).cycle().take(count).collect();
        let [_, few] = traces(&commands, 200, 100);
        let rows = few
            .merged
            .iter()
            .flat_map(|merged| &merged.sums.threads)
            .map(|thread| thread.rows.len())
            .max();
        let json = serde_json::to_string(&Report::from_trace(&few, &Options::default()))
            .expect("is data")
            .len();
        (
            few.processes.len(),
            rows.expect("some were merged"),
            few.settled.sums()[0],
            json,
        )
    };
    let (few, many) = (sizes(2000), sizes(6000));
    assert!(few.0 < 700 && many.0 <= few.0 + 20, "{few:?} {many:?}");
    assert!(few.1 <= 300 && many.1 <= 300, "{few:?} {many:?}");
    assert!(few.2 < 200 && many.2 == few.2, "{few:?} {many:?}");
    assert!(many.3 < few.3 * 11 / 10, "{few:?} {many:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_sums_are_the_same(commands in vec(0..COMMANDS, 0..200), each in 20..80_usize, waits in 0..3_usize) {
        compare_settled(&commands, each, [usize::MAX, 20, 0][waits]);
    }
}
