//! `zctrace diff`: two saved reports, or a saved one and a command; and the same comparison in
//! `check` and `compare`.

use serde_json::Value;

use crate::harness::{Finished, Program, TestDir, program, workload, zctrace};

/// Saves a report of this program in the folder.
fn save(dir: &TestDir, name: &str, program: &Program) {
    zctrace()
        .dir(dir.path())
        .json_to(dir.join(name))
        .show(program)
        .successful();
}

fn copy(options: &[&str]) -> Program {
    program("cp").args(options).args(&["in", "out"])
}

/// A folder with a file to copy, and one to replace, so that every copy finds the same.
fn two_files() -> TestDir {
    let dir = TestDir::with("in", vec![b'x'; 1 << 20]);
    dir.write("out", "");
    dir
}

fn diff(dir: &TestDir, words: &[&str]) -> Finished {
    zctrace()
        .dir(dir.path())
        .option("diff")
        .launch_with(words)
        .finish()
}

#[test]
fn equal_runs_have_no_difference_and_another_interface_is_one() {
    let dir = two_files();
    save(&dir, "a.json", &copy(&["--reflink=never"]));
    save(&dir, "b.json", &copy(&["--reflink=auto"]));
    let same = diff(&dir, &["a.json", "a.json"]);
    assert!(
        same.code == Some(0) && same.text().contains("\nnothing changed: "),
        "{}",
        same.text()
    );
    let changed = diff(&dir, &["a.json", "b.json"]);
    assert_eq!(changed.code, Some(1), "{}", changed.text());
    assert!(
        changed.text().contains("  write.calls ")
            && changed
                .text()
                .contains("\n  - read + write, regular -> regular: "),
        "{}",
        changed.text()
    );
    let json = diff(&dir, &["--format=json", "a.json", "b.json"]);
    let json: Value = serde_json::from_str(json.text()).expect("JSON");
    assert_eq!(
        (&json["outcome"], &json["schema"]),
        (&Value::from("changed"), &Value::from(1))
    );
}

#[test]
fn a_command_is_run_and_compared_with_a_saved_report() {
    let dir = two_files();
    save(&dir, "a.json", &copy(&["--reflink=never"]));
    let same = diff(
        &dir,
        &["a.json", "--", "cp", "--reflink=never", "in", "out"],
    );
    assert!(
        same.code == Some(0) && same.text().is_empty() && same.stderr.contains("nothing changed: "),
        "{}",
        same.stderr
    );
    let changed = diff(&dir, &["a.json", "--", "sh", "-c", "echo hello; exit 3"]);
    assert!(
        changed.code == Some(1)
            && changed.text() == "hello\n"
            && changed.stderr.contains("  exit.code "),
        "{}",
        changed.stderr
    );
}

#[test]
fn what_is_no_report_is_refused() {
    let dir = TestDir::with("log", "nothing");
    let cases: [(&[&str], &str); 4] = [
        (&["none.json", "log"], "cannot open 'none.json'"),
        (
            &["log", "log"],
            "cannot read 'log': it is not a report of zctrace",
        ),
        (&["-", "-"], "stdin can be read only once"),
        (&["log"], "two reports are compared"),
    ];
    for (words, said) in cases {
        let finished = diff(&dir, words);
        assert!(
            finished.code == Some(125) && finished.stderr.contains(said),
            "{words:?}: {}",
            finished.stderr
        );
    }
}

/// The names of the calls that `workload sync` makes in each round, each in one report or another.
const SYNCED: [&str; 4] = ["openat", "newfstatat", "fsync", "close"];

/// Makes sure that each call of `workload sync` has 4,999 calls more, among these differences.
#[track_caller]
fn assert_4999_more(figures: &Value) {
    let figures = figures.as_array().expect("a list of differences");
    for call in SYNCED {
        let metric = format!("{call}.calls");
        let found = figures.iter().find(|figure| figure["metric"] == *metric);
        let found = found.unwrap_or_else(|| panic!("no {metric} in {figures:?}"));
        let [before, now] = ["baseline", "now"].map(|side| found[side].as_u64().expect("is known"));
        assert_eq!(
            (now - before, &found["state"]),
            (4999, &Value::from("beyond")),
            "{found}"
        );
    }
}

/// Calls that move no data have no rows, but they are compared as well.
#[test]
fn calls_without_rows_are_compared() {
    let dir = TestDir::new();
    let [once, often] = ["1", "5000"].map(|rounds| workload("sync").arg(rounds));
    save(&dir, "once.json", &once);
    save(&dir, "often.json", &often);
    let changed = diff(&dir, &["once.json", "often.json"]);
    assert_eq!(changed.code, Some(1), "{}", changed.text());
    for call in SYNCED {
        let mut lines = changed.text().lines();
        let line = lines.find(|line| line.trim().starts_with(&format!("{call}.calls ")));
        let line = line.unwrap_or_else(|| panic!("no {call}: {}", changed.text()));
        assert!(line.trim_end().ends_with("+4999"), "{line}");
    }
    let json = diff(&dir, &["--format=json", "once.json", "often.json"]);
    let json: Value = serde_json::from_str(json.text()).expect("JSON");
    assert_4999_more(&json["figures"]);
    let same = diff(&dir, &["often.json", "often.json"]);
    assert_eq!(same.code, Some(0), "{}", same.text());
}

#[test]
fn calls_without_rows_are_compared_with_a_baseline() {
    let dir = TestDir::new();
    save(&dir, "once.json", &workload("sync").arg("1"));
    let check = |rounds: &str| {
        zctrace()
            .dir(dir.path())
            .options(&["check", "--baseline=once.json", "--format=json"])
            .show(&workload("sync").arg(rounds))
    };
    let failed = check("5000");
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let results: Value = serde_json::from_str(failed.text()).expect("JSON");
    assert_4999_more(&results["checks"][0]["differences"]);
    assert_eq!(check("1").code, Some(0));
}

#[test]
fn calls_without_rows_are_compared_by_compare() {
    let [once, often] = ["1", "5000"].map(|rounds| {
        let program = workload("sync").arg(rounds);
        let words = program.words().iter();
        let words = words.map(|word| word.to_str().expect("text"));
        words.collect::<Vec<_>>().join(" ")
    });
    let compared = zctrace()
        .options(&["compare", "-N", "--runs=1", "--format=json"])
        .launch_with(&[&once, &often])
        .finish();
    let compared: Value = serde_json::from_str(compared.successful()).expect("JSON");
    assert_4999_more(&compared["commands"][1]["changes"]["figures"]);
}
