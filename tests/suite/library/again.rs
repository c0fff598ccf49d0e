//! Many traces in one process, which loads the programs once where it can.

use std::{collections::BTreeSet, fs, thread, time::Duration};

use zctrace::{Command, RunError, Sysno, Tracer, report::State};

use super::closure::{alone, counted_writes, write_times};

/// How many rounds there are; `ZC_TRACES` sets another number of traces.
const TRACES: usize = 60;

/// A command that writes so many times, in so many processes.
fn writes(calls: usize, processes: usize) -> Command {
    let mut command = Command::new("sh");
    let dd = format!("dd if=/dev/zero of=/dev/null bs=1 count={calls} status=none");
    let all = vec![format!("{dd} &"); processes].join(" ");
    command.args(["-c", &format!("{all} wait")]);
    command
}

#[track_caller]
fn assert_counted(calls: usize, processes: usize) {
    let report = writes(calls, processes).wait_all().report().expect("runs");
    assert!(report.exact, "{:?}", report.losses);
    assert_eq!(report.totals.processes, processes as u64 + 1);
    assert_eq!(counted_writes(&report), (calls * processes) as u64);
}

/// Leaves a process running, which writes while the next traces run.
fn leave_a_daemon() {
    let script =
        "(for i in $(seq 20); do echo; sleep 0.02; done) >/dev/null 2>&1 & echo hi >/dev/null";
    let report = Command::new("sh").args(["-c", script]).report();
    let report = report.expect("runs");
    let is_running = |process: &&zctrace::report::Process| process.state == State::Running;
    assert!(report.processes.iter().filter(is_running).count() > 0);
}

fn one_of_each(round: usize) {
    match round % 6 {
        0 => assert_counted(100 + round, 1),
        1 => assert_counted(3, 40),
        2 => leave_a_daemon(),
        3 => {
            let report = Command::new("sh").args(["-c", "kill -9 $$"]).report();
            let report = report.expect("runs");
            assert_eq!((report.exit.signal, counted_writes(&report)), (Some(9), 0));
        }
        4 => {
            let mut command = Command::new("sleep");
            let ended = command
                .arg("60")
                .timeout(Duration::from_millis(30))
                .report();
            assert!(matches!(ended, Err(RunError::TimedOut { .. })), "{ended:?}");
        }
        _ => {
            let ((), report) = zctrace::trace(|| write_times(round as u64)).expect("is traced");
            assert_eq!(counted_writes(&report), round as u64);
            assert_eq!(report.syscall(Sysno::read).expect("was counted").calls, 0);
        }
    }
}

#[test]
fn no_trace_counts_anything_of_an_earlier_one() {
    alone(|| {
        let traces =
            std::env::var("ZC_TRACES").map_or(TRACES, |text| text.parse().expect("a number"));
        (0..traces / 2).for_each(one_of_each);
        thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..traces / 16 {
                        let calls = (100 * thread + round) as u64;
                        let result = zctrace::trace(|| write_times(calls));
                        assert_eq!(counted_writes(&result.expect("is traced").1), calls);
                    }
                });
            }
        });
        let resident = || {
            let statm = fs::read_to_string("/proc/self/statm").expect("readable");
            let pages = statm.split(' ').nth(1).expect("is there");
            pages.parse::<u64>().expect("a number")
        };
        let before = resident();
        (0..traces).for_each(|_| drop(zctrace::trace(|| ()).expect("is traced")));
        let pages = resident().saturating_sub(before);
        assert!(pages < 1024, "{pages} pages more after {traces} traces");
    });
}

/// The programs that this process keeps attached, by their numbers in the kernel.
fn attached_programs() -> BTreeSet<String> {
    let descriptors = fs::read_dir("/proc/self/fdinfo").expect("readable");
    let infos = descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let of_links = infos.filter(|info| info.contains("link_type:"));
    let number = |info: String| {
        let mut lines = info.lines();
        lines
            .find(|line| line.starts_with("prog_id:"))
            .map(str::to_owned)
    };
    of_links.filter_map(number).collect()
}

#[test]
fn programs_are_detached_when_nothing_is_traced_for_a_while() {
    alone(|| {
        for _ in 0..2 {
            drop(zctrace::trace(|| ()).expect("is traced"));
            assert!(!attached_programs().is_empty());
            let mut waits = 0;
            while !attached_programs().is_empty() {
                thread::sleep(Duration::from_millis(100));
                waits += 1;
                assert!(waits < 100, "{:?} are attached", attached_programs());
            }
        }
    });
}

#[test]
fn other_calls_are_counted_without_another_load() {
    alone(|| {
        let counted = |calls: &str| {
            let tracer = Tracer::new().syscalls(calls.parse().expect("calls"));
            let report = tracer.trace(|| write_times(3)).expect("is traced").1;
            let reads = report
                .syscall(Sysno::read)
                .map_err(drop)
                .map(|sums| sums.calls);
            (counted_writes(&report), reads, attached_programs())
        };
        let first = counted("write,read");
        assert_eq!((first.0, first.1), (3, Ok(0)));
        assert_eq!(counted("write,close"), (3, Err(()), first.2.clone()));
        assert_eq!(counted("write,read"), first);
    });
}
