//! On a terminal.

use crate::harness::{Terminal, Zctrace, program, shell, zctrace};

/// Runs it on a terminal of this width: its exit status, and what was shown.
fn on_terminal(columns: u16, zctrace: Zctrace, script: &str) -> (Option<i32>, String) {
    Terminal::start(columns, &zctrace.launch_of(&shell(script))).finish()
}

#[test]
fn the_table_is_as_narrow_as_the_terminal() {
    for columns in [40, 60, 100] {
        let (code, shown) = on_terminal(columns, zctrace(), "exit 7");
        assert_eq!(code, Some(7));
        let widest = shown.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(widest <= Some(columns.into()), "{widest:?} of {columns} columns:\n{shown}");
        assert!(shown.contains("mmap") && shown.contains("calls"), "{shown}");
    }
}

#[test]
fn it_is_coloured_unless_the_environment_says_otherwise() {
    let is_coloured = |zctrace: Zctrace| on_terminal(80, zctrace, "true").1.contains('\x1b');
    let terminal = || zctrace().env("TERM", "xterm");
    assert!(is_coloured(terminal()));
    assert!(!is_coloured(terminal().env("NO_COLOR", "1")));
    assert!(is_coloured(terminal().env("NO_COLOR", "")), "empty does not count");
    assert!(!is_coloured(zctrace().env("TERM", "dumb")));
    assert!(!is_coloured(terminal().option("--color=never")));
    assert!(is_coloured(zctrace().env("TERM", "dumb").option("--color=always")));
}

#[test]
fn ctrl_c_ends_the_command_and_the_report_is_shown() {
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&shell("echo ready; exec sleep 100")));
    terminal.wait_for("ready");
    terminal.type_in("\x03");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(130));
    assert!(shown.contains("killed by SIGINT") && shown.contains("exact"), "{shown}");
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let script = "trap 'echo caught' INT; echo ready; until read line; do :; done; echo $line; exit 3";
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&shell(script)));
    terminal.wait_for("ready");
    terminal.type_in("\x03");
    terminal.wait_for("caught");
    terminal.type_in("over\n");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(3));
    assert_eq!(shown.matches("caught\r\n").count(), 1, "{shown}");
    assert!(shown.contains("exit 3"), "{shown}");
}

#[test]
fn ctrl_backslash_and_hanging_up_reach_the_command() {
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&shell("ulimit -c 0; echo ready; exec sleep 100")));
    terminal.wait_for("ready");
    terminal.type_in("\x1c");
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(131));
    assert!(shown.contains("killed by SIGQUIT"), "{shown}");
}

#[test]
fn the_terminal_is_the_commands() {
    let (code, shown) = on_terminal(80, zctrace(), "tty <&1 >&2; test -t 0 && test -t 1 && test -t 2 && echo all three");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("/dev/pts/") && shown.contains("all three"), "{shown}");
    // What is typed goes to the command.
    let mut terminal = Terminal::start(80, &zctrace().launch_of(&program("cat")));
    terminal.type_in("typed\n\x04");
    let (code, shown) = terminal.finish();
    assert_eq!((code, shown.matches("typed\r\n").count()), (Some(0), 2), "the echo, and cat's answer: {shown}");
}
