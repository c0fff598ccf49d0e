//! On a terminal.

use std::fs;

use tempfile::tempdir;

use super::compare;
use crate::harness::{Terminal, Zctrace};

/// Compares on a terminal of this width: the exit status, and what was shown.
fn on_terminal(columns: u16, zctrace: Zctrace, commands: &[&str]) -> (Option<i32>, String) {
    Terminal::start(columns, &zctrace.launch_with(commands)).finish()
}

#[test]
fn the_page_is_as_narrow_as_the_terminal_and_lacks_nothing() {
    for columns in [40, 60, 100] {
        let (code, shown) = on_terminal(columns, compare(&["--runs=2", "-i"]), &["sleep 0.02", "exit 1", "cat /etc/passwd"]);
        assert_eq!(code, Some(0), "{shown}");
        let widest = shown.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(widest <= Some(columns.into()), "{widest:?} of {columns} columns:\n{shown}");
        for words in ["peak memory", "involuntary switches", "API", "cat /etc/passwd"] {
            assert!(shown.contains(words), "no {words:?} in {columns} columns:\n{shown}");
        }
    }
}

#[test]
fn progress_is_shown_only_where_it_can_be_erased() {
    let stages = ["timing the shell", "warming up", "timing  ", "tracing"];
    let shown_as = |term| on_terminal(80, compare(&["--runs=2", "--warmup=1"]).env("TERM", term), &["true"]).1;
    let (erasable, dumb) = (shown_as("xterm"), shown_as("dumb"));
    for stage in stages {
        assert!(erasable.contains(stage), "no {stage:?}: {erasable}");
        assert!(!dumb.contains(stage), "{stage:?}: {dumb}");
    }
    // Elsewhere stderr stays empty.
    let finished = compare(&["--runs=2"]).env("TERM", "xterm").launch_with(&["true"]).finish();
    assert_eq!(finished.stderr, "");
}

#[test]
fn ctrl_c_ends_it_all() {
    let dir = tempdir().expect("a directory");
    let zctrace = compare(&["--runs=2", "--export", "json", "out.json"]).dir(dir.path());
    let command = "sleep 100 & echo $! > /dev/tty; wait";
    let mut terminal = Terminal::start(80, &zctrace.launch_with(&[command]));
    terminal.wait_for("\n");
    terminal.type_in("\x03");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("zctrace: interrupted by SIGINT"), "{shown}");
    let pid = shown.lines().find_map(|line| line.trim().parse::<u32>().ok()).expect("the command's child");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "still running");
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0, "a file is left");
}
