//! What the library has for tests: the attribute, the macro, and figures for snapshots.

use std::{env, error::Error, panic::catch_unwind, thread};

use zctrace::{
    Command,
    testing::{self, Needs},
};

use super::closure::{alone, become_nobody, write_times};
use crate::harness::TestDir;

#[zctrace::test]
fn the_figures_of_a_closure_are_the_same_each_time() -> Result<(), Box<dyn Error>> {
    let expected = [
        "processes.count 1",
        "processes.threads 1",
        "write.bytes 7",
        "write.calls 7",
    ];
    for _ in 0..3 {
        let ((), report) = zctrace::trace(|| write_times(7))?;
        // How the file is opened and closed is up to the standard library.
        let figures = report.steady_figures();
        let lines = figures.lines().filter(|line| line.starts_with(['p', 'w']));
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        zctrace::assert_syscalls!(report, "write.calls == 7", "read.calls == 0");
    }
    Ok(())
}

#[zctrace::test]
fn the_figures_of_a_command_have_its_transfers() {
    let dir = TestDir::with("in", "bytes");
    let copy = Command::new("cp")
        .args(["in", "out"])
        .current_dir(dir.path())
        .report();
    let figures = copy.expect("cp runs").steady_figures();
    assert!(
        figures.ends_with("in -> out: 5 bytes by copy_file_range\n"),
        "{figures}"
    );
    assert!(figures.contains("copy_file_range.bytes 5\n"), "{figures}");
    assert!(
        !figures.contains("time.") && !figures.contains("faults."),
        "{figures}"
    );
}

#[zctrace::test]
fn a_test_can_ask_what_a_command_synced_in_order() {
    let dir = TestDir::new();
    let run = |script: &str| {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).current_dir(dir.path());
        command.syncs().report().expect("sh runs")
    };
    let saved = run("echo x >f && sync f && sync .");
    zctrace::assert_syscalls!(saved, r#"durable("f")"#, r#"syncs("f").count == 1"#);
    let unsaved = run("echo y >f");
    let error = unsaved.expect(r#"durable("f")"#).expect_err("it fails");
    assert!(error.to_string().contains("f: not synced"), "{error}");
}

#[zctrace::test]
#[should_panic(expected = "write.calls == 8")]
fn an_expectation_that_fails_says_what_was_found() {
    let ((), report) = zctrace::trace(|| write_times(7)).expect("is traced");
    zctrace::assert_syscalls!(report, "write.calls == 7", "write.calls == 8");
}

fn must_not_run() {
    panic!("it is skipped");
}

#[test]
fn where_nothing_can_be_traced_a_test_is_skipped_and_fails_in_ci() {
    alone(|| {
        let outcome = thread::spawn(|| {
            become_nobody();
            // SAFETY: no other thread of this process looks at variables.
            unsafe { env::remove_var("CI") };
            testing::run("it", Needs::Ebpf, must_not_run);
            // strace can trace a command, and no closure.
            testing::run("a command", Needs::Either, || {
                let report = Command::new("true").report().expect("is traced");
                assert_eq!(report.backend, "strace");
            });
            testing::run("a closure", Needs::Either, || {
                zctrace::trace(|| ()).expect("is skipped, not failed");
            });
            testing::run("a closure, with ?", Needs::Either, || {
                zctrace::trace(|| ()).map(drop)
            })
            .expect("is skipped");
            // SAFETY: as above.
            unsafe { env::set_var("CI", "true") };
            let failed = catch_unwind(|| testing::run("it", Needs::Ebpf, must_not_run));
            let message = failed.expect_err("fails").downcast::<String>();
            assert!(message.is_ok_and(|text| text.starts_with("nothing can be traced: ")));
        });
        outcome.join().expect("does not panic");
    });
}
