//! The formats of the results in files and on GitHub.

use std::fs;

use super::{check, dir_with, run_in};
use crate::harness::{full, words};

const TWO: &str = r#"
[[check]]
name = "holds # not \\ <this> | \"that\""
command = ["true"]
expect = ["exit.code == 0"]
[[check]]
name = "fails"
command = "echo 'bad, \"luck\" <&>' >&2; exit 1"
expect = ["exit.code == 0", "write.calls == 0"]
"#;

#[test]
fn several_formats_can_be_exported_at_once_and_one_that_fails_does_not_stop_the_others() {
    let dir = dir_with(TWO);
    let options =
        "--export junit j.xml --export json full --export markdown m.md --export json r.json";
    full(dir.path());
    let finished = run_in(dir.path(), &words(options));
    // A failed check outranks a failed export.
    finished
        .exits(1)
        .says("zctrace: cannot write the report to 'full': ");
    finished.prints("2 checks: 1 passed, 1 failed\n");
    let (junit, markdown) = (dir.read("j.xml"), dir.read("m.md"));
    assert!(junit.starts_with("<?xml"), "{junit}");
    assert!(markdown.contains("| fails | ❌ failed |"), "{markdown}");
    let results: serde_json::Value = serde_json::from_str(&dir.read("r.json")).expect("JSON");
    assert_eq!(
        (&results["schema"], &results["checks"][1]["status"]),
        (&1.into(), &"failed".into())
    );
    assert_eq!(results["checks"][1]["stderr"][0], "bad, \"luck\" <&>");
    run_in(dir.path(), &["--export", "json", "full", "holds*"]).exits(2);
}

#[test]
fn reports_are_saved_by_the_name_of_their_check_and_every_result_has_figures() {
    let long = "long ".repeat(60);
    let cut = format!("{}%-d755af46650a7c25", &"long-".repeat(60)[..180]);
    let names = ["a b!", "a b?", "a-b", "../..", "日", &long];
    let files = ["a-b%21", "a-b%3F", "a%2Db", "%2E.%2F..", "%E6%97%A5", &cut];
    let check = |name| {
        format!(
            "[[check]]\nname = \"{name}\"\nwhy = \"It is so.\"\ncommand = [\"true\"]\nexpect = [\"write.calls == 1\"]\n"
        )
    };
    let dir = dir_with(&names.map(check).concat());
    let options = "--reports reports --label commit=1a2b --format json";
    let finished = run_in(dir.path(), &words(options));
    let results = finished.exits(1).json();
    assert_eq!(results["labels"]["commit"], "1a2b");
    assert_eq!(results["checks"][0]["why"], "It is so.");
    assert_eq!(results["checks"][0]["figures"]["same"]["execve.calls"], 1);
    for (name, file) in names.into_iter().zip(files) {
        let report: serde_json::Value =
            serde_json::from_str(&dir.read(format!("reports/{file}.json"))).expect("JSON");
        let labels = serde_json::json!({ "commit": "1a2b", "name": name });
        assert_eq!(report["labels"], labels);
    }
    run_in(dir.path(), &[]).prints("why: It is so.");
}

#[test]
fn annotations_are_written_for_github_actions_and_its_summary_is_appended_to() {
    let dir = dir_with(TWO);
    let annotated = |variable: &str, options: &[&str]| {
        let check = check(options).env("GITHUB_ACTIONS", variable);
        let check = check.env("GITHUB_STEP_SUMMARY", "summary.md");
        check.dir(dir.path()).finish()
    };
    dir.write("summary.md", "from the step before\n");
    let options = ["--export", "markdown", "summary.md", "--output=log"];
    let finished = annotated("true", &options);
    let summary = dir.read("summary.md");
    assert!(
        summary.starts_with("from the step before\n### zctrace: 2 checks"),
        "{summary}"
    );
    // The annotations go to stdout, where GitHub looks for them, not to the file.
    let file = fs::canonicalize(dir.join("zctrace.toml")).expect("is there");
    let place = format!("::error file={},line=", file.display());
    assert!(finished.text().starts_with(&place), "{finished}");
    let title = ",title=check 'fails' failed::fails: exit.code == 0%0A";
    finished.prints(title);
    assert!(!dir.read("log").contains("::error"));
    // In a repository, the file is one of it.
    let in_repository = check(&["--format=github"]).env("GITHUB_WORKSPACE", dir.path());
    let finished = in_repository.dir(dir.path()).finish();
    finished.prints("::error file=zctrace.toml,line=");
    annotated("", &[]).exits(1).never_prints("::error");
}
