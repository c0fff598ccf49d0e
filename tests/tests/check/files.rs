//! Checks in a file: what they run in, and which of them.

use std::fs;

use super::{check, folder, results, run_in};

#[test]
fn files_are_made_in_a_folder_that_vanishes() {
    let folder = folder(
        r#"
[[check]]
name = "files"
command = 'test "$(stat -c %s in sub/zero | tr "\n" " ")" = "100000 10 " && test "$(cat text)" = hello && pwd > "$ZCTRACE_CHECK_DIR/where" && echo > new'
files = [
    { path = "in", size = "100000" },
    { path = "sub/zero", size = "10B", fill = "zero" },
    { path = "text", content = "hello" },
]
env = { UNUSED = "1" }
expect = ["exit.code == 0"]
"#,
    );
    let finished = run_in(folder.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    let used = fs::read_to_string(folder.path().join("where")).expect("was written");
    assert!(!std::path::Path::new(used.trim()).exists(), "{used} is left");
    assert!(used.contains("zctrace-check-"), "{used}");
}

#[test]
fn env_cwd_and_program_are_as_written() {
    let folder = folder(
        r#"
[[check]]
name = "where"
command = ["./tool", "in"]
cwd = "sub"
env = { GREETING = "hi there" }
expect = ["exit.code == 0", 'write[process="tool"].bytes >= 1 or write.bytes >= 1']
"#,
    );
    let sub = folder.path().join("sub");
    fs::create_dir(&sub).expect("ours");
    let tool = folder.path().join("tool");
    fs::write(&tool, "#!/bin/sh\ntest \"$GREETING\" = 'hi there' && test \"$(basename \"$PWD\")\" = sub && echo yes > \"$1\"\n")
        .expect("ours");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let finished = run_in(folder.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
    assert_eq!(fs::read_to_string(sub.join("in")).expect("was written"), "yes\n");
}

const THREE: &str = r#"
[[check]]
name = "cp small"
command = ["true"]
expect = ["exit.code == 0"]
[[check]]
name = "cp large"
command = ["false"]
expect = ["exit.code == 0"]
[[check]]
name = "mv"
command = ["sh", "-c", "exit 3"]
expect = ["exit.code == 3"]
"#;

#[test]
fn patterns_choose_and_a_list_runs_nothing() {
    let folder = folder(THREE);
    let found = results(&run_in(folder.path(), &["--format=json", "mv", "cp s*"]), 0);
    assert_eq!(found["checks"].as_array().map(Vec::len), Some(2));
    let found = results(&run_in(folder.path(), &["--format=json"]), 1);
    let statuses: Vec<_> = found["checks"].as_array().expect("three").iter().map(|check| check["status"].as_str()).collect();
    assert_eq!(statuses, [Some("passed"), Some("failed"), Some("passed")]);
    let list = run_in(folder.path(), &["--list"]);
    assert_eq!(list.successful(), "cp small: true\ncp large: false\nmv: sh -c 'exit 3'\n");
    // A file elsewhere, named.
    let path = folder.path().join("zctrace.toml");
    let words = [path.to_str().expect("text"), "cp large"];
    let finished = check(&["--format=json"]).launch_with(&words).finish();
    let show = results(&finished, 1)["checks"][0]["show"].clone();
    assert_eq!(show, format!("zctrace check {} 'cp large' --report", path.display()));
}

#[test]
fn variables_are_for_the_command_alone() {
    // It would keep zctrace from using eBPF.
    let folder = folder(
        "[[check]]\nname = 'a'\ncommand = 'test \"$ZCTRACE_BTF\" = /nonexistent'\nenv = { ZCTRACE_BTF = '/nonexistent' }\n\
         backend = 'ebpf'\nexpect = ['exit.code == 0']\n",
    );
    let finished = run_in(folder.path(), &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.text());
}

#[test]
fn the_whole_report_can_be_shown() {
    let folder = folder(THREE);
    let finished = run_in(folder.path(), &["mv", "--report"]);
    assert!(finished.successful().contains("zctrace: sh -c 'exit 3'\nexit 3, wall"), "{}", finished.text());
}

#[test]
fn what_is_left_running_is_ended_and_stderr_is_shown_on_failure() {
    let folder = folder(
        "[[check]]\nname = 'a'\ncommand = 'setsid sleep 1000 & echo $! > \"$ZCTRACE_CHECK_DIR/pid\"; echo bad luck >&2'\nexpect = ['exit.code == 1']\n",
    );
    let finished = run_in(folder.path(), &[]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.text().contains("bad luck"), "{}", finished.text());
    let pid = fs::read_to_string(folder.path().join("pid")).expect("was written");
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "still running");
}

#[test]
fn stderr_is_a_pipe_of_which_little_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("in"), vec![b'x'; 3_000_000]).expect("ours");
    let script = "head -c 3000000 in >&2; echo >&2; exit 3";
    let options = ["--expect=transfer(* -> regular).count == 0", "--expect=exit.code == 0", "--format=json"];
    let finished = super::of_script(&options, script).dir(dir.path()).finish();
    let found = results(&finished, 1);
    let verdicts: Vec<_> = (0..2).map(|index| found["checks"][0]["expectations"][index]["verdict"].clone()).collect();
    assert_eq!(verdicts, ["holds", "fails"]);
    let stderr = found["checks"][0]["stderr"].as_array().expect("lines").clone();
    assert!(stderr.len() == 1 && stderr[0].as_str().is_some_and(|line| line.chars().count() == 301), "{stderr:?}");
    // What never stops does not stop us.
    let endless = super::of_script(&["--expect=exit.code == 0", "--timeout=1s"], "yes >&2").finish();
    assert_eq!(endless.code, Some(2), "{}", endless.text());
    assert!(endless.text().contains("(timeout)") && endless.text().lines().filter(|line| line.trim() == "y").count() == 20);
}

#[test]
fn output_is_shown_on_request() {
    let folder = folder("[[check]]\nname = 'a'\ncommand = 'echo hello'\nexpect = ['exit.code == 0']\n");
    assert!(run_in(folder.path(), &["--show-output"]).successful().starts_with("hello\n"));
    assert!(!run_in(folder.path(), &[]).successful().contains("hello"));
}
