//! `zctrace diff`: two saved reports, or a saved one and a command.

use serde_json::Value;

use crate::harness::{Finished, Program, TestDir, program, zctrace};

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
