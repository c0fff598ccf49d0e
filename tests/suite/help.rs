//! Help pages, versions, shell completions and the manual page.

use zctrace::backend::ebpf::embedded_object;

use crate::harness::{Finished, TestDir, binary, program, shell, untraced, zctrace};

fn say(words: &[&str]) -> Finished {
    zctrace().finish_with(words)
}

#[test]
fn the_short_version_is_one_line_and_the_long_one_names_the_backend_that_may_be_missing() {
    let short = format!("zctrace {}\n", env!("CARGO_PKG_VERSION"));
    say(&["-V"]).exits(0).prints_only(&short);
    let long = say(&["--version"]);
    assert!(long.successful().starts_with(&short), "{long}");
    let lines = long.prints("\nebpf: in it (").text().lines().count();
    assert_eq!(lines, 2);
    // After two dashes, the option goes to the command.
    let echo = program("echo").arg("--version");
    let finished = zctrace().option("--output=/dev/null").show(&echo);
    finished.exits(0).never_prints("ebpf");
}

#[test]
fn the_doctor_shows_the_checksum_of_the_programs_and_where_they_come_from() {
    let dir = TestDir::with("object", embedded_object());
    let sum = untraced(&program("sha256sum").arg(dir.join("object"))).finish();
    let sum = sum.successful().split(' ').next().unwrap_or_default();
    let shown = format!("programs: built from its sources, SHA-256 {sum}, by rustc ");
    say(&["doctor"]).prints(&shown);
}

#[test]
fn every_help_page_has_examples_and_fits_80_columns() {
    let listed = say(&["--help"]);
    let commands = listed.successful().split("Commands:\n").nth(1);
    let commands = commands
        .and_then(|rest| rest.split("\n\n").next())
        .expect("a list");
    let names: Vec<&str> = (commands.lines())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(names.len() >= 7 && names.contains(&"compare"), "{names:?}");
    let pages = names.iter().map(|name| vec![*name, "--help"]);
    for words in pages.chain([vec!["--help"]]) {
        let help = zctrace().env("COLUMNS", "80").finish_with(&words);
        let text = help.successful();
        let examples = text.split("\nExamples:\n").nth(1).expect("examples");
        assert!(examples.starts_with("  zctrace "), "{words:?}: {text}");
        let examples = examples.split("\n\n").next().expect("a block");
        let is_wrapped = |line: &&str| !line.starts_with("  ");
        assert_eq!(examples.lines().find(is_wrapped), None, "{words:?}");
        let is_narrow = text.lines().all(|line| line.chars().count() <= 80);
        assert!(is_narrow, "{words:?}: {text}");
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
        try zctrace --reco
    "#;
    let bash = program("bash").args(&["-c", script, "bash"]).arg(binary());
    let finished = untraced(&bash).finish();
    let lines: Vec<&str> = finished.successful().lines().skip(1).collect();
    let completed = ["--backend", "ebpf", "compare completions", "--format", ""];
    assert_eq!(lines, completed);
    finished.says_only("");
}

#[test]
fn every_shell_has_completions() {
    for name in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = say(&["completions", name]);
        script.exits(0).prints("wait-all").never_prints("recorded");
    }
    // If the script completed a command to trace before the subcommands, that would take every
    // word.
    let zsh = say(&["completions", "zsh"]);
    let parts = zsh.successful().split_once("_zctrace_commands");
    let (root, _) = parts.expect("has subcommands");
    assert!(
        !root.contains("The command to run, with its arguments"),
        "{root}"
    );
    let tcsh = say(&["completions", "tcsh"]);
    tcsh.exits(125).says("use one of bash");
}

#[test]
fn groff_man_and_lexgrog_accept_the_manual_page() {
    let dir = TestDir::with("zctrace.1", say(&["man"]).successful());
    let parts = [
        "ZCTRACE COMPARE",
        "ZCTRACE REPORT",
        "Examples:",
        "--wait-all",
        "--export",
        "  zctrace cp big.iso /mnt/",
    ];
    // As plain text, without warnings.
    let plain = "groff -Kutf8 -man -Tascii -ww -P-cbou zctrace.1";
    for (line, parts) in [
        (plain, &parts[..]),
        ("man --warnings -l zctrace.1", &["Examples:"]),
        ("lexgrog zctrace.1", &["zctrace - "]),
    ] {
        let reader = untraced(&shell(line)).dir(dir.path());
        let reader = reader.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80");
        reader.finish().exits(0).says_only("").prints_all(parts);
    }
}
