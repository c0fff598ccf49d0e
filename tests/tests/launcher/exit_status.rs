//! The command's exit status is zctrace's.

use zctrace::report::Exit;

use crate::harness::{program, shell, workload, zctrace};

#[test]
fn a_status_is_passed_through() {
    for status in [0, 1, 7, 125, 126, 127, 255] {
        let run = zctrace().run(&workload("exit-code").arg(status.to_string()));
        assert_eq!(run.finished.code, Some(status));
        assert_eq!(run.report.exit, Exit { code: Some(status), signal: None });
        run.assert_exact();
    }
}

#[test]
fn a_fatal_signal_is_128_and_its_number() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("HUP", 1), ("USR1", 10), ("ABRT", 6), ("SEGV", 11)] {
        let run = zctrace().run(&workload("kill-self").arg(name));
        assert_eq!(run.finished.code, Some(128 + number), "SIG{name}");
        assert_eq!(run.report.exit, Exit { code: None, signal: Some(number) });
        run.assert_exact();
    }
}

#[test]
fn a_script_without_a_first_line_for_it_is_run_by_the_shell_as_env_does() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("script");
    std::fs::write(&script, "exit 9\n").expect("ours");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("ours");
    assert_eq!(zctrace().run(&program(&script)).finished.code, Some(9));
}

#[test]
fn the_status_of_the_command_counts_and_not_that_of_its_children() {
    assert_eq!(zctrace().run(&shell("(exit 3); kill -KILL $$ & wait; exit 4")).finished.code, Some(137));
    assert_eq!(zctrace().run(&shell("(exit 3); exit 4")).finished.code, Some(4));
}

#[test]
fn a_run_may_be_named() {
    let finished = zctrace().launch_with(&["run", "--by=total", "--", "sh", "-c", "exit 6"]).finish();
    assert_eq!(finished.code, Some(6));
    assert!(finished.stderr.contains("exit 6, wall "), "{}", finished.stderr);
}

#[test]
fn a_command_needs_no_dashes_before_it_and_keeps_its_own() {
    let cases: [(&[&str], &str); 5] = [
        (&["printf", "<%s>", "-n", "--version", "--"], "<-n><--version><-->"),
        (&["--", "printf", "<%s>", "--", "-n", "--"], "<--><-n><-->"),
        (&["run", "printf", "<%s>", "--help"], "<--help>"),
        (&["printf", "<%s>", "check"], "<check>"),
        (&["--by=total", "sh", "-c", "printf \"$1\"", "--", "<x>"], "<x>"),
    ];
    for (words, stdout) in cases {
        let finished = zctrace().launch_with(words).finish();
        assert_eq!(
            (finished.code, String::from_utf8_lossy(&finished.stdout).as_ref()),
            (Some(0), stdout),
            "{words:?}: {}",
            finished.stderr
        );
        assert!(finished.stderr.contains("exit 0, wall "), "{}", finished.stderr);
    }
}
