//! Which expectations hold, fail or are inconclusive, under both backends; and comparisons with a
//! baseline.

use std::{fs, path::Path};

use super::{check, dir_with, of_script, results, run_in};
use crate::harness::{BACKENDS, Finished, TestDir};

/// Makes a file and copies it through user memory.
const COPIES: &str = "head -c 100000 /dev/zero > in; cat in > out";

#[test]
fn expectations_that_hold_exit_with_0_and_failed_ones_with_1() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        let run = |expectations: &[&str]| {
            let options: Vec<String> = expectations
                .iter()
                .map(|text| format!("--expect={text}"))
                .collect();
            let options: Vec<&str> = options
                .iter()
                .map(String::as_str)
                .chain([backend, "--format=json"])
                .collect();
            of_script(&options, COPIES).dir(dir.path()).finish()
        };
        results(&run(&["exit.code == 0", "sendfile.calls == 0"]), 0);
        let found = results(
            &run(&[
                "sendfile.calls == 0",
                "exit.code != 0",
                "processes.count < 3",
            ]),
            1,
        );
        let verdicts: Vec<_> = (0..3)
            .map(|index| found["checks"][0]["expectations"][index]["verdict"].clone())
            .collect();
        assert_eq!(verdicts, ["holds", "fails", "fails"], "{backend}");
        assert_eq!(
            found["checks"][0]["expectations"][1]["findings"][0]["found"],
            "exit.code is 0"
        );
    }
}

#[test]
fn expectations_select_calls_by_file_and_process() {
    for backend in BACKENDS {
        let dir = TestDir::with("in", vec![1; 300_000]);
        let options = [
            backend,
            // strace shows no addresses, so the transfer is inferred.
            "--inferred=accept",
            "--expect=read[process=\"dd\", file=\"in\"].calls == 4 and read[process=\"dd\", file=\"in\"].bytes == 300000",
            "--expect=write[file=\"out\"].calls == 3 and write[file=\"out\"].avg_size == 100000",
            "--expect=transfer(regular:\"in\" -> \"out\").api == read+write",
            "--expect=processes[process=\"dd\"].count == 1 and exit.signal == none",
        ];
        let finished = of_script(&options, "dd if=in of=out bs=100000; true")
            .dir(dir.path())
            .finish();
        assert_eq!(finished.code, Some(0), "{backend}: {}", finished.text());
    }
}

#[test]
fn a_file_is_found_by_any_of_its_paths() {
    for backend in BACKENDS {
        let dir = TestDir::new();
        let own = dir.path().canonicalize().expect("is there");
        let name = own
            .file_name()
            .and_then(|name| name.to_str())
            .expect("text")
            .to_owned();
        fs::write(own.join("in"), "hello").expect("it belongs to the test");
        for path in [
            "in".to_owned(),
            "./in".to_owned(),
            format!("{}/in", own.display()),
            format!("../{name}/in"),
        ] {
            let expectation = format!("--expect=read[file=\"{path}\"].bytes == 5");
            let finished = check(&[backend, &expectation])
                .dir(&own)
                .launch_with(&["--", "cat", "in"])
                .finish();
            assert_eq!(
                finished.code,
                Some(0),
                "{backend} {path}: {}",
                finished.text()
            );
        }
    }
}

#[test]
fn calls_that_take_a_path_cannot_be_selected_by_file() {
    let dir = TestDir::new();
    let run = |expectation: &str| {
        dir.write("in", "hello");
        of_script(&[&format!("--expect={expectation}")], "cat in; rm in")
            .dir(dir.path())
            .finish()
    };
    for by_path in ["openat", "unlinkat", "%file"] {
        let refused = run(&format!("{by_path}[file=\"in\"].calls == 0"));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("cannot be selected so: file="),
            "{}",
            refused.stderr
        );
    }
    // Calls that take a path may be on the file as well. They count for a class, but nobody knows
    // on which file they were.
    let open = run("%desc[file=\"in\"].calls == 0 or openat.calls == 0");
    assert_eq!(open.code, Some(1), "{}", open.text());
    let open = run("openat.calls > 0 and syscalls[file=\"other\"].calls == 0");
    assert_eq!(open.code, Some(3), "{}", open.text());
}

#[test]
fn an_inferred_transfer_is_inconclusive_unless_inferences_are_accepted() {
    let dir = TestDir::with("in", vec![1; 300_000]);
    dir.write(
        "accepting.toml",
        "[[check]]\nname = 'dd'\ncommand = 'dd if=in of=out bs=100000'\nfiles = [{ path = 'in', size = '300000B' }]\nbackend = 'strace'\n\
         inferred = 'accept'\nexpect = ['transfer(regular -> regular).bytes == 300000']\n",
    );
    let run = |options: &[&str]| {
        let options = [
            &[
                "--backend=strace",
                "--expect=transfer(regular -> regular).bytes == 300000",
            ],
            options,
        ]
        .concat();
        check(&options)
            .dir(dir.path())
            .launch_with(&["--", "dd", "if=in", "of=out", "bs=100000"])
            .finish()
    };
    let inferred = run(&[]);
    assert_eq!(inferred.code, Some(3), "{}", inferred.text());
    assert!(
        inferred.text().contains("probably 293.0 KiB, read + write"),
        "{}",
        inferred.text()
    );
    assert_eq!(run(&["--inferred=accept"]).code, Some(0));
    let by_file = check(&[])
        .dir(dir.path())
        .launch_with(&["accepting.toml"])
        .finish();
    assert_eq!(by_file.code, Some(0), "{}", by_file.text());
    // Under eBPF memory proves the transfer, so nothing has to be accepted.
    let options = [
        "--backend=ebpf",
        "--expect=transfer(regular -> regular).bytes == 300000",
    ];
    let proven = check(&options)
        .dir(dir.path())
        .launch_with(&["--", "dd", "if=in", "of=out", "bs=100000"])
        .finish();
    assert_eq!(proven.code, Some(0), "{}", proven.text());
}

#[test]
fn a_failure_shows_what_was_found_and_how_to_see_more() {
    let dir = TestDir::with("in", vec![1; 300_000]);
    let options = ["--expect=transfer(* -> \"out\").api == sendfile"];
    let finished = check(&options)
        .dir(dir.path())
        .launch_with(&["--", "dd", "if=in", "of=out", "bs=100000"])
        .finish();
    assert_eq!(finished.code, Some(1));
    let text = finished.text();
    for words in [
        "FAILED dd if=in of=out bs=100000",
        "fails: transfer(* -> \"out\").api == sendfile",
        "transfer(* -> \"out\").api is read+write",
        "in (regular, ",
        "3 calls of 97.7 KiB",
        "the whole report: zctrace -- dd if=in of=out bs=100000",
        "1 check: 1 failed",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert_eq!(finished.stderr, "");
}

#[test]
fn losses_are_inconclusive_unless_the_bound_is_enough() {
    let inconclusive = of_script(&["--max-rows=1", "--expect=write.calls == 0"], COPIES);
    let dir = TestDir::new();
    let finished = inconclusive.dir(dir.path()).finish();
    assert_eq!(finished.code, Some(3), "{}", finished.text());
    let reason = finished
        .text()
        .split("lower bound: ")
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    assert!(reason.contains("uncounted_calls: "), "{}", finished.text());
    let known = of_script(
        &[
            "--max-rows=1",
            "--expect=syscalls.calls >= 1",
            "--expect=exit.code == 0",
        ],
        COPIES,
    );
    assert_eq!(known.dir(dir.path()).finish().code, Some(0));
    let strace = of_script(&["--backend=strace", "--expect=faults.major == 0"], COPIES)
        .dir(dir.path())
        .finish();
    assert_eq!(strace.code, Some(3), "{}", strace.text());
    assert!(
        strace
            .text()
            .contains("the backend strace does not know it"),
        "{}",
        strace.text()
    );
}

#[test]
fn calls_named_in_expectations_are_counted() {
    for backend in BACKENDS {
        let options = [
            backend,
            "--expect=getcwd.calls >= 1 and fsync.calls == 0 and %ipc.calls == 0",
        ];
        let finished = of_script(&options, "pwd -P; env pwd").finish();
        assert_eq!(finished.code, Some(0), "{backend}: {}", finished.text());
    }
}

#[test]
fn an_expectation_must_hold_in_every_run() {
    let dir = TestDir::new();
    // The second run finds the file that the first one made.
    let script = "if test -e there; then head -c 5 /dev/zero > x; else echo > there; fi";
    let options = [
        "--repeat=3",
        "--format=json",
        "--expect=write[file=\"x\"].calls == 0",
        "--expect=exit.code == 0",
    ];
    let finished = of_script(&options, script).dir(dir.path()).finish();
    let found = results(&finished, 1);
    let check = &found["checks"][0];
    assert_eq!(
        (&check["runs"], &check["expectations"][0]["run"]),
        (&3.into(), &2.into())
    );
    assert_eq!(check["figures"]["same"]["exit.code"], 0);
    assert_eq!(check["figures"]["same"]["write.calls"], 1);
    let varying = |name: &str| {
        let all = check["figures"]["varying"].as_array().expect("a list");
        let found = all
            .iter()
            .find(|figure| figure["name"] == name)
            .unwrap_or_else(|| panic!("{name} does not vary: {all:?}"));
        [&found["min"], &found["max"]].map(|bound| bound.as_u64().expect("a number"))
    };
    assert_eq!(varying("write.bytes"), [1, 5]);
    let [shortest, longest] = varying("time.wall");
    assert!(0 < shortest && shortest < longest, "{shortest} {longest}");
}

/// Two checks that wait for each other.
fn waiting_for_each_other(expectation: &str, timeout: &str) -> TestDir {
    let one = |name: &str, script: &str| {
        format!(
            "[[check]]\nname = '{name}'\ncommand = 'cd \"$ZCTRACE_CHECK_DIR\"; {script}'\nexpect = ['{expectation}']\n\
             timeout = '{timeout}'\n"
        )
    };
    let dir = dir_with(&(one("a", "echo > one; cat two") + &one("b", "cat one; echo > two")));
    for name in ["one", "two"] {
        crate::harness::fifo_at(&dir.join(name));
    }
    dir
}

#[test]
fn jobs_run_in_parallel_and_results_keep_their_order() {
    let dir = waiting_for_each_other("exit.code == 0", "20s");
    let found = results(&run_in(dir.path(), &["--jobs=2", "--format=json"]), 0);
    assert_eq!(
        (&found["checks"][0]["name"], &found["checks"][1]["name"]),
        (&"a".into(), &"b".into())
    );
}

#[test]
fn runs_in_one_directory_take_turns() {
    let dir = TestDir::new();
    let script = "mkdir here && sleep 0.1 && rmdir here";
    let options = [
        "--repeat=4",
        "--jobs=4",
        "--format=json",
        "--expect=exit.code == 0",
    ];
    let found = results(&of_script(&options, script).dir(dir.path()).finish(), 0);
    assert_eq!(
        (&found["checks"][0]["status"], &found["checks"][0]["runs"]),
        (&"passed".into(), &4.into())
    );
}

#[test]
fn checks_of_times_run_alone() {
    let dir = waiting_for_each_other("time.wall < 1h", "1s");
    let found = results(&run_in(dir.path(), &["--jobs=2", "--format=json"]), 2);
    let statuses: Vec<_> = (0..2)
        .map(|index| found["checks"][index]["status"].clone())
        .collect();
    assert_eq!(statuses, ["could_not_run", "could_not_run"]);
    for index in 0..2 {
        let error = found["checks"][index]["error"].as_str().unwrap_or_default();
        assert!(error.starts_with("it did not end within 1.00 s"), "{error}");
    }
}

fn compared(dir: &Path, options: &[&str], words: &[&str]) -> Finished {
    let command: Vec<&str> = ["--"].iter().chain(words).copied().collect();
    check(&[&["--baseline=b.json"], options].concat())
        .dir(dir)
        .launch_with(&command)
        .finish()
}

/// A directory with a file, and the baseline of a copy of that file.
fn with_baseline() -> TestDir {
    let dir = TestDir::with("in", vec![1; 300_000]);
    let finished = compared(dir.path(), &["--update"], &DD);
    assert_eq!(
        finished.code,
        Some(0),
        "{} {}",
        finished.text(),
        finished.stderr
    );
    assert_eq!(finished.stderr, "zctrace: wrote the baseline 'b.json'\n");
    dir
}

/// A `dd` that prints nothing: it would print the time that it took, whose length differs from run
/// to run.
const DD: [&str; 5] = ["dd", "status=none", "if=in", "of=out", "bs=100000"];

#[test]
fn an_equal_run_passes_and_differences_are_shown_as_a_table() {
    let dir = with_baseline();
    let same = compared(dir.path(), &["--repeat=2"], &DD);
    assert_eq!(same.code, Some(0), "{}", same.text());
    let other = compared(
        dir.path(),
        &[],
        &["dd", "status=none", "if=in", "of=out", "bs=50000"],
    );
    assert_eq!(other.code, Some(1), "{}", other.text());
    let text = other.text();
    for words in [
        "differ from the baseline",
        "figure",
        "write.calls",
        "differs",
        "exact",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(!text.contains("time.wall"), "{text}");
}

#[test]
fn each_figure_can_have_its_own_tolerance() {
    let dir = with_baseline();
    let other = ["dd", "status=none", "if=in", "of=out", "bs=50000"];
    let tolerant = compared(
        dir.path(),
        &["--tolerance=*.calls=200%", "--tolerance=*.bytes=1KiB"],
        &other,
    );
    assert_eq!(tolerant.code, Some(0), "{}", tolerant.text());
    assert!(
        tolerant
            .text()
            .contains("within their tolerance: read.calls, write.calls"),
        "{}",
        tolerant.text()
    );
    let strict = compared(dir.path(), &["--tolerance=time.wall=0.001%"], &DD);
    assert_eq!(strict.code, Some(1), "{}", strict.text());
    assert!(
        strict.text().contains("time.wall (ns)"),
        "{}",
        strict.text()
    );
    let unknown = compared(dir.path(), &["--tolerance=raed.calls=5"], &DD);
    assert_eq!(unknown.code, Some(2));
    assert_eq!(
        unknown.stderr,
        "zctrace: --tolerance: no figure that is compared with a baseline is called 'raed.calls'; did you mean 'read.calls'?\n"
    );
}

#[test]
fn a_lower_bound_does_not_become_a_baseline() {
    let dir = TestDir::with("in", vec![1; 300_000]);
    let finished = compared(dir.path(), &["--update", "--max-rows=1"], &DD);
    assert_eq!(finished.code, Some(3), "{}", finished.text());
    assert!(
        finished
            .stderr
            .contains("the baseline 'b.json' is not updated: its figures would be lower bounds"),
        "{}",
        finished.stderr
    );
    assert!(!dir.join("b.json").exists());
}

#[test]
fn an_exit_by_a_signal_differs_from_an_exit_status() {
    let dir = with_baseline();
    let tolerant = ["--tolerance=*=ignore", "--tolerance=exit.*=0"];
    let killed = compared(dir.path(), &tolerant, &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(killed.code, Some(1), "{}", killed.text());
    assert!(
        killed.text().contains("exit.signal") && killed.text().contains("none"),
        "{}",
        killed.text()
    );
}

#[test]
fn the_last_matching_tolerance_in_a_file_wins() {
    let one = |tolerance: &str| {
        let toml = format!(
            "[[check]]\nname = 'a'\ncommand = ['false']\nbaseline = 'a.json'\ntolerance = {{ {tolerance} }}\n"
        );
        let dir = dir_with(&toml);
        assert_eq!(run_in(dir.path(), &["--update"]).code, Some(0));
        dir.write("zctrace.toml", toml.replace("false", "true"));
        run_in(dir.path(), &[]).code
    };
    assert_eq!(one("'exit.code' = '1', '*' = 'ignore'"), Some(0));
    assert_eq!(one("'*' = 'ignore', 'exit.code' = '0'"), Some(1));
}

#[test]
fn a_comparison_that_is_not_exact_is_inconclusive() {
    let dir = with_baseline();
    let finished = compared(dir.path(), &["--max-rows=1", "--format=json"], &DD);
    let found = results(&finished, 3);
    assert_eq!(found["checks"][0]["status"], "inconclusive");
}

#[test]
fn a_missing_or_invalid_baseline_is_refused() {
    let refused = |content: Option<&str>, words: &str| {
        let dir = TestDir::new();
        if let Some(content) = content {
            dir.write("b.json", content);
        }
        let finished = compared(dir.path(), &[], &["touch", "it-ran"]);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(
            finished.stderr.contains(words) && finished.stderr.lines().count() == 1,
            "no {words:?} in {}",
            finished.stderr
        );
        assert!(!dir.join("it-ran").exists());
    };
    refused(
        None,
        "there is no baseline 'b.json' yet; --update writes it",
    );
    refused(
        Some("{\"schema\": 99}"),
        "cannot read 'b.json': it has schema 99; this zctrace reads schema",
    );
    refused(
        Some("[1, 2]"),
        "cannot read 'b.json': it is not a report of zctrace",
    );
    refused(
        Some("not json"),
        "cannot read 'b.json': it is not a report of zctrace",
    );
}

#[test]
fn a_failed_check_does_not_become_a_baseline() {
    let dir = TestDir::new();
    let finished = compared(
        dir.path(),
        &["--update", "--expect=exit.code == 0"],
        &["false"],
    );
    assert_eq!(finished.code, Some(1));
    assert_eq!(
        finished.stderr,
        "zctrace: the baseline 'b.json' is not updated: its check failed\n"
    );
    assert!(!dir.join("b.json").exists());
}

#[test]
fn a_check_in_a_file_can_have_a_baseline() {
    let dir = dir_with(
        "[[check]]\nname = 'a'\ncommand = ['true']\nbaseline = 'a.json'\ntolerance = { '*' = 'ignore' }\n",
    );
    assert_eq!(run_in(dir.path(), &[]).code, Some(2), "not there yet");
    assert_eq!(run_in(dir.path(), &["--update"]).code, Some(0));
    assert_eq!(run_in(dir.path(), &[]).code, Some(0));
}
