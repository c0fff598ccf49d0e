use std::time::Duration;

use super::*;

const HEAD: &str = "[[check]]\nname = \"a\"\ncommand = [\"cp\", \"in\", \"out\"]\n";

fn parsed(text: &str) -> Result<Vec<Check>, FileError> {
    parse(text, Path::new("zctrace.toml"), Path::new("/base"))
}

#[test]
fn a_check_has_what_is_written_and_defaults() {
    let text = format!(
        "{HEAD}expect = ['write.calls == 0']\nfiles = [{{ path = 'in', size = '1MiB' }}, {{ path = 'd/x', content = 'hi' }}]\n"
    );
    let check = parsed(&text).expect("a file").remove(0);
    assert_eq!((check.name.as_str(), check.repeat, check.timeout), ("a", 1, Check::TIMEOUT));
    assert_eq!(check.files[0].content, Content::Random(1 << 20));
    assert_eq!(check.files[1].content, Content::Text("hi".into()));
    assert_eq!(check.syscalls(), "%data");
    assert_eq!(check.directory, None);
}

#[test]
fn a_line_is_for_the_shell() {
    let check =
        parsed("[[check]]\nname = 'a'\ncommand = 'cat in | wc'\nexpect = ['fsync.calls == 0']").expect("a file").remove(0);
    assert_eq!(check.command, ["sh", "-c", "cat in | wc"]);
    assert_eq!(check.syscalls(), "%data,fsync", "what is named is counted");
}

#[test]
fn everything_can_be_said() {
    let text = format!(
        "{HEAD}cwd = 'sub'\nenv = {{ A = '1' }}\nexpect = []\nrepeat = 3\nbackend = 'strace'\ntimeout = '2s'\ninferred = 'accept'\nsyscalls = 'read,write'\n\
         baseline = 'b.json'\ntolerance = {{ \"time.wall\" = '10%', 'read.*' = '2' }}"
    );
    let check = parsed(&text).expect("a file").remove(0);
    assert_eq!((check.repeat, check.timeout, check.backend), (3, Duration::from_secs(2), Choice::Strace));
    assert_eq!(check.inferred, Inferred::Accept);
    assert_eq!(check.directory.as_deref(), Some(Path::new("/base/sub")));
    assert_eq!(check.syscalls(), "read,write");
    assert_eq!(check.baseline.expect("given").path, Path::new("/base/b.json"));
}

#[test]
fn every_mistake_says_where() {
    let mistakes = [
        "x = 1",
        "[[check]]\nname = 'a'",
        "[[check]]\nname = 'a'\ncommand = 5",
        "[[check]]\nname = 'a'\ncommand = []",
        "[[check]]\nname = 'a'\ncommand = ['a",
        &format!("{HEAD}expekt = ['write.calls == 0']"),
        &format!("{HEAD}expect = ['write.calls == 0', \"read.cals == 0\"]"),
        &format!("{HEAD}expect = [\"read[file=\\\"a\\\"].cals == 0\"]"),
        &format!("{HEAD}expect = ['''\n  write.calls == 0\n  and raed.calls == 0''']"),
        HEAD,
        &format!("{HEAD}expect = ['exit.code == 0']\ntimeout = 'soon'"),
        &format!("{HEAD}expect = ['exit.code == 0']\nrepeat = 0"),
        &format!("{HEAD}expect = ['exit.code == 0']\nbackend = 'epbf'"),
        &format!("{HEAD}expect = ['exit.code == 0']\nsyscalls = 'raed'"),
        &format!("{HEAD}expect = ['fsync.calls == 0']\nsyscalls = 'read'"),
        &format!("{HEAD}expect = ['exit.code == 0']\nenv = {{ 'A=B' = '1' }}"),
        &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = '../in', size = '1MiB' }}]"),
        &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in' }}]"),
        &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1MB', fill = 'ones' }}]"),
        &format!("{HEAD}expect = ['exit.code == 0']\nfiles = [{{ path = 'in', size = '1TiB' }}]"),
        &format!("{HEAD}expect = ['exit.code == 0']\ncwd = '.'\nfiles = [{{ path = 'in', size = '1MB' }}]"),
        &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'raed.calls' = '1%' }}"),
        &format!("{HEAD}baseline = 'b.json'\ntolerance = {{ 'read.calls' = 'much' }}"),
        &format!("{HEAD}expect = ['exit.code == 0']\n{HEAD}expect = ['exit.code == 0']"),
    ];
    let text: Vec<String> = mistakes.iter().map(|text| parsed(text).map(drop).expect_err(text).to_string()).collect();
    crate::golden::compare(env!("CARGO_MANIFEST_DIR"), "check", "file-mistakes", &(text.join("\n\n") + "\n"));
}

#[test]
fn patterns_choose_checks() {
    let text = |name: &str| format!("[[check]]\nname = '{name}'\ncommand = ['true']\nexpect = ['exit.code == 0']\n");
    let all = parsed(&["cp small", "cp large", "mv"].map(text).concat()).expect("a file");
    let chosen = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        crate::check::choose(all.clone(), &patterns).map(|checks| checks.into_iter().map(|check| check.name).collect::<Vec<_>>())
    };
    assert_eq!(chosen(&[]).expect("all").len(), 3);
    assert_eq!(chosen(&["cp *"]), Ok(vec!["cp small".into(), "cp large".into()]));
    assert_eq!(chosen(&["mv", "cp *"]).expect("all").len(), 3);
    assert_eq!(chosen(&["cp *", "rm"]), Err("no check is called 'rm'; --list shows them all".into()));
}
