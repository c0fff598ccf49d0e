//! A command beside a saved report of it.

use std::{fs, path::Path};

use super::{check, folder, results, run_in};
use crate::harness::Finished;

fn compared(dir: &Path, options: &[&str], words: &[&str]) -> Finished {
    let command: Vec<&str> = ["--"].iter().chain(words).copied().collect();
    check(&[&["--baseline=b.json"], options].concat()).dir(dir).launch_with(&command).finish()
}

/// A folder with a file, and the baseline of a copy of it.
fn with_baseline() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("in"), vec![1; 300_000]).expect("ours");
    let finished = compared(dir.path(), &["--update"], &DD);
    assert_eq!(finished.code, Some(0), "{} {}", finished.text(), finished.stderr);
    assert_eq!(finished.stderr, "zctrace: wrote the baseline 'b.json'\n");
    dir
}

/// It says nothing: how long it took is not as many characters each time.
const DD: [&str; 5] = ["dd", "status=none", "if=in", "of=out", "bs=100000"];

#[test]
fn the_same_again_passes_and_anything_else_is_shown_as_a_table() {
    let dir = with_baseline();
    let same = compared(dir.path(), &["--repeat=2"], &DD);
    assert_eq!(same.code, Some(0), "{}", same.text());
    let other = compared(dir.path(), &[], &["dd", "status=none", "if=in", "of=out", "bs=50000"]);
    assert_eq!(other.code, Some(1), "{}", other.text());
    let text = other.text();
    for words in ["differ from the baseline", "figure", "write.calls", "differs", "exact"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(!text.contains("time.wall"), "{text}");
}

#[test]
fn tolerances_are_by_figure() {
    let dir = with_baseline();
    let other = ["dd", "status=none", "if=in", "of=out", "bs=50000"];
    let tolerant = compared(dir.path(), &["--tolerance=*.calls=200%", "--tolerance=*.bytes=1KiB"], &other);
    assert_eq!(tolerant.code, Some(0), "{}", tolerant.text());
    assert!(tolerant.text().contains("within their tolerance: read.calls, write.calls"), "{}", tolerant.text());
    let strict = compared(dir.path(), &["--tolerance=time.wall=0.001%"], &DD);
    assert_eq!(strict.code, Some(1), "{}", strict.text());
    assert!(strict.text().contains("time.wall (ns)"), "{}", strict.text());
    let unknown = compared(dir.path(), &["--tolerance=raed.calls=5"], &DD);
    assert_eq!(unknown.code, Some(2));
    assert_eq!(unknown.stderr, "zctrace: --tolerance: unknown system call 'raed'; did you mean 'read'?\n");
}

#[test]
fn a_lower_bound_does_not_become_a_baseline() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("in"), vec![1; 300_000]).expect("ours");
    let finished = compared(dir.path(), &["--update", "--max-rows=1"], &DD);
    assert_eq!(finished.code, Some(3), "{}", finished.text());
    assert!(
        finished.stderr.contains("the baseline 'b.json' stays as it is: its figures would be lower bounds"),
        "{}",
        finished.stderr
    );
    assert!(!dir.path().join("b.json").exists());
}

#[test]
fn a_signal_is_another_end_than_a_status() {
    let dir = with_baseline();
    let tolerant = ["--tolerance=*=ignore", "--tolerance=exit.*=0"];
    let killed = compared(dir.path(), &tolerant, &["sh", "-c", "kill -SEGV $$"]);
    assert_eq!(killed.code, Some(1), "{}", killed.text());
    assert!(killed.text().contains("exit.signal") && killed.text().contains("none"), "{}", killed.text());
}

#[test]
fn the_last_tolerance_in_a_file_counts() {
    let one = |tolerance: &str| {
        let toml = format!("[[check]]\nname = 'a'\ncommand = ['false']\nbaseline = 'a.json'\ntolerance = {{ {tolerance} }}\n");
        let folder = folder(&toml);
        assert_eq!(run_in(folder.path(), &["--update"]).code, Some(0));
        fs::write(folder.path().join("zctrace.toml"), toml.replace("false", "true")).expect("ours");
        run_in(folder.path(), &[]).code
    };
    assert_eq!(one("'exit.code' = '1', '*' = 'ignore'"), Some(0));
    assert_eq!(one("'*' = 'ignore', 'exit.code' = '0'"), Some(1));
}

#[test]
fn what_is_not_exact_is_inconclusive() {
    let dir = with_baseline();
    let finished = compared(dir.path(), &["--max-rows=1", "--format=json"], &DD);
    let found = results(&finished, 3);
    assert_eq!(found["checks"][0]["status"], "inconclusive");
}

#[test]
fn a_baseline_that_is_none_says_so() {
    let refused = |content: Option<&str>, words: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        if let Some(content) = content {
            fs::write(dir.path().join("b.json"), content).expect("ours");
        }
        let finished = compared(dir.path(), &[], &["touch", "it-ran"]);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(words) && finished.stderr.lines().count() == 1, "no {words:?} in {}", finished.stderr);
        assert!(!dir.path().join("it-ran").exists());
    };
    refused(None, "there is no baseline 'b.json' yet: --update writes it");
    refused(Some("{\"schema\": 99}"), "'b.json' has schema 99, this zctrace reads schema 1");
    refused(Some("[1, 2]"), "'b.json' is no report of zctrace");
    refused(Some("not json"), "'b.json' is no report of zctrace");
}

#[test]
fn a_failed_check_does_not_become_a_baseline() {
    let dir = tempfile::tempdir().expect("a directory");
    let finished = compared(dir.path(), &["--update", "--expect=exit.code == 0"], &["false"]);
    assert_eq!(finished.code, Some(1));
    assert_eq!(finished.stderr, "zctrace: the baseline 'b.json' stays as it is: its check failed\n");
    assert!(!dir.path().join("b.json").exists());
}

#[test]
fn a_file_of_checks_has_baselines_too() {
    let folder = folder("[[check]]\nname = 'a'\ncommand = ['true']\nbaseline = 'a.json'\ntolerance = { '*' = 'ignore' }\n");
    assert_eq!(run_in(folder.path(), &[]).code, Some(2), "not there yet");
    assert_eq!(run_in(folder.path(), &["--update"]).code, Some(0));
    assert_eq!(run_in(folder.path(), &[]).code, Some(0));
}
