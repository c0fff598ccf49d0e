//! Help pages, versions, shell completions and the manual page.

use std::process::Command;

use crate::harness::{Finished, TestDir, binary, zctrace};

fn say(words: &[&str]) -> Finished {
    zctrace().launch_with(words).finish()
}

/// Runs a program on a file with this text: whether it succeeded, and what it wrote to both
/// streams.
fn judge(program: &str, options: &[&str], text: &str) -> (bool, String) {
    let dir = TestDir::new();
    let path = dir.write("zctrace.1", text);
    let output = Command::new(program)
        .args(options)
        .arg(&path)
        .env("LC_ALL", "C.UTF-8")
        .env("MANWIDTH", "80")
        .output();
    let output =
        output.unwrap_or_else(|error| panic!("no {program} ({error}): run `cargo xtask setup`"));
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), said.concat())
}

#[test]
fn the_short_version_is_one_line_and_the_long_one_names_the_backends() {
    let short = say(&["-V"]);
    assert_eq!(
        short.successful(),
        format!("zctrace {}\n", env!("CARGO_PKG_VERSION"))
    );
    let long = say(&["--version"]);
    let lines: Vec<&str> = long.successful().lines().collect();
    let [name, ebpf, strace] = lines[..] else {
        panic!("three lines: {lines:?}")
    };
    assert_eq!(name, short.text().trim_end());
    assert!(ebpf.starts_with("ebpf: in it ("), "{ebpf}");
    let theirs = Command::new("strace")
        .arg("--version")
        .output()
        .expect("is there")
        .stdout;
    let theirs = String::from_utf8_lossy(&theirs)
        .lines()
        .next()
        .and_then(|line| line.rsplit(' ').next().map(str::to_owned));
    assert!(
        strace.starts_with(&format!("strace: {} (/", theirs.expect("has a version"))),
        "{strace}"
    );
}

#[test]
fn a_version_option_after_two_dashes_goes_to_the_command() {
    let finished = zctrace()
        .option("--output=/dev/null")
        .launch_with(&["--", "echo", "--version"])
        .finish();
    assert!(!finished.successful().contains("ebpf"));
}

#[test]
fn the_long_version_says_if_strace_is_not_found() {
    let dir = TestDir::new();
    let finished = zctrace()
        .env("PATH", dir.path())
        .launch_with(&["--version"])
        .finish();
    assert!(
        finished.successful().ends_with("\nstrace: not found\n"),
        "{}",
        finished.text()
    );
}

#[test]
fn every_help_page_has_examples_and_fits_80_columns() {
    let listed = say(&["--help"]);
    let commands = listed
        .successful()
        .split("Commands:\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next())
        .expect("a list");
    let names: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .collect();
    let names: Vec<&str> = names
        .into_iter()
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(names.len() >= 7 && names.contains(&"compare"), "{names:?}");
    for words in names
        .iter()
        .map(|name| vec![*name, "--help"])
        .chain([vec!["--help"]])
    {
        let help = zctrace().env("COLUMNS", "80").launch_with(&words).finish();
        let text = help.successful();
        assert!(
            text.contains("\nExamples:\n  zctrace "),
            "{words:?}: {text}"
        );
        let examples = text.split("\nExamples:\n").nth(1).expect("is there");
        let is_wrapped =
            |line: &&str| line.starts_with(char::is_lowercase) && !line.starts_with("zctrace");
        assert_eq!(
            examples
                .split("\n\n")
                .next()
                .expect("a block")
                .lines()
                .find(is_wrapped),
            None,
            "{words:?}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{words:?}: {text}"
        );
    }
}

#[test]
fn bash_completes_options_values_and_commands() {
    let script = r#"
        source <("$1" completions bash) || exit 1
        complete -p zctrace || exit 1
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _zctrace zctrace "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[*]}"; }
        try zctrace --back
        try zctrace --backend e
        try zctrace comp
        try zctrace report --form
        try zctrace --bou
    "#;
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(binary())
        .output()
        .expect("bash is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        ["--backend", "ebpf", "compare completions", "--format", ""]
    );
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = say(&["completions", shell]);
        assert!(
            script.successful().contains("wait-all") && !script.text().contains("bound"),
            "{shell}"
        );
    }
    // If the script completed a command to trace before the subcommands, that would take every
    // word.
    let zsh = say(&["completions", "zsh"]);
    let (root, _) = zsh
        .successful()
        .split_once("_zctrace_commands")
        .expect("has subcommands");
    assert!(!root.contains("The command and its arguments"), "{root}");
    assert!(
        say(&["completions", "fish"])
            .successful()
            .contains("-a \"bash elvish fish powershell zsh\"")
    );
    let finished = say(&["completions", "tcsh"]);
    assert!(
        finished.code == Some(125) && finished.stderr.contains("it is one of bash"),
        "{}",
        finished.stderr
    );
}

#[test]
fn groff_man_and_lexgrog_accept_the_manual_page() {
    let page = say(&["man"]);
    let page = page.successful();
    for (program, options) in [
        ("groff", ["-man", "-Tutf8", "-ww"].as_slice()),
        ("man", &["--warnings", "-l"]),
    ] {
        let (is_good, text) = judge(program, options, page);
        assert!(
            is_good && !text.contains("warning") && !text.contains("error:"),
            "{program}: {text}"
        );
        let text = strip_overstrikes(&text);
        for part in [
            "ZCTRACE COMPARE",
            "ZCTRACE REPORT",
            "EXAMPLES",
            "--wait-all",
            "--export",
            "  zctrace cp big.iso /mnt/",
        ] {
            assert!(text.contains(part), "{program} shows no {part:?}: {text}");
        }
    }
    let (is_good, text) = judge("lexgrog", &[], page);
    assert!(is_good && text.contains("zctrace - "), "{text}");
}

/// The text as a terminal shows it, without colours and overstrikes.
fn strip_overstrikes(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{8}' => drop(shown.pop()),
            '\u{1b}' => while rest.next().is_some_and(|c| c != 'm') {},
            '\u{2010}' | '\u{2212}' => shown.push('-'),
            _ => shown.push(c),
        }
    }
    shown
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_not_an_error() {
    let script = format!(
        "for words in man schema 'completions bash'; do '{}' $words | head -n 1 > /dev/null; echo ${{PIPESTATUS[0]}}; done",
        binary().display()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .output()
        .expect("bash is there");
    assert_eq!(
        (
            String::from_utf8_lossy(&output.stdout).as_ref(),
            output.stderr.len()
        ),
        ("0\n0\n0\n", 0)
    );
}
