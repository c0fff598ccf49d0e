//! Checks that a timeout, a signal or a kill ends. Nothing is left running.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{check, dir_with, run_in, succeeds};
use crate::harness::{BACKENDS, Terminal, TestDir, exists, patience, wait_until};

/// A command that tries to survive: it has children in the background and in another session, and
/// ignores signals.
const CLINGING: &str = r#"trap "" INT TERM HUP; pwd > "$ZCTRACE_CHECK_DIR/where"; cd "$ZCTRACE_CHECK_DIR"
sleep 1000 & echo $! >> pids
setsid sh -c "trap \"\" TERM; sleep 1001; sleep 1002" & echo $! >> pids
(setsid sleep 1003 & echo $! >> pids)
echo $$ >> pids; echo ready > ready; sleep 1004"#;

fn clinging(timeout: &str) -> TestDir {
    dir_with(&format!(
        "{}timeout = '{timeout}'\n",
        succeeds("clings", &format!("'''{CLINGING}'''"))
    ))
}

fn pids(dir: &TestDir) -> Vec<String> {
    let text = dir.read("pids");
    text.lines().map(str::to_owned).collect()
}

/// Makes sure that neither its processes nor its directory are left.
#[track_caller]
fn assert_gone(dir: &TestDir) {
    let pids = pids(dir);
    assert_eq!(pids.len(), 4);
    let alive: Vec<_> = pids.iter().filter(|pid| exists(pid)).collect();
    assert!(alive.is_empty(), "still running: {alive:?}");
    let files = dir.read("where");
    let own = Path::new(files.trim())
        .parent()
        .expect("it is in the directory of the check");
    assert!(
        own.to_string_lossy().contains("zctrace-check-") && !own.exists(),
        "left: {}",
        own.display()
    );
}

#[test]
fn a_timeout_kills_all_processes_of_the_check() {
    let limit = patience(Duration::from_secs(2)).as_secs();
    for backend in BACKENDS {
        let dir = clinging(&format!("{limit}s"));
        let began = Instant::now();
        let finished = run_in(dir.path(), &[backend]);
        assert!(
            began.elapsed() < patience(Duration::from_secs(20)),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(finished.code, Some(2), "{}", finished.text());
        let text = finished.text();
        let said = format!(
            "it did not end within {limit}.00 s, and was killed with everything below it (timeout)"
        );
        assert!(text.contains(&said), "{text}");
        assert_gone(&dir);
    }
}

#[test]
fn other_checks_run_after_a_timeout() {
    let hangs = succeeds("hangs", "['sleep', '1000']") + "timeout = '500ms'\nrepeat = 3\n";
    let dir = dir_with(&(hangs + &succeeds("ends", "['true']")));
    let finished = run_in(dir.path(), &["--jobs=2"]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.text().contains("ok     ends")
            && finished
                .text()
                .ends_with("2 checks: 1 passed, 1 could not be run\n"),
        "{}",
        finished.text()
    );
}

#[test]
fn a_signal_ends_the_check_and_finished_checks_are_reported() {
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        let dir = clinging("50s");
        dir.write(
            "zctrace.toml",
            succeeds("first", "['true']") + &dir.read("zctrace.toml"),
        );
        let mut zctrace = check(&[]).dir(dir.path()).launch().start();
        wait_until("the command is ready", || dir.join("ready").exists());
        zctrace.signal(signal);
        let line = zctrace.hear();
        assert!(line.starts_with("ok     first"), "{line}");
        assert_eq!(zctrace.hear(), "");
        zctrace.expect(&format!("1 check: 1 passed; interrupted by {name}"));
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
        assert_gone(&dir);
        assert_eq!(zctrace.into_stderr(), "");
    }
}

#[test]
fn a_command_that_kills_its_process_group_does_not_kill_other_checks() {
    let kills = succeeds("kills", "\"trap 'kill 0' EXIT; sleep 50 & true\"");
    let dir = dir_with(&(kills + &succeeds("next", "['true']")));
    let finished = run_in(dir.path(), &[]);
    let text = finished.text();
    // The zctrace that traces the command is in the same process group. The signal may end the
    // command first, or that zctrace.
    let (start, reason, summary) = match finished.code {
        Some(1) => (
            "FAILED kills ",
            "exit.code is none: SIGTERM killed the command",
            "1 passed, 1 failed",
        ),
        _ => (
            "ERROR  kills ",
            "could not be run: interrupted by SIGTERM",
            "1 passed, 1 could not be run",
        ),
    };
    assert!(
        text.starts_with(start) && text.contains(reason),
        "{:?} {text}",
        finished.code
    );
    assert!(
        text.contains("\nok     next ") && text.ends_with(&format!("\n2 checks: {summary}\n")),
        "{text}"
    );
}

#[test]
fn an_ignored_signal_does_not_end_the_checks() {
    let dir = dir_with(
        &(succeeds("a", "'cd \"$ZCTRACE_CHECK_DIR\"; echo > ready; cat go'") + "timeout = '20s'\n"),
    );
    crate::harness::fifo_at(&dir.join("go"));
    let mut zctrace = check(&[])
        .through(&["nohup"])
        .dir(dir.path())
        .launch()
        .start();
    wait_until("the command is ready", || dir.join("ready").exists());
    zctrace.signal(Signal::HUP);
    dir.write("go", "");
    let line = zctrace.hear();
    assert!(line.starts_with("ok     a"), "{line}");
    assert_eq!(zctrace.wait(), Some(0));
}

#[test]
fn ctrl_c_ends_the_checks_and_their_processes() {
    for backend in BACKENDS {
        let dir = clinging("50s");
        let mut terminal = Terminal::start(
            80,
            &check(&[backend]).dir(dir.path()).launch_with(&["clings"]),
        );
        wait_until("the command is ready", || dir.join("ready").exists());
        terminal.type_in("\x03");
        let (code, shown) = terminal.finish();
        assert_eq!(code, Some(130), "{shown}");
        assert!(shown.contains("interrupted by SIGINT"), "{shown}");
        assert_gone(&dir);
    }
}

#[test]
fn a_killed_zctrace_leaves_no_command_running() {
    let dir = dir_with(&succeeds(
        "a",
        "'echo $$ > \"$ZCTRACE_CHECK_DIR/ready\"; exec sleep 1000'",
    ));
    // A killed zctrace cannot remove its temporary directory, so the test puts it into its own.
    let zctrace = check(&[])
        .env("TMPDIR", dir.path())
        .dir(dir.path())
        .launch()
        .start();
    let ready = dir.join("ready");
    wait_until("the command is ready", || {
        fs::read_to_string(&ready).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let pid = dir.read("ready");
    zctrace.signal(Signal::KILL);
    assert_eq!(zctrace.wait(), None, "killed");
    wait_until("the command is gone", || !exists(&pid));
}
