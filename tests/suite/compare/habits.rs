//! The options that users of hyperfine know.

use serde_json::{Value, json};

use super::{compare, compared};
use crate::harness::{TestDir, words};

fn each<'a>(found: &'a Value, figure: &str) -> Vec<&'a Value> {
    let commands = found["commands"].as_array().expect("a list");
    commands.iter().map(|command| &command[figure]).collect()
}

#[test]
fn a_command_runs_with_each_value_of_its_parameters() {
    let dir = TestDir::new();
    let options = words("--runs=1 -L n 1,22 --name=-{n}- -L to a,b");
    let options = [options, vec!["--setup", "touch a b"]].concat();
    let compare = compare(&options).option("--format=json").dir(dir.path());
    let finished = compare.finish_with(&["printf {n} >>{to}", "test -e a"]);
    let found = finished.exits(0).says_only("").json();
    let lines = [
        "printf 1 >>a",
        "printf 1 >>b",
        "printf 22 >>a",
        "printf 22 >>b",
        "test -e a",
    ];
    assert_eq!(
        each(&found, "command"),
        lines.map(|line| json!(line)).each_ref()
    );
    let names = ["-1-", "-1-", "-22-", "-22-", "test -e a"];
    assert_eq!(
        each(&found, "name"),
        names.map(|name| json!(name)).each_ref()
    );
    // Once timed and once traced.
    let written = [dir.read("a"), dir.read("b")].map(|text| text.len());
    assert_eq!(written, [6, 6]);
}

#[test]
fn lines_of_a_command_run_before_and_after_all_its_runs() {
    let dir = TestDir::new();
    for (command, status, expected) in [
        ("echo run >>log", 0, "up\nrun\nrun\nrun\ndown\n"),
        ("echo run >>log; exit 1", 125, "up\nrun\ndown\n"),
    ] {
        let compare = compare(&["--runs=2"]).dir(dir.path());
        let compare = compare.options(&["--setup", "echo up >>log"]);
        let compare = compare.options(&["--cleanup", "cat log >all; echo down >>all; rm log"]);
        compare.finish_with(&[command]).exits(status);
        assert_eq!(dir.read("all"), expected);
        dir.assert_has_only(&["all"]);
    }
    for (option, said) in [
        (
            "--setup=exit 4",
            "the --setup command 'exit 4' failed with exit status 4",
        ),
        (
            "--cleanup=exit 5",
            "the --cleanup command 'exit 5' failed with exit status 5",
        ),
    ] {
        let refused = compare(&["--runs=1", option]).refuses_words(&["true"]);
        refused.exits(125).says(said);
    }
}

#[test]
fn failures_can_be_ignored_and_are_told() {
    let found = compared(&["--runs=3", "-i"], &["exit 3", "true"]);
    let warnings = each(&found, "warnings");
    let warning = warnings[0][0].as_str().expect("a warning");
    assert!(
        warning.starts_with("3 of 3 runs did not succeed (the first failed with exit status 3)")
    );
    assert!(!warnings[1].to_string().contains("succeed"));
}

#[test]
fn the_number_of_runs_has_bounds() {
    let count = |options: &[&str]| {
        let found = compared(options, &["sleep 0.01"]);
        each(&found, "runs")[0].as_array().expect("a list").len()
    };
    assert_eq!(count(&["-M", "4"]), 4);
    assert_eq!(count(&["-m", "3", "-M", "3"]), 3);
    let refused = compare(&["-m", "5", "-M", "4"]).refuses_words(&["true"]);
    refused
        .exits(125)
        .says("--min-runs 5 is more than --max-runs 4");
    let refused = compare(&["-m", "5", "--runs=4"]).refuses_words(&["true"]);
    refused.exits(125).says("--runs");
}

#[test]
fn a_shell_can_be_chosen() {
    let dir = TestDir::new();
    let compare = compare(&["--runs=1", "-S", "bash --norc"]).dir(dir.path());
    let files = ["--export-json", "a.json", "--export-markdown", "a.md"];
    let only_bash = "[[ -n $BASH_VERSION ]]";
    let finished = compare.options(&files).finish_with(&[only_bash]);
    finished.exits(0);
    let json: Value = serde_json::from_str(&dir.read("a.json")).expect("JSON");
    assert_eq!(each(&json, "command"), [&json!(only_bash)]);
    assert!(dir.read("a.md").starts_with("| command |"));
    compared(&["--runs=1", "-S", "none"], &["true"]);
}

#[test]
fn a_parameter_that_no_command_has_is_refused() {
    let refused = compare(&["-L", "bs", "4k"]).refuses_words(&["dd bs={size}"]);
    refused
        .exits(125)
        .says("no command has the parameter 'bs': write {bs} where its values belong");
}
