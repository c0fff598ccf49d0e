//! A process that executes another program: which calls, figures and transfers belong to which.

use zctrace::report::{Process, Usage};

use crate::harness::{Rows, TestDir, Transfers as _, each_backend, shell, zctrace};

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
        assert_eq!(
            (before.pid, before.state, run.report.totals.processes),
            (after.pid, after.state, 1)
        );
        assert_eq!((before.name(), after.name()), (Some("sh"), Some("cat")));
        let earlier = |process: &Process| process.earlier_programs.clone();
        assert_eq!(
            (earlier(before), earlier(after)),
            (vec![], vec!["sh".to_owned()])
        );
        assert_eq!(after.name_after_others().as_deref(), Some("sh -> cat"));
        assert_eq!(Rows::of_process(before).row("write").bytes, Some(5));
        assert_eq!(
            Rows::of_process(after).row("write").bytes.unwrap_or(0),
            0,
            "cat copies in the kernel"
        );
        let transfer = run.report.transfer("second", "out");
        assert_eq!(transfer.bytes, Some(300_001));
        assert!(
            run.report
                .transfers_of(after)
                .any(|of_cat| of_cat == transfer)
        );
    }
}

#[test]
fn cpu_time_switches_and_faults_are_divided_at_the_exec() {
    let directory = directory();
    let run = zctrace().ebpf().dir(directory.path()).run(&shell(SCRIPT));
    let figures = |usage: &Usage| {
        [
            usage.cpu_ns(),
            usage.page_faults.minor,
            usage.context_switches.voluntary,
        ]
    };
    let parts = run
        .report
        .processes
        .iter()
        .map(|process| figures(&process.usage));
    let sum = parts.reduce(|one, other| [0, 1, 2].map(|index| Some(one[index]? + other[index]?)));
    assert_eq!(sum, Some(figures(&run.report.totals.usage)));
    for process in &run.report.processes {
        assert!(
            process.usage.page_faults.minor > Some(10),
            "each maps libraries"
        );
    }
}
