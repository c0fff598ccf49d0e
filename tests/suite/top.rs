//! The live view: on a terminal of 80 columns and 24 lines, which it gives back however it ends.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use zctrace::report::Report;

use crate::harness::{
    ProcessGroup, Program, Terminal, TestDir, Zctrace, copy_program, exists, program, python,
    shell, wait_until, zctrace,
};

/// What switches to the second screen of a terminal, and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// What shows the cursor.
const SHOW_CURSOR: &str = "\x1b[?25h";

/// A script that lasts until the test makes the file `go`, and then does this. It ends with the
/// test's directory.
fn until_go(then: &str) -> Program {
    shell(&format!(
        "echo $PPID >zctrace.pid; \
         while test ! -e go && test -e zctrace.pid; do sleep 0.05; done; {then}"
    ))
}

/// The live view of a program, on a terminal whose modes are in the files `before` and `after`.
fn start_with(zctrace: Zctrace, dir: &TestDir, program: &Program) -> Terminal {
    let modes = "stty -g >before; \"$@\"; code=$?; stty -g >after; exit $code";
    let zctrace = zctrace.by_script(modes).env("TERM", "xterm");
    Terminal::start(80, &zctrace.dir(dir.path()).launch_of(program))
}

fn start(dir: &TestDir, program: &Program) -> Terminal {
    start_with(zctrace().option("top"), dir, program)
}

/// Waits for the end, and makes sure that the terminal is as it was: returns the exit status, and
/// what was shown after the view.
#[track_caller]
fn finish(terminal: Terminal, dir: &TestDir) -> (Option<i32>, String) {
    let (code, shown) = terminal.finish();
    let count = |sign: &str| shown.matches(sign).count();
    assert_eq!((count(ENTER), count(LEAVE)), (1, 1), "{shown:?}");
    let (_, after) = shown.split_once(LEAVE).expect("it was left");
    let is_last = after.contains(SHOW_CURSOR) && !after.contains("calls/s");
    assert!(is_last, "{after:?}");
    assert_eq!(dir.read("before"), dir.read("after"));
    (code, after.to_owned())
}

#[test]
fn the_view_shows_a_running_command_and_the_report_at_the_end_is_of_everything() {
    let dir = TestDir::new();
    let script = "import os\nwritten = 0\nnull = os.open('/dev/null', os.O_WRONLY)\n\
                  while not os.path.exists('go'):\n    os.write(null, b'x' * 100)\n    written += 1\n\
                  open('written', 'w').write(str(written))";
    let zctrace = zctrace().option("top").json_to("report.json");
    let mut terminal = start_with(zctrace, &dir, &python(script));
    for word in ["calls/s", "programs", "python3", "exact"] {
        terminal.wait_for(word);
    }
    terminal.type_in("P\r");
    terminal.wait_for("write");
    terminal.type_in(" ");
    terminal.wait_for("FROZEN");
    terminal.type_in(" /no-such-name\r");
    terminal.wait_for("'no-such-name'");
    terminal.type_in("\x1b?");
    terminal.wait_for("back");
    dir.write("go", "");
    let (code, after) = finish(terminal, &dir);
    assert_eq!(
        (code, after.contains("python3")),
        (Some(0), false),
        "{after:?}"
    );
    let report = Report::from_json(&dir.read("report.json")).expect("a report");
    // The file with their number is written, too.
    let written: u64 = dir.read("written").parse().expect("a number");
    let writes = report
        .totals
        .syscalls
        .iter()
        .find(|call| call.name == "write");
    assert_eq!(writes.map(|call| call.calls), Some(written + 1));
    assert!(report.exact);
}

#[test]
fn the_terminal_is_as_before_however_the_command_ends() {
    for (then, status) in [
        ("exit 7", 7),
        ("kill -9 $$", 137),
        // To zctrace, which passes it on.
        ("kill -TERM $PPID; exec sleep 100", 143),
    ] {
        let dir = TestDir::new();
        let mut terminal = start(&dir, &until_go(then));
        terminal.wait_for("calls/s");
        dir.write("go", "");
        let (code, after) = finish(terminal, &dir);
        assert_eq!(code, Some(status), "{then}: {after}");
        assert!(after.contains("zctrace: sh -c"), "{after}");
    }
}

#[test]
fn control_c_is_for_the_command_and_q_leaves_it_running() {
    let dir = TestDir::new();
    let mut terminal = start(&dir, &until_go("exit 7"));
    terminal.wait_for("calls/s");
    terminal.type_in("\x03");
    let (code, after) = finish(terminal, &dir);
    assert_eq!(code, Some(130), "{after}");

    let dir = TestDir::new();
    // It outlives the terminal.
    let program = until_go("echo done >done").through(&["nohup"]);
    let mut terminal = start(&dir, &program);
    terminal.wait_for("calls/s");
    terminal.type_in("q");
    let (code, after) = finish(terminal, &dir);
    assert_eq!(code, Some(0), "{after}");
    assert!(after.contains(" still run"), "{after}");
    let zctrace = dir.wait_for_line("zctrace.pid");
    wait_until("zctrace has ended", || !exists(&zctrace));
    dir.write("go", "");
    assert_eq!(dir.wait_for_line("done"), "done");
}

#[test]
fn a_terminal_that_hangs_up_ends_the_view() {
    let dir = TestDir::new();
    // The command outlives the terminal.
    let program = until_go("echo done >done").through(&["nohup"]);
    let mut terminal = start(&dir, &program);
    terminal.wait_for("calls/s");
    let zctrace = dir.wait_for_line("zctrace.pid");
    drop(terminal);
    wait_until("zctrace has ended", || !exists(&zctrace));
    dir.write("go", "");
    assert_eq!(dir.wait_for_line("done"), "done");
}

#[test]
fn a_command_that_is_over_at_once_or_cannot_run_shows_no_view() {
    let dir = TestDir::new();
    for (program, status) in [(shell("exit 7"), 7), (program("no-such-command"), 127)] {
        let (code, shown) = start(&dir, &program).finish();
        let is_plain = !shown.contains(ENTER) && shown.contains("zctrace: ");
        assert!(code == Some(status) && is_plain, "{shown:?}");
        assert_eq!(dir.read("before"), dir.read("after"));
    }
}

#[test]
fn the_output_of_the_command_is_not_on_the_view() {
    let dir = TestDir::new();
    let mut terminal = start(&dir, &until_go("echo to-stdout; echo to-stderr >&2"));
    terminal.wait_for("calls/s");
    dir.write("go", "");
    let (code, after) = finish(terminal, &dir);
    let is_shown = after.lines().any(|line| line.starts_with("to-std"));
    assert!(code == Some(0) && !is_shown, "{after}");
    // It goes where zctrace's own streams go.
    let to_file = zctrace()
        .by_script("\"$@\" >out")
        .env("TERM", "xterm")
        .option("top");
    let echo = to_file.dir(dir.path()).launch_of(&shell("echo to-stdout"));
    assert_eq!(Terminal::run(80, &echo).0, Some(0));
    assert_eq!(dir.read("out"), "to-stdout\n");
}

#[test]
fn the_view_of_the_machine_has_what_others_started() {
    let dir = TestDir::new();
    copy_program(Path::new("/usr/bin/yes"), &dir.join("outsider"));
    let mut command = Command::new(dir.join("outsider"));
    let _outsider = ProcessGroup::start(command.stdout(Stdio::null()));
    let modes = "stty -g >before; \"$@\"; code=$?; stty -g >after; exit $code";
    let zctrace = zctrace().options(&["top", "-a"]).by_script(modes);
    let zctrace = zctrace.env("TERM", "xterm").dir(dir.path());
    let mut terminal = Terminal::start(80, &zctrace.launch());
    terminal.wait_for("calls/s");
    terminal.wait_for("outsider");
    terminal.type_in("q");
    let (code, after) = finish(terminal, &dir);
    assert_eq!(code, Some(0), "{after}");
}
