//! Comparisons with a baseline, and which runs become one.

use super::{dir_with, run_in, words_in};
use crate::harness::{Finished, TestDir};

/// A `dd` that prints nothing: it would print the time that it took, whose length differs from run
/// to run.
const DD: [&str; 5] = ["dd", "status=none", "if=in", "of=out", "bs=100000"];

/// The same in smaller pieces.
const SMALLER: [&str; 5] = ["dd", "status=none", "if=in", "of=out", "bs=50000"];

fn compared(dir: &TestDir, options: &[&str], words: &[&str]) -> Finished {
    words_in(dir, &[&["--baseline=b.json"], options].concat(), words)
}

/// A directory with a file, and the baseline of a copy of that file.
fn with_baseline() -> TestDir {
    let dir = TestDir::with("in", vec![1; 300_000]);
    let finished = compared(&dir, &["--update"], &DD);
    finished
        .exits(0)
        .says_only("zctrace: wrote the baseline 'b.json'\n");
    dir
}

#[test]
fn an_equal_run_passes_and_differences_are_shown_as_a_table() {
    let dir = with_baseline();
    compared(&dir, &["--repeat=2"], &DD).exits(0);
    let words = "differ from the baseline,figure,write.calls,change,exact";
    let words: Vec<&str> = words.split(',').collect();
    let other = compared(&dir, &[], &SMALLER);
    other.exits(1).prints_all(&words).never_prints("time.wall");
}

#[test]
fn each_figure_can_have_its_own_tolerance() {
    let dir = with_baseline();
    let tolerances = ["--tolerance=*.calls=200%", "--tolerance=*.bytes=1KiB"];
    let tolerant = compared(&dir, &tolerances, &SMALLER);
    tolerant
        .exits(0)
        .prints("within their tolerance: read.calls, write.calls");
    let strict = compared(&dir, &["--tolerance=time.wall=0.001%"], &DD);
    strict.exits(1).prints("\n    time.wall ");
    let unknown = compared(&dir, &["--tolerance=raed.calls=5"], &DD);
    unknown.exits(2).says_only(
        "zctrace: --tolerance: no figure that is compared with a baseline is called 'raed.calls'; did you mean 'read.calls'?\n",
    );
}

#[test]
fn a_run_that_is_not_exact_is_inconclusive_and_does_not_become_a_baseline() {
    let dir = with_baseline();
    compared(&dir, &["--max-rows=1"], &DD).exits(3);
    let dir = TestDir::with("in", vec![1; 300_000]);
    let lossy = compared(&dir, &["--update", "--max-rows=1"], &DD);
    let why = "the baseline 'b.json' is not updated: its figures would be lower bounds";
    lossy.exits(3).says(why);
    assert!(!dir.join("b.json").exists());
}

#[test]
fn a_failed_check_does_not_become_a_baseline() {
    let dir = TestDir::new();
    let failed = compared(&dir, &["--update", "--expect=exit.code == 0"], &["false"]);
    let why = "zctrace: the baseline 'b.json' is not updated: its check failed\n";
    failed.exits(1).says_only(why);
    dir.assert_has_only(&[]);
}

#[test]
fn a_missing_or_invalid_baseline_is_refused() {
    for (content, words) in [
        (
            None,
            "there is no baseline 'b.json' yet; --update writes it",
        ),
        (
            Some("{\"schema\": 99}"),
            "cannot read 'b.json': it has schema 99; this zctrace reads schema",
        ),
        (
            Some("not json"),
            "cannot read 'b.json': it is not a report of zctrace",
        ),
    ] {
        let dir = TestDir::new();
        if let Some(content) = content {
            dir.write("b.json", content);
        }
        let refused = compared(&dir, &[], &["touch", "it-ran"]);
        refused.exits(2).says(words).in_one_line();
        assert!(!dir.join("it-ran").exists());
    }
}

#[test]
fn in_a_file_of_checks_the_last_matching_tolerance_wins() {
    let status = |tolerance: &str| {
        let toml = format!(
            "[[check]]\nname = 'a'\ncommand = ['true']\nbaseline = 'a.json'\ntolerance = {{ {tolerance} }}\n"
        );
        let dir = dir_with(&toml);
        run_in(dir.path(), &[])
            .exits(2)
            .says("there is no baseline");
        run_in(dir.path(), &["--update"]).exits(0);
        dir.write("zctrace.toml", toml.replace("true", "false"));
        run_in(dir.path(), &[]).code
    };
    assert_eq!(status("'exit.code' = '1', '*' = 'ignore'"), Some(0));
    assert_eq!(status("'*' = 'ignore', 'exit.code' = '0'"), Some(1));
}
