//! The status line: a sign of life on the terminal, where it cannot mix with what the command
//! writes. And the pager.

use crate::harness::{Program, Terminal, TestDir, Zctrace, each_backend, shell, zctrace};

/// How the status line begins, which no report does.
const STATUS: &str = "\rzctrace: ";
/// What erases it.
const ERASED: &str = "\r\x1b[K";

/// A script that lasts until the test makes the file `go`.
const LASTING: &str = "echo output; until test -e go; do sleep 0.05; done";
/// A script that lasts longer than it takes zctrace to show a line, where it shows one.
const LONG: &str = "echo output; sleep 2";

/// zctrace in a shell, on a terminal of this type. `redirections` are those of zctrace, and so of
/// the command.
fn in_shell(
    zctrace: Zctrace,
    kind: &str,
    redirections: &str,
    dir: &TestDir,
    script: &str,
) -> Program {
    let line = format!("\"$@\" {redirections}");
    let zctrace = zctrace.by_script(&line);
    zctrace
        .env("TERM", kind)
        .dir(dir.path())
        .launch_of(&shell(script))
}

/// The same with stdout and stderr in files.
fn with_files(zctrace: Zctrace, dir: &TestDir, script: &str) -> Program {
    in_shell(zctrace, "xterm", ">out 2>err", dir, script)
}

#[test]
fn a_run_that_lasts_shows_a_line_that_leaves_nothing_behind() {
    for zctrace in each_backend() {
        let dir = TestDir::new();
        let mut terminal = Terminal::start(80, &with_files(zctrace, &dir, LASTING));
        terminal.wait_for(STATUS);
        terminal.wait_for(" calls, ");
        dir.write("go", "");
        let (code, shown) = terminal.finish();
        assert_eq!(code, Some(0));
        let is_right = shown.contains(" process") && shown.contains(" calls, ");
        assert!(is_right, "{shown:?}");
        // Every line is at the same place of the screen, and the last one is erased.
        let is_erased = !shown.contains('\n') && shown.ends_with(ERASED);
        assert!(is_erased, "{shown:?}");
        assert_eq!(dir.read("out"), "output\n");
        let report = dir.read("err");
        let is_plain = !report.contains(['\x1b', '\r']);
        assert!(report.contains("exit 0") && is_plain, "{report:?}");
    }
}

#[test]
fn the_line_fits_a_narrow_terminal() {
    let dir = TestDir::new();
    let mut terminal = Terminal::start(20, &with_files(zctrace(), &dir, LASTING));
    terminal.wait_for("\x1b[K");
    dir.write("go", "");
    let (_, shown) = terminal.finish();
    let (line, _) = shown.split_once("\x1b[K").expect("a line");
    let is_narrow = line.starts_with(STATUS) && line.trim_start().len() == 19;
    assert!(is_narrow, "{shown:?}");
}

#[test]
fn no_line_is_shown_where_it_could_mix_with_output() {
    let cases = [
        (&[][..], "xterm", ""),
        (&[], "xterm", ">out"),
        (&[], "xterm", "2>err"),
        (&[], "xterm", "2>err | cat"),
        (&["--no-status"], "xterm", ">out 2>err"),
        (&[], "dumb", ">out 2>err"),
    ];
    let terminals = cases.map(|(options, kind, redirections)| {
        let dir = TestDir::new();
        let launch = in_shell(zctrace().options(options), kind, redirections, &dir, LONG);
        (Terminal::start(80, &launch), redirections, dir)
    });
    for (terminal, redirections, _dir) in terminals {
        let (code, shown) = terminal.finish();
        let is_shown = shown.contains(STATUS) || shown.contains(ERASED);
        assert!(code == Some(0) && !is_shown, "{redirections}: {shown:?}");
    }
}

#[test]
fn a_command_that_takes_the_terminal_keeps_it() {
    let dir = TestDir::new();
    // As a program does that asks for a password.
    let script = "stty -echo </dev/tty; sleep 2; stty echo </dev/tty; sleep 1.5";
    let (code, shown) = Terminal::run(80, &with_files(zctrace(), &dir, script));
    assert_eq!((code, shown.as_str()), (Some(0), ""));
}

#[test]
fn an_interim_report_comes_where_the_final_one_goes_and_the_line_is_shown_again() {
    let dir = TestDir::new();
    let script = "until test -e go; do sleep 0.05; done; kill -USR1 $PPID; \
                  until test -s err; do sleep 0.05; done";
    let mut terminal = Terminal::start(80, &with_files(zctrace(), &dir, script));
    terminal.wait_for(STATUS);
    dir.write("go", "");
    let (code, shown) = terminal.finish();
    assert!(code == Some(0) && shown.ends_with(ERASED), "{shown:?}");
    let reports = dir.read("err");
    assert_eq!(reports.matches("zctrace: sh -c").count(), 2, "{reports}");
}

/// Runs zctrace on a terminal with this pager.
fn paged(pager: &str, zctrace: Zctrace, script: &str) -> (Option<i32>, String) {
    let zctrace = zctrace.option("--pager").env("PAGER", pager);
    Terminal::run(80, &zctrace.launch_of(&shell(script)))
}

#[test]
fn the_pager_gets_the_report_and_the_exit_status_stays_that_of_the_command() {
    let (code, shown) = paged("sed s/^/paged:/", zctrace(), "exit 7");
    assert_eq!(code, Some(7));
    let is_paged = shown.contains("paged:exit 7, wall") && !shown.contains("\nexit 7");
    assert!(is_paged, "{shown}");
    // A user who leaves the pager early has seen enough.
    let (code, shown) = paged("head -n 1", zctrace().option("--all"), "exit 7");
    assert_eq!((code, shown.lines().count()), (Some(7), 1), "{shown}");
}

#[test]
fn a_pager_that_fails_is_said_and_the_report_follows() {
    for (pager, why) in [
        ("no-such-pager -x", "exit status: 127"),
        ("false", "exit status: 1"),
    ] {
        let (code, shown) = paged(pager, zctrace(), "exit 7");
        assert_eq!(code, Some(7));
        let failed = format!("zctrace: the pager '{pager}' failed ({why}");
        let (_, report) = shown.split_once(&failed).expect("it is said");
        assert!(report.contains("\nzctrace: sh -c"), "{shown}");
        assert!(report.contains("\nexit 7, wall"), "{shown}");
    }
}

#[test]
fn without_a_terminal_or_the_option_no_pager_runs() {
    let paging = || zctrace().env("PAGER", "sed s/^/paged:/");
    let script = shell("exit 7");
    let finished = paging().option("--pager").show(&script);
    finished.exits(7).never_says("paged:");
    let (_, shown) = Terminal::run(80, &paging().launch_of(&script));
    assert!(!shown.contains("paged:"), "{shown}");
}
