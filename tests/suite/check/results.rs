//! Which expectations hold, fail or are inconclusive, under both backends; and how checks run beside
//! each other.

use serde_json::{Value, json};

use super::{dir_with, of_each, run_in, script_in, words_in};
use crate::harness::{BACKENDS, TestDir, fifo};

/// Makes a file and copies it through user memory.
const COPIES: &str = "head -c 100000 /dev/zero > in; cat in > out";

/// Copies a file in three pieces.
const DD: [&str; 4] = ["dd", "if=in", "of=out", "bs=100000"];

fn with_input() -> TestDir {
    TestDir::with("in", vec![1; 300_000])
}

#[test]
fn expectations_that_hold_exit_with_0_and_failed_ones_with_1() {
    for backend in BACKENDS {
        let (dir, none) = (TestDir::new(), "--expect=sendfile.calls == 0");
        script_in(&dir, &[backend, none, "--expect=exit.code == 0"], COPIES).exits(0);
        let [failed, failed_too] = ["--expect=exit.code != 0", "--expect=processes.count < 3"];
        let options = [backend, none, failed, failed_too, "--format=json"];
        let found = script_in(&dir, &options, COPIES).exits(1).json();
        let expectations = &found["checks"][0]["expectations"];
        let verdicts = [0, 1, 2].map(|index| expectations[index]["verdict"].clone());
        assert_eq!(verdicts, ["holds", "fails", "fails"], "{backend}");
        assert_eq!(expectations[1]["findings"][0]["found"], "exit.code is 0");
    }
}

#[test]
fn expectations_select_calls_by_file_and_process() {
    for backend in BACKENDS {
        let dir = with_input();
        let own = dir.path().canonicalize().expect("is there");
        let absolute = format!("--expect=read[file=\"{}/in\"].calls == 4", own.display());
        let options = [
            backend,
            // strace shows no addresses, so the transfer is inferred.
            "--inferred=accept",
            "--expect=read[process=\"dd\", file=\"in\"].calls == 4 and read[process=\"dd\", file=\"in\"].bytes == 300000",
            "--expect=write[file=\"out\"].calls == 3 and write[file=\"out\"].avg_size == 100000",
            "--expect=transfer(regular:\"in\" -> \"out\").api == read+write",
            "--expect=processes[process=\"dd\"].count == 1 and exit.signal == none",
            // A file is found by any of its paths.
            &absolute,
        ];
        script_in(&dir, &options, "dd if=in of=out bs=100000; true").exits(0);
    }
}

#[test]
fn a_selector_that_nothing_matches_is_inconclusive_in_every_format() {
    const FORMATS: [&str; 5] = ["text", "json", "junit", "markdown", "github"];
    let mistaken = r#"--expect=read[process="dd", file="in.dta"].calls == 0"#;
    let dir = TestDir::with("in.dat", vec![1; 300_000]);
    let copy = ["dd", "if=in.dat", "of=out", "bs=100000"];
    for (backend, format) in BACKENDS.into_iter().cycle().zip(FORMATS) {
        let options = [backend, &format!("--format={format}"), mistaken];
        let finished = words_in(&dir, &options, &copy);
        finished
            .exits(3)
            .prints_all(&["matches no file; the nearest is", "in.dat"]);
    }
    words_in(&dir, &["--may-match-nothing", mistaken], &copy).exits(0);
    // Files that are there are no typing errors, whether or not the command uses them.
    for file in ["other", "o*", "/etc/passwd"] {
        dir.write("other", "");
        let unused = format!("--expect=read[file=\"{file}\"].calls == 0");
        words_in(&dir, &[&unused], &copy).exits(0);
    }
    let prepared =
        "[[check]]\nname = 'x'\ncommand = ['true']\nfiles = [{ path = 'in', size = '1B' }]\n";
    for (more, status) in [
        ("expect = ['read[file=\"in\"].calls == 0']", 0),
        ("expect = ['read[file=\"im\"].calls == 0']", 3),
        ("expect = ['read[file=\"i*m\"].calls == 0']", 3),
        (
            "may_match_nothing = true\nexpect = ['read[file=\"i*m\"].calls == 0']",
            0,
        ),
    ] {
        run_in(dir_with(&format!("{prepared}{more}\n")).path(), &[]).exits(status);
    }
}

#[test]
fn an_inferred_transfer_is_inconclusive_unless_inferences_are_accepted() {
    const ALL: &str = "--expect=transfer(regular -> regular).bytes == 300000";
    let dir = with_input();
    let strace = ["--backend=strace", ALL];
    let inferred = words_in(&dir, &strace, &DD);
    inferred.exits(3).prints("probably 293.0 KiB, read + write");
    words_in(&dir, &[strace[0], ALL, "--inferred=accept"], &DD).exits(0);
    let by_file = dir_with(
        "[[check]]\nname = 'dd'\ncommand = 'dd if=in of=out bs=100000'\nfiles = [{ path = 'in', size = '300000B' }]\nbackend = 'strace'\n\
         inferred = 'accept'\nexpect = ['transfer(regular -> regular).bytes == 300000']\n",
    );
    run_in(by_file.path(), &[]).exits(0);
    // Under eBPF memory proves the transfer, so nothing has to be accepted.
    words_in(&dir, &["--backend=ebpf", ALL], &DD).exits(0);
}

#[test]
fn losses_are_inconclusive_unless_the_bound_is_enough() {
    let dir = TestDir::new();
    let lossy = |expectation: &str| script_in(&dir, &["--max-rows=1", expectation], COPIES);
    let inconclusive = lossy("--expect=write.calls == 0");
    inconclusive
        .exits(3)
        .prints_all(&["lower bound: ", "calls not counted: "]);
    lossy("--expect=syscalls.calls >= 1 and exit.code == 0").exits(0);
    let unknown = ["--backend=strace", "--expect=faults.major == 0"];
    let unknown = script_in(&dir, &unknown, COPIES);
    unknown
        .exits(3)
        .prints("the backend strace does not know it");
}

#[test]
fn calls_named_in_expectations_are_counted() {
    for backend in BACKENDS {
        let named = "--expect=getcwd.calls >= 1 and fsync.calls == 0 and %ipc.calls == 0";
        script_in(&TestDir::new(), &[backend, named], "pwd -P; env pwd").exits(0);
    }
}

/// The results of two checks that wait for each other, run at the same time if that is allowed.
fn waiting_for_each_other(expectation: &str, timeout: &str, status: i32) -> Value {
    let one = |name: &str, script: &str| {
        format!(
            "[[check]]\nname = '{name}'\ncommand = 'cd \"$ZCTRACE_CHECK_DIR\"; {script}'\nexpect = ['{expectation}']\n\
             timeout = '{timeout}'\n"
        )
    };
    let dir = dir_with(&(one("a", "echo > one; cat two") + &one("b", "cat one; echo > two")));
    for name in ["one", "two"] {
        fifo(dir.join(name));
    }
    let finished = run_in(dir.path(), &["--jobs=2", "--format=json"]);
    finished.exits(status).json()
}

#[test]
fn jobs_run_in_parallel_and_results_keep_their_order() {
    let found = waiting_for_each_other("exit.code == 0", "20s", 0);
    assert_eq!(of_each(&found, "/name"), ["a", "b"]);
}

#[test]
fn checks_of_times_run_alone() {
    let found = waiting_for_each_other("time.wall < 1h", "1s", 2);
    assert_eq!(of_each(&found, "/status"), ["no_result"; 2]);
    for error in of_each(&found, "/error") {
        let error = error.as_str().unwrap_or_default();
        assert!(error.starts_with("it did not end within 1.00 s"), "{error}");
    }
}

#[test]
fn runs_in_one_directory_take_turns() {
    let script = "mkdir here && sleep 0.1 && rmdir here";
    let options = [
        "--repeat=4",
        "--jobs=4",
        "--format=json",
        "--expect=exit.code == 0",
    ];
    let found = script_in(&TestDir::new(), &options, script).exits(0).json();
    let check = &found["checks"][0];
    assert_eq!(
        (&check["status"], &check["runs"]),
        (&json!("passed"), &json!(4))
    );
}
