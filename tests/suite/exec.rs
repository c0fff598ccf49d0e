//! A process that executes another program: which calls, figures and transfers belong to which.

use zctrace::report::Usage;

use crate::harness::{ReportRows, TestDir, Transfers as _, each_backend, shell, zctrace};

/// A shell that copies a line by itself, and then executes `cat`.
const SCRIPT: &str = "read -r line < first && printf %s \"$line\" > line && exec cat second > out";

fn directory() -> TestDir {
    let directory = TestDir::with("first", "hello\n");
    directory.write("second", vec![7; 300_001]);
    directory
}

#[test]
fn an_exec_begins_another_program_of_the_same_process() {
    for zctrace in each_backend() {
        let directory = directory();
        let run = zctrace.dir(directory.path()).run(&shell(SCRIPT));
        let [before, after] = run.report.processes.as_slice() else {
            panic!("two programs: {:?}", run.report.processes)
        };
        assert_eq!(run.report.totals.processes, 1);
        assert_eq!((before.pid, before.state), (after.pid, after.state));
        assert_eq!((before.name(), after.name()), (Some("sh"), Some("cat")));
        assert_eq!(before.earlier_programs, [""; 0]);
        assert_eq!(after.earlier_programs, ["sh"]);
        assert_eq!(after.name_after_others().as_deref(), Some("sh then cat"));
        let written = |process| ReportRows::of_process(process).row("write").bytes;
        // cat copies in the kernel.
        assert_eq!((written(before), written(after).unwrap_or(0)), (Some(5), 0));
        let transfer = run.report.transfer("second", "out");
        assert_eq!(transfer.bytes, Some(300_001));
        let mut of_cat = run.report.transfers_of(after);
        assert!(of_cat.any(|one| one == transfer));
    }
}

#[test]
fn cpu_time_switches_and_faults_are_divided_at_the_exec() {
    let directory = directory();
    let run = zctrace().ebpf().dir(directory.path()).run(&shell(SCRIPT));
    let figures = |usage: &Usage| {
        let (faults, switches) = (usage.page_faults, usage.context_switches);
        [usage.cpu_ns(), faults.minor, switches.voluntary]
    };
    let processes = run.report.processes.iter();
    let parts = processes.map(|process| figures(&process.usage));
    let sum = parts.reduce(|one, other| [0, 1, 2].map(|index| Some(one[index]? + other[index]?)));
    assert_eq!(sum, Some(figures(&run.report.totals.usage)));
    for process in &run.report.processes {
        let faults = process.usage.page_faults.minor;
        assert!(faults > Some(10), "each maps libraries: {faults:?}");
    }
}
