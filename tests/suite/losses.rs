//! When there is more work than room, the report says so, and no number is too large.

use zc_tests::{Figure, Figures};

use crate::harness::{ReportRows, Run, program, workload, zctrace};

#[test]
fn with_room_for_few_rows_the_report_is_exact_or_a_lower_bound() {
    let (mut exact, mut bounds) = (0, 0);
    for rows in 1..=40 {
        let zctrace = zctrace().by_thread().option(format!("--max-rows={rows}"));
        let run = zctrace.run(&workload("known"));
        let stated = run.stated();
        if run.report.exact {
            run.thread("zc-known").assert_equal(&stated.calls);
            exact += 1;
        } else {
            run.thread("zc-known").assert_at_most(&stated.calls);
            bounds += 1;
        }
    }
    assert!(
        exact > 0 && bounds > 0,
        "{exact} exact, {bounds} lower bounds"
    );
}

#[test]
fn with_room_for_three_rows_the_report_names_what_was_lost_and_the_remedy() {
    let little = || zctrace().option("--max-rows=3");
    let run = little().run(&workload("known"));
    let losses = &run.report.losses;
    assert!(!run.report.exact, "it cannot be exact");
    assert!(losses.keys().eq(["calls_without_files", "uncounted_calls"]));
    assert!(losses.values().all(|&count| count > 0), "{losses:?}");

    let shown = little().show(&workload("known"));
    shown.exits(0).never_says("exact");
    let head: Vec<&str> = shown.stderr.lines().take(7).collect();
    assert!(head[2].ends_with("lower bound"), "{head:?}");
    let is_remedy = |line: &&&str| {
        line.starts_with("lower bound: calls not counted: ") && line.contains("--max-rows")
    };
    assert_eq!(head.iter().filter(is_remedy).count(), 1, "{head:?}");
}

#[test]
fn with_room_for_few_errnos_errors_are_not_overstated() {
    // With room for all rows of both threads, there may still be too little room for the errnos.
    let needed = zctrace().by_thread().run(&workload("errnos"));
    let rows: Vec<_> = needed
        .threads()
        .flat_map(|thread| &thread.syscalls)
        .collect();
    let errnos: usize = rows.iter().map(|row| row.errnos.len()).sum();
    let rows = rows.len();
    let stated = needed.stated();
    let enough = rows.max(errnos);
    for room in 1..enough {
        let zctrace = zctrace().by_thread().option(format!("--max-rows={room}"));
        let run = zctrace.run(&workload("errnos"));
        // There is as much room again for calls with files.
        let may_be_exact = room >= enough.div_ceil(2);
        assert!(
            !run.report.exact || may_be_exact,
            "{room} for {rows} and {errnos} errnos"
        );
        run.thread("zc-errnos").assert_at_most(&stated.calls);
    }
}

/// Makes sure that the totals of a storm that was only partly followed are not too large.
fn assert_totals_at_most(run: &Run, name: &str, most: Figure) {
    let mut expected: Figures = run.totals().figures();
    expected.insert(name.to_owned(), most);
    run.totals().assert_at_most(&expected);
}

#[test]
fn with_room_for_one_task_its_children_and_threads_are_not_followed() {
    for (storm, unfollowed) in [
        (workload("fork-storm").arg("200"), 200),
        (workload("thread-storm").args(&["64", "100"]), 64),
    ] {
        let run = zctrace().by_thread().option("--max-tasks=1").run(&storm);
        let statement = run.finished.stdout.len() as u64;
        run.stated();
        assert!(!run.report.exact);
        assert_eq!(run.report.losses["unfollowed_tasks"], unfollowed);
        // A task that is followed is counted to its end.
        let totals = &run.report.totals;
        assert_eq!((totals.processes, totals.threads), (1, 1));
        assert_eq!(run.totals().row("write"), Figure::of_calls(1, statement));
    }
    let alone = workload("write").args(&["50", "10"]);
    let run = zctrace().option("--max-tasks=1").run_exactly(&alone);
    run.finished.successful();
    assert_eq!(run.totals().row("write"), Figure::of_calls(50, 10));
}

/// This many writes of this many bytes in all.
fn writes(calls: u64, bytes: u64) -> Figure {
    Figure {
        calls,
        ..Figure::of_calls(1, bytes)
    }
}

#[test]
fn with_room_for_exactly_its_threads_all_are_counted() {
    // All slots are taken then, so that many tasks are not in the slot that their address chooses.
    let zctrace = zctrace().by_thread().option("--max-tasks=64");
    let run = zctrace.run_exactly(&workload("thread-storm").args(&["63", "500"]));
    let bytes = 63 * 500 * 8 + run.finished.stdout.len() as u64;
    run.stated();
    assert_eq!(run.report.totals.threads, 64);
    assert_eq!(run.totals().row("write"), writes(31_501, bytes));
}

#[test]
fn with_room_for_few_tasks_those_followed_are_counted_to_the_end() {
    for tasks in [2, 5, 20, 33] {
        let zctrace = zctrace().option(format!("--max-tasks={tasks}"));
        let run = zctrace.run(&workload("fork-storm").arg("100"));
        let bytes = 3000 + run.finished.stdout.len() as u64;
        run.stated();
        assert_totals_at_most(&run, "write", writes(301, bytes));
        // If all messages about a child were lost, only its calls are known. They are in a process
        // with the id 0.
        let zctrace = u32::try_from(run.finished.group.pid().as_raw_pid()).ok();
        let mut children: Vec<_> = run.report.processes.iter().collect();
        children.retain(|process| process.pid != 0 && process.ppid != zctrace);
        for child in &children {
            assert_eq!(ReportRows::of_process(child).row("write").calls, 3);
        }
        // How many children are alive at the same time depends on the scheduler.
        let losses = &run.report.losses;
        let is_exact = children.len() == 100 && losses.is_empty();
        assert_eq!(run.report.exact, is_exact, "{losses:?}");
    }
}

#[test]
fn events_that_nobody_reads_are_counted_as_lost() {
    // zctrace is stopped while far more processes start and end than fit into its buffer.
    let script = r#"kill -STOP $PPID; "$@"; kill -CONT $PPID"#;
    let storm = workload("fork-storm")
        .arg("500")
        .through(&["sh", "-c", script, "sh"]);
    let run = zctrace().option("--max-tasks=64").run(&storm);
    let statement = run.finished.stdout.len() as u64;
    run.stated();
    let losses = &run.report.losses;
    assert!(losses["lost_events"] > 0 && !run.report.exact, "{losses:?}");
    // The calls are summed up in the kernel, so none is lost.
    assert_eq!(run.totals().row("write"), writes(1501, 15_000 + statement));
}

#[test]
fn a_storm_with_little_room_is_exact_or_says_why_not() {
    for tasks in [1, 2, 33, 34, 40] {
        let zctrace = zctrace().option(format!("--max-tasks={tasks}"));
        let run = zctrace.run(&workload("exec-storm").arg("100"));
        run.stated();
        let calls = run.totals().row("write").calls;
        let is_right = calls == 301 || (calls < 301 && !run.report.exact);
        assert!(is_right, "{tasks}: {calls} {:?}", run.report.losses);
        assert_eq!(run.report.exact, run.report.losses.is_empty());
    }
}

#[test]
fn a_command_that_does_nothing_loses_nothing() {
    let zctrace = zctrace().syscalls("sendfile").option("--max-rows=1");
    let run = zctrace.run_exactly(&program("true"));
    run.totals().assert_equal(&Figures::new());
}
