//! Many short-lived processes, programs and threads: every write is counted, also while other
//! processes are busy.

use std::collections::BTreeSet;

use zc_tests::{Figure, Figures};

use crate::harness::{Conversation, ReportRows, Run, io_of, shell, untraced, workload, zctrace};

/// This many writes of this many bytes.
fn writes(calls: u64, bytes: u64) -> Figures {
    [("write".to_owned(), Figure::of_calls(calls, bytes))].into()
}

/// All writes of a storm, and the one that prints the statement of the workload, which is among
/// them.
fn writes_and_statement(run: &Run) -> (Figure, Figure) {
    let mut all = run.stated().calls.remove("write").expect("a storm writes");
    let statement = Figure::of_calls(1, run.finished.stdout.len() as u64);
    all.calls += 1;
    all.bytes = all.bytes.zip(statement.bytes).map(|(all, one)| all + one);
    all.requested_bytes = all.bytes;
    (all, statement)
}

/// How many processes and threads there were.
#[track_caller]
fn assert_followed(run: &Run, expected: (u64, u64)) {
    let totals = &run.report.totals;
    assert_eq!((totals.processes, totals.threads), expected);
}

#[test]
fn three_hundred_programs_are_counted() {
    let run = zctrace().run_exactly(&workload("exec-storm").arg("300"));
    let (all, _) = writes_and_statement(&run);
    assert_followed(&run, (301, 301));
    assert_eq!(all.calls, 901);
    assert_eq!(run.totals().row("write"), all);
    // The loader also makes calls, the same ones in every process.
    let rows = ReportRows::of_process(run.descendants()[0]).figures();
    for child in run.descendants() {
        ReportRows::of_process(child).assert_equal(&rows);
    }
    ReportRows::of_process(run.descendants()[0]).assert_contain(&writes(3, 10));
    let command = run.stated().facts["program"].clone();
    for child in run.descendants() {
        assert_eq!(serde_json::json!(child.command), command);
    }
    assert_all_are_its_children(&run);
}

#[test]
fn sixty_four_threads_are_counted() {
    let storm = workload("thread-storm").args(&["64", "1000"]);
    let run = zctrace().by_thread().run_exactly(&storm);
    let (all, _) = writes_and_statement(&run);
    assert_followed(&run, (1, 65));
    assert_eq!(all.calls, 64_001);
    assert_eq!(run.totals().row("write"), all);
    let mut writers: Vec<_> = run.threads().collect();
    writers.retain(|thread| thread.comm.as_deref() == Some("zc-storm"));
    assert_eq!(writers.len(), 64);
    for writer in writers {
        ReportRows::new("a writer", &writer.syscalls).assert_contain(&writes(1000, 8));
    }
}

/// Makes sure that the report has only the command and its children: not zctrace, no bystander, no
/// process twice.
fn assert_all_are_its_children(run: &Run) {
    let zctrace = u32::try_from(run.finished.group.pid().as_raw_pid()).expect("positive");
    let root = run.root();
    assert_eq!(root.ppid, Some(zctrace));
    for child in run.descendants() {
        assert_eq!(child.ppid, Some(root.pid));
    }
    let processes = &run.report.processes;
    let ids: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
    assert!(!ids.contains(&zctrace), "zctrace itself is in its report");
    // The kernel may reuse an id, but not while its process lives.
    assert!(ids.len() > processes.len() / 2, "ids of processes: {ids:?}");
}

/// The calls of a process so far, as the kernel counts them.
fn calls(program: &Conversation) -> u64 {
    let count = |name| io_of(program.pid(), name);
    count("syscr") + count("syscw")
}

#[test]
fn two_thousand_processes_are_counted_beside_bystanders() {
    // They make the same calls all the time.
    let busy = "exec setpriv --pdeathsig KILL dd if=/dev/zero of=/dev/null bs=100";
    let busy = shell(&format!("echo ready; {busy}"));
    let bystanders = [(), ()].map(|()| {
        let mut program = untraced(&busy).start();
        program.expect("ready");
        (calls(&program), program)
    });
    let zctrace = zctrace().option("--all-processes");
    let run = zctrace.run_exactly(&workload("fork-storm").arg("2000"));
    let (all, statement) = writes_and_statement(&run);
    assert_followed(&run, (2001, 2001));
    assert_eq!(all.calls, 6001);
    assert_eq!(run.totals().row("write"), all);
    assert_eq!(ReportRows::of_process(run.root()).row("write"), statement);
    for child in run.descendants() {
        ReportRows::of_process(child).assert_equal(&writes(3, 10));
    }
    assert_all_are_its_children(&run);
    for (before, program) in bystanders {
        let more = calls(&program) - before;
        assert!(more > 100, "the bystander made only {more} calls meanwhile");
    }
}

#[test]
fn json_lists_the_busiest_processes_and_the_sums_have_all() {
    // 2,000 processes are more than are kept, so most are merged while the trace goes on.
    for children in [600, 2000] {
        let storm = workload("fork-storm").arg(children.to_string());
        let run = zctrace().run_exactly(&storm);
        let (all, statement) = writes_and_statement(&run);
        let processes = children + 1;
        assert_followed(&run, (processes, processes));
        assert_eq!(run.report.processes.len(), 500);
        assert_eq!(run.totals().row("write"), all);
        // The launched process is listed.
        assert_eq!(ReportRows::of_process(run.root()).row("write"), statement);
        for child in run.descendants() {
            ReportRows::of_process(child).assert_equal(&writes(3, 10));
        }
        let programs = run.report.programs.iter();
        let in_programs: u64 = programs.map(|program| program.runs).sum();
        assert_eq!(in_programs, processes);
        let left_out = processes - 500;
        let listed = format!("{left_out} of {processes} processes are not listed");
        run.assert_noted(&format!("{listed}, those with the least CPU time"));
    }
    for option in ["--by=process", "--all"] {
        let zctrace = zctrace().option(option);
        let report = zctrace.run(&workload("fork-storm").arg("600")).report;
        let found = (report.processes.len(), report.notes.len());
        assert_eq!(found, (601, 0), "{option}");
    }
}
