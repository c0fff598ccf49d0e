//! What a user types, and what must come of it: the files in `tests/sessions`.
//!
//! A file is a list of cases. Each case runs in an empty directory of its own, where `zctrace` and the
//! workloads are on the `PATH`, and `$SOURCES` is the repository. A case with `$BACKEND` in it runs once
//! under each backend.
//!
//! ```text
//! # A comment. Commands before the first case run before each command of the file.
//! ## the name of a case
//! $ a command of bash, with `pipefail`
//! > its next line
//! exit 3                  its exit status; without this line, 0
//! out: text               stdout contains it; `\n` is a line break, `\t` a tab
//! no out: text            stdout does not contain it
//! out = a line            all such lines together are stdout; `out =` alone: it is empty
//! err: text               the same for stderr, with `no err:` and `err =`
//! refused 125: text       zctrace says why in one line, with this text, and leaves nothing behind
//! ```

use std::{fmt::Write as _, fs, path::Path};

use crate::harness::{BACKENDS, Finished, TestDir, binary, program};

/// What is typed, and what must come of it.
struct TypedCommand {
    line: usize,
    script: String,
    expected: Vec<String>,
}

/// Commands that are typed in one directory.
struct TypedCase {
    name: String,
    commands: Vec<TypedCommand>,
}

/// Reads a file: the commands before each command, and the cases.
fn read(text: &str) -> (String, Vec<TypedCase>) {
    let (mut before, mut cases) = (String::new(), Vec::<TypedCase>::new());
    for (line, text) in (1..).zip(text.lines()) {
        let of_case = cases.last_mut().map(|case| &mut case.commands);
        if let Some(name) = text.strip_prefix("## ") {
            let (name, commands) = (name.to_owned(), Vec::new());
            cases.push(TypedCase { name, commands });
        } else if text.is_empty() || text.starts_with('#') {
        } else if let Some(typed) = text.strip_prefix("$ ").or(text.strip_prefix("> ")) {
            let script = match of_case {
                None => &mut before,
                Some(commands) => {
                    if text.starts_with('$') {
                        let (script, expected) = (String::new(), Vec::new());
                        commands.push(TypedCommand {
                            line,
                            script,
                            expected,
                        });
                    }
                    &mut commands.last_mut().expect("a command").script
                }
            };
            let _ = writeln!(script, "{typed}");
        } else {
            let command = of_case.and_then(|commands| commands.last_mut());
            let command = command.unwrap_or_else(|| panic!("line {line} is of no command"));
            command.expected.push(text.to_owned());
        }
    }
    (before, cases)
}

/// What stdout or stderr must be, if lines with this start say so.
fn whole(expected: &[String], start: &str) -> Option<String> {
    let lines = expected.iter().filter_map(|line| line.strip_prefix(start));
    let lines: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!lines.is_empty()).then(|| match lines[..] {
        [""] => String::new(),
        _ => lines.join("\n") + "\n",
    })
}

/// Whether zctrace has said in one line, with this text, why it refuses.
fn is_refusal(finished: &Finished, text: &str) -> bool {
    let (stdout, stderr) = (&finished.stdout, &finished.stderr);
    let is_line = stderr.lines().count() == 1 && stderr.ends_with('\n');
    stdout.is_empty() && is_line && stderr.starts_with("zctrace: ") && stderr.contains(text)
}

/// Whether a line of a case holds. `is_same` says that the command has left nothing behind.
fn holds(expected: &str, finished: &Finished, is_same: bool) -> bool {
    let stdout = String::from_utf8_lossy(&finished.stdout);
    let (key, text) = expected.split_once(": ").unwrap_or((expected, ""));
    let text = text.replace("\\n", "\n").replace("\\t", "\t");
    match key {
        "out" => stdout.contains(&text),
        "no out" => !stdout.contains(&text),
        "err" => finished.stderr.contains(&text),
        "no err" => !finished.stderr.contains(&text),
        _ if key.starts_with("refused ") => is_same && is_refusal(finished, &text),
        _ => {
            key.starts_with("exit ")
                || expected.starts_with("out =")
                || expected.starts_with("err =")
        }
    }
}

/// The exit status that a command must have.
fn status(expected: &[String]) -> i32 {
    let status = |line: &String| {
        let status = line
            .strip_prefix("exit ")
            .or(line.strip_prefix("refused "))?;
        status.split(':').next()?.parse().ok()
    };
    expected.iter().find_map(status).unwrap_or(0)
}

/// What a command should have done, and did not.
fn unmet(expected: &[String], finished: &Finished, is_same: bool) -> Vec<String> {
    let status = status(expected);
    let mut unmet: Vec<String> = Vec::new();
    if finished.code != Some(status) {
        unmet.push(format!("exit {status}"));
    }
    if finished.stderr.contains("panicked") {
        unmet.push("no err: panicked".to_owned());
    }
    for (start, found) in [
        ("out =", &finished.stdout[..]),
        ("err =", finished.stderr.as_bytes()),
    ] {
        if whole(expected, start).is_some_and(|text| text.as_bytes() != found) {
            unmet.push(format!("{start} ..."));
        }
    }
    let others = expected
        .iter()
        .filter(|line| !holds(line, finished, is_same));
    unmet.extend(others.cloned());
    unmet
}

/// Runs the commands of a case, and returns what was wrong.
fn wrong_in(case: &TypedCase, before: &str, backend: &str) -> Vec<String> {
    let dir = TestDir::new();
    let programs = [binary(), env!("CARGO_BIN_EXE_workload").into()];
    let programs = programs.map(|path| path.with_file_name("").display().to_string());
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", programs.join(":"));
    let backend = backend.trim_start_matches("--backend=");
    let wrong = case.commands.iter().map(|command| {
        let names = dir.names();
        let script = format!("set -o pipefail\n{before}{}", command.script);
        let bash = program("bash").args(&["-c", &script]).dir(dir.path());
        let bash = bash.env("BACKEND", backend).env("PATH", &path);
        let bash = bash.env("SOURCES", concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let finished = bash.finish();
        let place = dir.path().canonicalize().expect("it is there");
        let place = place.display().to_string();
        let fill = |line: &String| line.replace("$BACKEND", backend).replace("$PWD", &place);
        let expected: Vec<String> = command.expected.iter().map(fill).collect();
        let unmet = unmet(&expected, &finished, dir.names() == names);
        let about = format!("{}, line {}, {backend}", case.name, command.line);
        (!unmet.is_empty()).then(|| format!("{about}: not {unmet:#?}: {finished}"))
    });
    wrong.flatten().collect()
}

/// Runs all cases of a file.
fn run(file: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions");
    let text = fs::read_to_string(directory.join(file)).expect(file);
    let (before, cases) = read(&text);
    assert!(!cases.is_empty(), "{file} has no case");
    let mut wrong = Vec::new();
    for case in &cases {
        println!("{}", case.name);
        assert!(!case.commands.is_empty(), "{} has no command", case.name);
        let mut commands = case.commands.iter();
        let is_of_both = commands.any(|command| command.script.contains("$BACKEND"));
        for backend in &BACKENDS[..if is_of_both { 2 } else { 1 }] {
            wrong.extend(wrong_in(case, &before, backend));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test for each file.
macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(concat!(stringify!($name), ".txt"));
        })*

        #[test]
        fn every_file_is_run() {
            let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions"));
            let files = files.expect("they are there").map(|file| file.expect("readable").file_name());
            let mut files: Vec<String> = files.map(|name| name.into_string().expect("text")).collect();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($name), ".txt")),*]);
        }
    };
}

sessions! {
    action callers check_baselines check_endings check_files check_formats check_results compare
    compare_failures diff durable help labels launcher links marks output page paths privileges
    profiles public_answers public_programs refusals saved_reports sizes strace_backend syncs
    unsupported_kernels usage_errors
}

#[test]
fn an_expectation_that_does_not_hold_is_found() {
    for expected in [
        "exit 1",
        "out: b",
        "no out: a",
        "out =",
        "out = b",
        "err: c",
        "no err: x",
        "err =",
        "err = c",
        "refused 0: x",
        "typo: a",
        "out = a\nout = b",
    ] {
        let text = format!("## a\n$ echo a; echo x >&2\n{expected}\n");
        let (before, cases) = read(&text);
        assert_eq!(wrong_in(&cases[0], &before, "").len(), 1, "{expected}");
    }
    let text = "$ f() { echo a; }\n## a\n$ f; echo 'b\n> c'; echo zctrace: x >&2; exit 3\nexit 3\nout: b\\nc\nout = a\nout = b\nout = c\nerr: x\n\
        $ echo zctrace: y >&2; exit 2\nrefused 2: y\n$ echo zctrace: y >&2; touch new; exit 2\nrefused 2: y\n";
    let (before, cases) = read(text);
    let wrong = wrong_in(&cases[0], &before, "");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("refused 2: y"), "{wrong:?}");
}
