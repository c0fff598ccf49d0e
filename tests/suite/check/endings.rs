//! Checks that a timeout, a signal or a kill ends. Nothing is left running.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{check, dir_with, run_in, succeeds, words_in};
use crate::harness::{
    BACKENDS, Conversation, Terminal, TestDir, exists, fifo, patience, wait_until,
};

/// A command that tries to survive: it has children in the background and in another session, and
/// ignores signals.
const CLINGING: &str = r#"trap "" INT TERM HUP; pwd > "$ZCTRACE_CHECK_DIR/where"; cd "$ZCTRACE_CHECK_DIR"
sleep 1000 & echo $! >> pids
setsid sh -c "trap \"\" TERM; sleep 1001; sleep 1002" & echo $! >> pids
(setsid sleep 1003 & echo $! >> pids)
echo $$ >> pids; echo ready > ready; sleep 1004"#;

fn clinging(timeout: &str) -> TestDir {
    let check = succeeds("clings", &format!("'''{CLINGING}'''"));
    dir_with(&format!("{check}timeout = '{timeout}'\n"))
}

/// Makes sure that neither its processes nor its directory are left.
#[track_caller]
fn assert_gone(dir: &TestDir) {
    let pids = dir.read("pids");
    assert_eq!(pids.lines().count(), 4);
    let alive: Vec<_> = pids.lines().filter(|pid| exists(pid)).collect();
    assert!(alive.is_empty(), "still running: {alive:?}");
    let files = dir.read("where");
    let own = Path::new(files.trim());
    let is_its_own = own.to_string_lossy().contains("zctrace-check-");
    assert!(is_its_own && !own.exists(), "left: {}", own.display());
}

#[test]
fn a_line_whose_command_is_not_found_has_no_result_and_no_figures() {
    let dir = dir_with("[[check]]\nname = 'x'\ncommand = './app'\nexpect = ['write.calls == 0']\n");
    let finished = run_in(dir.path(), &[]);
    finished.exits(2).prints_all(&[
        "was not found",
        "$ZCTRACE_CHECK_DIR/app",
        "command = [\"./app\"]",
        "1 check: 1 without a result",
    ]);
    assert!(
        !finished.to_string().contains("write.calls is"),
        "{finished}"
    );
}

#[test]
fn a_check_whose_control_command_passes_fails_in_every_format() {
    let dir = dir_with(
        "[[check]]\nname = 'x'\ncommand = ['true']\ncontrol = 'echo'\nexpect = ['write.calls == 0']\n\
         [[check]]\nname = 'y'\ncommand = ['true']\ncontrol = ['false']\nexpect = ['read.calls >= 0']\nignore_failure = true\n",
    );
    for format in ["text", "json", "junit", "markdown", "github"] {
        let format = format!("--format={format}");
        run_in(dir.path(), &[&format, "x"]).exits(0);
        let finished = run_in(dir.path(), &[&format, "y"]);
        let said = if format.ends_with("json") {
            "\"control\": {"
        } else {
            "this check cannot fail"
        };
        finished.exits(1).prints(said);
    }
    let control = ["--expect=write.calls == 0", "--control-command=echo"];
    words_in(&dir, &control, &["true"]).exits(0);
}

#[test]
fn a_timeout_kills_all_processes_of_the_check_and_other_checks_run() {
    let limit = patience(Duration::from_secs(2)).as_secs();
    for backend in BACKENDS {
        let dir = clinging(&format!("{limit}s"));
        let next = succeeds("next", "['true']");
        dir.write("zctrace.toml", dir.read("zctrace.toml") + &next);
        let began = Instant::now();
        let finished = run_in(dir.path(), &[backend]);
        assert!(began.elapsed() < patience(Duration::from_secs(20)));
        let said = format!(
            "it did not end within {limit}.00 s (timeout): zctrace killed it and everything it had started"
        );
        let summary = "2 checks: 1 passed, 1 without a result\n";
        finished
            .exits(2)
            .prints_all(&[&said, "ok     next", summary]);
        assert_gone(&dir);
    }
}

#[test]
fn a_signal_ends_the_check_and_finished_checks_are_reported() {
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        let dir = clinging("50s");
        let first = succeeds("first", "['true']");
        dir.write("zctrace.toml", first + &dir.read("zctrace.toml"));
        let mut zctrace = check(&[]).dir(dir.path()).launch().start();
        dir.wait_for_line("ready");
        zctrace.signal(signal);
        expect_passed(&mut zctrace, "first");
        assert_eq!(zctrace.hear(), "");
        zctrace.expect(&format!("1 check: 1 passed; interrupted by {name}"));
        assert_eq!(zctrace.wait(), Some(128 + signal.as_raw()));
        assert_gone(&dir);
        assert_eq!(zctrace.stderr(), "");
    }
}

#[track_caller]
fn expect_passed(zctrace: &mut Conversation, name: &str) {
    let line = zctrace.hear();
    assert!(line.starts_with(&format!("ok     {name}")), "{line}");
}

#[test]
fn a_command_that_kills_its_process_group_does_not_kill_other_checks() {
    let kills = succeeds("kills", "\"trap 'kill 0' EXIT; sleep 50 & true\"");
    let dir = dir_with(&(kills + &succeeds("next", "['true']")));
    let finished = run_in(dir.path(), &[]);
    // The zctrace that traces the command is in the same process group. The signal may end the
    // command first, or that zctrace.
    let (start, reason, summary) = if finished.code == Some(1) {
        let reason = "exit.code is none: SIGTERM killed the command";
        ("FAILED kills ", reason, "1 passed, 1 failed")
    } else {
        let reason = "without a result: interrupted by SIGTERM";
        ("ERROR  kills ", reason, "1 passed, 1 without a result")
    };
    let summary = format!("\n2 checks: {summary}\n");
    finished.prints_all(&[start, reason, "\nok     next ", &summary]);
}

/// Kills the workers of its `zctrace check` that wait for a job.
const KILLS_WORKERS: &str = r#"check=$(ps -o ppid= -p $PPID)
ps -o pid=,args= --ppid $check | awk -v own=$PPID '/worker of check/ && $1 != own { print $1 }' > "$ZCTRACE_CHECK_DIR/killed"
kill -9 $(cat "$ZCTRACE_CHECK_DIR/killed")"#;

#[test]
fn the_kill_of_an_idle_worker_costs_no_check_its_result() {
    let slow = |name: &str| succeeds(name, "['sleep', '0.5']");
    // It runs alone, because it expects a time.
    let kills = succeeds("kills", &format!("'''{KILLS_WORKERS}'''"));
    let kills = kills.replace("exit.code == 0", "exit.code == 0 and time.wall < 60s");
    let dir = dir_with(&[slow("a"), slow("b"), kills, slow("c"), slow("d")].concat());
    let finished = run_in(dir.path(), &["--jobs=2"]);
    assert_eq!(dir.read("killed").lines().count(), 1, "{finished}");
    finished.exits(0).prints("\n5 checks: 5 passed\n");
}

#[test]
fn an_ignored_signal_does_not_end_the_checks() {
    let script = "'cd \"$ZCTRACE_CHECK_DIR\"; echo > ready; cat go'";
    let dir = dir_with(&(succeeds("a", script) + "timeout = '20s'\n"));
    fifo(dir.join("go"));
    let check = check(&[]).through(&["nohup"]).dir(dir.path());
    let mut zctrace = check.launch().start();
    dir.wait_for_line("ready");
    zctrace.signal(Signal::HUP);
    dir.write("go", "");
    expect_passed(&mut zctrace, "a");
    assert_eq!(zctrace.wait(), Some(0));
}

#[test]
fn ctrl_c_ends_the_checks_and_their_processes() {
    for backend in BACKENDS {
        let dir = clinging("50s");
        let check = check(&[backend]).dir(dir.path()).launch_with(&["clings"]);
        let mut terminal = Terminal::start(80, &check);
        dir.wait_for_line("ready");
        terminal.type_in("\x03");
        let (code, shown) = terminal.finish();
        assert_eq!(code, Some(130), "{shown}");
        assert!(shown.contains("interrupted by SIGINT"), "{shown}");
        assert_gone(&dir);
    }
}

#[test]
fn a_killed_zctrace_leaves_neither_processes_nor_its_directory() {
    for backend in BACKENDS {
        let dir = clinging("50s");
        let (tmp, files) = (TestDir::new(), dir.path());
        let check = check(&[backend]).env("TMPDIR", tmp.path()).dir(files);
        let zctrace = check.launch_with(&["clings"]).start();
        dir.wait_for_line("ready");
        zctrace.signal(Signal::KILL);
        assert_eq!(zctrace.wait(), None, "killed");
        wait_until("its directory is removed", || tmp.names().is_empty());
        // They were killed, and end in their own time.
        let pids = dir.read("pids");
        wait_until("its processes end", || !pids.lines().any(exists));
        assert_gone(&dir);
    }
}
